/* merge_test.c - merging and collecting, stopped at every step, beside other instances: no row is lost, none is there twice. */
#include "rollout/collect.h"
#include "rollout/merge.h"

#include "base/fault.h"
#include "io/faulty.h"
#include "io/local.h"
#include "rollout/blob.h"
#include "rollout/query.h"
#include "rollout/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static lk_uuid shard(void)
{
    return lk_shard_of_instance(LK_LITERAL("rollout-0"));
}

/* Every id, in order, and how many generations and base rows there are: "a b c /2 1". */
static void expect_store(const char *expected)
{
    lk_err                 err = {0};
    lk_rollout_snapshot   *snapshot = NULL;
    lk_batches            *rows = NULL;
    struct ArrowArray      batch = {0};
    lk_buf                 text = {0};
    const lk_rollout_query query = {.order = LK_ROLLOUT_BY_ID, .limit = UINT64_MAX};
    assert_int_equal(lk_rollout_view_take(fixture.view, &snapshot, &err), LK_OK);
    assert_int_equal(lk_rollout_query_open(snapshot, &query, &rows, &err), LK_OK);
    while (lk_batches_next(rows, &batch, &err) == LK_OK && batch.release != NULL) {
        for (int64_t i = 0; i < batch.length; i++) {
            lk_buf_format(&text, "%.*s ", LK_FMT(fixture_id(&batch, i)));
        }
        lk_array_release(&batch);
    }
    lk_buf_format(&text, "/%zu %d", snapshot->source_count, (int)lk_dataset_row_count(snapshot->base));
    assert_string_equal(text.data, expected);
    lk_buf_deinit(&text);
    lk_batches_close(rows);
    lk_rollout_snapshot_unref(snapshot);
}

static lk_rc merge(lk_rollout_writer *writer, size_t most, lk_rollout_merge_report *report, lk_err *err)
{
    const lk_rollout_merge_options options = {.generations_max = most};
    return lk_rollout_merge(&fixture.env, fixture.view, writer, shard(), &options, report, err);
}

static uint64_t collect(uint64_t grace_ms, bool dry_run)
{
    lk_err                    err = {0};
    lk_rollout_collect_report report = {0};
    assert_int_equal(lk_rollout_collect(&fixture.env, shard(), grace_ms, dry_run, &report, &err), LK_OK);
    return report.directories;
}

static void the_oldest_generations_become_one_fragment(void **state)
{
    lk_err                  err = {0};
    lk_rollout_merge_report report;
    lk_rollout_writer      *writer = fixture_writer("rollout-0"), *other = fixture_writer("rollout-1");
    assert_int_equal(merge(writer, 0, &report, &err), LK_OK);
    assert_int_equal(report.generations, 0);
    fixture_add(writer, "a b");
    fixture_add(other, "o");
    fixture_add(writer, "c=1");
    fixture_add(
        writer, "{\"id\":\"d\",\"rollout_id\":\"r\",\"binary_payload\":\"AAEC\",\"role\":\"tool\"}\n");
    expect_store("a b c d o /4 0");
    assert_int_equal(merge(writer, 2, &report, &err), LK_OK);
    assert_int_equal(report.generations, 2);
    assert_int_equal(report.rows, 3);
    expect_store("a b c d o /2 3");
    assert_int_equal(merge(writer, 0, &report, &err), LK_OK);
    assert_int_equal(report.generations, 1);
    expect_store("a b c d o /1 4");
    lk_rollout_snapshot *snapshot = NULL;
    lk_rollout_blob     *payload = NULL;
    bool                 found;
    char                 bytes[3];
    assert_int_equal(lk_rollout_view_take(fixture.view, &snapshot, &err), LK_OK);
    assert_int_equal(lk_rollout_blob_open(snapshot, LK_LITERAL("d"), NULL, &payload, &found, &err), LK_OK);
    assert_true(found && lk_rollout_blob_size(payload) == 3);
    assert_int_equal(lk_rollout_blob_read(payload, 0, bytes, 3, &err), LK_OK);
    assert_memory_equal(bytes, "\0\1\2", 3);
    lk_rollout_blob_close(payload);
    lk_rollout_snapshot_unref(snapshot);
    fixture_add(writer, "e"); /* numbers and positions go on */
    expect_store("a b c d e o /2 4");
    assert_int_equal(collect(3600000, false), 0); /* too young */
    assert_int_equal(collect(0, true), 3);
    assert_int_equal(collect(0, false), 3);
    assert_int_equal(collect(0, false), 0);
    expect_store("a b c d e o /2 4");
    lk_rollout_writer_free(writer);
    lk_rollout_writer_free(other);
}

