/* query_service.c - see query_service.h: life, the method table, and the list of running statements. */
#include "serve/query_service_priv.h"

#include "base/hash.h"
#include "base/limits.h"

#include <stdlib.h>

enum { PUT_IDLE_MS = 30000 };

lk_query_service *lk_query_service_open(lk_query *query, lk_budget *budget, const lk_config *config)
{
    lk_query_service *service = calloc(1, sizeof *service);
    LK_ASSERT(service != NULL);
    service->query = query;
    service->budget = budget;
    service->config = config;
    lk_mutex_init(&service->mutex, LK_RANK_CALL);
    return service;
}

void lk_query_service_close(lk_query_service *service)
{
    if (service != NULL) {
        LK_ASSERT(service->first == NULL);
        lk_mutex_deinit(&service->mutex);
        free(service);
    }
}

void lk_query_service_methods(lk_query_service *service, lk_grpc_method out[LK_QUERY_METHODS])
{
    const lk_grpc_method methods[LK_QUERY_METHODS] = {
        {.path = LK_FLIGHT_METHOD("GetFlightInfo"), .kind = LK_GRPC_UNARY, .run = lk_query_get_flight_info},
        {.path = LK_FLIGHT_METHOD("GetSchema"), .kind = LK_GRPC_UNARY, .run = lk_query_get_schema},
        {.path = LK_FLIGHT_METHOD("DoGet"), .kind = LK_GRPC_SERVER_STREAM, .run = lk_query_do_get},
        {.path = LK_FLIGHT_METHOD("DoPut"),
            .kind = LK_GRPC_BIDI,
            .run = lk_query_do_put,
            .request_bytes_max = LK_GRPC_PUT_MESSAGE_BYTES_MAX,
            .idle_ms = PUT_IDLE_MS},
        {.path = LK_FLIGHT_METHOD("DoAction"), .kind = LK_GRPC_SERVER_STREAM, .run = lk_query_do_action},
        {.path = LK_FLIGHT_METHOD("ListActions"),
            .kind = LK_GRPC_SERVER_STREAM,
            .run = lk_query_list_actions},
    };
    for (size_t i = 0; i < LK_QUERY_METHODS; i++) {
        out[i] = methods[i];
        out[i].context = service;
        out[i].request_bytes_max =
            methods[i].request_bytes_max > 0 ? methods[i].request_bytes_max : LK_GRPC_MESSAGE_BYTES_MAX;
    }
}

bool lk_query_discovery_of(const lk_flight_sql_command *command, lk_discovery *what)
{
    static const int8_t discoveries[LK_FLIGHT_SQL_KIND_COUNT] = {
        [LK_FLIGHT_SQL_GET_CATALOGS] = LK_DISCOVER_CATALOGS + 1,
        [LK_FLIGHT_SQL_GET_DB_SCHEMAS] = LK_DISCOVER_SCHEMAS + 1,
        [LK_FLIGHT_SQL_GET_TABLES] = LK_DISCOVER_TABLES + 1,
        [LK_FLIGHT_SQL_GET_TABLE_TYPES] = LK_DISCOVER_TABLE_TYPES + 1,
        [LK_FLIGHT_SQL_GET_TYPE_INFO] = LK_DISCOVER_TYPE_INFO + 1,
        [LK_FLIGHT_SQL_GET_PRIMARY_KEYS] = LK_DISCOVER_PRIMARY_KEYS + 1,
        [LK_FLIGHT_SQL_GET_EXPORTED_KEYS] = LK_DISCOVER_FOREIGN_KEYS + 1,
        [LK_FLIGHT_SQL_GET_IMPORTED_KEYS] = LK_DISCOVER_FOREIGN_KEYS + 1,
        [LK_FLIGHT_SQL_GET_CROSS_REFERENCE] = LK_DISCOVER_FOREIGN_KEYS + 1,
    };
    int8_t found = discoveries[command->kind];
    if (found > 0) {
        *what = (lk_discovery)(found - 1);
    }
    return found > 0;
}

/* -- running statements ------------------------------------------------------------------------------ */
void lk_query_running_add(lk_query_service *service, running *entry, lk_bytes ticket, lk_cancel *cancel)
{
    lk_sha256_of(ticket, entry->ticket);
    entry->cancel = cancel;
    lk_mutex_lock(&service->mutex);
    entry->next = service->first;
    service->first = entry;
    lk_mutex_unlock(&service->mutex);
}

void lk_query_running_remove(lk_query_service *service, running *entry)
{
    lk_mutex_lock(&service->mutex);
    running **at = &service->first;
    while (*at != entry) {
        at = &(*at)->next;
    }
    *at = entry->next;
    lk_mutex_unlock(&service->mutex);
}

bool lk_query_running_cancel(lk_query_service *service, lk_bytes ticket)
{
    uint8_t digest[LK_SHA256_SIZE];
    bool    found = false;
    lk_sha256_of(ticket, digest);
    lk_mutex_lock(&service->mutex);
    for (running *r = service->first; r != NULL; r = r->next) {
        if (memcmp(r->ticket, digest, sizeof digest) == 0) {
            r->cancel->set = true;
            found = true;
        }
    }
    lk_mutex_unlock(&service->mutex);
    return found;
}
