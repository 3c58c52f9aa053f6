/* http_test.c - a real server and raw sockets over loopback, with what clients do wrong. (LK_TSAN) */
#include "net/http_server.h"

#include "base/clock.h"
#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { BODY_MAX = 1000, LONG_BODY_MAX = 8 * 1024 * 1024 };

static lk_http_server *server;
static atomic_int      outcome, last_status, admitted_runs;

/* -- handlers ---------------------------------------------------------------------------------------------------- */

static bool path_is(lk_http_exchange *x, const char *path)
{
    return lk_bytes_equal(lk_http_request(x)->path, lk_bytes_of(path));
}

static void admit(lk_http_exchange *x, void *context, uint64_t *body_max)
{
    *body_max = path_is(x, "/long") ? LONG_BODY_MAX : BODY_MAX;
    if (path_is(x, "/denied")) {
        lk_buf body = {0};
        lk_buf_append_text(&body, "no");
        lk_http_answer(x, 403, "text/plain", &body);
    }
}

/* Streams until the peer is gone; what ended it is the outcome. */
static void flood(lk_http_exchange *x)
{
    static char block[64 * 1024];
    lk_err      err = {0};
    lk_rc       rc = LK_OK;
    lk_http_begin(x, 200, "application/octet-stream", UINT64_MAX);
    while (rc == LK_OK) {
        rc = lk_http_write(x, (lk_bytes){block, sizeof block}, &err);
    }
    atomic_store(&outcome, (int)rc);
    lk_http_end(x);
}

static void answer_later(void *context)
{
    lk_http_exchange *x = context;
    lk_buf            body = {0};
    lk_clock_sleep_ms(lk_clock_real(), 20);
    lk_buf_append_text(&body, "later");
    lk_http_answer(x, 201, "text/plain", &body);
}

static void wait_cancel(lk_http_exchange *x)
{
    lk_err err = {0};
    while (lk_cancel_check(lk_http_cancel(x), &err) == LK_OK) {
        lk_clock_sleep_ms(lk_clock_real(), 2);
    }
    atomic_store(&outcome, (int)err.rc);
    lk_http_answer(x, 200, NULL, NULL);
}

static atomic_int parked_ends;

/* The same without a thread while the peer takes nothing. */
static void flood_on(lk_http_exchange *x, void *context)
{
    static char block[64 * 1024];
    lk_err      err = {0};
    lk_rc       rc = LK_OK;
    do {
        rc = lk_http_write(x, (lk_bytes){block, sizeof block}, &err);
        if (rc == LK_OK && !lk_http_await_room(x, flood_on, context)) {
            return;
        }
    } while (rc == LK_OK);
    lk_http_abort(x);
    atomic_fetch_add(&parked_ends, rc == LK_E_CANCELLED);
}

static atomic_int loans; /* not ended yet */

static void end_loan(void *context)
{
    atomic_fetch_sub((atomic_int *)context, 1);
}

static lk_rc lend(lk_http_exchange *x, const lk_bytes *parts, size_t count, lk_err *err)
{
    const lk_http_loan loan = {parts, count, end_loan, &loans};
    atomic_fetch_add(&loans, 1);
    return lk_http_write_loan(x, &loan, err);
}

/* A few parts; or more of them than any peer takes. */
static void lend_some(lk_http_exchange *x, bool without_end)
{
    static char    block[64 * 1024];
    const lk_bytes few[] = {LK_LITERAL("lent "), {0}, LK_LITERAL("in "), LK_LITERAL("parts"), {0}};
    const lk_bytes large[] = {{block, sizeof block}, {block, sizeof block}};
    lk_err         err = {0};
    lk_http_begin(x, 200, "text/plain", UINT64_MAX);
    lk_rc rc = lend(x, few, 5, &err);
    while (rc == LK_OK && without_end) {
        rc = lend(x, large, 2, &err);
    }
    atomic_store(&outcome, (int)rc);
    lk_http_end(x);
}

static lk_pool *later; /* another thread than the handler's */

