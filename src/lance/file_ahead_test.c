/*
 * file_ahead_test.c - of a far file few goes fetch what all columns need; what is fetched is what would be read, and
 * when it cannot be, the columns read it themselves.
 */
#include "lance/file_fixture.h"

#include "base/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 6000, SPARSE = 24, MIB = 1 << 20, OPENING = 2 /* the file's end, and its descriptor */ };

typedef struct table {
    fixture_memory    store;
    struct ArrowArray expected;
    lk_row_range      sparse[SPARSE];
} table;

static void open_table(table *self, bool nulls)
{
    fixture_memory_init(&self->store);
    fixture_write(&self->store, ROWS / 3, 3, nulls);
    fixture_every_rows(0, ROWS, nulls, &self->expected);
    self->store.base.far = true;
    for (uint64_t i = 0; i < SPARSE; i++) {
        self->sparse[i] = (lk_row_range){i * (ROWS / SPARSE) + i * i % 50, 1 + i % 3};
    }
}

static void close_table(table *self)
{
    lk_array_release(&self->expected);
    fixture_memory_deinit(&self->store);
}

/* Reads the ranges; true: without an error, and then they are right. */
static bool read_rows(table *self, const lk_row_range *ranges, size_t count)
{
    struct ArrowArray actual;
    lk_err            err = {0};
    int64_t           at = 0;
    self->store.calls = 0;
    if (fixture_read(&self->store, ranges, count, &actual, &err) != LK_OK) {
        assert_int_equal(err.rc, LK_E_IO);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        fixture_same_rows(&self->expected, (int64_t)ranges[i].start, &actual, at, (int64_t)ranges[i].count);
        at += (int64_t)ranges[i].count;
    }
    assert_int_equal(at, actual.length);
    lk_array_release(&actual);
    return true;
}

static void all_rows_of_all_columns_come_in_one_go(void **state)
{
    (void)state;
    const lk_row_range all = {0, ROWS};
    for (int nulls = 0; nulls < 2; nulls++) {
        table self;
        open_table(&self, nulls == 1);
        assert_true(read_rows(&self, &all, 1));
        assert_int_equal(self.store.calls, self.store.calls_ahead);
        assert_int_equal(self.store.calls, OPENING + 1);
        self.store.base.far = false;
        assert_true(read_rows(&self, &all, 1));
        assert_true(self.store.calls > 20);
        close_table(&self);
    }
}

static void few_rows_of_all_columns_come_in_two_goes(void **state)
{
    (void)state;
    for (int nulls = 0; nulls < 2; nulls++) {
        table self;
        open_table(&self, nulls == 1);
        assert_true(read_rows(&self, self.sparse, SPARSE));
        assert_int_equal(self.store.calls_ahead, OPENING + 2); /* tables, chunks */
        assert_true(self.store.calls <= OPENING + 2 + 1);      /* long texts may have to be found first */
        assert_true(self.store.read_bytes < self.store.object.size);
        close_table(&self);
    }
}

static void what_cannot_be_fetched_ahead_is_read_or_its_error_is_told(void **state)
{
    (void)state;
    table  self;
    size_t failures = 0;
    open_table(&self, true);
    for (size_t call = 0; call < 8; call++) {
        self.store.fails_at = call;
        failures += !read_rows(&self, self.sparse, SPARSE);
    }
    assert_int_equal(failures, OPENING);
    self.store.fails_at = OPENING; /* all that was to come ahead */
    assert_true(read_rows(&self, self.sparse, SPARSE));
    close_table(&self);
}

static void half_of_the_memory_is_left_to_those_who_decode(void **state)
{
    (void)state;
    for (size_t limit = MIB; limit <= 4 * MIB; limit *= 2) {
        lk_budget budget;
        lk_buffer buffer = {0};
        lk_err    err = {0};
        lk_budget_init(&budget, "ahead", limit, NULL);
        lk_buffer_pool *pool = lk_buffer_pool_new(&budget);
        assert_int_equal(lk_buffer_pool_is_roomy(pool, MIB), limit >= 2 * MIB);
        if (limit == 4 * MIB) {
            assert_int_equal(lk_buffer_take(pool, MIB * 3 / 2, &buffer, &err), LK_OK);
            assert_false(lk_buffer_pool_is_roomy(pool, MIB));
            lk_buffer_give(&buffer);
        }
        lk_buffer_pool_close(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rows_of_all_columns_come_in_one_go),
        cmocka_unit_test(few_rows_of_all_columns_come_in_two_goes),
        cmocka_unit_test(what_cannot_be_fetched_ahead_is_read_or_its_error_is_told),
        cmocka_unit_test(half_of_the_memory_is_left_to_those_who_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
