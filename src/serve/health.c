/*
 * health.c - see health.h. The two messages have one field each (grpc.health.v1): service = 1, status = 1.
 *
 * Threads: a watcher sits on a worker; the number of watchers is bounded, so that they leave workers to others.
 */
#include "serve/health.h"

#include "base/clock.h"
#include "flight/pb.h"
#include "flight/pb_flight.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { WATCHERS_MAX = 16, POLL_MS = 100 };

typedef enum serving { UNKNOWN = 0, SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 } serving;

struct lk_health {
    bool (*ready)(void *context);
    void       *context;
    atomic_bool stopped;
    atomic_int  watchers;
};

lk_health *lk_health_open(bool (*ready)(void *context), void *context)
{
    lk_health *health = calloc(1, sizeof *health);
    LK_ASSERT(health != NULL);
    health->ready = ready;
    health->context = context;
    return health;
}

void lk_health_stop(lk_health *health)
{
    atomic_store(&health->stopped, true);
}

void lk_health_close(lk_health *health)
{
    free(health);
}

static lk_rc read_service(lk_grpc_call *call, lk_bytes *service, lk_err *err)
{
    lk_bytes   request = {0};
    lk_pb_item item;
    lk_rc      rc = lk_grpc_call_request(call, &request, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_pb_cursor cursor = lk_pb_cursor_of(request);
    *service = LK_LITERAL("");
    while (lk_pb_next(&cursor, &item)) {
        if (item.number == 1 && item.wire_type == LK_PB_LENGTH) {
            *service = item.bytes;
        }
    }
    return cursor.bad ? lk_fail(err, LK_E_INVALID_REQUEST, "malformed health check request") : LK_OK;
}

static serving status_of(lk_health *health, lk_bytes service)
{
    bool whole = service.size == 0;
    if (!whole && !lk_bytes_equal(service, LK_LITERAL(LK_FLIGHT_SERVICE))) {
        return SERVICE_UNKNOWN;
    }
    if (atomic_load(&health->stopped)) {
        return NOT_SERVING;
    }
    return whole || health->ready == NULL || health->ready(health->context) ? SERVING : NOT_SERVING;
}

static lk_rc send_status(lk_grpc_call *call, serving status, lk_err *err)
{
    const char reply[2] = {1 << 3, (char)status};
    return lk_grpc_call_write_bytes(call, (lk_bytes){reply, sizeof reply}, err);
}

static lk_rc check(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_bytes service = {0};
    lk_rc    rc = read_service(call, &service, err);
    if (rc != LK_OK) {
        return rc;
    }
    serving status = status_of(context, service);
    if (status == SERVICE_UNKNOWN) {
        return lk_fail(err, LK_E_NOT_FOUND, "no such service");
    }
    return send_status(call, status, err);
}

/* Tells every change until the client goes away or the server stops. */
static lk_rc tell(lk_grpc_call *call, lk_health *health, lk_bytes service, lk_err *err)
{
    serving told = UNKNOWN;
    lk_rc   rc = LK_OK;
    bool    stopped = false;
    while (rc == LK_OK && !stopped) {
        stopped = atomic_load(&health->stopped);
        serving now = status_of(health, service);
        if (now != told) {
            rc = send_status(call, now, err);
            told = now;
        }
        if (rc == LK_OK && !stopped) {
            lk_clock_sleep_ms(lk_clock_real(), POLL_MS);
            rc = lk_cancel_check(lk_grpc_call_cancel(call), err);
        }
    }
    return rc;
}

static lk_rc watch(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_health *health = context;
    lk_bytes   service = {0};
    lk_rc      rc = read_service(call, &service, err);
    if (rc == LK_OK && atomic_fetch_add(&health->watchers, 1) >= WATCHERS_MAX) {
        rc = lk_fail(err, LK_E_LIMIT, "more than %d watchers", WATCHERS_MAX);
        atomic_fetch_sub(&health->watchers, 1);
        return rc;
    }
    if (rc == LK_OK) {
        rc = tell(call, health, service, err);
        atomic_fetch_sub(&health->watchers, 1);
    }
    return rc;
}

void lk_health_methods(lk_health *health, lk_grpc_method out[LK_HEALTH_METHODS])
{
    enum { REQUEST_BYTES_MAX = 4096 };
    out[0] = (lk_grpc_method){.path = "/grpc.health.v1.Health/Check",
        .kind = LK_GRPC_UNARY,
        .run = check,
        .context = health,
        .quick = true,
        .request_bytes_max = REQUEST_BYTES_MAX};
    out[1] = (lk_grpc_method){.path = "/grpc.health.v1.Health/Watch",
        .kind = LK_GRPC_SERVER_STREAM,
        .run = watch,
        .context = health,
        .request_bytes_max = REQUEST_BYTES_MAX};
}
