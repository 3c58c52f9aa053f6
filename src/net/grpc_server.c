/*
 * grpc_server.c - the listener, its completion-queue threads, the worker pool, and going down in order.
 *
 * Invariants: see grpc_server.h. Every call that exists is counted in `alive`; queues are shut down only when
 * none is left, so no event can come after its queue.
 *
 * Threads: one per completion queue (they run *_done of grpc_call.c), the workers, and whoever drains.
 */
#include "net/grpc_server.h"

#include "base/clock.h"
#include "base/crypt.h"
#include "base/limits.h"
#include "net/address.h"
#include "net/grpc_call_priv.h"

#include <grpc/compression.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <stdlib.h>

enum {
    QUEUES_DEFAULT = 2,
    QUEUES_MAX = 64,
    REQUESTED_PER_QUEUE = 8,
    QUICK_WORKERS = 2,
    CANCELLED_WAIT_MS = 1000
};

struct lk_grpc_server {
    lk_grpc_server_options options;
    char                   address[LK_ADDRESS_TEXT_SIZE];
    grpc_server           *handle;
    grpc_completion_queue *queues[QUEUES_MAX];
    lk_thread              threads[QUEUES_MAX];
    size_t                 queue_count, thread_count;
    lk_pool               *workers, *quick_workers;
    lk_grpc_event          stopped_event;
    atomic_bool            draining;

    lk_mutex mutex;
    lk_cond  changed;
    size_t   alive;   /* guarded: calls, those merely asked for included */
    bool     stopped; /* guarded: the library says that every connection is gone */

    lk_mutex tls_mutex;
    lk_buf   certificate, key; /* guarded by tls_mutex, as is the following */
    bool     is_fresh;         /* they were not given to the library yet */
};

/* -- for grpc_call.c -- */

grpc_server *lk_grpc_server_handle(lk_grpc_server *server)
{
    return server->handle;
}

const lk_grpc_method *lk_grpc_server_method(const lk_grpc_server *server, lk_bytes path)
{
    for (size_t i = 0; i < server->options.method_count; i++) {
        if (lk_bytes_equal(lk_bytes_of(server->options.methods[i].path), path)) {
            return &server->options.methods[i];
        }
    }
    return NULL;
}

size_t lk_grpc_server_request_max(const lk_grpc_server *server, const lk_grpc_method *method)
{
    return method->request_bytes_max != 0 ? method->request_bytes_max : server->options.message_bytes_max;
}

void lk_grpc_server_translate(
    const lk_grpc_server *server, const lk_err *err, lk_arena *arena, lk_grpc_status *out)
{
    if (server->options.translate != NULL) {
        server->options.translate(err, arena, out);
        return;
    }
    char message[LK_ERR_DETAIL_BYTES * 2];
    *out = (lk_grpc_status){.code = lk_rc_code(err->rc)};
    out->message = lk_arena_copy(arena, lk_bytes_of(lk_err_message(err, message, sizeof message)));
}

void lk_grpc_server_count(lk_grpc_server *server, int change)
{
    lk_mutex_lock(&server->mutex);
    server->alive = change > 0 ? server->alive + 1 : server->alive - 1;
    lk_cond_broadcast(&server->changed);
    lk_mutex_unlock(&server->mutex);
}

/* -- running a call -- */

lk_rc lk_grpc_server_admit(lk_grpc_server *server, lk_grpc_call *call, lk_err *err)
{
    const lk_grpc_server_options *options = &server->options;
    lk_rc rc = options->admit == NULL ? LK_OK : options->admit(call, options->context, err);
    if (rc == LK_OK && call->method == NULL) {
        rc = lk_fail(err, LK_E_UNIMPLEMENTED, "no method %.*s", LK_FMT(lk_grpc_call_path(call)));
    }
    return rc;
}

static lk_rc serve(lk_grpc_call *call, lk_err *err)
{
    lk_rc rc = lk_cancel_check(&call->cancel, err);
    return rc == LK_OK ? call->method->run(call, call->method->context, err) : rc;
}

