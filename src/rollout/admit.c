/* admit.c - see admit.h. */
#include "rollout/admit.h"

#include "arrow/schema.h"
#include "rollout/base_table.h"
#include "rollout/blob.h"
#include "rollout/cell.h"
#include "rollout/id_map.h"
#include "rollout/records_json.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PIECE_BYTES = 16 * 1024 };

#define ID      LK_RECORD_COLUMN_id
#define PAYLOAD LK_RECORD_COLUMN_binary_payload
#define TIME    LK_RECORD_COLUMN_created_at

typedef struct admission {
    lk_rollout_snapshot      *snapshot;
    lk_rollout_conflict       policy;
    const struct ArrowSchema *schema, *found_schema; /* of requests; of what the snapshot finds */
    lk_id_map                *group;      /* ids of the adds before; place: index of the add, row */
    lk_id_map                *own;        /* of the add at hand, until it is let in */
    lk_rollout_add          **adds;       /* by index */
    uint8_t                 **selections; /* of each add's rows: written or not */
    bool                     *misfits;    /* adds that the table cannot take */
    struct ArrowArray         found;      /* rows of the snapshot with ids of the group */
    lk_id_map                *found_ids;
    lk_arena                 *arena;
} admission;

static const lk_rollout_request *request_of(const lk_rollout_add *add)
{
    return add->what;
}

static const struct ArrowArray *batch_of(const lk_rollout_add *add)
{
    return lk_shared_array_get(request_of(add)->records);
}

static int64_t count_of(const lk_rollout_add *add)
{
    return request_of(add)->count;
}

/* Where an add's row is in its batch. */
static int64_t at(const lk_rollout_add *add, int64_t row)
{
    return request_of(add)->first + row;
}

static lk_bytes id_of(const lk_rollout_add *add, int64_t row)
{
    return lk_cell_text(batch_of(add)->children[ID], at(add, row));
}

/* -- equal records ------------------------------------------------------------------------------------------------- */

/* The record as JSON, which leaves out nulls and the payload; without its time when asked. */
static void describe(const struct ArrowSchema *schema, const struct ArrowArray *batch, int64_t row,
    bool with_time, lk_buf *out)
{
    if (with_time) {
        lk_record_write_json(schema, batch, row, out);
        return;
    }
    struct ArrowSchema   few_schema = *schema;
    struct ArrowArray    few = *batch;
    struct ArrowSchema **fields = calloc((size_t)schema->n_children + 1, sizeof(struct ArrowSchema *));
    struct ArrowArray  **columns = calloc((size_t)schema->n_children + 1, sizeof(struct ArrowArray *));
    LK_ASSERT(fields != NULL && columns != NULL);
    few_schema.n_children = few.n_children = 0;
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (strcmp(schema->children[i]->name, lk_record_column_name(TIME)) != 0) {
            fields[few_schema.n_children++] = schema->children[i];
            columns[few.n_children++] = batch->children[i];
        }
    }
    few_schema.children = fields;
    few.children = columns;
    lk_record_write_json(&few_schema, &few, row, out);
    free(fields);
    free(columns);
}

static bool same_text(const struct ArrowSchema *schema_a, const struct ArrowArray *a, int64_t row_a,
    const struct ArrowSchema *schema_b, const struct ArrowArray *b, int64_t row_b, bool with_time)
{
    lk_buf left = {0}, right = {0};
    describe(schema_a, a, row_a, with_time, &left);
    describe(schema_b, b, row_b, with_time, &right);
    bool same = lk_bytes_equal(lk_buf_view(&left), lk_buf_view(&right));
    lk_buf_deinit(&left);
    lk_buf_deinit(&right);
    return same;
}

/* false: null. */
static bool payload_at(const struct ArrowArray *column, int64_t row, lk_bytes *out)
{
    if (!lk_cell_valid(column, row)) {
        return false;
    }
    *out = lk_cell_large(column, row);
    return true;
}

