/* grpc_test.c - a real server and real clients over loopback. (LK_TSAN) */
#include "base/clock.h"
#include "base/limits.h"
#include "net/address.h"
#include "net/grpc_client.h"
#include "net/grpc_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BIG = 3 * 1024 * 1024 };

static atomic_int  released, running, cancelled_after_ms, observed;
static atomic_bool hold;

static uint64_t now_ms(void)
{
    return lk_clock_monotonic_ms(lk_clock_real());
}

static void count_release(void *owner)
{
    (void)owner;
    atomic_fetch_add(&released, 1);
}

/* -- handlers -- */

static lk_rc echo(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_bytes request, name;
    lk_rc    rc = lk_grpc_call_request(call, &request, err);
    if (rc == LK_OK && lk_grpc_call_header(call, "x-lake-name", &name)) {
        lk_grpc_call_add_initial(call, "x-initial", name);
        lk_grpc_call_add_trailer(call, "x-trailing", name);
        lk_grpc_call_add_trailer(call, "x-illegal", LK_LITERAL("line\nbreak"));
        lk_grpc_call_add_trailer(call, "x-raw-bin", LK_LITERAL("line\nbreak"));
    }
    return rc == LK_OK ? lk_grpc_call_write_bytes(call, request, err) : rc;
}

static lk_rc refuse(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_TABLE_NOT_FOUND, "secret path");
    (void)call;
    (void)lk_detail(err, "robots.arm");
    return rc;
}

/* Sends numbered messages, each one big referenced piece between two small ones, until told to stop. */
static lk_rc flood(lk_grpc_call *call, void *context, lk_err *err)
{
    static char big[BIG];
    lk_bytes    request;
    lk_rc       rc = lk_grpc_call_request(call, &request, err);
    long        count = rc == LK_OK ? strtol(request.data, NULL, 10) : 0;
    atomic_fetch_add(&running, 1);
    for (long i = 0; rc == LK_OK && i < count; i++) {
        lk_bytes    pieces[] = {LK_LITERAL("head"), {big, sizeof big}, LK_LITERAL(""), LK_LITERAL("tail")};
        lk_grpc_out out = {pieces, 4, count_release, NULL};
        rc = lk_grpc_call_write(call, &out, err);
    }
    atomic_fetch_sub(&running, 1);
    return rc;
}

static lk_rc sum(lk_grpc_call *call, void *context, lk_err *err)
{
    size_t          bytes = 0, messages = 0;
    bool            found = true;
    lk_grpc_message message;
    lk_rc           rc = LK_OK;
    for (;;) {
        rc = lk_grpc_call_read(call, &message, &found, err);
        if (rc != LK_OK || !found) {
            break;
        }
        bytes += message.size;
        messages++;
        lk_grpc_message_release(&message);
    }
    if (rc != LK_OK) {
        atomic_store(&cancelled_after_ms, (int)rc);
        return rc;
    }
    lk_bytes text = lk_arena_format(lk_grpc_call_arena(call), "%zu/%zu", messages, bytes);
    return lk_grpc_call_write_bytes(call, text, err);
}

static lk_rc mirror(lk_grpc_call *call, void *context, lk_err *err)
{
    bool            found = true;
    lk_rc           rc = LK_OK;
    lk_grpc_message message;
    while (rc == LK_OK) {
        rc = lk_grpc_call_read(call, &message, &found, err);
        if (rc != LK_OK || !found) {
            return rc;
        }
        rc = lk_grpc_call_write_bytes(call, lk_grpc_message_bytes(&message, lk_grpc_call_arena(call)), err);
        lk_grpc_message_release(&message);
    }
    return rc;
}

