/*
 * grpc_call.c - the life of one server call: accepted, first message in, queued, run, finished.
 *
 * Invariants: see grpc_call_priv.h. A client that went away is never mistaken for one that has sent its last. The
 * library reports both as "no message"; what tells them apart is that nothing can be sent to the one who is
 * gone, so the end of a stream of requests is confirmed by sending the initial metadata (confirm_end).
 *
 * Threads: the *_done functions run on completion-queue threads and never block; the rest on the handler's.
 */
#include "net/grpc_call_priv.h"

#include "base/clock.h"

#include <grpc/byte_buffer.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>

enum { END_GRACE_MS = 5 };

static uint64_t now_ms(void)
{
    return lk_clock_monotonic_ms(lk_clock_real());
}

/* -- references -- */

static void headers_clear(lk_grpc_headers *headers)
{
    for (size_t i = 0; i < headers->count; i++) {
        grpc_slice_unref(headers->items[i].key);
        grpc_slice_unref(headers->items[i].value);
    }
    headers->count = 0;
}

static void unref(lk_grpc_call *call)
{
    if (atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (call->incoming != NULL) {
        grpc_byte_buffer_destroy(call->incoming);
    }
    if (call->reply != NULL) {
        grpc_byte_buffer_destroy(call->reply);
    }
    headers_clear(&call->initial);
    headers_clear(&call->trailing);
    lk_arena_close(&call->arena);
    grpc_metadata_array_destroy(&call->metadata);
    grpc_call_details_destroy(&call->details);
    lk_cond_deinit(&call->changed);
    lk_mutex_deinit(&call->mutex);
    if (call->call != NULL) {
        grpc_call_unref(call->call);
    }
    lk_grpc_server_count(call->server, -1);
    free(call);
}

static void start(lk_grpc_call *call, const grpc_op *ops, size_t count, lk_grpc_event *event)
{
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
    lk_grpc_event_arm(event);
    grpc_call_error error = grpc_call_start_batch(call->call, ops, count, event, NULL);
    LK_ASSERT(error == GRPC_CALL_OK); /* anything else is a misuse of ours */
}

/* -- completion-queue side -- */

static void closed_done(lk_grpc_call *call, bool ok)
{
    (void)ok;
    if (call->cancelled != 0) {
        atomic_store(&call->cancel.set, true);
        lk_mutex_lock(&call->mutex);
        call->gone = true;
        lk_cond_broadcast(&call->changed);
        lk_mutex_unlock(&call->mutex);
    }
    unref(call);
}

static void received_done(lk_grpc_call *call, bool ok)
{
    bool first = !call->queued;
    lk_mutex_lock(&call->mutex);
    call->receiving = false;
    call->incoming = call->receive_into;
    call->receive_into = NULL;
    call->gone = call->gone || !ok;
    lk_cond_broadcast(&call->changed);
    lk_mutex_unlock(&call->mutex);
    if (first) {
        call->queued = true;
        lk_grpc_server_enqueue(call->server, call);
    }
    unref(call);
}

static void sent_done(lk_grpc_call *call, bool ok)
{
    lk_mutex_lock(&call->mutex);
    call->sending = false;
    call->send_failed = call->send_failed || !ok;
    lk_cond_broadcast(&call->changed);
    lk_mutex_unlock(&call->mutex);
    unref(call);
}

static void finished_done(lk_grpc_call *call, bool ok)
{
    (void)ok;
    unref(call);
}

static void accepted_done(lk_grpc_call *call, bool ok)
{
    lk_err err = {0};
    if (!ok) { /* the server is shutting down */
        unref(call);
        return;
    }
    lk_grpc_call_request_next(call->server, call->queue);
    call->cancel.deadline_ms = lk_grpc_wire_deadline(call->details.deadline);
    call->method = lk_grpc_server_method(call->server, lk_grpc_wire_view(&call->details.method));

    grpc_op watch = lk_grpc_wire_op(GRPC_OP_RECV_CLOSE_ON_SERVER);
    watch.data.recv_close_on_server.cancelled = &call->cancelled;
    start(call, &watch, 1, &call->closed);
    lk_rc rc = lk_grpc_server_admit(call->server, call, &err);
    if (rc == LK_OK) {
        lk_grpc_call_receive(call);
    } else { /* before a byte of the request was taken in */
        lk_grpc_call_finish(call, rc, &err);
    }
}

/* `armed` stays as calloc left it. */
static void init_event(lk_grpc_event *event, void (*done)(lk_grpc_call *call, bool ok), lk_grpc_call *call)
{
    event->done = done;
    event->call = call;
}

void lk_grpc_call_request_next(lk_grpc_server *server, grpc_completion_queue *queue)
{
    lk_grpc_call *call = calloc(1, sizeof *call);
    LK_ASSERT(call != NULL);
    call->server = server;
    call->queue = queue;
    init_event(&call->accepted, accepted_done, call);
    init_event(&call->received, received_done, call);
    init_event(&call->sent, sent_done, call);
    init_event(&call->closed, closed_done, call);
    init_event(&call->finished, finished_done, call);
    atomic_init(&call->refs, 1);
    lk_mutex_init(&call->mutex, LK_RANK_CALL);
    lk_cond_init(&call->changed);
    grpc_call_details_init(&call->details);
    grpc_metadata_array_init(&call->metadata);
    lk_grpc_server_count(server, 1);
    lk_grpc_event_arm(&call->accepted);
    grpc_call_error error = grpc_server_request_call(lk_grpc_server_handle(server), &call->call,
        &call->details, &call->metadata, queue, queue, &call->accepted);
    if (error != GRPC_CALL_OK) { /* shut down meanwhile */
        unref(call);
    }
}

/* -- handler side -- */

void lk_grpc_call_receive(lk_grpc_call *call)
{
    lk_mutex_lock(&call->mutex);
    call->receiving = true;
    lk_mutex_unlock(&call->mutex);
    grpc_op op = lk_grpc_wire_op(GRPC_OP_RECV_MESSAGE);
    op.data.recv_message.recv_message = &call->receive_into;
    start(call, &op, 1, &call->received);
}

static lk_rc fail_gone(lk_grpc_call *call, lk_err *err)
{
    uint64_t deadline = call->cancel.deadline_ms;
    bool     late = deadline != 0 && now_ms() >= deadline;
    return late ? lk_fail(err, LK_E_DEADLINE, "call ran out of time")
                : lk_fail(err, LK_E_CANCELLED, "client went away");
}

static uint64_t wait_limit(const lk_grpc_call *call)
{
    uint64_t limit = call->cancel.deadline_ms;
    uint64_t idle_ms = call->method->idle_ms;
    uint64_t idle = idle_ms == 0 ? 0 : now_ms() + idle_ms;
    return limit == 0 || (idle != 0 && idle < limit) ? idle : limit;
}

/* Waits on changed while *busy, at most until the call's limit; with the mutex held. */
static lk_rc wait_while(lk_grpc_call *call, const bool *busy, lk_err *err)
{
    uint64_t limit = wait_limit(call);
    while (*busy && !call->gone) {
        if (limit == 0) {
            lk_cond_wait(&call->changed, &call->mutex);
        } else if (!lk_cond_wait_until(&call->changed, &call->mutex, limit) && *busy && !call->gone) {
            lk_rc rc = lk_fail(err, LK_E_DEADLINE, "peer moved nothing in time");
            bool  idle = call->cancel.deadline_ms == 0 || limit < call->cancel.deadline_ms;
            return idle ? lk_detail(err, "the client moved no data for too long") : rc;
        }
    }
    return call->gone ? fail_gone(call, err) : LK_OK;
}

static lk_rc take_incoming(lk_grpc_call *call, grpc_byte_buffer **out, lk_err *err)
{
    lk_mutex_lock(&call->mutex);
    lk_rc rc = wait_while(call, &call->receiving, err);
    if (rc == LK_OK) {
        *out = call->incoming;
        call->incoming = NULL;
    }
    lk_mutex_unlock(&call->mutex);
    return rc;
}

static bool request_streams(const lk_grpc_call *call)
{
    return call->method->kind == LK_GRPC_CLIENT_STREAM || call->method->kind == LK_GRPC_BIDI;
}

lk_rc lk_grpc_call_request(lk_grpc_call *call, lk_bytes *out, lk_err *err)
{
    lk_grpc_message message;
    bool            found = false;
    lk_rc           rc = lk_grpc_call_read(call, &message, &found, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (!found) {
        rc = lk_fail(err, LK_E_INVALID_REQUEST, "no request message");
        lk_detail(err, "the call carries no request message");
        return rc;
    }
    lk_bytes bytes = lk_grpc_message_bytes(&message, &call->arena);
    *out =
        message.slice_count == 1 ? lk_arena_copy(&call->arena, bytes) : bytes; /* else it is a copy already */
    lk_grpc_message_release(&message);
    return LK_OK;
}

/* Fills an initial-metadata operation unless it went out already; returns how many operations were added. */
static size_t initial_op(lk_grpc_call *call, grpc_op *op)
{
    if (call->initial_sent) {
        return 0;
    }
    call->initial_sent = true;
    *op = lk_grpc_wire_op(GRPC_OP_SEND_INITIAL_METADATA);
    op->data.send_initial_metadata.count = call->initial.count;
    op->data.send_initial_metadata.metadata = call->initial.items;
    return 1;
}

/* Waits for the message before, then marks one as under way. */
static lk_rc begin_send(lk_grpc_call *call, lk_err *err)
{
    lk_mutex_lock(&call->mutex);
    lk_rc rc = wait_while(call, &call->sending, err);
    if (rc == LK_OK && call->send_failed) {
        rc = fail_gone(call, err);
    }
    call->sending = rc == LK_OK || call->sending;
    lk_mutex_unlock(&call->mutex);
    return rc;
}

static bool reply_is_single(const lk_grpc_call *call)
{
    return call->method->kind == LK_GRPC_UNARY || call->method->kind == LK_GRPC_CLIENT_STREAM;
}

lk_rc lk_grpc_call_write(lk_grpc_call *call, const lk_grpc_out *message, lk_err *err)
{
    grpc_byte_buffer *buffer = lk_grpc_wire_out(message);
    if (reply_is_single(call)) {
        LK_ASSERT(call->reply == NULL); /* one reply */
        call->reply = buffer;
        return LK_OK;
    }
    lk_rc rc = begin_send(call, err);
    if (rc == LK_OK) {
        grpc_op ops[2];
        size_t  count = initial_op(call, ops);
        ops[count] = lk_grpc_wire_op(GRPC_OP_SEND_MESSAGE);
        ops[count++].data.send_message.send_message = buffer;
        start(call, ops, count, &call->sent);
    }
    grpc_byte_buffer_destroy(buffer);
    return rc;
}

lk_rc lk_grpc_call_write_bytes(lk_grpc_call *call, lk_bytes message, lk_err *err)
{
    char       *copy = message.size > LK_GRPC_COPY_BYTES ? gpr_malloc(message.size) : NULL;
    lk_bytes    piece = message;
    lk_grpc_out out = {&piece, 1, NULL, NULL};
    if (copy != NULL) {
        memcpy(copy, message.data, message.size);
        piece.data = copy;
        out.release = gpr_free;
        out.owner = copy;
    }
    return lk_grpc_call_write(call, &out, err);
}

lk_rc lk_grpc_call_send_initial(lk_grpc_call *call, lk_err *err)
{
    if (call->initial_sent) {
        return LK_OK;
    }
    lk_rc rc = begin_send(call, err);
    if (rc == LK_OK) {
        grpc_op op;
        size_t  count = initial_op(call, &op);
        start(call, &op, count, &call->sent);
    }
    return rc;
}

lk_rc lk_grpc_call_flush(lk_grpc_call *call, lk_err *err)
{
    lk_mutex_lock(&call->mutex);
    lk_rc rc = wait_while(call, &call->sending, err);
    if (rc == LK_OK && call->send_failed) {
        rc = fail_gone(call, err);
    }
    lk_mutex_unlock(&call->mutex);
    return rc;
}

/* The client has sent its last, unless it is gone. Where messages were sent to it before, its going away is
 * only waited for: such handlers have answered already what they were asked. */
static lk_rc confirm_end(lk_grpc_call *call, lk_err *err)
{
    if (!call->initial_sent) {
        lk_rc rc = lk_grpc_call_send_initial(call, err);
        return rc == LK_OK ? lk_grpc_call_flush(call, err) : rc;
    }
    uint64_t until = now_ms() + END_GRACE_MS;
    lk_mutex_lock(&call->mutex);
    while (!call->gone && lk_cond_wait_until(&call->changed, &call->mutex, until)) {}
    lk_rc rc = call->gone ? fail_gone(call, err) : LK_OK;
    lk_mutex_unlock(&call->mutex);
    return rc;
}

lk_rc lk_grpc_call_read(lk_grpc_call *call, lk_grpc_message *out, bool *found, lk_err *err)
{
    grpc_byte_buffer *buffer = NULL;
    *out = (lk_grpc_message){0};
    *found = false;
    lk_rc rc = take_incoming(call, &buffer, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (buffer == NULL) {
        return request_streams(call) ? confirm_end(call, err) : LK_OK;
    }
    if (request_streams(call)) {
        lk_grpc_call_receive(call); /* one ahead, while the handler looks at this one */
    }
    size_t max = lk_grpc_server_request_max(call->server, call->method);
    if (grpc_byte_buffer_length(buffer) > max) {
        rc = lk_fail(err, LK_E_LIMIT, "message of %zu bytes", grpc_byte_buffer_length(buffer));
        grpc_byte_buffer_destroy(buffer);
        lk_detail(err, "a message may have %zu bytes", max);
        return rc;
    }
    lk_grpc_wire_in(buffer, out);
    *found = true;
    return LK_OK;
}

static bool send_pending(lk_grpc_call *call)
{
    lk_mutex_lock(&call->mutex);
    bool pending = call->sending;
    lk_mutex_unlock(&call->mutex);
    return pending;
}

static void status_of(lk_grpc_call *call, lk_rc rc, const lk_err *err, lk_grpc_status *status)
{
    *status = (lk_grpc_status){0};
    if (rc == LK_OK) {
        return;
    }
    lk_grpc_server_translate(call->server, err, &call->arena, status);
    if (status->lake_code.size > 0) {
        lk_grpc_call_add_trailer(call, LK_GRPC_CODE_HEADER, status->lake_code);
    }
    if (status->details_bin.size > 0) {
        lk_grpc_call_add_trailer(call, "grpc-status-details-bin", status->details_bin);
    }
}

void lk_grpc_call_finish(lk_grpc_call *call, lk_rc rc, const lk_err *err)
{
    lk_grpc_status status;
    status_of(call, rc, err, &status);
    if (send_pending(call)) { /* stuck or gone: the status overtakes what cannot be sent */
        char *message = lk_arena_text(&call->arena, status.message);
        (void)grpc_call_cancel_with_status(call->call, (grpc_status_code)status.code, message, NULL);
    }
    grpc_op ops[3];
    size_t  count = initial_op(call, ops);
    if (rc == LK_OK && call->reply != NULL) {
        ops[count] = lk_grpc_wire_op(GRPC_OP_SEND_MESSAGE);
        ops[count++].data.send_message.send_message = call->reply;
    }
    grpc_slice text = lk_grpc_wire_slice(status.message);
    ops[count] = lk_grpc_wire_op(GRPC_OP_SEND_STATUS_FROM_SERVER);
    ops[count].data.send_status_from_server.status = (grpc_status_code)status.code;
    ops[count].data.send_status_from_server.status_details = &text;
    ops[count].data.send_status_from_server.trailing_metadata_count = call->trailing.count;
    ops[count++].data.send_status_from_server.trailing_metadata = call->trailing.items;
    start(call, ops, count, &call->finished);
    grpc_slice_unref(text);
    unref(call);
}

/* -- what a handler may ask -- */

lk_bytes lk_grpc_call_path(const lk_grpc_call *call)
{
    return lk_grpc_wire_view(&call->details.method);
}

lk_bytes lk_grpc_call_peer(lk_grpc_call *call)
{
    char    *text = grpc_call_get_peer(call->call);
    lk_bytes peer = lk_arena_copy(&call->arena, lk_bytes_of(text));
    gpr_free(text);
    return peer;
}

lk_arena *lk_grpc_call_arena(lk_grpc_call *call)
{
    return &call->arena;
}

lk_cancel *lk_grpc_call_cancel(lk_grpc_call *call)
{
    return &call->cancel;
}

bool lk_grpc_call_header(const lk_grpc_call *call, const char *name, lk_bytes *value)
{
    return lk_grpc_wire_find(&call->metadata, name, value);
}

void lk_grpc_call_set_attachment(lk_grpc_call *call, const void *attachment)
{
    call->attachment = attachment;
}

const void *lk_grpc_call_attachment(const lk_grpc_call *call)
{
    return call->attachment;
}

void lk_grpc_call_lower_deadline(lk_grpc_call *call, uint64_t deadline_ms)
{
    if (call->cancel.deadline_ms == 0 || deadline_ms < call->cancel.deadline_ms) {
        call->cancel.deadline_ms = deadline_ms;
    }
}

/* A value that HTTP does not allow (it may stem from a peer) is left out: it could not be sent. */
static void add(lk_grpc_headers *headers, const char *name, lk_bytes value)
{
    LK_ASSERT(headers->count < LK_GRPC_EXTRA_HEADERS_MAX);
    grpc_metadata item = {.key = lk_grpc_wire_slice(lk_bytes_of(name)), .value = lk_grpc_wire_slice(value)};
    LK_ASSERT(grpc_header_key_is_legal(item.key) != 0);
    if (grpc_is_binary_header(item.key) != 0 || grpc_header_nonbin_value_is_legal(item.value) != 0) {
        headers->items[headers->count++] = item;
    } else {
        grpc_slice_unref(item.key);
        grpc_slice_unref(item.value);
    }
}

void lk_grpc_call_add_initial(lk_grpc_call *call, const char *name, lk_bytes value)
{
    add(&call->initial, name, value);
}

void lk_grpc_call_add_trailer(lk_grpc_call *call, const char *name, lk_bytes value)
{
    add(&call->trailing, name, value);
}
