#ifndef LK_SERVE_ROLLOUT_SERVICE_H
#define LK_SERVE_ROLLOUT_SERVICE_H
/*
 * rollout_service.h - the door of the rollout stores of one data directory: HTTP/1.1 on net/http_server.
 *
 * Invariants:
 *   1. Every answer that is no success is {"error":{"code","message"}}; which code a failure has is rollout_error.c's
 *      table, the only one.
 *   2. 201 is sent after lk_rollout_store_add returned LK_OK, never before.
 *   3. What a request holds in memory is bounded: its decoded body by body_max, its answer by pieces.
 *
 * Threads: shared. Requests run on the server's workers.
 */
#include "base/bytes.h"
#include "base/err.h"
#include "net/tls.h"
#include "rollout/stores.h"

#include <stddef.h>

typedef enum lk_rollout_role { /* each may do what the ones before it may */
    LK_ROLLOUT_READ,
    LK_ROLLOUT_WRITE, /* add, create */
    LK_ROLLOUT_ADMIN  /* delete, merge, compact, checkout with shared scope */
} lk_rollout_role;

typedef struct lk_rollout_token {
    lk_bytes        secret;
    lk_rollout_role role;
} lk_rollout_token;

typedef struct lk_rollout_limits { /* those that may change while the service runs */
    uint64_t body_max;             /* of one request, decoded; 0: 1 GiB */
    uint64_t body_idle_ms;         /* 0: 120 s */
    uint64_t blob_bytes_max;       /* of all requests' bodies at once, 503 above; 0: 2 GiB */
    uint64_t queued_bytes_max;     /* of adds that wait for their flush, 429 above; 0: 1 GiB */
    uint64_t answer_bytes_max;     /* of answers that readers did not take yet, 503 above; 0: 1 GiB */
    uint64_t answer_idle_ms;       /* a reader that takes next to nothing for so long is cut off; 0: 60 s */
    uint64_t group_commit_us; /* adds wait so long for others to be stored with; 0: while others are stored */
} lk_rollout_limits;

typedef struct lk_rollout_service_options {
    lk_rollouts            *stores;  /* borrowed */
    const char             *address; /* HOST:PORT; port 0 picks one */
    const lk_tls_identity  *tls;     /* NULL: plain */
    const lk_rollout_token *tokens;  /* copied; none: open to all */
    size_t                  token_count;
    lk_rollout_limits       limits;
    bool                    shared_checkout; /* a checkout moves every reader, as the reference's does */
    bool                    cors;            /* any origin may read the answers */
    /* Writes rows to a new file of this name, as sql/file_sink.h does; NULL: no Parquet goes out. */
    lk_rc (*write_parquet)(lk_batches *rows, const char *path, uint64_t *count, lk_err *err);
    lk_bytes instance_id, instance_source; /* for ready: who, and from which setting; copied */
} lk_rollout_service_options;

typedef struct lk_rollout_service lk_rollout_service;

/* Listens and serves. LK_E_ADDRESS_IN_USE, LK_E_INVALID_CONFIG, LK_E_IO. */
LK_MUST_CHECK lk_rc lk_rollout_service_open(
    lk_rollout_service **out, const lk_rollout_service_options *options, lk_err *err);
const char *lk_rollout_service_address(const lk_rollout_service *service); /* with the real port; borrowed */

/* -- while it runs ------------------------------------------------------------------------------------------- */
void lk_rollout_service_set_limits(lk_rollout_service *service, const lk_rollout_limits *limits);
/* Other tokens, of a service that has some; copied. */
void lk_rollout_service_set_tokens(lk_rollout_service *service, const lk_rollout_token *tokens, size_t count);
/* Another identity for connections from now on, of a service that has one. LK_E_INVALID_CONFIG. */
LK_MUST_CHECK lk_rc lk_rollout_service_set_tls(
    lk_rollout_service *service, const lk_tls_identity *tls, lk_err *err);

/* Stops accepting, answers new requests with 503, finishes running ones by the monotonic deadline: LK_E_DEADLINE when
 * some were left. Once. */
LK_MUST_CHECK lk_rc lk_rollout_service_drain(lk_rollout_service *service, uint64_t deadline_ms, lk_err *err);

void lk_rollout_service_close(lk_rollout_service *service); /* accepts NULL */

#endif
