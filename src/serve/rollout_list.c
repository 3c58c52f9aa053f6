/* rollout_list.c - records go out: a page of a list, a trajectory, one record; in which form, rollout_forms.c. */
#include "serve/rollout_list.h"

#include "arrow/schema.h"
#include "rollout/cell.h"
#include "rollout/records_json.h"
#include "serve/rollout_forms.h"

#include <stdlib.h>

/* -- rows as an answer ------------------------------------------------------------------------------------------------- */

static rollout_source *source_of(
    rollout_call *call, const lk_rollout_list_query *query, lk_batches *rows, lk_bytes next_cursor)
{
    rollout_answers *answers = &call->service->answers;
    switch (query->format) {
    case LK_ROLLOUT_AS_NDJSON:
        return rollout_ndjson_source(rows, answers);
    case LK_ROLLOUT_AS_ARROW:
        return rollout_arrow_source(rows, answers);
    case LK_ROLLOUT_AS_PARQUET:
        return rollout_parquet_source(rows, call->service->options.write_parquet);
    case LK_ROLLOUT_AS_JSON:
        break;
    }
    return rollout_json_source(rows, answers, next_cursor);
}

/* Rows that hold their store: it may be removed, and let go by everybody else, while they are read. */
typedef struct held_rows {
    lk_batches        base;
    lk_batches       *rows;
    lk_rollout_store *store;
} held_rows;

static lk_rc next_held(lk_batches *base, struct ArrowArray *out, lk_err *err)
{
    return lk_batches_next(((held_rows *)base)->rows, out, err);
}

static void close_held(lk_batches *base)
{
    held_rows *held = (held_rows *)base;
    lk_batches_close(held->rows);
    lk_schema_release(&held->base.schema);
    lk_rollout_store_unref(held->store);
    free(held);
}

lk_batches *rollout_hold_store(lk_batches *rows, lk_rollout_store *store)
{
    lk_err     err = {0};
    held_rows *held = calloc(1, sizeof *held);
    LK_ASSERT(held != NULL);
    held->base.next = next_held;
    held->base.close = close_held;
    held->rows = rows;
    held->store = lk_rollout_store_ref(store);
    lk_rc rc = lk_schema_copy(&rows->schema, &held->base.schema, &err);
    LK_ASSERT(rc == LK_OK); /* a few names */
    return &held->base;
}

void rollout_answer_rows(
    rollout_call *call, const lk_rollout_list_query *query, lk_batches *rows, lk_bytes next_cursor)
{
    if (query->format != LK_ROLLOUT_AS_JSON && next_cursor.size > 0) {
        lk_http_add_field(call->exchange, "Next-Cursor", next_cursor);
    }
    rollout_output_send(
        call->exchange, lk_rollout_format_type(query->format), source_of(call, query, rows, next_cursor));
}

/* -- lists ------------------------------------------------------------------------------------------------------------- */

lk_rc rollout_read_query(rollout_call *call, lk_rollout_list_query *out, lk_err *err)
{
    const lk_http_head *head = lk_http_request(call->exchange);
    lk_rc               rc = lk_rollout_list_query_read(head->query, call->arena, out, err);
    out->format = out->has_format ? out->format : lk_rollout_format_of(head);
    out->query.cancel = lk_http_cancel(call->exchange);
    out->query.budget = &call->service->answers.budget;
    if (out->version == 0 && !out->has_cursor) {
        out->version = rollout_pinned(call->service, call->target.name);
    }
    call->is_pinned = out->has_cursor || out->version > 0;
    if (rc == LK_OK && out->format == LK_ROLLOUT_AS_PARQUET && call->service->options.write_parquet == NULL) {
        rc = lk_refuse(err, LK_E_UNSUPPORTED_MEDIA, "this server writes no Parquet");
    }
    return rc;
}

/* The snapshot that the query is about, and with a cursor where it goes on. */
static lk_rc take_snapshot(rollout_call *call, lk_rollout_store *store, lk_rollout_list_query *q,
    lk_rollout_snapshot **out, lk_rollout_key *after, lk_err *err)
{
    if (q->cursor.size == 0) {
        return lk_rollout_store_snapshot(store, q->version, out, err);
    }
    lk_rc rc = lk_rollout_store_resume(store, q->cursor, &q->query, call->arena, out, after, err);
    q->query.after = after;
    return rc;
}

