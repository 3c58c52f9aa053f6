/* rollout_add_test.c - adds in all their forms, coded, repeated, refused. (LK_TSAN) */
#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "serve/rollout_fixture.h"
#include "serve/rollout_media.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define RL     "/api/v1/rollouts/rl"
#define JSON   "Content-Type: application/json\r\n"
#define GOLDEN LK_SOURCE_DIR "/tests/golden/rollout/"
#define ONE    "{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\"}]}"

static int open_with_store(void **state)
{
    if (fixture_open_service(state) != 0) {
        return -1;
    }
    fixture_expect(fixture_post("/api/v1/rollouts", "{\"name\":\"rl\"}"), 201, NULL);
    return 0;
}

static lk_buf read_golden(const char *path)
{
    lk_buf bytes = {0};
    lk_err err = {0};
    assert_int_equal(lk_file_read(path, 1024 * 1024, &bytes, &err), LK_OK);
    return bytes;
}

static void arrow_and_json_bodies_store_the_same_rows(void **state)
{
    lk_buf arrow = read_golden(GOLDEN "records.arrow"), json = read_golden(GOLDEN "records.json");
    fixture_expect(fixture_post("/api/v1/rollouts", "{\"name\":\"rj\"}"), 201, NULL);
    fixture_expect(fixture_send("POST", RL "/records",
                       "Content-Type: application/vnd.apache.arrow.stream\r\n", lk_buf_view(&arrow)),
        201, "\"ids\":[\"a1\",\"a2\",\"a3\"],\"count\":3}");
    fixture_expect(fixture_send("POST", "/api/v1/rollouts/rj/records", JSON, lk_buf_view(&json)), 201, NULL);
    fixture_answer from_arrow = fixture_get(RL "/records");
    fixture_answer from_json = fixture_get("/api/v1/rollouts/rj/records");
    assert_string_equal(from_arrow.body.data, from_json.body.data);
    assert_non_null(strstr(from_json.body.data, "\"created_at\":\"2026-01-02T03:04:05.678901Z\""));
    fixture_expect(fixture_send("POST", RL "/records", JSON, lk_buf_view(&json)), 201, "\"count\":3}");
    fixture_answer again = fixture_get(RL "/records");
    assert_string_equal(from_arrow.body.data, again.body.data);
    fixture_answer_deinit(&again);
    fixture_answer_deinit(&from_arrow);
    fixture_answer_deinit(&from_json);
    for (size_t cut = 0; cut < arrow.size; cut += 97) {
        fixture_expect(
            fixture_send("POST", RL "/records", "Content-Type: application/vnd.apache.arrow.stream\r\n",
                (lk_bytes){arrow.data, cut}),
            400, "INVALID_REQUEST");
    }
    lk_buf_deinit(&arrow);
    lk_buf_deinit(&json);
}

static void a_record_a_line_is_taken(void **state)
{
    fixture_expect(
        fixture_send("POST", RL "/records", "Content-Type: application/x-ndjson\r\n",
            LK_LITERAL("{\"id\":\"a\",\"rollout_id\":\"r\"}\n{\"id\":\"b\",\"rollout_id\":\"r\"}\n")),
        201, "\"ids\":[\"a\",\"b\"]");
}

static void a_faulty_form_writes_nothing(void **state)
{
#define METADATA(json) \
    "--X\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n{\"records\":[" json "]}\r\n"
#define PART(name, bytes) "--X\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" bytes "\r\n"
#define RECORD            "{\"id\":\"a\",\"rollout_id\":\"r\"}"
    static const char *const bodies[] = {
        PART("0", "x") METADATA(RECORD) "--X--\r\n",
        METADATA(RECORD) PART("first", "x") "--X--\r\n",
        METADATA(RECORD) PART("1", "x") "--X--\r\n",
        METADATA(RECORD) PART("0", "x") PART("0", "x") "--X--\r\n",
        METADATA("{\"id\":\"a\",\"rollout_id\":\"r\",\"payload_size\":2}") PART("0", "x") "--X--\r\n",
        METADATA("{\"id\":\"a\",\"rollout_id\":\"r\",\"payload_size\":2}") "--X--\r\n",
        METADATA(RECORD) PART("0", "x"),
        "no parts at all",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        fixture_expect(fixture_send("POST", RL "/records",
                           "Content-Type: multipart/form-data; boundary=X\r\n", lk_bytes_of(bodies[i])),
            400, "INVALID_REQUEST");
    }
    fixture_expect(
        fixture_send("POST", RL "/records", "Content-Type: multipart/form-data\r\n", lk_bytes_of(bodies[0])),
        400, "boundary");
    fixture_expect(fixture_get(RL "/records"), 200, "{\"records\":[]}");
    fixture_expect(fixture_get(RL "/stats"), 200, "\"pending_generations\":0");
}