static bool same_payload(const struct ArrowArray *a, int64_t row_a, const struct ArrowArray *b, int64_t row_b)
{
    lk_bytes left = {0}, right = {0};
    bool     has_left = payload_at(a, row_a, &left), has_right = payload_at(b, row_b, &right);
    return has_left == has_right && lk_bytes_equal(left, right);
}

static bool has_time(const lk_rollout_add *add, int64_t row)
{
    return request_of(add)->has_time[row];
}

static bool same_as_earlier(const admission *a, const lk_rollout_add *add, int64_t row,
    const lk_rollout_add *other, int64_t other_row)
{
    bool    with_time = has_time(add, row) && has_time(other, other_row);
    int64_t here = at(add, row), there = at(other, other_row);
    return same_text(a->schema, batch_of(add), here, a->schema, batch_of(other), there, with_time) &&
           same_payload(batch_of(add)->children[PAYLOAD], here, batch_of(other)->children[PAYLOAD], there);
}

/* Piece by piece: what is stored is never held. */
static lk_rc same_as_blob(
    lk_rollout_blob *blob, const struct ArrowArray *payloads, int64_t row, bool *same, lk_err *err)
{
    char     piece[PIECE_BYTES];
    bool     null = !lk_cell_valid(payloads, row);
    lk_bytes payload = null ? (lk_bytes){0} : lk_cell_large(payloads, row);
    uint64_t size = lk_rollout_blob_size(blob);
    lk_rc    rc = LK_OK;
    *same = null == lk_rollout_blob_is_null(blob) && size == payload.size;
    for (uint64_t start = 0; rc == LK_OK && *same && start < size; start += PIECE_BYTES) {
        size_t some = size - start < PIECE_BYTES ? (size_t)(size - start) : PIECE_BYTES;
        rc = lk_rollout_blob_read(blob, start, piece, some, err);
        *same = rc == LK_OK && memcmp(piece, payload.data + start, some) == 0;
    }
    return rc;
}

static lk_rc same_as_stored(
    const admission *a, const lk_rollout_add *add, int64_t row, int64_t found_row, bool *same, lk_err *err)
{
    lk_rollout_blob *stored = NULL;
    bool             found = false;
    *same = same_text(
        a->schema, batch_of(add), at(add, row), a->found_schema, &a->found, found_row, has_time(add, row));
    if (!*same) {
        return LK_OK;
    }
    lk_rc rc = lk_rollout_blob_open(a->snapshot, id_of(add, row), NULL, &stored, &found, err);
    *same = rc == LK_OK && found;
    if (*same) {
        rc = same_as_blob(stored, batch_of(add)->children[PAYLOAD], at(add, row), same, err);
    }
    lk_rollout_blob_close(stored);
    return rc;
}

/* -- what is there already ----------------------------------------------------------------------------------------- */

/* Every id of the group once, looked up in the snapshot together. */
static lk_rc look_up(admission *a, size_t row_count, lk_err *err)
{
    lk_id_map *distinct = lk_id_map_new(row_count);
    lk_bytes  *ids = lk_arena_take(a->arena, (row_count + 1) * sizeof *ids);
    size_t    *wanted = lk_arena_take(a->arena, (row_count + 1) * sizeof *wanted), count = 0;
    for (size_t i = 0; a->adds[i] != NULL; i++) {
        for (int64_t row = 0; row < count_of(a->adds[i]); row++) {
            lk_bytes id = id_of(a->adds[i], row);
            if (lk_id_map_add(distinct, id, (lk_id_place){0})) {
                ids[count++] = id;
            }
        }
    }
    lk_id_map_free(distinct);
    lk_rc rc = lk_rollout_snapshot_find(a->snapshot, ids, count, NULL, &a->found, wanted, err);
    a->found_ids = lk_id_map_new(rc == LK_OK ? (size_t)a->found.length : 0);
    for (int64_t row = 0; rc == LK_OK && row < a->found.length; row++) {
        (void)lk_id_map_add(a->found_ids, ids[wanted[row]], (lk_id_place){0, (uint32_t)row});
    }
    return rc;
}

