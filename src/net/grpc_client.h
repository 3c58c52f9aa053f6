#ifndef LK_NET_GRPC_CLIENT_H
#define LK_NET_GRPC_CLIENT_H
/*
 * grpc_client.h - gRPC calls in blocking style, over one pooled channel per server.
 *
 * A call that fails says why through err: the peer's status becomes the lake error it names (lake.code) or the
 * nearest one; a server that is not there is LK_E_UNREACHABLE with what to do, at once, not after twenty
 * seconds. A failure after the request left us sets err->maybe_applied.
 *
 * Threads: a channel is shared; a call is confined to one thread.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/thread.h"
#include "net/grpc_message.h"

typedef struct lk_grpc_channel lk_grpc_channel;
typedef struct lk_grpc_rpc     lk_grpc_rpc;

typedef struct lk_grpc_channel_options {
    const char *endpoint; /* grpc:// grpc+tcp:// http:// = plaintext; grpc+tls:// grpcs:// https:// = TLS;
                                HOST[:PORT] = plaintext; default port 50051 */
    const char *ca_file;  /* PEM; NULL: the system's roots. With a plaintext endpoint: LK_E_INVALID_CONFIG */
    const char *server_name;       /* expected certificate name; likewise */
    lk_bytes    token;             /* sent as `authorization: Bearer …`; empty: none. Copied */
    size_t      message_bytes_max; /* largest message received; 0: unlimited */
} lk_grpc_channel_options;

/* Connects lazily. LK_E_INVALID_CONFIG for an endpoint that cannot be read. */
LK_MUST_CHECK lk_rc lk_grpc_channel_open(
    lk_grpc_channel **out, const lk_grpc_channel_options *options, lk_err *err);
void lk_grpc_channel_close(lk_grpc_channel *channel); /* after its calls; accepts NULL */

typedef struct lk_grpc_header {
    const char *name; /* lower case */
    lk_bytes    value;
} lk_grpc_header;

typedef struct lk_grpc_rpc_options {
    const lk_grpc_header *headers;
    size_t                header_count;
    uint64_t              deadline_ms; /* absolute monotonic; 0: none. Sent as grpc-timeout */
    lk_cancel            *cancel;      /* may be NULL; its deadline counts too */
} lk_grpc_rpc_options;

LK_MUST_CHECK lk_rc lk_grpc_rpc_open(lk_grpc_rpc **out, lk_grpc_channel *channel, const char *path,
    const lk_grpc_rpc_options *options, lk_err *err);
void                lk_grpc_rpc_close(lk_grpc_rpc *rpc); /* cancels what still runs; accepts NULL */

/* Sends one message and waits until the transport took it; takes over message->release in every case. Fails
 * with the call's status when the server ended it. */
LK_MUST_CHECK lk_rc lk_grpc_rpc_write(lk_grpc_rpc *rpc, const lk_grpc_out *message, lk_err *err);
LK_MUST_CHECK lk_rc lk_grpc_rpc_write_bytes(lk_grpc_rpc *rpc, lk_bytes message, lk_err *err); /* copied */
LK_MUST_CHECK lk_rc lk_grpc_rpc_writes_done(lk_grpc_rpc *rpc, lk_err *err);

/* The next message, yours to release. *found = false with LK_OK: the server ended the call well. */
LK_MUST_CHECK lk_rc lk_grpc_rpc_read(lk_grpc_rpc *rpc, lk_grpc_message *out, bool *found, lk_err *err);

/* Reads and drops what is left, and returns the call's outcome. */
LK_MUST_CHECK lk_rc lk_grpc_rpc_finish(lk_grpc_rpc *rpc, lk_err *err);

/* Initial or trailing metadata of the reply, once read or finish returned; borrowed from the call. */
bool lk_grpc_rpc_metadata(const lk_grpc_rpc *rpc, const char *name, lk_bytes *value);

/* One request, one reply (into the arena). A reply that is missing is LK_E_INTERNAL. */
LK_MUST_CHECK lk_rc lk_grpc_unary(lk_grpc_channel *channel, const char *path,
    const lk_grpc_rpc_options *options, lk_bytes request, lk_arena *arena, lk_bytes *reply, lk_err *err);

#endif
