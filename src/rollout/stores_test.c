/* stores_test.c - stores by name: made, found, listed, removed; two instances on one directory. */
#include "rollout/stores_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static bool exists(const char *name)
{
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%s", pods_root, name);
    return access(path, F_OK) == 0;
}

static void expect_names(lk_rollouts *pod, const char *expected)
{
    lk_err    err = {0};
    lk_arena  arena = {0};
    lk_buf    text = {0};
    lk_bytes *names = NULL;
    size_t    count = 0;
    assert_int_equal(lk_rollouts_list(pod, &arena, &names, &count, &err), LK_OK);
    for (size_t i = 0; i < count; i++) {
        lk_buf_format(&text, "%s%.*s", i == 0 ? "" : " ", LK_FMT(names[i]));
    }
    lk_buf_append(&text, "", 1);
    assert_string_equal(text.data, expected);
    lk_buf_deinit(&text);
    lk_arena_close(&arena);
}

static void a_store_that_one_instance_made_is_found_by_another(void **state)
{
    lk_rollouts      *a = pods_open("rollout-0"), *b = pods_open("rollout-1");
    lk_rollout_store *of_a = pods_create(a, "rl");
    lk_rollout_store *of_b = pods_get(b, "rl");
    pods_must_add(of_a, "x");
    assert_int_equal(pods_rows(of_b), 1);
    pods_must_add(of_b, "y");
    assert_int_equal(pods_rows(of_a), 2);
    lk_rollout_store_unref(of_a);
    lk_rollout_store_unref(of_b);
    lk_rollouts_close(a);
    lk_rollouts_close(b);
}

static void a_mistyped_name_is_not_found_and_makes_nothing(void **state)
{
    lk_err            err = {0};
    lk_rollouts      *pod = pods_open("rollout-0");
    lk_rollout_store *s = NULL;
    assert_int_equal(lk_rollouts_get(pod, LK_LITERAL("nope"), &s, &err), LK_E_NOT_FOUND);
    assert_false(exists("nope.rollout.lance"));
    err = (lk_err){0};
    assert_int_equal(lk_rollouts_delete(pod, LK_LITERAL("nope"), &err), LK_E_NOT_FOUND);
    assert_false(exists("nope.rollout.lance"));
    lk_rollouts_close(pod);
}

static void a_second_creation_is_refused_here_and_elsewhere(void **state)
{
    lk_rollouts      *a = pods_open("rollout-0"), *b = pods_open("rollout-1");
    lk_rollout_store *s = pods_create(a, "rl"), *other = NULL;
    lk_err            err = {0};
    assert_int_equal(lk_rollouts_create(a, LK_LITERAL("rl"), &other, &err), LK_E_TABLE_EXISTS);
    err = (lk_err){0};
    assert_int_equal(lk_rollouts_create(b, LK_LITERAL("rl"), &other, &err), LK_E_TABLE_EXISTS);
    lk_rollout_store_unref(s);
    lk_rollouts_close(a);
    lk_rollouts_close(b);
}

static void the_list_shows_what_lies_there_in_order(void **state)
{
    lk_rollouts *a = pods_open("rollout-0"), *b = pods_open("rollout-1");
    expect_names(a, "");
    lk_rollout_store_unref(pods_create(a, "zeta"));
    lk_rollout_store_unref(pods_create(b, "alpha"));
    expect_names(a, "alpha zeta");
    expect_names(b, "alpha zeta");
    lk_rollouts_close(a);
    lk_rollouts_close(b);
}

