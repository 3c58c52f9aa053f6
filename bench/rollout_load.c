/*
 * rollout_load.c - the load generator of the rollout benches: clients that keep their connection and add, one request
 * after the other each.
 *
 *   rollout_load HOST:PORT STORE clients=64 requests=1000 rows=1 tokens=0 body=json|arrow seconds=0 ids=FILE token=SECRET
 *
 * The store is made if it is not there. Ends after `requests` in all, or after `seconds` if set. Every id of a request
 * that was answered 201 goes to FILE, one a line. Prints one JSON object: latencies in milliseconds, rows per second (one
 * client alone makes its bodies while the server rests: that time is not counted), how many requests were answered how.
 * Exit 0; 1 when a connection failed or an answer was no HTTP; 2 usage.
 * Threads: one, over epoll.
 */
#include "base/clock.h"
#include "rollout_body.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS_MAX = 16384, ROWS_MAX = 65536, SAMPLES_MAX = 4 * 1024 * 1024 };

typedef struct plan {
    const char        *store, *token;
    struct sockaddr_in address;
    uint64_t           clients, requests, rows, tokens, seconds;
    bool               arrow;
    FILE              *ids;
    lk_body_maker      maker;
    uint64_t           next, answered, created, refused, failed, deadline_us, making_us;
    uint32_t          *took_us;
    int                epoll;
} plan;

typedef struct client {
    int      fd;
    uint64_t request, began_us;
    lk_buf   out, in;
    size_t   sent;
} client;

static void die(const char *what)
{
    fprintf(stderr, "rollout_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* -- requests and answers ------------------------------------------------------------------------------------------ */

static void put_request(const plan *p, const char *path, const char *type, lk_bytes body, lk_buf *out)
{
    lk_buf_format(out, "POST %s HTTP/1.1\r\nHost: lake\r\nContent-Type: %s\r\nContent-Length: %zu\r\n", path,
        type, body.size);
    if (p->token != NULL) {
        lk_buf_format(out, "Authorization: Bearer %s\r\n", p->token);
    }
    lk_buf_append_text(out, "\r\n");
    lk_buf_append_bytes(out, body);
}

/* How long the answer at hand is; 0: not all of it is here. */
static size_t answer_size(const lk_buf *in, int *status)
{
    char *end = in->size == 0 ? NULL : memmem(in->data, in->size, "\r\n\r\n", 4);
    if (end == NULL) {
        return 0;
    }
    size_t      head = (size_t)(end - in->data) + 4, length = 0;
    const char *line = in->data;
    if (sscanf(line, "HTTP/1.1 %d", status) != 1) {
        errno = EPROTO;
        die("answer");
    }
    while (line < end) {
        if (strncasecmp(line, "content-length:", 15) == 0) {
            length = strtoull(line + 15, NULL, 10);
        }
        line = (const char *)memchr(line, '\n', (size_t)(end + 2 - line)) + 1;
    }
    return in->size < head + length ? 0 : head + length;
}

static int dial(const plan *p, bool waits)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0 || connect(fd, (const struct sockaddr *)(const void *)&p->address, sizeof p->address) != 0) {
        die("connect");
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!waits && fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        die("socket");
    }
    return fd;
}

/* One request whose answer is awaited. */
static int ask(const plan *p, const char *path, lk_bytes body)
{
    int    fd = dial(p, true), status = 0;
    lk_buf out = {0}, in = {0};
    put_request(p, path, "application/json", body, &out);
    if (write(fd, out.data, out.size) != (ssize_t)out.size) {
        die("write");
    }
    while (answer_size(&in, &status) == 0) {
        char    piece[4096];
        ssize_t size = read(fd, piece, sizeof piece);
        if (size <= 0) {
            die("read");
        }
        lk_buf_append(&in, piece, (size_t)size);
    }
    (void)close(fd);
    lk_buf_deinit(&out);
    lk_buf_deinit(&in);
    return status;
}

