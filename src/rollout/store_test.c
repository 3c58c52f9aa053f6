/* store_test.c - a store as an instance works with it: adds, repeats, merges that adds set off, log entries of the dead. */
#include "rollout/store.h"

#include "base/fault.h"
#include "base/file.h"
#include "io/faulty.h"
#include "io/local.h"
#include "rollout/query.h"
#include "rollout/records_json.h"
#include "rollout/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char         root[64];
static lk_store    *store;
static lk_lance_env env;

static int open_root(void **state)
{
    lk_err err = {0};
    (void)snprintf(root, sizeof root, "%s/lake-store-XXXXXX", P_tmpdir);
    env = (lk_lance_env){.clock = lk_clock_real(), .random = lk_random_os()};
    if (mkdtemp(root) == NULL || lk_local_store_open(&store, lk_bytes_of(root), false, &err) != LK_OK) {
        return -1;
    }
    env.store = store;
    return 0;
}

static int close_root(void **state)
{
    lk_err err = {0};
    lk_store_close(store);
    return lk_directory_remove(root, &err) == LK_OK ? 0 : -1;
}

static lk_rollout_options options_of(const char *instance, uint64_t merge_after)
{
    return (lk_rollout_options){
        .instance_id = lk_bytes_of(instance), .merge_after = merge_after, .log = LK_ROLLOUT_LOG_ALWAYS};
}

static lk_rollout_store *must(bool create, const char *instance, uint64_t merge_after)
{
    lk_err             err = {0};
    lk_rollout_store  *s = NULL;
    lk_rollout_options options = options_of(instance, merge_after);
    lk_rc              rc = create ? lk_rollout_store_create(&env, NULL, &options, &s, &err)
                                   : lk_rollout_store_open(&env, NULL, &options, &s, &err);
    if (rc != LK_OK) {
        fail_msg("%s", err.context);
    }
    return s;
}

static lk_rc add(lk_rollout_store *s, const char *lines, lk_err *err)
{
    lk_records *records = NULL;
    assert_int_equal(lk_records_open(77000000, NULL, &records, err), LK_OK);
    assert_int_equal(lk_records_read_ndjson(records, lk_bytes_of(lines), err), LK_OK);
    lk_rc rc = lk_rollout_store_add(s, records, false, NULL, err);
    lk_records_close(records);
    return rc;
}

#define REC(id, more) "{\"id\":\"" id "\",\"rollout_id\":\"r\"" more "}\n"

/* "a b /2 3": the ids, how many generations, how many base rows. */
static void expect(lk_rollout_store *s, const char *expected)
{
    lk_err                 err = {0};
    lk_rollout_snapshot   *snapshot = NULL;
    lk_batches            *rows = NULL;
    struct ArrowArray      batch = {0};
    lk_buf                 text = {0};
    const lk_rollout_query query = {.order = LK_ROLLOUT_BY_ID, .limit = UINT64_MAX};
    assert_int_equal(lk_rollout_store_snapshot(s, 0, &snapshot, &err), LK_OK);
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

static void a_store_is_made_once_and_opened_by_anyone(void **state)
{
    lk_err             err = {0};
    lk_rollout_store  *s = NULL;
    lk_rollout_options options = options_of("rollout-0", 0);
    assert_int_equal(lk_rollout_store_open(&env, NULL, &options, &s, &err), LK_E_NOT_FOUND);
    err = (lk_err){0};
    s = must(true, "rollout-0", 0);
    lk_rollout_store *second = NULL;
    assert_int_equal(lk_rollout_store_create(&env, NULL, &options, &second, &err), LK_E_TABLE_EXISTS);
    err = (lk_err){0};
    second = must(false, "rollout-1", 0);
    assert_int_equal(add(s, REC("a", ""), &err), LK_OK);
    expect(second, "a /1 0");
    assert_int_equal(add(second, REC("b", "") REC("c", ""), &err), LK_OK);
    expect(s, "a b c /2 0");
    lk_rollout_store_unref(s);
    lk_rollout_store_unref(second);
}

static void a_repeat_adds_nothing_and_another_record_is_a_conflict(void **state)
{
    lk_err            err = {0};
    lk_rollout_store *s = must(true, "rollout-0", 0), *second = must(false, "rollout-1", 0);
    assert_int_equal(add(s, REC("a", ",\"reward\":1"), &err), LK_OK);
    assert_int_equal(add(s, REC("a", ",\"reward\":1.0"), &err), LK_OK);
    assert_int_equal(add(second, REC("a", ",\"reward\":1.0"), &err), LK_OK);
    expect(s, "a /1 0");
    assert_int_equal(add(second, REC("b", "") REC("a", ",\"reward\":2"), &err), LK_E_CONFLICT);
    expect(s, "a /1 0");
    lk_rollout_store_unref(s);
    lk_rollout_store_unref(second);
}

static void every_fifth_generation_sets_off_a_merge(void **state)
{
    static const char *const lines[] = {
        REC("a", ""), REC("b", ""), REC("c", ""), REC("d", ""), REC("e", ""), REC("f", "")};
    lk_err                 err = {0};
    lk_rollout_store_stats stats;
    lk_rollout_store      *s = must(true, "rollout-0", 5);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(add(s, lines[i], &err), LK_OK);
    }
    expect(s, "a b c d /4 0");
    assert_int_equal(add(s, lines[4], &err), LK_OK);
    expect(s, "a b c d e /0 5");
    assert_int_equal(add(s, lines[5], &err), LK_OK);
    expect(s, "a b c d e f /1 5");
    lk_rollout_store_read_stats(s, &stats);
    assert_int_equal(stats.merges, 1);
    assert_int_equal(stats.merged_rows, 5);
    assert_int_equal(stats.merge_failures, 0);
    assert_int_equal(stats.writer.rows, 6);
    lk_rollout_store_unref(s);
}

