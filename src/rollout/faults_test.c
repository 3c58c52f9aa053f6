/* faults_test.c - making a table, collecting and compacting with one storage call failing, at every call: what
 * is said is true, and the same asked again gets through. (Flushes, merges, claims and looks: beside their code.) */
#include "base/fault.h"
#include "io/faulty.h"
#include "io/local.h"
#include "io/prefix.h"
#include "lance/manifest.h"
#include "lance/mem_wal.h"
#include "rollout/base_table.h"
#include "rollout/collect.h"
#include "rollout/merge.h"
#include "rollout/store_fixture.h"
#include "rollout/upkeep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* The fixture's store behind a plan of faults. */
typedef struct faults {
    lk_fault_plan plan;
    lk_lance_env  env;
} faults;

static void begin(faults *f)
{
    lk_err    err = {0};
    lk_store *under = NULL;
    assert_int_equal(fixture_open_store(NULL), 0);
    lk_fault_plan_init(&f->plan);
    assert_int_equal(lk_local_store_open(&under, lk_bytes_of(fixture.root), false, &err), LK_OK);
    f->env = fixture.env;
    f->env.store = lk_faulty_store_new(under, &f->plan);
}

static void end(faults *f)
{
    lk_store_close(f->env.store);
    lk_fault_plan_deinit(&f->plan);
    assert_int_equal(fixture_close_store(NULL), 0);
}

/* Runs a round for every call, lost and unanswered, until a run meets no fault. */
static void everywhere(bool (*round)(lk_fault kind, int64_t calls_until), int64_t calls_min)
{
    static const lk_fault kinds[] = {LK_FAULT_LOST, LK_FAULT_REPLY_LOST};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        int64_t calls = 0;
        while (round(kinds[i], calls)) {
            calls++;
            assert_true(calls < 400);
        }
        assert_true(calls >= calls_min);
    }
}

/* -- a new table ------------------------------------------------------------------------------------------------------ */

static bool create_round(lk_fault kind, int64_t calls_until)
{
    faults      f;
    lk_err      err = {0}, again = {0};
    lk_dataset *table = NULL;
    bool        found = false;
    begin(&f);
    lk_store *behind = f.env.store;
    f.env.store = lk_prefix_store_new(behind, LK_LITERAL("new"));
    lk_fault_plan_arm(&f.plan, kind, calls_until);
    lk_rc rc = lk_base_table_create(&f.env, true, &table, &err);
    bool  fired = lk_fault_plan_fired(&f.plan);
    lk_fault_plan_arm(&f.plan, kind, -1);
    assert_true(rc == LK_OK || fired);
    lk_dataset_unref(table);
    table = NULL;
    if (rc != LK_OK) {
        rc = lk_base_table_create(&f.env, true, &table, &again);
        assert_true(rc == LK_OK || rc == LK_E_TABLE_EXISTS);
        lk_dataset_unref(table);
        again = (lk_err){0};
    }
    assert_int_equal(lk_base_table_open(&f.env, &table, &again), LK_OK);
    assert_int_equal(lk_base_table_index(&table, &again), LK_OK); /* an add makes what is missing */
    assert_int_equal(lk_mem_wal_found(table, &found, &again), LK_OK);
    assert_true(found);
    assert_int_equal(lk_dataset_version(table), 2);
    lk_dataset_unref(table);
    lk_store_close(f.env.store);
    f.env.store = behind;
    end(&f);
    return fired;
}

static void a_table_that_could_not_be_made_can_be_made_again(void **state)
{
    everywhere(create_round, 4);
}

/* -- collection ------------------------------------------------------------------------------------------------------- */

static void merge_all(lk_rollout_writer *writer)
{
    lk_err                         err = {0};
    const lk_rollout_merge_options all = {0};
    lk_rollout_merge_report        report;
    assert_int_equal(lk_rollout_merge(&fixture.env, fixture.view, writer,
                         lk_shard_of_instance(LK_LITERAL("rollout-0")), &all, &report, &err),
        LK_OK);
}