static void coded_bodies_are_decoded(void **state)
{
    for (lk_rollout_coding coding = LK_ROLLOUT_GZIP; coding <= LK_ROLLOUT_ZSTD; coding++) {
        lk_buf              coded = {0}, fields = {0};
        lk_rollout_encoder *encoder = lk_rollout_encoder_new(coding);
        lk_rollout_encode(encoder, LK_LITERAL(ONE), true, &coded);
        lk_rollout_encoder_free(encoder);
        lk_buf_format(&fields, JSON "Content-Encoding: %s\r\n", lk_rollout_coding_name(coding));
        fixture_expect(fixture_send("POST", RL "/records", fields.data, lk_buf_view(&coded)), 201, "[\"a\"]");
        fixture_expect(fixture_send("POST", RL "/records", fields.data, LK_LITERAL("plain")), 400, NULL);
        lk_buf_deinit(&coded);
        lk_buf_deinit(&fields);
    }
    fixture_expect(fixture_send("POST", RL "/records", JSON "Content-Encoding: br\r\n", LK_LITERAL("x")), 415,
        "UNSUPPORTED_MEDIA_TYPE");
}

static void an_equal_record_again_is_fine_and_another_one_a_conflict(void **state)
{
    fixture_expect(fixture_post(RL "/records", ONE), 201, NULL);
    fixture_expect(fixture_post(RL "/records", ONE), 201, "\"count\":1");
    fixture_expect(fixture_post(RL "/records", "{\"records\":[{\"id\":\"a\",\"rollout_id\":\"other\"}]}"),
        409,
        "{\"error\":{\"code\":\"CONFLICT\",\"message\":\"there is another record with the id \\\"a\\\"\"}}");
}

/* -- Idempotency-Key --------------------------------------------------------------------------------------------------- */

static void the_same_key_is_answered_as_the_first_time(void **state)
{
    const char *key = JSON "Idempotency-Key: k1\r\n";
    fixture_expect(fixture_send("POST", RL "/records?flush", key, LK_LITERAL(ONE)), 201, "\"ids\":[\"a\"]");
    fixture_expect(fixture_send("DELETE", RL, "", (lk_bytes){0}), 204, NULL);
    fixture_expect(fixture_send("POST", RL "/records", key, LK_LITERAL(ONE)), 201, "\"ids\":[\"a\"]");
    fixture_expect(fixture_send("POST", RL "/records", key, LK_LITERAL("{}")), 409, "CONFLICT");
    fixture_expect(
        fixture_send("POST", RL "/records", JSON "Idempotency-Key: k2\r\n", LK_LITERAL(ONE)), 404, NULL);
    fixture_expect(fixture_post("/api/v1/rollouts", "{\"name\":\"rl\"}"), 201, NULL);
    fixture_expect(fixture_send("POST", RL "/records", JSON "Idempotency-Key: k2\r\n", LK_LITERAL(ONE)), 201,
        NULL); /* a failure is not remembered */
    fixture_expect(
        fixture_send("POST", RL "/records", JSON "Idempotency-Key: \r\n", LK_LITERAL(ONE)), 400, NULL);
    fixture_expect(fixture_send("POST", RL "/records?flush=maybe", JSON, LK_LITERAL(ONE)), 400, "flush");
}

/* -- many at once ------------------------------------------------------------------------------------------------------ */

enum { CLIENTS = 16, ADDS = 8 };