static void make_store(const plan *p)
{
    lk_buf body = {0};
    lk_buf_format(&body, "{\"name\":\"%s\"}", p->store);
    int status = ask(p, "/api/v1/rollouts", lk_buf_view(&body));
    lk_buf_deinit(&body);
    if (status != 201 && status != 409) {
        fprintf(stderr, "rollout_load: the store was not made: %d\n", status);
        exit(1);
    }
}

/* -- clients ------------------------------------------------------------------------------------------------------- */

static bool goes_on(const plan *p)
{
    return p->seconds > 0 ? lk_clock_now_us() < p->deadline_us : p->next < p->requests;
}

static void send_more(client *c)
{
    while (c->sent < c->out.size) {
        ssize_t size = write(c->fd, c->out.data + c->sent, c->out.size - c->sent);
        if (size < 0 && errno == EAGAIN) {
            return;
        }
        if (size < 0) {
            die("write");
        }
        c->sent += (size_t)size;
    }
}

static void begin(plan *p, client *c)
{
    char     path[300];
    lk_buf   body = {0};
    lk_err   err = {0};
    uint64_t started = lk_clock_now_us();
    c->request = p->next++;
    if (!p->arrow) {
        lk_body_json(&p->maker, c->request, &body);
    } else if (lk_body_arrow(&p->maker, c->request, &body, &err) != LK_OK) {
        fprintf(stderr, "rollout_load: %s\n", err.detail);
        exit(1);
    }
    (void)snprintf(path, sizeof path, "/api/v1/rollouts/%s/records", p->store);
    lk_buf_clear(&c->out);
    put_request(p, path, p->arrow ? "application/vnd.apache.arrow.stream" : "application/json",
        lk_buf_view(&body), &c->out);
    lk_buf_deinit(&body);
    c->sent = 0;
    c->began_us = lk_clock_now_us();
    p->making_us += c->began_us - started;
    send_more(c);
}

static void note(plan *p, const client *c, int status)
{
    if (p->answered < SAMPLES_MAX) {
        p->took_us[p->answered] = (uint32_t)(lk_clock_now_us() - c->began_us);
    }
    p->answered++;
    p->created += status == 201;
    p->refused += status == 429 || status == 503 || status == 409;
    p->failed += status != 201 && status != 429 && status != 503 && status != 409;
    for (uint64_t row = 0; status == 201 && p->ids != NULL && row < p->rows; row++) {
        fprintf(p->ids, "%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\n", p->maker.run, c->request, row);
    }
}

/* The answer at hand, whole: its status; 0: it is still coming. */
static int receive(client *c)
{
    char piece[16384];
    int  status = 0;
    while (answer_size(&c->in, &status) == 0) {
        ssize_t size = read(c->fd, piece, sizeof piece);
        if (size < 0 && errno == EAGAIN) {
            return 0;
        }
        if (size <= 0) {
            die("the server closed a connection");
        }
        lk_buf_append(&c->in, piece, (size_t)size);
    }
    lk_buf_clear(&c->in); /* a client never has two requests under way */
    return status;
}

/* false: the client is done. */
static bool go_on(plan *p, client *c)
{
    int status = receive(c);
    if (status == 0) {
        return true;
    }
    note(p, c, status);
    if (!goes_on(p)) {
        return false;
    }
    begin(p, c);
    return true;
}

