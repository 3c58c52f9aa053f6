/* pb_flight_test.c - our bytes against those of Google's protobuf library (pb_flight_golden.h), both ways. */
#include "flight/pb_flight.h"

#include "base/hash.h"
#include "flight/pb_flight_golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static lk_arena arena;
static lk_err   err;

static lk_bytes unhex(const char *text)
{
    size_t size = strlen(text) / 2;
    char  *bytes = lk_arena_take(&arena, size + 1);
    assert_true(lk_unhex(lk_bytes_of(text), bytes, size));
    return (lk_bytes){bytes, size};
}

static void expect(const lk_buf *got, const char *golden)
{
    char *text = lk_arena_take(&arena, got->size * 2 + 1);
    lk_hex(got->data == NULL ? "" : got->data, got->size, text);
    assert_string_equal(text, golden);
}

static void expect_text(lk_bytes got, const char *text)
{
    assert_non_null(got.data);
    assert_int_equal(got.size, strlen(text));
    assert_memory_equal(got.data, text, got.size);
}

/* Reads the golden message into value and writes it back: the same bytes. */
#define ROUND(name, golden, value)                                                        \
    do {                                                                                  \
        lk_buf out_ = {0};                                                                \
        assert_int_equal(lk_##name##_read(unhex(golden), &arena, &(value), &err), LK_OK); \
        lk_##name##_write(&(value), &out_);                                               \
        expect(&out_, golden);                                                            \
        lk_buf_deinit(&out_);                                                             \
    } while (0)

static void flight_messages_read_and_write_as_the_reference(void **state)
{
    lk_flight_descriptor descriptor;
    ROUND(flight_descriptor, GOLDEN_DESCRIPTOR, descriptor);
    assert_int_equal(descriptor.type, LK_FLIGHT_DESCRIPTOR_CMD);
    assert_true(lk_bytes_equal(descriptor.cmd, LK_LITERAL("c\0d")));
    ROUND(flight_descriptor, GOLDEN_PATH, descriptor);
    assert_int_equal(descriptor.path.count, 3);
    expect_text(descriptor.path.items[0], "lake");
    expect_text(descriptor.path.items[1], "");
    expect_text(descriptor.path.items[2], "t\xc3\xa4"
                                          "ble");

    lk_flight_info info;
    ROUND(flight_info, GOLDEN_INFO, info);
    assert_int_equal(info.total_records, -1);
    assert_true(info.total_bytes == INT64_C(1) << 40);
    assert_true(info.ordered && info.descriptor.present);
    assert_int_equal(info.endpoint_count, 2);
    assert_true(info.endpoints[0].ticket.present && !info.endpoints[1].ticket.present);
    expect_text(info.endpoints[0].ticket.ticket, "tick");
    assert_int_equal(info.endpoints[0].location_count, 2);
    expect_text(info.endpoints[0].locations[0].uri, "grpc://a:1");
    assert_int_equal(info.endpoints[0].expiration_time.seconds, 1700000000);
    assert_int_equal(info.endpoints[0].expiration_time.nanos, 5);
    ROUND(flight_info, GOLDEN_INFO_EMPTY, info);

    lk_flight_poll_info poll;
    ROUND(flight_poll_info, GOLDEN_POLL_INFO, poll);
    assert_true(poll.progress_present && poll.expiration_time.seconds == -1);

    lk_flight_endpoint               endpoint;
    lk_flight_schema_result          schema;
    lk_flight_put_result             put;
    lk_flight_action                 action;
    lk_flight_result                 result;
    lk_flight_action_type            type;
    lk_flight_criteria               criteria;
    lk_flight_handshake              handshake;
    lk_flight_basic_auth             basic;
    lk_flight_cancel_info_request    cancel;
    lk_flight_cancel_info_result     cancelled;
    lk_flight_renew_endpoint_request renew;
    ROUND(flight_endpoint, GOLDEN_ENDPOINT, endpoint);
    ROUND(flight_schema_result, GOLDEN_SCHEMA_RESULT, schema);
    ROUND(flight_put_result, GOLDEN_PUT_RESULT, put);
    ROUND(flight_action, GOLDEN_ACTION, action);
    expect_text(action.type, "create_table");
    ROUND(flight_result, GOLDEN_RESULT, result);
    assert_int_equal(result.body.size, 130);
    ROUND(flight_action_type, GOLDEN_ACTION_TYPE, type);
    ROUND(flight_criteria, GOLDEN_CRITERIA, criteria);
    ROUND(flight_handshake, GOLDEN_HANDSHAKE, handshake);
    assert_true(handshake.protocol_version == UINT64_MAX);
    ROUND(flight_basic_auth, GOLDEN_BASIC_AUTH, basic);
    expect_text(basic.password, "p");
    ROUND(flight_cancel_info_request, GOLDEN_CANCEL_REQUEST, cancel);
    assert_true(cancel.info.present);
    ROUND(flight_cancel_info_result, GOLDEN_CANCEL_RESULT, cancelled);
    assert_int_equal(cancelled.status, LK_FLIGHT_CANCEL_NOT_CANCELLABLE);
    ROUND(flight_renew_endpoint_request, GOLDEN_RENEW_REQUEST, renew);
}

static void commands_read_and_write_as_the_reference(void **state)
{
    static const struct {
        lk_flight_sql_kind kind;
        const char        *golden;
    } rows[] = {
        {LK_FLIGHT_SQL_STATEMENT_QUERY, GOLDEN_STATEMENT_QUERY},
        {LK_FLIGHT_SQL_STATEMENT_QUERY, GOLDEN_STATEMENT_QUERY_TX},
        {LK_FLIGHT_SQL_STATEMENT_UPDATE, GOLDEN_STATEMENT_UPDATE},
        {LK_FLIGHT_SQL_STATEMENT_SUBSTRAIT, GOLDEN_STATEMENT_SUBSTRAIT},
        {LK_FLIGHT_SQL_STATEMENT_INGEST, GOLDEN_STATEMENT_INGEST},
        {LK_FLIGHT_SQL_STATEMENT_TICKET, GOLDEN_STATEMENT_TICKET},
        {LK_FLIGHT_SQL_PREPARED_QUERY, GOLDEN_PREPARED_QUERY},
        {LK_FLIGHT_SQL_PREPARED_UPDATE, GOLDEN_PREPARED_UPDATE},
        {LK_FLIGHT_SQL_GET_CATALOGS, GOLDEN_GET_CATALOGS},
        {LK_FLIGHT_SQL_GET_DB_SCHEMAS, GOLDEN_GET_DB_SCHEMAS},
        {LK_FLIGHT_SQL_GET_TABLES, GOLDEN_GET_TABLES},
        {LK_FLIGHT_SQL_GET_TABLE_TYPES, GOLDEN_GET_TABLE_TYPES},
        {LK_FLIGHT_SQL_GET_SQL_INFO, GOLDEN_GET_SQL_INFO},
        {LK_FLIGHT_SQL_GET_TYPE_INFO, GOLDEN_GET_TYPE_INFO},
        {LK_FLIGHT_SQL_GET_PRIMARY_KEYS, GOLDEN_GET_PRIMARY_KEYS},
        {LK_FLIGHT_SQL_GET_EXPORTED_KEYS, GOLDEN_GET_EXPORTED_KEYS},
        {LK_FLIGHT_SQL_GET_IMPORTED_KEYS, GOLDEN_GET_IMPORTED_KEYS},
        {LK_FLIGHT_SQL_GET_CROSS_REFERENCE, GOLDEN_GET_CROSS_REFERENCE},
        {LK_FLIGHT_SQL_CREATE_PREPARED, GOLDEN_CREATE_PREPARED},
        {LK_FLIGHT_SQL_PREPARED, GOLDEN_PREPARED},
        {LK_FLIGHT_SQL_CLOSE_PREPARED, GOLDEN_CLOSE_PREPARED},
        {LK_FLIGHT_SQL_CANCEL_QUERY, GOLDEN_CANCEL_QUERY},
    };
    bool seen[LK_FLIGHT_SQL_KIND_COUNT] = {true}; /* OTHER has its own test */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lk_flight_sql_command command;
        lk_buf                out = {0};
        assert_int_equal(lk_flight_sql_command_read(unhex(rows[i].golden), &arena, &command, &err), LK_OK);
        assert_int_equal(command.kind, rows[i].kind);
        lk_flight_sql_command_write(&command, &out);
        expect(&out, rows[i].golden);
        lk_buf_deinit(&out);
        seen[rows[i].kind] = true;
    }
    for (int kind = 0; kind < LK_FLIGHT_SQL_KIND_COUNT; kind++) {
        assert_true(seen[kind]);
    }
}

