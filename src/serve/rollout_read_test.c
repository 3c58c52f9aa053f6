/* rollout_read_test.c - what readers ask for: pages, forms, payloads and their ranges, tails, counts, versions. (LK_TSAN) */
#include "arrow/ipc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "serve/rollout_fixture.h"
#include "serve/rollout_media.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#define RL "/api/v1/rollouts/rl"

static void add(const char *records)
{
    lk_buf body = {0};
    lk_buf_format(&body, "{\"records\":[%s]}", records);
    fixture_expect(fixture_post(RL "/records", body.data), 201, NULL);
    lk_buf_deinit(&body);
}

static int open_with_rows(void **state)
{
    if (fixture_open_service(state) != 0) {
        return -1;
    }
    fixture_expect(fixture_post("/api/v1/rollouts", "{\"name\":\"rl\"}"), 201, NULL);
    add("{\"id\":\"b\",\"rollout_id\":\"r\",\"created_at\":\"2026-01-01T00:00:01Z\",\"policy_version\":"
        "\"p1\","
        "\"sequence_order\":2,\"binary_payload\":\"MDEyMzQ1Njc4OQ==\",\"payload_checksum\":\"v1\","
        "\"content_type\":\"image/png\"},"
        "{\"id\":\"a\",\"rollout_id\":\"r\",\"created_at\":\"2026-01-01T00:00:02Z\",\"policy_version\":"
        "\"p2\","
        "\"sequence_order\":1,\"binary_payload\":\"\"}");
    add("{\"id\":\"c\",\"rollout_id\":\"other\",\"created_at\":\"2026-01-01T00:00:03Z\",\"policy_version\":"
        "\"p2\"}");
    return 0;
}

/* -- lists -------------------------------------------------------------------------------------------------------------- */

static void filters_order_and_pages_choose_rows(void **state)
{
    fixture_expect(fixture_get(RL "/records?columns=id"), 200,
        "{\"records\":[{\"id\":\"b\"},{\"id\":\"a\"},{\"id\":\"c\"}]}");
    fixture_expect(fixture_get(RL "/records?columns=id&order=id&limit=2&offset=1"), 200,
        "{\"records\":[{\"id\":\"b\"},{\"id\":\"c\"}]");
    fixture_expect(fixture_get(RL "/records?columns=id&filters=%7B%22policy_version%22:%22p2%22%7D"), 200,
        "{\"records\":[{\"id\":\"a\"},{\"id\":\"c\"}]}");
    fixture_expect(fixture_get(RL "/records?filters=%7B%22nothing%22:1%7D"), 400, "INVALID_REQUEST");
    fixture_expect(fixture_get(RL "/records?limit=-1"), 400, "INVALID_REQUEST");
    fixture_expect(fixture_get(RL "/trajectories/r"), 200, "{\"records\":[{\"id\":\"a\",");
    fixture_expect(fixture_get(RL "/trajectories/r?format=ndjson"), 200, "\"id\":\"b\"");
    fixture_expect(fixture_get(RL "/trajectories/none"), 200, "{\"records\":[]}");
}

static lk_buf next_path(const fixture_answer *page)
{
    lk_buf      path = {0};
    const char *key = "\"next_cursor\":\"", *found = strstr(page->body.data, key);
    if (found != NULL) {
        found += strlen(key);
        lk_buf_format(&path, RL "/records?columns=id&limit=2&cursor=%.*s", (int)strcspn(found, "\""), found);
    }
    return path;
}

static void a_cursor_goes_on_with_its_own_snapshot(void **state)
{
    fixture_answer first = fixture_get(RL "/records?columns=id&limit=2");
    assert_non_null(
        strstr(first.body.data, "{\"records\":[{\"id\":\"b\"},{\"id\":\"a\"}],\"next_cursor\":\""));
    add("{\"id\":\"d\",\"rollout_id\":\"r\",\"created_at\":\"2026-01-01T00:00:04Z\"}");
    lk_buf         path = next_path(&first);
    fixture_answer second = fixture_get(path.data);
    assert_string_equal(second.body.data, "{\"records\":[{\"id\":\"c\"}]}");
    fixture_expect(fixture_get(RL "/records?cursor=damaged"), 400, "INVALID_REQUEST");
    fixture_expect(fixture_get(RL "/records?limit=1&format=ndjson"), 200, "\"id\":\"b\"");
    fixture_answer_deinit(&first);
    fixture_answer_deinit(&second);
    lk_buf_deinit(&path);
}

