#ifndef LK_NET_GRPC_SERVER_H
#define LK_NET_GRPC_SERVER_H
/*
 * grpc_server.h - a gRPC server whose handlers are plain blocking C.
 *
 * Completion-queue threads only admit and enqueue: a caller that may call is let in, and when the first request
 * message is there, the handler is put on the worker pool. The handler reads, writes and returns a lk_rc; that is the call's status.
 *
 *   asked for --admitted--> receiving --message--> queued --worker--> running --returns--> finishing --> gone
 *        '--refused-------------------------------------'--backlog full: LK_E_LIMIT---------------^
 *
 * Invariants:
 *   1. Every call ends with exactly one status.
 *   2. A client that cancels, disconnects or runs out of time sets lk_grpc_call_cancel's flag within 100 ms
 *      and ends any read or write that waits.
 *   3. At most one message per call is being sent, and at most one is received ahead: the peer's flow control
 *      is the only other buffer.
 *   4. Two servers never share a port (SO_REUSEPORT is off).
 *   5. Requests are not compressed (UNIMPLEMENTED): a message is as large as its limit says.
 *
 * Threads: the server is shared; a call is confined to its handler (its cancel flag is shared).
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/thread.h"
#include "net/grpc_message.h"
#include "net/tls.h"

typedef struct lk_grpc_server lk_grpc_server;
typedef struct lk_grpc_call   lk_grpc_call;

typedef enum lk_grpc_kind {
    LK_GRPC_UNARY,         /* one request, one reply (sent together with the status) */
    LK_GRPC_CLIENT_STREAM, /* requests, one reply (sent together with the status) */
    LK_GRPC_SERVER_STREAM, /* one request, replies */
    LK_GRPC_BIDI           /* requests and replies, in any order */
} lk_grpc_kind;

typedef struct lk_grpc_method {
    const char  *path; /* "/arrow.flight.protocol.FlightService/DoGet" */
    lk_grpc_kind kind;
    lk_rc (*run)(lk_grpc_call *call, void *context, lk_err *err);
    void    *context;
    size_t   request_bytes_max; /* one message; 0: the server's message_bytes_max */
    uint64_t idle_ms; /* a read or write that waits longer is LK_E_DEADLINE; 0: no bound of its own */
    bool     quick; /* never waits: has workers of its own, so that it is answered when all others are busy */
} lk_grpc_method;

typedef struct lk_grpc_server_options {
    const char            *address; /* numeric IP or localhost, and port: "127.0.0.1:0", "[::1]:50051" */
    const lk_tls_identity *tls;     /* NULL or empty: plaintext */
    const lk_grpc_method  *methods; /* must outlive the server */
    size_t                 method_count;
    size_t                 queue_count;  /* completion queues, one thread each; 0: 2 */
    size_t                 worker_count; /* most handlers at once; 0: LK_GRPC_WORKERS */
    size_t                 backlog_max;  /* calls that may wait for a worker; 0: LK_GRPC_BACKLOG_MAX */
    size_t message_bytes_max; /* largest request of methods that name no size; 0: LK_GRPC_MESSAGE_BYTES_MAX */

    /* Runs before a request is taken in, for unknown methods too: authentication. On a completion-queue thread: it
     * must not block. May be NULL. */
    lk_rc (*admit)(lk_grpc_call *call, void *context, lk_err *err);
    /* Runs after every handler, with its outcome (err is meaningful unless rc is LK_OK): logs. May be NULL. */
    void (*observe)(lk_grpc_call *call, void *context, lk_rc rc, const lk_err *err);
    /* What the client is told about a failure; text goes into the arena. NULL: code and message only. */
    void (*translate)(const lk_err *err, lk_arena *arena, lk_grpc_status *out);
    void *context; /* of admit and observe */
} lk_grpc_server_options;

/* Listens and serves. LK_E_ADDRESS_IN_USE when somebody has the port; LK_E_INVALID_CONFIG for an address that
 * is none of ours or cannot be read; LK_E_IO otherwise. */
LK_MUST_CHECK lk_rc lk_grpc_server_open(
    lk_grpc_server **out, const lk_grpc_server_options *options, lk_err *err);

