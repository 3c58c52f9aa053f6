#ifndef LK_CLI_ROLLOUT_REMOTE_H
#define LK_CLI_ROLLOUT_REMOTE_H
/*
 * rollout_remote.h - a rollout store's HTTP door from the client's side: one call, tried again until it is answered for good.
 *
 * A call that is refused with 429, 503 (a proxy's 502, 504) or SHARD_FENCED, or whose connection is lost, is tried again: after the time that the answer asks
 * for, else after a random one that doubles. Every call may be repeated: reads change nothing, and records of adds have their
 * ids before the first attempt. An answer that went to a sink in part goes on behind what was taken, if the call is ranged.
 *
 * Threads: shared; a call is confined.
 */
#include "base/config.h"
#include "base/rand.h"
#include "net/http_client.h"

typedef struct lk_rollout_remote lk_rollout_remote;

typedef struct lk_rollout_remote_options {
    const char *url;        /* http[s]://HOST[:PORT][/PREFIX]; NULL: the setting */
    const char *token_file; /* NULL: the settings' token */
    const char *ca_file;    /* PEM; NULL: the system's */
    uint64_t    retry_secs; /* how long a call is tried again */
} lk_rollout_remote_options;

LK_MUST_CHECK lk_rc lk_rollout_remote_open(
    lk_rollout_remote **out, const lk_config *config, const lk_rollout_remote_options *options, lk_err *err);
void        lk_rollout_remote_close(lk_rollout_remote *remote); /* accepts NULL */
const char *lk_rollout_remote_url(const lk_rollout_remote *remote);

typedef struct lk_rollout_call {
    const char *method, *path; /* path: below /api/v1, escaped, with its query */
    const char *content_type;  /* NULL: no body */
    const char *accept;        /* NULL: anything */
    lk_bytes    body;
    bool (*sink)(void *context, const void *data,
        size_t size); /* NULL: the body goes to answer; false ends the call */
    void *sink_context;
    bool  ranged; /* may be asked for from some byte on */
} lk_rollout_call;

/*
 * Appends the body of a success to *answer. Else an error with the server's words:
 * LK_E_UNAUTHENTICATED, LK_E_DENIED, LK_E_NOT_FOUND, LK_E_TABLE_EXISTS, LK_E_CONFLICT, LK_E_SHARD_FENCED,
 * LK_E_INVALID_REQUEST, LK_E_LIMIT, LK_E_UNREACHABLE (still busy or away after all tries), LK_E_CANCELLED (the sink ended it).
 */
LK_MUST_CHECK lk_rc lk_rollout_remote_call(
    lk_rollout_remote *remote, const lk_rollout_call *request, lk_buf *answer, lk_err *err);

/* How long to wait before try number `attempt` (from 1): what Retry-After says in seconds, at most a minute; without it half
 * to all of 100 ms doubled with every attempt, at most 10 s. */
uint64_t lk_rollout_retry_wait_ms(unsigned attempt, lk_bytes retry_after, lk_random *random);

/* Appends text with everything escaped that has a meaning in a path or query. */
void lk_rollout_path_escape(lk_bytes text, lk_buf *out);

#endif