typedef enum verdict { WRITE, SAME, CONFLICT, WRONG } verdict; /* WRONG: two of one request */

static lk_rc judge(const admission *a, size_t index, int64_t row, verdict *out, lk_err *err)
{
    const lk_rollout_add *add = a->adds[index];
    lk_bytes              id = id_of(add, row);
    lk_id_place           place = {0};
    bool                  same = false;
    *out = WRITE;
    if (lk_id_map_find(a->own, id, &place) || lk_id_map_find(a->group, id, &place)) {
        same = same_as_earlier(a, add, row, a->adds[place.source], place.row);
        *out = same ? SAME : place.source == index ? WRONG : CONFLICT;
        return LK_OK;
    }
    if (!lk_id_map_find(a->found_ids, id, &place)) {
        return LK_OK;
    }
    lk_rc rc = same_as_stored(a, add, row, place.row, &same, err);
    *out = same ? SAME : CONFLICT;
    return rc;
}

/* -- lists of one length ------------------------------------------------------------------------------------------- */

/* -1: null. */
static int64_t list_length(const struct ArrowArray *list, int64_t row)
{
    const int32_t *offsets = (const int32_t *)list->buffers[1] + list->offset + row;
    return lk_cell_valid(list, row) ? offsets[1] - offsets[0] : -1;
}

lk_rc lk_rollout_check_alignment(const lk_rollout_request *request, lk_err *err)
{
    static const lk_record_column lists[] = {
        LK_RECORD_COLUMN_output_logprobs, LK_RECORD_COLUMN_loss_mask, LK_RECORD_COLUMN_ref_logprobs};
    const struct ArrowArray *batch = lk_shared_array_get(request->records);
    for (int64_t row = 0; row < request->count; row++) {
        int64_t there = request->first + row;
        int64_t tokens = list_length(batch->children[LK_RECORD_COLUMN_output_tokens], there);
        tokens = tokens < 0 ? 0 : tokens;
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
            int64_t length = list_length(batch->children[lists[i]], there);
            if (length >= 0 && length != tokens) {
                return lk_refuse(err, LK_E_INVALID_REQUEST,
                    "record %" PRId64 ": %s has %" PRId64 " values and output_tokens %" PRId64, row,
                    lk_record_column_name(lists[i]), length, tokens);
            }
        }
    }
    return LK_OK;
}

/* -- one add ------------------------------------------------------------------------------------------------------- */

static lk_rc refuse(lk_rollout_add *add, lk_bytes id, verdict why)
{
    int size = (int)(id.size < 100 ? id.size : 100);
    add->rc = why == WRONG ? lk_refuse(&add->err, LK_E_INVALID_REQUEST,
                                 "two records of the request have the id \"%.*s\" and differ", size, id.data)
                           : lk_refuse(&add->err, LK_E_CONFLICT,
                                 "there is another record with the id \"%.*s\"", size, id.data);
    return add->rc;
}

static lk_rc judge_rows(admission *a, size_t index, uint8_t *selection, lk_err *err)
{
    lk_rollout_add *add = a->adds[index];
    lk_rc           rc = LK_OK;
    for (int64_t row = 0; rc == LK_OK && add->rc == LK_OK && row < count_of(add); row++) {
        verdict v;
        rc = judge(a, index, row, &v, err);
        if (rc == LK_OK && (v == WRONG || (v == CONFLICT && a->policy == LK_ROLLOUT_CONFLICT_REFUSE))) {
            (void)refuse(add, id_of(add, row), v);
        }
        selection[row] = v == WRITE || (v == CONFLICT && a->policy == LK_ROLLOUT_CONFLICT_ACCEPT);
        if (selection[row] != 0) {
            (void)lk_id_map_add(a->own, id_of(add, row), (lk_id_place){(uint32_t)index, (uint32_t)row});
        }
    }
    return rc;
}

