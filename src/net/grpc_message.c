/*
 * grpc_message.c - pieces become slices that hold a counted reference to their owner; slices become views.
 *
 * Threads: the owner's count is atomic, because the transport drops slices on its own threads.
 */
#include "net/grpc_message.h"

#include "base/clock.h"
#include "base/limits.h"
#include "net/grpc_wire_priv.h"

#include <grpc/byte_buffer.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* -- the library -- */

static void drop_log(gpr_log_func_args *args)
{
    (void)args; /* it would print addresses and, at debug level, headers on stderr */
}

/* Calls that fail at once leave nobody to watch the socket of the next attempt to connect. The library then does so
 * every 5 s, just when it gives the attempt up: a client would not find a server that came up behind it. */
static void watch_idle_channels(void)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%d", LK_GRPC_IDLE_POLL_MS);
    (void)setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", text, 0); /* its only way to be told */
}

void lk_grpc_open(void)
{
    watch_idle_channels();
    gpr_set_log_function(drop_log);
    grpc_init();
}

void lk_grpc_close(void)
{
    grpc_shutdown_blocking();
}

gpr_timespec lk_grpc_wire_time(uint64_t deadline_ms)
{
    if (deadline_ms == 0) {
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    }
    uint64_t now = lk_clock_monotonic_ms(lk_clock_real());
    uint64_t left = deadline_ms > now ? deadline_ms - now : 0;
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis((int64_t)left, GPR_TIMESPAN));
}

uint64_t lk_grpc_wire_deadline(gpr_timespec time)
{
    if (gpr_time_cmp(time, gpr_inf_future(time.clock_type)) == 0) {
        return 0;
    }
    int64_t left = gpr_time_to_millis(gpr_time_sub(time, gpr_now(time.clock_type)));
    return lk_clock_monotonic_ms(lk_clock_real()) + (left > 0 ? (uint64_t)left : 0) + 1;
}

/* -- outgoing -- */

typedef struct owner {
    atomic_uint refs;
    void (*release)(void *owner);
    void *what;
} owner;

static void owner_drop(void *context)
{
    owner *self = context;
    if (self != NULL && atomic_fetch_sub_explicit(&self->refs, 1, memory_order_acq_rel) == 1) {
        self->release(self->what);
        free(self);
    }
}

static grpc_slice reference(owner *holder, lk_bytes piece)
{
    if (holder != NULL) {
        atomic_fetch_add_explicit(&holder->refs, 1, memory_order_relaxed);
    }
    return grpc_slice_new_with_user_data((void *)(uintptr_t)piece.data, piece.size, owner_drop, holder);
}

/* Joins the small pieces from *at on into one copied slice; *at moves behind them. */
static grpc_slice join(const lk_grpc_out *message, size_t *at)
{
    size_t end = *at, size = 0;
    while (end < message->piece_count && message->pieces[end].size <= LK_GRPC_COPY_BYTES) {
        size += message->pieces[end++].size;
    }
    grpc_slice slice = grpc_slice_malloc(size);
    uint8_t   *to = GRPC_SLICE_START_PTR(slice);
    for (; *at < end; (*at)++) {
        if (message->pieces[*at].size > 0) {
            memcpy(to, message->pieces[*at].data, message->pieces[*at].size);
            to += message->pieces[*at].size;
        }
    }
    return slice;
}

static owner *owner_new(const lk_grpc_out *message)
{
    if (message->release == NULL) {
        return NULL;
    }
    owner *holder = gpr_malloc(sizeof *holder);
    atomic_init(&holder->refs, 1);
    holder->release = message->release;
    holder->what = message->owner;
    return holder;
}

grpc_byte_buffer *lk_grpc_wire_out(const lk_grpc_out *message)
{
    LK_ASSERT(message->piece_count <= LK_GRPC_PIECES_MAX);
    owner      *holder = owner_new(message);
    grpc_slice *slices = gpr_malloc((message->piece_count + 1) * sizeof *slices);
    size_t      count = 0;
    for (size_t i = 0; i < message->piece_count;) {
        bool small = message->pieces[i].size <= LK_GRPC_COPY_BYTES;
        slices[count++] = small ? join(message, &i) : reference(holder, message->pieces[i++]);
    }
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(slices, count);
    for (size_t i = 0; i < count; i++) {
        grpc_slice_unref(slices[i]);
    }
    gpr_free(slices);
    owner_drop(holder);
    return buffer;
}

/* -- incoming -- */

void lk_grpc_wire_in(grpc_byte_buffer *take, lk_grpc_message *out)
{
    grpc_slice_buffer *raw = &take->data.raw.slice_buffer;
    *out = (lk_grpc_message){.body = take, .size = raw->length};
    out->slices = gpr_malloc((raw->count + 1) * sizeof *out->slices);
    for (size_t i = 0; i < raw->count; i++) {
        if (GRPC_SLICE_LENGTH(raw->slices[i]) > 0) {
            out->slices[out->slice_count++] = lk_grpc_wire_view(&raw->slices[i]);
        }
    }
}