/* Waits for the flag only, as a scan would. */
static lk_rc wait_cancel(lk_grpc_call *call, void *context, lk_err *err)
{
    uint64_t began = now_ms();
    atomic_fetch_add(&running, 1);
    while (lk_cancel_check(lk_grpc_call_cancel(call), err) == LK_OK && now_ms() < began + 5000) {
        lk_clock_sleep_ms(lk_clock_real(), 2);
    }
    atomic_store(&cancelled_after_ms, (int)(now_ms() - began));
    atomic_fetch_sub(&running, 1);
    return err->rc;
}

static lk_rc wait_hold(lk_grpc_call *call, void *context, lk_err *err)
{
    (void)call;
    atomic_fetch_add(&running, 1);
    while (atomic_load(&hold)) {
        lk_clock_sleep_ms(lk_clock_real(), 2);
    }
    atomic_fetch_sub(&running, 1);
    return lk_grpc_call_write_bytes(call, LK_LITERAL("held"), err);
}

static lk_rc admit(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_bytes value;
    assert_ptr_equal(context, &released);
    lk_grpc_call_set_attachment(call, context);
    if (lk_grpc_call_header(call, "authorization", &value) &&
        lk_bytes_equal(value, LK_LITERAL("Bearer bad"))) {
        return lk_fail(err, LK_E_UNAUTHENTICATED, "bad token");
    }
    return LK_OK;
}

static void observe(lk_grpc_call *call, void *context, lk_rc rc, const lk_err *err)
{
    assert_ptr_equal(lk_grpc_call_attachment(call), context);
    atomic_store(&observed, (int)rc);
    assert_int_equal(rc, err->rc);
}

static void translate(const lk_err *err, lk_arena *arena, lk_grpc_status *out)
{
    char message[1024];
    out->code = lk_rc_code(err->rc);
    out->message = lk_arena_copy(arena, lk_bytes_of(lk_err_message(err, message, sizeof message)));
    out->lake_code = lk_bytes_of(lk_rc_name(err->rc));
    out->details_bin = (lk_bytes){"\x08\x05", 2};
}

static const lk_grpc_method methods[] = {
    {"/t.S/Echo", LK_GRPC_UNARY, echo, NULL, 4 * 1024 * 1024, 0, false},
    {"/t.S/Fail", LK_GRPC_UNARY, refuse, NULL, 0, 0, false},
    {.path = "/t.S/Quick", .kind = LK_GRPC_UNARY, .run = echo, .quick = true},
    {"/t.S/Flood", LK_GRPC_SERVER_STREAM, flood, NULL, 0, 0, false},
    {"/t.S/FloodImpatient", LK_GRPC_SERVER_STREAM, flood, NULL, 0, 200, false},
    {"/t.S/Sum", LK_GRPC_CLIENT_STREAM, sum, NULL, 0, 0, false},
    {"/t.S/SumImpatient", LK_GRPC_CLIENT_STREAM, sum, NULL, 0, 200, false},
    {"/t.S/Mirror", LK_GRPC_BIDI, mirror, NULL, 0, 0, false},
    {"/t.S/WaitCancel", LK_GRPC_UNARY, wait_cancel, NULL, 0, 0, false},
    {"/t.S/WaitHold", LK_GRPC_UNARY, wait_hold, NULL, 0, 0, false},
};

/* -- fixture -- */

typedef struct fixture {
    lk_grpc_server  *server;
    lk_grpc_channel *channel;
    lk_arena         arena;
    lk_err           err;
} fixture;

static lk_grpc_server_options server_options(void)
{
    return (lk_grpc_server_options){.address = "127.0.0.1:0",
        .methods = methods,
        .method_count = sizeof methods / sizeof *methods,
        .worker_count = 4,
        .backlog_max = 2,
        .message_bytes_max = 8 * 1024 * 1024,
        .admit = admit,
        .observe = observe,
        .translate = translate,
        .context = &released};
}

