/* cleanup_test.c - which versions and files stay, and that every version is whole whenever a cleanup stops. */
#include "base/fault.h"
#include "io/faulty.h"
#include "lance/alter.h"
#include "lance/refs.h"
#include "lance/table_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DAY_MS (24 * 3600 * 1000ULL)

typedef struct table {
    fixture_scratch scratch;
    lk_store       *store;
    lk_manual_clock clock;
    lk_lance_env    env;
} table;

/* Deletes offsets [first, first + count) of a fragment. */
static void delete_rows(const lk_lance_env *env, uint64_t fragment, uint64_t first, uint64_t count)
{
    lk_err      err = {0};
    lk_dataset *base = fixture_open(env, 0), *next = NULL;
    lk_row_set *rows = lk_row_set_new();
    for (uint64_t i = first; i < first + count; i++) {
        uint64_t address = fragment << 32 | i;
        lk_row_set_add(rows, &address, 1);
    }
    assert_int_equal(
        lk_dataset_delete_rows(base, lk_direct_committer(), rows, (lk_bytes){0}, NULL, NULL, &next, &err),
        LK_OK);
    lk_row_set_free(rows);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
}

/* Version 1 is empty, 2 to 4 append ten rows each, 5 and 6 delete a row of fragment 1, 7 deletes fragment 0. */
static void table_open(table *t)
{
    t->store = fixture_scratch_open(&t->scratch);
    t->env = fixture_env(t->store);
    lk_manual_clock_init(&t->clock, lk_clock_wall_ms(lk_clock_real()));
    t->env.clock = &t->clock.base;
    fixture_table(&t->env, 0, 10, 3);
    delete_rows(&t->env, 1, 4, 1);
    delete_rows(&t->env, 1, 5, 1);
    delete_rows(&t->env, 0, 0, 10);
}

static void table_close(table *t)
{
    lk_store_close(t->store);
    fixture_scratch_remove(&t->scratch);
}

static lk_cleanup_report must_clean(table *t, const lk_cleanup_options *options)
{
    lk_err            err = {0};
    lk_cleanup_report report;
    if (lk_dataset_cleanup(&t->env, options, &report, &err) != LK_OK) {
        fail_msg("cleanup: %s; %s", err.context, err.detail);
    }
    return report;
}

/* Every version there is can be read to its end; returns how many. */
static size_t read_all(const lk_lance_env *env)
{
    lk_arena  arena = {0};
    lk_err    err = {0};
    uint64_t *versions = NULL;
    size_t    count = 0;
    assert_int_equal(lk_dataset_versions(env, &arena, &versions, &count, &err), LK_OK);
    for (size_t i = 0; i < count; i++) {
        lk_buf ids = fixture_ids(env, versions[i]);
        lk_buf_deinit(&ids);
    }
    lk_arena_close(&arena);
    return count;
}

static void put(lk_store *store, const char *key)
{
    bool   created = false;
    lk_err err = {0};
    assert_int_equal(
        lk_store_put_if_absent(store, lk_bytes_of(key), LK_LITERAL("12345"), &created, &err), LK_OK);
    assert_true(created);
}

static void old_versions_go_with_the_files_that_only_they_need(void **state)
{
    table t;
    table_open(&t);
    lk_cleanup_report report = must_clean(&t, &(lk_cleanup_options){.retain = 1});
    assert_int_equal(report.versions, 7);
    assert_int_equal(report.versions_removed, 6);
    assert_int_equal(report.versions_named, 0);
    assert_int_equal(report.files_removed, 1 + 1 + 6); /* fragment 0; the older deletion file; transactions */
    assert_true(report.bytes_removed > 0);
    assert_int_equal(read_all(&t.env), 1);
    assert_int_equal(fixture_count(t.store, "_versions"), 1);
    assert_int_equal(fixture_count(t.store, "data"), 2);
    assert_int_equal(fixture_count(t.store, "_deletions"), 1);
    assert_int_equal(fixture_count(t.store, "_transactions"), 1);
    report = must_clean(&t, &(lk_cleanup_options){.retain = 1}); /* nothing is left to do */
    assert_int_equal(report.versions_removed + report.files_removed, 0);
    table_close(&t);
}

