/*
 * query.c - see query.h. First the keys: every source's rows that counts and passes, then the base table's; sorted and cut to
 * the page. Then the columns, a batch of rows at a time, from wherever each row is. A page with an end keeps about twice its
 * keys on the way, however many rows there are.
 */
#include "rollout/query.h"

#include "arrow/schema.h"
#include "rollout/cell.h"
#include "rollout/query_priv.h"

#include <stdlib.h>

enum { SLACK_ENTRIES = 4096 };

typedef struct entry {
    lk_rollout_key key; /* texts lie in the sources' batches, in stream.base_keys or stream.texts */
    lk_query_place place;
} entry;

typedef struct stream {
    lk_batches           base;
    lk_rollout_snapshot *snapshot;
    lk_rollout_order     order;
    lk_cancel           *cancel;
    lk_budget           *budget;
    size_t               charged, base_bytes;
    uint64_t             most;           /* entries that the page can need */
    lk_buf               entries;        /* of entry */
    lk_buf               base_keys;      /* of lk_shared_array *: batches that base entries' texts lie in */
    lk_arena             texts;          /* of base entries that were kept when others were dropped */
    size_t               start, at, end; /* the page's entries; at: the next to be read */
    size_t               batch_rows;     /* of the next */
    lk_query_columns     columns;
} stream;

static entry *entries_of(const stream *s)
{
    return (entry *)(void *)s->entries.data;
}

static size_t entry_count(const stream *s)
{
    return s->entries.size / sizeof(entry);
}

/* -- keys ------------------------------------------------------------------------------------------------------------ */

typedef struct key_columns {
    const struct ArrowArray *id, *rollout_id, *created_at, *sequence_order;
} key_columns;

