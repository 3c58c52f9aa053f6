/* query_rows.c - see query_priv.h. */
#include "arrow/schema.h"
#include "lance/take.h"
#include "rollout/cell.h"
#include "rollout/query_priv.h"

#include <stdlib.h>

/* -- conditions ---------------------------------------------------------------------------------------------------- */

static void set_values(const lk_rollout_filter *filter, lk_predicate *out, lk_arena *arena)
{
    lk_value *values = lk_arena_take(arena, (filter->text_count + 1) * sizeof *values);
    for (size_t i = 0; i < filter->text_count; i++) {
        values[i] = (lk_value){.kind = LK_VALUE_BYTES, .as.bytes = filter->texts[i]};
    }
    out->kind = LK_PREDICATE_IN;
    out->value_count = filter->text_count;
    if (lk_record_column_kind(filter->column) == LK_RECORD_BOOL) {
        values[0] = (lk_value){.kind = LK_VALUE_I64, .as.i64 = filter->truth};
        out->kind = LK_PREDICATE_COMPARE;
        out->compare = LK_EQ;
        out->value_count = 1;
    }
    out->values = values;
}

static const lk_predicate *bound(size_t column, lk_compare compare, int64_t value, lk_arena *arena)
{
    lk_predicate *predicate = lk_arena_take(arena, sizeof *predicate);
    lk_value     *values = lk_arena_take(arena, sizeof *values);
    values[0] = (lk_value){.kind = LK_VALUE_I64, .as.i64 = value};
    *predicate = (lk_predicate){.kind = LK_PREDICATE_COMPARE,
        .column = column,
        .compare = compare,
        .values = values,
        .value_count = 1};
    return predicate;
}

/* All filters over the columns of a schema; *never when one of them is over a column that it lacks. */
const lk_predicate *lk_query_condition(
    const struct ArrowSchema *schema, const lk_rollout_query *query, lk_arena *arena, bool *never)
{
    lk_predicate        *all = lk_arena_take(arena, sizeof *all);
    const lk_predicate **parts =
        lk_arena_take(arena, (2 * query->filter_count + 1) * sizeof(const lk_predicate *));
    *all = (lk_predicate){.kind = LK_PREDICATE_AND, .children = parts};
    *never = false;
    for (size_t i = 0; i < query->filter_count; i++) {
        const lk_rollout_filter *filter = &query->filters[i];
        int64_t column = lk_schema_find(schema, lk_bytes_of(lk_record_column_name(filter->column)));
        if (column < 0) {
            *never = true;
            return NULL;
        }
        if (filter->column == LK_RECORD_COLUMN_created_at) {
            parts[all->child_count++] = bound((size_t)column, LK_GE, filter->from, arena);
            parts[all->child_count++] = bound((size_t)column, LK_LT, filter->to, arena);
            continue;
        }
        lk_predicate *part = lk_arena_take(arena, sizeof *part);
        *part = (lk_predicate){.column = (size_t)column};
        set_values(filter, part, arena);
        parts[all->child_count++] = part;
    }
    return all->child_count == 0 ? NULL : all;
}

lk_rc lk_query_select(const lk_rollout_snapshot *snapshot, size_t source, const lk_rollout_query *query,
    uint8_t *selection, lk_err *err)
{
    lk_arena            arena = {0};
    lk_rollout_rows    *rows = snapshot->sources[source];
    size_t              all[LK_RECORD_COLUMNS], columns = (size_t)rows->schema->n_children;
    bool                never;
    const lk_predicate *predicate = lk_query_condition(rows->schema, query, &arena, &never);
    lk_rc               rc = LK_OK;
    memset(selection, 1, rows->count);
    for (size_t i = 0; i < columns; i++) {
        all[i] = i;
    }
    if (predicate != NULL) {
        rc = lk_predicate_evaluate(
            predicate, rows->schema, lk_shared_array_get(rows->batch), all, columns, selection, err);
    }
    for (size_t row = 0; rc == LK_OK && row < rows->count; row++) {
        lk_rollout_place place;
        selection[row] = selection[row] != 0 &&
                         lk_rollout_snapshot_place(snapshot, lk_rollout_rows_id(rows, row), &place) &&
                         place.rows == rows && place.row == row;
    }
    lk_arena_close(&arena);
    return rc;
}

/* -- which columns ------------------------------------------------------------------------------------------------- */

