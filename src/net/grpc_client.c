/*
 * grpc_client.c - one channel per server, one plucked completion queue per call.
 *
 * Invariants:
 *   1. Every operation is waited for before the next is started, so a call has one outstanding at most.
 *   2. Once the status is known, every later call on the rpc returns it.
 *
 * Threads: see the header. Waiting looks at the cancel flag every LK_GRPC_CANCEL_POLL_MS.
 */
#include "net/grpc_client.h"

#include "base/clock.h"
#include "base/limits.h"
#include "net/address.h"
#include "net/grpc_wire_priv.h"
#include "net/tls.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>

enum { TARGET_SIZE = LK_ADDRESS_HOST_SIZE + 16, HEADERS_MAX = 32 };

struct lk_grpc_channel {
    grpc_channel *handle;
    char          target[TARGET_SIZE];
    lk_buf        authorization; /* "Bearer …"; empty: none */
};

struct lk_grpc_rpc {
    grpc_call             *call;
    grpc_completion_queue *queue;
    lk_cancel             *cancel;
    grpc_metadata_array    initial, trailing;
    bool                   started, reached; /* reached: the peer sent something */
    bool                   over;             /* the status is known */
    lk_rc                  rc;
    lk_err                 outcome;
};

static void *zeroed(size_t size)
{
    void *memory = calloc(1, size);
    LK_ASSERT(memory != NULL);
    return memory;
}

/* -- channels -- */

static grpc_arg integer(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = value};
}

static lk_rc secure(const lk_grpc_channel_options *options, grpc_channel_credentials **out, lk_err *err)
{
    lk_buf roots = {0};
    lk_rc  rc = options->ca_file == NULL ? LK_OK : lk_tls_roots_load(&roots, options->ca_file, err);
    if (rc == LK_OK) {
        *out = grpc_ssl_credentials_create_ex(roots.data, NULL, NULL, NULL);
        if (*out == NULL) {
            rc = lk_fail(err, LK_E_INVALID_CONFIG, "no TLS credentials");
            lk_detail(err, "no certificate authorities found; name a CA file");
        }
    }
    lk_buf_deinit(&roots);
    return rc;
}

static lk_rc choose_credentials(
    const lk_grpc_channel_options *options, bool tls, grpc_channel_credentials **out, lk_err *err)
{
    if (tls) {
        return secure(options, out, err);
    }
    if (options->ca_file != NULL || options->server_name != NULL) {
        lk_rc rc = lk_fail(err, LK_E_INVALID_CONFIG, "TLS settings with a plaintext endpoint");
        lk_detail(err, "a CA file or server name needs a TLS endpoint (grpc+tls://)");
        return rc;
    }
    *out = grpc_insecure_credentials_create();
    return LK_OK;
}

