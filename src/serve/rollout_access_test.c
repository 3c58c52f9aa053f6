/* rollout_access_test.c - who may do what; requests that are no requests. */
#include "base/clock.h"
#include "serve/rollout_error.h"
#include "serve/rollout_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define RL     "/api/v1/rollouts/rl"
#define READER "Authorization: Bearer reader-secret\r\n"
#define WRITER "Authorization: bearer writer-secret\r\n"
#define ADMIN  "Authorization: Bearer admin-secret\r\n"
#define NOBODY ((lk_bytes){0})
#define ONE    LK_LITERAL("{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\"}]}")

static int open_with_tokens(void **state)
{
    static const lk_rollout_token tokens[] = {{{"reader-secret", 13}, LK_ROLLOUT_READ},
        {{"writer-secret", 13}, LK_ROLLOUT_WRITE}, {{"admin-secret", 12}, LK_ROLLOUT_ADMIN}};
    fixture_options.tokens = tokens;
    fixture_options.token_count = 3;
    return fixture_open_service(state);
}

static void health_is_open_and_the_rest_needs_a_token(void **state)
{
    fixture_expect(fixture_get("/api/v1/health"), 200, NULL);
    fixture_expect(fixture_get("/api/v1/ready"), 200, NULL);
    fixture_answer a = fixture_get("/api/v1/rollouts");
    assert_non_null(strstr(a.head.data, "WWW-Authenticate: Bearer\r\n"));
    fixture_expect(a, 401, "UNAUTHENTICATED");
    fixture_expect(fixture_get("/metrics"), 401, NULL);
    fixture_expect(
        fixture_send("GET", "/api/v1/rollouts", "Authorization: Bearer reader-secre\r\n", NOBODY), 401, NULL);
    fixture_expect(fixture_send("GET", "/api/v1/rollouts", "Authorization: Bearer \r\n", NOBODY), 401, NULL);
    fixture_expect(
        fixture_send("GET", "/api/v1/rollouts", "Authorization: Basic reader-secret\r\n", NOBODY), 401, NULL);
    fixture_expect(fixture_send("GET", "/api/v1/rollouts", READER, NOBODY), 200, NULL);
    fixture_expect(fixture_send("GET", "/metrics", READER, NOBODY), 200, NULL);
}

static void a_role_may_what_the_lesser_ones_may_and_no_more(void **state)
{
    lk_bytes store = LK_LITERAL("{\"name\":\"rl\"}");
    fixture_expect(fixture_send("POST", "/api/v1/rollouts", READER, store), 403, "FORBIDDEN");
    fixture_expect(fixture_send("POST", "/api/v1/rollouts", WRITER, store), 201, NULL);
    fixture_expect(fixture_send("POST", RL "/records", READER, ONE), 403, "write");
    fixture_expect(fixture_send("POST", RL "/records", WRITER, ONE), 201, NULL);
    fixture_expect(fixture_send("GET", RL "/records", WRITER, NOBODY), 200, NULL);
    fixture_expect(fixture_send("POST", RL "/merge", WRITER, NOBODY), 403, "admin");
    fixture_expect(fixture_send("POST", RL "/merge", ADMIN, NOBODY), 200, NULL);
    fixture_expect(fixture_send("DELETE", RL, WRITER, NOBODY), 403, NULL);
    fixture_expect(fixture_send("DELETE", RL, ADMIN, NOBODY), 204, NULL);
}

static int open_with_cors(void **state)
{
    fixture_options.cors = true;
    return fixture_open_service(state);
}

static void browsers_of_other_origins_are_told_what_they_may(void **state)
{
    fixture_answer a = fixture_send("OPTIONS", RL "/records", "Origin: http://x\r\n", NOBODY);
    assert_non_null(strstr(a.head.data, "Access-Control-Allow-Origin: *\r\n"));
    assert_non_null(strstr(a.head.data, "Access-Control-Allow-Methods: POST, GET, HEAD\r\n"));
    fixture_expect(a, 204, NULL);
    a = fixture_get("/api/v1/rollouts");
    assert_non_null(strstr(a.head.data, "Access-Control-Allow-Origin: *\r\n"));
    fixture_answer_deinit(&a);
}

