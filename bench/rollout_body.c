/* rollout_body.c - see rollout_body.h. */
#include "rollout_body.h"

#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "base/clock.h"
#include "rollout/records.h"
#include "rollout/records_json.h"

#include <inttypes.h>

static int token_at(uint64_t i)
{
    return (int)(i * 7919 % 151936 + 1);
}

/* Tokens and logprobs from the `first` on. */
static void put_lists(uint64_t first, uint64_t tokens, lk_buf *out)
{
    for (int list = 0; list < 2; list++) {
        lk_buf_append_text(out, list == 0 ? ",\"output_tokens\":[" : "],\"output_logprobs\":[");
        for (uint64_t i = first; i < first + tokens; i++) {
            lk_buf_format(out, list == 0 ? "%s%d" : "%s-0.%07d", i == first ? "" : ",", token_at(i));
        }
    }
    lk_buf_append_text(out, "]");
}

lk_body_maker lk_body_maker_of(uint64_t run, uint64_t rows, uint64_t tokens)
{
    lk_body_maker m = {.run = run, .rows = rows, .tokens = tokens};
    if (tokens > 0) {
        put_lists(0, tokens, &m.lists);
    }
    lk_buf_append_text(&m.lists, "}");
    return m;
}

void lk_body_maker_deinit(lk_body_maker *m)
{
    lk_buf_deinit(&m->lists);
}

static void add_record(const lk_body_maker *m, uint64_t request, uint64_t row, bool with_lists, lk_buf *out)
{
    lk_buf_format(out,
        "{\"id\":\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\",\"rollout_id\":\"r-%" PRIx64
        "\",\"role\":\"assistant\",\"policy_version\":\"v1\",\"reward\":0.5,\"content\":\"the answer is "
        "%" PRIu64 "\"",
        m->run, request, row, request, row);
    if (with_lists && m->tokens > 0) {
        lk_buf_format(out, ",\"advantage\":0.%03d", (int)(row * 31 % 1000));
    }
    if (with_lists && m->varied) { /* 1 to twice as many less 1 */
        uint64_t at = request * m->rows + row;
        put_lists(at, 1 + at * 7919 % (2 * m->tokens - 1), out);
    }
    lk_buf_append_bytes(out, with_lists && !m->varied ? lk_buf_view(&m->lists) : LK_LITERAL("}"));
}

void lk_body_json(const lk_body_maker *m, uint64_t request, lk_buf *out)
{
    lk_buf_append_text(out, "{\"records\":[");
    for (uint64_t row = 0; row < m->rows; row++) {
        lk_buf_append_text(out, row == 0 ? "" : ",");
        add_record(m, request, row, true, out);
    }
    lk_buf_append_text(out, "]}");
}

/* -- Arrow ------------------------------------------------------------------------------------------------------------- */

typedef struct buf_sink {
    lk_ipc_sink base;
    lk_buf     *out;
} buf_sink;

static lk_rc sink_write(lk_ipc_sink *sink, const void *data, size_t size, lk_err *err)
{
    (void)err;
    lk_buf_append(((buf_sink *)sink)->out, data, size);
    return LK_OK;
}

static lk_rc fill(const lk_body_maker *m, uint64_t request, struct ArrowArray *out, lk_err *err)
{
    lk_records *records = NULL;
    lk_buf      lines = {0};
    for (uint64_t row = 0; row < m->rows; row++) {
        add_record(m, request, row, true, &lines);
        lk_buf_append_text(&lines, "\n");
    }
    lk_rc rc = lk_records_open(lk_clock_now_us(), NULL, &records, err);
    if (rc == LK_OK) {
        rc = lk_records_read_ndjson(records, lk_buf_view(&lines), err);
    }
    if (rc == LK_OK) {
        rc = lk_records_finish(records, false, out, err);
    }
    lk_records_close(records);
    lk_buf_deinit(&lines);
    return rc;
}

/* The columns that a trainer sends; a server fills in the others. */
static lk_rc choose(struct ArrowArray *batch, struct ArrowSchema *schema, struct ArrowArray *out, lk_err *err)
{
    static const size_t chosen[] = {LK_RECORD_COLUMN_id, LK_RECORD_COLUMN_rollout_id,
        LK_RECORD_COLUMN_content, LK_RECORD_COLUMN_output_tokens, LK_RECORD_COLUMN_output_logprobs,
        LK_RECORD_COLUMN_reward, LK_RECORD_COLUMN_policy_version};
    enum { COUNT = sizeof chosen / sizeof *chosen };
    struct ArrowSchema whole = {0};
    struct ArrowArray  columns[COUNT] = {0};
    int64_t            length = batch->length;
    lk_record_schema(true, &whole);
    lk_shared_array *shared = lk_array_share(batch);
    for (size_t i = 0; i < COUNT; i++) {
        lk_shared_batch_column(shared, chosen[i], &columns[i]);
    }
    lk_batch_of_columns(columns, COUNT, length, out);
    lk_rc rc = lk_schema_project(&whole, chosen, COUNT, schema, err);
    lk_shared_array_unref(shared);
    lk_schema_release(&whole);
    return rc;
}

lk_rc lk_body_arrow(const lk_body_maker *m, uint64_t request, lk_buf *out, lk_err *err)
{
    buf_sink           sink = {.base = {sink_write}, .out = out};
    struct ArrowArray  whole = {0}, few = {0};
    struct ArrowSchema schema = {0};
    lk_ipc_writer     *writer = NULL;
    lk_shared_array   *shared = NULL;
    lk_rc              rc = fill(m, request, &whole, err);
    if (rc == LK_OK) {
        rc = choose(&whole, &schema, &few, err);
        shared = lk_array_share(&few);
    }
    if (rc == LK_OK) {
        rc = lk_ipc_writer_open(&schema, LK_IPC_STREAM, &sink.base, &writer, err);
    }
    if (rc == LK_OK) {
        rc = lk_ipc_writer_write(writer, shared, err);
    }
    if (rc == LK_OK) {
        rc = lk_ipc_writer_finish(writer, err);
    }
    lk_ipc_writer_close(writer);
    if (shared != NULL) {
        lk_shared_array_unref(shared);
    }
    lk_schema_release(&schema);
    return rc;
}
