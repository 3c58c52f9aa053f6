/* collect_test.c - superseded manifests lose their contents and not their names; rows, cursors and writers go on. */
#include "rollout/collect.h"

#include "rollout/stores_fixture.h"
#include "rollout/upkeep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const lk_rollout_merge_options all_pending = {0};

static void add_many(lk_rollout_store *s, const char *prefix, int count)
{
    for (int i = 0; i < count; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "%s%03d", prefix, i);
        pods_must_add(s, id);
    }
}

static void merge_all(lk_rollout_store *s)
{
    lk_err                  err = {0};
    lk_rollout_merge_report report;
    pods_must(lk_rollout_store_merge(s, &all_pending, &report, &err), &err);
}

static lk_rollout_gc_report collect(lk_rollout_store *s, uint64_t grace_ms, bool dry_run)
{
    lk_err                      err = {0};
    lk_rollout_gc_report        report;
    const lk_rollout_gc_options options = {.all_shards = true, .grace_ms = grace_ms, .dry_run = dry_run};
    pods_must(lk_rollout_store_collect(s, &options, &report, &err), &err);
    return report;
}

static bool only_newest(void)
{
    uint64_t newest = 0, all = pods_manifest_bytes("rl", "rollout-0", &newest);
    return all == newest;
}

static void manifests_are_emptied_after_the_time_of_grace_and_not_before(void **state)
{
    uint64_t          newest = 0;
    lk_rollouts      *pod = pods_open("rollout-0");
    lk_rollout_store *s = pods_create(pod, "rl");
    add_many(s, "a", 30);
    uint64_t before = pods_manifest_bytes("rl", "rollout-0", &newest);
    assert_true(before > 10000);
    assert_int_equal(collect(s, 60000, false).manifests, 0);
    assert_int_equal(collect(s, 0, true).manifests, 30); /* a claim and 30 flushes, but the newest */
    assert_int_equal(pods_manifest_bytes("rl", "rollout-0", &newest), before);
    assert_int_equal(collect(s, 0, false).manifests, 30);
    assert_true(only_newest());
    assert_int_equal(collect(s, 0, false).manifests, 0);
    assert_int_equal(pods_rows(s), 30);
    add_many(s, "b", 2);
    assert_int_equal(collect(s, 0, false).manifests, 2); /* goes on where it ended */
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);

    pod = pods_open("rollout-0"); /* the next process claims the shard */
    s = pods_get(pod, "rl");
    add_many(s, "c", 1);
    merge_all(s);
    assert_int_equal(pods_rows(s), 33);
    assert_int_equal(pods_base_rows(s), 33);
    lk_rollout_fsck_report        report;
    const lk_rollout_fsck_options options = {0};
    lk_err                        err = {0};
    pods_must(lk_rollout_store_fsck(s, &options, &report, &err), &err);
    assert_int_equal(report.damages, 0);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