static void run_call(void *context)
{
    lk_grpc_call                 *call = context;
    const lk_grpc_server_options *options = &call->server->options;
    lk_err                        err = {0}, flush_err = {0};
    lk_rc                         rc = serve(call, &err);
    lk_rc                         flushed = lk_grpc_call_flush(call, rc == LK_OK ? &err : &flush_err);
    rc = rc == LK_OK ? flushed : rc;
    if (options->observe != NULL) {
        options->observe(call, options->context, rc, &err);
    }
    lk_grpc_call_finish(call, rc, &err);
}

void lk_grpc_server_enqueue(lk_grpc_server *server, lk_grpc_call *call)
{
    lk_err err = {0};
    lk_rc  rc =
        lk_pool_submit(call->method->quick ? server->quick_workers : server->workers, run_call, call, &err);
    if (rc != LK_OK) {
        lk_detail(&err, "the server has too many calls waiting; try again");
        lk_grpc_call_finish(call, rc, &err);
    }
}

/* -- completion queues -- */

static void stopped_done(lk_grpc_server *server)
{
    lk_mutex_lock(&server->mutex);
    server->stopped = true;
    lk_cond_broadcast(&server->changed);
    lk_mutex_unlock(&server->mutex);
}

typedef struct pump_args {
    lk_grpc_server        *server;
    grpc_completion_queue *queue;
} pump_args;

static void pump(void *context)
{
    pump_args args = *(pump_args *)context;
    free(context);
    for (;;) {
        grpc_event event = grpc_completion_queue_next(args.queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN) {
            return;
        }
        lk_grpc_event *ours = event.tag;
        lk_grpc_event_disarm(ours);
        if (ours == &args.server->stopped_event) {
            stopped_done(args.server);
        } else {
            ours->done(ours->call, event.success != 0);
        }
    }
}

static lk_rc start_pumps(lk_grpc_server *server, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < server->queue_count; i++) {
        pump_args *args = malloc(sizeof *args);
        LK_ASSERT(args != NULL);
        *args = (pump_args){server, server->queues[i]};
        rc = lk_thread_start(&server->threads[i], "lk-grpc", pump, args, err);
        if (rc != LK_OK) {
            free(args);
            break;
        }
        server->thread_count++;
        for (int k = 0; k < REQUESTED_PER_QUEUE; k++) {
            lk_grpc_call_request_next(server, server->queues[i]);
        }
    }
    return rc;
}

/* -- opening -- */

static grpc_arg integer(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = value};
}

/* The library has one limit for all methods; each method's own is checked when it reads. */
static size_t largest_request(const lk_grpc_server *server)
{
    size_t largest = 0;
    for (size_t i = 0; i < server->options.method_count; i++) {
        size_t max = lk_grpc_server_request_max(server, &server->options.methods[i]);
        largest = max > largest ? max : largest;
    }
    return largest;
}