static atomic_int winners, losers;

static int post_one(const char *id, int reward)
{
    lk_buf body = {0};
    lk_buf_format(&body, "{\"records\":[{\"id\":\"%s\",\"rollout_id\":\"r\",\"reward\":%d}]}", id, reward);
    fixture_answer a = fixture_post(RL "/records", body.data);
    int            status = a.status;
    fixture_answer_deinit(&a);
    lk_buf_deinit(&body);
    return status;
}

/* Records of its own, one that everybody brings, one that everybody brings in another version, and one that is none. */
static void add_some(void *context)
{
    const int *number = context;
    for (int i = 0; i < ADDS; i++) {
        char own[32], shared[32], disputed[32];
        (void)snprintf(own, sizeof own, "%d-%d", *number, i);
        (void)snprintf(shared, sizeof shared, "shared-%d", i);
        (void)snprintf(disputed, sizeof disputed, "disputed-%d", i);
        LK_ASSERT(post_one(own, i) == 201);
        LK_ASSERT(post_one(shared, i) == 201);
        int status = post_one(disputed, *number);
        LK_ASSERT(status == 201 || status == 409);
        atomic_fetch_add(status == 201 ? &winners : &losers, 1);
        if (i == ADDS / 2) {
            LK_ASSERT(post_one("", i) == 400);
        }
    }
}

static int open_gathering(void **state)
{
    fixture_options.limits.group_commit_us = 20000;
    return open_with_store(state);
}

static void adds_of_many_clients_are_each_stored_once(void **state)
{
    lk_rollout_store_stats stats;
    winners = losers = 0;
    lk_thread threads[CLIENTS];
    int       numbers[CLIENTS];
    lk_err    err = {0};
    for (int i = 0; i < CLIENTS; i++) {
        numbers[i] = i;
        assert_int_equal(lk_thread_start(&threads[i], "client", add_some, &numbers[i], &err), LK_OK);
    }
    for (int i = 0; i < CLIENTS; i++) {
        lk_thread_join(&threads[i]);
    }
    fixture_answer a = fixture_get(RL "/records?columns=id&format=ndjson&order=id");
    size_t         lines = 0;
    for (size_t i = 0; i < a.body.size; i++) {
        lines += a.body.data[i] == '\n';
    }
    assert_int_equal(lines, (CLIENTS + 2) * ADDS);
    assert_int_equal(winners, ADDS);
    assert_int_equal(losers, (CLIENTS - 1) * ADDS);
    lk_rollouts_read_store_stats(fixture_stores, &stats);
    assert_true(stats.writer.flushes < (CLIENTS + 2) * ADDS); /* several at once */
    fixture_answer_deinit(&a);
}

/* -- limits ------------------------------------------------------------------------------------------------------------ */

static int open_small(void **state)
{
    fixture_options.limits.body_max = 1000;
    fixture_options.limits.body_idle_ms = 300;
    fixture_options.limits.blob_bytes_max = 900;
    fixture_options.limits.queued_bytes_max = 1;
    return open_with_store(state);
}

static void a_body_above_the_limit_is_refused_before_it_is_read(void **state)
{
    int  fd = fixture_dial();
    char head[] =
        "POST " RL "/records HTTP/1.1\r\nHost: l\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n";
    assert_int_equal(send(fd, head, sizeof head - 1, MSG_NOSIGNAL), sizeof head - 1);
    fixture_expect(fixture_hear(fd, false), 413, "TOO_LARGE");
    close(fd);
}

static int begin_upload(const char *length)
{
    int    fd = fixture_dial();
    lk_buf head = {0};
    lk_buf_format(
        &head, "POST " RL "/records HTTP/1.1\r\nHost: l\r\n" JSON "Content-Length: %s\r\n\r\n{", length);
    assert_int_equal(send(fd, head.data, head.size, MSG_NOSIGNAL), head.size);
    lk_buf_deinit(&head);
    return fd;
}