static int open_both(void **state)
{
    fixture               *f = calloc(1, sizeof *f);
    lk_grpc_server_options options = server_options();
    atomic_store(&released, 0);
    atomic_store(&cancelled_after_ms, -1);
    assert_int_equal(lk_grpc_server_open(&f->server, &options, &f->err), LK_OK);
    lk_grpc_channel_options channel = {.endpoint = lk_grpc_server_address(f->server)};
    assert_int_equal(lk_grpc_channel_open(&f->channel, &channel, &f->err), LK_OK);
    *state = f;
    return 0;
}

static int close_both(void **state)
{
    fixture *f = *state;
    atomic_store(&hold, false);
    lk_grpc_channel_close(f->channel);
    lk_grpc_server_close(f->server);
    lk_arena_close(&f->arena);
    free(f);
    return 0;
}

static lk_grpc_rpc *begin(fixture *f, const char *path, lk_bytes request, const lk_grpc_rpc_options *options)
{
    lk_grpc_rpc *rpc = NULL;
    assert_int_equal(lk_grpc_rpc_open(&rpc, f->channel, path, options, &f->err), LK_OK);
    lk_err refused = {0}; /* a server may refuse a call before it has read it: finish tells */
    if (lk_grpc_rpc_write_bytes(rpc, request, &refused) == LK_OK) {
        (void)(lk_grpc_rpc_writes_done(rpc, &refused) == LK_OK);
    }
    return rpc;
}

static void wait_value(atomic_int *what, int value)
{
    for (uint64_t until = now_ms() + 5000; atomic_load(what) != value && now_ms() < until;) {
        lk_clock_sleep_ms(lk_clock_real(), 2);
    }
    assert_int_equal(atomic_load(what), value);
}

/* -- tests -- */

static void a_unary_call_carries_bytes_and_metadata_both_ways(void **state)
{
    fixture            *f = *state;
    lk_grpc_header      header = {"x-lake-name", LK_LITERAL("arm")};
    lk_grpc_rpc_options options = {.headers = &header, .header_count = 1, .deadline_ms = now_ms() + 5000};
    lk_grpc_rpc        *rpc = begin(f, "/t.S/Echo", LK_LITERAL("hello\0world"), &options);
    lk_grpc_message     message;
    bool                found = false;
    lk_bytes            value;
    assert_int_equal(lk_grpc_rpc_read(rpc, &message, &found, &f->err), LK_OK);
    assert_true(found);
    lk_bytes got = lk_grpc_message_bytes(&message, &f->arena);
    assert_true(lk_bytes_equal(got, LK_LITERAL("hello\0world")));
    lk_grpc_message_release(&message);
    assert_int_equal(lk_grpc_rpc_finish(rpc, &f->err), LK_OK);
    assert_true(lk_grpc_rpc_metadata(rpc, "x-initial", &value) && lk_bytes_equal(value, LK_LITERAL("arm")));
    assert_true(lk_grpc_rpc_metadata(rpc, "x-trailing", &value) && lk_bytes_equal(value, LK_LITERAL("arm")));
    assert_false(lk_grpc_rpc_metadata(rpc, "x-illegal", &value));
    assert_true(lk_grpc_rpc_metadata(rpc, "x-raw-bin", &value));
    assert_true(lk_bytes_equal(value, LK_LITERAL("line\nbreak")));
    lk_grpc_rpc_close(rpc);
}

static void an_empty_message_is_a_message(void **state)
{
    fixture *f = *state;
    lk_bytes reply = LK_LITERAL("?");
    assert_int_equal(
        lk_grpc_unary(f->channel, "/t.S/Echo", NULL, LK_LITERAL(""), &f->arena, &reply, &f->err), LK_OK);
    assert_int_equal(reply.size, 0);
}

static void a_failure_tells_text_and_code_but_never_context(void **state)
{
    fixture *f = *state;
    lk_bytes reply;
    lk_rc    rc = lk_grpc_unary(f->channel, "/t.S/Fail", NULL, LK_LITERAL(""), &f->arena, &reply, &f->err);
    char     message[512];
    assert_int_equal(rc, LK_E_TABLE_NOT_FOUND);
    assert_string_equal(lk_err_message(&f->err, message, sizeof message), "table not found: robots.arm");
    assert_null(strstr(f->err.context, "secret"));
    assert_false(f->err.maybe_applied);
    wait_value(&observed, LK_E_TABLE_NOT_FOUND);
}