static void lists_go_out_as_lines_arrow_and_coded(void **state)
{
    fixture_expect(
        fixture_send("GET", RL "/records?columns=id", "Accept: application/x-ndjson\r\n", (lk_bytes){0}), 200,
        "{\"id\":\"b\"}\n{\"id\":\"a\"}\n{\"id\":\"c\"}\n");
    fixture_answer a =
        fixture_send("GET", RL "/records", "Accept: application/vnd.apache.arrow.stream\r\n", (lk_bytes){0});
    lk_err            err = {0};
    lk_batches       *batches = NULL;
    struct ArrowArray batch = {0};
    assert_int_equal(
        lk_ipc_open(lk_ipc_source_bytes(lk_buf_view(&a.body)), &(lk_ipc_options){0}, &batches, &err), LK_OK);
    assert_int_equal(lk_batches_next(batches, &batch, &err), LK_OK);
    assert_int_equal(batch.length, 3);
    assert_string_equal(batches->schema.children[5]->name, "role");
    assert_string_equal(batches->schema.children[5]->format, "c"); /* as in the table: 8-bit indices */
    assert_non_null(batches->schema.children[5]->dictionary);
    assert_true((batches->schema.children[0]->flags & ARROW_FLAG_NULLABLE) == 0);
    lk_array_release(&batch);
    lk_batches_close(batches);
    fixture_answer_deinit(&a);

    lk_buf text = {0}, decoded = {0}; /* long enough to be worth it */
    lk_buf_append_text(&text, "{\"id\":\"long\",\"rollout_id\":\"r\",\"content\":\"");
    for (int i = 0; i < 10000; i++) {
        lk_buf_append_text(&text, "0123456789");
    }
    lk_buf_append_text(&text, "\"}");
    add(text.data);
    a = fixture_send("GET", RL "/records", "Accept-Encoding: gzip, deflate\r\n", (lk_bytes){0});
    assert_non_null(strstr(a.head.data, "Content-Encoding: gzip\r\n"));
    assert_true(a.body.size < 10000);
    assert_int_equal(
        lk_rollout_body_decode(lk_buf_view(&a.body), LK_ROLLOUT_GZIP, 1000000, &decoded, &err), LK_OK);
    assert_int_equal(strncmp(decoded.data, "{\"records\":[{\"id\":\"b\"", 20), 0);
    fixture_answer_deinit(&a);
    lk_buf_deinit(&text);
    lk_buf_deinit(&decoded);
    fixture_expect(fixture_get(RL "/records?format=parquet"), 415, "UNSUPPORTED_MEDIA_TYPE");
}

static void more_roles_than_indices_go_out_in_several_batches(void **state)
{
    lk_err      err = {0};
    lk_batches *batches = NULL;
    size_t      rows = 0, pieces = 0;
    for (int part = 0; part < 2; part++) { /* a request may bring 128 */
        lk_buf records = {0};
        for (int i = 0; i < 100; i++) {
            lk_buf_format(&records, "%s{\"id\":\"%d-%d\",\"rollout_id\":\"many\",\"role\":\"role %d-%d\"}",
                i == 0 ? "" : ",", part, i, part, i);
        }
        add(records.data);
        lk_buf_deinit(&records);
    }
    fixture_answer a =
        fixture_get(RL "/records?format=arrow&columns=role&filters=%7B%22rollout_id%22:%22many%22%7D");
    assert_int_equal(
        lk_ipc_open(lk_ipc_source_bytes(lk_buf_view(&a.body)), &(lk_ipc_options){0}, &batches, &err), LK_OK);
    for (bool more = true; more;) {
        struct ArrowArray batch = {0};
        assert_int_equal(lk_batches_next(batches, &batch, &err), LK_OK);
        more = batch.release != NULL;
        rows += more ? (size_t)batch.length : 0;
        pieces += more;
        lk_array_release(&batch);
    }
    assert_int_equal(rows, 200);
    assert_int_equal(pieces, 2);
    lk_batches_close(batches);
    fixture_answer_deinit(&a);
}

/* -- payloads ----------------------------------------------------------------------------------------------------------- */

static fixture_answer blob(const char *fields)
{
    return fixture_send("GET", RL "/records/b/blob", fields, (lk_bytes){0});
}