static lk_flight_sql_command command_of(const char *golden)
{
    lk_flight_sql_command command;
    assert_int_equal(lk_flight_sql_command_read(unhex(golden), &arena, &command, &err), LK_OK);
    return command;
}

static void absent_and_empty_are_told_apart(void **state)
{
    lk_flight_sql_command command = command_of(GOLDEN_GET_TABLES);
    expect_text(command.get_tables.catalog, "lake");
    assert_null(command.get_tables.db_schema_pattern.data);
    expect_text(command.get_tables.table_pattern, "");
    assert_int_equal(command.get_tables.table_types.count, 2);
    assert_true(command.get_tables.include_schema);
    assert_null(command_of(GOLDEN_STATEMENT_QUERY).statement.transaction_id.data);
    expect_text(command_of(GOLDEN_STATEMENT_QUERY_TX).statement.transaction_id, "");
    lk_flight_sql_update_result updated;
    lk_flight_sql_bind_result   bound;
    ROUND(flight_sql_update_result, GOLDEN_UPDATE_RESULT, updated);
    assert_int_equal(updated.record_count, -2);
    ROUND(flight_sql_bind_result, GOLDEN_BIND_RESULT, bound);
    assert_non_null(bound.handle.data);
}

static void the_values_inside_commands_are_right(void **state)
{
    lk_flight_sql_command ingest = command_of(GOLDEN_STATEMENT_INGEST);
    assert_true(ingest.ingest.table_definition.present && ingest.ingest.temporary);
    assert_int_equal(ingest.ingest.table_definition.if_absent, LK_FLIGHT_SQL_IF_ABSENT_CREATE);
    assert_int_equal(ingest.ingest.table_definition.if_exists, LK_FLIGHT_SQL_IF_EXISTS_APPEND);
    expect_text(ingest.ingest.schema, "ns");
    expect_text(ingest.ingest.catalog, "");
    assert_int_equal(ingest.ingest.option_count, 2);
    expect_text(ingest.ingest.options[0].value, "v"); /* sorted by key: "" first */
    expect_text(ingest.ingest.options[1].key, "k");
    lk_flight_sql_command info = command_of(GOLDEN_GET_SQL_INFO);
    assert_int_equal(info.get_sql_info.id_count, 4);
    assert_int_equal(info.get_sql_info.ids[2], 500);
    assert_int_equal(info.get_sql_info.ids[3], UINT32_MAX);
    lk_flight_sql_command type = command_of(GOLDEN_GET_TYPE_INFO);
    assert_true(type.get_type_info.data_type_present);
    assert_int_equal(type.get_type_info.data_type, -5);
}

