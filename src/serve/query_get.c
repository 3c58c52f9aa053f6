/* query_get.c - DoGet: a ticket becomes a stream. Statements run from their sealed ticket; metadata commands are
 * their own tickets and are authorised by who sends them. */
#include "flight/stream.h"
#include "serve/query_service_priv.h"

static lk_discover_filter filter_of(const lk_flight_sql_command *command)
{
    lk_discover_filter filter = {0};
    if (command->kind == LK_FLIGHT_SQL_GET_DB_SCHEMAS) {
        filter.catalog = command->get_db_schemas.catalog;
        filter.schema_pattern = command->get_db_schemas.db_schema_pattern;
    } else if (command->kind == LK_FLIGHT_SQL_GET_TABLES) {
        const lk_flight_sql_get_tables *tables = &command->get_tables;
        filter = (lk_discover_filter){.catalog = tables->catalog,
            .schema_pattern = tables->db_schema_pattern,
            .table_pattern = tables->table_pattern,
            .table_types = tables->table_types.items,
            .table_type_count = tables->table_types.count,
            .include_schema = tables->include_schema};
    }
    return filter;
}

static lk_rc open_metadata(lk_query_service *service, lk_grpc_call *call,
    const lk_flight_sql_command *command, lk_batches **out, lk_err *err)
{
    lk_discovery what = LK_DISCOVER_CATALOGS;
    if (command->kind == LK_FLIGHT_SQL_GET_SQL_INFO) {
        *out = lk_sql_info_rows(command->get_sql_info.ids, command->get_sql_info.id_count);
        return LK_OK;
    }
    if (command->kind == LK_FLIGHT_SQL_GET_TYPE_INFO) {
        bool one = command->get_type_info.data_type_present;
        *out = lk_discover_type_info(one ? command->get_type_info.data_type : INT64_MAX);
        return LK_OK;
    }
    if (lk_query_discovery_of(command, &what)) {
        lk_discover_filter filter = filter_of(command);
        return lk_discover(service->query, lk_query_caller(call), what, &filter, out, err);
    }
    lk_rc rc =
        lk_fail(err, LK_E_INVALID_REQUEST, "ticket of kind %s", lk_flight_sql_kind_name(command->kind));
    lk_detail(err, "not a ticket of this server; call GetFlightInfo first and use the ticket it returns");
    return rc;
}

static lk_rc send_all(lk_grpc_call *call, lk_batches *batches, lk_err *err)
{
    lk_flight_send_options options = {0};
    return lk_flight_send(lk_flight_of_call(call), batches, &options, NULL, err);
}

static lk_rc run_statement(lk_query_service *service, lk_grpc_call *call, lk_bytes ticket, lk_err *err)
{
    lk_batches *batches = NULL;
    running     entry = {0};
    lk_cancel  *cancel = lk_grpc_call_cancel(call);
    lk_rc       rc = lk_query_run(service->query, lk_query_caller(call), ticket, cancel, &batches, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_query_running_add(service, &entry, ticket, cancel);
    rc = send_all(call, batches, err);
    lk_query_running_remove(service, &entry);
    lk_batches_close(batches);
    return rc;
}

lk_rc lk_query_do_get(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_query_service     *service = context;
    lk_arena             *arena = lk_grpc_call_arena(call);
    lk_bytes              request = {0};
    lk_flight_ticket      ticket = {0};
    lk_flight_sql_command command = {0};
    lk_batches           *batches = NULL;

    lk_rc rc = lk_grpc_call_request(call, &request, err);
    if (rc == LK_OK) {
        rc = lk_flight_ticket_read(request, arena, &ticket, err);
    }
    if (rc == LK_OK && lk_flight_sql_command_read(ticket.ticket, arena, &command, err) != LK_OK) {
        rc = lk_fail(err, LK_E_INVALID_TICKET, "ticket is no Any");
    }
    if (rc == LK_OK && command.kind == LK_FLIGHT_SQL_STATEMENT_TICKET) {
        return run_statement(service, call, command.handle.handle, err);
    }
    if (rc == LK_OK) {
        rc = open_metadata(service, call, &command, &batches, err);
    }
    if (rc == LK_OK) {
        rc = send_all(call, batches, err);
        lk_batches_close(batches);
    }
    return rc;
}