static void ids_that_the_base_has_are_not_appended_again(void **state)
{
    lk_err                  err = {0};
    lk_rollout_merge_report report;
    lk_rollout_writer      *writer = fixture_writer("rollout-0");
    fixture_add(writer, "a b");
    fixture_append_to_base("a"); /* a merge that was stopped after its second step */
    expect_store("a b /1 1");
    assert_int_equal(merge(writer, 0, &report, &err), LK_OK);
    assert_int_equal(report.rows, 1);
    expect_store("a b /0 2");
    lk_rollout_writer_free(writer);
}

static void a_row_that_is_larger_than_the_memory_for_reading_stops_no_merge(void **state)
{
    enum { PAYLOAD = 6 << 20 };
    static lk_budget        little; /* outlives what the view keeps */
    lk_err                  err = {0};
    lk_rollout_merge_report report;
    lk_buf                  line = {0};
    size_t                  merged = 0;
    lk_rollout_writer      *writer = fixture_writer("rollout-0");
    lk_budget_init(&little, "little", 2 << 20, NULL);
    lk_buf_append_text(&line, "{\"id\":\"wide\",\"rollout_id\":\"r\",\"binary_payload\":\"");
    for (int i = 0; i < PAYLOAD / 3; i++) {
        lk_buf_append_text(&line, "AAEC");
    }
    lk_buf_append_text(&line, "\"}\n");
    lk_buf_append(&line, "", 1);
    fixture_add(writer, "a");
    fixture_add(writer, line.data);
    fixture_add(writer, "c");
    fixture_add(writer, "d");
    fixture.env.budget = &little;
    while (merged < 4) {
        assert_int_equal(merge(writer, 0, &report, &err), LK_OK);
        assert_true(report.generations > 0 && report.rows == report.generations);
        merged += report.generations;
    }
    expect_store("a c d wide /0 4");
    fixture.env.budget = NULL;
    lk_rollout_writer_free(writer);
    lk_buf_deinit(&line);
}

static void a_merge_ends_at_its_bytes_but_takes_one_generation_at_least(void **state)
{
    lk_err                         err = {0};
    lk_rollout_merge_report        report;
    lk_rollout_writer             *writer = fixture_writer("rollout-0");
    const lk_rollout_merge_options one_byte = {.bytes_max = 1}, plenty = {.bytes_max = 1 << 30};
    fixture_add(writer, "a b");
    fixture_add(writer, "c");
    fixture_add(writer, "d");
    assert_int_equal(
        lk_rollout_merge(&fixture.env, fixture.view, writer, shard(), &one_byte, &report, &err), LK_OK);
    assert_int_equal(report.generations, 1);
    expect_store("a b c d /2 2");
    assert_int_equal(
        lk_rollout_merge(&fixture.env, fixture.view, writer, shard(), &plenty, &report, &err), LK_OK);
    assert_int_equal(report.generations, 2);
    expect_store("a b c d /0 4");
    lk_rollout_writer_free(writer);
}

