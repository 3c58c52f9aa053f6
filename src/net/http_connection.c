/*
 * http_connection.c - one connection's bytes: TLS, requests out of them, answers into them. Everything here runs on the
 * connection's loop (http_server_priv.h).
 */
#include "net/http_server_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <openssl/err.h>

enum {
    READ_SIZE = 64 * 1024,
    BODY_READ_SIZE = 1024 * 1024, /* at once, straight into a body */
    GATHER_MAX = 64,
    LINGER_MS = 2000
};

typedef enum moved { MOVED, WOULD_BLOCK, BROKEN } moved;

/* -- the socket ------------------------------------------------------------------------------------------------------ */

static void watch(http_connection *c, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLRDHUP, .data.ptr = c};
    if (c->events != events && c->fd >= 0) {
        c->events = events;
        LK_ASSERT(epoll_ctl(c->loop->epoll_fd, EPOLL_CTL_MOD, c->fd, &event) == 0);
    }
}

static moved tls_outcome(http_connection *c, int result)
{
    int why = SSL_get_error(c->ssl, result);
    ERR_clear_error();
    c->wants_write = why == SSL_ERROR_WANT_WRITE;
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? WOULD_BLOCK : BROKEN;
}

/* *count 0 with MOVED: the peer has sent its last. */
static moved receive(http_connection *c, void *out, size_t size, size_t *count)
{
    *count = 0;
    if (c->ssl != NULL) {
        int result = SSL_read_ex(c->ssl, out, size, count);
        if (result > 0 || SSL_get_error(c->ssl, result) == SSL_ERROR_ZERO_RETURN) {
            return MOVED;
        }
        return tls_outcome(c, result);
    }
    ssize_t got = recv(c->fd, out, size, 0);
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR ? WOULD_BLOCK : BROKEN;
    }
    *count = (size_t)got;
    return MOVED;
}

static moved transmit(http_connection *c, const struct iovec *pieces, int piece_count, size_t *count)
{
    *count = 0;
    if (c->ssl != NULL) {
        int result = SSL_write_ex(c->ssl, pieces[0].iov_base, pieces[0].iov_len, count);
        return result > 0 ? MOVED : tls_outcome(c, result);
    }
    struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)piece_count};
    ssize_t       sent = sendmsg(c->fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
        return errno == EAGAIN || errno == EINTR ? WOULD_BLOCK : BROKEN;
    }
    *count = (size_t)sent;
    return MOVED;
}

/* -- what is to be sent ---------------------------------------------------------------------------------------------- */

/* Takes what is queued off the queue; to be freed when the connection's mutex, which is held, is not any more. */
static http_piece *drop_pieces(http_connection *c)
{
    http_piece *dropped = c->first;
    c->first = c->last = NULL;
    atomic_fetch_sub(&c->loop->server->queued_bytes, c->queued_bytes);
    c->queued_bytes = c->lent_bytes = 0;
    return dropped;
}

/* The same with the pieces that are out, `count` bytes further. */
static http_piece *sent(http_connection *c, size_t count)
{
    http_piece *done = NULL, **next = &done;
    size_t      own = 0;
    while (count > 0) {
        http_piece *piece = c->first;
        size_t      left = piece->bytes.size - piece->sent, taken = count < left ? count : left;
        piece->sent += taken;
        c->lent_bytes -= lk_http_is_lent(piece) ? taken : 0;
        own += lk_http_is_lent(piece) ? 0 : taken;
        count -= taken;
        if (taken == left) {
            c->first = piece->next;
            c->last = c->first == NULL ? NULL : c->last;
            piece->next = NULL;
            *next = piece;
            next = &piece->next;
        }
    }
    c->queued_bytes -= own;
    atomic_fetch_sub(&c->loop->server->queued_bytes, own);
    return done;
}

static int gather(const http_connection *c, struct iovec pieces[GATHER_MAX])
{
    int count = 0;
    for (http_piece *piece = c->first; piece != NULL && count < GATHER_MAX; piece = piece->next) {
        pieces[count++] =
            (struct iovec){(char *)piece->bytes.data + piece->sent, piece->bytes.size - piece->sent};
    }
    return count;
}

static void run_on(void *context)
{
    http_connection *c = context;
    lk_mutex_lock(&c->mutex); /* whoever gave us the turn lets go of it when resume is set */
    lk_http_go_on resume = c->resume;
    lk_mutex_unlock(&c->mutex);
    resume(&c->exchange, c->go_on_context);
}

/* Gives an answer that waits for room to a worker once there is some: half of what may be queued, so that it is worth a
 * turn. When no worker can be had it waits on: the next tick asks again. */
