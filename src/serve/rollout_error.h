#ifndef LK_SERVE_ROLLOUT_ERROR_H
#define LK_SERVE_ROLLOUT_ERROR_H
/*
 * rollout_error.h - the one table from failures to statuses and codes of the rollout service.
 * Threads: stateless.
 */
#include "net/http_server.h"

typedef struct lk_rollout_status {
    int         status;
    const char *code;
} lk_rollout_status;

lk_rollout_status lk_rollout_status_of(lk_rc rc);

/* The body {"error":{"code","message"}} and the fields that go with the status (Retry-After, WWW-Authenticate); logs what is
 * the server's fault. */
void lk_rollout_error_body(
    lk_http_exchange *exchange, const lk_err *err, lk_rollout_status status, lk_buf *out);

/* Answers the request with the failure. */
void lk_rollout_refuse(lk_http_exchange *exchange, const lk_err *err);

#endif
