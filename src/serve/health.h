#ifndef LK_SERVE_HEALTH_H
#define LK_SERVE_HEALTH_H
/*
 * health.h - grpc.health.v1: Check and Watch, for "" (the process) and the Flight service (ready to serve).
 *
 * "" serves from start to stop; the Flight name serves while ready says so. After lk_health_stop both are
 * NOT_SERVING for ever, and watchers are told before their streams end. Threads: shared.
 */
#include "net/grpc_server.h"

typedef struct lk_health lk_health;

enum { LK_HEALTH_METHODS = 2 };

/* ready is asked at every check and a few times a second for watchers; it must not block. NULL: always. */
lk_health *lk_health_open(bool (*ready)(void *context), void *context);
void       lk_health_stop(lk_health *health);
void       lk_health_close(lk_health *health); /* after the server; accepts NULL */

void lk_health_methods(lk_health *health, lk_grpc_method out[LK_HEALTH_METHODS]);

#endif