static void an_unknown_method_is_unimplemented(void **state)
{
    fixture *f = *state;
    lk_bytes reply;
    assert_int_equal(lk_grpc_unary(f->channel, "/t.S/Nope", NULL, LK_LITERAL(""), &f->arena, &reply, &f->err),
        LK_E_UNIMPLEMENTED);
}

static void whom_admit_refuses_reaches_no_handler(void **state)
{
    fixture                *f = *state;
    lk_grpc_channel        *channel = NULL;
    lk_bytes                reply;
    lk_grpc_channel_options options = {
        .endpoint = lk_grpc_server_address(f->server), .token = LK_LITERAL("bad")};
    assert_int_equal(lk_grpc_channel_open(&channel, &options, &f->err), LK_OK);
    assert_int_equal(lk_grpc_unary(channel, "/t.S/Echo", NULL, LK_LITERAL("x"), &f->arena, &reply, &f->err),
        LK_E_UNAUTHENTICATED);
    assert_int_equal(lk_grpc_unary(channel, "/t.S/Nope", NULL, LK_LITERAL("x"), &f->arena, &reply, &f->err),
        LK_E_UNAUTHENTICATED);
    lk_grpc_channel_close(channel);
}

static void a_stream_of_big_messages_arrives_whole_and_releases_each_once(void **state)
{
    fixture        *f = *state;
    lk_grpc_rpc    *rpc = begin(f, "/t.S/Flood", LK_LITERAL("20"), NULL);
    lk_grpc_message message;
    bool            found = true;
    int             count = 0;
    for (;;) {
        assert_int_equal(lk_grpc_rpc_read(rpc, &message, &found, &f->err), LK_OK);
        if (!found) {
            break;
        }
        char ends[8];
        assert_int_equal(message.size, BIG + 8);
        lk_grpc_message_copy(&message, 0, 4, ends);
        lk_grpc_message_copy(&message, message.size - 4, 4, ends + 4);
        assert_memory_equal(ends, "headtail", 8);
        lk_grpc_message_release(&message);
        count++;
    }
    assert_int_equal(count, 20);
    lk_grpc_rpc_close(rpc);
    wait_value(&released, 20);
}

static void a_reader_that_stops_reading_stops_the_writer(void **state)
{
    fixture     *f = *state;
    lk_grpc_rpc *rpc = begin(f, "/t.S/Flood", LK_LITERAL("1000"), NULL);
    wait_value(&running, 1);
    lk_clock_sleep_ms(lk_clock_real(), 200);
    assert_true(atomic_load(&released) <= 4); /* the flow-control window holds few messages of this size */
    assert_int_equal(atomic_load(&running), 1);
    uint64_t began = now_ms();
    lk_grpc_rpc_close(rpc); /* cancels */
    wait_value(&running, 0);
    assert_true(now_ms() - began < 100);
}

static void a_reader_that_is_idle_too_long_is_cut(void **state)
{
    fixture        *f = *state;
    lk_grpc_rpc    *rpc = begin(f, "/t.S/FloodImpatient", LK_LITERAL("1000"), NULL);
    lk_grpc_message message;
    bool            found = true;
    lk_rc           rc = LK_OK;
    wait_value(&running, 1);
    wait_value(&running, 0);
    while (rc == LK_OK && found) {
        rc = lk_grpc_rpc_read(rpc, &message, &found, &f->err);
        lk_grpc_message_release(&message);
    }
    assert_int_equal(rc, LK_E_DEADLINE);
    assert_int_equal(atomic_load(&observed), LK_E_DEADLINE);
    lk_grpc_rpc_close(rpc);
}