static void run(lk_http_exchange *x, void *context)
{
    lk_err err = {0};
    atomic_fetch_add(&admitted_runs, 1);
    if (path_is(x, "/flood")) {
        flood(x);
    } else if (path_is(x, "/parked")) {
        lk_http_begin(x, 200, "application/octet-stream", UINT64_MAX);
        flood_on(x, NULL);
    } else if (path_is(x, "/wait")) {
        wait_cancel(x);
    } else if (path_is(x, "/later")) {
        lk_rc rc = lk_pool_submit(later, answer_later, x, &err);
        LK_ASSERT(rc == LK_OK);
    } else if (path_is(x, "/short")) {
        lk_http_begin(x, 200, "text/plain", 10);
        lk_rc rc = lk_http_write(x, LK_LITERAL("five!"), &err);
        LK_ASSERT(rc == LK_OK);
        lk_http_end(x);
    } else if (path_is(x, "/lent") || path_is(x, "/lent-on")) {
        lend_some(x, path_is(x, "/lent-on"));
    } else if (path_is(x, "/pieces")) {
        lk_http_begin(x, 200, "text/plain", UINT64_MAX);
        for (int i = 0; i < 3; i++) {
            lk_rc rc = lk_http_write(x, LK_LITERAL("piece"), &err);
            LK_ASSERT(rc == LK_OK);
        }
        lk_http_end(x);
    } else {
        lk_buf echo = {0};
        lk_buf_append_bytes(&echo, lk_http_body(x));
        lk_http_add_field(x, "X-Evil", LK_LITERAL("a\r\nX-Smuggled: b"));
        lk_http_add_field(x, "X-Size", lk_arena_format(lk_http_arena(x), "%zu", echo.size));
        lk_http_answer(x, 200, "text/plain", &echo);
    }
}

static void observe(lk_http_exchange *x, void *context, int status)
{
    atomic_store(&last_status, status);
}

/* -- a client ---------------------------------------------------------------------------------------------------- */

static int dial(void)
{
    lk_address address;
    lk_err     err = {0};
    assert_int_equal(lk_address_parse(lk_http_server_address(server), &address, &err), LK_OK);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(address.port)};
    assert_int_equal(inet_pton(AF_INET, address.host, &to.sin_addr), 1);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Reads until `wanted` is there (NULL: until the end); fails after five seconds. */
static void hear(int fd, lk_buf *heard, const char *wanted)
{
    char          bytes[4096];
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    while (wanted == NULL || heard->size == 0 || strstr(heard->data, wanted) == NULL) {
        if (poll(&poller, 1, 5000) != 1) {
            fail_msg("waited for %s, heard %s", wanted, heard->data);
        }
        ssize_t count = recv(fd, bytes, sizeof bytes, 0);
        if (count <= 0) {
            if (wanted != NULL) {
                fail_msg("closed; waited for %s, heard %s", wanted, heard->data);
            }
            return;
        }
        lk_buf_append(heard, bytes, (size_t)count);
    }
}

static void asked(const char *request, const char *answer)
{
    lk_buf heard = {0};
    int    fd = dial();
    say(fd, request);
    hear(fd, &heard, answer);
    lk_buf_deinit(&heard);
    close(fd);
}

/* -- tests ------------------------------------------------------------------------------------------------------- */