static uint64_t rows_now(void)
{
    lk_err               err = {0};
    lk_rollout_snapshot *snapshot = NULL;
    assert_int_equal(lk_rollout_view_take(fixture.view, &snapshot, &err), LK_OK);
    uint64_t rows = snapshot->row_count + lk_dataset_row_count(snapshot->base);
    lk_rollout_snapshot_unref(snapshot);
    return rows;
}

static bool collect_round(lk_fault kind, int64_t calls_until)
{
    faults                    f;
    lk_err                    err = {0}, again = {0};
    lk_rollout_collect_report report = {0};
    lk_uuid                   shard = lk_shard_of_instance(LK_LITERAL("rollout-0"));
    begin(&f);
    lk_rollout_writer *writer = fixture_writer("rollout-0");
    fixture_add(writer, "a b");
    fixture_add(writer, "c");
    merge_all(writer);
    fixture_add(writer, "d");
    lk_fault_plan_arm(&f.plan, kind, calls_until);
    lk_rc rc = lk_rollout_collect(&f.env, shard, 0, false, &report, &err);
    bool  fired = lk_fault_plan_fired(&f.plan);
    lk_fault_plan_arm(&f.plan, kind, -1);
    assert_true(rc == LK_OK || fired);
    assert_int_equal(lk_rollout_collect(&f.env, shard, 0, false, &report, &again), LK_OK);
    report = (lk_rollout_collect_report){0};
    assert_int_equal(lk_rollout_collect(&f.env, shard, 0, true, &report, &again), LK_OK);
    assert_int_equal(report.directories, 0);
    assert_int_equal(rows_now(), 4);
    lk_rollout_writer_free(writer);
    end(&f);
    return fired;
}

static void a_collection_that_was_stopped_is_ended_by_the_next(void **state)
{
    everywhere(collect_round, 4);
}

/* -- compaction ------------------------------------------------------------------------------------------------------- */

static bool compact_round(lk_fault kind, int64_t calls_until)
{
    faults                    f;
    lk_err                    err = {0}, again = {0};
    lk_rollout_compact_report report;
    lk_rollout_store         *store = NULL;
    bool                      found = false;
    const lk_rollout_options  options = {.instance_id = LK_LITERAL("rollout-0")};
    begin(&f);
    fixture_append_to_base("a");
    fixture_append_to_base("b");
    fixture_append_to_base("c");
    assert_int_equal(lk_rollout_store_open(&f.env, NULL, &options, &store, &err), LK_OK);
    lk_fault_plan_arm(&f.plan, kind, calls_until);
    lk_rc rc = lk_rollout_store_compact(store, 0, &report, &err);
    bool  fired = lk_fault_plan_fired(&f.plan);
    lk_fault_plan_arm(&f.plan, kind, -1);
    assert_true(rc == LK_OK || fired);
    assert_int_equal(rows_now(), 3);
    assert_int_equal(lk_rollout_store_compact(store, 0, &report, &again), LK_OK);
    assert_int_equal(rows_now(), 3);
    lk_rollout_snapshot *snapshot = NULL;
    assert_int_equal(lk_rollout_store_snapshot(store, 0, &snapshot, &again), LK_OK);
    assert_int_equal(lk_dataset_manifest(snapshot->base)->fragment_count, 1);
    assert_int_equal(lk_mem_wal_found(snapshot->base, &found, &again), LK_OK);
    assert_true(found);
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_store_unref(store);
    end(&f);
    return fired;
}

static void a_compaction_that_failed_anywhere_changed_no_row_and_is_done_by_the_next(void **state)
{
    everywhere(compact_round, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_that_could_not_be_made_can_be_made_again),
        cmocka_unit_test(a_collection_that_was_stopped_is_ended_by_the_next),
        cmocka_unit_test(a_compaction_that_failed_anywhere_changed_no_row_and_is_done_by_the_next),
    };
    return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