static void a_client_stream_is_read_to_its_end(void **state)
{
    fixture        *f = *state;
    lk_grpc_rpc    *rpc = NULL;
    lk_grpc_message message;
    bool            found = false;
    assert_int_equal(lk_grpc_rpc_open(&rpc, f->channel, "/t.S/Sum", NULL, &f->err), LK_OK);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(lk_grpc_rpc_write_bytes(rpc, LK_LITERAL("0123456789"), &f->err), LK_OK);
    }
    assert_int_equal(lk_grpc_rpc_writes_done(rpc, &f->err), LK_OK);
    assert_int_equal(lk_grpc_rpc_read(rpc, &message, &found, &f->err), LK_OK);
    assert_true(lk_bytes_equal(lk_grpc_message_bytes(&message, &f->arena), LK_LITERAL("50/500")));
    lk_grpc_message_release(&message);
    assert_int_equal(lk_grpc_rpc_finish(rpc, &f->err), LK_OK);
    lk_grpc_rpc_close(rpc);
}

static void a_client_stream_without_messages_ends_at_once(void **state)
{
    fixture        *f = *state;
    lk_grpc_rpc    *rpc = NULL;
    lk_grpc_message message;
    bool            found = false;
    assert_int_equal(lk_grpc_rpc_open(&rpc, f->channel, "/t.S/Sum", NULL, &f->err), LK_OK);
    assert_int_equal(lk_grpc_rpc_writes_done(rpc, &f->err), LK_OK);
    assert_int_equal(lk_grpc_rpc_read(rpc, &message, &found, &f->err), LK_OK);
    assert_true(lk_bytes_equal(lk_grpc_message_bytes(&message, &f->arena), LK_LITERAL("0/0")));
    lk_grpc_message_release(&message);
    lk_grpc_rpc_close(rpc);
}

/* A truncated stream must never pass for a whole one, so this is run often enough to meet every race. */
static void a_client_that_goes_away_is_never_taken_for_one_that_is_done(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 200; i++) {
        lk_grpc_rpc *rpc = NULL;
        atomic_store(&cancelled_after_ms, -1);
        atomic_store(&observed, -1);
        assert_int_equal(lk_grpc_rpc_open(&rpc, f->channel, "/t.S/Sum", NULL, &f->err), LK_OK);
        for (int k = 0; k < i % 5 + 1; k++) {
            assert_int_equal(lk_grpc_rpc_write_bytes(rpc, LK_LITERAL("0123456789"), &f->err), LK_OK);
        }
        if (i % 3 == 0) {
            lk_clock_sleep_ms(lk_clock_real(), 1);
        }
        lk_grpc_rpc_close(rpc);
        for (uint64_t until = now_ms() + 200; atomic_load(&observed) == -1 && now_ms() < until;) {
            lk_clock_sleep_ms(lk_clock_real(), 1);
        }
        assert_int_not_equal(atomic_load(&observed), LK_OK); /* -1: the call never reached a handler */
    }
}

static void a_stalled_client_stream_is_cut(void **state)
{
    fixture     *f = *state;
    lk_grpc_rpc *rpc = NULL;
    char         text[512];
    assert_int_equal(lk_grpc_rpc_open(&rpc, f->channel, "/t.S/SumImpatient", NULL, &f->err), LK_OK);
    assert_int_equal(lk_grpc_rpc_write_bytes(rpc, LK_LITERAL("x"), &f->err), LK_OK);
    assert_int_equal(lk_grpc_rpc_finish(rpc, &f->err), LK_E_DEADLINE);
    assert_non_null(strstr(lk_err_message(&f->err, text, sizeof text), "moved no data"));
    lk_grpc_rpc_close(rpc);
}