static void a_stalled_upload_gives_its_room_back(void **state)
{
    int stalled = begin_upload("800");
    lk_clock_sleep_ms(lk_clock_real(), 50);
    int            refused = begin_upload("800"); /* no room beside it */
    fixture_answer a = fixture_hear(refused, false);
    assert_non_null(strstr(a.head.data, "Retry-After: "));
    fixture_expect(a, 503, "OVERLOADED");
    fixture_expect(fixture_hear(stalled, false), 408, "REQUEST_TIMEOUT");
    fixture_expect(fixture_post(RL "/records", ONE), 201, NULL);
    fixture_answer metrics = fixture_get("/metrics");
    assert_non_null(strstr(metrics.body.data, "\nhttp_request_body_timeouts_total 1\n"));
    assert_non_null(strstr(metrics.body.data, "\nrollout_blob_budget_rejections_total 1\n"));
    assert_non_null(strstr(metrics.body.data, "\nrollout_appends_total 1\n"));
    assert_non_null(
        strstr(metrics.body.data, "rollout_storage_operations_total{kind=\"write\",result=\"error\"} 0\n"));
    assert_non_null(strstr(metrics.body.data, "http_requests_total{route=\"stores\",status=\"2xx\"} 1\n"));
    fixture_answer_deinit(&metrics);
    close(stalled);
    close(refused);
}

static void add_much(void *context)
{
    const lk_buf *body = context;
    int           status = 429;
    while (status == 429) { /* beside a small one it is put off, too */
        fixture_answer a = fixture_send("POST", RL "/records", JSON, lk_buf_view(body));
        status = a.status;
        fixture_answer_deinit(&a);
    }
    LK_ASSERT(status == 201);
}

static int open_with_short_queue(void **state)
{
    fixture_options.limits.queued_bytes_max = 1;
    return open_with_store(state);
}

static void an_add_beside_too_much_that_waits_is_put_off(void **state)
{
    lk_thread thread;
    lk_err    err = {0};
    lk_buf    body = {0};
    bool      refused = false;
    lk_buf_append_text(&body, "{\"records\":[");
    for (int i = 0; i < 60000; i++) {
        lk_buf_format(&body, "%s{\"id\":\"%d\",\"rollout_id\":\"r\",\"output_tokens\":[1,2,3,4,5,6,7,8,9]}",
            i == 0 ? "" : ",", i);
    }
    lk_buf_append_text(&body, "]}");
    assert_int_equal(lk_thread_start(&thread, "client", add_much, &body, &err), LK_OK);
    for (int i = 0; i < 2000 && !refused; i++) {
        fixture_answer a = fixture_post(RL "/records", ONE);
        refused = a.status == 429;
        assert_true(refused || a.status == 201);
        assert_true(!refused || strstr(a.head.data, "Retry-After: ") != NULL);
        assert_true(!refused || strstr(a.body.data, "BACKPRESSURE") != NULL);
        fixture_answer_deinit(&a);
    }
    lk_thread_join(&thread);
    assert_true(refused);
    fixture_expect(fixture_post(RL "/records", ONE), 201, NULL);
    lk_buf_deinit(&body);
}

int main(void)
{
#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, open_with_store, fixture_close_service)
#define SMALL(test)      cmocka_unit_test_setup_teardown(test, open_small, fixture_close_service)
    const struct CMUnitTest tests[] = {
        WITH_STORE(arrow_and_json_bodies_store_the_same_rows),
        WITH_STORE(a_record_a_line_is_taken),
        WITH_STORE(a_faulty_form_writes_nothing),
        WITH_STORE(coded_bodies_are_decoded),
        WITH_STORE(an_equal_record_again_is_fine_and_another_one_a_conflict),
        WITH_STORE(the_same_key_is_answered_as_the_first_time),
        WITH_STORE(adds_of_many_clients_are_each_stored_once),
        cmocka_unit_test_setup_teardown(
            adds_of_many_clients_are_each_stored_once, open_gathering, fixture_close_service),
        cmocka_unit_test_setup_teardown(
            an_add_beside_too_much_that_waits_is_put_off, open_with_short_queue, fixture_close_service),
        SMALL(a_body_above_the_limit_is_refused_before_it_is_read),
        SMALL(a_stalled_upload_gives_its_room_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