static void the_newest_versions_and_the_young_ones_stay(void **state)
{
    table t;
    table_open(&t);
    t.clock.wall_ms += 3 * DAY_MS;
    delete_rows(&t.env, 2, 0, 10); /* version 8 */
    assert_int_equal(must_clean(&t, &(lk_cleanup_options){.retain = 8}).versions_removed, 0);
    assert_int_equal(must_clean(&t, &(lk_cleanup_options){.older_than_ms = 4 * DAY_MS}).versions_removed, 0);
    assert_int_equal(
        must_clean(&t, &(lk_cleanup_options){.retain = 6, .older_than_ms = 2 * DAY_MS}).versions_removed, 2);
    assert_int_equal(read_all(&t.env), 6);
    assert_int_equal(must_clean(&t, &(lk_cleanup_options){.older_than_ms = 2 * DAY_MS}).versions_removed, 5);
    assert_int_equal(read_all(&t.env), 1);
    t.clock.wall_ms += 100 * DAY_MS;
    assert_int_equal(
        must_clean(&t, &(lk_cleanup_options){0}).versions_removed, 0); /* the newest never goes */
    assert_int_equal(read_all(&t.env), 1);
    table_close(&t);
}

static void tags_and_branches_keep_their_versions(void **state)
{
    table    t;
    lk_err   err = {0};
    lk_bytes name = LK_LITERAL("keep");
    bool     created = false;
    table_open(&t);
    assert_int_equal(lk_tag_create(t.store, t.env.clock, name, 4, &err), LK_OK);
    assert_int_equal(lk_store_put_if_absent(t.store, LK_LITERAL("_refs/branches/b.json"),
                         LK_LITERAL("{\"parentBranch\":null,\"parentVersion\":5,\"createAt\":1,"
                                    "\"manifestSize\":1,\"metadata\":{}}"),
                         &created, &err),
        LK_OK);
    lk_cleanup_report report = must_clean(&t, &(lk_cleanup_options){.retain = 1});
    assert_int_equal(report.versions_removed, 4);
    assert_int_equal(report.versions_named, 2);
    assert_int_equal(read_all(&t.env), 3);
    lk_buf ids = fixture_ids(&t.env, 4);
    assert_int_equal(ids.size / sizeof(int64_t), 30); /* with its fragment 0 */
    lk_buf_deinit(&ids);
    assert_int_equal(lk_tag_delete(t.store, name, &err), LK_OK);
    assert_int_equal(must_clean(&t, &(lk_cleanup_options){.retain = 1}).versions_removed, 1);
    assert_int_equal(fixture_count(t.store, "data"), 3); /* version 5 needs fragment 0 */
    assert_int_equal(read_all(&t.env), 2);
    table_close(&t);
}

static void a_file_that_nobody_refers_to_stays_for_seven_days(void **state)
{
    static const char *const files[] = {"data/young.lance", "_deletions/0-9-1.arrow", "_transactions/9-x.txn",
        "_indices/0198/page.lance", "_versions/.tmp-0123"};
    table                    t;
    table_open(&t);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        put(t.store, files[i]);
    }
    put(t.store, "_mem_wal/shard/1");
    put(t.store, "tree/b/data/x.lance");
    must_clean(&t, &(lk_cleanup_options){.retain = 100});
    assert_int_equal(fixture_count(t.store, "data"), 4);
    t.clock.wall_ms += 7 * DAY_MS - 3600 * 1000;
    assert_int_equal(must_clean(&t, &(lk_cleanup_options){.retain = 100}).files_removed, 0);
    t.clock.wall_ms += 2 * 3600 * 1000;
    assert_int_equal(must_clean(&t, &(lk_cleanup_options){.retain = 100}).files_removed, 4);
    assert_int_equal(fixture_count(t.store, "data"), 3);
    assert_int_equal(fixture_count(t.store, "_deletions"), 2);
    assert_int_equal(fixture_count(t.store, "_transactions"), 7);
    assert_int_equal(fixture_count(t.store, "_indices"), 0);
    assert_int_equal(fixture_count(t.store, "_versions"), 7);
    assert_int_equal(fixture_count(t.store, "_mem_wal/shard"), 1); /* not ours to judge */
    assert_int_equal(fixture_count(t.store, "tree/b/data"), 1);
    assert_int_equal(read_all(&t.env), 7);
    table_close(&t);
}

static void unverified_files_go_at_once_when_asked(void **state)
{
    table t;
    table_open(&t);
    put(t.store, "data/young.lance");
    lk_cleanup_options options = {.retain = 100, .delete_unverified = true};
    assert_int_equal(must_clean(&t, &options).files_removed, 1);
    assert_int_equal(read_all(&t.env), 7);
    table_close(&t);
}

