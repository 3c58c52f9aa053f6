#ifndef LK_NET_GRPC_MESSAGE_H
#define LK_NET_GRPC_MESSAGE_H
/*
 * grpc_message.h - one gRPC message, going out without being copied or coming in as slices; and the status
 * that ends a call. Servers and clients share these.
 *
 * Invariants:
 *   1. release(owner) of an outgoing message runs exactly once, whether or not the message was sent, when
 *      the transport holds no piece of it any more; on any thread, so it must not block.
 *   2. An incoming message is immutable; its slices live until lk_grpc_message_release.
 *
 * Threads: confined to the thread that reads or writes the call.
 */
#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"

/* An outgoing message: the pieces, one after the other, are its bytes. Pieces of LK_GRPC_COPY_BYTES or less
 * are copied (and joined); larger ones are referenced until release. */
typedef struct lk_grpc_out {
    const lk_bytes *pieces; /* the array itself is only read during the call */
    size_t          piece_count;
    void (*release)(void *owner); /* NULL: the pieces outlive the call (constants), or are all small */
    void *owner;
} lk_grpc_out;

enum { LK_GRPC_COPY_BYTES = 1024, LK_GRPC_PIECES_MAX = 65536 };

/* An incoming message. Zero is empty. */
typedef struct lk_grpc_message {
    lk_bytes *slices; /* never empty ones */
    size_t    slice_count, size;
    void     *body; /* the transport's */
} lk_grpc_message;

/* Copies bytes [offset, offset + size) into out; the range must lie inside. */
void lk_grpc_message_copy(const lk_grpc_message *message, size_t offset, size_t size, void *out);

/* The whole message as one run of bytes: borrowed when it is one slice, else copied into the arena. */
lk_bytes lk_grpc_message_bytes(const lk_grpc_message *message, lk_arena *arena);

void lk_grpc_message_release(lk_grpc_message *message); /* idempotent */

/* How a call ends. Text is borrowed. */
typedef struct lk_grpc_status {
    lk_code  code;
    lk_bytes message;     /* UTF-8, what the peer may see */
    lk_bytes lake_code;   /* stable machine code, sent as trailer `lake.code`; empty: none */
    lk_bytes details_bin; /* google.rpc.Status, sent as trailer `grpc-status-details-bin`; empty: none */
} lk_grpc_status;

#define LK_GRPC_CODE_HEADER "lake.code"

/* The error that a peer's status means: its lake.code when we know it, else the nearest by gRPC code. What the
 * peer said becomes the detail. An UNAVAILABLE that no peer sent (reached = false) is LK_E_UNREACHABLE. */
LK_MUST_CHECK lk_rc lk_grpc_status_to_err(const lk_grpc_status *status, bool reached, lk_err *err);

/* Loads the gRPC library once and points its log away from stderr; every open is paired with a close. The first one
 * sets a variable of the environment, which the library reads: before other threads look at theirs. */
void lk_grpc_open(void);
void lk_grpc_close(void);

#endif
