/*
 * pb_flight.c - the field tables of Arrow Flight and Flight SQL, Any, and FlightData by hand.
 *
 * Field numbers are those of the public Flight.proto and FlightSql.proto. Threads: stateless.
 */
#include "flight/pb_flight.h"

#include "flight/pb.h"

#include <stddef.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* F(struct, number, type, member), with a companion member, with a table. */
#define F(s, number, type, member)                         \
    {                                                      \
        number, LK_PB_##type, offsetof(s, member), 0, NULL \
    }
#define F2(s, number, type, member, companion)                                  \
    {                                                                           \
        number, LK_PB_##type, offsetof(s, member), offsetof(s, companion), NULL \
    }
#define FM(s, number, type, member, table)                   \
    {                                                        \
        number, LK_PB_##type, offsetof(s, member), 0, &table \
    }
#define FN(s, number, member, companion, table)                                 \
    {                                                                           \
        number, LK_PB_MANY, offsetof(s, member), offsetof(s, companion), &table \
    }
#define MESSAGE(variable, text, s, fields) \
    static const lk_pb_message variable = {text, sizeof(s), fields, COUNT(fields)}

/* -- Flight -- */

static const lk_pb_field time_fields[] = {
    F(lk_flight_time, 1, INT, seconds), F(lk_flight_time, 2, INT, nanos)};
MESSAGE(time_message, "Timestamp", lk_flight_time, time_fields);

static const lk_pb_field descriptor_fields[] = {F(lk_flight_descriptor, 1, UINT, type),
    F(lk_flight_descriptor, 2, BYTES, cmd), F2(lk_flight_descriptor, 3, TEXTS, path.items, path.count)};
MESSAGE(descriptor_message, "FlightDescriptor", lk_flight_descriptor, descriptor_fields);

static const lk_pb_field ticket_fields[] = {F(lk_flight_ticket, 1, BYTES, ticket)};
MESSAGE(ticket_message, "Ticket", lk_flight_ticket, ticket_fields);

static const lk_pb_field location_fields[] = {F(lk_flight_location, 1, TEXT, uri)};
MESSAGE(location_message, "Location", lk_flight_location, location_fields);

static const lk_pb_field endpoint_fields[] = {FM(lk_flight_endpoint, 1, ONE, ticket, ticket_message),
    FN(lk_flight_endpoint, 2, locations, location_count, location_message),
    FM(lk_flight_endpoint, 3, ONE, expiration_time, time_message),
    F(lk_flight_endpoint, 4, BYTES, app_metadata)};
MESSAGE(endpoint_message, "FlightEndpoint", lk_flight_endpoint, endpoint_fields);

static const lk_pb_field info_fields[] = {F(lk_flight_info, 1, BYTES, schema),
    FM(lk_flight_info, 2, ONE, descriptor, descriptor_message),
    FN(lk_flight_info, 3, endpoints, endpoint_count, endpoint_message),
    F(lk_flight_info, 4, INT, total_records), F(lk_flight_info, 5, INT, total_bytes),
    F(lk_flight_info, 6, BOOL, ordered), F(lk_flight_info, 7, BYTES, app_metadata)};
MESSAGE(info_message, "FlightInfo", lk_flight_info, info_fields);

static const lk_pb_field poll_info_fields[] = {FM(lk_flight_poll_info, 1, ONE, info, info_message),
    FM(lk_flight_poll_info, 2, ONE, descriptor, descriptor_message),
    F2(lk_flight_poll_info, 3, OPT_DOUBLE, progress, progress_present),
    FM(lk_flight_poll_info, 4, ONE, expiration_time, time_message)};
MESSAGE(poll_info_message, "PollInfo", lk_flight_poll_info, poll_info_fields);

static const lk_pb_field schema_result_fields[] = {F(lk_flight_schema_result, 1, BYTES, schema)};
MESSAGE(schema_result_message, "SchemaResult", lk_flight_schema_result, schema_result_fields);

static const lk_pb_field put_result_fields[] = {F(lk_flight_put_result, 1, BYTES, app_metadata)};
MESSAGE(put_result_message, "PutResult", lk_flight_put_result, put_result_fields);

static const lk_pb_field action_fields[] = {
    F(lk_flight_action, 1, TEXT, type), F(lk_flight_action, 2, BYTES, body)};
MESSAGE(action_message, "Action", lk_flight_action, action_fields);

