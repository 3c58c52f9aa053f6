/* file_read_test.c - a file that we wrote reads back; a damaged one is an error or the same rows, never a crash.
 * (What the reference writes and reads is compared in tests/interop.) */
#include "lance/file_fixture.h"

#include "base/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- tests ----------------------------------------------------------------------------------------- */
static void round_trip(int64_t rows, int64_t batches, bool nulls)
{
    fixture_memory    store;
    struct ArrowArray expected, actual;
    lk_err            err = {0};
    fixture_memory_init(&store);
    fixture_write(&store, rows, batches, nulls);
    fixture_every_rows(0, rows * batches, nulls, &expected);
    assert_int_equal(fixture_read(&store, NULL, 0, &actual, &err), LK_OK);
    assert_int_equal(actual.length, rows * batches);
    fixture_same_rows(&expected, 0, &actual, 0, rows * batches);
    lk_array_release(&expected);
    lk_array_release(&actual);
    fixture_memory_deinit(&store);
}

static void rows_of_every_type_come_back(void **state)
{
    (void)state;
    round_trip(1, 1, false);
    round_trip(7, 1, true);
    round_trip(1000, 3, false);
    round_trip(1000, 3, true);
}

static void a_file_without_rows_has_no_pages(void **state)
{
    (void)state;
    fixture_memory    store;
    struct ArrowArray actual;
    lk_err            err = {0};
    fixture_memory_init(&store);
    fixture_write(&store, 0, 0, false);
    assert_int_equal(fixture_read(&store, NULL, 0, &actual, &err), LK_OK);
    assert_int_equal(actual.length, 0);
    lk_array_release(&actual);
    fixture_memory_deinit(&store);
}

static void any_ranges_give_exactly_their_rows(void **state)
{
    (void)state;
    enum { ROWS = 5000 };
    fixture_memory    store;
    struct ArrowArray expected, actual;
    lk_err            err = {0};
    lk_row_range      ranges[ROWS];
    uint64_t          random = 88172645463325252U;
    fixture_memory_init(&store);
    fixture_write(&store, ROWS / 5, 5, true);
    fixture_every_rows(0, ROWS, true, &expected);
    for (unsigned round = 0; round < 6; round++) {
        size_t count = 0;
        for (uint64_t row = round % 2; row < ROWS;) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            uint64_t size = 1 + random % (1U << (2 * round)), gap = 1 + (random >> 32) % (1U << (2 * round));
            size = row + size > ROWS ? ROWS - row : size;
            ranges[count++] = (lk_row_range){row, size};
            row += size + gap;
        }
        assert_int_equal(fixture_read(&store, ranges, count, &actual, &err), LK_OK);
        int64_t at = 0;
        for (size_t i = 0; i < count; i++) {
            fixture_same_rows(&expected, (int64_t)ranges[i].start, &actual, at, (int64_t)ranges[i].count);
            at += (int64_t)ranges[i].count;
        }
        assert_int_equal(at, actual.length);
        lk_array_release(&actual);
    }
    lk_array_release(&expected);
    fixture_memory_deinit(&store);
}

/* Reads a copy with one byte changed; the rows may differ (values are not checksummed), the shape may not. */
static void read_damaged(fixture_memory *store, size_t at, uint8_t flip, int64_t rows)
{
    struct ArrowArray actual = {0};
    lk_err            err = {0};
    store->object.data[at] = (char)(store->object.data[at] ^ flip);
    lk_rc rc = fixture_read(store, NULL, 0, &actual, &err);
    if (rc == LK_OK) {
        struct ArrowArrayView view;
        fixture_open_view(&actual, &view);
        assert_true(actual.length == rows || at >= store->object.size - 4096);
        ArrowArrayViewReset(&view);
        lk_array_release(&actual);
    } else {
        assert_true(rc == LK_E_CORRUPT_FILE || rc == LK_E_UNSUPPORTED_FORMAT || rc == LK_E_LIMIT);
        assert_true(err.len > 0);
    }
    store->object.data[at] = (char)(store->object.data[at] ^ flip);
}