static void let_go_on(http_connection *c)
{
    lk_err err = {0};
    lk_mutex_lock(&c->mutex);
    bool due = c->go_on != NULL && (c->gone || lk_http_has_room(c, 2));
    if (due && lk_pool_submit(c->loop->server->workers, run_on, c, &err) == LK_OK) {
        c->resume = c->go_on;
        c->go_on = NULL;
    }
    lk_mutex_unlock(&c->mutex);
}

/* Sends what is queued. MOVED: nothing is left. Pieces that are being sent stay first in the queue, so the mutex need
 * not be held while the kernel copies. */
static moved flush(http_connection *c)
{
    struct iovec pieces[GATHER_MAX];
    for (;;) {
        size_t count = 0;
        lk_mutex_lock(&c->mutex);
        int piece_count = gather(c, pieces);
        lk_mutex_unlock(&c->mutex);
        if (piece_count == 0) {
            c->taking_ms = 0;
            return MOVED;
        }
        uint64_t now_ms = lk_http_now_ms();
        if (c->taking_ms == 0 || c->taken_bytes >= LK_HTTP_TAKEN_MIN) {
            c->taking_ms = now_ms;
            c->taken_bytes = 0;
        }
        moved outcome = transmit(c, pieces, piece_count, &count);
        if (outcome != MOVED) {
            return outcome;
        }
        c->since_ms = now_ms;
        c->taken_bytes += count;
        lk_mutex_lock(&c->mutex);
        http_piece *done = sent(c, count);
        lk_cond_broadcast(&c->drained);
        lk_mutex_unlock(&c->mutex);
        lk_http_pieces_free(done);
        let_go_on(c); /* so that more is made while the rest is sent */
    }
}

/* -- states ---------------------------------------------------------------------------------------------------------- */

static void enter(http_connection *c, http_state state)
{
    c->state = state;
    c->since_ms = lk_http_now_ms();
}

static void close_socket(http_connection *c)
{
    if (c->fd >= 0) {
        SSL_free(c->ssl);
        c->ssl = NULL;
        close(c->fd); /* leaves the epoll set with it */
        c->fd = -1;
    }
}

static bool has_handler(const http_connection *c)
{
    return c->state == HTTP_RUNNING;
}

/* The peer is gone: a handler is told and ends the exchange later, else this is the end. Returns false. */
static bool broken(http_connection *c)
{
    if (!has_handler(c)) {
        lk_http_connection_close(c);
        return false;
    }
    close_socket(c);
    atomic_store(&c->exchange.cancel.set, true);
    lk_mutex_lock(&c->mutex);
    c->gone = true;
    http_piece *dropped = drop_pieces(c);
    lk_cond_broadcast(&c->drained);
    lk_mutex_unlock(&c->mutex);
    lk_http_pieces_free(dropped);
    let_go_on(c);
    return false;
}

static void run(void *context)
{
    lk_http_exchange *exchange = context;
    lk_http_server   *server = exchange->connection->loop->server;
    server->options.run(exchange, server->options.context);
}

/* The whole request is there. */
static void start(http_connection *c)
{
    lk_err          err = {0};
    lk_http_server *server = c->loop->server;
    enter(c, HTTP_RUNNING);
    atomic_fetch_add(&server->running, 1);
    const lk_http_head *head = &c->exchange.head;
    lk_pool            *pool = head->chunked || head->content_length > 0 ? server->takers : server->workers;
    if (lk_pool_submit(pool, run, &c->exchange, &err) != LK_OK) {
        lk_http_refuse(&c->exchange, 503, "%zu requests wait for a worker, and no more may",
            server->options.backlog_max);
    }
}

/* Before an answer without a handler; what the request still has to send is not read. */
static lk_http_exchange *refused(http_connection *c)
{
    c->exchange.was_refused = true;
    enter(c, HTTP_RUNNING);
    atomic_fetch_add(&c->loop->server->running, 1);
    return &c->exchange;
}

/* Room for `more` bytes of a body, or the refusal; a lone request always gets it. */
static bool charge_body(http_connection *c, uint64_t more)
{
    lk_http_server *server = c->loop->server;
    uint64_t        before = atomic_fetch_add(&server->body_bytes, more);
    uint64_t        most = atomic_load(&server->body_bytes_max);
    if (before > c->exchange.charged && before + more > most) {
        atomic_fetch_sub(&server->body_bytes, more);
        lk_http_refuse(refused(c), 503,
            "bodies of other requests hold %" PRIu64 " bytes of %" PRIu64 ", and this one has %" PRIu64
            " more",
            before, most, more);
        return false;
    }
    c->exchange.charged += more;
    return true;
}

