/*
 * query.c - see query.h. First the keys: every source's rows that counts and passes, then the base table's; sorted and cut to
 * the page. Then the columns, a batch of rows at a time, from wherever each row is.
 */
#include "rollout/query.h"

#include "arrow/schema.h"
#include "lance/take.h"
#include "rollout/cell.h"

#include <stdlib.h>

enum { BATCH_ROWS = 1024 };

#define BASE UINT32_MAX

typedef struct entry {
    lk_rollout_key key; /* texts lie in the sources' batches, or in stream.base_keys */
    uint64_t       row; /* of a source; of the base table the address */
    uint32_t       source;
} entry;

typedef struct stream {
    lk_batches           base;
    lk_rollout_snapshot *snapshot;
    lk_rollout_order     order;
    lk_cancel           *cancel;
    lk_budget           *budget;
    size_t               charged;
    lk_buf               entries;        /* of entry */
    lk_buf               base_keys;      /* of lk_shared_array *: batches that base entries' texts lie in */
    size_t               start, at, end; /* the page's entries; at: the next to be read */
    size_t              *columns;        /* of a source's batch */
    size_t               column_count;
} stream;

static entry *entries_of(const stream *s)
{
    return (entry *)(void *)s->entries.data;
}

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
static const lk_predicate *condition(
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

/* -- keys ------------------------------------------------------------------------------------------------------------ */

typedef struct key_columns {
    const struct ArrowArray *id, *rollout_id, *created_at, *sequence_order;
} key_columns;

/* A column that the table lacks, or a null in it, counts as the least. */
static lk_rollout_key key_at(const key_columns *columns, int64_t row)
{
    lk_rollout_key key = {
        .id = lk_cell_text(columns->id, row), .rollout_id = lk_cell_text(columns->rollout_id, row)};
    const struct ArrowArray *time = columns->created_at, *order = columns->sequence_order;
    if (time != NULL && lk_cell_valid(time, row)) {
        key.created_at = ((const int64_t *)time->buffers[1])[time->offset + row];
    }
    if (order != NULL && lk_cell_valid(order, row)) {
        key.sequence_order = ((const int32_t *)order->buffers[1])[order->offset + row];
    }
    return key;
}

static int compare_keys(const lk_rollout_key *a, const lk_rollout_key *b, lk_rollout_order order)
{
    int result = 0;
    if (order == LK_ROLLOUT_BY_TIME) {
        result = (a->created_at > b->created_at) - (a->created_at < b->created_at);
        result = result != 0 ? result : lk_bytes_compare(a->rollout_id, b->rollout_id);
        result = result != 0
                     ? result
                     : (a->sequence_order > b->sequence_order) - (a->sequence_order < b->sequence_order);
    }
    return result != 0 ? result : lk_bytes_compare(a->id, b->id);
}

static lk_rc charge(stream *s, size_t size, lk_err *err)
{
    if (s->budget == NULL) {
        return LK_OK;
    }
    lk_rc rc = lk_budget_take(s->budget, size, err);
    s->charged += rc == LK_OK ? size : 0;
    return rc;
}

static void add_entry(
    stream *s, const lk_rollout_query *query, const lk_rollout_key *key, uint32_t source, uint64_t row)
{
    if (query->after == NULL || compare_keys(key, query->after, query->order) > 0) {
        const entry e = {*key, row, source};
        lk_buf_append(&s->entries, &e, sizeof e);
    }
}

/* -- the sources' rows ----------------------------------------------------------------------------------------------- */

static lk_rc add_source(
    stream *s, const lk_rollout_query *query, uint32_t number, uint8_t *selection, lk_err *err)
{
    lk_arena                 arena = {0};
    const lk_rollout_rows   *rows = s->snapshot->sources[number];
    const struct ArrowArray *batch = lk_shared_array_get(rows->batch);
    const key_columns        columns = {batch->children[LK_RECORD_COLUMN_id],
               batch->children[LK_RECORD_COLUMN_rollout_id], batch->children[LK_RECORD_COLUMN_created_at],
               batch->children[LK_RECORD_COLUMN_sequence_order]};
    size_t                   all[LK_RECORD_COLUMNS];
    bool                     never;
    const lk_predicate      *predicate = condition(rows->schema, query, &arena, &never);
    lk_rc                    rc = LK_OK;
    memset(selection, 1, rows->count);
    if (predicate != NULL) {
        for (size_t i = 0; i < (size_t)rows->schema->n_children; i++) {
            all[i] = i;
        }
        rc = lk_predicate_evaluate(
            predicate, rows->schema, batch, all, (size_t)rows->schema->n_children, selection, err);
    }
    for (size_t row = 0; rc == LK_OK && row < rows->count; row++) {
        lk_rollout_place place = {0};
        lk_rollout_key   key = key_at(&columns, (int64_t)row);
        bool             counts = lk_rollout_snapshot_place(s->snapshot, key.id, &place) &&
                      place.rows == s->snapshot->sources[number] && place.row == row;
        if (counts && selection[row] != 0) {
            add_entry(s, query, &key, number, row);
        }
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc add_sources(stream *s, const lk_rollout_query *query, lk_err *err)
{
    size_t most = 0;
    lk_rc  rc = LK_OK;
    for (size_t i = 0; i < s->snapshot->source_count; i++) {
        most = s->snapshot->sources[i]->count > most ? s->snapshot->sources[i]->count : most;
    }
    uint8_t *selection = malloc(most + 1);
    LK_ASSERT(selection != NULL);
    for (size_t i = 0; rc == LK_OK && i < s->snapshot->source_count; i++) {
        rc = lk_cancel_check(query->cancel, err);
        if (rc == LK_OK) {
            rc = add_source(s, query, (uint32_t)i, selection, err);
        }
    }
    free(selection);
    return rc == LK_OK ? charge(s, s->entries.capacity, err) : rc;
}

/* -- the base table's rows ------------------------------------------------------------------------------------------- */

/* Takes *batch: the key columns that the table has, and the address. */
static lk_rc add_base_batch(stream *s, const lk_rollout_query *query, const struct ArrowSchema *schema,
    struct ArrowArray *batch, lk_err *err)
{
    static const char *const names[] = {"id", "rollout_id", "created_at", "sequence_order"};
    const struct ArrowArray *found[4] = {0};
    for (size_t i = 0; i < 4; i++) {
        int64_t at = lk_schema_find(schema, lk_bytes_of(names[i]));
        found[i] = at < 0 ? NULL : batch->children[at];
    }
    const key_columns        columns = {found[0], found[1], found[2], found[3]};
    const struct ArrowArray *address = batch->children[batch->n_children - 1];
    const uint64_t          *addresses = (const uint64_t *)address->buffers[1] + address->offset;
    size_t                   before = s->entries.size;
    for (int64_t row = 0; row < batch->length; row++) {
        lk_rollout_place place;
        lk_rollout_key   key = key_at(&columns, row);
        if (!lk_rollout_snapshot_place(s->snapshot, key.id, &place)) {
            add_entry(s, query, &key, BASE, addresses[row]);
        }
    }
    size_t           bytes = lk_array_bytes(schema, batch) + (s->entries.size - before);
    lk_shared_array *kept = lk_array_share(batch);
    lk_buf_append(&s->base_keys, &kept, sizeof(lk_shared_array *));
    return charge(s, bytes, err);
}

static lk_rc add_base(stream *s, const lk_rollout_query *query, lk_err *err)
{
    static const char *const names[] = {"id", "rollout_id", "created_at", "sequence_order"};
    lk_arena                 arena = {0};
    lk_dataset              *base = s->snapshot->base;
    lk_batches              *batches = NULL;
    size_t                   columns[4], count = 0;
    bool                     never = false;
    for (size_t i = 0; i < 4; i++) {
        int64_t at = lk_schema_find(lk_dataset_schema(base), lk_bytes_of(names[i]));
        if (at >= 0) {
            columns[count++] = (size_t)at;
        }
    }
    const lk_scan_options options = {.columns = columns,
        .column_count = count,
        .meta = LK_META_ROW_ADDRESS,
        .predicate = condition(lk_dataset_schema(base), query, &arena, &never),
        .limit = UINT64_MAX,
        .cancel = query->cancel};
    lk_rc                 rc = LK_OK;
    if (!never && lk_rollout_snapshot_has_base(s->snapshot)) {
        rc = lk_dataset_scan(base, &options, &batches, err);
    }
    for (bool more = batches != NULL && rc == LK_OK; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        rc = more ? add_base_batch(s, query, &batches->schema, &batch, err) : rc;
        more = more && rc == LK_OK;
    }
    lk_batches_close(batches);
    lk_arena_close(&arena);
    return rc;
}

static int by_time(const void *a, const void *b)
{
    return compare_keys(&((const entry *)a)->key, &((const entry *)b)->key, LK_ROLLOUT_BY_TIME);
}

static int by_id(const void *a, const void *b)
{
    return lk_bytes_compare(((const entry *)a)->key.id, ((const entry *)b)->key.id);
}

static void cut_page(stream *s, const lk_rollout_query *query)
{
    size_t count = s->entries.size / sizeof(entry);
    if (query->order != LK_ROLLOUT_ANY && count > 0) {
        qsort(s->entries.data, count, sizeof(entry), query->order == LK_ROLLOUT_BY_ID ? by_id : by_time);
    }
    s->at = query->offset < count ? (size_t)query->offset : count;
    s->start = s->at;
    s->end = query->limit < count - s->at ? s->at + (size_t)query->limit : count;
}

/* -- columns --------------------------------------------------------------------------------------------------------- */

/* The asked columns of a source, as one batch. */
static void project(const stream *s, const lk_rollout_rows *rows, struct ArrowArray *out)
{
    struct ArrowArray columns[LK_RECORD_COLUMNS];
    for (size_t i = 0; i < s->column_count; i++) {
        lk_shared_batch_column(rows->batch, s->columns[i], &columns[i]);
    }
    lk_batch_of_columns(columns, s->column_count, (int64_t)rows->count, out);
}

static lk_rc take_from_source(
    const stream *s, uint32_t source, const int64_t *rows, size_t count, struct ArrowArray *out, lk_err *err)
{
    struct ArrowArray all = {0};
    project(s, s->snapshot->sources[source], &all);
    lk_rc rc = lk_array_take(&s->base.schema, &all, rows, (int64_t)count, out, err);
    lk_array_release(&all);
    return rc;
}

static lk_rc concat(const struct ArrowSchema *schema, lk_buf *list, struct ArrowArray *out, lk_err *err)
{
    struct ArrowArray *arrays = (struct ArrowArray *)(void *)list->data;
    size_t             count = list->size / sizeof *arrays;
    lk_rc              rc = lk_array_concat(schema, arrays, count, out, err);
    for (size_t i = 0; i < count; i++) {
        lk_array_release(&arrays[i]);
    }
    lk_buf_deinit(list);
    return rc;
}

static lk_rc take_from_base(
    const stream *s, const uint64_t *addresses, size_t count, struct ArrowArray *out, lk_err *err)
{
    const struct ArrowSchema *table = lk_dataset_schema(s->snapshot->base);
    lk_batches               *batches = NULL;
    lk_buf                    list = {0};
    size_t                    columns[LK_RECORD_COLUMNS], column_count = 0;
    for (size_t i = 0; i < s->column_count; i++) {
        int64_t at = lk_schema_find(table, lk_bytes_of(s->base.schema.children[i]->name));
        if (at >= 0) {
            columns[column_count++] = (size_t)at;
        }
    }
    const lk_take_rows    rows = {LK_TAKE_ADDRESS, addresses, count};
    const lk_scan_options options = {.columns = columns,
        .column_count = column_count,
        .dictionary_values = true,
        .limit = UINT64_MAX,
        .cancel = s->cancel};
    lk_rc                 rc = lk_dataset_take(s->snapshot->base, &rows, &options, &batches, err);
    for (bool more = rc == LK_OK; more;) {
        struct ArrowArray batch = {0}, aligned = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        if (more) {
            rc = lk_rollout_rows_align(&batches->schema, &batch, &s->base.schema, &aligned, err);
        }
        more = more && rc == LK_OK;
        if (more) {
            lk_buf_append(&list, &aligned, sizeof aligned);
        }
    }
    lk_batches_close(batches);
    struct ArrowArray whole = {0};
    lk_rc             joined = concat(&s->base.schema, &list, &whole, rc == LK_OK ? err : &(lk_err){0});
    rc = rc == LK_OK ? joined : rc;
    if (rc == LK_OK && whole.length != (int64_t)count) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "rows of the base table are gone");
    }
    if (rc == LK_OK) {
        lk_array_move(&whole, out);
    }
    lk_array_release(&whole);
    return rc;
}

/* Entries of one source, which are those at `members`, a list of indexes of the batch. */
static lk_rc take_group(const stream *s, const entry *batch, const size_t *members, size_t count,
    struct ArrowArray *out, lk_err *err)
{
    uint64_t *rows = calloc(count + 1, sizeof *rows);
    LK_ASSERT(rows != NULL);
    for (size_t i = 0; i < count; i++) {
        rows[i] = batch[members[i]].row;
    }
    uint32_t source = batch[members[0]].source;
    lk_rc    rc = source == BASE ? take_from_base(s, rows, count, out, err)
                                 : take_from_source(s, source, (const int64_t *)rows, count, out, err);
    free(rows);
    return rc;
}

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

/* Rows from wherever they are, source after source; *place says where each entry's row went. */
static lk_rc gather(
    const stream *s, const entry *batch, size_t count, lk_buf *parts, int64_t *place, lk_err *err)
{
    member *members = calloc(count + 1, sizeof *members);
    size_t *indexes = calloc(count + 1, sizeof *indexes);
    lk_rc   rc = LK_OK;
    LK_ASSERT(members != NULL && indexes != NULL);
    for (size_t i = 0; i < count; i++) {
        members[i] = (member){batch[i].source, i};
    }
    qsort(members, count, sizeof *members, by_source);
    for (size_t i = 0; i < count; i++) {
        indexes[i] = members[i].index;
        place[members[i].index] = (int64_t)i;
    }
    for (size_t from = 0, to; rc == LK_OK && from < count; from = to) {
        struct ArrowArray part = {0};
        for (to = from + 1; to < count && members[to].source == members[from].source; to++) {}
        rc = take_group(s, batch, indexes + from, to - from, &part, err);
        if (rc == LK_OK) {
            lk_buf_append(parts, &part, sizeof part);
        }
    }
    free(indexes);
    free(members);
    return rc;
}

static lk_rc next_batch(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    stream *s = (stream *)batches;
    *out = (struct ArrowArray){0};
    size_t count = s->end - s->at < BATCH_ROWS ? s->end - s->at : BATCH_ROWS;
    lk_rc  rc = lk_cancel_check(s->cancel, err);
    if (rc != LK_OK || count == 0) {
        return rc;
    }
    int64_t          *place = calloc(count, sizeof *place);
    struct ArrowArray whole = {0};
    lk_buf            parts = {0};
    LK_ASSERT(place != NULL);
    rc = gather(s, entries_of(s) + s->at, count, &parts, place, err);
    lk_rc joined = concat(&s->base.schema, &parts, &whole, rc == LK_OK ? err : &(lk_err){0});
    rc = rc == LK_OK ? joined : rc;
    if (rc == LK_OK) {
        rc = lk_array_take(&s->base.schema, &whole, place, (int64_t)count, out, err);
    }
    s->at += rc == LK_OK ? count : 0;
    lk_array_release(&whole);
    free(place);
    return rc;
}

/* -- life -------------------------------------------------------------------------------------------------------------- */

static void close_stream(lk_batches *batches)
{
    stream *s = (stream *)batches;
    for (size_t i = 0; i < s->base_keys.size / sizeof(lk_shared_array *); i++) {
        lk_shared_array_unref(((lk_shared_array **)(void *)s->base_keys.data)[i]);
    }
    if (s->charged > 0) {
        lk_budget_give(s->budget, s->charged);
    }
    lk_buf_deinit(&s->base_keys);
    lk_buf_deinit(&s->entries);
    lk_schema_release(&s->base.schema);
    lk_rollout_snapshot_unref(s->snapshot);
    free(s->columns);
    free(s);
}

/* The asked columns by their place in a source's batch, which lacks the payload. */
static lk_rc choose_columns(stream *s, uint64_t asked, lk_err *err)
{
    const struct ArrowSchema *all = &s->snapshot->form->schema;
    s->columns = calloc(LK_RECORD_COLUMNS, sizeof *s->columns);
    LK_ASSERT(s->columns != NULL);
    for (int64_t i = 0; i < all->n_children; i++) {
        lk_record_column column =
            lk_record_column_of(lk_bytes_of(all->children[i]->name), (lk_record_column)i);
        if (asked == 0 || (asked >> column & 1) != 0) {
            s->columns[s->column_count++] = (size_t)i;
        }
    }
    return lk_schema_project(all, s->columns, s->column_count, &s->base.schema, err);
}

lk_rc lk_rollout_query_open(
    lk_rollout_snapshot *snapshot, const lk_rollout_query *query, lk_batches **out, lk_err *err)
{
    stream *s = calloc(1, sizeof *s);
    LK_ASSERT(s != NULL && (query->columns >> LK_RECORD_COLUMN_binary_payload & 1) == 0);
    *s = (stream){.base = {.next = next_batch, .close = close_stream},
        .snapshot = lk_rollout_snapshot_ref(snapshot),
        .order = query->order,
        .cancel = query->cancel,
        .budget = query->budget};
    lk_rc rc = choose_columns(s, query->columns, err);
    if (rc == LK_OK) {
        rc = add_sources(s, query, err);
    }
    if (rc == LK_OK) {
        rc = add_base(s, query, err);
    }
    if (rc != LK_OK) {
        close_stream(&s->base);
        return rc;
    }
    cut_page(s, query);
    *out = &s->base;
    return LK_OK;
}

uint64_t lk_rollout_query_count(const lk_batches *batches)
{
    const stream *s = (const stream *)batches;
    return s->end - s->at;
}

bool lk_rollout_query_last(const lk_batches *batches, lk_rollout_key *key)
{
    const stream *s = (const stream *)batches;
    if (s->end == s->start) {
        return false;
    }
    *key = entries_of(s)[s->end - 1].key;
    return true;
}