/* Which rows of the add are written; adds after it know them only if it is let in. */
static lk_rc choose(admission *a, size_t index, uint8_t *selection, lk_err *err)
{
    lk_rollout_add *add = a->adds[index];
    int64_t         count = count_of(add);
    a->own = lk_id_map_new((size_t)count);
    lk_rc rc = judge_rows(a, index, selection, err);
    lk_id_map_free(a->own);
    for (int64_t row = 0; rc == LK_OK && add->rc == LK_OK && row < count; row++) {
        if (selection[row] != 0) {
            (void)lk_id_map_add(a->group, id_of(add, row), (lk_id_place){(uint32_t)index, (uint32_t)row});
        }
    }
    return rc;
}

/* Rows of a batch, in the table's columns. */
static lk_rc take_rows(admission *a, lk_shared_array *batch, const uint8_t *selection, size_t selected,
    lk_shared_array **out, lk_err *err)
{
    const struct ArrowArray *array = lk_shared_array_get(batch);
    struct ArrowArray        few = {0}, aligned = {0};
    lk_shared_array         *rows = NULL;
    lk_rc                    rc = LK_OK;
    if (selected == (size_t)array->length) {
        rows = lk_shared_array_ref(batch);
    } else {
        rc = lk_array_filter(a->schema, array, selection, (int64_t)selected, &few, err);
        rows = rc == LK_OK ? lk_array_share(&few) : NULL;
    }
    if (rc == LK_OK) {
        rc = lk_base_table_align(lk_dataset_schema(a->snapshot->base), a->schema, rows, &aligned, err);
    }
    *out = rc == LK_OK ? lk_array_share(&aligned) : NULL;
    lk_shared_array_unref(rows);
    return rc;
}

static void note_ids(const admission *a, lk_shared_array *rows, lk_generation_rows *out)
{
    const struct ArrowArray *batch = lk_shared_array_get(rows);
    int64_t                  column = lk_schema_find(lk_dataset_schema(a->snapshot->base), LK_LITERAL("id"));
    lk_bytes                *ids = (lk_bytes *)(uintptr_t)out->ids;
    for (int64_t row = 0; row < batch->length; row++) {
        ids[out->row_count++] =
            lk_cell_text(batch->children[column], row); /* the batch lives as long as out */
    }
}

/* The chosen rows of adds [from, to), which are of one batch; NULL when there are none. */
static lk_rc take_adds(admission *a, size_t from, size_t to, lk_shared_array **out, lk_err *err)
{
    lk_shared_array *batch = request_of(a->adds[from])->records;
    uint8_t         *selection = calloc(1, (size_t)batch_of(a->adds[from])->length + 1);
    size_t           selected = 0;
    LK_ASSERT(selection != NULL);
    *out = NULL;
    for (size_t i = from; i < to; i++) {
        for (int64_t row = 0; a->adds[i]->rc == LK_OK && row < count_of(a->adds[i]); row++) {
            selection[at(a->adds[i], row)] = a->selections[i][row];
            selected += a->selections[i][row];
        }
    }
    lk_rc rc = selected == 0 ? LK_OK : take_rows(a, batch, selection, selected, out, err);
    free(selection);
    return rc;
}

static void set_aside(admission *a, size_t index, lk_rc rc, const lk_err *err)
{
    a->misfits[index] = true;
    a->adds[index]->rc = rc;
    a->adds[index]->err = *err;
}

/* Which of them the table cannot take: their own fault. When it takes each alone, but not all: all of them. */
static void find_misfits(admission *a, size_t from, size_t to, lk_rc together, const lk_err *why)
{
    size_t found = 0;
    for (size_t i = from; i < to; i++) {
        lk_shared_array *rows = NULL;
        lk_err           err = {0};
        lk_rc            rc = a->adds[i]->rc == LK_OK ? take_adds(a, i, i + 1, &rows, &err) : LK_OK;
        if (rc != LK_OK) {
            set_aside(a, i, rc, &err);
            found++;
        }
        lk_shared_array_unref(rows);
    }
    for (size_t i = from; found == 0 && i < to; i++) {
        set_aside(a, i, together, why);
    }
}