static void run(plan *p)
{
    client  *clients = calloc(p->clients, sizeof *clients);
    uint64_t running = 0;
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (clients == NULL || p->epoll < 0) {
        die("start");
    }
    for (uint64_t i = 0; i < p->clients; i++) {
        clients[i].fd = dial(p, false);
    }
    p->deadline_us = lk_clock_now_us() + p->seconds * 1000000;
    for (uint64_t i = 0; i < p->clients && goes_on(p); i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = &clients[i]};
        if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, clients[i].fd, &event) != 0) {
            die("epoll");
        }
        begin(p, &clients[i]);
        running++;
    }
    while (running > 0) {
        struct epoll_event events[256];
        int                count = epoll_wait(p->epoll, events, 256, 60000);
        if (count == 0) {
            errno = ETIMEDOUT;
        }
        if (count <= 0) {
            die("no answer");
        }
        for (int i = 0; i < count; i++) {
            client *c = events[i].data.ptr;
            send_more(c);
            running -= (events[i].events & ~(uint32_t)EPOLLOUT) != 0 && !go_on(p, c);
        }
    }
    for (uint64_t i = 0; i < p->clients; i++) {
        (void)close(clients[i].fd);
        lk_buf_deinit(&clients[i].in);
        lk_buf_deinit(&clients[i].out);
    }
    free(clients);
}

/* -- the program ------------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const uint32_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static void print(plan *p, uint64_t whole_us)
{
    size_t count = p->answered < SAMPLES_MAX ? p->answered : SAMPLES_MAX;
    whole_us -= p->clients == 1 ? p->making_us : 0;
    qsort(p->took_us, count, sizeof *p->took_us, by_value);
    printf("{\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f,\"rows_per_s\":%.0f,\"created\":%" PRIu64
           ",\"refused\":%" PRIu64 ",\"failed\":%" PRIu64 "}\n",
        p->took_us[count / 2] / 1e3, p->took_us[count - 1 - count / 100] / 1e3, p->took_us[count - 1] / 1e3,
        (double)(p->created * p->rows) * 1e6 / (double)whole_us, p->created, p->refused, p->failed);
}

static bool read_word(plan *p, const char *word)
{
    const struct {
        const char *name;
        uint64_t   *number;
    } numbers[] = {{"clients=", &p->clients}, {"requests=", &p->requests}, {"rows=", &p->rows},
        {"tokens=", &p->tokens}, {"seconds=", &p->seconds}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        size_t size = strlen(numbers[i].name);
        if (strncmp(word, numbers[i].name, size) == 0) {
            *numbers[i].number = strtoull(word + size, NULL, 10);
            return true;
        }
    }
    if (strncmp(word, "ids=", 4) == 0) {
        p->ids = fopen(word + 4, "we");
        return p->ids != NULL;
    }
    if (strncmp(word, "token=", 6) == 0) {
        p->token = word + 6;
        return true;
    }
    p->arrow = strcmp(word, "body=arrow") == 0;
    return p->arrow || strcmp(word, "body=json") == 0;
}

static bool read_address(plan *p, const char *text)
{
    char        host[64];
    const char *colon = strrchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof host) {
        return false;
    }
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    p->address.sin_family = AF_INET;
    p->address.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    return inet_pton(AF_INET, host, &p->address.sin_addr) == 1;
}

int main(int argc, char **argv)
{
    plan p = {.clients = 64, .requests = 1000, .rows = 1};
    bool good = argc >= 3 && read_address(&p, argv[1]);
    p.store = good ? argv[2] : NULL;
    for (int i = 3; good && i < argc; i++) {
        good = read_word(&p, argv[i]);
    }
    if (!good || p.clients == 0 || p.clients > CLIENTS_MAX || p.requests == 0 || p.rows == 0 ||
        p.rows > ROWS_MAX) {
        fprintf(stderr, "usage: rollout_load HOST:PORT STORE [NAME=VALUE...], see rollout_load.c\n");
        return 2;
    }
    p.took_us = calloc(SAMPLES_MAX, sizeof *p.took_us);
    p.maker = lk_body_maker_of(lk_clock_now_us() << 8 ^ (uint64_t)getpid(), p.rows, p.tokens);
    if (p.took_us == NULL) {
        die("memory");
    }
    make_store(&p);
    uint64_t start = lk_clock_now_us();
    run(&p);
    print(&p, lk_clock_now_us() - start);
    if (p.ids != NULL && fclose(p.ids) != 0) {
        die("ids");
    }
    lk_body_maker_deinit(&p.maker);
    free(p.took_us);
    return 0;
}
