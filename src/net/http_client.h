#ifndef LK_NET_HTTP_CLIENT_H
#define LK_NET_HTTP_CLIENT_H
/*
 * http_client.h - blocking HTTP/1.1 requests, several at a time, over connections that are kept.
 *
 * Invariants:
 *   1. Every exchange ends: with a status, or with a failure that says whether the server may have acted.
 *   2. An exchange that makes no progress for stall_ms ends. Redirects are never followed.
 *   3. A server's certificate and name are checked; there is no way around that but http://.
 *
 * Threads: a client is shared; an exchange is confined to the call it is given to. Calls work on the caller's thread.
 */
#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"

typedef struct lk_http_client lk_http_client;

typedef struct lk_http_client_options {
    const char *ca_file; /* PEM; NULL: the system's */
    uint64_t    connect_ms, stall_ms;
    size_t      at_once; /* exchanges of one call that run at the same time */
} lk_http_client_options;

typedef struct lk_http_header {
    lk_bytes name, value;
} lk_http_header;

typedef enum lk_http_outcome {
    LK_HTTP_ANSWERED, /* status, headers and body are whole */
    LK_HTTP_NOT_SENT, /* the server has not seen the request */
    LK_HTTP_BROKEN,   /* it may have */
    LK_HTTP_REFUSED,  /* we do not want the answer: too large, or the sink said so */
    LK_HTTP_UNTRUSTED /* the server's certificate does not check out */
} lk_http_outcome;

enum { LK_HTTP_REASON_BYTES = 256 };

typedef struct lk_http_call {
    /* The request; borrowed until the call returns. */
    const char           *method;
    const char           *url;
    const lk_http_header *headers; /* Host included */
    size_t                header_count;
    lk_bytes              body;
    bool                  has_body; /* also when it is empty */
    /* Takes the body of an answer with this status in pieces, in order; false ends the exchange. */
    bool (*sink)(void *context, const void *data, size_t size);
    void *sink_context;
    int   sink_status;
    /* The answer. */
    lk_http_outcome end;
    int             status;
    lk_buf          headers_in; /* "Name: value\r\n" lines, as they came */
    lk_buf          body_in;    /* what did not go to the sink; at most LK_HTTP_BODY_BYTES_MAX */
    char            reason[LK_HTTP_REASON_BYTES]; /* why end is not LK_HTTP_ANSWERED */
} lk_http_call;

/* LK_E_INVALID_CONFIG when ca_file holds no certificate. */
LK_MUST_CHECK lk_rc lk_http_client_open(
    lk_http_client **out, const lk_http_client_options *options, lk_err *err);
void lk_http_client_close(lk_http_client *client); /* accepts NULL; no call may be running */

/* Runs them all, at most at_once together, and returns when each has ended. Sets the answer's fields. */
void lk_http_perform(lk_http_client *client, lk_http_call **exchanges, size_t count);

/* A header of the answer, without white space around it; borrowed. The name in any case. */
bool lk_http_call_header(const lk_http_call *exchange, const char *name, lk_bytes *value);
void lk_http_call_deinit(lk_http_call *exchange); /* the answer's memory; idempotent */

#endif