static void both_ways_at_once_works(void **state)
{
    fixture        *f = *state;
    lk_grpc_rpc    *rpc = NULL;
    lk_grpc_message message;
    bool            found = false;
    assert_int_equal(lk_grpc_rpc_open(&rpc, f->channel, "/t.S/Mirror", NULL, &f->err), LK_OK);
    for (int i = 0; i < 20; i++) {
        lk_bytes text = lk_arena_format(&f->arena, "message %d", i);
        assert_int_equal(lk_grpc_rpc_write_bytes(rpc, text, &f->err), LK_OK);
        assert_int_equal(lk_grpc_rpc_read(rpc, &message, &found, &f->err), LK_OK);
        assert_true(found && lk_bytes_equal(lk_grpc_message_bytes(&message, &f->arena), text));
        lk_grpc_message_release(&message);
    }
    assert_int_equal(lk_grpc_rpc_writes_done(rpc, &f->err), LK_OK);
    assert_int_equal(lk_grpc_rpc_finish(rpc, &f->err), LK_OK);
    lk_grpc_rpc_close(rpc);
}

static void a_cancelled_client_sets_the_flag_within_100_ms(void **state)
{
    fixture     *f = *state;
    lk_grpc_rpc *rpc = begin(f, "/t.S/WaitCancel", LK_LITERAL(""), NULL);
    wait_value(&running, 1);
    uint64_t began = now_ms();
    lk_grpc_rpc_close(rpc);
    wait_value(&running, 0);
    assert_true(now_ms() - began < 100);
    wait_value(&observed, LK_E_CANCELLED);
}

static void the_clients_deadline_reaches_the_handler(void **state)
{
    fixture            *f = *state;
    lk_grpc_rpc_options options = {.deadline_ms = now_ms() + 150};
    lk_bytes            reply;
    assert_int_equal(
        lk_grpc_unary(f->channel, "/t.S/WaitCancel", &options, LK_LITERAL(""), &f->arena, &reply, &f->err),
        LK_E_DEADLINE);
    wait_value(&running, 0);
    int after = atomic_load(&cancelled_after_ms);
    assert_true(after >= 50 && after < 350);
}

static void a_clients_own_cancel_flag_ends_its_call(void **state)
{
    fixture            *f = *state;
    lk_cancel           cancel = {0};
    lk_grpc_rpc_options options = {.cancel = &cancel};
    lk_grpc_rpc        *rpc = begin(f, "/t.S/WaitCancel", LK_LITERAL(""), &options);
    wait_value(&running, 1);
    cancel.set = true;
    uint64_t began = now_ms();
    assert_int_equal(lk_grpc_rpc_finish(rpc, &f->err), LK_E_CANCELLED);
    assert_true(now_ms() - began < 200);
    lk_grpc_rpc_close(rpc);
    wait_value(&running, 0);
}

static void calls_beyond_workers_and_backlog_are_refused(void **state)
{
    fixture     *f = *state;
    lk_grpc_rpc *rpcs[10];
    int          refused = 0, served = 0;
    atomic_store(&hold, true);
    for (int i = 0; i < 4; i++) {
        rpcs[i] = begin(f, "/t.S/WaitHold", LK_LITERAL(""), NULL);
        wait_value(&running, i + 1);
    }
    for (int i = 4; i < 10; i++) {
        rpcs[i] = begin(f, "/t.S/WaitHold", LK_LITERAL(""), NULL);
    }
    lk_clock_sleep_ms(lk_clock_real(), 100);
    lk_bytes reply;
    assert_int_equal(
        lk_grpc_unary(f->channel, "/t.S/Quick", NULL, LK_LITERAL("?"), &f->arena, &reply, &f->err), LK_OK);
    atomic_store(&hold, false);
    for (int i = 0; i < 10; i++) {
        lk_rc rc = lk_grpc_rpc_finish(rpcs[i], &f->err);
        refused += rc == LK_E_LIMIT;
        served += rc == LK_OK;
        lk_grpc_rpc_close(rpcs[i]);
    }
    assert_int_equal(served, 6); /* 4 workers and a backlog of 2 */
    assert_int_equal(refused, 4);
}

