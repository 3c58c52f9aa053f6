/* maintain_test.c - what is done for stores behind the requests, with two instances where that matters. */
#include "rollout/stores_fixture.h"

#include "io/local.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void add_many(lk_rollout_store *s, const char *prefix, int from, int to)
{
    for (int i = from; i < to; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "%s-%d", prefix, i);
        pods_must_add(s, id);
    }
}

static void merges_in_the_background_keep_few_generations_pending(void **state)
{
    lk_rollouts_stats         stats;
    const lk_rollouts_options options = {.store = {.merge_after = 5}, .maintenance = {.background = true}};
    lk_rollouts              *pod = pods_open_with("rollout-0", &options);
    lk_rollout_store         *s = pods_create(pod, "rl");
    add_many(s, "a", 0, 30);
    pods_wait(pods_pending, s, 4);
    assert_int_equal(pods_rows(s), 30);
    assert_true(pods_base_rows(s) >= 26);
    lk_rollouts_read_stats(pod, &stats);
    assert_true(stats.maintenance.rounds > 0);
    assert_int_equal(stats.maintenance.failures, 0);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

static void the_clock_merges_what_an_earlier_process_left(void **state)
{
    const lk_rollouts_options by_clock = {
        .maintenance = {.interval_ms = 50, .generations_min = 3, .generations_max = 2}};
    lk_rollouts      *first = pods_open("rollout-0");
    lk_rollout_store *s = pods_create(first, "rl");
    add_many(s, "a", 0, 7);
    lk_rollout_store_unref(s);
    lk_rollouts_close(first);
    lk_rollouts *second = pods_open_with("rollout-0", &by_clock);
    s = pods_get(second, "rl");
    assert_int_equal(pods_pending(s), 7);
    pods_wait(pods_pending, s,
        2); /* three rounds of two are allowed; one is left, below the three that make it due */
    assert_int_equal(pods_pending(s), 1);
    assert_int_equal(pods_rows(s), 7);
    lk_rollout_store_unref(s);
    lk_rollouts_close(second);
}

static void many_small_fragments_become_few_and_rows_stay(void **state)
{
    const lk_rollouts_options options = {.store = {.merge_after = 1}};
    lk_rollouts              *pod = pods_open_with("rollout-0", &options);
    lk_rollout_store         *s = pods_create(pod, "rl");
    add_many(s, "a", 0, 40);
    pods_wait(pods_fragments, s, LK_ROLLOUT_FOLD_FRAGMENTS - 1);
    assert_int_equal(pods_rows(s), 40);
    assert_int_equal(pods_base_rows(s), 40);
    add_many(s, "b", 0, 20);
    assert_int_equal(pods_rows(s), 60);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

static size_t directories(lk_rollout_store *s)
{
    return pods_directories("rl", "rollout-0");
}

static void what_was_merged_goes_after_the_time_of_grace_and_not_before(void **state)
{
    const lk_rollouts_options options = {.store = {.merge_after = 4}, .maintenance = {.grace_ms = 1500}};
    lk_rollouts              *pod = pods_open_with("rollout-0", &options);
    lk_rollout_store         *s = pods_create(pod, "rl");
    add_many(s, "a", 0, 4);
    lk_clock_sleep_ms(lk_clock_real(), 1000);
    add_many(s, "b", 0, 4);
    lk_clock_sleep_ms(lk_clock_real(), 800); /* the first four are due, the second four are not */
    size_t now = directories(s);
    assert_in_range(now, 4, 8);
    pods_wait(directories, s, 0);
    assert_int_equal(pods_rows(s), 8);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

static size_t versions(lk_rollout_store *s)
{
    (void)s;
    return pods_versions("rl");
}

/* What is merged with every add leaves a version each time: the newest stays, and with it every row. */
static void versions_that_are_older_than_they_are_kept_are_removed(void **state)
{
    lk_rollouts_stats         stats;
    const lk_rollouts_options keeps = {.store = {.merge_after = 1}};
    const lk_rollouts_options cleans = {.store = {.merge_after = 1}, .maintenance = {.keep_ms = 2000}};
    lk_rollouts              *pod = pods_open_with("rollout-0", &keeps);
    lk_rollout_store         *s = pods_create(pod, "rl");
    add_many(s, "a", 0, 12);
    assert_true(versions(s) > 12);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
    pod = pods_open_with("rollout-0", &cleans);
    s = pods_get(pod, "rl");
    assert_int_equal(pods_rows(s), 12);
    assert_int_equal(pods_base_rows(s), 12);
    for (int i = 0; i < 100 && (i < 3 || versions(s) > 1);
         i++) { /* as requests come, which look whether it is there */
        lk_rollout_store *again = pods_get(pod, "rl");
        assert_ptr_equal(again, s); /* the version that it was opened at is gone, the store is the same */
        lk_rollout_store_unref(again);
        if (i < 3) {
            add_many(s, "b", i, i + 1);
        }
        lk_clock_sleep_ms(lk_clock_real(), 100);
    }
    assert_int_equal(versions(s), 1);
    assert_int_equal(pods_rows(s), 15);
    lk_rollouts_read_stats(pod, &stats);
    assert_true(stats.maintenance.versions_removed >= 14);
    assert_int_equal(stats.maintenance.failures, 0);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

static void a_start_sweeps_what_a_crash_left(void **state)
{
    lk_err                    err = {0};
    bool                      created = false;
    lk_store                 *root = NULL;
    char                      shard[LK_UUID_TEXT_SIZE + 1], key[160];
    const lk_rollouts_options quick = {.maintenance = {.grace_ms = 100}};
    lk_rollouts              *pod = pods_open("rollout-0");
    lk_rollout_store         *s = pods_create(pod, "rl");
    add_many(s, "a", 0, 3);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
    lk_uuid_format(lk_shard_of_instance(LK_LITERAL("rollout-0")), shard);
    (void)snprintf(key, sizeof key, "rl.rollout.lance/_mem_wal/%s/deadbeef_gen_2/data/x.lance", shard);
    pods_must(lk_local_store_open(&root, lk_bytes_of(pods_root), false, &err), &err);
    pods_must(lk_store_put_if_absent(root, lk_bytes_of(key), LK_LITERAL("half"), &created, &err), &err);
    lk_store_close(root);
    assert_int_equal(directories(NULL), 4);
    pod = pods_open_with("rollout-0", &quick);
    s = pods_get(pod, "rl");
    pods_wait(directories, s, 3);
    assert_int_equal(pods_rows(s), 3);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

static void a_store_is_deleted_while_it_is_worked_on(void **state)
{
    const lk_rollouts_options options = {
        .store = {.merge_after = 2}, .maintenance = {.background = true, .interval_ms = 1, .grace_ms = 1}};
    lk_rollouts *pod = pods_open_with("rollout-0", &options);
    for (int i = 0; i < 4; i++) {
        lk_err            err = {0};
        lk_rollout_store *s = pods_create(pod, "rl");
        add_many(s, "a", 0, 8);
        pods_must(lk_rollouts_delete(pod, LK_LITERAL("rl"), &err), &err);
        assert_int_equal(pods_add(s, "late", NULL, &err), LK_E_TABLE_NOT_FOUND);
        lk_rollout_store_unref(s);
    }
    lk_rollouts_close(pod);
}

/* -- several instances ------------------------------------------------------------------------------------------- */

typedef struct adder {
    lk_thread         thread;
    lk_rollout_store *store;
    const char       *prefix;
    int               count;
    lk_rc             rc;
    lk_err            err;
} adder;

static void keep_adding(void *context)
{
    adder *a = context;
    for (int i = 0; a->rc == LK_OK && i < a->count; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "%s-%d", a->prefix, i);
        a->rc = pods_add(a->store, id, NULL, &a->err);
    }
}

static void start_adding(adder *a, lk_rollout_store *store, const char *prefix, int count)
{
    *a = (adder){.store = store, .prefix = prefix, .count = count};
    pods_must(lk_thread_start(&a->thread, "adder", keep_adding, a, &a->err), &a->err);
}

static void finish_adding(adder *a)
{
    lk_thread_join(&a->thread);
    pods_must(a->rc, &a->err);
}

static void two_instances_merge_into_one_table_fifty_times(void **state)
{
    enum { ROUNDS = 50 };
    const lk_rollouts_options options = {.store = {.merge_after = 1}};
    lk_rollouts              *a = pods_open_with("rollout-0", &options);
    lk_rollouts              *b = pods_open_with("rollout-1", &options);
    lk_rollout_store         *of_a = pods_create(a, "rl"), *of_b = pods_get(b, "rl");
    adder                     first, second;
    start_adding(&first, of_a, "a", ROUNDS);
    start_adding(&second, of_b, "b", ROUNDS);
    finish_adding(&first);
    finish_adding(&second);
    assert_int_equal(pods_rows(of_a), 2 * ROUNDS);
    assert_int_equal(pods_rows(of_b), 2 * ROUNDS);
    lk_err                         err = {0};
    lk_rollout_merge_report        report;
    const lk_rollout_merge_options all = {0};
    pods_must(lk_rollout_store_merge(of_a, &all, &report, &err), &err);
    pods_must(lk_rollout_store_merge(of_b, &all, &report, &err), &err);
    assert_int_equal(pods_pending(of_a), 0);
    assert_int_equal(pods_base_rows(of_a), 2 * ROUNDS); /* each once */
    lk_rollout_store_unref(of_a);
    lk_rollout_store_unref(of_b);
    lk_rollouts_close(a);
    lk_rollouts_close(b);
}

static void compactions_during_merges_and_adds_change_no_row(void **state)
{
    enum { ROWS = 30 };
    const lk_rollouts_options options = {.store = {.merge_after = 2}};
    lk_rollouts              *a = pods_open_with("rollout-0", &options);
    lk_rollouts              *b = pods_open_with("rollout-1", &options);
    lk_rollout_store         *of_a = pods_create(a, "rl"), *of_b = pods_get(b, "rl");
    adder                     first, second;
    lk_err                    err = {0};
    start_adding(&first, of_a, "a", ROWS);
    start_adding(&second, of_b, "b", ROWS);
    for (int i = 0; i < 6; i++) {
        lk_rollout_compact_report report;
        lk_rc                     rc = lk_rollout_store_compact(of_a, 0, &report, &err);
        if (rc != LK_OK) {
            assert_true(rc == LK_E_COMPACTION_IN_PROGRESS || rc == LK_E_CONFLICT);
        }
        lk_clock_sleep_ms(lk_clock_real(), 20);
    }
    finish_adding(&first);
    finish_adding(&second);
    assert_int_equal(pods_rows(of_b), 2 * ROWS);
    lk_rollout_fsck_report        report;
    const lk_rollout_fsck_options check = {0};
    err = (lk_err){0};
    pods_must(lk_rollout_store_fsck(of_a, &check, &report, &err), &err);
    assert_int_equal(report.damages, 0); /* the MemWAL index is there, too */
    lk_rollout_store_unref(of_a);
    lk_rollout_store_unref(of_b);
    lk_rollouts_close(a);
    lk_rollouts_close(b);
}

static void first_writes_at_once_all_succeed(void **state)
{
    enum { PODS = 4 };
    lk_rollouts              *pods[PODS];
    lk_rollout_store         *stores[PODS];
    adder                     adders[PODS];
    static char               names[PODS][12];
    const lk_rollouts_options durable = {.store = {.log = LK_ROLLOUT_LOG_ALWAYS}, .durable = true};
    for (int i = 0; i < PODS; i++) {
        (void)snprintf(names[i], sizeof names[i], "rollout-%d", i);
        pods[i] = pods_open_with(names[i], &durable);
        stores[i] = i == 0 ? pods_create(pods[i], "rl") : pods_get(pods[i], "rl");
    }
    for (int i = 0; i < PODS; i++) {
        start_adding(&adders[i], stores[i], names[i], 3);
    }
    for (int i = 0; i < PODS; i++) {
        finish_adding(&adders[i]);
    }
    for (int i = 0; i < PODS; i++) {
        assert_int_equal(pods_rows(stores[i]), 3 * PODS);
        lk_rollout_store_unref(stores[i]);
        lk_rollouts_close(pods[i]);
    }
}

#define T(test) cmocka_unit_test_setup_teardown(test, pods_make_root, pods_remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(merges_in_the_background_keep_few_generations_pending),
        T(the_clock_merges_what_an_earlier_process_left),
        T(many_small_fragments_become_few_and_rows_stay),
        T(what_was_merged_goes_after_the_time_of_grace_and_not_before),
        T(versions_that_are_older_than_they_are_kept_are_removed),
        T(a_start_sweeps_what_a_crash_left),
        T(a_store_is_deleted_while_it_is_worked_on),
        T(two_instances_merge_into_one_table_fifty_times),
        T(compactions_during_merges_and_adds_change_no_row),
        T(first_writes_at_once_all_succeed),
    };
    return cmocka_run_group_tests_name("rollout maintenance", tests, NULL, NULL);
}
