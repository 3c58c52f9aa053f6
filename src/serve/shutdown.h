#ifndef LK_SERVE_SHUTDOWN_H
#define LK_SERVE_SHUTDOWN_H
/*
 * shutdown.h - from the signal to the end of the process, under one deadline.
 *
 *   open --SIGTERM or SIGINT--> health says NOT_SERVING, drain until the deadline --> the caller closes the rest --> close
 *     '--a second signal: the process ends at once with 128 + its number
 *     '--LK_SHUTDOWN_MARGIN_MS after the deadline without close: the process ends with 1
 *     '--SIGHUP: settings are read again, by whoever asked for that; else nothing happens
 *
 * Threads: one inside, which takes the signals; open must come before any other thread is started, so that every
 * thread inherits the blocked signals. SIGPIPE is ignored from then on.
 */
#include "net/grpc_server.h"
#include "serve/health.h"

typedef struct lk_shutdown lk_shutdown;

LK_MUST_CHECK lk_rc lk_shutdown_open(lk_shutdown **out, uint64_t grace_ms, lk_err *err);

/* Waits for the first signal, then takes the server down. health may be NULL. LK_E_DEADLINE when calls still ran
 * at the deadline (they were cancelled). */
LK_MUST_CHECK lk_rc lk_shutdown_serve(
    lk_shutdown *shutdown, lk_grpc_server *server, lk_health *health, lk_err *err);

/* Waits for the first signal and returns the monotonic deadline; for what is taken down by the caller. */
uint64_t lk_shutdown_wait(lk_shutdown *shutdown);

/* Calls reload on the signal thread for every SIGHUP from now on; NULL: not any more, and none runs when this returns. */
void lk_shutdown_on_reload(lk_shutdown *shutdown, void (*reload)(void *context), void *context);

uint64_t lk_shutdown_deadline_ms(const lk_shutdown *shutdown); /* monotonic; 0 before the first signal */
void     lk_shutdown_request(lk_shutdown *shutdown);           /* as if the first signal had come */
void     lk_shutdown_close(lk_shutdown *shutdown); /* everything is closed in time; accepts NULL */

#endif