void lk_grpc_message_copy(const lk_grpc_message *message, size_t offset, size_t size, void *out)
{
    LK_ASSERT(offset <= message->size && size <= message->size - offset);
    char *to = out;
    for (size_t i = 0; i < message->slice_count && size > 0; i++) {
        lk_bytes slice = message->slices[i];
        if (offset >= slice.size) {
            offset -= slice.size;
            continue;
        }
        size_t part = slice.size - offset < size ? slice.size - offset : size;
        memcpy(to, slice.data + offset, part);
        to += part;
        size -= part;
        offset = 0;
    }
}

lk_bytes lk_grpc_message_bytes(const lk_grpc_message *message, lk_arena *arena)
{
    if (message->slice_count == 0) {
        return LK_LITERAL("");
    }
    if (message->slice_count == 1) {
        return message->slices[0];
    }
    char *flat = lk_arena_take(arena, message->size);
    lk_grpc_message_copy(message, 0, message->size, flat);
    return (lk_bytes){flat, message->size};
}

void lk_grpc_message_release(lk_grpc_message *message)
{
    if (message->body != NULL) {
        grpc_byte_buffer_destroy(message->body);
        gpr_free(message->slices);
    }
    *message = (lk_grpc_message){0};
}

bool lk_grpc_wire_find(const grpc_metadata_array *array, const char *name, lk_bytes *value)
{
    lk_bytes wanted = lk_bytes_of(name);
    for (size_t i = 0; i < array->count; i++) {
        if (lk_bytes_equal(lk_grpc_wire_view(&array->metadata[i].key), wanted)) {
            *value = lk_grpc_wire_view(&array->metadata[i].value);
            return true;
        }
    }
    return false;
}

grpc_slice lk_grpc_wire_slice(lk_bytes bytes)
{
    return grpc_slice_from_copied_buffer(bytes.size == 0 ? "" : bytes.data, bytes.size);
}

/* -- what a status means -- */

static lk_rc rc_of_code(lk_code code)
{
    switch (code) {
    case LK_CODE_OK:
        return LK_OK;
    case LK_CODE_CANCELLED:
        return LK_E_CANCELLED;
    case LK_CODE_INVALID_ARGUMENT:
    case LK_CODE_OUT_OF_RANGE:
        return LK_E_INVALID_REQUEST;
    case LK_CODE_DEADLINE_EXCEEDED:
        return LK_E_DEADLINE;
    case LK_CODE_NOT_FOUND:
        return LK_E_NOT_FOUND;
    case LK_CODE_ALREADY_EXISTS:
        return LK_E_TABLE_EXISTS;
    case LK_CODE_PERMISSION_DENIED:
        return LK_E_DENIED;
    case LK_CODE_RESOURCE_EXHAUSTED:
        return LK_E_LIMIT;
    case LK_CODE_FAILED_PRECONDITION:
        return LK_E_PRECONDITION;
    case LK_CODE_ABORTED:
        return LK_E_CONFLICT;
    case LK_CODE_UNIMPLEMENTED:
        return LK_E_UNIMPLEMENTED;
    case LK_CODE_UNAVAILABLE:
        return LK_E_UNREACHABLE;
    case LK_CODE_DATA_LOSS:
        return LK_E_CORRUPT_FILE;
    case LK_CODE_UNAUTHENTICATED:
        return LK_E_UNAUTHENTICATED;
    case LK_CODE_UNKNOWN:
    case LK_CODE_INTERNAL:
        return LK_E_INTERNAL;
    }
    return LK_E_INTERNAL;
}

static lk_rc rc_of_status(const lk_grpc_status *status)
{
    for (lk_rc rc = LK_OK + 1; status->lake_code.size > 0 && rc < LK_RC_COUNT; rc++) {
        if (lk_bytes_equal(lk_bytes_of(lk_rc_name(rc)), status->lake_code)) {
            return rc;
        }
    }
    return rc_of_code(status->code);
}

/* A peer that only may have acted: the statuses after which the same operation has to be asked for again. */
static bool ambiguous(lk_code code)
{
    return code == LK_CODE_CANCELLED || code == LK_CODE_UNKNOWN || code == LK_CODE_DEADLINE_EXCEEDED ||
           code == LK_CODE_INTERNAL || code == LK_CODE_UNAVAILABLE;
}

lk_rc lk_grpc_status_to_err(const lk_grpc_status *status, bool reached, lk_err *err)
{
    lk_rc rc = rc_of_status(status);
    rc = lk_fail(err, rc, "peer said %d: %.*s", (int)status->code, LK_FMT(status->message));
    err->maybe_applied = ambiguous(status->code);
    if (status->code == LK_CODE_UNAVAILABLE && !reached) {
        err->maybe_applied = !lk_bytes_starts(status->message, LK_LITERAL("failed to connect"));
        return lk_detail(err, "is it running, and is the address right?");
    }
    lk_bytes text = lk_bytes_of(lk_rc_text(rc)), said = status->message;
    if (lk_bytes_starts(said, text)) { /* our own servers say "text: detail" */
        said = (lk_bytes){said.data + text.size, said.size - text.size};
        said = lk_bytes_starts(said, LK_LITERAL(": ")) ? (lk_bytes){said.data + 2, said.size - 2} : said;
    }
    return said.size == 0 ? rc : lk_detail(err, "%.*s", LK_FMT(said));
}