static grpc_channel *create(
    const char *target, const lk_grpc_channel_options *options, grpc_channel_credentials *how)
{
    int      message_max = options->message_bytes_max == 0 ? -1 : (int)options->message_bytes_max;
    grpc_arg args[16];
    size_t   count = 0;
    args[count++] = integer(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, message_max);
    args[count++] = integer(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
    args[count++] = integer(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, LK_GRPC_CONNECT_TIMEOUT_MS);
    args[count++] = integer(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, LK_GRPC_RECONNECT_MIN_MS);
    args[count++] = integer(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, LK_GRPC_RECONNECT_MAX_MS);
    args[count++] = integer(GRPC_ARG_KEEPALIVE_TIME_MS, LK_GRPC_KEEPALIVE_MS);
    args[count++] = integer(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, LK_GRPC_KEEPALIVE_TIMEOUT_MS);
    args[count++] = integer(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    args[count++] = integer(GRPC_ARG_ENABLE_RETRIES, 0); /* repeating is the caller's decision */
    args[count++] = integer(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    args[count++] = integer(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    if (options->server_name != NULL) {
        args[count++] = (grpc_arg){.type = GRPC_ARG_STRING,
            .key = (char *)(uintptr_t)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
            .value.string = (char *)(uintptr_t)options->server_name};
    }
    grpc_channel_args list = {count, args};
    return grpc_channel_create(target, how, &list);
}

lk_rc lk_grpc_channel_open(lk_grpc_channel **out, const lk_grpc_channel_options *options, lk_err *err)
{
    char                      host[LK_ADDRESS_HOST_SIZE];
    uint16_t                  port = 0;
    bool                      tls = false;
    grpc_channel_credentials *how = NULL;
    lk_grpc_channel          *channel = NULL;
    *out = NULL;
    lk_grpc_open();
    lk_rc rc = lk_endpoint_parse(options->endpoint, host, &port, &tls, err);
    if (rc == LK_OK) {
        rc = choose_credentials(options, tls, &how, err);
    }
    if (rc != LK_OK) {
        lk_grpc_close();
        return rc;
    }
    channel = zeroed(sizeof *channel);
    (void)snprintf(channel->target, sizeof channel->target, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u",
        host, (unsigned)port);
    if (options->token.size > 0) {
        lk_buf_append_text(&channel->authorization, "Bearer ");
        lk_buf_append_bytes(&channel->authorization, options->token);
    }
    channel->handle = create(channel->target, options, how);
    grpc_channel_credentials_release(how);
    *out = channel;
    return LK_OK;
}

void lk_grpc_channel_close(lk_grpc_channel *channel)
{
    if (channel == NULL) {
        return;
    }
    grpc_channel_destroy(channel->handle);
    lk_buf_deinit(&channel->authorization);
    free(channel);
    lk_grpc_close();
}

/* -- waiting -- */

/* Waits for the one outstanding operation; true when it went well. A cancel flag that is set cancels the call,
 * whose operation then ends. */
static bool wait_done(lk_grpc_rpc *rpc)
{
    lk_err ignored = {0};
    bool   told = false;
    for (;;) {
        gpr_timespec until = rpc->cancel == NULL || told
                                 ? gpr_inf_future(GPR_CLOCK_MONOTONIC)
                                 : gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                       gpr_time_from_millis(LK_GRPC_CANCEL_POLL_MS, GPR_TIMESPAN));
        grpc_event   event = grpc_completion_queue_pluck(rpc->queue, rpc, until, NULL);
        if (event.type == GRPC_OP_COMPLETE) {
            return event.success != 0;
        }
        if (lk_cancel_check(rpc->cancel, &ignored) != LK_OK) {
            (void)grpc_call_cancel(rpc->call, NULL);
            told = true;
        }
    }
}

static bool run(lk_grpc_rpc *rpc, const grpc_op *ops, size_t count)
{
    grpc_call_error error = grpc_call_start_batch(rpc->call, ops, count, rpc, NULL);
    LK_ASSERT(error == GRPC_CALL_OK);
    return wait_done(rpc);
}

/* -- receiving -- */

/* The reply's headers come before its first message. */
static bool receive_initial(lk_grpc_rpc *rpc)
{
    if (!rpc->started) {
        rpc->started = true;
        grpc_op op = lk_grpc_wire_op(GRPC_OP_RECV_INITIAL_METADATA);
        op.data.recv_initial_metadata.recv_initial_metadata = &rpc->initial;
        return run(rpc, &op, 1);
    }
    return true;
}

/* NULL at the end, however it ended. */
static grpc_byte_buffer *receive(lk_grpc_rpc *rpc)
{
    grpc_byte_buffer *buffer = NULL;
    grpc_op           op = lk_grpc_wire_op(GRPC_OP_RECV_MESSAGE);
    op.data.recv_message.recv_message = &buffer;
    if (receive_initial(rpc) && !run(rpc, &op, 1) && buffer != NULL) {
        grpc_byte_buffer_destroy(buffer);
        buffer = NULL;
    }
    return buffer;
}

/* -- how a call ends -- */

static void keep_outcome(lk_grpc_rpc *rpc, grpc_status_code code, const grpc_slice *text)
{
    lk_grpc_status status = {.code = (lk_code)code, .message = lk_grpc_wire_view(text)};
    bool           coded = lk_grpc_wire_find(&rpc->trailing, LK_GRPC_CODE_HEADER, &status.lake_code);
    rpc->over = true;
    if (code == GRPC_STATUS_OK) {
        return;
    }
    lk_err stopped = {0};
    rpc->rc = lk_cancel_check(rpc->cancel, &stopped); /* our own flag is the better explanation */
    if (rpc->rc != LK_OK && !coded) {
        rpc->outcome = stopped;
        rpc->outcome.maybe_applied = true;
        return;
    }
    rpc->rc = lk_grpc_status_to_err(&status, rpc->reached || coded || rpc->trailing.count > 0, &rpc->outcome);
}

/* The status lies behind the last message: whoever wants it early has to read those away. */
static void drop_messages(lk_grpc_rpc *rpc)
{
    grpc_byte_buffer *buffer;
    while ((buffer = receive(rpc)) != NULL) {
        grpc_byte_buffer_destroy(buffer);
    }
}

static lk_rc outcome(lk_grpc_rpc *rpc, lk_err *err)
{
    if (!rpc->over) {
        drop_messages(rpc);
        grpc_status_code code = GRPC_STATUS_UNKNOWN;
        grpc_slice       text = grpc_empty_slice();
        grpc_op          op = lk_grpc_wire_op(GRPC_OP_RECV_STATUS_ON_CLIENT);
        op.data.recv_status_on_client.status = &code;
        op.data.recv_status_on_client.status_details = &text;
        op.data.recv_status_on_client.trailing_metadata = &rpc->trailing;
        (void)run(rpc, &op, 1);
        keep_outcome(rpc, code, &text);
        grpc_slice_unref(text);
    }
    if (rpc->rc != LK_OK) {
        *err = rpc->outcome;
    }
    return rpc->rc;
}

/* Something failed under way: the status says why. A call that failed is never reported as well. */
static lk_rc outcome_of_failure(lk_grpc_rpc *rpc, lk_err *err)
{
    lk_rc rc = outcome(rpc, err);
    return rc != LK_OK ? rc : lk_fail(err, LK_E_INTERNAL, "operation failed on a call that ended well");
}

/* -- calls -- */

static grpc_metadata header(const char *name, lk_bytes value)
{
    return (grpc_metadata){.key = lk_grpc_wire_slice(lk_bytes_of(name)), .value = lk_grpc_wire_slice(value)};
}

/* Sends the headers; the call is on its way then, though perhaps to nobody. */
static bool begin(lk_grpc_rpc *rpc, const lk_grpc_channel *channel, const lk_grpc_rpc_options *options)
{
    grpc_metadata headers[HEADERS_MAX + 1];
    size_t        count = 0;
    LK_ASSERT(options->header_count <= HEADERS_MAX);
    for (size_t i = 0; i < options->header_count; i++) {
        headers[count++] = header(options->headers[i].name, options->headers[i].value);
    }
    if (channel->authorization.size > 0) {
        headers[count++] = header("authorization", lk_buf_view(&channel->authorization));
    }
    grpc_op op = lk_grpc_wire_op(GRPC_OP_SEND_INITIAL_METADATA);
    op.data.send_initial_metadata.count = count;
    op.data.send_initial_metadata.metadata = headers;
    grpc_call_error error = grpc_call_start_batch(rpc->call, &op, 1, rpc, NULL);
    if (error == GRPC_CALL_OK) {
        (void)wait_done(rpc);
    }
    for (size_t i = 0; i < count; i++) {
        grpc_slice_unref(headers[i].key);
        grpc_slice_unref(headers[i].value);
    }
    return error == GRPC_CALL_OK;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

lk_rc lk_grpc_rpc_open(lk_grpc_rpc **out, lk_grpc_channel *channel, const char *path,
    const lk_grpc_rpc_options *options, lk_err *err)
{
    static const lk_grpc_rpc_options none = {0};
    options = options == NULL ? &none : options;
    uint64_t deadline_ms =
        earlier(options->deadline_ms, options->cancel == NULL ? 0 : options->cancel->deadline_ms);
    lk_grpc_rpc *rpc = zeroed(sizeof *rpc);
    grpc_slice   method = grpc_slice_from_copied_string(path);
    *out = NULL;
    rpc->cancel = options->cancel;
    rpc->queue = grpc_completion_queue_create_for_pluck(NULL);
    grpc_metadata_array_init(&rpc->initial);
    grpc_metadata_array_init(&rpc->trailing);
    rpc->call = grpc_channel_create_call(channel->handle, NULL, GRPC_PROPAGATE_DEFAULTS, rpc->queue, method,
        NULL, lk_grpc_wire_time(deadline_ms), NULL);
    grpc_slice_unref(method);
    if (!begin(rpc, channel, options)) {
        lk_grpc_rpc_close(rpc);
        lk_rc rc = lk_fail(err, LK_E_INVALID_REQUEST, "a header of %s is not legal", path);
        lk_detail(err, "a header value or token holds characters that HTTP does not allow");
        return rc;
    }
    *out = rpc;
    return LK_OK;
}

void lk_grpc_rpc_close(lk_grpc_rpc *rpc)
{
    if (rpc == NULL) {
        return;
    }
    if (!rpc->over) {
        (void)grpc_call_cancel(rpc->call, NULL);
    }
    grpc_call_unref(rpc->call);
    grpc_completion_queue_shutdown(rpc->queue);
    while (grpc_completion_queue_pluck(rpc->queue, rpc, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
           GRPC_QUEUE_SHUTDOWN) {}
    grpc_completion_queue_destroy(rpc->queue);
    grpc_metadata_array_destroy(&rpc->initial);
    grpc_metadata_array_destroy(&rpc->trailing);
    free(rpc);
}

lk_rc lk_grpc_rpc_write(lk_grpc_rpc *rpc, const lk_grpc_out *message, lk_err *err)
{
    grpc_byte_buffer *buffer = lk_grpc_wire_out(message);
    grpc_op           op = lk_grpc_wire_op(GRPC_OP_SEND_MESSAGE);
    op.data.send_message.send_message = buffer;
    bool ok = !rpc->over && run(rpc, &op, 1);
    grpc_byte_buffer_destroy(buffer);
    return ok ? LK_OK : outcome_of_failure(rpc, err);
}

lk_rc lk_grpc_rpc_write_bytes(lk_grpc_rpc *rpc, lk_bytes message, lk_err *err)
{
    /* The write below waits until the transport has taken the message, but it may still hold the slices. */
    char       *copy = gpr_malloc(message.size + 1);
    lk_bytes    piece = {copy, message.size};
    lk_grpc_out out = {&piece, 1, gpr_free, copy};
    if (message.size > 0) {
        memcpy(copy, message.data, message.size);
    }
    return lk_grpc_rpc_write(rpc, &out, err);
}

lk_rc lk_grpc_rpc_writes_done(lk_grpc_rpc *rpc, lk_err *err)
{
    grpc_op op = lk_grpc_wire_op(GRPC_OP_SEND_CLOSE_FROM_CLIENT);
    return !rpc->over && run(rpc, &op, 1) ? LK_OK : outcome_of_failure(rpc, err);
}

lk_rc lk_grpc_rpc_read(lk_grpc_rpc *rpc, lk_grpc_message *out, bool *found, lk_err *err)
{
    *out = (lk_grpc_message){0};
    *found = false;
    grpc_byte_buffer *buffer = rpc->over ? NULL : receive(rpc);
    if (buffer == NULL) {
        return outcome(rpc, err);
    }
    rpc->reached = true;
    lk_grpc_wire_in(buffer, out);
    *found = true;
    return LK_OK;
}

lk_rc lk_grpc_rpc_finish(lk_grpc_rpc *rpc, lk_err *err)
{
    bool  found = true;
    lk_rc rc = LK_OK;
    while (rc == LK_OK && found && !rpc->over) {
        lk_grpc_message message;
        rc = lk_grpc_rpc_read(rpc, &message, &found, err);
        lk_grpc_message_release(&message);
    }
    return rc == LK_OK ? outcome(rpc, err) : rc;
}

bool lk_grpc_rpc_metadata(const lk_grpc_rpc *rpc, const char *name, lk_bytes *value)
{
    return lk_grpc_wire_find(&rpc->initial, name, value) || lk_grpc_wire_find(&rpc->trailing, name, value);
}

static lk_rc exchange(lk_grpc_rpc *rpc, lk_bytes request, lk_arena *arena, lk_bytes *reply, lk_err *err)
{
    lk_grpc_message message = {0};
    bool            found = false;
    lk_rc           rc = lk_grpc_rpc_write_bytes(rpc, request, err);
    if (rc == LK_OK) {
        rc = lk_grpc_rpc_writes_done(rpc, err);
    }
    if (rc == LK_OK) {
        rc = lk_grpc_rpc_read(rpc, &message, &found, err);
    }
    if (rc == LK_OK && found) {
        *reply = lk_arena_copy(arena, lk_grpc_message_bytes(&message, arena));
    }
    lk_grpc_message_release(&message);
    if (rc == LK_OK) {
        rc = lk_grpc_rpc_finish(rpc, err);
    }
    return rc != LK_OK || found ? rc : lk_fail(err, LK_E_INTERNAL, "a reply without a message");
}

lk_rc lk_grpc_unary(lk_grpc_channel *channel, const char *path, const lk_grpc_rpc_options *options,
    lk_bytes request, lk_arena *arena, lk_bytes *reply, lk_err *err)
{
    lk_grpc_rpc *rpc = NULL;
    lk_rc        rc = lk_grpc_rpc_open(&rpc, channel, path, options, err);
    if (rc == LK_OK) {
        LK_ASSERT(rpc != NULL);
        rc = exchange(rpc, request, arena, reply, err);
    }
    if (rc != LK_OK) {
        lk_context(err, "call %s at %s", path, channel->target);
    }
    lk_grpc_rpc_close(rpc);
    return rc;
}
