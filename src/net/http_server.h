#ifndef LK_NET_HTTP_SERVER_H
#define LK_NET_HTTP_SERVER_H
/*
 * http_server.h - an HTTP/1.1 server: a few event loops move bytes, handlers are plain blocking C on a worker pool.
 *
 *   head --admit--> body --complete--> run (worker) --answered--> sending --keep-alive--> head
 *     '--refused------'------------------------------------------> sending --> lingering --> closed
 *
 * A request's body is read whole before its handler runs. The answer may be given by any thread, also after run returned:
 * the exchange lives until lk_http_end. Requests of one connection are served one after another, in order.
 *
 * Invariants:
 *   1. Every request gets exactly one answer, or its connection is closed.
 *   2. A body larger than admit allows is answered with 413 before it is read (with a declared length) or as soon as
 *      it passes the limit; what is held of all bodies together is within body_bytes_max.
 *   3. A body that stalls for body_idle_ms is answered with 408, a head that takes longer than head_ms with 408, an idle
 *      connection is closed after idle_ms. A peer that takes less than LK_HTTP_TAKEN_MIN bytes of its answer in
 *      write_idle_ms while more waits is cut off.
 *   4. What is queued for a peer is at most one piece above LK_HTTP_QUEUE_BYTES, and of what is lent one loan above
 *      LK_HTTP_LENT_BYTES: a writer waits, or gives its thread back until there is room (lk_http_await_room).
 *   5. A peer that goes away sets the exchange's cancel flag.
 *   6. Requests with a body have workers of their own: peers that do not take long answers never hold those up.
 *
 * Threads: the server is shared. An exchange is confined: to admit, then to run and whom run gives it to.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/thread.h"
#include "net/http_head.h"
#include "net/tls.h"

enum {
    LK_HTTP_QUEUE_BYTES = 256 * 1024,
    LK_HTTP_LENT_BYTES =
        4 * 1024 * 1024, /* of content that its owner holds anyhow, and that is made while it is sent */
    LK_HTTP_TAKEN_MIN = 64 * 1024
};

typedef struct lk_http_server   lk_http_server;
typedef struct lk_http_exchange lk_http_exchange;

typedef struct lk_http_limits { /* those that may change while the server runs */
    uint64_t body_bytes_max;    /* of all requests together; 0: 2 GiB. A lone one is always let in */
    uint64_t body_idle_ms, write_idle_ms; /* 0: 120 s, 60 s */
} lk_http_limits;

typedef struct lk_http_options {
    const char            *address;         /* as of net/address.h */
    const lk_tls_identity *tls;             /* NULL or empty: plain */
    size_t                 loop_count;      /* event loops; 0: one a processor, 8 at most */
    size_t                 worker_count;    /* handlers at once, and as many of requests with a body; 0: 64 */
    size_t                 backlog_max;     /* requests that may wait for a worker; 0: 1,024; more are 503 */
    size_t                 connections_max; /* 0: 16,384; more are closed at once */
    lk_http_limits         limits;
    uint64_t               head_ms, idle_ms; /* 0: 30 s, 75 s */

    /* Looks at the head: sets how large the body may be, or answers at once. On a loop: must not block. */
    void (*admit)(lk_http_exchange *exchange, void *context, uint64_t *body_max);
    /* Answers. On a worker. */
    void (*run)(lk_http_exchange *exchange, void *context);
    /* After the last byte was queued (status 0: the peer went away before). Any thread. May be NULL. */
    void (*observe)(lk_http_exchange *exchange, void *context, int status);
    /* Appends to the text of a refusal that is not the handlers', which tells limit and value, what its reader may do: a
     * setting's name. On a loop, perhaps before admit. May be NULL. */
    void (*explain)(lk_http_exchange *exchange, void *context, int status, lk_buf *text);
    void *context;
} lk_http_options;

/* Listens and serves; *out is set before the first handler runs. LK_E_ADDRESS_IN_USE, LK_E_INVALID_CONFIG, LK_E_IO. */
LK_MUST_CHECK lk_rc lk_http_server_open(lk_http_server **out, const lk_http_options *options, lk_err *err);
const char         *lk_http_server_address(const lk_http_server *server); /* with the real port; borrowed */

