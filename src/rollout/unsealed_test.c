/* unsealed_test.c - deferred visibility: what is acknowledged is in the log, becomes visible in time, and outlives a crash at
 * any moment. */
#include "rollout/unsealed.h"

#include "base/fault.h"
#include "base/file.h"
#include "io/faulty.h"
#include "io/local.h"
#include "rollout/query.h"
#include "rollout/records_json.h"
#include "rollout/store.h"
#include "rollout/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG_MS = 3600000, SOON_MS = 100 };

static char         root[64];
static lk_store    *local;
static lk_lance_env env;

static int open_root(void **state)
{
    lk_err err = {0};
    (void)snprintf(root, sizeof root, "%s/lake-unsealed-XXXXXX", P_tmpdir);
    env = (lk_lance_env){.clock = lk_clock_real(), .random = lk_random_os()};
    if (mkdtemp(root) == NULL || lk_local_store_open(&local, lk_bytes_of(root), false, &err) != LK_OK) {
        return -1;
    }
    env.store = local;
    return 0;
}

static int close_root(void **state)
{
    lk_err err = {0};
    lk_store_close(local);
    return lk_directory_remove(root, &err) == LK_OK ? 0 : -1;
}

/* interval_ms 0: not deferred. */
static lk_rollout_options options_of(uint64_t interval_ms)
{
    return (lk_rollout_options){.instance_id = LK_LITERAL("rollout-0"),
        .deferred = interval_ms > 0,
        .flush_interval_ms = interval_ms};
}

static lk_rollout_store *must(bool create, const lk_lance_env *in, uint64_t interval_ms)
{
    lk_err             err = {0};
    lk_rollout_store  *s = NULL;
    lk_rollout_options options = options_of(interval_ms);
    lk_rc              rc = create ? lk_rollout_store_create(in, NULL, &options, &s, &err)
                                   : lk_rollout_store_open(in, NULL, &options, &s, &err);
    return rc == LK_OK ? s : NULL;
}

static lk_rc add(lk_rollout_store *s, const char *id, const char *content, lk_err *err)
{
    char        line[200];
    lk_records *records = NULL;
    (void)snprintf(
        line, sizeof line, "{\"id\":\"%s\",\"rollout_id\":\"r\",\"content\":\"%s\"}\n", id, content);
    assert_int_equal(lk_records_open(77000000, NULL, &records, err), LK_OK);
    assert_int_equal(lk_records_read_ndjson(records, lk_bytes_of(line), err), LK_OK);
    lk_rc rc = lk_rollout_store_add(s, records, false, NULL, err);
    lk_records_close(records);
    return rc;
}

/* "a b ": the ids that a reader sees, ascending. */
static void list(lk_rollout_store *s, lk_buf *out)
{
    lk_err                 err = {0};
    lk_rollout_snapshot   *snapshot = NULL;
    lk_batches            *rows = NULL;
    struct ArrowArray      batch = {0};
    const lk_rollout_query query = {.order = LK_ROLLOUT_BY_ID, .limit = UINT64_MAX};
    lk_buf_clear(out);
    lk_buf_append_text(out, "");
    assert_int_equal(lk_rollout_store_snapshot(s, 0, &snapshot, &err), LK_OK);
    assert_int_equal(lk_rollout_query_open(snapshot, &query, &rows, &err), LK_OK);
    while (lk_batches_next(rows, &batch, &err) == LK_OK && batch.release != NULL) {
        for (int64_t i = 0; i < batch.length; i++) {
            lk_buf_format(out, "%.*s ", LK_FMT(fixture_id(&batch, i)));
        }
        lk_array_release(&batch);
    }
    lk_batches_close(rows);
    lk_rollout_snapshot_unref(snapshot);
}

static void expect(lk_rollout_store *s, const char *expected)
{
    lk_buf text = {0};
    list(s, &text);
    assert_string_equal(text.size == 0 ? "" : text.data, expected);
    lk_buf_deinit(&text);
}

/* The same, as soon as it is so. */
static void expect_soon(lk_rollout_store *s, const char *expected)
{
    lk_buf text = {0};
    for (int i = 0; i < 500; i++) {
        list(s, &text);
        if (strcmp(text.size == 0 ? "" : text.data, expected) == 0) {
            break;
        }
        lk_clock_sleep_ms(env.clock, 20);
    }
    assert_string_equal(text.size == 0 ? "" : text.data, expected);
    lk_buf_deinit(&text);
}

