/* file_cache_test.c - what a table's file cache keeps: readers within a bound, statistics beyond their readers. */
#include "lance/file_cache.h"

#include "lance/file_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 100 };

static lk_bytes key_of(size_t number, char out[static 32])
{
    (void)snprintf(out, 32, "data/%zu.lance", number);
    return lk_bytes_of(out);
}

static lk_file_reader *must_open(lk_file_cache *cache, size_t number)
{
    char            key[32];
    lk_err          err = {0};
    lk_file_reader *reader = NULL;
    if (lk_file_cache_open(cache, key_of(number, key), 0, &reader, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    return reader;
}

static lk_stats *must_know(lk_file_cache *cache, size_t number)
{
    char      key[32];
    lk_err    err = {0};
    lk_stats *stats = NULL;
    if (lk_file_cache_stats(cache, key_of(number, key), 0, &stats, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    return stats;
}

static void touch(lk_file_cache *cache, size_t number)
{
    lk_file_reader_unref(must_open(cache, number));
}

static void the_least_recently_used_reader_makes_room(void **state)
{
    fixture_memory store;
    lk_budget      open_files;
    lk_budget_init(&open_files, "open files", 2, NULL);
    fixture_memory_init(&store);
    fixture_write(&store, ROWS, 1, false);
    lk_file_cache *cache = lk_file_cache_new(&store.base, NULL, &open_files);
    touch(cache, 1);
    touch(cache, 2);
    touch(cache, 1);
    touch(cache, 3); /* in the place of 2 */
    size_t reads = store.reads;
    touch(cache, 1);
    touch(cache, 3);
    assert_int_equal(store.reads, reads);
    touch(cache, 2);
    assert_true(store.reads > reads);
    assert_int_equal(open_files.used_bytes, 2);
    lk_file_cache_unref(cache);
    assert_int_equal(open_files.used_bytes, 0);
    fixture_memory_deinit(&store);
}

static void a_reader_in_use_outlives_its_place(void **state)
{
    fixture_memory store;
    lk_budget      open_files;
    lk_budget_init(&open_files, "open files", 1, NULL);
    fixture_memory_init(&store);
    fixture_write(&store, ROWS, 1, false);
    lk_file_cache  *cache = lk_file_cache_new(&store.base, NULL, &open_files);
    lk_file_reader *first = must_open(cache, 1);
    touch(cache, 2);
    assert_int_equal(lk_file_reader_rows(first), ROWS);
    lk_file_cache_unref(cache);
    assert_int_equal(lk_file_reader_rows(first), ROWS);
    lk_file_reader_unref(first);
    fixture_memory_deinit(&store);
}

static void a_process_without_free_descriptors_opens_and_keeps_nothing(void **state)
{
    fixture_memory store;
    lk_budget      open_files;
    lk_budget_init(&open_files, "open files", 0, NULL);
    fixture_memory_init(&store);
    fixture_write(&store, ROWS, 1, false);
    lk_file_cache *cache = lk_file_cache_new(&store.base, NULL, &open_files);
    touch(cache, 1);
    size_t reads = store.reads;
    touch(cache, 1);
    assert_true(store.reads > reads);
    lk_file_cache_unref(cache);
    fixture_memory_deinit(&store);
}

static void statistics_outlive_their_reader(void **state)
{
    fixture_memory store;
    lk_budget      open_files;
    lk_budget_init(&open_files, "open files", 1, NULL);
    fixture_memory_init(&store);
    fixture_write(&store, ROWS, 1, false);
    lk_file_cache *cache = lk_file_cache_new(&store.base, NULL, &open_files);
    for (size_t file = 0; file < 200; file++) { /* the table grows meanwhile */
        lk_stats *stats = must_know(cache, file);
        assert_int_equal(lk_stats_zone_count(stats), 1);
        lk_stats_unref(stats);
    }
    size_t reads = store.reads;
    for (size_t file = 0; file < 200; file++) {
        lk_column_stats known = {0};
        lk_stats       *stats = must_know(cache, file);
        assert_true(lk_stats_zone(stats, 0, 0, &known));
        assert_int_equal(known.row_count, ROWS);
        lk_stats_unref(stats);
    }
    assert_int_equal(store.reads, reads);
    lk_file_cache_unref(cache);
    fixture_memory_deinit(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_recently_used_reader_makes_room),
        cmocka_unit_test(a_reader_in_use_outlives_its_place),
        cmocka_unit_test(a_process_without_free_descriptors_opens_and_keeps_nothing),
        cmocka_unit_test(statistics_outlive_their_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
