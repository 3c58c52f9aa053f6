/* http_client_test.c - the client's promises against our own server, and against ports where nobody answers. LK_TSAN */
#include "net/http_client.h"

#include "base/clock.h"
#include "base/thread.h"
#include "net/http_server.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { LARGE = 3 << 20 };

typedef struct fixture {
    lk_http_server *server;
    lk_http_client *client;
    lk_arena        arena;
    lk_err          err;
} fixture;

static void admit(lk_http_exchange *exchange, void *context, uint64_t *body_max)
{
    *body_max = 16 << 20;
}

/* /echo: the body; /large: LARGE bytes; /short: less than was promised; /status/N; /slow: a byte, then a wait. */
static void serve(lk_http_exchange *exchange, void *context)
{
    const lk_http_head *head = lk_http_request(exchange);
    lk_buf              body = {0};
    lk_err              err = {0};
    if (lk_bytes_equal(head->path, LK_LITERAL("/echo"))) {
        lk_buf_append_bytes(&body, lk_http_body(exchange));
        lk_http_add_field(exchange, "X-Method", head->method);
        lk_http_answer(exchange, 200, "text/plain", &body);
    } else if (lk_bytes_equal(head->path, LK_LITERAL("/large"))) {
        lk_buf_append_zeros(&body, LARGE);
        lk_http_answer(exchange, 206, "text/plain", &body);
    } else if (lk_bytes_starts(head->path, LK_LITERAL("/status/"))) {
        lk_buf_append_text(&body, "told");
        lk_http_answer(exchange, head->path.data[8] == '4' ? 404 : 503, "text/plain", &body);
    } else {
        bool slow = lk_bytes_equal(head->path, LK_LITERAL("/slow"));
        lk_http_begin(exchange, 200, "text/plain", 10);
        if (lk_http_write(exchange, LK_LITERAL("x"), &err) == LK_OK && slow) {
            lk_clock_sleep_ms(lk_clock_real(), 700);
        }
        lk_http_end(exchange);
    }
}

static int open_both(void **state)
{
    fixture              *f = calloc(1, sizeof *f);
    const lk_http_options server = {
        .address = "127.0.0.1:0", .admit = admit, .run = serve, .worker_count = 8};
    const lk_http_client_options client = {.connect_ms = 2000, .stall_ms = 300, .at_once = 4};
    *state = f;
    return lk_http_server_open(&f->server, &server, &f->err) != LK_OK ||
           lk_http_client_open(&f->client, &client, &f->err) != LK_OK;
}

static int close_both(void **state)
{
    fixture *f = *state;
    lk_http_client_close(f->client);
    lk_http_server_close(f->server);
    lk_arena_close(&f->arena);
    free(f);
    return 0;
}

static lk_http_call call_to(fixture *f, const char *method, const char *path)
{
    const char *at = lk_http_server_address(f->server);
    return (lk_http_call){.method = method, .url = lk_arena_format(&f->arena, "http://%s%s", at, path).data};
}

static void perform(fixture *f, lk_http_call *call)
{
    lk_http_perform(f->client, &call, 1);
}

static void a_body_goes_there_and_comes_back(void **state)
{
    fixture     *f = *state;
    lk_bytes     header = {0};
    const size_t sizes[] = {0, 1, 70000, LARGE};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        lk_buf body = {0};
        lk_buf_append_zeros(&body, sizes[i]);
        lk_http_call call = call_to(f, i % 2 == 0 ? "PUT" : "POST", "/echo");
        call.body = lk_buf_view(&body);
        call.has_body = true;
        perform(f, &call);
        assert_int_equal(call.end, LK_HTTP_ANSWERED);
        assert_int_equal(call.status, 200);
        assert_true(lk_bytes_equal(lk_buf_view(&call.body_in), lk_buf_view(&body)));
        assert_true(lk_http_call_header(&call, "x-method", &header));
        assert_true(lk_bytes_equal(header, lk_bytes_of(call.method)));
        assert_false(lk_http_call_header(&call, "x-metho", &header));
        lk_http_call_deinit(&call);
        lk_buf_deinit(&body);
    }
}

static bool count_bytes(void *context, const void *data, size_t size)
{
    *(size_t *)context += size;
    return true;
}

static bool refuse_bytes(void *context, const void *data, size_t size)
{
    return false;
}

static void a_sink_takes_the_body_of_its_status_only(void **state)
{
    fixture     *f = *state;
    size_t       got = 0;
    lk_http_call call = call_to(f, "GET", "/large");
    call.sink = count_bytes;
    call.sink_context = &got;
    call.sink_status = 206;
    perform(f, &call);
    assert_int_equal(call.end, LK_HTTP_ANSWERED);
    assert_int_equal(got, LARGE);
    assert_int_equal(call.body_in.size, 0);
    call.url = call_to(f, "GET", "/status/4").url;
    perform(f, &call);
    assert_int_equal(call.status, 404);
    assert_int_equal(got, LARGE);
    assert_true(lk_bytes_equal(lk_buf_view(&call.body_in), LK_LITERAL("told")));
    call.url = call_to(f, "GET", "/large").url;
    call.sink = refuse_bytes;
    perform(f, &call);
    assert_int_equal(call.end, LK_HTTP_REFUSED);
    lk_http_call_deinit(&call);
}

