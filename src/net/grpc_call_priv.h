#ifndef LK_NET_GRPC_CALL_PRIV_H
#define LK_NET_GRPC_CALL_PRIV_H
/*
 * grpc_call_priv.h - inside net/ only: one server call, from the moment it is asked for until its last operation.
 *
 * Who starts operations: the completion-queue thread until the call is queued, its handler's thread after
 * that; never both, so the library sees one thread at a time. Each started operation holds a reference.
 *
 * Threads: fields under "guarded" belong to mutex; the others to whoever starts operations.
 */
#include "net/grpc_server.h"
#include "net/grpc_wire_priv.h"

#include <stdatomic.h>

enum { LK_GRPC_EXTRA_HEADERS_MAX = 16 };

/* What an operation is known by while the library has it. It is armed by the thread that starts the operation and
 * disarmed by the one that hears of its end, which thereby sees all that the first had done. */
typedef struct lk_grpc_event {
    void (*done)(lk_grpc_call *call, bool ok); /* on the completion-queue thread */
    lk_grpc_call *call;
    atomic_bool   armed;
} lk_grpc_event;

static inline void lk_grpc_event_arm(lk_grpc_event *event)
{
    atomic_store_explicit(&event->armed, true, memory_order_release);
}
static inline void lk_grpc_event_disarm(lk_grpc_event *event)
{
    LK_ASSERT(atomic_exchange_explicit(&event->armed, false, memory_order_acquire));
}

typedef struct lk_grpc_headers {
    grpc_metadata items[LK_GRPC_EXTRA_HEADERS_MAX];
    size_t        count;
} lk_grpc_headers;

struct lk_grpc_call {
    lk_grpc_server        *server;
    grpc_completion_queue *queue;
    grpc_call             *call; /* NULL until accepted */
    grpc_call_details      details;
    grpc_metadata_array    metadata;
    const lk_grpc_method  *method; /* NULL: unknown */
    lk_grpc_event          accepted, received, sent, closed, finished;
    atomic_uint            refs;
    lk_arena               arena;
    lk_cancel              cancel;
    const void            *attachment;
    lk_grpc_headers        initial, trailing;
    bool                   queued, initial_sent;
    grpc_byte_buffer      *reply;        /* of a unary or client-streaming method, kept for the status */
    grpc_byte_buffer      *receive_into; /* written by the library */
    int                    cancelled;    /* written by the library */

    lk_mutex          mutex;
    lk_cond           changed;
    grpc_byte_buffer *incoming;    /* guarded: received, not yet read */
    bool              receiving;   /* guarded: a receive is under way */
    bool              sending;     /* guarded: a message is under way */
    bool              send_failed; /* guarded */
    bool              gone;        /* guarded: cancelled, disconnected or out of time */
};

/* Asks the server for one more call on this queue. */
void lk_grpc_call_request_next(lk_grpc_server *server, grpc_completion_queue *queue);

/* Sends the one status; drops the reference of whoever ran the call. */
void lk_grpc_call_finish(lk_grpc_call *call, lk_rc rc, const lk_err *err);

/* Asks for the next request message. */
void lk_grpc_call_receive(lk_grpc_call *call);

/* -- the server's side of it (grpc_server.c) -- */

grpc_server          *lk_grpc_server_handle(lk_grpc_server *server);
const lk_grpc_method *lk_grpc_server_method(const lk_grpc_server *server, lk_bytes path);
/* Whether the call may go on: the caller is known, and so is the method. */
LK_MUST_CHECK lk_rc lk_grpc_server_admit(lk_grpc_server *server, lk_grpc_call *call, lk_err *err);
size_t              lk_grpc_server_request_max(const lk_grpc_server *server, const lk_grpc_method *method);
/* Puts the call on the worker pool, or ends it when there is no room. */
void lk_grpc_server_enqueue(lk_grpc_server *server, lk_grpc_call *call);
void lk_grpc_server_translate(
    const lk_grpc_server *server, const lk_err *err, lk_arena *arena, lk_grpc_status *out);
void lk_grpc_server_count(lk_grpc_server *server, int change); /* calls alive */

#endif