/* The cursor of the page behind this one, if there may be one. A client that follows cursors must get it; to another one it
 * is an offer. */
static lk_rc write_cursor(lk_rollout_store *store, lk_rollout_snapshot *snapshot,
    const lk_rollout_list_query *q, const lk_batches *rows, lk_buf *out, lk_err *err)
{
    lk_err         offer = {0};
    lk_rollout_key last;
    if (q->query.order == LK_ROLLOUT_ANY || q->version > 0 || lk_rollout_query_count(rows) < q->query.limit ||
        !lk_rollout_query_last(rows, &last)) {
        return LK_OK;
    }
    lk_rc rc = lk_rollout_store_cursor(store, snapshot, &q->query, &last, out, &offer);
    if (rc != LK_OK) {
        lk_buf_clear(out);
    }
    if (rc != LK_OK && q->has_cursor) {
        *err = offer;
        return rc;
    }
    return LK_OK;
}

static lk_rc open_rows(
    rollout_call *call, lk_rollout_list_query *q, lk_batches **rows, lk_buf *next_cursor, lk_err *err)
{
    lk_rollout_store    *store = NULL;
    lk_rollout_snapshot *snapshot = NULL;
    lk_rollout_key       after;
    lk_rc                rc = rollout_open_store(call, &store, err);
    if (rc == LK_OK) {
        rc = take_snapshot(call, store, q, &snapshot, &after, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_query_open(snapshot, &q->query, rows, err);
    }
    if (rc == LK_OK) {
        rc = write_cursor(store, snapshot, q, *rows, next_cursor, err);
    }
    if (rc == LK_OK) {
        *rows = rollout_hold_store(*rows, store);
    } else {
        lk_batches_close(*rows);
    }
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_store_unref(store);
    return rc;
}

static lk_rc answer_query(rollout_call *call, lk_rollout_list_query *query, lk_err *err)
{
    lk_batches *rows = NULL;
    lk_buf      next_cursor = {0};
    lk_rc       rc = open_rows(call, query, &rows, &next_cursor, err);
    lk_bytes    cursor = rc == LK_OK && next_cursor.size > 0
                             ? lk_arena_copy(call->arena, lk_buf_view(&next_cursor))
                             : (lk_bytes){0};
    lk_buf_deinit(&next_cursor);
    if (rc == LK_OK) {
        rollout_answer_rows(call, query, rows, cursor);
    }
    return rc;
}

lk_rc rollout_list(rollout_call *call, lk_err *err)
{
    lk_rollout_list_query query;
    lk_rc                 rc = rollout_read_query(call, &query, err);
    return rc == LK_OK ? answer_query(call, &query, err) : rc;
}

/* -- trajectories ------------------------------------------------------------------------------------------------------ */

typedef struct turn {
    int32_t  order;
    lk_bytes id;
    int64_t  row;
} turn;

static int by_turn(const void *a, const void *b)
{
    const turn *x = a, *y = b;
    return x->order != y->order ? (x->order > y->order) - (x->order < y->order)
                                : lk_bytes_compare(x->id, y->id);
}

/* The rows of a batch in the order of (sequence_order, id), the reference's. The batch has all columns. */
static lk_rc sort_turns(
    const struct ArrowSchema *schema, const struct ArrowArray *batch, struct ArrowArray *out, lk_err *err)
{
    const struct ArrowArray *ids = batch->children[LK_RECORD_COLUMN_id];
    const struct ArrowArray *orders = batch->children[LK_RECORD_COLUMN_sequence_order];
    turn                    *turns = calloc((size_t)batch->length + 1, sizeof *turns);
    int64_t                 *rows = calloc((size_t)batch->length + 1, sizeof *rows);
    LK_ASSERT(turns != NULL && rows != NULL);
    for (int64_t row = 0; row < batch->length; row++) {
        int32_t order =
            lk_cell_valid(orders, row) ? ((const int32_t *)orders->buffers[1])[orders->offset + row] : 0;
        turns[row] = (turn){order, lk_cell_text(ids, row), row};
    }
    qsort(turns, (size_t)batch->length, sizeof *turns, by_turn);
    for (int64_t i = 0; i < batch->length; i++) {
        rows[i] = turns[i].row;
    }
    lk_rc rc = lk_array_take(schema, batch, rows, batch->length, out, err);
    free(turns);
    free(rows);
    return rc;
}

/* Everything a stream has as one batch; closes it. */
static lk_rc take_all(lk_batches *rows, struct ArrowSchema *schema, struct ArrowArray *out, lk_err *err)
{
    lk_buf list = {0};
    lk_rc  rc = LK_OK;
    for (bool more = true; more && rc == LK_OK;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        if (more) {
            lk_buf_append(&list, &batch, sizeof batch);
        }
    }
    struct ArrowArray *batches = (struct ArrowArray *)(void *)list.data;
    size_t             count = list.size / sizeof *batches;
    if (rc == LK_OK) {
        rc = lk_array_concat(&rows->schema, batches, count, out, err);
    }
    for (size_t i = 0; i < count; i++) {
        lk_array_release(&batches[i]);
    }
    lk_schema_move(&rows->schema, schema);
    lk_buf_deinit(&list);
    lk_batches_close(rows);
    return rc;
}

/* Rows of one rollout_id, which are few. */
lk_rc rollout_trajectory(rollout_call *call, lk_err *err)
{
    lk_rollout_list_query   query;
    struct ArrowSchema      schema = {0};
    struct ArrowArray       found = {0}, sorted = {0};
    lk_batches             *rows = NULL;
    lk_buf                  none = {0};
    const lk_rollout_filter filter = {
        .column = LK_RECORD_COLUMN_rollout_id, .texts = &call->target.id, .text_count = 1};
    lk_rc rc = rollout_read_query(call, &query, err);
    if (rc == LK_OK && (query.query.filter_count > 0 || query.query.columns != 0 || query.has_cursor ||
                           query.query.offset > 0 || query.query.limit != UINT64_MAX)) {
        rc =
            lk_refuse(err, LK_E_INVALID_REQUEST, "a trajectory is whole: only format and version go with it");
    }
    query.query.filters = &filter;
    query.query.filter_count = 1;
    query.query.order = LK_ROLLOUT_ANY;
    if (rc == LK_OK) {
        rc = open_rows(call, &query, &rows, &none, err);
    }
    if (rc == LK_OK) {
        rc = take_all(rows, &schema, &found, err);
    }
    if (rc == LK_OK) {
        rc = sort_turns(&schema, &found, &sorted, err);
    }
    lk_array_release(&found);
    if (rc != LK_OK) {
        lk_schema_release(&schema);
        return rc;
    }
    rollout_answer_rows(call, &query, lk_batches_of(&schema, &sorted, 1), (lk_bytes){0});
    return LK_OK;
}

/* -- one record --------------------------------------------------------------------------------------------------------- */

static lk_rc write_found(rollout_call *call, lk_rollout_snapshot *snapshot, lk_buf *body, lk_err *err)
{
    struct ArrowArray  found = {0};
    struct ArrowSchema schema = {0};
    size_t             wanted = 0;
    lk_rc              rc = lk_rollout_snapshot_find(
                     snapshot, &call->target.id, 1, lk_http_cancel(call->exchange), &found, &wanted, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_buf_append_text(body, "{\"record\":");
    if (found.length == 0) {
        lk_buf_append_text(body, "null");
    } else {
        lk_rollout_rows_schema(&schema);
        lk_record_write_json(&schema, &found, 0, body);
        lk_schema_release(&schema);
    }
    lk_buf_append_text(body, "}");
    lk_array_release(&found);
    return LK_OK;
}

lk_rc rollout_get(rollout_call *call, lk_err *err)
{
    lk_rollout_store     *store = NULL;
    lk_rollout_snapshot  *snapshot = NULL;
    lk_rollout_list_query query;
    lk_buf                body = {0};
    lk_rc                 rc = rollout_read_query(call, &query, err);
    if (rc == LK_OK) {
        rc = rollout_open_store(call, &store, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_store_snapshot(store, query.version, &snapshot, err);
    }
    if (rc == LK_OK) {
        rc = write_found(call, snapshot, &body, err);
    }
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_store_unref(store);
    if (rc == LK_OK) {
        rollout_output_whole(call->exchange, "application/json", &body);
    }
    return rc;
}
