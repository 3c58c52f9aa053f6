/*
 * rollout_list.c - records go out: a page of a list, a trajectory, one record. As JSON, a line each, or as Arrow batches; made
 * batch by batch, so that memory does not grow with the answer.
 */
#include "arrow/ipc.h"
#include "base/json.h"
#include "rollout/records_json.h"
#include "serve/rollout_output.h"
#include "serve/rollout_query_text.h"
#include "serve/rollout_service_priv.h"

/* -- forms ------------------------------------------------------------------------------------------------------------ */

/* Writes the rows of a stream with `between` between them. */
static lk_rc write_rows(lk_batches *rows, const char *between, rollout_output *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    bool  first = true;
    for (bool more = true; more && rc == LK_OK;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        for (int64_t row = 0; more && rc == LK_OK && row < batch.length; row++) {
            lk_buf_append_text(&out->held, first ? "" : between);
            lk_record_write_json(&rows->schema, &batch, row, &out->held);
            first = false;
            rc = rollout_output_flush(out, err);
        }
        lk_array_release(&batch);
    }
    return rc;
}

static lk_rc write_json(lk_batches *rows, rollout_output *out, lk_err *err)
{
    lk_buf_append_text(&out->held, "{\"records\":[");
    lk_rc rc = write_rows(rows, ",", out, err);
    lk_buf_append_text(&out->held, "]}");
    return rc;
}

static lk_rc write_ndjson(lk_batches *rows, rollout_output *out, lk_err *err)
{
    lk_rc rc = write_rows(rows, "\n", out, err);
    if (rc == LK_OK && (out->began || out->held.size > 0)) {
        lk_buf_append_text(&out->held, "\n");
    }
    return rc;
}

typedef struct sink {
    lk_ipc_sink     base;
    rollout_output *out;
} sink;

static lk_rc write_sink(lk_ipc_sink *base, const void *data, size_t size, lk_err *err)
{
    sink *s = (sink *)base;
    lk_buf_append(&s->out->held, data, size);
    return rollout_output_flush(s->out, err);
}

static lk_rc write_arrow(lk_batches *rows, rollout_output *out, lk_err *err)
{
    sink           to = {{write_sink}, out};
    lk_ipc_writer *writer = NULL;
    lk_rc          rc = lk_ipc_writer_open(&rows->schema, LK_IPC_STREAM, &to.base, &writer, err);
    for (bool more = true; more && rc == LK_OK;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        if (more) {
            lk_shared_array *shared = lk_array_share(&batch);
            rc = lk_ipc_writer_write(writer, shared, err);
            lk_shared_array_unref(shared);
        }
    }
    if (rc == LK_OK) {
        rc = lk_ipc_writer_finish(writer, err);
    }
    lk_ipc_writer_close(writer);
    return rc;
}

/* Answers with the rows of a stream, which it takes; what they came from is not needed any more. */
static lk_rc answer_rows(rollout_call *call, lk_rollout_format format, lk_batches *rows, lk_err *err)
{
    static lk_rc (*const writers[])(lk_batches *, rollout_output *, lk_err *) = {
        [LK_ROLLOUT_AS_JSON] = write_json,
        [LK_ROLLOUT_AS_NDJSON] = write_ndjson,
        [LK_ROLLOUT_AS_ARROW] = write_arrow,
    };
    rollout_output out;
    if (format >= sizeof writers / sizeof writers[0]) {
        lk_batches_close(rows);
        return lk_refuse(err, LK_E_UNSUPPORTED_MEDIA, "records go out as JSON, NDJSON or Arrow");
    }
    rollout_output_open(&out, call->exchange, lk_rollout_format_type(format));
    lk_rc rc = writers[format](rows, &out, err);
    lk_batches_close(rows);
    if (rc == LK_OK) {
        rollout_output_finish(&out);
    } else if (!rollout_output_abort(&out)) {
        rc = LK_OK;
    }
    return rc;
}

/* -- lists ------------------------------------------------------------------------------------------------------------- */

static lk_rc open_rows(rollout_call *call, const lk_rollout_list_query *q, lk_batches **rows, lk_err *err)
{
    lk_rollout_store    *store = NULL;
    lk_rollout_snapshot *snapshot = NULL;
    lk_rollout_query     query = q->query;
    query.cancel = lk_http_cancel(call->exchange);
    query.budget = &call->service->memory;
    lk_rc rc = rollout_open_store(call, &store, err);
    if (rc == LK_OK) {
        rc = lk_rollout_store_snapshot(store, q->version, &snapshot, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_query_open(snapshot, &query, rows, err);
    }
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_store_unref(store);
    return rc;
}

static lk_rc read_query(rollout_call *call, lk_rollout_list_query *out, lk_err *err)
{
    const lk_http_head *head = lk_http_request(call->exchange);
    lk_rc               rc = lk_rollout_list_query_read(head->query, call->arena, out, err);
    out->format = out->has_format ? out->format : lk_rollout_format_of(head);
    return rc;
}

lk_rc rollout_list(rollout_call *call, lk_err *err)
{
    lk_rollout_list_query query;
    lk_batches           *rows = NULL;
    lk_rc                 rc = read_query(call, &query, err);
    if (rc == LK_OK) {
        rc = open_rows(call, &query, &rows, err);
    }
    return rc == LK_OK ? answer_rows(call, query.format, rows, err) : rc;
}

/* Rows of one rollout_id. They are few, so they are sorted here, by (sequence_order, id). */
lk_rc rollout_trajectory(rollout_call *call, lk_err *err)
{
    lk_rollout_list_query query;
    lk_batches           *rows = NULL;
    lk_rc                 rc = read_query(call, &query, err);
    if (rc == LK_OK && query.query.filter_count > 0) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "a trajectory takes no filters");
    }
    const lk_rollout_filter filter = {
        .column = LK_RECORD_COLUMN_rollout_id, .texts = &call->target.id, .text_count = 1};
    query.query.filters = &filter;
    query.query.filter_count = 1;
    if (rc == LK_OK) {
        rc = open_rows(call, &query, &rows, err);
    }
    return rc == LK_OK ? answer_rows(call, query.format, rows, err) : rc;
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
    rollout_output        out;
    lk_buf                body = {0};
    lk_rc                 rc = read_query(call, &query, err);
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
        rollout_output_open(&out, call->exchange, "application/json");
        out.held = body;
        rollout_output_finish(&out);
    }
    return rc;
}
