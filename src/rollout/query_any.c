/*
 * query_any.c - see query_priv.h: rows in the snapshot's own order, sources first, then the base table as it is read; nothing
 * is held but the batch at hand.
 */
#include "arrow/schema.h"
#include "rollout/cell.h"
#include "rollout/query_priv.h"

#include <stdlib.h>

typedef struct stream {
    lk_batches           base;
    lk_rollout_snapshot *snapshot;
    lk_rollout_query     query; /* texts of its filters are the arena's */
    lk_arena             arena;
    lk_query_columns     columns;
    uint64_t             skip, left; /* rows that are passed over still; that may still be given */
    size_t               source;     /* the next one */
    lk_buf               places;     /* of lk_query_place: rows of sources */
    size_t               at, batch_rows;
    lk_batches          *scan; /* of the base table */
    bool                 scanned;
    struct ArrowArray    ahead; /* the next batch; released: there is none */
} stream;

/* -- sources ------------------------------------------------------------------------------------------------------- */

static lk_rc add_places(stream *s, lk_err *err)
{
    const lk_rollout_rows *rows = s->snapshot->sources[s->source];
    uint8_t               *selection = malloc(rows->count + 1);
    LK_ASSERT(selection != NULL);
    lk_rc rc = lk_query_select(s->snapshot, s->source, &s->query, selection, err);
    for (size_t row = 0; rc == LK_OK && row < rows->count; row++) {
        const lk_query_place place = {row, (uint32_t)s->source};
        if (selection[row] != 0) {
            lk_buf_append(&s->places, &place, sizeof place);
        }
    }
    free(selection);
    s->source++;
    return rc;
}

static size_t place_count(const stream *s)
{
    return s->places.size / sizeof(lk_query_place) - s->at;
}

/* A batch of the sources' rows, as many as there are for it. */
static lk_rc next_of_sources(stream *s, struct ArrowArray *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    while (rc == LK_OK && place_count(s) < s->batch_rows + s->skip && s->source < s->snapshot->source_count) {
        if (place_count(s) == 0) {
            s->places.size = s->at = 0;
        }
        rc = lk_cancel_check(s->query.cancel, err);
        rc = rc == LK_OK ? add_places(s, err) : rc;
        size_t over = s->skip < place_count(s) ? (size_t)s->skip : place_count(s);
        s->at += over;
        s->skip -= over;
    }
    size_t count = place_count(s) < s->batch_rows ? place_count(s) : s->batch_rows;
    count = s->left < count ? (size_t)s->left : count;
    if (rc == LK_OK && count > 0) {
        const lk_query_place *places = (const lk_query_place *)(const void *)s->places.data + s->at;
        rc = lk_query_fetch(&s->columns, places, count, out, err);
        s->at += count;
        s->batch_rows = rc == LK_OK ? lk_query_next_rows(&s->columns, s->batch_rows, out) : s->batch_rows;
    }
    return rc;
}

/* -- the base table ------------------------------------------------------------------------------------------------ */

/* The asked columns, and where sources may hide rows the id behind them. */
static lk_rc open_scan(stream *s, lk_err *err)
{
    const struct ArrowSchema *table = lk_dataset_schema(s->snapshot->base);
    size_t                    columns[LK_RECORD_COLUMNS + 1], count = 0;
    int64_t                   id = lk_schema_find(table, LK_LITERAL("id"));
    bool                      has_id = false, never = false;
    s->scanned = true;
    for (int64_t i = 0; i < s->base.schema.n_children; i++) {
        int64_t at = lk_schema_find(table, lk_bytes_of(s->base.schema.children[i]->name));
        if (at >= 0) {
            columns[count++] = (size_t)at;
            has_id = has_id || at == id;
        }
    }
    if (!has_id && (s->snapshot->source_count > 0 || count == 0)) {
        columns[count++] = (size_t)id;
    }
    const lk_scan_options options = {.columns = columns,
        .column_count = count,
        .dictionary_values = true,
        .predicate = lk_query_condition(table, &s->query, &s->arena, &never),
        .limit = UINT64_MAX,
        .batch_rows = s->columns.payload_at == SIZE_MAX ? 0 : 1,
        .cancel = s->query.cancel};
    return never || !lk_rollout_snapshot_has_base(s->snapshot)
               ? LK_OK
               : lk_dataset_scan(s->snapshot->base, &options, &s->scan, err);
}

