/*
 * query_put.c - DoPut: appends that the client named (lake.file.Append) and ingests (CommandStatementIngest).
 *
 * A named append is one operation: its stream, bounded by LAKE_APPEND_MAX_STREAM_BYTES, is held in memory until its
 * digest is known to be right. An ingest has any length and is held an operation at a time.
 */
#include "flight/stream.h"
#include "query/forward.h"
#include "query/ingest.h"
#include "serve/append_command.h"
#include "serve/query_service_priv.h"

static lk_rc reply(lk_grpc_call *call, lk_bytes app_metadata, lk_err *err)
{
    lk_buf message = {0};
    lk_flight_put_result_write(&(lk_flight_put_result){app_metadata}, &message);
    lk_rc rc = lk_grpc_call_write_bytes(call, lk_buf_view(&message), err);
    lk_buf_deinit(&message);
    return rc;
}

/* -- ingest ------------------------------------------------------------------------------------------ */
static lk_rc ingest_refused(lk_err *err, lk_rc rc, const char *why)
{
    rc = lk_fail(err, rc, "ingest: %s", why);
    lk_detail(err, "%s", why);
    return rc;
}

static lk_rc ingest_mode(const lk_flight_sql_ingest *command, lk_ingest *out, lk_err *err)
{
    switch (command->table_definition.if_exists) {
    case LK_FLIGHT_SQL_IF_EXISTS_REPLACE:
        return ingest_refused(
            err, LK_E_UNIMPLEMENTED, "replace is not supported; drop the table first, then create it");
    case LK_FLIGHT_SQL_IF_EXISTS_FAIL:
        out->if_exists = LK_IF_EXISTS_FAIL;
        break;
    default:
        out->if_exists = LK_IF_EXISTS_APPEND;
        break;
    }
    bool create = command->table_definition.if_absent == LK_FLIGHT_SQL_IF_ABSENT_CREATE;
    out->if_absent = create ? LK_IF_ABSENT_CREATE : LK_IF_ABSENT_FAIL;
    return LK_OK;
}

static lk_rc ingest_options(const lk_flight_sql_ingest *command, lk_ingest *out, lk_err *err)
{
    for (size_t i = 0; i < command->option_count; i++) {
        if (lk_bytes_equal(command->options[i].key, LK_LITERAL("lake.operation_id"))) {
            out->operation_id = command->options[i].value;
        }
    }
    if (command->temporary) {
        return ingest_refused(err, LK_E_UNIMPLEMENTED, "temporary tables are not supported");
    }
    if (command->transaction_id.size > 0) {
        return ingest_refused(
            err, LK_E_INVALID_REQUEST, "there are no transactions; leave transaction_id empty");
    }
    if (command->catalog.size > 0 && !lk_bytes_equal(command->catalog, LK_LITERAL("lake"))) {
        return lk_fail(err, LK_E_DENIED, "another catalog");
    }
    return LK_OK;
}

/* ADBC sends schema and table apart; a table "ns.t" without a schema means the same. */
static lk_rc ingest_table(const lk_flight_sql_ingest *command, lk_ingest *out, lk_err *err)
{
    if (command->schema.size > 0) {
        out->table = (lk_table_ref){command->schema, command->table};
        return lk_table_ref_check(out->table, err);
    }
    lk_rc rc = lk_table_ref_parse(command->table, &out->table, err);
    if (rc != LK_OK) {
        lk_detail(err, "name the table ns.table, or its namespace by db_schema_name");
    }
    return rc;
}

/* The operation id may also come as call metadata, for clients that cannot set ingest options. */
static void operation_header(lk_grpc_call *call, lk_ingest *out)
{
    lk_bytes value = {0};
    if (out->operation_id.size == 0 && lk_grpc_call_header(call, "lake-operation-id", &value)) {
        out->operation_id = value;
    }
}