lk_rc lk_query_columns_choose(
    lk_rollout_snapshot *snapshot, const lk_rollout_query *query, lk_query_columns *out, lk_err *err)
{
    const lk_rollout_form *form = snapshot->form;
    uint64_t               asked = query->columns;
    size_t                 chosen[LK_RECORD_COLUMNS], count = 0;
    *out = (lk_query_columns){.snapshot = snapshot, .cancel = query->cancel, .payload_at = SIZE_MAX};
    out->of_rows = calloc(LK_RECORD_COLUMNS, sizeof *out->of_rows);
    LK_ASSERT(out->of_rows != NULL);
    for (size_t i = 0; i < LK_RECORD_COLUMNS; i++) {
        bool payload = i == LK_RECORD_COLUMN_binary_payload;
        if ((asked >> i & 1) == 0 && (asked != 0 || payload)) {
            continue;
        }
        if (payload) {
            out->payload_at = count;
        } else { /* rows lack the payload alone */
            out->of_rows[out->count++] = i - (i > LK_RECORD_COLUMN_binary_payload);
        }
        chosen[count++] = i;
    }
    lk_rc rc = lk_schema_project(&form->schema, out->of_rows, out->count, &out->plain, err);
    return rc == LK_OK ? lk_schema_project(&form->whole, chosen, count, &out->schema, err) : rc;
}

void lk_query_columns_deinit(lk_query_columns *columns)
{
    lk_schema_release(&columns->schema);
    lk_schema_release(&columns->plain);
    free(columns->of_rows);
}

size_t lk_query_first_rows(const lk_query_columns *columns)
{
    return columns->payload_at == SIZE_MAX ? LK_QUERY_FIRST_ROWS : 1;
}

size_t lk_query_next_rows(const lk_query_columns *columns, size_t batch_rows, const struct ArrowArray *last)
{
    size_t rows = (size_t)last->length;
    if (lk_array_bytes(&columns->schema, last) > LK_QUERY_BATCH_BYTES) {
        return (rows + 1) / 2;
    }
    return rows < batch_rows                      ? batch_rows
           : batch_rows < LK_QUERY_BATCH_ROWS / 2 ? batch_rows * 2
                                                  : LK_QUERY_BATCH_ROWS;
}

/* -- fetching ---------------------------------------------------------------------------------------------------------- */

typedef struct fetching {
    const lk_query_columns *columns;
    const lk_query_place   *places;
    size_t                  count;
    size_t                 *order;  /* indexes of places, by source and then as they came */
    struct ArrowArray      *arrays; /* one a source that is in it */
    bool                   *owned;
    size_t                  array_count;
    lk_pick                *picks; /* one a place */
} fetching;

typedef struct member {
    uint32_t source;
    size_t   index;
} member;

static int by_source(const void *a, const void *b)
{
    const member *x = a, *y = b;
    return x->source != y->source ? (x->source > y->source) - (x->source < y->source)
                                  : (x->index > y->index) - (x->index < y->index);
}

static void fetching_init(
    fetching *f, const lk_query_columns *columns, const lk_query_place *places, size_t count)
{
    member *members = calloc(count + 1, sizeof *members);
    *f = (fetching){.columns = columns,
        .places = places,
        .count = count,
        .order = calloc(count + 1, sizeof *f->order),
        .arrays = calloc(count + 1, sizeof *f->arrays),
        .owned = calloc(count + 1, sizeof *f->owned),
        .picks = calloc(count + 1, sizeof *f->picks)};
    LK_ASSERT(
        members != NULL && f->order != NULL && f->arrays != NULL && f->owned != NULL && f->picks != NULL);
    for (size_t i = 0; i < count; i++) {
        members[i] = (member){places[i].source, i};
    }
    qsort(members, count, sizeof *members, by_source);
    for (size_t i = 0; i < count; i++) {
        f->order[i] = members[i].index;
    }
    free(members);
}

static void clear_arrays(fetching *f)
{
    for (size_t i = 0; i < f->array_count; i++) {
        if (f->owned[i]) {
            lk_array_release(&f->arrays[i]);
        } else {
            free(f->arrays[i].children);
        }
        f->arrays[i] = (struct ArrowArray){0};
        f->owned[i] = false;
    }
    f->array_count = 0;
}

static void fetching_deinit(fetching *f)
{
    clear_arrays(f);
    free(f->order);
    free(f->arrays);
    free(f->owned);
    free(f->picks);
}