static void a_dry_run_says_what_would_go_and_takes_nothing(void **state)
{
    table t;
    table_open(&t);
    lk_cleanup_report said = must_clean(&t, &(lk_cleanup_options){.retain = 2, .dry_run = true});
    assert_int_equal(read_all(&t.env), 7);
    assert_int_equal(fixture_count(t.store, "_transactions"), 7);
    lk_cleanup_report done = must_clean(&t, &(lk_cleanup_options){.retain = 2});
    assert_memory_equal(&said, &done, sizeof said);
    assert_int_equal(done.versions_removed, 5);
    table_close(&t);
}

static void a_version_that_cannot_be_read_stops_it_before_anything_goes(void **state)
{
    table             t;
    lk_err            err = {0};
    lk_cleanup_report report;
    table_open(&t);
    put(t.store, "_versions/18446744073709551607.manifest"); /* version 8: five bytes of nothing */
    assert_int_equal(
        lk_dataset_cleanup(&t.env, &(lk_cleanup_options){.retain = 1}, &report, &err), LK_E_CORRUPT_FILE);
    assert_int_equal(fixture_count(t.store, "_versions"), 8);
    assert_int_equal(fixture_count(t.store, "data"), 3);
    assert_int_equal(fixture_count(t.store, "_transactions"), 7);
    table_close(&t);
}

static void no_table_is_not_found(void **state)
{
    fixture_scratch   scratch;
    lk_store         *store = fixture_scratch_open(&scratch);
    lk_lance_env      env = fixture_env(store);
    lk_err            err = {0};
    lk_cleanup_report report;
    assert_int_equal(lk_dataset_cleanup(&env, &(lk_cleanup_options){0}, &report, &err), LK_E_NOT_FOUND);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static bool round_with_fault(lk_fault kind, int64_t calls_until)
{
    table             t;
    lk_fault_plan     plan;
    lk_err            err = {0};
    lk_cleanup_report report;
    table_open(&t);
    lk_fault_plan_init(&plan);
    lk_store    *faulty = lk_faulty_store_new(fixture_scratch_reopen(&t.scratch), &plan);
    lk_lance_env faulty_env = t.env;
    faulty_env.store = faulty;
    lk_fault_plan_arm(&plan, kind, calls_until);
    lk_rc rc = lk_dataset_cleanup(&faulty_env, &(lk_cleanup_options){.retain = 2}, &report, &err);
    bool  fired = lk_fault_plan_fired(&plan);
    assert_int_equal(rc == LK_OK, !fired);
    lk_fault_plan_arm(&plan, kind, -1);
    assert_true(read_all(&t.env) >= 2); /* whatever is there is whole */
    must_clean(&t, &(lk_cleanup_options){.retain = 2});
    assert_int_equal(read_all(&t.env), 2);
    assert_int_equal(fixture_count(t.store, "data"), 3);
    assert_int_equal(fixture_count(t.store, "_deletions"), 1);
    assert_int_equal(fixture_count(t.store, "_transactions"), 2);
    assert_true(kind == LK_FAULT_TORN || fixture_count(t.store, "_versions") == 2);
    lk_store_close(faulty);
    lk_fault_plan_deinit(&plan);
    table_close(&t);
    return fired;
}

static void a_cleanup_may_stop_at_every_store_call(void **state)
{
    for (int kind = LK_FAULT_LOST; kind < LK_FAULT_COUNT; kind++) {
        int64_t calls = 0;
        while (round_with_fault((lk_fault)kind, calls)) {
            calls++;
        }
        assert_true(calls > 30);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_versions_go_with_the_files_that_only_they_need),
        cmocka_unit_test(the_newest_versions_and_the_young_ones_stay),
        cmocka_unit_test(tags_and_branches_keep_their_versions),
        cmocka_unit_test(a_file_that_nobody_refers_to_stays_for_seven_days),
        cmocka_unit_test(unverified_files_go_at_once_when_asked),
        cmocka_unit_test(a_dry_run_says_what_would_go_and_takes_nothing),
        cmocka_unit_test(a_version_that_cannot_be_read_stops_it_before_anything_goes),
        cmocka_unit_test(no_table_is_not_found),
        cmocka_unit_test(a_cleanup_may_stop_at_every_store_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
