/*
 * fuzz_rollout_records.c - records as JSON: what is accepted is a valid batch, and its rows written as JSON are accepted
 * again and written the same.
 */
#include "rollout/records_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_lines(lk_bytes body, struct ArrowArray *batch)
{
    lk_err      err = {0};
    lk_records *records = NULL;
    lk_rc       rc = lk_records_open(1, NULL, &records, &err);
    LK_ASSERT(rc == LK_OK);
    rc = lk_records_read_ndjson(records, body, &err);
    if (rc == LK_OK) {
        rc = lk_records_finish(records, false, batch, &err);
    }
    lk_records_close(records);
    return rc == LK_OK;
}

static void write_lines(const struct ArrowSchema *schema, const struct ArrowArray *batch, lk_buf *out)
{
    for (int64_t row = 0; row < batch->length; row++) {
        lk_record_write_json(schema, batch, row, out);
        lk_buf_append_text(out, "\n");
    }
}

static void check(struct ArrowArray *batch)
{
    lk_err             err = {0};
    lk_buf             first = {0}, second = {0};
    struct ArrowArray  again = {0};
    struct ArrowSchema schema;
    lk_record_schema(true, &schema);
    LK_ASSERT(lk_array_validate(&schema, batch, &err) == LK_OK);
    write_lines(&schema, batch, &first);
    LK_ASSERT(read_lines(lk_buf_view(&first), &again));
    write_lines(&schema, &again, &second);
    LK_ASSERT(lk_bytes_equal(lk_buf_view(&first), lk_buf_view(&second)));
    lk_array_release(&again);
    lk_schema_release(&schema);
    lk_buf_deinit(&first);
    lk_buf_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_err            err = {0};
    struct ArrowArray batch = {0};
    lk_records       *records = NULL;
    lk_bytes          body = {(const char *)data, size};
    if (read_lines(body, &batch)) {
        check(&batch);
        lk_array_release(&batch);
    }
    lk_rc rc = lk_records_open(1, NULL, &records, &err);
    LK_ASSERT(rc == LK_OK);
    if (lk_records_read_json(records, body, &err) == LK_OK &&
        lk_records_finish(records, true, &batch, &err) == LK_OK) {
        check(&batch);
        lk_array_release(&batch);
    }
    lk_records_close(records);
    return 0;
}
