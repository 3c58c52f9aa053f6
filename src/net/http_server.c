/* http_server.c - see http_server.h: the listener, the loops and going down in order. */
#include "base/clock.h"
#include "net/address.h"
#include "net/http_server_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>

enum {
    EVENTS_MAX = 128,
    TICK_MS = 250,
    LISTEN_BACKLOG = 1024,
    LOOPS_MAX = 8,
    WORKERS = 64,
    BACKLOG = 1024,
    CONNECTIONS = 16384,
    HEAD_MS = 30000,
    IDLE_MS = 75000,
    BODY_IDLE_MS = 120000,
    WRITE_IDLE_MS = 60000
};

/* -- TLS ------------------------------------------------------------------------------------------------------------- */

static bool use_chain(SSL_CTX *context, BIO *pem)
{
    X509 *certificate = PEM_read_bio_X509(pem, NULL, NULL, NULL);
    bool  used = certificate != NULL && SSL_CTX_use_certificate(context, certificate) == 1;
    X509_free(certificate);
    while (used) {
        X509 *issuer = PEM_read_bio_X509(pem, NULL, NULL, NULL);
        if (issuer == NULL || SSL_CTX_add0_chain_cert(context, issuer) != 1) {
            X509_free(issuer);
            break;
        }
    }
    ERR_clear_error();
    return used;
}

static lk_rc open_tls(const lk_tls_identity *identity, SSL_CTX **out, lk_err *err)
{
    if (identity == NULL || !lk_tls_identity_present(identity)) {
        return LK_OK;
    }
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    BIO     *chain = BIO_new_mem_buf(identity->certificate_chain.data, (int)identity->certificate_chain.size);
    BIO     *key_pem = BIO_new_mem_buf(identity->private_key.data, (int)identity->private_key.size);
    EVP_PKEY *key = key_pem == NULL ? NULL : PEM_read_bio_PrivateKey(key_pem, NULL, NULL, NULL);
    bool      good = context != NULL && chain != NULL && key != NULL && use_chain(context, chain) &&
                SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1 &&
                SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1;
    EVP_PKEY_free(key);
    BIO_free(key_pem);
    BIO_free(chain);
    if (!good) {
        SSL_CTX_free(context);
        return lk_fail(err, LK_E_INVALID_CONFIG, "the TLS identity cannot be used");
    }
    *out = context;
    return LK_OK;
}

/* -- listening ------------------------------------------------------------------------------------------------------- */

static lk_rc listen_at(lk_http_server *server, const lk_address *address, lk_err *err)
{
    char             port[8];
    struct addrinfo  hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int              on = 1;
    (void)snprintf(port, sizeof port, "%u", (unsigned)address->port);
    if (getaddrinfo(address->host, port, &hints, &found) != 0) {
        return lk_fail(err, LK_E_INVALID_CONFIG, "no address: %s", address->host);
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int failed = fd < 0 ? errno : 0;
    if (failed == 0 &&
        (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
            bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, LISTEN_BACKLOG) != 0)) {
        failed = errno;
        close(fd);
    }
    freeaddrinfo(found);
    if (failed != 0) {
        return lk_refuse(err,
            failed == EADDRINUSE                          ? LK_E_ADDRESS_IN_USE
            : failed == EACCES || failed == EADDRNOTAVAIL ? LK_E_INVALID_CONFIG
                                                          : LK_E_IO,
            "%s: %s", server->options.address, strerrordesc_np(failed));
    }
    server->listen_fd = fd;
    return LK_OK;
}

static void note_address(lk_http_server *server, const lk_address *address)
{
    union {
        struct sockaddr     any;
        struct sockaddr_in  v4;
        struct sockaddr_in6 v6;
    } bound = {0};
    socklen_t size = sizeof bound;
    LK_ASSERT(getsockname(server->listen_fd, &bound.any, &size) == 0);
    lk_address_format(address, ntohs(address->v6 ? bound.v6.sin6_port : bound.v4.sin_port), server->address);
}

/* -- loops ----------------------------------------------------------------------------------------------------------- */

static void accept_some(http_loop *loop)
{
    lk_http_server *server = loop->server;
    for (int i = 0; i < 16; i++) { /* the other loops take the rest */
        int fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        if (atomic_fetch_add(&server->connections, 1) >= server->options.connections_max) {
            atomic_fetch_sub(&server->connections, 1);
            close(fd);
            continue;
        }
        (void)lk_http_connection_open(loop, fd);
    }
}