static void create_handle(lk_grpc_server *server)
{
    size_t               message_max = largest_request(server);
    grpc_resource_quota *quota = grpc_resource_quota_create("lake");
    grpc_resource_quota_resize(quota, LK_GRPC_MEMORY_BYTES_MAX);
    grpc_arg args[] = {
        {.type = GRPC_ARG_POINTER,
            .key = (char *)(uintptr_t)GRPC_ARG_RESOURCE_QUOTA,
            .value.pointer = {quota, grpc_resource_quota_arg_vtable()}},
        integer(GRPC_ARG_ALLOW_REUSEPORT, 0),
        integer(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)message_max),
        integer(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
        integer(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE),
        integer(GRPC_ARG_MAX_CONCURRENT_STREAMS, LK_GRPC_STREAMS_MAX),
        integer(GRPC_ARG_MAX_METADATA_SIZE, LK_GRPC_HEADERS_BYTES_MAX),
        integer(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, LK_GRPC_HANDSHAKE_TIMEOUT_MS),
        integer(GRPC_ARG_KEEPALIVE_TIME_MS, LK_GRPC_KEEPALIVE_MS),
        integer(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, LK_GRPC_KEEPALIVE_TIMEOUT_MS),
        integer(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        integer(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, LK_GRPC_KEEPALIVE_MS / 6),
    };
    grpc_channel_args list = {sizeof args / sizeof *args, args};
    server->handle = grpc_server_create(&list, NULL);
    grpc_resource_quota_unref(quota);
    for (size_t i = 0; i < server->queue_count; i++) {
        server->queues[i] = grpc_completion_queue_create_for_next(NULL);
        grpc_server_register_completion_queue(server->handle, server->queues[i], NULL);
    }
}

/* Asked by the library before every handshake. */
static grpc_ssl_certificate_config_reload_status fetch_identity(
    void *context, grpc_ssl_server_certificate_config **config)
{
    lk_grpc_server                           *server = context;
    grpc_ssl_certificate_config_reload_status status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    lk_mutex_lock(&server->tls_mutex);
    if (server->is_fresh) {
        grpc_ssl_pem_key_cert_pair pair = {server->key.data, server->certificate.data};
        /* The first are roots for clients' certificates. None are asked for, but the library wants some. */
        *config = grpc_ssl_server_certificate_config_create(pair.cert_chain, &pair, 1);
        server->is_fresh = false;
        status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
    }
    lk_mutex_unlock(&server->tls_mutex);
    return status;
}

static void keep_identity(lk_grpc_server *server, const lk_tls_identity *identity)
{
    lk_mutex_lock(&server->tls_mutex);
    lk_wipe(server->key.data, server->key.size);
    lk_buf_clear(&server->key);
    lk_buf_clear(&server->certificate);
    lk_buf_append_bytes(&server->key, lk_buf_view(&identity->private_key));
    lk_buf_append_bytes(&server->certificate, lk_buf_view(&identity->certificate_chain));
    server->is_fresh = true;
    lk_mutex_unlock(&server->tls_mutex);
}

lk_rc lk_grpc_server_set_tls(lk_grpc_server *server, const lk_tls_identity *identity, lk_err *err)
{
    if (server->key.size == 0 || !lk_tls_identity_present(identity)) {
        return lk_fail(
            err, LK_E_INVALID_CONFIG, "a listener is with TLS or without for as long as it listens");
    }
    keep_identity(server, identity);
    return LK_OK;
}

static grpc_server_credentials *credentials(lk_grpc_server *server)
{
    if (!lk_tls_identity_present(server->options.tls)) {
        return grpc_insecure_server_credentials_create();
    }
    keep_identity(server, server->options.tls);
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE, fetch_identity, server));
}