static const lk_pb_field result_fields[] = {F(lk_flight_result, 1, BYTES, body)};
MESSAGE(result_message, "Result", lk_flight_result, result_fields);

static const lk_pb_field action_type_fields[] = {
    F(lk_flight_action_type, 1, TEXT, type), F(lk_flight_action_type, 2, TEXT, description)};
MESSAGE(action_type_message, "ActionType", lk_flight_action_type, action_type_fields);

static const lk_pb_field criteria_fields[] = {F(lk_flight_criteria, 1, BYTES, expression)};
MESSAGE(criteria_message, "Criteria", lk_flight_criteria, criteria_fields);

static const lk_pb_field handshake_fields[] = {
    F(lk_flight_handshake, 1, UINT, protocol_version), F(lk_flight_handshake, 2, BYTES, payload)};
MESSAGE(handshake_message, "HandshakeRequest", lk_flight_handshake, handshake_fields);

static const lk_pb_field basic_auth_fields[] = {
    F(lk_flight_basic_auth, 2, TEXT, username), F(lk_flight_basic_auth, 3, TEXT, password)};
MESSAGE(basic_auth_message, "BasicAuth", lk_flight_basic_auth, basic_auth_fields);

static const lk_pb_field cancel_info_request_fields[] = {
    FM(lk_flight_cancel_info_request, 1, ONE, info, info_message)};
MESSAGE(cancel_info_request_message, "CancelFlightInfoRequest", lk_flight_cancel_info_request,
    cancel_info_request_fields);

static const lk_pb_field cancel_info_result_fields[] = {F(lk_flight_cancel_info_result, 1, UINT, status)};
MESSAGE(cancel_info_result_message, "CancelFlightInfoResult", lk_flight_cancel_info_result,
    cancel_info_result_fields);

static const lk_pb_field renew_endpoint_request_fields[] = {
    FM(lk_flight_renew_endpoint_request, 1, ONE, endpoint, endpoint_message)};
MESSAGE(renew_endpoint_request_message, "RenewFlightEndpointRequest", lk_flight_renew_endpoint_request,
    renew_endpoint_request_fields);