static void move_ready(http_loop *loop)
{
    uint64_t count;
    (void)!read(loop->wake_fd, &count, sizeof count);
    for (;;) {
        lk_mutex_lock(&loop->mutex);
        http_connection *c = loop->ready;
        if (c != NULL) {
            loop->ready = c->next_ready;
            c->waking = false;
        }
        lk_mutex_unlock(&loop->mutex);
        if (c == NULL) {
            return;
        }
        (void)lk_http_connection_move(c, 0, true);
    }
}

static void tick(http_loop *loop, uint64_t now_ms)
{
    http_connection *next;
    for (http_connection *c = loop->connections; c != NULL; c = next) {
        next = c->next;
        (void)lk_http_connection_tick(c, now_ms);
    }
}

/* Going down: what has no handler is closed, what has one is told; it ends the exchange and wakes us. */
static void stop_connections(http_loop *loop)
{
    http_connection *next;
    for (http_connection *c = loop->connections; c != NULL; c = next) {
        next = c->next;
        (void)lk_http_connection_move(c, EPOLLHUP, false);
    }
}

static void one_event(http_loop *loop, const struct epoll_event *event)
{
    if (event->data.ptr == loop->server) {
        if (!atomic_load(&loop->server->draining)) {
            accept_some(loop);
        }
    } else if (event->data.ptr != loop) { /* a wake is looked at after every wait */
        (void)lk_http_connection_move(event->data.ptr, event->events, false);
    }
}

static void run_loop(void *context)
{
    http_loop         *loop = context;
    lk_http_server    *server = loop->server;
    struct epoll_event events[EVENTS_MAX];
    uint64_t           next_tick = 0;
    bool               listening = true;
    while (!atomic_load(&server->stopping) || loop->connections != NULL) {
        int count = epoll_wait(loop->epoll_fd, events, EVENTS_MAX, TICK_MS);
        for (int i = 0; i < count; i++) {
            one_event(loop, &events[i]);
        }
        move_ready(loop);
        if (listening && atomic_load(&server->draining)) {
            listening = false;
            (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, server->listen_fd, NULL);
        }
        if (atomic_load(&server->stopping)) {
            stop_connections(loop);
        }
        uint64_t now_ms = lk_http_now_ms();
        if (now_ms >= next_tick) {
            next_tick = now_ms + TICK_MS;
            tick(loop, now_ms);
        }
    }
}

static lk_rc open_loop(lk_http_server *server, http_loop *loop, lk_err *err)
{
    loop->server = server;
    lk_mutex_init(&loop->mutex, LK_RANK_ADMISSION);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event wake = {.events = EPOLLIN, .data.ptr = loop};
    struct epoll_event listener = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = server};
    if (loop->epoll_fd < 0 || loop->wake_fd < 0 ||
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &wake) != 0 ||
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, server->listen_fd, &listener) != 0) {
        return lk_fail(err, LK_E_IO, "an event loop: %s", strerrordesc_np(errno));
    }
    return lk_thread_start(&loop->thread, "http", run_loop, loop, err);
}

static void wake_loops(lk_http_server *server)
{
    uint64_t one = 1;
    for (size_t i = 0; i < server->loop_count; i++) {
        (void)!write(server->loops[i].wake_fd, &one, sizeof one);
    }
}

/* -- life ------------------------------------------------------------------------------------------------------------ */

static void set_defaults(lk_http_options *o)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    o->loop_count = o->loop_count > 0 ? o->loop_count : processors > 0 ? (size_t)processors : 1;
    o->loop_count = o->loop_count > LOOPS_MAX ? LOOPS_MAX : o->loop_count;
    o->worker_count = o->worker_count > 0 ? o->worker_count : WORKERS;
    o->backlog_max = o->backlog_max > 0 ? o->backlog_max : BACKLOG;
    o->connections_max = o->connections_max > 0 ? o->connections_max : CONNECTIONS;
    o->head_ms = o->head_ms > 0 ? o->head_ms : HEAD_MS;
    o->idle_ms = o->idle_ms > 0 ? o->idle_ms : IDLE_MS;
}

void lk_http_server_set_limits(lk_http_server *server, const lk_http_limits *limits)
{
    atomic_store(
        &server->body_bytes_max, limits->body_bytes_max > 0 ? limits->body_bytes_max : UINT64_C(2) << 30);
    atomic_store(&server->body_idle_ms, limits->body_idle_ms > 0 ? limits->body_idle_ms : BODY_IDLE_MS);
    atomic_store(&server->write_idle_ms, limits->write_idle_ms > 0 ? limits->write_idle_ms : WRITE_IDLE_MS);
}