static lk_rc listen_on(lk_grpc_server *server, lk_err *err)
{
    lk_address address;
    lk_rc      rc = lk_address_parse(server->options.address, &address, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_address_format(&address, address.port, server->address);
    grpc_server_credentials *how = credentials(server);
    int                      port = grpc_server_add_http2_port(server->handle, server->address, how);
    grpc_server_credentials_release(how);
    if (port == 0) {
        rc = lk_address_probe(&address, err);
        rc = rc == LK_OK ? lk_fail(err, LK_E_IO, "listen failed, and then it could be bound") : rc;
        lk_context(err, "listen on %s", server->address);
        return rc;
    }
    lk_address_format(&address, (uint16_t)port, server->address);
    return LK_OK;
}

static void take_options(lk_grpc_server *server, const lk_grpc_server_options *options)
{
    lk_grpc_server_options *o = &server->options;
    *o = *options;
    o->worker_count = o->worker_count == 0 ? LK_GRPC_WORKERS : o->worker_count;
    o->backlog_max = o->backlog_max == 0 ? LK_GRPC_BACKLOG_MAX : o->backlog_max;
    o->message_bytes_max = o->message_bytes_max == 0 ? LK_GRPC_MESSAGE_BYTES_MAX : o->message_bytes_max;
    server->queue_count = o->queue_count == 0 ? QUEUES_DEFAULT : o->queue_count;
    server->queue_count = server->queue_count > QUEUES_MAX ? QUEUES_MAX : server->queue_count;
}

lk_rc lk_grpc_server_open(lk_grpc_server **out, const lk_grpc_server_options *options, lk_err *err)
{
    lk_grpc_server *server = calloc(1, sizeof *server);
    LK_ASSERT(server != NULL);
    *out = NULL;
    lk_grpc_open();
    take_options(server, options);
    lk_mutex_init(&server->tls_mutex, LK_RANK_LEAF);
    lk_mutex_init(&server->mutex, LK_RANK_LEAF);
    lk_cond_init(&server->changed);
    atomic_init(&server->draining, false);
    create_handle(server);
    lk_rc rc = listen_on(server, err);
    if (rc == LK_OK) {
        rc = lk_pool_open(
            &server->workers, "lk-call", server->options.worker_count, server->options.backlog_max, err);
    }
    if (rc == LK_OK) {
        rc =
            lk_pool_open(&server->quick_workers, "lk-quick", QUICK_WORKERS, server->options.backlog_max, err);
    }
    grpc_server_start(server->handle);
    rc = rc == LK_OK ? start_pumps(server, err) : rc;
    if (rc != LK_OK) {
        lk_grpc_server_close(server);
        return rc;
    }
    *out = server;
    return LK_OK;
}

const char *lk_grpc_server_address(const lk_grpc_server *server)
{
    return server->address;
}

lk_rc lk_grpc_address_is_loopback(const char *address, bool *loopback, lk_err *err)
{
    lk_address parsed;
    lk_rc      rc = lk_address_parse(address, &parsed, err);
    *loopback = rc == LK_OK && parsed.loopback;
    return rc;
}

/* -- going down -- */

static void begin_stop(lk_grpc_server *server)
{
    if (!atomic_exchange(&server->draining, true)) {
        lk_grpc_event_arm(&server->stopped_event);
        grpc_server_shutdown_and_notify(server->handle, server->queues[0], &server->stopped_event);
    }
}

static bool wait_stopped(lk_grpc_server *server, uint64_t deadline_ms)
{
    lk_mutex_lock(&server->mutex);
    while (!server->stopped && (deadline_ms == 0 || lk_clock_monotonic_ms(lk_clock_real()) < deadline_ms)) {
        if (deadline_ms == 0) {
            lk_cond_wait(&server->changed, &server->mutex);
        } else {
            (void)lk_cond_wait_until(&server->changed, &server->mutex, deadline_ms);
        }
    }
    bool stopped = server->stopped;
    lk_mutex_unlock(&server->mutex);
    return stopped;
}

lk_rc lk_grpc_server_drain(lk_grpc_server *server, uint64_t deadline_ms, lk_err *err)
{
    begin_stop(server);
    if (wait_stopped(server, deadline_ms)) {
        return LK_OK;
    }
    grpc_server_cancel_all_calls(server->handle);
    (void)wait_stopped(server, lk_clock_monotonic_ms(lk_clock_real()) + CANCELLED_WAIT_MS);
    return lk_fail(err, LK_E_DEADLINE, "calls were still running when the drain time was over");
}

bool lk_grpc_server_draining(const lk_grpc_server *server)
{
    return atomic_load(&server->draining);
}

static void wait_for_calls(lk_grpc_server *server)
{
    lk_mutex_lock(&server->mutex);
    while (server->alive > 0) {
        lk_cond_wait(&server->changed, &server->mutex);
    }
    lk_mutex_unlock(&server->mutex);
}

/* Without its pumps a server that failed to open has nobody to hear the queues: we do. */
static void drain_queue(lk_grpc_server *server, grpc_completion_queue *queue)
{
    pump_args *args = malloc(sizeof *args);
    LK_ASSERT(args != NULL);
    *args = (pump_args){server, queue};
    pump(args);
}

void lk_grpc_server_close(lk_grpc_server *server)
{
    if (server == NULL) {
        return;
    }
    begin_stop(server);
    grpc_server_cancel_all_calls(server->handle);
    if (server->thread_count > 0) {
        (void)wait_stopped(server, 0);
    }
    lk_pool_close(server->workers);
    lk_pool_close(server->quick_workers);
    if (server->thread_count == server->queue_count) {
        wait_for_calls(server);
    }
    for (size_t i = 0; i < server->queue_count; i++) {
        grpc_completion_queue_shutdown(server->queues[i]);
        if (i < server->thread_count) {
            lk_thread_join(&server->threads[i]);
        } else {
            drain_queue(server, server->queues[i]);
        }
    }
    grpc_server_destroy(server->handle);
    for (size_t i = 0; i < server->queue_count; i++) {
        grpc_completion_queue_destroy(server->queues[i]);
    }
    lk_cond_deinit(&server->changed);
    lk_mutex_deinit(&server->mutex);
    lk_mutex_deinit(&server->tls_mutex);
    lk_wipe(server->key.data, server->key.size);
    lk_buf_deinit(&server->key);
    lk_buf_deinit(&server->certificate);
    free(server);
    lk_grpc_close();
}