static void an_acknowledged_row_is_seen_after_a_flush(void **state)
{
    lk_err            err = {0};
    lk_rollout_store *s = must(true, &env, LONG_MS);
    assert_int_equal(add(s, "a", "", &err), LK_OK);
    assert_int_equal(add(s, "b", "", &err), LK_OK);
    expect(s, "");
    assert_int_equal(lk_rollout_store_flush(s, &err), LK_OK);
    expect(s, "a b ");
    lk_rollout_store_stats stats;
    lk_rollout_store_read_stats(s, &stats);
    assert_int_equal(stats.writer.pending_generations, 1);
    assert_int_equal(stats.writer.unsealed_rows, 0);
    assert_int_equal(lk_rollout_store_flush(s, &err), LK_OK);
    lk_rollout_store_unref(s);
}

static void what_waits_is_sealed_within_the_interval(void **state)
{
    lk_err            err = {0};
    lk_rollout_store *s = must(true, &env, SOON_MS);
    assert_int_equal(add(s, "a", "", &err), LK_OK);
    expect_soon(s, "a ");
    lk_rollout_store_unref(s);
}

static void a_row_that_waits_counts_as_there(void **state)
{
    lk_err            err = {0};
    lk_rollout_store *s = must(true, &env, LONG_MS);
    assert_int_equal(add(s, "a", "one", &err), LK_OK);
    assert_int_equal(add(s, "a", "one", &err), LK_OK);
    assert_int_equal(add(s, "a", "other", &err), LK_E_CONFLICT);
    err = (lk_err){0};
    assert_int_equal(lk_rollout_store_flush(s, &err), LK_OK);
    expect(s, "a ");
    lk_rollout_store_unref(s);
}