static void a_payload_goes_out_whole_or_by_range(void **state)
{
    fixture_answer a = blob("");
    assert_non_null(strstr(a.head.data, "Content-Type: application/octet-stream\r\n"));
    assert_non_null(strstr(a.head.data, "ETag: \"v1\"\r\n"));
    assert_non_null(strstr(a.head.data, "X-Content-Type-Options: nosniff\r\n"));
    assert_string_equal(a.body.data, "0123456789");
    fixture_answer_deinit(&a);
    static const struct {
        const char *range, *bytes, *content_range;
    } cases[] = {{"bytes=5-9", "56789", "bytes 5-9/10"}, {"bytes=5-999", "56789", "bytes 5-9/10"},
        {"bytes=0-0", "0", "bytes 0-0/10"}, {"bytes=8-", "89", "bytes 8-9/10"},
        {"bytes=-3", "789", "bytes 7-9/10"}, {"bytes=-100", "0123456789", "bytes 0-9/10"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_buf fields = {0};
        lk_buf_format(&fields, "Range: %s\r\n", cases[i].range);
        a = blob(fields.data);
        assert_int_equal(a.status, 206);
        assert_string_equal(a.body.data, cases[i].bytes);
        assert_non_null(strstr(a.head.data, cases[i].content_range));
        fixture_answer_deinit(&a);
        lk_buf_deinit(&fields);
    }
}

static void what_is_no_range_or_outside_is_told(void **state)
{
    static const char *const whole[] = {"Range: bytes=1-2,4-5\r\n", "Range: lines=1-2\r\n",
        "Range: bytes=5-4\r\n", "Range: bytes=-\r\n", "Range: bytes=a-b\r\n",
        "Range: bytes=1-2\r\nIf-Range: \"v0\"\r\n"};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        fixture_expect(blob(whole[i]), 200, "0123456789");
    }
    fixture_expect(blob("Range: bytes=1-2\r\nIf-Range: \"v1\"\r\n"), 206, "12");
    fixture_answer a = blob("Range: bytes=999999-\r\n");
    assert_non_null(strstr(a.head.data, "Content-Range: bytes */10\r\n"));
    fixture_expect(a, 416, "RANGE_NOT_SATISFIABLE");
    fixture_expect(blob("Range: bytes=-0\r\n"), 416, NULL);
    fixture_expect(blob("If-None-Match: \"v0\", \"v1\"\r\n"), 304, NULL);
    a = fixture_send("HEAD", RL "/records/b/blob?ct=row", "", (lk_bytes){0});
    assert_non_null(strstr(a.head.data, "Content-Length: 10\r\n"));
    assert_non_null(strstr(a.head.data, "Content-Type: image/png\r\n"));
    assert_true(a.status == 200 && a.body.size == 0);
    fixture_answer_deinit(&a);
    a = fixture_get(RL "/records/a/blob"); /* empty is not null */
    assert_non_null(strstr(a.head.data, "ETag: \""));
    assert_true(a.status == 200 && a.body.size == 0);
    fixture_answer_deinit(&a);
    fixture_expect(fixture_get(RL "/records/c/blob"), 404, "NOT_FOUND");
}

/* -- tails and counts ---------------------------------------------------------------------------------------------------- */

static char tail_path[32 * 1024];

static lk_bytes cursor_of(const fixture_answer *a)
{
    const char *key = "\"next_cursor\":\"", *found = strstr(a->body.data, key);
    assert_non_null(found);
    found += strlen(key);
    return (lk_bytes){found, strcspn(found, "\"")};
}

static void make_tail_path(const fixture_answer *a, const char *more)
{
    lk_bytes cursor = cursor_of(a);
    (void)snprintf(tail_path, sizeof tail_path, RL "/tail?columns=id&%s&cursor=%.*s", more, LK_FMT(cursor));
}

static fixture_answer tail_answer;

static void wait_for_rows(void *context)
{
    (void)context;
    tail_answer = fixture_get(tail_path);
}

static void a_learner_waits_until_rows_come(void **state)
{
    lk_thread      thread;
    lk_err         err = {0};
    fixture_answer start = fixture_get(RL "/tail");
    assert_int_equal(strncmp(start.body.data, "{\"records\":[],\"next_cursor\":\"", 29), 0);
    make_tail_path(&start, "timeout_ms=60");
    fixture_expect(fixture_get(tail_path), 200, "{\"records\":[],\"next_cursor\":\"");
    make_tail_path(&start, "timeout_ms=10000&filters=%7B%22policy_version%22:%22new%22%7D");
    assert_int_equal(lk_thread_start(&thread, "learner", wait_for_rows, NULL, &err), LK_OK);
    lk_clock_sleep_ms(lk_clock_real(), 100);
    add("{\"id\":\"x\",\"rollout_id\":\"r\"}"); /* not what it waits for */
    lk_clock_sleep_ms(lk_clock_real(), 50);
    add("{\"id\":\"y\",\"rollout_id\":\"r\",\"policy_version\":\"new\"}");
    lk_thread_join(&thread);
    assert_non_null(strstr(tail_answer.body.data, "{\"records\":[{\"id\":\"y\"}],\"next_cursor\":\""));
    fixture_answer_deinit(&tail_answer);
    fixture_answer_deinit(&start);
    fixture_expect(fixture_get(RL "/tail?limit=1"), 400, NULL);
    fixture_expect(fixture_get(RL "/tail?timeout_ms=x"), 400, NULL);
}