/* The chosen rows of all adds, batch by batch. false when there are misfits, which others may have been measured by. */
static bool take_all(admission *a, size_t count, lk_generation_rows *out)
{
    bool taken = true;
    for (size_t from = 0, to; from < count; from = to) {
        lk_shared_array *rows = NULL;
        lk_err           err = {0};
        for (to = from + 1;
             to < count && request_of(a->adds[to])->records == request_of(a->adds[from])->records; to++) {}
        lk_rc rc = take_adds(a, from, to, &rows, &err);
        if (rc != LK_OK) {
            find_misfits(a, from, to, rc, &err);
            taken = false;
        } else if (rows != NULL) {
            ((lk_shared_array **)(uintptr_t)out->batches)[out->batch_count++] = rows;
            note_ids(a, rows, out);
        }
    }
    return taken;
}

static void give_back(lk_generation_rows *out)
{
    for (size_t i = 0; i < out->batch_count; i++) {
        lk_shared_array_unref(out->batches[i]);
    }
    out->batch_count = out->row_count = 0;
}

/* Judges all adds but the misfits. */
static lk_rc choose_all(admission *a, size_t count, size_t row_count, lk_err *err)
{
    lk_rc rc = LK_OK;
    lk_id_map_free(a->group);
    a->group = lk_id_map_new(row_count);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        if (!a->misfits[i]) {
            a->adds[i]->rc = LK_OK;
            rc = choose(a, i, a->selections[i], err);
        }
    }
    return rc;
}

/* Room for what is decided of each add. */
static void make_room(
    admission *a, lk_rollout_add *adds, lk_generation_rows *out, size_t *count, size_t *rows)
{
    for (lk_rollout_add *add = adds; add != NULL; add = add->next) {
        ++*count;
        *rows += (size_t)count_of(add);
    }
    a->adds = lk_arena_take(a->arena, (*count + 1) * sizeof(lk_rollout_add *));
    a->selections = lk_arena_take(a->arena, (*count + 1) * sizeof(uint8_t *));
    a->misfits = lk_arena_take(a->arena, *count + 1);
    *count = 0;
    for (lk_rollout_add *add = adds; add != NULL; add = add->next) {
        a->selections[*count] = lk_arena_take(a->arena, (size_t)count_of(add) + 1);
        a->misfits[*count] = add->rc != LK_OK; /* refused before */
        a->adds[(*count)++] = add;
    }
    *out = (lk_generation_rows){.schema = lk_dataset_schema(a->snapshot->base),
        .batches = lk_arena_take(a->arena, (*count + 1) * sizeof(lk_shared_array *)),
        .ids = lk_arena_take(a->arena, (*rows + 1) * sizeof(lk_bytes))};
}

lk_rc lk_rollout_admit(lk_rollout_snapshot *snapshot, lk_rollout_conflict policy, lk_rollout_add *adds,
    lk_arena *arena, lk_generation_rows *out, lk_err *err)
{
    admission a = {.snapshot = snapshot, .policy = policy, .arena = arena};
    size_t    add_count = 0, row_count = 0;
    bool      taken = false;
    make_room(&a, adds, out, &add_count, &row_count);
    a.schema = lk_record_columns();
    a.found_schema = lk_rollout_rows_columns();
    lk_rc rc = look_up(&a, row_count, err);
    while (rc == LK_OK && !taken) { /* every round without success finds a misfit */
        give_back(out);
        rc = choose_all(&a, add_count, row_count, err);
        taken = rc == LK_OK && take_all(&a, add_count, out);
    }
    lk_array_release(&a.found);
    lk_id_map_free(a.found_ids);
    lk_id_map_free(a.group);
    return rc;
}