/* "127.0.0.1:41234": the real port. Borrowed. */
const char *lk_grpc_server_address(const lk_grpc_server *server);

/* Another identity for connections from now on, of a server that has one; copied. LK_E_INVALID_CONFIG when it has none. */
LK_MUST_CHECK lk_rc lk_grpc_server_set_tls(
    lk_grpc_server *server, const lk_tls_identity *identity, lk_err *err);

/* Stops accepting (clients get GOAWAY), waits for running calls until the monotonic deadline, then cancels the
 * rest: LK_E_DEADLINE when there were any. Once; returns within a second of the deadline if handlers heed
 * their cancel flag. */
LK_MUST_CHECK lk_rc lk_grpc_server_drain(lk_grpc_server *server, uint64_t deadline_ms, lk_err *err);
bool                lk_grpc_server_draining(const lk_grpc_server *server);

/* Cancels what still runs, joins every thread, frees. Accepts NULL. */
void lk_grpc_server_close(lk_grpc_server *server);

/* True for 127.0.0.0/8, ::1 and localhost; LK_E_INVALID_CONFIG for what lk_grpc_server_open would refuse. */
LK_MUST_CHECK lk_rc lk_grpc_address_is_loopback(const char *address, bool *loopback, lk_err *err);

/* -- inside a handler -- */

lk_bytes   lk_grpc_call_path(const lk_grpc_call *call);
lk_bytes   lk_grpc_call_peer(lk_grpc_call *call); /* "ipv4:127.0.0.1:4711" */
lk_arena  *lk_grpc_call_arena(lk_grpc_call *call);
lk_cancel *lk_grpc_call_cancel(lk_grpc_call *call); /* carries the client's deadline (grpc-timeout) */

/* The first value of a header (lower-case name); false when absent. Binary (-bin) values come decoded. */
bool lk_grpc_call_header(const lk_grpc_call *call, const char *name, lk_bytes *value);

/* What admit learnt, for the handler: usually a const lk_principal. */
void        lk_grpc_call_set_attachment(lk_grpc_call *call, const void *attachment);
const void *lk_grpc_call_attachment(const lk_grpc_call *call);

/* Lowers the call's deadline (absolute monotonic) for every later read, write and cancel check. */
void lk_grpc_call_lower_deadline(lk_grpc_call *call, uint64_t deadline_ms);

/* The next request message, yours to release. *found = false: the client has sent its last.
 * LK_E_CANCELLED, LK_E_DEADLINE, or LK_E_LIMIT for one larger than the method allows. */
LK_MUST_CHECK lk_rc lk_grpc_call_read(lk_grpc_call *call, lk_grpc_message *out, bool *found, lk_err *err);

/* The one request of a unary or server-streaming method, as bytes in the call's arena.
 * LK_E_INVALID_REQUEST when the client sent none. */
LK_MUST_CHECK lk_rc lk_grpc_call_request(lk_grpc_call *call, lk_bytes *out, lk_err *err);

/* Sends one message; takes over message->release in every case. Returns as soon as the message before it is
 * gone, so the caller can make the next while this one is sent. LK_E_CANCELLED, LK_E_DEADLINE. */
LK_MUST_CHECK lk_rc lk_grpc_call_write(lk_grpc_call *call, const lk_grpc_out *message, lk_err *err);
LK_MUST_CHECK lk_rc lk_grpc_call_write_bytes(lk_grpc_call *call, lk_bytes message, lk_err *err); /* copied */

/* Waits until everything written is handed to the peer. */
LK_MUST_CHECK lk_rc lk_grpc_call_flush(lk_grpc_call *call, lk_err *err);

/* Initial metadata goes out with the first message (or now), trailers with the status. Copied; values that HTTP does
 * not allow are left out, unless the name ends in -bin. */
void                lk_grpc_call_add_initial(lk_grpc_call *call, const char *name, lk_bytes value);
void                lk_grpc_call_add_trailer(lk_grpc_call *call, const char *name, lk_bytes value);
LK_MUST_CHECK lk_rc lk_grpc_call_send_initial(lk_grpc_call *call, lk_err *err);

#endif