static void no_origin_is_told_anything_unless_it_was_asked_for(void **state)
{
    fixture_answer a = fixture_get("/api/v1/rollouts");
    assert_null(strstr(a.head.data, "Access-Control"));
    fixture_answer_deinit(&a);
}

static void heads_that_are_too_long_are_refused(void **state)
{
    lk_buf field = {0};
    lk_buf_append_text(&field, "X-Long: ");
    for (int i = 0; i < 33 * 1024; i++) {
        lk_buf_append_text(&field, "x");
    }
    lk_buf_append_text(&field, "\r\n");
    fixture_expect(fixture_send("GET", "/api/v1/health", field.data, NOBODY), 431, "TOO_LARGE");
    lk_buf_deinit(&field);
}

static void a_server_that_goes_down_is_not_ready(void **state)
{
    lk_err err = {0};
    int    fd = fixture_dial();
    char   request[] = "GET /api/v1/ready HTTP/1.1\r\nHost: l\r\n\r\n";
    assert_int_equal(send(fd, request, 10, MSG_NOSIGNAL), 10); /* the connection is in use */
    lk_clock_sleep_ms(lk_clock_real(), 100);
    lk_rc rc = lk_rollout_service_drain(fixture_service, lk_clock_monotonic_ms(lk_clock_real()) + 50, &err);
    assert_int_equal(rc, LK_OK);
    assert_int_equal(send(fd, request + 10, sizeof request - 11, MSG_NOSIGNAL), sizeof request - 11);
    fixture_answer a = fixture_hear(fd, false);
    assert_non_null(strstr(a.head.data, "Connection: close\r\n"));
    assert_non_null(strstr(a.head.data, "Retry-After: "));
    fixture_expect(a, 503, "OVERLOADED");
    close(fd);
}

static void every_failure_has_its_code(void **state)
{
    static const struct {
        lk_rc       rc;
        int         status;
        const char *code;
    } cases[] = {{LK_E_INVALID_REQUEST, 400, "INVALID_REQUEST"},
        {LK_E_UNAUTHENTICATED, 401, "UNAUTHENTICATED"}, {LK_E_DENIED, 403, "FORBIDDEN"},
        {LK_E_NOT_FOUND, 404, "NOT_FOUND"}, {LK_E_TABLE_EXISTS, 409, "ALREADY_EXISTS"},
        {LK_E_CONFLICT, 409, "CONFLICT"}, {LK_E_COMPACTION_IN_PROGRESS, 409, "COMPACTION_IN_PROGRESS"},
        {LK_E_SHARD_FENCED, 409, "SHARD_FENCED"}, {LK_E_SNAPSHOT_GONE, 410, "GONE"},
        {LK_E_TOO_LARGE, 413, "TOO_LARGE"}, {LK_E_UNSUPPORTED_MEDIA, 415, "UNSUPPORTED_MEDIA_TYPE"},
        {LK_E_BACKPRESSURE, 429, "BACKPRESSURE"}, {LK_E_INTERNAL, 500, "INTERNAL"},
        {LK_E_CORRUPT_FILE, 500, "INTERNAL"}, {LK_E_LIMIT, 503, "OVERLOADED"},
        {LK_E_STORE_UNAVAILABLE, 503, "STORAGE_UNAVAILABLE"}, {LK_E_STORE_FULL, 503, "STORAGE_UNAVAILABLE"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(lk_rollout_status_of(cases[i].rc).status, cases[i].status);
        assert_string_equal(lk_rollout_status_of(cases[i].rc).code, cases[i].code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            health_is_open_and_the_rest_needs_a_token, open_with_tokens, fixture_close_service),
        cmocka_unit_test_setup_teardown(
            a_role_may_what_the_lesser_ones_may_and_no_more, open_with_tokens, fixture_close_service),
        cmocka_unit_test_setup_teardown(
            browsers_of_other_origins_are_told_what_they_may, open_with_cors, fixture_close_service),
        cmocka_unit_test_setup_teardown(
            no_origin_is_told_anything_unless_it_was_asked_for, fixture_open_service, fixture_close_service),
        cmocka_unit_test_setup_teardown(
            heads_that_are_too_long_are_refused, fixture_open_service, fixture_close_service),
        cmocka_unit_test_setup_teardown(
            a_server_that_goes_down_is_not_ready, fixture_open_service, fixture_close_service),
        cmocka_unit_test(every_failure_has_its_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