static void messages_over_the_methods_or_the_servers_limit_are_refused(void **state)
{
    fixture *f = *state;
    char    *big = calloc(1, 9 * 1024 * 1024);
    lk_bytes reply, over_method = {big, 5 * 1024 * 1024}, over_server = {big, 9 * 1024 * 1024};
    assert_int_equal(
        lk_grpc_unary(f->channel, "/t.S/Echo", NULL, over_method, &f->arena, &reply, &f->err), LK_E_LIMIT);
    assert_int_equal(
        lk_grpc_unary(f->channel, "/t.S/Echo", NULL, over_server, &f->arena, &reply, &f->err), LK_E_LIMIT);
    free(big);
}

static void a_taken_port_is_said_to_be_taken(void **state)
{
    fixture               *f = *state;
    lk_grpc_server        *second = NULL;
    lk_grpc_server_options options = server_options();
    options.address = lk_grpc_server_address(f->server);
    assert_int_equal(lk_grpc_server_open(&second, &options, &f->err), LK_E_ADDRESS_IN_USE);
    assert_null(second);
    options.address = "example.org:80";
    assert_int_equal(lk_grpc_server_open(&second, &options, &f->err), LK_E_INVALID_CONFIG);
    options.address = "203.0.113.7:0"; /* not ours (TEST-NET-3) */
    assert_int_equal(lk_grpc_server_open(&second, &options, &f->err), LK_E_INVALID_CONFIG);
}

static void a_server_that_is_not_there_is_unreachable_at_once(void **state)
{
    fixture                *f = *state;
    lk_grpc_channel        *channel = NULL;
    lk_bytes                reply;
    lk_grpc_channel_options options = {.endpoint = "grpc://127.0.0.1:1"};
    uint64_t                began = now_ms();
    assert_int_equal(lk_grpc_channel_open(&channel, &options, &f->err), LK_OK);
    assert_int_equal(lk_grpc_unary(channel, "/t.S/Echo", NULL, LK_LITERAL(""), &f->arena, &reply, &f->err),
        LK_E_UNREACHABLE);
    assert_false(f->err.maybe_applied);
    assert_true(now_ms() - began < 1000);
    lk_grpc_channel_close(channel);
}

static void endpoints_and_addresses_are_read_strictly(void **state)
{
    char     host[LK_ADDRESS_HOST_SIZE];
    uint16_t port = 0;
    bool     tls = false, loopback = false;
    lk_err   err = {0};
    assert_int_equal(lk_endpoint_parse("grpc+tls://lake.example.org/", host, &port, &tls, &err), LK_OK);
    assert_string_equal(host, "lake.example.org");
    assert_int_equal(port, 50051);
    assert_true(tls);
    assert_int_equal(lk_endpoint_parse("[::1]:7", host, &port, &tls, &err), LK_OK);
    assert_string_equal(host, "::1");
    assert_int_equal(port, 7);
    assert_false(tls);
    static const char *const bad[] = {"ftp://x:1", "grpc://", "grpc://x:0", "grpc://x:65536", "grpc://x:1x",
        "grpc://u:p@x:1", "[::1", "x:99999999999999999999", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(lk_endpoint_parse(bad[i], host, &port, &tls, &err), LK_E_INVALID_CONFIG);
    }
    assert_int_equal(lk_grpc_address_is_loopback("localhost:0", &loopback, &err), LK_OK);
    assert_true(loopback);
    assert_int_equal(lk_grpc_address_is_loopback("127.9.9.9:0", &loopback, &err), LK_OK);
    assert_true(loopback);
    assert_int_equal(lk_grpc_address_is_loopback("0.0.0.0:0", &loopback, &err), LK_OK);
    assert_false(loopback);
    assert_int_equal(lk_grpc_address_is_loopback("127.0.0.1", &loopback, &err), LK_E_INVALID_CONFIG);
}

