/* query_info.c - GetFlightInfo and GetSchema: a command becomes a schema and, for the former, a ticket. */
#include "arrow/ipc.h"
#include "serve/query_service_priv.h"

/* What a command turns into. */
typedef struct answer {
    struct ArrowSchema schema;
    lk_buf             ticket; /* an Any */
} answer;

static void answer_deinit(answer *a)
{
    lk_schema_release(&a->schema);
    lk_buf_deinit(&a->ticket);
}

static lk_rc refuse(const lk_flight_sql_command *command, lk_err *err)
{
    if (command->kind == LK_FLIGHT_SQL_STATEMENT_UPDATE || command->kind == LK_FLIGHT_SQL_PREPARED_UPDATE) {
        return lk_fail(err, LK_E_DML, "update command");
    }
    if (command->kind == LK_FLIGHT_SQL_STATEMENT_SUBSTRAIT) {
        lk_rc rc = lk_fail(err, LK_E_UNIMPLEMENTED, "substrait");
        lk_detail(err, "Substrait plans are not supported; send SQL");
        return rc;
    }
    lk_rc rc = lk_fail(err, LK_E_INVALID_REQUEST, "command %s", lk_flight_sql_kind_name(command->kind));
    lk_detail(err, "not a Flight SQL command that can be planned");
    return rc;
}

/* The plan's sealed ticket as TicketStatementQuery. */
static void take_plan(lk_planned *planned, answer *out)
{
    lk_flight_sql_command ticket = {
        .kind = LK_FLIGHT_SQL_STATEMENT_TICKET, .handle = {lk_buf_view(&planned->ticket)}};
    lk_flight_sql_command_write(&ticket, &out->ticket);
    lk_schema_move(&planned->schema, &out->schema);
    lk_planned_deinit(planned);
}

static lk_rc plan(lk_query_service *service, lk_grpc_call *call, const lk_flight_sql_command *command,
    answer *out, lk_err *err)
{
    lk_planned          planned = {0};
    lk_cancel          *cancel = lk_grpc_call_cancel(call);
    const lk_principal *who = lk_query_caller(call);
    lk_rc               rc = LK_OK;
    if (command->kind == LK_FLIGHT_SQL_PREPARED_QUERY) {
        rc = lk_query_plan_prepared(service->query, who, command->handle.handle, cancel, &planned, err);
    } else if (command->statement.transaction_id.size > 0) {
        rc = lk_fail(err, LK_E_INVALID_REQUEST, "transaction id");
        lk_detail(err, "there are no transactions; leave transaction_id empty");
    } else {
        rc = lk_query_plan(service->query, who, command->statement.query, cancel, &planned, err);
    }
    if (rc == LK_OK) {
        take_plan(&planned, out);
    }
    return rc;
}

static lk_rc answer_command(
    lk_query_service *service, lk_grpc_call *call, lk_bytes any, answer *out, lk_err *err)
{
    lk_flight_sql_command command = {0};
    lk_discovery          what = LK_DISCOVER_CATALOGS;
    lk_rc                 rc = lk_flight_sql_command_read(any, lk_grpc_call_arena(call), &command, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (command.kind == LK_FLIGHT_SQL_STATEMENT_QUERY || command.kind == LK_FLIGHT_SQL_PREPARED_QUERY) {
        return plan(service, call, &command, out, err);
    }
    if (command.kind == LK_FLIGHT_SQL_GET_SQL_INFO) {
        lk_sql_info_schema(&out->schema);
    } else if (lk_query_discovery_of(&command, &what)) {
        bool with_schema = command.kind == LK_FLIGHT_SQL_GET_TABLES && command.get_tables.include_schema;
        lk_discover_schema(what, with_schema, &out->schema);
    } else {
        return refuse(&command, err);
    }
    lk_buf_append_bytes(&out->ticket, any); /* a metadata command is its own ticket */
    return LK_OK;
}

static lk_rc answer_call(
    lk_query_service *service, lk_grpc_call *call, lk_flight_descriptor *descriptor, answer *out, lk_err *err)
{
    lk_bytes request = {0};
    lk_rc    rc = lk_grpc_call_request(call, &request, err);
    if (rc == LK_OK) {
        rc = lk_flight_descriptor_read(request, lk_grpc_call_arena(call), descriptor, err);
    }
    if (rc == LK_OK && descriptor->type != LK_FLIGHT_DESCRIPTOR_CMD) {
        rc = lk_fail(err, LK_E_INVALID_REQUEST, "descriptor type %llu", (unsigned long long)descriptor->type);
        lk_detail(err, "the descriptor must hold a Flight SQL command");
    }
    return rc != LK_OK ? rc : answer_command(service, call, descriptor->cmd, out, err);
}

lk_rc lk_query_get_flight_info(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_flight_descriptor descriptor = {0};
    answer               a = {0};
    lk_buf               schema = {0}, reply = {0};
    lk_rc                rc = answer_call(context, call, &descriptor, &a, err);
    if (rc == LK_OK) {
        rc = lk_ipc_schema_encode(&a.schema, LK_IPC_ENCAPSULATED, &schema, err);
    }
    if (rc == LK_OK) {
        lk_flight_endpoint endpoint = {.present = true, .ticket = {true, lk_buf_view(&a.ticket)}};
        descriptor.present = true;
        lk_flight_info info = {.schema = lk_buf_view(&schema),
            .descriptor = descriptor,
            .endpoints = &endpoint,
            .endpoint_count = 1,
            .total_records = -1,
            .total_bytes = -1};
        lk_flight_info_write(&info, &reply);
        rc = lk_grpc_call_write_bytes(call, lk_buf_view(&reply), err);
    }
    lk_buf_deinit(&schema);
    lk_buf_deinit(&reply);
    answer_deinit(&a);
    return rc;
}

lk_rc lk_query_get_schema(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_flight_descriptor descriptor = {0};
    answer               a = {0};
    lk_buf               schema = {0}, reply = {0};
    lk_rc                rc = answer_call(context, call, &descriptor, &a, err);
    if (rc == LK_OK) {
        rc = lk_ipc_schema_encode(&a.schema, LK_IPC_ENCAPSULATED, &schema, err);
    }
    if (rc == LK_OK) {
        lk_flight_schema_result_write(&(lk_flight_schema_result){lk_buf_view(&schema)}, &reply);
        rc = lk_grpc_call_write_bytes(call, lk_buf_view(&reply), err);
    }
    lk_buf_deinit(&schema);
    lk_buf_deinit(&reply);
    answer_deinit(&a);
    return rc;
}
