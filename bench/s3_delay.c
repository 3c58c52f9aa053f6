/*
 * s3_delay.c - a TCP proxy before an S3 server that makes it as slow as a real one: no answer begins sooner than a set time
 * after its request began to arrive.
 *
 *   s3_delay HOST:PORT put=30 get=15
 *
 * Prints the port that it listens on at 127.0.0.1; ends when its standard input does, and then prints one JSON object: how
 * many requests of each kind passed. PUT, POST and DELETE take `put` milliseconds at least, GET and HEAD `get`; what the server
 * itself takes counts in. Exit 0; 1 and a reason on stderr; 2 usage.
 *
 * One connection of a client is one of the server's. A request begins with the first bytes after an answer began: clients that
 * do not pipeline, as S3's do not. Threads: one, over epoll.
 */
#include "base/bytes.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS_MAX = 8192, PIECE = 64 * 1024, PUT = 0, GET = 1 };

typedef struct end {
    int    fd;
    lk_buf out; /* for this end, not sent yet */
    size_t sent;
    bool   ended; /* it sent its last byte */
} end;

typedef struct pair {
    end      client, server;
    bool     asked;  /* a request began, and no byte of its answer was passed on */
    uint64_t due_us; /* when one may be */
    bool     used, wants[2];
} pair;

typedef struct proxy {
    struct sockaddr_in server;
    uint64_t           delay_us[2], requests[2];
    int                epoll, listener;
    pair               pairs[PAIRS_MAX];
    size_t             top; /* pairs beyond were never used */
} proxy;

static proxy p;