static void refuse_size(http_connection *c)
{
    lk_http_refuse(refused(c), 413, "the body is larger than %" PRIu64 " bytes, the most that is taken here",
        c->exchange.body_max);
}

static void queue_continue(http_connection *c)
{
    lk_buf text = {0};
    lk_buf_append_text(&text, "HTTP/1.1 100 Continue\r\n\r\n");
    lk_mutex_lock(&c->mutex);
    LK_ASSERT(c->first == NULL);
    lk_http_queue(c, lk_http_piece_new(&text));
    lk_mutex_unlock(&c->mutex);
}

static size_t input_size(const http_connection *c)
{
    return c->input.size - c->input_at;
}

/* The head is there: may the body come? */
static void admit(http_connection *c)
{
    lk_http_exchange   *x = &c->exchange;
    const lk_http_head *head = &x->head;
    lk_http_server     *server = c->loop->server;
    if (atomic_load(&server->draining)) {
        lk_http_refuse(
            refused(c), 503, "the server is going down; another instance, or a later one, answers");
        return;
    }
    x->was_refused = head->chunked || head->content_length > 0; /* if admit answers */
    server->options.admit(x, server->options.context, &x->body_max);
    if (c->began) {
        enter(c, HTTP_RUNNING);
        atomic_fetch_add(&server->running, 1);
        return;
    }
    x->was_refused = false;
    if (head->content_length > x->body_max) {
        refuse_size(c);
    } else if (!charge_body(c, head->content_length)) {
        return;
    } else if (!head->chunked && head->content_length == 0) {
        start(c);
    } else {
        enter(c, HTTP_BODY);
        if (head->expects_continue && input_size(c) == 0) {
            queue_continue(c);
        }
    }
}

static void take_head(http_connection *c)
{
    lk_bytes       input = {c->input.data + c->input_at, input_size(c)};
    size_t         used = 0;
    lk_http_fault  fault = {0};
    lk_http_parsed parsed = lk_http_head_parse(input, &c->exchange.arena, &c->exchange.head, &used, &fault);
    if (parsed == LK_HTTP_BAD) {
        lk_http_refuse(refused(c), fault.status, "%s", fault.why);
    } else if (parsed == LK_HTTP_DONE) {
        c->input_at += used;
        admit(c);
    }
}

static void take_length(http_connection *c)
{
    lk_http_exchange *x = &c->exchange;
    uint64_t          left = x->head.content_length - x->body.size;
    size_t            taken = left < input_size(c) ? (size_t)left : input_size(c);
    lk_buf_append(&x->body, c->input.data + c->input_at, taken);
    c->input_at += taken;
    if (x->body.size == x->head.content_length) {
        start(c);
    }
}

static void take_chunks(http_connection *c)
{
    lk_http_exchange *x = &c->exchange;
    while (c->state == HTTP_BODY && input_size(c) > 0) {
        lk_bytes       input = {c->input.data + c->input_at, input_size(c)}, data;
        size_t         used = 0;
        lk_http_parsed parsed = lk_http_chunks_take(&x->chunks, input, &data, &used);
        if (parsed == LK_HTTP_BAD) {
            lk_http_refuse(refused(c), 400,
                "the body's chunks are not framed as HTTP/1.1 has it, behind byte %zu of content",
                x->body.size);
        } else if (data.size + x->chunks.left > x->body_max - x->body.size) { /* announced is enough */
            refuse_size(c);
        } else if (charge_body(c, data.size)) {
            lk_buf_append_bytes(&x->body, data);
            c->input_at += used;
            if (parsed == LK_HTTP_DONE) {
                start(c);
            }
        }
    }
}

/* Makes of the input what can be made of it. */
static void take_input(http_connection *c)
{
    if (c->state == HTTP_HEAD && input_size(c) > 0) {
        take_head(c);
    }
    if (c->state == HTTP_BODY && input_size(c) > 0) {
        if (c->exchange.head.chunked) {
            take_chunks(c);
        } else {
            take_length(c);
        }
    }
    if (input_size(c) == 0) {
        lk_buf_deinit(&c->input); /* an idle connection holds nothing */
        c->input_at = 0;
    }
}

/* -- reading --------------------------------------------------------------------------------------------------------- */