/* The store, over calls that may fail as planned. *faulty: what it lives in. */
static lk_rollout_store *open_faulty(
    lk_lance_env *faulty, lk_fault_plan *plan, const lk_rollout_options *options)
{
    lk_err            err = {0};
    lk_rollout_store *s = NULL;
    lk_fault_plan_init(plan);
    *faulty = env;
    faulty->store = lk_faulty_store_new(store, plan);
    assert_int_equal(lk_rollout_store_open(faulty, NULL, options, &s, &err), LK_OK);
    return s;
}

static void close_faulty(lk_rollout_store *s, const lk_lance_env *faulty, lk_fault_plan *plan)
{
    lk_rollout_store_unref(s);
    store = faulty->store; /* closed with the one beneath */
    lk_fault_plan_deinit(plan);
    assert_int_equal(close_root(NULL), 0);
}

/* An add whose merge meets a fault at its nth store call. Whether that add stands is what the writer said before the merge began. */
static bool merging_round(int64_t calls_until, uint64_t *failed)
{
    lk_err                 err = {0};
    lk_fault_plan          plan;
    lk_lance_env           faulty;
    lk_rollout_store_stats stats;
    lk_rollout_options     options = options_of("rollout-0", 2);
    lk_rollout_store      *s = NULL;
    assert_int_equal(open_root(NULL), 0);
    lk_rollout_store_unref(must(true, "rollout-0", 0));
    s = open_faulty(&faulty, &plan, &options);
    assert_int_equal(add(s, REC("a", ""), &err), LK_OK);
    lk_fault_plan_arm(&plan, LK_FAULT_DENIED, calls_until);
    lk_rc rc = add(s, REC("b", ""), &err);
    bool  fired = lk_fault_plan_fired(&plan);
    lk_fault_plan_arm(&plan, LK_FAULT_DENIED, -1);
    lk_rollout_store_read_stats(s, &stats);
    if (stats.merge_failures > 0) {
        assert_int_equal(rc, LK_OK);
        lk_rollout_merge_report        report;
        const lk_rollout_merge_options all = {0};
        assert_int_equal(lk_rollout_store_merge(s, &all, &report, &err), LK_OK);
        expect(s, "a b /0 2");
    }
    *failed += stats.merge_failures;
    close_faulty(s, &faulty, &plan);
    return fired;
}

static void an_add_stands_though_the_merge_that_it_set_off_failed(void **state)
{
    uint64_t failed = 0;
    int64_t  calls = 0;
    while (merging_round(calls, &failed)) {
        calls++;
        assert_true(calls < 400);
    }
    assert_true(failed >= 5);
}

/* What another instance of the same name leaves that wrote its log and died before its flush. */
static void leave_entry(lk_uuid shard, uint64_t position, const char *lines)
{
    lk_err             err = {0};
    bool               created;
    lk_bytes           entry;
    lk_wal_form        form = {0};
    struct ArrowSchema schema = {0};
    struct ArrowArray  batch = {0};
    lk_records        *records = NULL;
    lk_record_schema(true, &schema);
    assert_int_equal(lk_records_open(1, NULL, &records, &err), LK_OK);
    assert_int_equal(lk_records_read_ndjson(records, lk_bytes_of(lines), &err), LK_OK);
    assert_int_equal(lk_records_finish(records, false, &batch, &err), LK_OK);
    lk_shared_array *rows = lk_array_share(&batch);
    assert_int_equal(lk_wal_encode(&form, &schema, &rows, 1, 1, &entry, &err), LK_OK);
    assert_int_equal(lk_wal_put(store, shard, position, entry, &created, &err), LK_OK);
    assert_true(created);
    lk_shared_array_unref(rows);
    lk_records_close(records);
    lk_schema_release(&schema);
    lk_wal_form_deinit(&form);
}