static lk_rc ingest(lk_query_service *service, lk_grpc_call *call, lk_flight_reader *reader,
    const lk_flight_sql_ingest *command, lk_err *err)
{
    lk_ingest   request = {0};
    lk_ingested done = {0};
    lk_batches *rows = NULL;
    lk_rc       rc = ingest_mode(command, &request, err);
    if (rc == LK_OK) {
        rc = ingest_options(command, &request, err);
    }
    if (rc == LK_OK) {
        rc = ingest_table(command, &request, err);
    }
    if (rc == LK_OK) {
        rc = lk_flight_reader_batches(reader, &rows, err);
    }
    if (rc == LK_OK) {
        operation_header(call, &request);
        request.cancel = lk_grpc_call_cancel(call);
        rc = lk_ingest_run(
            lk_query_authority(service->query), lk_query_caller(call), &request, rows, &done, err);
        lk_grpc_call_add_trailer(call, "lake-operation-id", lk_bytes_of(done.operation_id));
    }
    lk_batches_close(rows);
    if (rc == LK_OK) {
        lk_buf result = {0};
        lk_flight_sql_update_result_write(&(lk_flight_sql_update_result){(int64_t)done.rows}, &result);
        rc = reply(call, lk_buf_view(&result), err);
        lk_buf_deinit(&result);
    }
    return rc;
}

/* -- named append ------------------------------------------------------------------------------------- */
static lk_rc append(
    lk_query_service *service, lk_grpc_call *call, lk_flight_reader *reader, lk_bytes json, lk_err *err)
{
    lk_append_command   command = {0};
    const lk_principal *who = lk_query_caller(call);
    lk_rc               rc = lk_append_command_read(json, lk_grpc_call_arena(call), &command, err);
    if (rc == LK_OK && !lk_principal_may_use(who, command.table.ns)) {
        rc = lk_fail(err, LK_E_DENIED, "namespace not granted");
    }
    if (rc == LK_OK) {
        rc = lk_append_serve(lk_query_authority(service->query), who, &command, call, reader,
            service->config->append_max_stream_bytes, false, err);
    }
    return rc;
}

/* -- dispatch ----------------------------------------------------------------------------------------- */
static lk_rc dispatch(lk_query_service *service, lk_grpc_call *call, lk_flight_reader *reader,
    const lk_flight_sql_command *command, lk_err *err)
{
    switch ((int)command->kind) {
    case LK_FLIGHT_SQL_STATEMENT_INGEST:
        return ingest(service, call, reader, &command->ingest, err);
    case LK_FLIGHT_SQL_STATEMENT_UPDATE:
    case LK_FLIGHT_SQL_PREPARED_UPDATE:
        return lk_fail(err, LK_E_DML, "update command");
    case LK_FLIGHT_SQL_PREPARED_QUERY:
        return ingest_refused(
            err, LK_E_INVALID_REQUEST, "parameters are not supported; write the values into the text");
    case LK_FLIGHT_SQL_OTHER:
        if (lk_bytes_equal(command->type_url, LK_LITERAL(LK_APPEND_TYPE_URL))) {
            return append(service, call, reader, command->value, err);
        }
        break;
    default:
        break;
    }
    lk_rc rc = lk_fail(err, LK_E_INVALID_REQUEST, "put command %s", lk_flight_sql_kind_name(command->kind));
    lk_detail(err, "DoPut takes CommandStatementIngest or lake.file.Append");
    return rc;
}

lk_rc lk_query_do_put(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_query_service              *service = context;
    lk_flight_reader              *reader = NULL;
    lk_flight_sql_command          command = {0};
    bool                           present = false;
    const lk_flight_reader_options options = {
        .budget = service->budget, .decode_dictionaries = true, .digest = true};
    lk_rc rc = lk_flight_reader_open(&reader, lk_flight_of_call(call), &options, &present, err);
    const lk_flight_descriptor *descriptor =
        rc == LK_OK && present ? lk_flight_reader_descriptor(reader) : NULL;
    if (rc == LK_OK && (descriptor == NULL || descriptor->type != LK_FLIGHT_DESCRIPTOR_CMD)) {
        rc = ingest_refused(
            err, LK_E_INVALID_REQUEST, "the first message must carry a descriptor with a command");
    }
    if (rc == LK_OK) {
        rc = lk_flight_sql_command_read(descriptor->cmd, lk_grpc_call_arena(call), &command, err);
    }
    if (rc == LK_OK) {
        rc = dispatch(service, call, reader, &command, err);
    }
    lk_flight_reader_close(reader);
    return rc;
}