static void unpacked_numbers_unknown_fields_and_wrong_wire_types_are_taken(void **state)
{
    /* Any{CommandGetSqlInfo}: info=7 unpacked, field 9 fixed32, field 10 fixed64, info on fixed64 (unknown) */
    lk_bytes url = LK_LITERAL("type.googleapis.com/arrow.flight.protocol.sql.CommandGetSqlInfo");
    lk_bytes value =
        LK_LITERAL("\x08\x07\x4d\x01\x02\x03\x04\x51\x01\x02\x03\x04\x05\x06\x07\x08\x0a\x02\x08\x09");
    lk_buf                any = {0};
    lk_flight_sql_command command = {.kind = LK_FLIGHT_SQL_OTHER, .type_url = url, .value = value};
    lk_flight_sql_command_write(&command, &any);
    assert_int_equal(lk_flight_sql_command_read(lk_buf_view(&any), &arena, &command, &err), LK_OK);
    assert_int_equal(command.kind, LK_FLIGHT_SQL_GET_SQL_INFO);
    assert_int_equal(command.get_sql_info.id_count, 3);
    assert_int_equal(command.get_sql_info.ids[0], 7);
    assert_int_equal(command.get_sql_info.ids[2], 9);
    lk_buf_deinit(&any);
}

static void foreign_anys_keep_type_and_value(void **state)
{
    lk_flight_sql_command command = {.kind = LK_FLIGHT_SQL_OTHER,
        .type_url = LK_LITERAL("type.googleapis.com/lake.file.Append"),
        .value = LK_LITERAL("{}")};
    lk_buf                any = {0};
    lk_flight_sql_command_write(&command, &any);
    assert_int_equal(lk_flight_sql_command_read(lk_buf_view(&any), &arena, &command, &err), LK_OK);
    assert_int_equal(command.kind, LK_FLIGHT_SQL_OTHER);
    expect_text(command.type_url, "type.googleapis.com/lake.file.Append");
    expect_text(command.value, "{}");
    lk_buf_deinit(&any);
    assert_int_equal(
        lk_flight_sql_command_read(LK_LITERAL(""), &arena, &command, &err), LK_E_INVALID_REQUEST);
    assert_int_equal(
        lk_flight_sql_command_read(LK_LITERAL("SELECT 1"), &arena, &command, &err), LK_E_INVALID_REQUEST);
}