static void those_who_wait_are_answered_when_the_server_goes_down(void **state)
{
    lk_thread      thread;
    lk_err         err = {0};
    fixture_answer start = fixture_get(RL "/tail");
    make_tail_path(&start, "timeout_ms=60000");
    assert_int_equal(lk_thread_start(&thread, "learner", wait_for_rows, NULL, &err), LK_OK);
    lk_clock_sleep_ms(lk_clock_real(), 100);
    uint64_t now = lk_clock_monotonic_ms(lk_clock_real());
    assert_int_equal(lk_rollout_service_drain(fixture_service, now + 5000, &err), LK_OK);
    lk_thread_join(&thread);
    assert_int_equal(tail_answer.status, 200);
    fixture_answer_deinit(&tail_answer);
    fixture_answer_deinit(&start);
}

static void rows_are_counted_by_policy_version(void **state)
{
    fixture_expect(fixture_get(RL "/stats?group_by=policy_version"), 200,
        "\"group_by\":\"policy_version\",\"groups\":[{\"value\":\"p1\",\"rows\":1,\"first_created_at\":"
        "\"2026-01-01T00:00:01Z\",\"last_created_at\":\"2026-01-01T00:00:01Z\"},{\"value\":\"p2\",\"rows\":"
        "2,");
    fixture_expect(fixture_get(RL "/stats?group_by=reward"), 400, "group_by");
}

/* -- versions ------------------------------------------------------------------------------------------------------------ */

static void a_version_is_read_by_who_asks_for_it(void **state)
{
    fixture_expect(fixture_post(RL "/merge", ""), 200, "{\"reclaimed\":2}");
    add("{\"id\":\"d\",\"rollout_id\":\"r\",\"created_at\":\"2026-01-01T00:00:04Z\"}");
    fixture_expect(fixture_post(RL "/merge", "{}"), 200, "{\"reclaimed\":1}");
    fixture_expect(fixture_get(RL "/records?columns=id&version=3"), 200,
        "{\"records\":[{\"id\":\"b\"},{\"id\":\"a\"},{\"id\":\"c\"}]}");
    fixture_expect(fixture_post(RL "/checkout", "{\"version\":3}"), 200, "{\"version\":3}");
    fixture_expect(
        fixture_get(RL "/records?columns=id"), 200, "{\"id\":\"d\"}]}"); /* others see what there is */
    fixture_expect(fixture_post(RL "/checkout", "{\"version\":99}"), 404, "NOT_FOUND");
    fixture_expect(fixture_get(RL "/records?version=99"), 404, "NOT_FOUND");
    fixture_expect(fixture_get(RL "/compact/stats"), 200, "\"total_fragments\":2,\"is_compacting\":false");
    fixture_expect(fixture_post(RL "/compact", "{\"target_rows_per_fragment\":1000}"), 200,
        "{\"fragments_removed\":2,\"fragments_added\":1,");
    fixture_expect(fixture_get(RL "/compact/stats"), 200, "\"total_fragments\":1,");
}

static int open_shared(void **state)
{
    fixture_options.shared_checkout = true;
    return open_with_rows(state);
}

static void a_shared_checkout_moves_every_reader_until_the_newest(void **state)
{
    fixture_expect(fixture_post(RL "/merge", ""), 200, NULL);
    fixture_expect(fixture_post(RL "/checkout", "{\"version\":1}"), 200, NULL);
    fixture_expect(fixture_get(RL "/records"), 200, "{\"records\":[]}");
    fixture_expect(fixture_get(RL "/records/a"), 200, "{\"record\":null}");
    fixture_expect(fixture_post(RL "/checkout", "{\"version\":3}"), 200, NULL);
    fixture_expect(fixture_get(RL "/records/a"), 200, "\"id\":\"a\"");
}

int main(void)
{
#define WITH_ROWS(test) cmocka_unit_test_setup_teardown(test, open_with_rows, fixture_close_service)
    const struct CMUnitTest tests[] = {
        WITH_ROWS(filters_order_and_pages_choose_rows),
        WITH_ROWS(a_cursor_goes_on_with_its_own_snapshot),
        WITH_ROWS(lists_go_out_as_lines_arrow_and_coded),
        WITH_ROWS(more_roles_than_indices_go_out_in_several_batches),
        WITH_ROWS(a_payload_goes_out_whole_or_by_range),
        WITH_ROWS(what_is_no_range_or_outside_is_told),
        WITH_ROWS(a_learner_waits_until_rows_come),
        WITH_ROWS(those_who_wait_are_answered_when_the_server_goes_down),
        WITH_ROWS(rows_are_counted_by_policy_version),
        WITH_ROWS(a_version_is_read_by_who_asks_for_it),
        cmocka_unit_test_setup_teardown(
            a_shared_checkout_moves_every_reader_until_the_newest, open_shared, fixture_close_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
