/*
 * take_test.c - what a take promises: request order, doubles, deleted rows left out, rows that are not there refused,
 * windows; and scans of a chosen set of rows. Rows are table_fixture's: id counts from 0.
 */
#include "lance/dataset_priv.h"
#include "lance/row_set.h"
#include "lance/table_fixture.h"
#include "lance/take.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 9000, PER_FILE = 2500 };

typedef struct table {
    fixture_scratch scratch;
    lk_store       *store;
    lk_pool        *pool;
    lk_lance_env    env;
    lk_dataset     *dataset;
} table;

static void open_table(table *self)
{
    struct ArrowSchema     schema = {0};
    lk_dataset            *empty = NULL;
    lk_err                 err = {0};
    const lk_write_options write = {.max_rows_per_file = PER_FILE};
    lk_batches            *rows = fixture_rows(0, ROWS, 1);
    self->store = fixture_scratch_open(&self->scratch);
    self->env = fixture_env(self->store);
    assert_int_equal(lk_pool_open(&self->pool, "take", 2, 16, &err), LK_OK);
    self->env.pool = self->pool;
    fixture_schema(&schema);
    assert_int_equal(
        lk_dataset_create(&self->env, lk_direct_committer(), &schema, NULL, &empty, &err), LK_OK);
    assert_int_equal(
        lk_dataset_append(empty, lk_direct_committer(), rows, &write, &self->dataset, &err), LK_OK);
    lk_dataset_unref(empty);
    lk_batches_close(rows);
    lk_schema_release(&schema);
}

static void close_table(table *self)
{
    lk_dataset_unref(self->dataset);
    lk_pool_close(self->pool);
    lk_store_close(self->store);
    fixture_scratch_remove(&self->scratch);
}

/* The ids of a stream, `count` of them, as expected. */
static void check_ids(lk_batches *rows, const uint64_t *expected, size_t count)
{
    lk_err err = {0};
    size_t seen = 0;
    for (;;) {
        struct ArrowArray batch = {0};
        assert_int_equal(lk_batches_next(rows, &batch, &err), LK_OK);
        if (batch.release == NULL) {
            break;
        }
        const int64_t *ids = batch.children[0]->buffers[1];
        for (int64_t row = 0; row < batch.length; row++, seen++) {
            assert_true(seen < count);
            assert_int_equal(ids[row], expected[seen]);
        }
        lk_array_release(&batch);
    }
    assert_int_equal(seen, count);
    lk_batches_close(rows);
}

static const lk_scan_options everything = {.limit = UINT64_MAX};

static void take_offsets(table *self, const uint64_t *rows, size_t count, const lk_scan_options *options)
{
    lk_err             err = {0};
    lk_batches        *out = NULL;
    const lk_take_rows wanted = {LK_TAKE_OFFSET, rows, count};
    assert_int_equal(lk_dataset_take(self->dataset, &wanted, options, &out, &err), LK_OK);
    check_ids(out, rows, count);
}

static void rows_come_in_request_order_and_as_often_as_asked(void **state)
{
    (void)state;
    table          self;
    const uint64_t some[] = {8999, 0, 2500, 2499, 0, 8999, 5000, 1}, ascending[] = {3, 4, 5, 2500, 8998};
    open_table(&self);
    take_offsets(&self, some, sizeof some / sizeof some[0], &everything);
    take_offsets(&self, ascending, sizeof ascending / sizeof ascending[0], &everything);
    take_offsets(&self, some, 0, &everything);
    close_table(&self);
}

static void more_rows_than_a_window_holds_come_in_several_batches(void **state)
{
    (void)state;
    table           self;
    uint64_t        rows[5000];
    lk_scan_options small = everything;
    small.batch_rows = 64;
    for (uint64_t i = 0; i < 5000; i++) {
        rows[i] = i * 7919 % ROWS;
    }
    open_table(&self);
    take_offsets(&self, rows, 5000, &small);
    take_offsets(&self, rows, 5000, &everything);
    close_table(&self);
}