#define M(name)                                                                                          \
    lk_rc lk_flight_##name##_read(lk_bytes message, lk_arena *arena, lk_flight_##name *out, lk_err *err) \
    {                                                                                                    \
        return lk_pb_read(&name##_message, message, arena, out, err);                                    \
    }                                                                                                    \
    void lk_flight_##name##_write(const lk_flight_##name *in, lk_buf *out)                               \
    {                                                                                                    \
        lk_pb_write(&name##_message, in, out);                                                           \
    }
LK_FLIGHT_MESSAGES(M)
#undef M

/* -- Flight SQL: one table for each member of the command's union -- */

static const lk_pb_field statement_fields[] = {
    F(lk_flight_sql_statement, 1, TEXT, query), F(lk_flight_sql_statement, 2, OPT_BYTES, transaction_id)};
static const lk_pb_field handle_fields[] = {F(lk_flight_sql_handle, 1, BYTES, handle)};
static const lk_pb_field prepared_fields[] = {F(lk_flight_sql_prepared, 1, BYTES, handle),
    F(lk_flight_sql_prepared, 2, BYTES, dataset_schema),
    F(lk_flight_sql_prepared, 3, BYTES, parameter_schema)};
static const lk_pb_field get_db_schemas_fields[] = {F(lk_flight_sql_get_db_schemas, 1, OPT_TEXT, catalog),
    F(lk_flight_sql_get_db_schemas, 2, OPT_TEXT, db_schema_pattern)};
static const lk_pb_field get_tables_fields[] = {F(lk_flight_sql_get_tables, 1, OPT_TEXT, catalog),
    F(lk_flight_sql_get_tables, 2, OPT_TEXT, db_schema_pattern),
    F(lk_flight_sql_get_tables, 3, OPT_TEXT, table_pattern),
    F2(lk_flight_sql_get_tables, 4, TEXTS, table_types.items, table_types.count),
    F(lk_flight_sql_get_tables, 5, BOOL, include_schema)};
static const lk_pb_field get_sql_info_fields[] = {F2(lk_flight_sql_get_sql_info, 1, UINT32S, ids, id_count)};
static const lk_pb_field get_type_info_fields[] = {
    F2(lk_flight_sql_get_type_info, 1, OPT_INT, data_type, data_type_present)};
static const lk_pb_field get_keys_fields[] = {F(lk_flight_sql_get_keys, 1, OPT_TEXT, catalog),
    F(lk_flight_sql_get_keys, 2, OPT_TEXT, db_schema), F(lk_flight_sql_get_keys, 3, TEXT, table)};
static const lk_pb_field get_cross_reference_fields[] = {
    F(lk_flight_sql_get_cross_reference, 1, OPT_TEXT, pk_catalog),
    F(lk_flight_sql_get_cross_reference, 2, OPT_TEXT, pk_db_schema),
    F(lk_flight_sql_get_cross_reference, 3, TEXT, pk_table),
    F(lk_flight_sql_get_cross_reference, 4, OPT_TEXT, fk_catalog),
    F(lk_flight_sql_get_cross_reference, 5, OPT_TEXT, fk_db_schema),
    F(lk_flight_sql_get_cross_reference, 6, TEXT, fk_table)};
static const lk_pb_field substrait_fields[] = {F(lk_flight_sql_substrait, 1, BYTES, plan)};
static const lk_pb_field cancel_query_fields[] = {F(lk_flight_sql_cancel_query, 1, BYTES, info)};

typedef struct table_definition {
    bool     present;
    uint64_t if_absent, if_exists;
} table_definition;
_Static_assert(
    sizeof(table_definition) == sizeof(((lk_flight_sql_ingest *)0)->table_definition), "the same struct");
static const lk_pb_field table_definition_fields[] = {
    F(table_definition, 1, UINT, if_absent), F(table_definition, 2, UINT, if_exists)};
MESSAGE(table_definition_message, "TableDefinitionOptions", table_definition, table_definition_fields);
static const lk_pb_field option_fields[] = {
    F(lk_flight_sql_option, 1, KEY, key), F(lk_flight_sql_option, 2, KEY, value)};
MESSAGE(option_message, "OptionsEntry", lk_flight_sql_option, option_fields);
static const lk_pb_field ingest_fields[] = {
    FM(lk_flight_sql_ingest, 1, ONE, table_definition, table_definition_message),
    F(lk_flight_sql_ingest, 2, TEXT, table), F(lk_flight_sql_ingest, 3, OPT_TEXT, schema),
    F(lk_flight_sql_ingest, 4, OPT_TEXT, catalog), F(lk_flight_sql_ingest, 5, BOOL, temporary),
    F(lk_flight_sql_ingest, 6, OPT_BYTES, transaction_id),
    FN(lk_flight_sql_ingest, 1000, options, option_count, option_message)};

static const lk_pb_field update_result_fields[] = {F(lk_flight_sql_update_result, 1, INT, record_count)};
MESSAGE(update_result_message, "DoPutUpdateResult", lk_flight_sql_update_result, update_result_fields);
static const lk_pb_field bind_result_fields[] = {F(lk_flight_sql_bind_result, 1, OPT_BYTES, handle)};
MESSAGE(bind_result_message, "DoPutPreparedStatementResult", lk_flight_sql_bind_result, bind_result_fields);

lk_rc lk_flight_sql_update_result_read(
    lk_bytes message, lk_arena *arena, lk_flight_sql_update_result *out, lk_err *err)
{
    return lk_pb_read(&update_result_message, message, arena, out, err);
}

void lk_flight_sql_update_result_write(const lk_flight_sql_update_result *in, lk_buf *out)
{
    lk_pb_write(&update_result_message, in, out);
}

lk_rc lk_flight_sql_bind_result_read(
    lk_bytes message, lk_arena *arena, lk_flight_sql_bind_result *out, lk_err *err)
{
    return lk_pb_read(&bind_result_message, message, arena, out, err);
}

void lk_flight_sql_bind_result_write(const lk_flight_sql_bind_result *in, lk_buf *out)
{
    lk_pb_write(&bind_result_message, in, out);
}

/* -- Any -- */

#define TYPE_PREFIX "type.googleapis.com/arrow.flight.protocol.sql."

typedef struct any {
    lk_bytes type_url, value;
} any;
static const lk_pb_field any_fields[] = {F(any, 1, TEXT, type_url), F(any, 2, BYTES, value)};
MESSAGE(any_message, "Any", any, any_fields);

MESSAGE(statement_message, "statement", lk_flight_sql_statement, statement_fields);
MESSAGE(handle_message, "statement handle", lk_flight_sql_handle, handle_fields);
MESSAGE(prepared_message, "prepared statement", lk_flight_sql_prepared, prepared_fields);
MESSAGE(get_db_schemas_message, "CommandGetDbSchemas", lk_flight_sql_get_db_schemas, get_db_schemas_fields);
MESSAGE(get_tables_message, "CommandGetTables", lk_flight_sql_get_tables, get_tables_fields);
MESSAGE(get_sql_info_message, "CommandGetSqlInfo", lk_flight_sql_get_sql_info, get_sql_info_fields);
MESSAGE(get_type_info_message, "CommandGetXdbcTypeInfo", lk_flight_sql_get_type_info, get_type_info_fields);
MESSAGE(get_keys_message, "key command", lk_flight_sql_get_keys, get_keys_fields);
MESSAGE(get_cross_reference_message, "CommandGetCrossReference", lk_flight_sql_get_cross_reference,
    get_cross_reference_fields);
MESSAGE(ingest_message, "CommandStatementIngest", lk_flight_sql_ingest, ingest_fields);
MESSAGE(substrait_message, "CommandStatementSubstraitPlan", lk_flight_sql_substrait, substrait_fields);
MESSAGE(cancel_query_message, "ActionCancelQueryRequest", lk_flight_sql_cancel_query, cancel_query_fields);
/* Empty messages are read like any other, which checks their bytes, and write nothing. */
static const lk_pb_message nothing_message = {"command", sizeof(lk_flight_sql_nothing), NULL, 0};

static const struct {
    const char          *name;
    size_t               offset; /* of the union's member */
    const lk_pb_message *message;
} commands[LK_FLIGHT_SQL_KIND_COUNT] = {
#define C(kind, name, member) \
    [LK_FLIGHT_SQL_##kind] = {name, offsetof(lk_flight_sql_command, member), &member##_message},
    LK_FLIGHT_SQL_COMMANDS(C)
#undef C
};

const char *lk_flight_sql_kind_name(lk_flight_sql_kind kind)
{
    return kind == LK_FLIGHT_SQL_OTHER ? "" : commands[kind].name;
}

static lk_flight_sql_kind kind_of(lk_bytes type_url)
{
    lk_bytes prefix = LK_LITERAL(TYPE_PREFIX);
    if (!lk_bytes_starts(type_url, prefix)) {
        return LK_FLIGHT_SQL_OTHER;
    }
    lk_bytes name = {type_url.data + prefix.size, type_url.size - prefix.size};
    for (lk_flight_sql_kind kind = LK_FLIGHT_SQL_OTHER + 1; kind < LK_FLIGHT_SQL_KIND_COUNT; kind++) {
        if (lk_bytes_equal(name, lk_bytes_of(commands[kind].name))) {
            return kind;
        }
    }
    return LK_FLIGHT_SQL_OTHER;
}

lk_rc lk_flight_sql_command_read(lk_bytes bytes, lk_arena *arena, lk_flight_sql_command *out, lk_err *err)
{
    any   wrapper;
    lk_rc rc = lk_pb_read(&any_message, bytes, arena, &wrapper, err);
    *out = (lk_flight_sql_command){0};
    if (rc == LK_OK && wrapper.type_url.size == 0) {
        rc = lk_fail(err, LK_E_INVALID_REQUEST, "an Any without a type");
        lk_detail(err, "the command is not a google.protobuf.Any");
    }
    if (rc != LK_OK) {
        return rc;
    }
    out->kind = kind_of(wrapper.type_url);
    out->type_url = wrapper.type_url;
    out->value = wrapper.value;
    if (out->kind == LK_FLIGHT_SQL_OTHER) {
        return LK_OK;
    }
    void *member = (char *)out + commands[out->kind].offset;
    return lk_pb_read(commands[out->kind].message, wrapper.value, arena, member, err);
}

void lk_flight_sql_command_write(const lk_flight_sql_command *in, lk_buf *out)
{
    lk_buf url = {0}, value = {0};
    any    wrapper = {in->type_url, in->value};
    if (in->kind != LK_FLIGHT_SQL_OTHER) {
        lk_buf_append_text(&url, TYPE_PREFIX);
        lk_buf_append_text(&url, commands[in->kind].name);
        lk_pb_write(commands[in->kind].message, (const char *)in + commands[in->kind].offset, &value);
        wrapper = (any){lk_buf_view(&url), lk_buf_view(&value)};
    }
    lk_pb_write(&any_message, &wrapper, out);
    lk_buf_deinit(&url);
    lk_buf_deinit(&value);
}

/* -- FlightData -- */

enum { DATA_DESCRIPTOR = 1, DATA_HEADER = 2, DATA_APP_METADATA = 3, DATA_BODY = 1000 };

void lk_flight_data_head_write(const lk_flight_data_head *in, lk_buf *out)
{
    if (in->descriptor != NULL) {
        lk_buf descriptor = {0};
        lk_flight_descriptor_write(in->descriptor, &descriptor);
        lk_pb_put_bytes(out, DATA_DESCRIPTOR, lk_buf_view(&descriptor));
        lk_buf_deinit(&descriptor);
    }
    if (in->header.size > 0) {
        lk_pb_put_bytes(out, DATA_HEADER, in->header);
    }
    if (in->app_metadata.size > 0) {
        lk_pb_put_bytes(out, DATA_APP_METADATA, in->app_metadata);
    }
    if (in->body_size > 0) {
        lk_pb_put_tag(out, DATA_BODY, LK_PB_LENGTH);
        lk_pb_put_varint(out, in->body_size);
    }
}

/* A cursor over slices that can jump over what it does not need to see. */
typedef struct slice_cursor {
    const lk_bytes *slices;
    size_t          slice, within; /* position */
    size_t          at, size;      /* the same, in bytes from the start */
    bool            bad;
} slice_cursor;

static void settle(slice_cursor *cursor)
{
    while (cursor->at < cursor->size && cursor->within == cursor->slices[cursor->slice].size) {
        cursor->slice++;
        cursor->within = 0;
    }
}

static uint64_t slice_varint(slice_cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 7 * LK_PB_VARINT_SIZE_MAX && cursor->at < cursor->size; shift += 7) {
        settle(cursor);
        uint8_t byte = (uint8_t)cursor->slices[cursor->slice].data[cursor->within++];
        cursor->at++;
        if (shift == 63 && byte > 1) {
            break;
        }
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
    cursor->bad = true;
    return 0;
}

static void slice_skip(slice_cursor *cursor, uint64_t size)
{
    if (cursor->bad || size > cursor->size - cursor->at) {
        cursor->bad = true;
        return;
    }
    cursor->at += size;
    while (size > 0) {
        settle(cursor);
        size_t rest = cursor->slices[cursor->slice].size - cursor->within;
        size_t step = rest < size ? rest : (size_t)size;
        cursor->within += step;
        size -= step;
        if (size > 0) {
            cursor->slice++;
            cursor->within = 0;
        }
    }
}

static lk_flight_span slice_counted(slice_cursor *cursor)
{
    uint64_t       size = slice_varint(cursor);
    lk_flight_span span = {cursor->at, (size_t)size};
    slice_skip(cursor, size);
    return span;
}

static void keep(lk_flight_data_spans *out, uint64_t number, lk_flight_span span)
{
    switch (number) {
    case DATA_DESCRIPTOR:
        out->descriptor = span;
        out->descriptor_present = true;
        break;
    case DATA_HEADER:
        out->header = span;
        break;
    case DATA_APP_METADATA:
        out->app_metadata = span;
        break;
    case DATA_BODY:
        out->body = span;
        break;
    default:
        break;
    }
}

static void find_next(slice_cursor *cursor, lk_flight_data_spans *out)
{
    uint64_t tag = slice_varint(cursor);
    cursor->bad = cursor->bad || tag > UINT32_MAX || tag >> 3 == 0;
    switch (tag & 7) {
    case LK_PB_VARINT:
        (void)slice_varint(cursor);
        break;
    case LK_PB_FIXED64:
        slice_skip(cursor, 8);
        break;
    case LK_PB_FIXED32:
        slice_skip(cursor, 4);
        break;
    case LK_PB_LENGTH:
        keep(out, tag >> 3, slice_counted(cursor));
        break;
    default:
        cursor->bad = true;
    }
}

lk_rc lk_flight_data_find(const lk_bytes *slices, size_t slice_count, lk_flight_data_spans *out, lk_err *err)
{
    slice_cursor cursor = {.slices = slices};
    *out = (lk_flight_data_spans){0};
    for (size_t i = 0; i < slice_count; i++) {
        cursor.size += slices[i].size;
    }
    while (cursor.at < cursor.size && !cursor.bad) {
        find_next(&cursor, out);
    }
    if (cursor.bad) {
        lk_rc rc = lk_fail(err, LK_E_INVALID_REQUEST, "malformed FlightData");
        lk_detail(err, "malformed FlightData");
        return rc;
    }
    return LK_OK;
}