static void die(const char *what)
{
    fprintf(stderr, "s3_delay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void watch(int fd, uint64_t key, bool writes)
{
    struct epoll_event event = {.events = EPOLLIN | (writes ? (uint32_t)EPOLLOUT : 0U), .data.u64 = key};
    if (epoll_ctl(p.epoll, EPOLL_CTL_MOD, fd, &event) != 0 &&
        epoll_ctl(p.epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        die("epoll");
    }
}

static void prepare(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        die("socket");
    }
}

static void close_pair(pair *pair_)
{
    (void)close(pair_->client.fd);
    (void)close(pair_->server.fd);
    lk_buf_deinit(&pair_->client.out);
    lk_buf_deinit(&pair_->server.out);
    memset(pair_, 0, sizeof *pair_);
}

static void accept_one(void)
{
    int client = accept4(p.listener, NULL, NULL, SOCK_CLOEXEC), server;
    if (client < 0) {
        return;
    }
    size_t at = 0;
    while (at < PAIRS_MAX && p.pairs[at].used) {
        at++;
    }
    if (at == PAIRS_MAX || (server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0) {
        (void)close(client);
        return;
    }
    if (connect(server, (const struct sockaddr *)(const void *)&p.server, sizeof p.server) != 0) {
        (void)close(server);
        (void)close(client);
        return;
    }
    prepare(client);
    prepare(server);
    p.pairs[at] = (pair){.client.fd = client, .server.fd = server, .used = true};
    p.top = at >= p.top ? at + 1 : p.top;
    watch(client, at * 2, false);
    watch(server, at * 2 + 1, false);
}

/* What came from one end goes to the other's buffer; false: the pair is done with. */
static bool take(pair *pair_, bool from_client)
{
    end *from = from_client ? &pair_->client : &pair_->server,
        *to = from_client ? &pair_->server : &pair_->client;
    char    piece[PIECE];
    ssize_t size = read(from->fd, piece, sizeof piece);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    if (size <= 0) {
        return false;
    }
    if (from_client && !pair_->asked) {
        int kind = piece[0] == 'G' || piece[0] == 'H' ? GET : PUT;
        p.requests[kind]++;
        pair_->asked = true;
        pair_->due_us = lk_clock_now_us() + p.delay_us[kind];
    }
    lk_buf_append(&to->out, piece, (size_t)size);
    return true;
}

/* Sends what may be sent to an end. */
static bool give(pair *pair_, bool to_client, uint64_t now_us)
{
    end *to = to_client ? &pair_->client : &pair_->server;
    if (to->out.size == 0 || (to_client && pair_->asked && now_us < pair_->due_us)) {
        return true;
    }
    if (to_client) {
        pair_->asked = false;
    }
    ssize_t size = send(to->fd, to->out.data + to->sent, to->out.size - to->sent, MSG_NOSIGNAL);
    if (size < 0 && errno != EAGAIN && errno != EINTR) {
        return false;
    }
    to->sent += size > 0 ? (size_t)size : 0;
    bool all = to->sent == to->out.size;
    if (all) {
        to->out.size = to->sent = 0;
    }
    if (pair_->wants[to_client] == all) {
        pair_->wants[to_client] = !all;
        watch(to->fd, (uint64_t)(pair_ - p.pairs) * 2 + !to_client, !all);
    }
    return true;
}

static void flush_pairs(void)
{
    uint64_t now_us = lk_clock_now_us();
    for (size_t i = 0; i < p.top; i++) {
        pair *pair_ = &p.pairs[i];
        if (pair_->used && !(give(pair_, false, now_us) && give(pair_, true, now_us))) {
            close_pair(pair_);
        }
    }
}

/* Milliseconds until the next answer may go. */
static int patience(void)
{
    uint64_t now_us = lk_clock_now_us(), least = UINT64_MAX;
    for (size_t i = 0; i < p.top; i++) {
        const pair *pair_ = &p.pairs[i];
        if (pair_->used && pair_->asked && pair_->client.out.size > 0) {
            uint64_t left = pair_->due_us > now_us ? pair_->due_us - now_us : 0;
            least = left < least ? left : least;
        }
    }
    return least == UINT64_MAX ? -1 : (int)((least + 999) / 1000);
}

static bool serve(void) /* false: standard input ended */
{
    struct epoll_event events[256];
    int                count = epoll_wait(p.epoll, events, 256, patience());
    for (int i = 0; i < count; i++) {
        uint64_t key = events[i].data.u64;
        if (key == UINT64_MAX - 1) {
            char byte;
            if (read(STDIN_FILENO, &byte, 1) <= 0) {
                return false;
            }
        } else if (key == UINT64_MAX) {
            accept_one();
        } else {
            pair *pair_ = &p.pairs[key / 2];
            if (pair_->used && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 &&
                !take(pair_, key % 2 == 0)) {
                close_pair(pair_);
            }
        }
    }
    flush_pairs();
    return true;
}

int main(int argc, char **argv)
{
    char *colon = argc > 1 ? strrchr(argv[1], ':') : NULL;
    if (colon == NULL) {
        fprintf(stderr, "usage: s3_delay HOST:PORT [put=MS] [get=MS]\n");
        return 2;
    }
    *colon = '\0';
    p.server = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10))};
    if (inet_pton(AF_INET, argv[1], &p.server.sin_addr) != 1) {
        fprintf(stderr, "s3_delay: %s is no address\n", argv[1]);
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        uint64_t ms = strtoull(argv[i] + 4 * (strlen(argv[i]) > 4), NULL, 10);
        p.delay_us[strncmp(argv[i], "get=", 4) == 0 ? GET : PUT] = ms * 1000;
    }
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t          size = sizeof here;
    p.epoll = epoll_create1(EPOLL_CLOEXEC);
    p.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(p.listener, (const struct sockaddr *)(const void *)&here, sizeof here) != 0 ||
        listen(p.listener, 1024) != 0 ||
        getsockname(p.listener, (struct sockaddr *)(void *)&here, &size) != 0) {
        die("listen");
    }
    watch(p.listener, UINT64_MAX, false);
    watch(STDIN_FILENO, UINT64_MAX - 1, false);
    printf("%d\n", ntohs(here.sin_port));
    (void)fflush(stdout);
    while (serve()) {}
    printf("{\"put\":%" PRIu64 ",\"get\":%" PRIu64 "}\n", p.requests[PUT], p.requests[GET]);
    return 0;
}