/* Other limits, for what comes from now on. */
void lk_http_server_set_limits(lk_http_server *server, const lk_http_limits *limits);
/* Another identity for connections from now on, of a server that has one. LK_E_INVALID_CONFIG, and it keeps the old one. */
LK_MUST_CHECK lk_rc lk_http_server_set_tls(
    lk_http_server *server, const lk_tls_identity *identity, lk_err *err);
/* Content that handlers wrote and peers did not take yet, of all connections. */
uint64_t lk_http_server_queued_bytes(const lk_http_server *server);

/* Stops listening, closes idle connections, answers new requests with 503 and closes; waits for running ones until the
 * monotonic deadline: LK_E_DEADLINE when some were left. Once. */
LK_MUST_CHECK lk_rc lk_http_server_drain(lk_http_server *server, uint64_t deadline_ms, lk_err *err);

/* Cancels what still runs and waits until its exchanges are ended; joins every thread. Accepts NULL. */
void lk_http_server_close(lk_http_server *server);

/* -- an exchange: the request ------------------------------------------------------------------------------------ */
const lk_http_head *lk_http_request(const lk_http_exchange *exchange);
lk_bytes            lk_http_body(const lk_http_exchange *exchange);
/* The body's memory becomes the caller's, uncounted; it is empty from then on. */
void lk_http_take_body(lk_http_exchange *exchange, lk_buf *out);
/* Gives the body's memory back before the exchange ends; it is empty from then on. */
void       lk_http_drop_body(lk_http_exchange *exchange);
lk_arena  *lk_http_arena(lk_http_exchange *exchange);
lk_cancel *lk_http_cancel(lk_http_exchange *exchange);
/* Something of the handler's own, from admit to observe. */
void  lk_http_attach(lk_http_exchange *exchange, void *attachment);
void *lk_http_attachment(const lk_http_exchange *exchange);

/* -- and its answer ---------------------------------------------------------------------------------------------- */

/* A field of the answer; before it begins. Copied; a value that HTTP does not allow is left out. */
void lk_http_add_field(lk_http_exchange *exchange, const char *name, lk_bytes value);

/* Takes back the fields that were added; before it begins. */
void lk_http_drop_fields(lk_http_exchange *exchange);

/* Begins an answer of `length` bytes (UINT64_MAX: unknown, sent in chunks). For HEAD the content is left out. */
void lk_http_begin(lk_http_exchange *exchange, int status, const char *content_type, uint64_t length);
/* More content. Waits while too much is queued. LK_E_CANCELLED when the peer is gone, or was cut off. The second takes *piece
 * over. */
LK_MUST_CHECK lk_rc lk_http_write(lk_http_exchange *exchange, lk_bytes piece, lk_err *err);
LK_MUST_CHECK lk_rc lk_http_write_buf(lk_http_exchange *exchange, lk_buf *piece, lk_err *err);
/* More content, as it lies in memory: parts (the array is borrowed for the call) whose bytes stay there until `release` is
 * called, once, by any thread: when the peer has them or is gone, or this call failed. */
typedef struct lk_http_loan {
    const lk_bytes *parts;
    size_t          count;
    void (*release)(void *context);
    void *context;
} lk_http_loan;
LK_MUST_CHECK lk_rc lk_http_write_loan(lk_http_exchange *exchange, const lk_http_loan *loan, lk_err *err);
/* Instead of waiting. true: there is room, or nobody to take anything, as the next write says; go on. false: go_on is run on
 * a worker when that is so; until then nobody may touch the exchange. */
typedef void (*lk_http_go_on)(lk_http_exchange *exchange, void *context);
LK_MUST_CHECK bool lk_http_await_room(lk_http_exchange *exchange, lk_http_go_on go_on, void *context);
/* Ends the exchange, which is gone for the caller. Content that is short of its length closes the connection. */
void lk_http_end(lk_http_exchange *exchange);
/* Ends it after a failure in the middle of the content: the connection closes without the content's end. */
void lk_http_abort(lk_http_exchange *exchange);

/* Begin, write and end in one; takes *body over (NULL: none). In admit: the answer instead of the body. */
void lk_http_answer(lk_http_exchange *exchange, int status, const char *content_type, lk_buf *body);

const char *lk_http_reason(int status); /* "Not Found" */

#endif
