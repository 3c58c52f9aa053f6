/* query_action.c - DoAction and ListActions: prepared statements, cancellation, and the table actions, which are
 * answered for the caller by the query tier's authority. */
#include "arrow/ipc.h"
#include "query/forward.h"
#include "serve/query_service_priv.h"
#include "serve/table_actions.h"

static lk_rc send_result(lk_grpc_call *call, lk_bytes body, lk_err *err)
{
    lk_buf message = {0};
    lk_flight_result_write(&(lk_flight_result){body}, &message);
    lk_rc rc = lk_grpc_call_write_bytes(call, lk_buf_view(&message), err);
    lk_buf_deinit(&message);
    return rc;
}

static lk_rc wrong_body(const char *wanted, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_INVALID_REQUEST, "action body");
    lk_detail(err, "the body must be a %s", wanted);
    return rc;
}

static lk_rc send_prepared(lk_grpc_call *call, lk_prepared *prepared, lk_err *err)
{
    lk_buf schema = {0}, body = {0};
    lk_rc  rc = lk_ipc_schema_encode(&prepared->dataset, LK_IPC_ENCAPSULATED, &schema, err);
    if (rc == LK_OK) {
        lk_flight_sql_command result = {.kind = LK_FLIGHT_SQL_PREPARED,
            .prepared = {.handle = lk_buf_view(&prepared->handle), .dataset_schema = lk_buf_view(&schema)}};
        lk_flight_sql_command_write(&result, &body);
        rc = send_result(call, lk_buf_view(&body), err);
    }
    lk_buf_deinit(&schema);
    lk_buf_deinit(&body);
    return rc;
}

static lk_rc create_prepared(lk_query_service *service, lk_grpc_call *call, lk_bytes body, lk_err *err)
{
    lk_flight_sql_command command = {0};
    lk_prepared           prepared = {0};
    lk_rc                 rc = lk_flight_sql_command_read(body, lk_grpc_call_arena(call), &command, err);
    if (rc == LK_OK && command.kind != LK_FLIGHT_SQL_CREATE_PREPARED) {
        rc = wrong_body("ActionCreatePreparedStatementRequest", err);
    }
    if (rc == LK_OK) {
        rc = lk_query_prepare(service->query, lk_query_caller(call), command.statement.query,
            lk_grpc_call_cancel(call), &prepared, err);
    }
    if (rc == LK_OK) {
        rc = send_prepared(call, &prepared, err);
    }
    lk_prepared_deinit(&prepared);
    return rc;
}

/* A prepared statement is its handle: there is nothing to free, so closing always succeeds. */
static lk_rc close_prepared(lk_query_service *service, lk_grpc_call *call, lk_bytes body, lk_err *err)
{
    (void)service;
    lk_flight_sql_command command = {0};
    lk_rc                 rc = lk_flight_sql_command_read(body, lk_grpc_call_arena(call), &command, err);
    if (rc == LK_OK && command.kind != LK_FLIGHT_SQL_CLOSE_PREPARED) {
        rc = wrong_body("ActionClosePreparedStatementRequest", err);
    }
    return rc;
}

/* The ticket is sealed for one caller, so whoever has it may cancel what runs under it. */
static bool cancel_endpoints(lk_query_service *service, lk_arena *arena, const lk_flight_info *info)
{
    bool found = false;
    for (size_t i = 0; i < info->endpoint_count; i++) {
        lk_flight_sql_command command = {0};
        lk_err                unreadable = {0};
        bool                  ours = lk_flight_sql_command_read(
                                         info->endpoints[i].ticket.ticket, arena, &command, &unreadable) == LK_OK &&
                    command.kind == LK_FLIGHT_SQL_STATEMENT_TICKET;
        found = (ours && lk_query_running_cancel(service, command.handle.handle)) || found;
    }
    return found;
}