static void a_fenced_writer_takes_nothing_off(void **state)
{
    lk_err                  err = {0};
    lk_rollout_merge_report report;
    lk_rollout_writer      *writer = fixture_writer("rollout-0"), *successor = fixture_writer("rollout-0");
    fixture_add(writer, "a");
    fixture_add(successor, "b");
    assert_int_equal(merge(writer, 0, &report, &err), LK_E_SHARD_FENCED);
    expect_store("a b /2 2");
    err = (lk_err){0};
    assert_int_equal(merge(successor, 0, &report, &err), LK_OK);
    assert_int_equal(report.rows, 0);
    expect_store("a b /0 2");
    lk_rollout_writer_free(writer);
    lk_rollout_writer_free(successor);
}

/* A merge with one store call failing, then another one: everything is merged, once. together: what it writes is synced at
 * once, as when an add waits for it. */
static bool round_of(lk_fault kind, int64_t calls_until, bool together)
{
    lk_err                   err = {0}, again = {0};
    lk_fault_plan            plan;
    lk_store                *under = NULL, *late_under = NULL;
    lk_rollout_merge_report  report;
    lk_rollout_merge_options options = {0};
    assert_int_equal(fixture_open_store(NULL), 0);
    lk_rollout_writer *filler = fixture_writer("rollout-0");
    fixture_add(filler, "a b");
    fixture_add(filler, "c");
    lk_rollout_writer_free(filler);

    lk_fault_plan_init(&plan);
    assert_int_equal(lk_local_store_open(&under, lk_bytes_of(fixture.root), false, &err), LK_OK);
    lk_lance_env env = fixture.env;
    env.store = lk_faulty_store_new(under, &plan);
    if (together) {
        lk_bytes root = lk_bytes_of(fixture.root);
        assert_int_equal(lk_local_store_open_late(&late_under, root, NULL, &err), LK_OK);
        options.late = lk_faulty_store_new(late_under, &plan);
    }
    lk_rollout_view *view = lk_rollout_view_new(&env, fixture.base);
    lk_lance_env     plain = fixture.env;
    fixture.env.store = env.store; /* the writer goes through it as well */
    lk_rollout_writer *writer = fixture_writer("rollout-0");
    lk_fault_plan_arm(&plan, kind, calls_until);
    lk_rc rc = lk_rollout_merge(&env, view, writer, shard(), &options, &report, &err);
    bool  fired = lk_fault_plan_fired(&plan);
    lk_fault_plan_arm(&plan, kind, -1);
    assert_true(rc == LK_OK || fired);
    lk_rc second =
        rc == LK_OK ? LK_OK : lk_rollout_merge(&env, view, writer, shard(), &options, &report, &again);
    if (second != LK_OK) {
        fail_msg("%d %d: %s", (int)kind, (int)calls_until, again.context);
    }
    fixture.env = plain;
    expect_store("a b c /0 3");
    lk_rollout_writer_free(writer);
    lk_rollout_view_free(view);
    lk_store_close(options.late);
    lk_store_close(env.store);
    lk_fault_plan_deinit(&plan);
    assert_int_equal(fixture_close_store(NULL), 0);
    return fired;
}

static void try_every_fault(bool together)
{
    for (lk_fault kind = LK_FAULT_NONE + 1; kind < LK_FAULT_COUNT; kind++) {
        int64_t calls = 0;
        while (round_of(kind, calls, together)) {
            calls++;
            assert_true(calls < 400);
        }
        assert_true(calls >= 20);
    }
}

static void a_merge_that_fails_anywhere_is_done_by_the_next_one(void **state)
{
    try_every_fault(false);
}

static void so_is_one_whose_writes_are_synced_together(void **state)
{
    try_every_fault(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_oldest_generations_become_one_fragment, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            ids_that_the_base_has_are_not_appended_again, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(a_row_that_is_larger_than_the_memory_for_reading_stops_no_merge,
            fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(a_merge_ends_at_its_bytes_but_takes_one_generation_at_least,
            fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            a_fenced_writer_takes_nothing_off, fixture_open_store, fixture_close_store),
        cmocka_unit_test(a_merge_that_fails_anywhere_is_done_by_the_next_one),
        cmocka_unit_test(so_is_one_whose_writes_are_synced_together),
    };
    return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