/* Rows of no source; the first `skip` of them left out. Takes *batch. */
static lk_rc keep_base_rows(stream *s, struct ArrowArray *batch, struct ArrowArray *out, lk_err *err)
{
    int64_t  id_at = lk_schema_find(&s->scan->schema, LK_LITERAL("id"));
    uint8_t *selection = malloc((size_t)batch->length + 1);
    size_t   kept = 0;
    LK_ASSERT(selection != NULL);
    for (int64_t row = 0; row < batch->length; row++) {
        lk_rollout_place place;
        bool             hidden = s->snapshot->source_count > 0 && lk_rollout_snapshot_place(s->snapshot,
                                                                       lk_cell_text(batch->children[id_at], row), &place);
        selection[row] = !hidden && s->skip == 0 && s->left > kept;
        s->skip -= !hidden && s->skip > 0;
        kept += selection[row];
    }
    lk_rc rc = LK_OK;
    if (kept == (size_t)batch->length) {
        lk_array_move(batch, out);
    } else if (kept > 0) {
        rc = lk_array_filter(&s->scan->schema, batch, selection, (int64_t)kept, out, err);
    }
    lk_array_release(batch);
    free(selection);
    return rc;
}

static lk_rc next_of_base(stream *s, struct ArrowArray *out, lk_err *err)
{
    lk_rc rc = s->scanned ? LK_OK : open_scan(s, err);
    bool  plain = s->snapshot->source_count == 0;
    for (bool more = rc == LK_OK && s->scan != NULL; more && out->release == NULL;) {
        struct ArrowArray batch = {0}, kept = {0};
        rc = lk_batches_next(s->scan, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        if (more && plain && s->skip == 0 && (uint64_t)batch.length <= s->left) {
            lk_array_move(&batch, &kept);
        } else if (more) {
            rc = keep_base_rows(s, &batch, &kept, err);
        }
        if (rc == LK_OK && kept.release != NULL) {
            rc = lk_rollout_rows_align(&s->scan->schema, &kept, &s->base.schema, out, err);
        }
        more = more && rc == LK_OK;
    }
    return rc;
}

/* -- the stream ------------------------------------------------------------------------------------------------------ */

/* Reads the batch after the one that is given out. */
static lk_rc look_ahead(stream *s, lk_err *err)
{
    lk_rc rc = LK_OK;
    if (s->left > 0) {
        rc = next_of_sources(s, &s->ahead, err);
    }
    if (rc == LK_OK && s->left > 0 && s->ahead.release == NULL) {
        rc = next_of_base(s, &s->ahead, err);
    }
    s->left -= s->ahead.release == NULL ? 0 : (uint64_t)s->ahead.length;
    return rc;
}

static lk_rc next_batch(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    stream *s = (stream *)batches;
    *out = (struct ArrowArray){0};
    lk_rc rc = lk_cancel_check(s->query.cancel, err);
    if (rc == LK_OK && s->ahead.release != NULL) {
        struct ArrowArray given;
        lk_array_move(&s->ahead, &given);
        rc = look_ahead(s, err);
        if (rc == LK_OK) {
            lk_array_move(&given, out);
        } else {
            lk_array_release(&given);
        }
    }
    return rc;
}

static void close_stream(lk_batches *batches)
{
    stream *s = (stream *)batches;
    lk_array_release(&s->ahead);
    lk_batches_close(s->scan);
    lk_buf_deinit(&s->places);
    lk_schema_release(&s->base.schema);
    lk_query_columns_deinit(&s->columns);
    lk_rollout_snapshot_unref(s->snapshot);
    lk_arena_close(&s->arena);
    free(s);
}

/* The filters outlive the caller's. */
static void copy_filters(stream *s, const lk_rollout_query *query)
{
    lk_rollout_filter *filters = lk_arena_take(&s->arena, (query->filter_count + 1) * sizeof *filters);
    for (size_t i = 0; i < query->filter_count; i++) {
        filters[i] = query->filters[i];
        lk_bytes *texts = lk_arena_take(&s->arena, (filters[i].text_count + 1) * sizeof *texts);
        for (size_t text = 0; text < filters[i].text_count; text++) {
            texts[text] = lk_arena_copy(&s->arena, filters[i].texts[text]);
        }
        filters[i].texts = texts;
    }
    s->query = *query;
    s->query.filters = filters;
    s->query.after = NULL;
}

lk_rc lk_query_any_open(
    lk_rollout_snapshot *snapshot, const lk_rollout_query *query, lk_batches **out, lk_err *err)
{
    stream *s = calloc(1, sizeof *s);
    LK_ASSERT(s != NULL);
    s->base = (lk_batches){.next = next_batch, .close = close_stream};
    s->snapshot = lk_rollout_snapshot_ref(snapshot);
    s->skip = query->offset;
    s->left = query->limit;
    copy_filters(s, query);
    lk_rc rc = lk_query_columns_choose(snapshot, query, &s->columns, err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(&s->columns.schema, &s->base.schema, err);
    }
    if (rc == LK_OK) {
        s->batch_rows = lk_query_first_rows(&s->columns);
        rc = look_ahead(s, err);
    }
    if (rc != LK_OK) {
        close_stream(&s->base);
        return rc;
    }
    *out = &s->base;
    return LK_OK;
}

uint64_t lk_query_any_count(const lk_batches *batches)
{
    const stream *s = (const stream *)batches;
    return s->ahead.release == NULL ? 0 : (uint64_t)s->ahead.length;
}
