#ifndef LK_SERVE_QUERY_SERVICE_PRIV_H
#define LK_SERVE_QUERY_SERVICE_PRIV_H
/* query_service_priv.h - what the query service's files share. Threads: the running list is guarded by mutex. */
#include "flight/pb_flight.h"
#include "query/discover.h"
#include "serve/query_service.h"

/* A statement that is being streamed, so that CancelFlightInfo finds it by its ticket. */
typedef struct running {
    struct running *next;
    uint8_t         ticket[32]; /* SHA-256 */
    lk_cancel      *cancel;
} running;

struct lk_query_service {
    lk_query        *query;
    lk_budget       *budget;
    const lk_config *config;
    lk_mutex         mutex; /* rank CALL; guards first */
    running         *first;
};

static inline const lk_principal *lk_query_caller(const lk_grpc_call *call)
{
    return lk_grpc_call_attachment(call);
}

/* Handlers. */
lk_rc lk_query_get_flight_info(lk_grpc_call *call, void *service, lk_err *err);
lk_rc lk_query_get_schema(lk_grpc_call *call, void *service, lk_err *err);
lk_rc lk_query_do_get(lk_grpc_call *call, void *service, lk_err *err);
lk_rc lk_query_do_put(lk_grpc_call *call, void *service, lk_err *err);
lk_rc lk_query_do_action(lk_grpc_call *call, void *service, lk_err *err);
lk_rc lk_query_list_actions(lk_grpc_call *call, void *service, lk_err *err);

/* What a metadata command asks for; false for commands of another kind. */
bool lk_query_discovery_of(const lk_flight_sql_command *command, lk_discovery *what);

/* The running list. */
void lk_query_running_add(lk_query_service *service, running *entry, lk_bytes ticket, lk_cancel *cancel);
void lk_query_running_remove(lk_query_service *service, running *entry);
bool lk_query_running_cancel(lk_query_service *service, lk_bytes ticket);

#endif