static void a_head_has_no_body(void **state)
{
    fixture     *f = *state;
    lk_bytes     size = {0};
    lk_http_call call = call_to(f, "HEAD", "/large");
    perform(f, &call);
    assert_int_equal(call.end, LK_HTTP_ANSWERED);
    assert_int_equal(call.body_in.size, 0);
    assert_true(lk_http_call_header(&call, "Content-Length", &size));
    assert_true(lk_bytes_equal(size, LK_LITERAL("3145728")));
    lk_http_call_deinit(&call);
}

static void what_ends_early_or_stands_still_may_have_been_done(void **state)
{
    fixture    *f = *state;
    const char *paths[] = {"/short", "/slow"};
    for (size_t i = 0; i < 2; i++) {
        lk_http_call call = call_to(f, "PUT", paths[i]);
        call.has_body = true;
        uint64_t begun = lk_clock_monotonic_ms(lk_clock_real());
        perform(f, &call);
        assert_int_equal(call.end, LK_HTTP_BROKEN);
        assert_int_equal(call.status, 0);
        assert_true(call.reason[0] != '\0');
        assert_true(lk_clock_monotonic_ms(lk_clock_real()) - begun < 5000);
        lk_http_call_deinit(&call);
    }
}

static void nobody_there_is_known_not_to_have_acted(void **state)
{
    fixture           *f = *state;
    int                probe = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t          size = sizeof at;
    assert_int_equal(bind(probe, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(probe, (struct sockaddr *)&at, &size), 0);
    lk_http_call call = {.method = "PUT", .has_body = true};
    call.url = lk_arena_format(&f->arena, "http://127.0.0.1:%d/", ntohs(at.sin_port)).data;
    perform(f, &call);
    assert_int_equal(call.end, LK_HTTP_NOT_SENT);
    call.url = "http://no-such-host.invalid/";
    perform(f, &call);
    assert_int_equal(call.end, LK_HTTP_NOT_SENT);
    lk_http_call_deinit(&call);
    (void)close(probe);
}

static void many_calls_of_one_thread_run_side_by_side(void **state)
{
    enum { CALLS = 40 };
    fixture     *f = *state;
    lk_http_call calls[CALLS], *list[CALLS];
    char         texts[CALLS][8];
    for (int i = 0; i < CALLS; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%d", i);
        calls[i] = call_to(f, "POST", i % 5 == 3 ? "/status/5" : "/echo");
        calls[i].body = lk_bytes_of(texts[i]);
        calls[i].has_body = true;
        list[i] = &calls[i];
    }
    lk_http_perform(f->client, list, CALLS);
    lk_http_perform(f->client, list, 0);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(calls[i].end, LK_HTTP_ANSWERED);
        assert_int_equal(calls[i].status, i % 5 == 3 ? 503 : 200);
        assert_true(i % 5 == 3 || lk_bytes_equal(lk_buf_view(&calls[i].body_in), lk_bytes_of(texts[i])));
        lk_http_call_deinit(&calls[i]);
    }
}

struct caller {
    fixture  *f;
    lk_thread thread;
    char      url[64];
    int       good;
};

static void call_often(void *context)
{
    struct caller *self = context;
    for (int i = 0; i < 30; i++) {
        lk_http_call call = {.method = "PUT", .url = self->url, .body = LK_LITERAL("body"), .has_body = true};
        perform(self->f, &call);
        self->good += call.end == LK_HTTP_ANSWERED && call.body_in.size == 4;
        lk_http_call_deinit(&call);
    }
}

static void one_client_serves_many_threads(void **state)
{
    fixture      *f = *state;
    struct caller callers[4] = {{0}};
    for (int i = 0; i < 4; i++) {
        callers[i].f = f;
        (void)snprintf(
            callers[i].url, sizeof callers[i].url, "http://%s/echo", lk_http_server_address(f->server));
        assert_int_equal(
            lk_thread_start(&callers[i].thread, "caller", call_often, &callers[i], &f->err), LK_OK);
    }
    for (int i = 0; i < 4; i++) {
        lk_thread_join(&callers[i].thread);
        assert_int_equal(callers[i].good, 30);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_both, close_both)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_body_goes_there_and_comes_back),
        TEST(a_sink_takes_the_body_of_its_status_only),
        TEST(a_head_has_no_body),
        TEST(what_ends_early_or_stands_still_may_have_been_done),
        TEST(nobody_there_is_known_not_to_have_acted),
        TEST(many_calls_of_one_thread_run_side_by_side),
        TEST(one_client_serves_many_threads),
    };
    return cmocka_run_group_tests_name("http client", tests, NULL, NULL);
}
