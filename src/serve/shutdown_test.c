/* shutdown_test.c - signals to a child process that serves; what it does and how it ends. */
#include "serve/shutdown.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/grpc_client.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { DRAINED = 0, OVERRAN = 7, BROKEN = 9 };

/* Holds its worker until its client or the drain cancels it. */
static lk_rc wait_cancelled(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_rc rc = lk_grpc_call_flush(call, err);
    while (rc == LK_OK) {
        lk_clock_sleep_ms(lk_clock_real(), 5);
        rc = lk_cancel_check(lk_grpc_call_cancel(call), err);
    }
    return rc;
}

/* Holds its worker whatever happens. */
static lk_rc wait_for_ever(lk_grpc_call *call, void *context, lk_err *err)
{
    for (;;) {
        lk_clock_sleep_ms(lk_clock_real(), 1000);
    }
    return LK_OK;
}

static const lk_grpc_method methods[] = {
    {.path = "/t.S/Wait", .kind = LK_GRPC_SERVER_STREAM, .run = wait_cancelled},
    {.path = "/t.S/Stuck", .kind = LK_GRPC_SERVER_STREAM, .run = wait_for_ever},
};

/* The child: serves, tells its address through the pipe, and ends as the shutdown ended. */
static void serve(int out, uint64_t grace_ms, bool stuck_after)
{
    lk_err                 err = {0};
    lk_shutdown           *shutdown = NULL;
    lk_grpc_server        *server = NULL;
    lk_grpc_server_options options = {
        .address = "127.0.0.1:0", .methods = methods, .method_count = 2, .worker_count = 2};
    lk_log_init(LK_LOG_OFF, false);
    if (lk_shutdown_open(&shutdown, grace_ms, &err) != LK_OK ||
        lk_grpc_server_open(&server, &options, &err) != LK_OK) {
        _exit(BROKEN);
    }
    char address[128] = {0};
    (void)snprintf(address, sizeof address, "%s", lk_grpc_server_address(server));
    if (write(out, address, sizeof address) != sizeof address) {
        _exit(BROKEN);
    }
    lk_rc rc = lk_shutdown_serve(shutdown, server, NULL, &err);
    if (lk_shutdown_deadline_ms(shutdown) == 0) {
        _exit(BROKEN);
    }
    while (stuck_after) {
        pause();
    }
    lk_grpc_server_close(server);
    lk_shutdown_close(shutdown);
    _exit(rc == LK_OK ? DRAINED : rc == LK_E_DEADLINE ? OVERRAN : BROKEN);
}

typedef struct child {
    pid_t pid;
    char  address[128];
} child;

static child start(uint64_t grace_ms, bool stuck_after)
{
    int   ends[2];
    child c = {0};
    assert_int_equal(pipe(ends), 0);
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        close(ends[0]);
        serve(ends[1], grace_ms, stuck_after);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], c.address, sizeof c.address), sizeof c.address);
    close(ends[0]);
    return c;
}

static int end(const child *c)
{
    int status = 0;
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static uint64_t now_ms(void)
{
    return lk_clock_monotonic_ms(lk_clock_real());
}

/* Calls a method and leaves it running; in a process of its own, because gRPC does not survive a fork. */
static pid_t call(const child *c, const char *path)
{
    pid_t pid = fork();
    if (pid == 0) {
        lk_err                  err = {0};
        lk_grpc_channel        *channel = NULL;
        lk_grpc_rpc            *rpc = NULL;
        lk_grpc_channel_options to = {.endpoint = c->address};
        if (lk_grpc_channel_open(&channel, &to, &err) == LK_OK &&
            lk_grpc_rpc_open(&rpc, channel, path, NULL, &err) == LK_OK &&
            lk_grpc_rpc_write_bytes(rpc, LK_LITERAL(""), &err) == LK_OK &&
            lk_grpc_rpc_writes_done(rpc, &err) == LK_OK) {
            (void)(lk_grpc_rpc_finish(rpc, &err) == LK_OK);
        }
        _exit(0);
    }
    lk_clock_sleep_ms(lk_clock_real(), 300);
    return pid;
}

static void an_idle_server_goes_at_once(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < 2; i++) {
        child    c = start(5000, false);
        uint64_t began = now_ms();
        assert_int_equal(kill(c.pid, signals[i]), 0);
        assert_int_equal(end(&c), DRAINED);
        assert_true(now_ms() - began < 2000);
    }
}

static void a_call_that_outlives_the_grace_is_cancelled_and_told(void **state)
{
    child    c = start(300, false);
    pid_t    client = call(&c, "/t.S/Wait");
    uint64_t began = now_ms();
    assert_int_equal(kill(c.pid, SIGTERM), 0);
    assert_int_equal(end(&c), OVERRAN);
    uint64_t took = now_ms() - began;
    assert_true(took >= 290 && took < 2500);
    assert_int_equal(waitpid(client, NULL, 0), client);
}

static void a_second_signal_ends_it_at_once(void **state)
{
    child    c = start(60000, false);
    pid_t    client = call(&c, "/t.S/Stuck");
    uint64_t began = now_ms();
    assert_int_equal(kill(c.pid, SIGTERM), 0);
    lk_clock_sleep_ms(lk_clock_real(), 200);
    assert_int_equal(kill(c.pid, SIGINT), 0);
    assert_int_equal(end(&c), 128 + SIGINT);
    assert_true(now_ms() - began < 3000);
    assert_int_equal(waitpid(client, NULL, 0), client);
}

static void a_process_that_does_not_close_in_time_is_ended(void **state)
{
    child    c = start(100, true);
    uint64_t began = now_ms();
    assert_int_equal(kill(c.pid, SIGTERM), 0);
    assert_int_equal(end(&c), EXIT_FAILURE);
    uint64_t took = now_ms() - began;
    assert_true(took >= 5000 && took < 8000); /* the margin after the deadline */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_server_goes_at_once),
        cmocka_unit_test(a_call_that_outlives_the_grace_is_cancelled_and_told),
        cmocka_unit_test(a_second_signal_ends_it_at_once),
        cmocka_unit_test(a_process_that_does_not_close_in_time_is_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