lk_rc lk_http_server_set_tls(lk_http_server *server, const lk_tls_identity *identity, lk_err *err)
{
    SSL_CTX *fresh = NULL;
    lk_rc    rc = open_tls(identity, &fresh, err);
    if (rc == LK_OK && (fresh == NULL || !server->has_tls)) {
        rc = lk_fail(err, LK_E_INVALID_CONFIG, "a listener is with TLS or without for as long as it listens");
    }
    if (rc == LK_OK) {
        lk_mutex_lock(&server->tls_mutex);
        SSL_CTX *old = server->tls;
        server->tls = fresh;
        lk_mutex_unlock(&server->tls_mutex);
        fresh = old; /* connections that have it keep it */
    }
    SSL_CTX_free(fresh);
    return rc;
}

uint64_t lk_http_server_queued_bytes(const lk_http_server *server)
{
    return atomic_load(&server->queued_bytes);
}

static lk_rc start(lk_http_server *server, lk_err *err)
{
    lk_address address;
    lk_rc      rc = lk_address_parse(server->options.address, &address, err);
    if (rc == LK_OK) {
        rc = open_tls(server->options.tls, &server->tls, err);
        server->has_tls = server->tls != NULL;
    }
    if (rc == LK_OK) {
        rc = listen_at(server, &address, err);
    }
    if (rc == LK_OK) {
        note_address(server, &address);
        rc = lk_pool_open(
            &server->workers, "http-run", server->options.worker_count, server->options.backlog_max, err);
    }
    if (rc == LK_OK) {
        rc = lk_pool_open(
            &server->takers, "http-take", server->options.worker_count, server->options.backlog_max, err);
    }
    for (size_t i = 0; rc == LK_OK && i < server->options.loop_count; i++) {
        server->loop_count++;
        rc = open_loop(server, &server->loops[i], err);
    }
    return rc;
}

lk_rc lk_http_server_open(lk_http_server **out, const lk_http_options *options, lk_err *err)
{
    lk_http_server *server = calloc(1, sizeof *server);
    LK_ASSERT(server != NULL);
    server->options = *options;
    server->listen_fd = -1;
    set_defaults(&server->options);
    lk_http_server_set_limits(server, &options->limits);
    lk_mutex_init(&server->tls_mutex, LK_RANK_LEAF);
    server->loops = calloc(server->options.loop_count, sizeof *server->loops);
    LK_ASSERT(server->loops != NULL);
    *out = server; /* whom handlers ask: the first may run before this returns */
    lk_rc rc = start(server, err);
    if (rc != LK_OK) {
        lk_http_server_close(server);
        *out = NULL;
    }
    return rc;
}

const char *lk_http_server_address(const lk_http_server *server)
{
    return server->address;
}

lk_rc lk_http_server_drain(lk_http_server *server, uint64_t deadline_ms, lk_err *err)
{
    atomic_store(&server->draining, true);
    wake_loops(server);
    while (atomic_load(&server->running) > 0 || atomic_load(&server->connections) > 0) {
        if (lk_http_now_ms() >= deadline_ms) {
            return atomic_load(&server->running) == 0
                       ? LK_OK
                       : lk_fail(err, LK_E_DEADLINE, "%zu requests still ran", atomic_load(&server->running));
        }
        lk_clock_sleep_ms(lk_clock_real(), 5);
    }
    return LK_OK;
}

void lk_http_server_close(lk_http_server *server)
{
    if (server == NULL) {
        return;
    }
    atomic_store(&server->draining, true);
    atomic_store(&server->stopping, true);
    wake_loops(server);
    for (size_t i = 0; i < server->loop_count; i++) {
        http_loop *loop = &server->loops[i];
        lk_thread_join(&loop->thread);
        if (loop->epoll_fd >= 0) {
            close(loop->epoll_fd);
        }
        if (loop->wake_fd >= 0) {
            close(loop->wake_fd);
        }
        lk_mutex_deinit(&loop->mutex);
    }
    lk_pool_close(server->workers);
    lk_pool_close(server->takers);
    if (server->listen_fd >= 0) {
        close(server->listen_fd);
    }
    SSL_CTX_free(server->tls);
    lk_mutex_deinit(&server->tls_mutex);
    free(server->loops);
    free(server);
}