static void no_changed_byte_does_harm(void **state)
{
    (void)state;
    fixture_memory store;
    fixture_memory_init(&store);
    fixture_write(&store, 11, 1, true);
    for (size_t at = 0; at < store.object.size; at++) {
        read_damaged(&store, at, at % 3 == 0 ? 0xff : at % 3 == 1 ? 0x01 : 0x40, 11);
    }
    fixture_memory_deinit(&store);
}

static void a_file_cut_short_is_refused(void **state)
{
    (void)state;
    fixture_memory store;
    fixture_memory_init(&store);
    fixture_write(&store, 11, 1, true);
    size_t whole = store.object.size;
    for (size_t size = 0; size < whole; size += size < whole - 64 ? 37 : 1) {
        struct ArrowArray actual = {0};
        lk_err            err = {0};
        store.object.size = size;
        assert_int_equal(fixture_read(&store, NULL, 0, &actual, &err), LK_E_CORRUPT_FILE);
    }
    store.object.size = whole;
    fixture_memory_deinit(&store);
}

static void another_size_than_the_manifest_says_is_damage(void **state)
{
    (void)state;
    fixture_memory  store;
    lk_file_reader *file = NULL;
    lk_err          err = {0};
    fixture_memory_init(&store);
    fixture_write(&store, 3, 1, false);
    assert_int_equal(
        lk_file_reader_open(&store.base, LK_LITERAL("file"), store.object.size + 1, NULL, &file, &err),
        LK_E_CORRUPT_FILE);
    fixture_memory_deinit(&store);
}

static void a_budget_that_is_too_small_refuses_and_is_given_back(void **state)
{
    (void)state;
    fixture_memory     store;
    lk_budget          budget;
    lk_err             err = {0};
    lk_file_reader    *file = NULL;
    struct ArrowSchema schema;
    fixture_memory_init(&store);
    fixture_write(&store, 1000, 5, true);
    fixture_every_schema(&schema);
    for (size_t limit = 0; limit < 400000; limit += 7001) {
        lk_budget_init(&budget, "test", limit, NULL);
        err = (lk_err){0};
        lk_rc rc = lk_file_reader_open(&store.base, LK_LITERAL("file"), 0, &budget, &file, &err);
        if (rc == LK_OK) {
            struct ArrowArray array = {0};
            lk_row_range      all = {0, 5000};
            lk_buffer_pool   *pool = lk_buffer_pool_new(&budget);
            lk_field_source   source = {.field = schema.children[9], .file = file, .column = 9};
            rc = lk_file_decode(&source, &all, 1, pool, &array, &err);
            if (rc == LK_OK) {
                array.release(&array);
            }
            lk_buffer_pool_close(pool);
            lk_file_reader_unref(file);
        }
        assert_true(rc == LK_OK || rc == LK_E_LIMIT);
        assert_true(limit > 0 || rc == LK_E_LIMIT);
        assert_int_equal(budget.used_bytes, 0);
    }
    lk_schema_release(&schema);
    fixture_memory_deinit(&store);
}

static void a_small_file_is_read_once(void **state)
{
    (void)state;
    fixture_memory    store;
    struct ArrowArray actual;
    lk_err            err = {0};
    fixture_memory_init(&store);
    fixture_write(&store, 11, 1, true);
    assert_true(store.object.size < 65536);
    assert_int_equal(fixture_read(&store, NULL, 0, &actual, &err), LK_OK);
    assert_int_equal(store.reads, 1);
    lk_array_release(&actual);
    fixture_memory_deinit(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_every_type_come_back),
        cmocka_unit_test(a_file_without_rows_has_no_pages),
        cmocka_unit_test(any_ranges_give_exactly_their_rows),
        cmocka_unit_test(no_changed_byte_does_harm),
        cmocka_unit_test(a_file_cut_short_is_refused),
        cmocka_unit_test(another_size_than_the_manifest_says_is_damage),
        cmocka_unit_test(a_budget_that_is_too_small_refuses_and_is_given_back),
        cmocka_unit_test(a_small_file_is_read_once),
    };
    return cmocka_run_group_tests_name("lance/file_read", tests, NULL, NULL);
}
