/* health.c - see health.h. The two messages are one field each (grpc.health.v1): service = 1, status = 1. */
#include "serve/health.h"

#include "base/clock.h"
#include "flight/pb_flight.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef enum serving { UNKNOWN = 0, SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 } serving;

struct lk_health {
    bool (*ready)(void *context);
    void       *context;
    atomic_bool stopped;
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

/* Field 1 of a HealthCheckRequest; absent is "". A request that is anything else is refused. */
static lk_rc read_service(lk_grpc_call *call, lk_bytes *service, lk_err *err)
{
    lk_bytes request = {0};
    lk_rc rc = lk_grpc_call_request(call, &request, err);
    if (rc != LK_OK || request.size == 0) {
        return rc;
    }
    bool short_field = request.size >= 2 && request.data[0] == 0x0A && (unsigned char)request.data[1] < 0x80 &&
                       (size_t)request.data[1] == request.size - 2;
    if (!short_field) {
        return lk_fail(err, LK_E_INVALID_REQUEST, "health check request");
    }
    *service = (lk_bytes){request.data + 2, request.size - 2};
    return LK_OK;
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
    const char reply[2] = {0x08, (char)status};
    return lk_grpc_call_write_bytes(call, (lk_bytes){reply, sizeof reply}, err);
}

static lk_rc check(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_bytes service = {0};
    lk_rc rc = read_service(call, &service, err);
    if (rc != LK_OK) {
        return rc;
    }
    serving status = status_of(context, service);
    if (status == SERVICE_UNKNOWN) {
        return lk_fail(err, LK_E_NOT_FOUND, "no such service");
    }
    return send_status(call, status, err);
}

static lk_rc watch(lk_grpc_call *call, void *context, lk_err *err)
{
    enum { POLL_MS = 100 };
    lk_health *health = context;
    lk_bytes service = {0};
    lk_rc rc = read_service(call, &service, err);
    serving told = UNKNOWN;
    while (rc == LK_OK) {
        bool stopped = atomic_load(&health->stopped);
        serving now = status_of(health, service);
        if (now != told) {
            rc = send_status(call, now, err);
            told = now;
        }
        if (stopped) {
            return rc;
        }
        lk_clock_sleep_ms(lk_clock_real(), POLL_MS);
        rc = rc == LK_OK ? lk_cancel_check(lk_grpc_call_cancel(call), err) : rc;
    }
    return rc;
}

void lk_health_methods(lk_health *health, lk_grpc_method out[LK_HEALTH_METHODS])
{
    out[0] = (lk_grpc_method){
        .path = "/grpc.health.v1.Health/Check", .kind = LK_GRPC_UNARY, .run = check, .context = health};
    out[1] = (lk_grpc_method){
        .path = "/grpc.health.v1.Health/Watch", .kind = LK_GRPC_SERVER_STREAM, .run = watch, .context = health};
}