/* Places [from, to) of the order, all of one source, are taken from its dataset. */
static lk_rc take_group(fetching *f, size_t from, size_t to, const struct ArrowSchema *schema, lk_err *err)
{
    const lk_rollout_snapshot *snapshot = f->columns->snapshot;
    uint32_t                   source = f->places[f->order[from]].source;
    uint64_t          *rows = calloc(to - from + 1, sizeof *rows); /* addresses, or places in a source */
    struct ArrowArray *out = &f->arrays[f->array_count];
    LK_ASSERT(rows != NULL);
    for (size_t i = from; i < to; i++) {
        rows[i - from] = f->places[f->order[i]].row;
        f->picks[f->order[i]] = (lk_pick){f->array_count, (int64_t)(i - from)};
    }
    lk_rc rc = source == LK_QUERY_BASE
                   ? lk_rollout_take(snapshot->base, rows, to - from, schema, f->columns->cancel, out, err)
                   : lk_rollout_rows_take(
                         snapshot->sources[source], rows, to - from, schema, f->columns->cancel, out, err);
    if (rc == LK_OK) {
        f->owned[f->array_count++] = true;
    }
    free(rows);
    return rc;
}

/* The same from memory: the source's columns as they are. */
static void borrow_group(fetching *f, size_t from, size_t to)
{
    const lk_query_columns  *c = f->columns;
    const lk_rollout_rows   *rows = c->snapshot->sources[f->places[f->order[from]].source];
    const struct ArrowArray *batch = lk_shared_array_get(rows->batch);
    static const void       *no_validity[1] = {NULL};
    struct ArrowArray       *array = &f->arrays[f->array_count];
    *array = (struct ArrowArray){.length = batch->length,
        .n_buffers = 1,
        .buffers = no_validity,
        .n_children = (int64_t)c->count,
        .children = calloc(c->count + 1, sizeof(struct ArrowArray *))};
    LK_ASSERT(array->children != NULL && batch->offset == 0);
    for (size_t i = 0; i < c->count; i++) {
        array->children[i] = batch->children[c->of_rows[i]];
    }
    for (size_t i = from; i < to; i++) {
        f->picks[f->order[i]] = (lk_pick){f->array_count, (int64_t)f->places[f->order[i]].row};
    }
    f->array_count++;
}

/* Whether a column that is asked for is not in the source's memory. */
static bool lacks_some(const lk_query_columns *columns, uint32_t source)
{
    uint64_t left_out = columns->snapshot->sources[source]->left_out;
    bool     lacks = false;
    for (size_t i = 0; left_out != 0 && i < columns->count; i++) {
        lacks = lacks || (left_out >> columns->of_rows[i] & 1) != 0;
    }
    return lacks;
}

/* payload: of the payload alone, which is in no source's memory. */
static lk_rc fetch(
    fetching *f, const struct ArrowSchema *schema, bool payload, struct ArrowArray *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t from = 0, to; rc == LK_OK && from < f->count; from = to) {
        uint32_t source = f->places[f->order[from]].source;
        for (to = from + 1; to < f->count && f->places[f->order[to]].source == source; to++) {}
        if (payload || source == LK_QUERY_BASE || lacks_some(f->columns, source)) {
            rc = take_group(f, from, to, schema, err);
        } else {
            borrow_group(f, from, to);
        }
    }
    if (rc == LK_OK) {
        rc = lk_array_pick(schema, f->arrays, f->picks, f->count, out, err);
    }
    clear_arrays(f);
    return rc;
}

static lk_rc fetch_with_payload(fetching *f, struct ArrowArray *out, lk_err *err)
{
    const lk_query_columns *c = f->columns;
    struct ArrowArray       plain = {0}, payload = {0}, columns[LK_RECORD_COLUMNS + 1] = {0};
    struct ArrowSchema      only = {0};
    size_t                  count = 0;
    const size_t            chosen[] = {c->payload_at};
    lk_rc                   rc = lk_schema_project(&c->schema, chosen, 1, &only, err);
    if (rc == LK_OK) {
        rc = fetch(f, &c->plain, false, &plain, err);
    }
    if (rc == LK_OK) {
        rc = fetch(f, &only, true, &payload, err);
    }
    if (rc == LK_OK) {
        for (size_t i = 0; i <= c->count; i++) {
            if (i == c->payload_at) {
                lk_array_move(payload.children[0], &columns[count++]);
            }
            if (i < c->count) {
                lk_array_move(plain.children[i], &columns[count++]);
            }
        }
        lk_batch_of_columns(columns, count, (int64_t)f->count, out);
    }
    lk_array_release(&plain);
    lk_array_release(&payload);
    lk_schema_release(&only);
    return rc;
}

lk_rc lk_query_fetch(const lk_query_columns *columns, const lk_query_place *places, size_t count,
    struct ArrowArray *out, lk_err *err)
{
    fetching f;
    fetching_init(&f, columns, places, count);
    lk_rc rc = columns->payload_at == SIZE_MAX ? fetch(&f, &columns->schema, false, out, err)
                                               : fetch_with_payload(&f, out, err);
    fetching_deinit(&f);
    return rc;
}