static void names_that_cannot_be_are_refused(void **state)
{
    static const struct {
        const char *name;
        size_t      size;
    } bad[] = {{"", 0}, {"..", 2}, {".a", 2}, {"-a", 2}, {"a/b", 3}, {"a\0b", 3}, {"%2e%2e", 6},
        {"_registry", 9}, {"_stats", 6}, {"a b", 3}, {"\xc3\xa9", 2}};
    lk_rollouts *pod = pods_open("rollout-0");
    char         longest[129];
    memset(longest, 'n', sizeof longest);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lk_err            err = {0};
        lk_rollout_store *s = NULL;
        lk_bytes          name = {bad[i].name, bad[i].size};
        assert_int_equal(lk_rollouts_create(pod, name, &s, &err), LK_E_INVALID_REQUEST);
        assert_int_equal(lk_rollouts_get(pod, name, &s, &err), LK_E_INVALID_REQUEST);
        assert_int_equal(lk_rollouts_delete(pod, name, &err), LK_E_INVALID_REQUEST);
    }
    lk_err            err = {0};
    lk_rollout_store *s = NULL;
    assert_int_equal(lk_rollouts_create(pod, (lk_bytes){longest, 129}, &s, &err), LK_E_INVALID_REQUEST);
    err = (lk_err){0};
    assert_int_equal(lk_rollouts_create(pod, (lk_bytes){longest, 128}, &s, &err), LK_OK);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

static void a_deleted_store_refuses_its_old_handles_and_comes_back_empty(void **state)
{
    lk_rollouts      *pod = pods_open("rollout-0");
    lk_rollout_store *old = pods_create(pod, "rl");
    lk_err            err = {0};
    pods_must_add(old, "x");
    assert_int_equal(lk_rollouts_delete(pod, LK_LITERAL("rl"), &err), LK_OK);
    assert_false(exists("rl.rollout.lance"));
    assert_int_equal(pods_add(old, "late", NULL, &err), LK_E_TABLE_NOT_FOUND);
    assert_false(exists("rl.rollout.lance"));
    lk_rollout_store *again = pods_create(pod, "rl");
    assert_int_equal(pods_rows(again), 0);
    err = (lk_err){0};
    assert_int_equal(pods_add(old, "later", NULL, &err), LK_E_TABLE_NOT_FOUND);
    pods_must_add(again, "y");
    assert_int_equal(pods_rows(again), 1);
    lk_rollout_store_unref(old);
    lk_rollout_store_unref(again);
    lk_rollouts_close(pod);
}

static void another_instance_notices_that_a_store_was_removed_and_made_again(void **state)
{
    lk_rollouts      *a = pods_open("rollout-0"), *b = pods_open("rollout-1");
    lk_rollout_store *of_a = pods_create(a, "rl"), *of_b = pods_get(b, "rl");
    lk_err            err = {0};
    pods_must_add(of_a, "x");
    pods_must_add(of_b, "y");
    lk_rollout_store_unref(of_a);
    lk_rollout_store_unref(of_b);
    assert_int_equal(lk_rollouts_delete(a, LK_LITERAL("rl"), &err), LK_OK);
    lk_clock_sleep_ms(lk_clock_real(), LK_ROLLOUT_STALE_MS + 1);
    assert_int_equal(lk_rollouts_get(b, LK_LITERAL("rl"), &of_b, &err), LK_E_NOT_FOUND);
    lk_rollout_store_unref(pods_create(a, "rl"));
    of_b = pods_get(b, "rl");
    assert_int_equal(pods_rows(of_b), 0);
    pods_must_add(of_b, "z");
    lk_rollout_store_unref(of_b);
    assert_int_equal(lk_rollouts_delete(a, LK_LITERAL("rl"), &err), LK_OK);
    lk_rollout_store_unref(pods_create(a, "rl"));
    lk_clock_sleep_ms(lk_clock_real(), LK_ROLLOUT_STALE_MS + 1);
    of_b = pods_get(b, "rl");
    assert_int_equal(pods_rows(of_b), 0);
    lk_rollout_store_unref(of_b);
    lk_rollouts_close(a);
    lk_rollouts_close(b);
}

