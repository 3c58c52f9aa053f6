#ifndef LK_SERVE_QUERY_SERVICE_H
#define LK_SERVE_QUERY_SERVICE_H
/*
 * query_service.h - Flight SQL on the wire: messages to calls of the query tier and back; decides nothing.
 *
 * One file per method: query_info.c (GetFlightInfo, GetSchema), query_get.c (DoGet), query_put.c (DoPut),
 * query_action.c (DoAction, ListActions). What Flight SQL has and lake has not is UNIMPLEMENTED and not
 * advertised. Every handler finds the caller's lk_principal as the call's attachment.
 *
 * Threads: shared; handlers run on the server's workers.
 */
#include "net/grpc_server.h"
#include "query/query.h"

typedef struct lk_query_service lk_query_service;

enum { LK_QUERY_METHODS = 6 };

/* query and budget (put streams in memory) are borrowed and outlive the service. */
lk_query_service *lk_query_service_open(lk_query *query, lk_budget *budget, const lk_config *config);
void              lk_query_service_close(lk_query_service *service); /* after the server; accepts NULL */

/* The service's methods for a server's table; valid while the service is. */
void lk_query_service_methods(lk_query_service *service, lk_grpc_method out[LK_QUERY_METHODS]);

#endif