/* Where the next bytes go: a long body's own buffer, else the input. */
static lk_buf *read_target(http_connection *c, size_t *size)
{
    lk_http_exchange *x = &c->exchange;
    if (c->state == HTTP_BODY && !x->head.chunked && input_size(c) == 0) {
        uint64_t left = x->head.content_length - x->body.size;
        *size = left < BODY_READ_SIZE ? (size_t)left : BODY_READ_SIZE;
        return &x->body;
    }
    if (c->input_at > 0) {
        memmove(c->input.data, c->input.data + c->input_at, input_size(c));
        c->input.size -= c->input_at;
        c->input_at = 0;
    }
    *size = READ_SIZE;
    return &c->input;
}

static moved read_some(http_connection *c)
{
    char    thrown_away[READ_SIZE];
    size_t  size, count;
    lk_buf *target;
    if (c->state == HTTP_LINGER) {
        moved outcome = receive(c, thrown_away, sizeof thrown_away, &count);
        return outcome == MOVED && count == 0 ? BROKEN : outcome;
    }
    target = read_target(c, &size);
    lk_buf_reserve(target, size);
    moved outcome = receive(c, target->data + target->size, size, &count);
    if (outcome != MOVED) {
        return outcome;
    }
    if (count == 0) {
        return BROKEN; /* nobody waits for an answer to half a request */
    }
    target->size += count;
    target->data[target->size] = '\0';
    c->since_ms = c->state == HTTP_HEAD && input_size(c) > count ? c->since_ms : lk_http_now_ms();
    if (target == &c->exchange.body && c->exchange.body.size == c->exchange.head.content_length) {
        start(c);
    }
    take_input(c);
    return MOVED;
}

/* -- ends ------------------------------------------------------------------------------------------------------------ */

/* The answer is out. false when the connection is gone with it. */
static bool finish(http_connection *c)
{
    lk_http_exchange *x = &c->exchange;
    lk_http_server   *server = c->loop->server;
    bool              linger = x->was_refused, end = x->close_after || c->peer_done;
    c->began = c->ended = false;
    lk_http_exchange_reset(x);
    if (linger && c->fd >= 0) {
        shutdown(c->fd, SHUT_WR);
        enter(c, HTTP_LINGER);
        return true;
    }
    if (end || atomic_load(&server->draining)) {
        lk_http_connection_close(c);
        return false;
    }
    enter(c, HTTP_HEAD);
    take_input(c); /* the next request may be there */
    return true;
}

/* The handler is done with the exchange. */
static void let_go(http_connection *c)
{
    lk_http_server *server = c->loop->server;
    if (server->options.observe != NULL) {
        server->options.observe(&c->exchange, server->options.context, c->gone ? 0 : c->exchange.status);
    }
    enter(c, HTTP_SENDING);
    atomic_fetch_sub(&server->running, 1);
}

static moved handshake(http_connection *c)
{
    int result = SSL_accept(c->ssl);
    if (result != 1) {
        return tls_outcome(c, result);
    }
    c->wants_write = false;
    enter(c, HTTP_HEAD);
    return MOVED;
}

static bool reads_now(const http_connection *c)
{
    return c->state == HTTP_HEAD || c->state == HTTP_BODY || c->state == HTTP_LINGER;
}

/* One step; *again when another one may be possible. */
static moved step(http_connection *c, bool *again)
{
    *again = false;
    if (c->state == HTTP_HANDSHAKE) {
        moved outcome = handshake(c);
        *again = outcome == MOVED;
        return outcome;
    }
    moved outcome = flush(c);
    if (outcome != MOVED) {
        return outcome;
    }
    if (c->state == HTTP_SENDING) {
        *again = true;
        return MOVED;
    }
    if (reads_now(c)) {
        outcome = read_some(c);
        *again = outcome == MOVED;
    }
    return outcome;
}

/* Whether the handler ended the exchange and touches the connection no more: it let go of the mutex after its last wake,
 * so there is none to come. */
static bool was_ended(http_connection *c)
{
    lk_mutex_lock(&c->mutex);
    bool ended = c->ended;
    lk_mutex_unlock(&c->mutex);
    lk_mutex_lock(&c->loop->mutex);
    ended = ended && !c->waking;
    lk_mutex_unlock(&c->loop->mutex);
    return ended;
}