static void rows_that_only_the_log_has_come_back_once(void **state)
{
    lk_err            err = {0};
    lk_rollout_store *s = must(true, "rollout-0", 0);
    assert_int_equal(add(s, REC("a", ""), &err), LK_OK);
    lk_uuid shard = lk_rollout_store_shard(s);
    lk_rollout_store_unref(s);
    leave_entry(shard, 2, REC("a", "") REC("x", ",\"binary_payload\":\"AAEC\"") REC("y", ""));

    s = must(false, "rollout-0", 0);
    expect(s, "a /1 0");
    assert_int_equal(
        add(s, REC("x", ",\"reward\":2"), &err), LK_E_CONFLICT); /* which the claim brings to light */
    err = (lk_err){0};
    assert_int_equal(add(s, REC("b", ""), &err), LK_OK);
    expect(s, "a b x y /3 0");
    lk_rollout_snapshot *snapshot = NULL;
    lk_rollout_blob     *payload = NULL;
    bool                 found;
    assert_int_equal(lk_rollout_store_snapshot(s, 0, &snapshot, &err), LK_OK);
    assert_int_equal(lk_rollout_blob_open(snapshot, LK_LITERAL("x"), NULL, &payload, &found, &err), LK_OK);
    assert_true(found && lk_rollout_blob_size(payload) == 3);
    lk_rollout_blob_close(payload);
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_store_unref(s);
}

/* The first thing that a new process does is a merge, which claims and replays, with one store call failing; or an add. What
 * it says is true, and the next tries get through. */
static bool round_of(lk_fault kind, int64_t calls_until, bool adds)
{
    const lk_rollout_merge_options all = {0};
    lk_err                         err = {0}, again = {0};
    lk_rollout_merge_report        report;
    lk_fault_plan                  plan;
    lk_lance_env                   faulty;
    lk_rollout_options             options = options_of("rollout-0", 0);
    lk_rollout_store              *s = NULL;
    assert_int_equal(open_root(NULL), 0);
    s = must(true, "rollout-0", 0);
    assert_int_equal(add(s, REC("a", ""), &err), LK_OK);
    lk_uuid shard = lk_rollout_store_shard(s);
    lk_rollout_store_unref(s);
    leave_entry(shard, 2, REC("x", "") REC("y", ""));

    s = open_faulty(&faulty, &plan, &options);
    lk_fault_plan_arm(&plan, kind, calls_until);
    lk_rc rc =
        adds ? add(s, REC("b", "") REC("c", ""), &err) : lk_rollout_store_merge(s, &all, &report, &err);
    bool fired = lk_fault_plan_fired(&plan);
    lk_fault_plan_arm(&plan, kind, -1);
    assert_true(rc == LK_OK || fired);
    assert_int_equal(add(s, REC("b", "") REC("c", ""), &again), LK_OK);
    assert_int_equal(lk_rollout_store_merge(s, &all, &report, &again), LK_OK);
    expect(s, "a b c x y /0 5");
    close_faulty(s, &faulty, &plan);
    return fired;
}

/* The writer's and the merge's own tests try every kind at every call; here every call of a merge is lost, and the answer of
 * every fifth call of an add. */
static void a_new_process_that_meets_a_fault_anywhere_goes_on(void **state)
{
    int64_t calls = 0;
    while (round_of(LK_FAULT_LOST, calls, false)) {
        calls++;
        assert_true(calls < 400);
    }
    assert_true(calls >= 20);
    for (calls = 0; round_of(LK_FAULT_REPLY_LOST, calls, true); calls += 5) {
        assert_true(calls < 400);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_store_is_made_once_and_opened_by_anyone, open_root, close_root),
        cmocka_unit_test_setup_teardown(
            a_repeat_adds_nothing_and_another_record_is_a_conflict, open_root, close_root),
        cmocka_unit_test_setup_teardown(every_fifth_generation_sets_off_a_merge, open_root, close_root),
        cmocka_unit_test(an_add_stands_though_the_merge_that_it_set_off_failed),
        cmocka_unit_test_setup_teardown(rows_that_only_the_log_has_come_back_once, open_root, close_root),
        cmocka_unit_test(a_new_process_that_meets_a_fault_anywhere_goes_on),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