static lk_rc cancel_info(lk_query_service *service, lk_grpc_call *call, lk_bytes body, lk_err *err)
{
    lk_arena                     *arena = lk_grpc_call_arena(call);
    lk_flight_cancel_info_request request = {0};
    lk_rc                         rc = lk_flight_cancel_info_request_read(body, arena, &request, err);
    if (rc == LK_OK && !request.info.present) {
        rc = wrong_body("CancelFlightInfoRequest with a FlightInfo", err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    bool                         found = cancel_endpoints(service, arena, &request.info);
    lk_buf                       reply = {0};
    lk_flight_cancel_info_result result = {
        found ? LK_FLIGHT_CANCEL_CANCELLING : LK_FLIGHT_CANCEL_NOT_CANCELLABLE};
    lk_flight_cancel_info_result_write(&result, &reply);
    rc = send_result(call, lk_buf_view(&reply), err);
    lk_buf_deinit(&reply);
    return rc;
}

static const struct own_action {
    const char *type, *description;
    lk_rc (*run)(lk_query_service *service, lk_grpc_call *call, lk_bytes body, lk_err *err);
} own_actions[] = {
    {"CreatePreparedStatement", "prepare a statement (Flight SQL)", create_prepared},
    {"ClosePreparedStatement", "close a prepared statement (Flight SQL)", close_prepared},
    {"CancelFlightInfo", "cancel the statement that runs under a FlightInfo (Flight)", cancel_info},
};
enum { OWN_ACTIONS = sizeof own_actions / sizeof own_actions[0] };

static lk_rc run_table_action(
    lk_query_service *service, lk_grpc_call *call, const lk_table_action *action, lk_bytes body, lk_err *err)
{
    lk_buf result = {0};
    lk_rc  rc = action->run(lk_query_authority(service->query), lk_query_caller(call), body,
         lk_grpc_call_arena(call), &result, err);
    if (rc == LK_OK && result.data != NULL) {
        rc = send_result(call, lk_buf_view(&result), err);
    }
    lk_buf_deinit(&result);
    return rc;
}

static lk_rc unknown_action(lk_bytes type, lk_err *err)
{
    enum { SHOWN_MAX = 128 };
    char   shown[SHOWN_MAX + 1];
    size_t size = type.size < SHOWN_MAX ? type.size : SHOWN_MAX;
    for (size_t i = 0; i < size; i++) {
        shown[i] = type.data[i] >= ' ' && type.data[i] <= '~' ? type.data[i] : '?';
    }
    shown[size] = '\0';
    lk_rc rc = lk_fail(err, LK_E_UNKNOWN_ACTION, "unknown action");
    lk_detail(err, "'%s'; ListActions names those there are", shown);
    return rc;
}

lk_rc lk_query_do_action(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_query_service *service = context;
    lk_bytes          request = {0};
    lk_flight_action  action = {0};
    lk_rc             rc = lk_grpc_call_request(call, &request, err);
    if (rc == LK_OK) {
        rc = lk_flight_action_read(request, lk_grpc_call_arena(call), &action, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    for (size_t i = 0; i < OWN_ACTIONS; i++) {
        if (lk_bytes_equal(action.type, lk_bytes_of(own_actions[i].type))) {
            return own_actions[i].run(service, call, action.body, err);
        }
    }
    const lk_table_action *table_action = lk_table_action_find(action.type);
    return table_action != NULL ? run_table_action(service, call, table_action, action.body, err)
                                : unknown_action(action.type, err);
}

static lk_rc send_type(lk_grpc_call *call, const char *type, const char *description, lk_err *err)
{
    lk_buf message = {0};
    lk_flight_action_type_write(
        &(lk_flight_action_type){lk_bytes_of(type), lk_bytes_of(description)}, &message);
    lk_rc rc = lk_grpc_call_write_bytes(call, lk_buf_view(&message), err);
    lk_buf_deinit(&message);
    return rc;
}

lk_rc lk_query_list_actions(lk_grpc_call *call, void *context, lk_err *err)
{
    (void)context;
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < OWN_ACTIONS; i++) {
        rc = send_type(call, own_actions[i].type, own_actions[i].description, err);
    }
    for (size_t i = 0; rc == LK_OK && i < lk_table_action_count; i++) {
        rc = send_type(call, lk_table_actions[i].type, lk_table_actions[i].description, err);
    }
    return rc;
}