/* In a process of its own, which ends without closing anything. */
static void add_and_crash(const char *ids)
{
    pid_t child = fork();
    if (child == 0) {
        lk_err            err = {0};
        lk_rollout_store *s = must(false, &env, LONG_MS);
        char              id[2] = "";
        for (; *ids != '\0'; ids++) {
            id[0] = *ids;
            if (s == NULL || add(s, id, "", &err) != LK_OK) {
                _exit(1);
            }
        }
        _exit(0);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

static void acknowledged_rows_outlive_a_crash(void **state)
{
    lk_err            err = {0};
    lk_rollout_store *s = must(true, &env, 0);
    lk_rollout_store_unref(s);
    add_and_crash("abc");
    s = must(false, &env, SOON_MS); /* deferred again: soon, by itself */
    expect_soon(s, "a b c ");
    lk_rollout_store_unref(s);
    add_and_crash("de");
    s = must(false, &env, 0); /* not deferred: with the first add */
    assert_int_equal(add(s, "f", "", &err), LK_OK);
    expect(s, "a b c d e f ");
    lk_rollout_store_unref(s);
}

static void closing_a_store_seals_what_waits(void **state)
{
    lk_err            err = {0};
    lk_rollout_store *s = must(true, &env, LONG_MS);
    assert_int_equal(add(s, "a", "", &err), LK_OK);
    lk_rollout_store_unref(s);
    s = must(false, &env, 0);
    expect(s, "a ");
    lk_rollout_store_unref(s);
}

static void options_that_contradict_each_other_are_refused(void **state)
{
    lk_err             err = {0};
    lk_rollout_store  *s = NULL;
    lk_rollout_options never = options_of(LONG_MS), no_interval = options_of(LONG_MS);
    never.log = LK_ROLLOUT_LOG_NEVER;
    no_interval.flush_interval_ms = 0;
    assert_int_equal(lk_rollout_store_create(&env, NULL, &never, &s, &err), LK_E_INVALID_REQUEST);
    err = (lk_err){0};
    assert_int_equal(lk_rollout_store_create(&env, NULL, &no_interval, &s, &err), LK_E_INVALID_REQUEST);
}

/* Adds a and b and flushes while the call-th store call fails; *acknowledged: "a", "b". False: fewer calls were made. */
static bool add_with_a_fault(int64_t call, lk_fault kind, char *acknowledged)
{
    lk_fault_plan plan;
    lk_lance_env  faulty = env;
    lk_err        err = {0};
    lk_store     *beneath = NULL;
    assert_int_equal(lk_local_store_open(&beneath, lk_bytes_of(root), false, &err), LK_OK);
    lk_fault_plan_init(&plan);
    faulty.store = lk_faulty_store_new(beneath, &plan);
    lk_rollout_store *s = must(false, &faulty, LONG_MS);
    assert_non_null(s);
    lk_fault_plan_arm(&plan, kind, call);
    for (const char *id = "ab"; *id != '\0'; id++) {
        const char text[2] = {*id, '\0'};
        err = (lk_err){0};
        if (add(s, text, "", &err) == LK_OK) {
            *acknowledged++ = *id;
        }
    }
    *acknowledged = '\0';
    err = (lk_err){0};
    lk_rc rc = lk_rollout_store_flush(s, &err);
    (void)rc;
    lk_rollout_store_unref(s);
    bool reached = lk_fault_plan_fired(&plan);
    lk_store_close(faulty.store);
    lk_fault_plan_deinit(&plan);
    return reached;
}

/* What a store without faults shows afterwards has all that was acknowledged, each row once. */
static bool round_of(lk_fault kind, int64_t call)
{
    lk_err err = {0};
    lk_buf seen = {0};
    char   acknowledged[4];
    assert_int_equal(open_root(NULL), 0);
    lk_rollout_store *s = must(true, &env, 0);
    lk_rollout_store_unref(s);
    bool reached = add_with_a_fault(call, kind, acknowledged);
    s = must(false, &env, 0);
    assert_int_equal(add(s, "z", "", &err), LK_OK);
    list(s, &seen);
    for (const char *id = "abz"; *id != '\0'; id++) {
        const char *first = strchr(seen.data, *id);
        if (*id == 'z' || strchr(acknowledged, *id) != NULL) {
            assert_non_null(first);
        }
        assert_true(first == NULL || strchr(first + 1, *id) == NULL);
    }
    lk_buf_deinit(&seen);
    lk_rollout_store_unref(s);
    assert_int_equal(close_root(NULL), 0);
    return reached;
}

/* Every third call with the worst kind, with the others every eleventh, each kind from another one on. */
static void a_fault_at_every_store_call_loses_nothing_acknowledged(void **state)
{
    for (lk_fault kind = LK_FAULT_NONE + 1; kind < LK_FAULT_COUNT; kind++) {
        int64_t step = kind == LK_FAULT_REPLY_LOST ? 3 : 11, calls = (int64_t)kind;
        while (round_of(kind, calls)) {
            calls += step;
            assert_true(calls < 500);
        }
        assert_true(calls >= 8);
    }
}

static void a_writer_that_was_fenced_acknowledges_nothing(void **state)
{
    lk_err            err = {0};
    lk_rollout_store *s = must(true, &env, LONG_MS), *successor = must(false, &env, LONG_MS);
    assert_int_equal(add(s, "a", "", &err), LK_OK);
    assert_int_equal(add(successor, "b", "", &err), LK_OK); /* replays a */
    expect(successor, "a ");
    assert_int_equal(add(s, "c", "", &err), LK_E_SHARD_FENCED);
    err = (lk_err){0};
    assert_int_equal(lk_rollout_store_flush(successor, &err), LK_OK);
    expect(successor, "a b ");
    lk_rollout_store_unref(s);
    lk_rollout_store_unref(successor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_acknowledged_row_is_seen_after_a_flush, open_root, close_root),
        cmocka_unit_test_setup_teardown(what_waits_is_sealed_within_the_interval, open_root, close_root),
        cmocka_unit_test_setup_teardown(a_row_that_waits_counts_as_there, open_root, close_root),
        cmocka_unit_test_setup_teardown(acknowledged_rows_outlive_a_crash, open_root, close_root),
        cmocka_unit_test_setup_teardown(closing_a_store_seals_what_waits, open_root, close_root),
        cmocka_unit_test_setup_teardown(a_writer_that_was_fenced_acknowledges_nothing, open_root, close_root),
        cmocka_unit_test(a_fault_at_every_store_call_loses_nothing_acknowledged),
        cmocka_unit_test_setup_teardown(
            options_that_contradict_each_other_are_refused, open_root, close_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
