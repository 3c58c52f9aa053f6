/* wal_test.c - a log entry is the stream that the IPC writer writes, whatever its writer kept of the entries before. */
#include "rollout/wal.h"

#include "arrow/schema.h"
#include "rollout/records_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

static lk_shared_array *rows_of(const char *lines)
{
    lk_err            err = {0};
    lk_records       *records = NULL;
    struct ArrowArray batch = {0};
    assert_int_equal(lk_records_open(1, NULL, &records, &err), LK_OK);
    assert_int_equal(lk_records_read_ndjson(records, lk_bytes_of(lines), &err), LK_OK);
    assert_int_equal(lk_records_finish(records, false, &batch, &err), LK_OK);
    lk_records_close(records);
    return lk_array_share(&batch);
}

/* The whole stream, with nothing that was kept. */
static void write_stream(lk_shared_array *const *batches, size_t count, const char *epoch, lk_buf *out)
{
    lk_err             err = {0};
    buf_sink           sink = {.base = {sink_write}, .out = out};
    lk_ipc_writer     *writer = NULL;
    struct ArrowSchema schema = {0};
    struct ArrowBuffer metadata = {0};
    assert_int_equal(lk_schema_copy(lk_record_columns(), &schema, &err), LK_OK);
    assert_int_equal(ArrowMetadataBuilderInit(&metadata, NULL), NANOARROW_OK);
    assert_int_equal(
        ArrowMetadataBuilderAppend(&metadata, ArrowCharView("writer_epoch"), ArrowCharView(epoch)),
        NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetMetadata(&schema, (const char *)metadata.data), NANOARROW_OK);
    assert_int_equal(lk_ipc_writer_open(&schema, LK_IPC_STREAM, &sink.base, &writer, &err), LK_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(lk_ipc_writer_write(writer, batches[i], &err), LK_OK);
    }
    assert_int_equal(lk_ipc_writer_finish(writer, &err), LK_OK);
    lk_ipc_writer_close(writer);
    ArrowBufferReset(&metadata);
    lk_schema_release(&schema);
}

static void expect_entry(
    lk_wal_form *form, lk_shared_array *const *batches, size_t count, uint64_t epoch, const char *text)
{
    lk_err   err = {0};
    lk_buf   expected = {0};
    lk_bytes entry;
    write_stream(batches, count, text, &expected);
    assert_int_equal(lk_wal_encode(form, lk_record_columns(), batches, count, epoch, &entry, &err), LK_OK);
    assert_true(lk_bytes_equal(entry, lk_buf_view(&expected)));
    lk_buf_deinit(&expected);
}

static void an_entry_is_a_whole_stream_whatever_came_before(void **state)
{
    lk_wal_form      form = {0};
    lk_shared_array *batches[] = {
        rows_of("{\"id\":\"a\",\"rollout_id\":\"r\",\"role\":\"tool\",\"output_tokens\":[1,2,null]}"),
        rows_of("{\"id\":\"b\",\"rollout_id\":\"r\",\"role\":\"grade\",\"reward\":0.5}\n{\"id\":\"c\","
                "\"rollout_id\":\"r\"}"),
        rows_of("{\"id\":\"d\",\"rollout_id\":\"r\",\"role\":\"grade\"}")};
    expect_entry(&form, batches, 3, 7, "7");     /* roles change within it */
    expect_entry(&form, batches + 2, 1, 7, "7"); /* and are sent again in the next */
    expect_entry(&form, batches + 2, 1, 7, "7");
    expect_entry(&form, batches, 2, 8, "8"); /* the shard was claimed again */
    for (size_t i = 0; i < 3; i++) {
        lk_shared_array_unref(batches[i]);
    }
    lk_wal_form_deinit(&form);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_entry_is_a_whole_stream_whatever_came_before)};
    return cmocka_run_group_tests_name("log entries", tests, NULL, NULL);
}