static void malformed_bytes_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t      size;
    } bad[] = {
        {"\x0a", 1}, /* no length */
        {"\x0a\x05"
         "ab",
            4},                                                   /* short */
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},     /* length 2^64-1 */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11},     /* 65 bits */
        {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12}, /* eleven bytes */
        {"\x00\x00", 2},                                          /* field 0 */
        {"\x0b\x0c", 2},                                          /* group */
        {"\x09\x01", 2},                                          /* short fixed64 */
        {"\x0d\x01", 2},                                          /* short fixed32 */
        {"\x1a\x02\xc3\x28", 4},                                  /* path: not UTF-8 */
    };
    lk_flight_descriptor descriptor;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lk_bytes bytes = {bad[i].bytes, bad[i].size};
        assert_int_equal(lk_flight_descriptor_read(bytes, &arena, &descriptor, &err), LK_E_INVALID_REQUEST);
    }
}

static void flight_data_is_found_in_any_slicing_and_its_head_is_the_references(void **state)
{
    lk_bytes             all = unhex(GOLDEN_DATA);
    lk_flight_data_spans spans;
    for (size_t cut = 1; cut <= all.size; cut += cut < 40 ? 1 : 37) {
        lk_bytes slices[512];
        size_t   count = 0;
        for (size_t at = 0; at < all.size; at += cut) {
            slices[count++] = (lk_bytes){all.data + at, all.size - at < cut ? all.size - at : cut};
        }
        assert_int_equal(lk_flight_data_find(slices, count, &spans, &err), LK_OK);
        assert_true(spans.descriptor_present);
        assert_memory_equal(all.data + spans.header.offset, "head", 4);
        assert_int_equal(spans.header.size, 4);
        assert_memory_equal(all.data + spans.app_metadata.offset, "app", 3);
        assert_int_equal(spans.body.size, 200);
        assert_int_equal(spans.body.offset, all.size - 200);
    }
    for (size_t size = 1; size < all.size; size++) { /* cut short: refused, or ends between two fields */
        lk_bytes slice = {all.data, size};
        lk_rc    rc = lk_flight_data_find(&slice, 1, &spans, &err);
        assert_true(rc == LK_E_INVALID_REQUEST || spans.body.size == 0);
    }
    lk_flight_descriptor descriptor = {.type = LK_FLIGHT_DESCRIPTOR_CMD, .cmd = LK_LITERAL("c\0d")};
    lk_flight_data_head  head = {&descriptor, LK_LITERAL("head"), LK_LITERAL("app"), 200};
    lk_buf               out = {0};
    lk_flight_data_head_write(&head, &out);
    assert_int_equal(out.size, all.size - 200);
    assert_memory_equal(out.data, all.data, out.size);
    lk_buf_deinit(&out);
}

static int close_arena(void **state)
{
    lk_arena_close(&arena);
    return 0;
}

#define T(name) cmocka_unit_test_teardown(name, close_arena)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(flight_messages_read_and_write_as_the_reference),
        T(commands_read_and_write_as_the_reference),
        T(absent_and_empty_are_told_apart),
        T(the_values_inside_commands_are_right),
        T(unpacked_numbers_unknown_fields_and_wrong_wire_types_are_taken),
        T(foreign_anys_keep_type_and_value),
        T(malformed_bytes_are_refused),
        T(flight_data_is_found_in_any_slicing_and_its_head_is_the_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