static void stores_that_nobody_uses_are_closed_when_there_are_too_many(void **state)
{
    lk_err                    err = {0};
    lk_rollouts              *pod = NULL;
    lk_rollouts_stats         stats;
    const lk_rollouts_options options = {
        .data_dir = lk_bytes_of(pods_root), .store = {.instance_id = LK_LITERAL("rollout-0")}, .open_max = 2};
    assert_int_equal(lk_rollouts_open(&options, &pod, &err), LK_OK);
    for (int i = 0; i < 5; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "s%d", i);
        lk_rollout_store_unref(pods_create(pod, name));
    }
    lk_rollouts_read_stats(pod, &stats);
    assert_true(stats.open <= 3);
    lk_rollout_store *first = pods_get(pod, "s0");
    pods_must_add(first, "x");
    lk_rollout_store_unref(first);
    lk_rollouts_close(pod);
}

static void adds_stop_below_the_low_water_mark_and_reads_go_on(void **state)
{
    lk_err              err = {0};
    lk_rollouts        *pod = NULL;
    lk_rollouts_options options = {.data_dir = lk_bytes_of(pods_root),
        .store = {.instance_id = LK_LITERAL("rollout-0")},
        .disk_low_bytes = 1};
    assert_int_equal(lk_rollouts_open(&options, &pod, &err), LK_OK);
    lk_rollout_store *store = pods_create(pod, "low");
    pods_must_add(store, "one");
    lk_rollout_store_unref(store);
    lk_rollouts_close(pod);
    options.disk_low_bytes = UINT64_MAX / 2; /* more than any disk has */
    assert_int_equal(lk_rollouts_open(&options, &pod, &err), LK_OK);
    store = pods_get(pod, "low");
    assert_int_equal(pods_add(store, "two", NULL, &err), LK_E_STORE_FULL);
    assert_non_null(strstr(err.detail, "MiB free"));
    assert_int_equal(pods_rows(store), 1);
    lk_rollout_store_unref(store);
    lk_rollouts_close(pod);
}

static void data_directories_that_cannot_be_are_refused_by_name(void **state)
{
    static const struct {
        const char *location, *says;
    } bad[] = {{"gs://bucket/x", "gs://"}, {"az://container", "az://"}, {"ftp://host/x", "ftp://"},
        {"s3:bucket", "s3:"}, {"s3://bucket/x", "keys"}, {"file://relative", "file://"}, {"", "empty"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lk_err                    err = {0};
        lk_rollouts              *pod = NULL;
        const lk_rollouts_options options = {
            .data_dir = lk_bytes_of(bad[i].location), .store = {.instance_id = LK_LITERAL("i")}};
        assert_int_equal(lk_rollouts_open(&options, &pod, &err), LK_E_INVALID_CONFIG);
        assert_non_null(strstr(err.detail, bad[i].says));
    }
    lk_err              err = {0};
    lk_rollouts        *pod = NULL;
    char                location[80];
    lk_rollouts_options options = {.store = {.instance_id = LK_LITERAL("i")}, .durable = true};
    (void)snprintf(location, sizeof location, "file://%s/", pods_root);
    options.data_dir = lk_bytes_of(location);
    assert_int_equal(lk_rollouts_open(&options, &pod, &err), LK_OK);
    lk_rollout_store_unref(pods_create(pod, "rl"));
    assert_true(exists("rl.rollout.lance"));
    lk_rollouts_close(pod);
}

#define T(test) cmocka_unit_test_setup_teardown(test, pods_make_root, pods_remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_store_that_one_instance_made_is_found_by_another),
        T(a_mistyped_name_is_not_found_and_makes_nothing),
        T(a_second_creation_is_refused_here_and_elsewhere),
        T(the_list_shows_what_lies_there_in_order),
        T(names_that_cannot_be_are_refused),
        T(a_deleted_store_refuses_its_old_handles_and_comes_back_empty),
        T(another_instance_notices_that_a_store_was_removed_and_made_again),
        T(stores_that_nobody_uses_are_closed_when_there_are_too_many),
        T(adds_stop_below_the_low_water_mark_and_reads_go_on),
        T(data_directories_that_cannot_be_are_refused_by_name),
    };
    return cmocka_run_group_tests_name("rollout stores", tests, NULL, NULL);
}