static void a_row_that_is_not_there_is_refused_by_name(void **state)
{
    (void)state;
    table          self;
    const uint64_t outside[] = {0, ROWS}, address[] = {(uint64_t)99 << 32}, beyond[] = {PER_FILE};
    open_table(&self);
    const lk_take_rows wrong[] = {
        {LK_TAKE_OFFSET, outside, 2}, {LK_TAKE_ADDRESS, address, 1}, {LK_TAKE_ADDRESS, beyond, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        lk_err      err = {0};
        lk_batches *out = NULL;
        assert_int_equal(
            lk_dataset_take(self.dataset, &wrong[i], &everything, &out, &err), LK_E_INVALID_REQUEST);
        assert_non_null(strstr(err.detail, wrong[i].by == LK_TAKE_OFFSET ? "offset 9000" : "address"));
    }
    close_table(&self);
}

/* dense_delete: pylance's own offsets and addresses are in tests/interop/test_lance_take.py; here they agree. */
static void offsets_skip_deleted_rows_and_addresses_leave_them_out(void **state)
{
    (void)state;
    lk_store    *store = fixture_golden("dense_delete");
    lk_lance_env env = fixture_env(store);
    lk_dataset  *dataset = fixture_open(&env, 0);
    uint64_t  live = lk_dataset_row_count(dataset), physical = dataset->manifest->fragments[0].physical_rows;
    uint64_t *numbers = calloc(physical + 1, sizeof *numbers);
    lk_buf    ids = fixture_ids(&env, 0);
    assert_non_null(numbers);
    assert_true(live < dataset->manifest->physical_rows);
    for (uint64_t i = 0; i < physical; i++) {
        numbers[i] = i;
    }
    const lk_take_rows by[] = {{LK_TAKE_OFFSET, numbers, live}, {LK_TAKE_ADDRESS, numbers, physical}};
    for (size_t i = 0; dataset->manifest->fragment_count == 1 && i < 2; i++) {
        lk_err      err = {0};
        lk_batches *out = NULL;
        assert_int_equal(lk_dataset_take(dataset, &by[i], &everything, &out, &err), LK_OK);
        check_ids(out, (const uint64_t *)(const void *)ids.data, live);
    }
    lk_buf_deinit(&ids);
    free(numbers);
    lk_dataset_unref(dataset);
    lk_store_close(store);
}

static void a_scan_of_chosen_rows_gives_those_in_row_order(void **state)
{
    (void)state;
    table           self;
    lk_err          err = {0};
    lk_batches     *out = NULL;
    lk_morsel_scan *morsels = NULL;
    lk_scan_stats   stats;
    lk_scan_options options = everything;
    const uint64_t  addresses[] = {
         (uint64_t)2 << 32 | 7, 5, 6, 5, (uint64_t)1 << 32 | 2499, (uint64_t)77 << 32};
    const uint64_t expected[] = {5, 6, 4999, 5007};
    open_table(&self);
    options.rows = lk_row_set_new();
    lk_row_set_add(options.rows, addresses, sizeof addresses / sizeof addresses[0]);
    assert_int_equal(lk_dataset_scan(self.dataset, &options, &out, &err), LK_OK);
    check_ids(out, expected, 4);
    assert_int_equal(lk_dataset_morsel_scan(self.dataset, &options, &morsels, &err), LK_OK);
    lk_morsel_scan_stats(morsels, &stats);
    assert_int_equal(stats.fragments_kept, 3);
    lk_morsel_scan_close(morsels);

    const lk_value     value = {.kind = LK_VALUE_I64, .as.i64 = 4999};
    const lk_predicate less = {
        .kind = LK_PREDICATE_COMPARE, .compare = LK_LT, .values = &value, .value_count = 1};
    options.predicate = &less;
    assert_int_equal(lk_dataset_scan(self.dataset, &options, &out, &err), LK_OK);
    check_ids(out, expected, 2);

    lk_row_set *odd = lk_row_set_new();
    lk_row_set_add(odd, &addresses[2], 1);
    lk_row_set_intersect(options.rows, odd);
    assert_int_equal(lk_row_set_count(options.rows), 1);
    lk_row_set_free(odd);
    lk_row_set_free(options.rows);
    close_table(&self);
}

static void a_cancelled_take_stops(void **state)
{
    (void)state;
    table              self;
    lk_cancel          cancel = {0};
    lk_err             err = {0};
    lk_batches        *out = NULL;
    struct ArrowArray  batch = {0};
    lk_scan_options    options = everything;
    const uint64_t     rows[] = {5, 3};
    const lk_take_rows wanted = {LK_TAKE_OFFSET, rows, 2};
    open_table(&self);
    options.cancel = &cancel;
    assert_int_equal(lk_dataset_take(self.dataset, &wanted, &options, &out, &err), LK_OK);
    cancel.set = true;
    assert_int_equal(lk_batches_next(out, &batch, &err), LK_E_CANCELLED);
    lk_batches_close(out);
    close_table(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_in_request_order_and_as_often_as_asked),
        cmocka_unit_test(more_rows_than_a_window_holds_come_in_several_batches),
        cmocka_unit_test(a_row_that_is_not_there_is_refused_by_name),
        cmocka_unit_test(offsets_skip_deleted_rows_and_addresses_leave_them_out),
        cmocka_unit_test(a_scan_of_chosen_rows_gives_those_in_row_order),
        cmocka_unit_test(a_cancelled_take_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