static void draining_lets_running_calls_finish_and_takes_no_new_ones(void **state)
{
    fixture     *f = *state;
    lk_grpc_rpc *rpc = NULL;
    lk_bytes     reply;
    atomic_store(&hold, true);
    rpc = begin(f, "/t.S/WaitHold", LK_LITERAL(""), NULL);
    wait_value(&running, 1);
    assert_int_equal(lk_grpc_server_drain(f->server, now_ms() + 100, &f->err), LK_E_DEADLINE);
    assert_true(lk_grpc_server_draining(f->server));
    assert_int_not_equal(
        lk_grpc_unary(f->channel, "/t.S/Echo", NULL, LK_LITERAL("x"), &f->arena, &reply, &f->err), LK_OK);
    atomic_store(&hold, false);
    assert_int_not_equal(lk_grpc_rpc_finish(rpc, &f->err), LK_OK); /* it was cancelled at the deadline */
    lk_grpc_rpc_close(rpc);
}

static void draining_an_idle_server_takes_no_time(void **state)
{
    fixture *f = *state;
    lk_bytes reply;
    uint64_t began = now_ms();
    assert_int_equal(
        lk_grpc_unary(f->channel, "/t.S/Echo", NULL, LK_LITERAL("x"), &f->arena, &reply, &f->err), LK_OK);
    assert_int_equal(lk_grpc_server_drain(f->server, now_ms() + 5000, &f->err), LK_OK);
    assert_true(now_ms() - began < 1000);
}

static void draining_waits_for_a_stream_and_delivers_it_whole(void **state)
{
    fixture        *f = *state;
    lk_grpc_rpc    *rpc = NULL;
    lk_grpc_message message;
    bool            found = false;
    atomic_store(&hold, true);
    rpc = begin(f, "/t.S/WaitHold", LK_LITERAL(""), NULL);
    wait_value(&running, 1);
    atomic_store(&hold, false);
    assert_int_equal(lk_grpc_server_drain(f->server, now_ms() + 5000, &f->err), LK_OK);
    assert_int_equal(lk_grpc_rpc_read(rpc, &message, &found, &f->err), LK_OK);
    assert_true(found);
    lk_grpc_message_release(&message);
    assert_int_equal(lk_grpc_rpc_finish(rpc, &f->err), LK_OK);
    lk_grpc_rpc_close(rpc);
}

#define T(name) cmocka_unit_test_setup_teardown(name, open_both, close_both)

int main(void)
{
    lk_grpc_open();
    const struct CMUnitTest tests[] = {
        T(a_unary_call_carries_bytes_and_metadata_both_ways),
        T(an_empty_message_is_a_message),
        T(a_failure_tells_text_and_code_but_never_context),
        T(an_unknown_method_is_unimplemented),
        T(whom_admit_refuses_reaches_no_handler),
        T(a_stream_of_big_messages_arrives_whole_and_releases_each_once),
        T(a_reader_that_stops_reading_stops_the_writer),
        T(a_reader_that_is_idle_too_long_is_cut),
        T(a_client_stream_is_read_to_its_end),
        T(a_client_stream_without_messages_ends_at_once),
        T(a_client_that_goes_away_is_never_taken_for_one_that_is_done),
        T(a_stalled_client_stream_is_cut),
        T(both_ways_at_once_works),
        T(a_cancelled_client_sets_the_flag_within_100_ms),
        T(the_clients_deadline_reaches_the_handler),
        T(a_clients_own_cancel_flag_ends_its_call),
        T(calls_beyond_workers_and_backlog_are_refused),
        T(messages_over_the_methods_or_the_servers_limit_are_refused),
        T(a_taken_port_is_said_to_be_taken),
        T(a_server_that_is_not_there_is_unreachable_at_once),
        cmocka_unit_test(endpoints_and_addresses_are_read_strictly),
        T(draining_lets_running_calls_finish_and_takes_no_new_ones),
        T(draining_an_idle_server_takes_no_time),
        T(draining_waits_for_a_stream_and_delivers_it_whole),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lk_grpc_close();
    return failed;
}