static void a_request_is_answered_and_the_connection_stays(void **state)
{
    lk_buf heard = {0};
    int    fd = dial();
    say(fd, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhel");
    say(fd, "lo");
    hear(fd, &heard, "\r\n\r\nhello");
    assert_non_null(strstr(heard.data, "HTTP/1.1 200 OK\r\n"));
    assert_non_null(strstr(heard.data, "Content-Length: 5\r\n"));
    assert_non_null(strstr(heard.data, "X-Size: 5\r\n"));
    assert_null(strstr(heard.data, "X-Smuggled"));
    lk_buf_clear(&heard);
    say(fd, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    hear(fd, &heard, "Content-Length: 0\r\n");
    lk_buf_deinit(&heard);
    close(fd);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    lk_buf      heard = {0};
    int         fd = dial();
    const char *at;
    say(fd, "GET /later HTTP/1.1\r\nHost: h\r\n\r\nPOST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\ntwo"
            "GET /pieces HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    hear(fd, &heard, NULL);
    at = strstr(heard.data, "later");
    assert_non_null(at);
    at = strstr(at, "two");
    assert_non_null(at);
    assert_non_null(strstr(at, "5\r\npiece\r\n5\r\npiece\r\n5\r\npiece\r\n0\r\n\r\n"));
    lk_buf_deinit(&heard);
    close(fd);
}

static void chunked_bodies_and_continue_work(void **state)
{
    lk_buf heard = {0};
    int    fd = dial();
    say(fd, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
    hear(fd, &heard, "HTTP/1.1 100 Continue\r\n\r\n");
    say(fd, "4\r\nWiki\r\n5\r\npe");
    say(fd, "dia\r\n0\r\n\r\n");
    hear(fd, &heard, "\r\n\r\nWikipedia");
    lk_buf_deinit(&heard);
    close(fd);
}

static void head_has_no_content(void **state)
{
    lk_buf heard = {0};
    int    fd = dial();
    say(fd, "HEAD /pieces HTTP/1.1\r\nHost: h\r\n\r\nHEAD /denied HTTP/1.1\r\nHost: h\r\nConnection: "
            "close\r\n\r\n");
    hear(fd, &heard, NULL);
    assert_null(strstr(heard.data, "piece\r\n"));
    assert_non_null(strstr(heard.data, "HTTP/1.1 403 Forbidden"));
    assert_non_null(strstr(heard.data, "Content-Length: 2\r\n"));
    lk_buf_deinit(&heard);
    close(fd);
}

static void a_body_that_is_too_large_is_refused_before_it_is_read(void **state)
{
    asked("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n",
        "HTTP/1.1 413 ");
    asked("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n"
          "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "{\"error\":{\"code\":\"TOO_LARGE\"");
    asked("POST /denied HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n", "\r\n\r\nno");
    asked("nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request");
}

static void a_long_body_arrives_whole(void **state)
{
    lk_buf body = {0}, heard = {0};
    lk_buf_format(&body, "POST /long HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
        LONG_BODY_MAX);
    size_t head = body.size;
    for (int i = 0; i < LONG_BODY_MAX / 8; i++) {
        lk_buf_format(&body, "%08x", i);
    }
    int fd = dial();
    for (size_t at = 0; at < body.size;) {
        ssize_t count = send(fd, body.data + at, body.size - at, MSG_NOSIGNAL);
        assert_true(count > 0);
        at += (size_t)count;
    }
    hear(fd, &heard, NULL);
    const char *content = strstr(heard.data, "\r\n\r\n") + 4;
    assert_int_equal(heard.size - (size_t)(content - heard.data), LONG_BODY_MAX);
    assert_memory_equal(content, body.data + head, LONG_BODY_MAX);
    lk_buf_deinit(&body);
    lk_buf_deinit(&heard);
    close(fd);
}

static void a_stalled_request_is_408(void **state)
{
    asked("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf", "\"code\":\"REQUEST_TIMEOUT\"");
    asked("POST / HTTP/1.1\r\nHos", "HTTP/1.1 408 ");
}

static void an_idle_connection_is_closed(void **state)
{
    lk_buf heard = {0};
    int    fd = dial();
    hear(fd, &heard, NULL);
    assert_int_equal(heard.size, 0);
    close(fd);
}

static void wait_for(atomic_int *value, int wanted)
{
    for (int i = 0; i < 2500 && atomic_load(value) != wanted; i++) {
        lk_clock_sleep_ms(lk_clock_real(), 2);
    }
    assert_int_equal(atomic_load(value), wanted);
}

static void a_peer_that_goes_away_ends_its_stream(void **state)
{
    lk_buf heard = {0};
    int    fd = dial();
    atomic_store(&outcome, 0);
    say(fd, "GET /flood HTTP/1.1\r\nHost: h\r\n\r\n");
    hear(fd, &heard, "Transfer-Encoding: chunked");
    close(fd);
    wait_for(&outcome, LK_E_CANCELLED);
    wait_for(&last_status, 0);
    lk_buf_deinit(&heard);
}

static void lent_content_goes_out_in_order_and_is_let_go_of(void **state)
{
    asked("GET /lent HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n\r\nd\r\nlent in parts\r\n0\r\n\r\n");
    wait_for(&loans, 0);
    asked("HEAD /lent HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n\r\n");
    wait_for(&loans, 0);
    atomic_store(&outcome, -1);
    int    fd = dial();
    lk_buf heard = {0};
    say(fd, "GET /lent-on HTTP/1.1\r\nHost: x\r\n\r\n");
    hear(fd, &heard, "lent in parts");
    for (int i = 0; i < 2500 && atomic_load(&loans) == 0; i++) { /* what comes next may not be lent yet */
        lk_clock_sleep_ms(lk_clock_real(), 2);
    }
    assert_true(atomic_load(&loans) > 0);
    close(fd); /* with most of it queued */
    wait_for(&outcome, LK_E_CANCELLED);
    wait_for(&loans, 0);
    lk_buf_deinit(&heard);
}

static void a_peer_that_goes_away_sets_the_cancel_flag(void **state)
{
    int fd = dial();
    atomic_store(&outcome, 0);
    say(fd, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    lk_clock_sleep_ms(lk_clock_real(), 30);
    close(fd);
    wait_for(&outcome, LK_E_CANCELLED);
}

static void a_peer_that_takes_nothing_is_given_up(void **state)
{
    int fd = dial();
    atomic_store(&outcome, 0);
    say(fd, "GET /flood HTTP/1.1\r\nHost: h\r\n\r\n");
    for (int i = 0; i < 2500 && atomic_load(&outcome) == 0; i++) {
        lk_clock_sleep_ms(lk_clock_real(), 2);
    }
    assert_int_equal(atomic_load(&outcome), LK_E_CANCELLED);
    close(fd);
}

/* Takes at least so many bytes. */
static void take(int fd, size_t size)
{
    char   bytes[65536];
    size_t taken = 0;
    while (taken < size) {
        ssize_t count = recv(fd, bytes, sizeof bytes, 0);
        assert_true(count > 0);
        taken += (size_t)count;
    }
}

static void peers_that_take_nothing_hold_no_worker_and_are_cut_off(void **state)
{
    enum { COUNT = 16 }; /* of four workers */
    int fds[COUNT];
    atomic_store(&parked_ends, 0);
    for (int i = 0; i < COUNT; i++) {
        fds[i] = dial();
        say(fds[i], "GET /parked HTTP/1.1\r\nHost: h\r\n\r\n");
        take(fds[i], 1); /* it began */
    }
    uint64_t start = lk_clock_monotonic_ms(lk_clock_real());
    asked("GET /pieces HTTP/1.1\r\nHost: h\r\n\r\n", "0\r\n\r\n");
    take(fds[0], 16 * 1024 * 1024); /* more than was queued: it goes on */
    assert_true(lk_clock_monotonic_ms(lk_clock_real()) - start < 1000);
    wait_for(&parked_ends, COUNT);
    assert_int_equal(lk_http_server_queued_bytes(server), 0);
    for (int i = 0; i < COUNT; i++) {
        close(fds[i]);
    }
}

/* A few bytes now and then are no use of an answer either. */
static void a_peer_that_trickles_is_cut_off(void **state)
{
    int fd = dial(), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    atomic_store(&parked_ends, 0);
    say(fd, "GET /parked HTTP/1.1\r\nHost: h\r\n\r\n");
    for (int i = 0; i < 60 && atomic_load(&parked_ends) == 0; i++) {
        char    bytes[1024];
        ssize_t count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        (void)count;
        lk_clock_sleep_ms(lk_clock_real(), 100);
    }
    wait_for(&parked_ends, 1);
    close(fd);
}

static void a_refusal_says_limit_value_and_what_to_do(void **state)
{
    static const struct {
        const char *request, *answer;
    } cases[] = {
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n",
            "\"message\":\"the body is larger than 1000 bytes, the most that is taken here; ask 413\""},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf",
            "\"message\":\"no byte of the body came for 600 ms, of which 4 are in; ask 408\""},
        {"GET / HTTP/1.1\r\nHos", "\"the head of a request was not whole after 600 ms; ask 408\""},
        {"nonsense\r\n\r\n", "the request line is not METHOD TARGET HTTP/1.1"},
        {"GET / HTTP/1.1\r\n\r\n", "a request has one Host field"},
        {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "chunks are not framed"},
        {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", "this server speaks HTTP/1.1 and HTTP/1.0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        asked(cases[i].request, cases[i].answer);
    }
    lk_buf many = {0};
    lk_buf_append_text(&many, "GET / HTTP/1.1\r\nHost: h\r\n");
    while (many.size < LK_HTTP_HEAD_BYTES_MAX) {
        lk_buf_format(&many, "X-%zu: some value\r\n", many.size);
    }
    lk_buf_append_text(&many, "\r\n");
    asked(many.data, "may have 32768 bytes together");
    lk_buf_deinit(&many);
}

static void limits_change_for_what_comes_next(void **state)
{
    lk_http_limits other = {.body_bytes_max = 64 * 1024 * 1024, .body_idle_ms = 60000, .write_idle_ms = 1200};
    lk_buf         heard = {0};
    int            fd = dial();
    lk_http_server_set_limits(server, &other);
    say(fd, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf");
    lk_clock_sleep_ms(lk_clock_real(), 900); /* it was 600 */
    say(fd, "-whole");
    hear(fd, &heard, "half-whole");
    other.body_idle_ms = 600;
    lk_http_server_set_limits(server, &other);
    lk_buf_deinit(&heard);
    close(fd);
}

static void an_answer_that_is_short_closes_the_connection(void **state)
{
    lk_buf heard = {0};
    int    fd = dial();
    say(fd, "GET /short HTTP/1.1\r\nHost: h\r\n\r\n");
    hear(fd, &heard, NULL);
    assert_non_null(strstr(heard.data, "five!"));
    lk_buf_deinit(&heard);
    close(fd);
}

static void many_connections_at_once_are_served(void **state)
{
    enum { COUNT = 200 };
    int    fds[COUNT];
    lk_buf heard = {0};
    for (int i = 0; i < COUNT; i++) {
        fds[i] = dial();
        say(fds[i], "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody");
    }
    for (int i = 0; i < COUNT; i++) {
        lk_buf_clear(&heard);
        hear(fds[i], &heard, "\r\n\r\nbody");
        close(fds[i]);
    }
    lk_buf_deinit(&heard);
}

static void draining_waits_for_what_runs_and_refuses_the_rest(void **state)
{
    lk_err err = {0};
    lk_buf heard = {0};
    int    runs = atomic_load(&admitted_runs), busy = dial(), idle = dial();
    say(busy, "GET /later HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_for(&admitted_runs, runs + 1);
    assert_int_equal(
        lk_http_server_drain(server, lk_clock_monotonic_ms(lk_clock_real()) + 5000, &err), LK_OK);
    hear(busy, &heard, "later");
    lk_buf_clear(&heard);
    hear(idle, &heard, NULL);
    assert_int_equal(heard.size, 0);
    close(busy);
    close(idle);
    lk_buf_deinit(&heard);
}

static void explain(lk_http_exchange *x, void *context, int status, lk_buf *text)
{
    lk_buf_format(text, "; ask %d", status);
}

/* -- the first request ------------------------------------------------------------------------------------------- */

static lk_http_server *young;
static atomic_int      unknown; /* requests whose handler did not know the server */

static void ask_server(lk_http_exchange *x, void *context, uint64_t *body_max)
{
    lk_buf body = {0};
    *body_max = 0;
    atomic_fetch_add(&unknown, young == NULL);
    lk_http_answer(x, 200, "text/plain", &body);
}

/* Asks as soon as somebody listens there; from another address, so that it never meets itself. */
static void *ask_at_once(void *context)
{
    static const char        request[] = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = *(in_port_t *)context, .sin_addr.s_addr = htonl(0x7f000001)};
    const struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
    for (bool asked = false; !asked;) {
        char answer[256];
        int  fd = socket(AF_INET, SOCK_STREAM, 0);
        asked = bind(fd, (const struct sockaddr *)&from, sizeof from) == 0 &&
                connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 &&
                send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0;
        while (asked && recv(fd, answer, sizeof answer, 0) > 0) {}
        close(fd);
    }
    return NULL;
}

static void handlers_know_the_server_from_the_first_request_on(void **state)
{
    enum { ROUNDS = 40 };
    lk_err          err = {0};
    char            address[64];
    lk_http_options options = {
        .address = "127.0.0.1:0", .loop_count = 8, .worker_count = 64, .admit = ask_server, .run = run};
    assert_int_equal(lk_http_server_open(&young, &options, &err), LK_OK);
    (void)snprintf(address, sizeof address, "%s", lk_http_server_address(young));
    lk_http_server_close(young);
    options.address = address;
    in_port_t port = htons((uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10));
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t asker;
        young = NULL;
        assert_int_equal(pthread_create(&asker, NULL, ask_at_once, &port), 0);
        assert_int_equal(lk_http_server_open(&young, &options, &err), LK_OK);
        assert_int_equal(pthread_join(asker, NULL), 0);
        lk_http_server_close(young);
    }
    assert_int_equal(atomic_load(&unknown), 0);
}

static int open_server(void **state)
{
    lk_err                err = {0};
    const lk_http_options options = {.address = "127.0.0.1:0",
        .loop_count = 2,
        .worker_count = 4,
        .head_ms = 600,
        .idle_ms = 1500,
        .limits = {.body_idle_ms = 600, .write_idle_ms = 1200},
        .admit = admit,
        .run = run,
        .observe = observe,
        .explain = explain};
    return lk_pool_open(&later, "later", 1, 16, &err) == LK_OK &&
                   lk_http_server_open(&server, &options, &err) == LK_OK
               ? 0
               : -1;
}

static int close_server(void **state)
{
    lk_http_server_close(server);
    lk_pool_close(later);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_answered_and_the_connection_stays),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(chunked_bodies_and_continue_work),
        cmocka_unit_test(head_has_no_content),
        cmocka_unit_test(a_body_that_is_too_large_is_refused_before_it_is_read),
        cmocka_unit_test(a_long_body_arrives_whole),
        cmocka_unit_test(a_stalled_request_is_408),
        cmocka_unit_test(an_idle_connection_is_closed),
        cmocka_unit_test(a_peer_that_goes_away_ends_its_stream),
        cmocka_unit_test(lent_content_goes_out_in_order_and_is_let_go_of),
        cmocka_unit_test(a_peer_that_goes_away_sets_the_cancel_flag),
        cmocka_unit_test(a_peer_that_takes_nothing_is_given_up),
        cmocka_unit_test(peers_that_take_nothing_hold_no_worker_and_are_cut_off),
        cmocka_unit_test(a_peer_that_trickles_is_cut_off),
        cmocka_unit_test(a_refusal_says_limit_value_and_what_to_do),
        cmocka_unit_test(limits_change_for_what_comes_next),
        cmocka_unit_test(an_answer_that_is_short_closes_the_connection),
        cmocka_unit_test(many_connections_at_once_are_served),
        cmocka_unit_test(handlers_know_the_server_from_the_first_request_on),
        cmocka_unit_test(draining_waits_for_what_runs_and_refuses_the_rest),
    };
    return cmocka_run_group_tests_name("http", tests, open_server, close_server);
}