static void a_merged_store_needs_little_room_when_its_chain_was_collected(void **state)
{
    uint64_t                  newest = 0;
    const lk_rollouts_options quick = {.maintenance = {.grace_ms = 300}};
    lk_rollouts              *pod = pods_open_with("rollout-0", &quick);
    lk_rollout_store         *s = pods_create(pod, "rl");
    add_many(s, "a", 100);
    assert_true(pods_manifest_bytes("rl", "rollout-0", &newest) > 100000);
    merge_all(s);
    for (int i = 0; i < 100 && !only_newest(); i++) {
        lk_clock_sleep_ms(lk_clock_real(), 100);
    }
    assert_true(only_newest());
    assert_true(pods_manifest_bytes("rl", "rollout-0", &newest) < 200);
    assert_int_equal(pods_rows(s), 100);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

/* -- cursors that pin a manifest which is empty now ---------------------------------------------------------------- */

static const lk_rollout_query by_id = {.limit = 10, .order = LK_ROLLOUT_BY_ID};

static void take_cursor(lk_rollout_store *s, lk_buf *cursor)
{
    lk_err               err = {0};
    lk_rollout_snapshot *snapshot = NULL;
    lk_batches          *rows = NULL;
    lk_rollout_key       last;
    pods_must(lk_rollout_store_snapshot(s, 0, &snapshot, &err), &err);
    pods_must(lk_rollout_query_open(snapshot, &by_id, &rows, &err), &err);
    assert_true(lk_rollout_query_last(rows, &last));
    pods_must(lk_rollout_store_cursor(s, snapshot, &by_id, &last, cursor, &err), &err);
    lk_batches_close(rows);
    lk_rollout_snapshot_unref(snapshot);
}

static int64_t rows_left(lk_rollout_store *s, const lk_buf *cursor)
{
    lk_err               err = {0};
    lk_arena             arena = {0};
    lk_rollout_snapshot *snapshot = NULL;
    lk_batches          *rows = NULL;
    lk_rollout_key       after;
    int64_t              count = 0;
    pods_must(lk_rollout_store_resume(s, lk_buf_view(cursor), &by_id, &arena, &snapshot, &after, &err), &err);
    const lk_rollout_query rest = {.limit = UINT64_MAX, .order = LK_ROLLOUT_BY_ID, .after = &after};
    pods_must(lk_rollout_query_open(snapshot, &rest, &rows, &err), &err);
    for (bool more = true; more;) {
        struct ArrowArray batch = {0};
        pods_must(lk_batches_next(rows, &batch, &err), &err);
        more = batch.release != NULL;
        count += more ? batch.length : 0;
        lk_array_release(&batch);
    }
    lk_batches_close(rows);
    lk_rollout_snapshot_unref(snapshot);
    lk_arena_close(&arena);
    return count;
}

/* A merge before the cursor, one of some of its generations after, some that are listed still, and later rows. */
static void a_page_goes_on_when_its_manifest_was_emptied(void **state)
{
    lk_err                         err = {0};
    lk_buf                         cursor = {0};
    lk_rollout_merge_report        report;
    const lk_rollout_merge_options some = {.generations_max = 5};
    lk_rollouts                   *pod = pods_open("rollout-0"), *other = pods_open("rollout-1");
    lk_rollout_store              *s = pods_create(pod, "rl"), *beside = pods_get(other, "rl");
    add_many(s, "a", 6);
    merge_all(s);
    add_many(s, "b", 9);
    add_many(beside, "d", 3);
    take_cursor(s, &cursor); /* 18 rows, of which 10 were read */
    add_many(s, "c", 4);
    assert_int_equal(rows_left(s, &cursor), 8);
    (void)collect(s, 0, false);
    assert_int_equal(rows_left(s, &cursor), 8);
    pods_must(lk_rollout_store_merge(s, &some, &report, &err), &err);
    merge_all(beside);
    (void)collect(s, 0, false);
    assert_int_equal(rows_left(s, &cursor), 8);
    assert_int_equal(rows_left(beside, &cursor), 8);
    merge_all(s);
    (void)collect(s, 0, false);
    assert_int_equal(rows_left(s, &cursor), 8);
    assert_int_equal(rows_left(beside, &cursor), 8);
    lk_buf_deinit(&cursor);
    lk_rollout_store_unref(s);
    lk_rollout_store_unref(beside);
    lk_rollouts_close(pod);
    lk_rollouts_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            manifests_are_emptied_after_the_time_of_grace_and_not_before, pods_make_root, pods_remove_root),
        cmocka_unit_test_setup_teardown(
            a_merged_store_needs_little_room_when_its_chain_was_collected, pods_make_root, pods_remove_root),
        cmocka_unit_test_setup_teardown(
            a_page_goes_on_when_its_manifest_was_emptied, pods_make_root, pods_remove_root),
    };
    return cmocka_run_group_tests_name("collect", tests, NULL, NULL);
}