/* A column that the table lacks, or a null in it, counts as the least. */
static lk_rollout_key key_at(const key_columns *columns, int64_t row)
{
    lk_rollout_key key = {.id = lk_cell_text(columns->id, row), .rollout_id = LK_LITERAL("")};
    if (columns->rollout_id != NULL) {
        key.rollout_id = lk_cell_text(columns->rollout_id, row);
    }
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

static int by_time(const void *a, const void *b)
{
    return compare_keys(&((const entry *)a)->key, &((const entry *)b)->key, LK_ROLLOUT_BY_TIME);
}

static int by_id(const void *a, const void *b)
{
    return lk_bytes_compare(((const entry *)a)->key.id, ((const entry *)b)->key.id);
}

static void sort(stream *s)
{
    if (entry_count(s) > 0) {
        qsort(s->entries.data, entry_count(s), sizeof(entry), s->order == LK_ROLLOUT_BY_ID ? by_id : by_time);
    }
}

/* What is held now is charged, whether it became more or less. */
static lk_rc charge(stream *s, lk_err *err)
{
    size_t held = s->entries.capacity + s->base_bytes + s->texts.used_bytes;
    lk_rc  rc = LK_OK;
    if (s->budget == NULL) {
        return LK_OK;
    }
    if (held > s->charged) {
        rc = lk_budget_take(s->budget, held - s->charged, err);
        if (rc != LK_OK) {
            lk_detail(err,
                "the keys of so many records need more than readers may hold (--max-answer-bytes); read "
                "pages with limit= and cursor=, or with order=none");
        }
    } else {
        lk_budget_give(s->budget, s->charged - held);
    }
    s->charged = rc == LK_OK ? held : s->charged;
    return rc;
}

static void drop_base_keys(stream *s)
{
    for (size_t i = 0; i < s->base_keys.size / sizeof(lk_shared_array *); i++) {
        lk_shared_array_unref(((lk_shared_array **)(void *)s->base_keys.data)[i]);
    }
    s->base_keys.size = 0;
    s->base_bytes = 0;
}

/* Leaves the entries that the page can need, and of the base table's keys only theirs. */
static void drop_surplus(stream *s)
{
    lk_arena texts = {0};
    if (entry_count(s) <= s->most || entry_count(s) - s->most < s->most + SLACK_ENTRIES) {
        return;
    }
    sort(s);
    s->entries.size = (size_t)s->most * sizeof(entry);
    for (size_t i = 0; i < entry_count(s); i++) {
        entry *e = &entries_of(s)[i];
        if (e->place.source == LK_QUERY_BASE) {
            e->key.id = lk_arena_copy(&texts, e->key.id);
            e->key.rollout_id = lk_arena_copy(&texts, e->key.rollout_id);
        }
    }
    drop_base_keys(s);
    lk_arena_close(&s->texts);
    s->texts = texts;
}

static void add_entry(
    stream *s, const lk_rollout_query *query, const lk_rollout_key *key, uint32_t source, uint64_t row)
{
    if (query->after == NULL || compare_keys(key, query->after, query->order) > 0) {
        const entry e = {*key, {row, source}};
        lk_buf_append(&s->entries, &e, sizeof e);
    }
}

/* -- the sources' rows ----------------------------------------------------------------------------------------------- */

static lk_rc add_source(
    stream *s, const lk_rollout_query *query, uint32_t number, uint8_t *selection, lk_err *err)
{
    const lk_rollout_rows   *rows = s->snapshot->sources[number];
    const struct ArrowArray *batch = lk_shared_array_get(rows->batch);
    const key_columns        columns = {batch->children[LK_RECORD_COLUMN_id],
               batch->children[LK_RECORD_COLUMN_rollout_id], batch->children[LK_RECORD_COLUMN_created_at],
               batch->children[LK_RECORD_COLUMN_sequence_order]};
    lk_rc                    rc = lk_query_select(s->snapshot, number, query, selection, err);
    for (size_t row = 0; rc == LK_OK && row < rows->count; row++) {
        if (selection[row] != 0) {
            lk_rollout_key key = key_at(&columns, (int64_t)row);
            add_entry(s, query, &key, number, row);
        }
    }
    drop_surplus(s);
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
    return rc == LK_OK ? charge(s, err) : rc;
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
    bool                     hidden = s->snapshot->source_count > 0;
    for (int64_t row = 0; row < batch->length; row++) {
        lk_rollout_place place;
        lk_rollout_key   key = key_at(&columns, row);
        if (!hidden || !lk_rollout_snapshot_place(s->snapshot, key.id, &place)) {
            add_entry(s, query, &key, LK_QUERY_BASE, addresses[row]);
        }
    }
    s->base_bytes += lk_array_bytes(schema, batch);
    lk_shared_array *kept = lk_array_share(batch);
    lk_buf_append(&s->base_keys, &kept, sizeof(lk_shared_array *));
    drop_surplus(s);
    return charge(s, err);
}

static lk_rc add_base(stream *s, const lk_rollout_query *query, lk_err *err)
{
    static const char *const names[] = {"id", "rollout_id", "created_at", "sequence_order"};
    size_t                   name_count = query->order == LK_ROLLOUT_BY_ID ? 1 : 4, columns[4], count = 0;
    lk_arena                 arena = {0};
    lk_dataset              *base = s->snapshot->base;
    lk_batches              *batches = NULL;
    bool                     never = false;
    for (size_t i = 0; i < name_count; i++) {
        int64_t at = lk_schema_find(lk_dataset_schema(base), lk_bytes_of(names[i]));
        if (at >= 0) {
            columns[count++] = (size_t)at;
        }
    }
    const lk_scan_options options = {.columns = columns,
        .column_count = count,
        .meta = LK_META_ROW_ADDRESS,
        .predicate = lk_query_condition(lk_dataset_schema(base), query, &arena, &never),
        .limit = UINT64_MAX,
        .unordered = true,
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

static void cut_page(stream *s, const lk_rollout_query *query)
{
    size_t count = entry_count(s);
    sort(s);
    s->at = query->offset < count ? (size_t)query->offset : count;
    s->start = s->at;
    s->end = query->limit < count - s->at ? s->at + (size_t)query->limit : count;
}

/* -- batches ----------------------------------------------------------------------------------------------------------- */

static lk_rc next_batch(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    stream *s = (stream *)batches;
    *out = (struct ArrowArray){0};
    size_t count = s->end - s->at < s->batch_rows ? s->end - s->at : s->batch_rows;
    lk_rc  rc = lk_cancel_check(s->cancel, err);
    if (rc != LK_OK || count == 0) {
        return rc;
    }
    lk_query_place *places = calloc(count, sizeof *places);
    LK_ASSERT(places != NULL);
    for (size_t i = 0; i < count; i++) {
        places[i] = entries_of(s)[s->at + i].place;
    }
    rc = lk_query_fetch(&s->columns, places, count, out, err);
    if (rc == LK_OK) {
        s->at += count;
        s->batch_rows = lk_query_next_rows(&s->columns, s->batch_rows, out);
    }
    free(places);
    return rc;
}

/* -- life -------------------------------------------------------------------------------------------------------------- */

static void close_stream(lk_batches *batches)
{
    stream *s = (stream *)batches;
    drop_base_keys(s);
    if (s->charged > 0) {
        lk_budget_give(s->budget, s->charged);
    }
    lk_buf_deinit(&s->base_keys);
    lk_buf_deinit(&s->entries);
    lk_arena_close(&s->texts);
    lk_schema_release(&s->base.schema);
    lk_query_columns_deinit(&s->columns);
    lk_rollout_snapshot_unref(s->snapshot);
    free(s);
}

static lk_rc open_sorted(
    lk_rollout_snapshot *snapshot, const lk_rollout_query *query, lk_batches **out, lk_err *err)
{
    stream *s = calloc(1, sizeof *s);
    LK_ASSERT(s != NULL);
    *s = (stream){.base = {.next = next_batch, .close = close_stream},
        .snapshot = lk_rollout_snapshot_ref(snapshot),
        .order = query->order,
        .cancel = query->cancel,
        .budget = query->budget,
        .most = query->limit > SIZE_MAX / 4 - query->offset ? SIZE_MAX / 2 : query->limit + query->offset};
    lk_rc rc = lk_query_columns_choose(snapshot, query, &s->columns, err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(&s->columns.schema, &s->base.schema, err);
    }
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
    s->batch_rows = lk_query_first_rows(&s->columns);
    cut_page(s, query);
    *out = &s->base;
    return LK_OK;
}

lk_rc lk_rollout_query_open(
    lk_rollout_snapshot *snapshot, const lk_rollout_query *query, lk_batches **out, lk_err *err)
{
    return query->order == LK_ROLLOUT_ANY ? lk_query_any_open(snapshot, query, out, err)
                                          : open_sorted(snapshot, query, out, err);
}

uint64_t lk_rollout_query_count(const lk_batches *batches)
{
    const stream *s = (const stream *)batches;
    return batches->next == next_batch ? s->end - s->at : lk_query_any_count(batches);
}

bool lk_rollout_query_last(const lk_batches *batches, lk_rollout_key *key)
{
    const stream *s = (const stream *)batches;
    if (batches->next != next_batch || s->end == s->start) {
        return false;
    }
    *key = entries_of(s)[s->end - 1].key;
    return true;
}