bool lk_http_connection_move(http_connection *c, uint32_t events, bool woken)
{
    bool again = true;
    if (woken && has_handler(c) && was_ended(c)) {
        let_go(c);
    }
    if (c->fd < 0) {
        if (!has_handler(c)) {
            lk_http_connection_close(c);
        }
        return false;
    }
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
        return broken(c);
    }
    if ((events & EPOLLRDHUP) != 0 && has_handler(c)) {
        c->peer_done = true;
        atomic_store(&c->exchange.cancel.set, true);
    }
    for (int turns = 0; again && turns < 16; turns++) { /* others want their turn */
        moved outcome = step(c, &again);
        if (outcome == BROKEN) {
            return broken(c);
        }
        if (again && c->state == HTTP_SENDING && !finish(c)) {
            return false;
        }
    }
    if (again) {
        lk_http_wake(c); /* TLS may hold input that the socket does not show */
    }
    let_go_on(c);
    lk_mutex_lock(&c->mutex);
    bool queued = c->first != NULL;
    lk_mutex_unlock(&c->mutex);
    watch(c, (reads_now(c) || c->state == HTTP_HANDSHAKE ? (uint32_t)EPOLLIN : 0) |
                 (queued || c->wants_write ? (uint32_t)EPOLLOUT : 0));
    return true;
}

/* -- time ------------------------------------------------------------------------------------------------------------ */

/* What came too slowly is answered. */
static void refuse_late(http_connection *c, bool head)
{
    const lk_http_server *server = c->loop->server;
    uint64_t              ms = head ? server->options.head_ms : atomic_load(&server->body_idle_ms);
    lk_http_refuse(refused(c), 408,
        head ? "the head of a request was not whole after %" PRIu64 " ms"
             : "no byte of the body came for %" PRIu64 " ms, of which %zu are in",
        ms, c->exchange.body.size);
}

bool lk_http_connection_tick(http_connection *c, uint64_t now_ms)
{
    const lk_http_server  *server = c->loop->server;
    const lk_http_options *options = &server->options;
    uint64_t               waited = now_ms > c->since_ms ? now_ms - c->since_ms : 0;
    bool                   idle = c->state == HTTP_HEAD && input_size(c) == 0;
    let_go_on(c);
    if (c->fd < 0) {
        return true; /* its handler will end it */
    }
    if (c->taking_ms > 0 && now_ms >= c->taking_ms + atomic_load(&server->write_idle_ms)) {
        return broken(c);
    }
    if ((c->state == HTTP_HANDSHAKE && waited >= options->head_ms) ||
        (c->state == HTTP_LINGER && waited >= LINGER_MS) ||
        (idle && (waited >= options->idle_ms || atomic_load(&server->draining)))) {
        lk_http_connection_close(c);
        return false;
    }
    if (c->state == HTTP_HEAD && !idle && waited >= options->head_ms) {
        refuse_late(c, true);
    } else if (c->state == HTTP_BODY && waited >= atomic_load(&server->body_idle_ms)) {
        refuse_late(c, false);
    }
    return true;
}

/* -- life ------------------------------------------------------------------------------------------------------------ */

http_connection *lk_http_connection_open(http_loop *loop, int fd)
{
    int              on = 1;
    http_connection *c = calloc(1, sizeof *c);
    LK_ASSERT(c != NULL);
    c->loop = loop;
    c->fd = fd;
    c->exchange.connection = c;
    lk_mutex_init(&c->mutex, LK_RANK_CALL);
    lk_cond_init(&c->drained);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    enter(c, loop->server->has_tls ? HTTP_HANDSHAKE : HTTP_HEAD);
    if (loop->server->has_tls) {
        lk_mutex_lock(&loop->server->tls_mutex);
        c->ssl = SSL_new(loop->server->tls);
        lk_mutex_unlock(&loop->server->tls_mutex);
        LK_ASSERT(c->ssl != NULL && SSL_set_fd(c->ssl, fd) == 1);
        SSL_set_mode(c->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
    c->events = EPOLLIN;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
    LK_ASSERT(epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
    c->next = loop->connections;
    if (c->next != NULL) {
        c->next->previous = c;
    }
    loop->connections = c;
    return c;
}

static void leave_ready_list(http_connection *c)
{
    lk_mutex_lock(&c->loop->mutex);
    http_connection **at = &c->loop->ready;
    while (c->waking && *at != c) {
        at = &(*at)->next_ready;
    }
    if (c->waking) {
        *at = c->next_ready;
    }
    lk_mutex_unlock(&c->loop->mutex);
}

void lk_http_connection_close(http_connection *c)
{
    LK_ASSERT(!has_handler(c));
    leave_ready_list(c);
    close_socket(c);
    lk_http_pieces_free(drop_pieces(c));
    lk_http_exchange_reset(&c->exchange);
    lk_buf_deinit(&c->input);
    if (c->previous == NULL) {
        c->loop->connections = c->next;
    } else {
        c->previous->next = c->next;
    }
    if (c->next != NULL) {
        c->next->previous = c->previous;
    }
    atomic_fetch_sub(&c->loop->server->connections, 1);
    lk_cond_deinit(&c->drained);
    lk_mutex_deinit(&c->mutex);
    free(c);
}
