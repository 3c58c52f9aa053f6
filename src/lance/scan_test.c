/*
 * scan_test.c - what a scan promises: order, projection, exact filters, limits, deletions, pruning, row ids,
 * cancellation, bounded memory, with and without a pool, in any order. LK_TSAN: run under the thread sanitizer.
 */
#include "lance/dataset_priv.h"
#include "lance/table_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 60000, PER_FILE = 25000 };

typedef struct table {
    fixture_scratch scratch;
    lk_store       *store;
    lk_pool        *pool;
    lk_budget       budget;
    lk_lance_env    env;
    lk_dataset     *dataset;
} table;

/* (id int64, name utf8) as table_fixture makes them: id = 0 .. ROWS - 1 in three fragments. */
static void open_table(table *self, size_t threads, size_t budget_bytes)
{
    struct ArrowSchema     schema = {0};
    lk_dataset            *empty = NULL;
    lk_err                 err = {0};
    const lk_write_options write = {.max_rows_per_file = PER_FILE};
    lk_batches            *rows = fixture_rows(0, ROWS / 10, 10);
    self->store = fixture_scratch_open(&self->scratch);
    self->env = fixture_env(self->store);
    fixture_schema(&schema);
    assert_int_equal(
        lk_dataset_create(&self->env, lk_direct_committer(), &schema, NULL, &empty, &err), LK_OK);
    lk_budget_init(&self->budget, "scan", budget_bytes, NULL);
    self->pool = NULL;
    if (threads > 0) {
        assert_int_equal(lk_pool_open(&self->pool, "scan", threads, 16, &err), LK_OK);
    }
    assert_int_equal(
        lk_dataset_append(empty, lk_direct_committer(), rows, &write, &self->dataset, &err), LK_OK);
    uint64_t version = lk_dataset_version(self->dataset);
    lk_dataset_unref(self->dataset); /* opened anew, with a pool and a budget */
    lk_dataset_unref(empty);
    lk_batches_close(rows);
    lk_schema_release(&schema);
    self->env.pool = self->pool;
    self->env.budget = &self->budget;
    assert_int_equal(lk_dataset_open(&self->env, version, &self->dataset, &err), LK_OK);
}

static void close_table(table *self)
{
    lk_dataset_unref(self->dataset);
    lk_pool_close(self->pool);
    assert_int_equal(self->budget.used_bytes, 0);
    lk_store_close(self->store);
    fixture_scratch_remove(&self->scratch);
}

static int64_t id_of(const struct ArrowArray *batch, int64_t column, int64_t row)
{
    return ((const int64_t *)batch->children[column]->buffers[1])[row];
}

static void check_name(const struct ArrowArray *batch, int64_t column, int64_t row, int64_t id)
{
    const struct ArrowArray *names = batch->children[column];
    const int32_t           *offsets = names->buffers[1];
    const uint8_t           *validity = names->buffers[0];
    bool                     valid = validity == NULL || (validity[row / 8] >> row % 8 & 1) != 0;
    char                     expected[32];
    assert_int_equal(valid, id % 5 != 3);
    int size = snprintf(expected, sizeof expected, "n%lld", (long long)id);
    if (valid) {
        assert_int_equal(offsets[row + 1] - offsets[row], size);
        assert_memory_equal((const char *)names->buffers[2] + offsets[row], expected, (size_t)size);
    }
}

/* Every row of the scan, in order: id = step * i for i = 0 .. expected - 1, and its name behind it. */
static void check_scan(
    table *self, const lk_scan_options *options, uint64_t first, uint64_t step, uint64_t expected)
{
    lk_batches *rows = NULL;
    lk_err      err = {0};
    uint64_t    seen = 0;
    assert_int_equal(lk_dataset_scan(self->dataset, options, &rows, &err), LK_OK);
    for (;;) {
        struct ArrowArray batch = {0};
        if (lk_batches_next(rows, &batch, &err) != LK_OK) {
            fail_msg("next: %s", err.context);
        }
        if (batch.release == NULL) {
            break;
        }
        assert_int_equal(batch.n_children, 2);
        for (int64_t row = 0; row < batch.length; row++, seen++) {
            int64_t id = id_of(&batch, 0, row);
            assert_int_equal(id, first + seen * step);
            check_name(&batch, 1, row, id);
        }
        lk_array_release(&batch);
    }
    assert_int_equal(seen, expected);
    lk_batches_close(rows);
}

static const lk_scan_options everything = {.limit = UINT64_MAX};

static void rows_come_in_order_with_and_without_a_pool(void **state)
{
    (void)state;
    for (size_t threads = 0; threads <= 3; threads++) {
        table           self;
        lk_scan_options small = everything;
        small.batch_rows = 1000;
        open_table(&self, threads, SIZE_MAX);
        check_scan(&self, &everything, 0, 1, ROWS);
        check_scan(&self, &small, 0, 1, ROWS);
        close_table(&self);
    }
}

static lk_predicate compare(lk_compare how, const lk_value *value)
{
    return (lk_predicate){
        .kind = LK_PREDICATE_COMPARE, .column = 0, .compare = how, .values = value, .value_count = 1};
}

static void a_filter_keeps_exactly_its_rows_and_prunes_the_rest(void **state)
{
    (void)state;
    table           self;
    lk_scan_options options = everything;
    lk_morsel_scan *morsels = NULL;
    lk_scan_stats   stats;
    lk_err          err = {0};
    open_table(&self, 2, SIZE_MAX);
    for (int64_t id = 0; id < ROWS; id += 6007) {
        const lk_value     value = {.kind = LK_VALUE_I64, .as.i64 = id};
        const lk_predicate equal = compare(LK_EQ, &value), less = compare(LK_LT, &value);
        options.predicate = &equal;
        check_scan(&self, &options, (uint64_t)id, 1, 1);
        options.predicate = &less;
        check_scan(&self, &options, 0, 1, (uint64_t)id);
    }
    const lk_value value = {.kind = LK_VALUE_I64, .as.i64 = 30000},
                   above = {.kind = LK_VALUE_I64, .as.i64 = ROWS};
    const lk_predicate equal = compare(LK_EQ, &value), none = compare(LK_EQ, &above);
    options.predicate = &equal;
    assert_int_equal(lk_dataset_morsel_scan(self.dataset, &options, &morsels, &err), LK_OK);
    lk_morsel_scan_stats(morsels, &stats);
    assert_int_equal(stats.fragments, 3);
    assert_int_equal(stats.fragments_kept, 1);
    assert_int_equal(stats.pages, 4 + 4 + 2);
    assert_int_equal(stats.pages_kept, 1);
    assert_int_equal(lk_morsel_scan_count(morsels), 1);
    lk_morsel_scan_close(morsels);
    options.predicate = &none;
    check_scan(&self, &options, 0, 1, 0);
    close_table(&self);
}

static void a_limit_ends_the_scan(void **state)
{
    (void)state;
    static const uint64_t limits[] = {0, 1, 24999, 25000, 25001, 59999, 60000, 100000};
    table                 self;
    open_table(&self, 2, SIZE_MAX);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        lk_scan_options    options = everything;
        const lk_value     value = {.kind = LK_VALUE_I64, .as.i64 = 10};
        const lk_predicate from = compare(LK_GE, &value);
        uint64_t           left = limits[i] < ROWS - 10 ? limits[i] : ROWS - 10;
        options.limit = limits[i];
        check_scan(&self, &options, 0, 1, limits[i] < ROWS ? limits[i] : ROWS);
        options.predicate = &from;
        check_scan(&self, &options, 10, 1, left);
    }
    close_table(&self);
}

static void projection_orders_columns_and_row_ids_are_addresses(void **state)
{
    (void)state;
    table           self;
    const size_t    columns[] = {1, 0};
    lk_scan_options options = {
        .limit = UINT64_MAX, .columns = columns, .column_count = 2, .meta = LK_META_ROW_ID};
    lk_batches *rows = NULL;
    lk_err      err = {0};
    uint64_t    seen = 0;
    open_table(&self, 1, SIZE_MAX);
    assert_int_equal(lk_dataset_scan(self.dataset, &options, &rows, &err), LK_OK);
    assert_int_equal(rows->schema.n_children, 3);
    assert_string_equal(rows->schema.children[0]->name, "name");
    assert_string_equal(rows->schema.children[2]->name, "_rowid");
    for (;;) {
        struct ArrowArray batch = {0};
        assert_int_equal(lk_batches_next(rows, &batch, &err), LK_OK);
        if (batch.release == NULL) {
            break;
        }
        for (int64_t row = 0; row < batch.length; row++, seen++) {
            uint64_t address = ((const uint64_t *)batch.children[2]->buffers[1])[row];
            assert_int_equal(address >> 32, seen / PER_FILE);
            assert_int_equal(address & 0xffffffffU, seen % PER_FILE);
            check_name(&batch, 0, row, id_of(&batch, 1, row));
        }
        lk_array_release(&batch);
    }
    assert_int_equal(seen, ROWS);
    lk_batches_close(rows);
    close_table(&self);
}

static void counting_reads_no_page(void **state)
{
    (void)state;
    table           self;
    lk_scan_options options = {.limit = UINT64_MAX, .no_columns = true};
    lk_batches     *rows = NULL;
    lk_err          err = {0};
    int64_t         seen = 0;
    open_table(&self, 0, SIZE_MAX);
    size_t before = lk_file_cache_bytes(self.dataset->files);
    assert_int_equal(lk_dataset_scan(self.dataset, &options, &rows, &err), LK_OK);
    for (;;) {
        struct ArrowArray batch = {0};
        assert_int_equal(lk_batches_next(rows, &batch, &err), LK_OK);
        if (batch.release == NULL) {
            break;
        }
        assert_int_equal(batch.n_children, 0);
        seen += batch.length;
        lk_array_release(&batch);
    }
    lk_batches_close(rows);
    assert_int_equal(seen, ROWS);
    assert_int_equal(lk_file_cache_bytes(self.dataset->files), before);
    close_table(&self);
}

static void deleted_rows_are_gone_from_every_scan(void **state)
{
    (void)state;
    lk_store    *store = fixture_golden("dense_delete");
    lk_lance_env env = fixture_env(store);
    lk_dataset  *dataset = NULL;
    lk_err       err = {0};
    for (unsigned counting = 0; counting < 2; counting++) {
        lk_scan_options options = {.limit = UINT64_MAX, .no_columns = counting == 1};
        lk_batches     *rows = NULL;
        uint64_t        seen = 0;
        assert_int_equal(lk_dataset_open(&env, 0, &dataset, &err), LK_OK);
        assert_true(dataset->manifest->deleted_rows > 0);
        assert_int_equal(lk_dataset_scan(dataset, &options, &rows, &err), LK_OK);
        for (;;) {
            struct ArrowArray batch = {0};
            assert_int_equal(lk_batches_next(rows, &batch, &err), LK_OK);
            if (batch.release == NULL) {
                break;
            }
            seen += (uint64_t)batch.length;
            lk_array_release(&batch);
        }
        lk_batches_close(rows);
        assert_int_equal(seen, lk_dataset_row_count(dataset));
        lk_dataset_unref(dataset);
    }
    lk_store_close(store);
}

static void a_cancelled_scan_stops(void **state)
{
    (void)state;
    table             self;
    lk_cancel         cancel = {0};
    lk_scan_options   options = everything;
    lk_batches       *rows = NULL;
    struct ArrowArray batch = {0};
    lk_err            err = {0};
    open_table(&self, 2, SIZE_MAX);
    options.cancel = &cancel;
    options.batch_rows = 1000;
    assert_int_equal(lk_dataset_scan(self.dataset, &options, &rows, &err), LK_OK);
    assert_int_equal(lk_batches_next(rows, &batch, &err), LK_OK);
    lk_array_release(&batch);
    cancel.set = true;
    lk_rc rc = LK_OK;
    for (unsigned ahead = 0; rc == LK_OK && ahead < 20;
         ahead++) { /* what was decoded already may still come */
        rc = lk_batches_next(rows, &batch, &err);
        lk_array_release(&batch);
    }
    assert_int_equal(rc, LK_E_CANCELLED);
    lk_batches_close(rows);
    close_table(&self);
}

static void a_scan_that_is_closed_early_leaves_nothing(void **state)
{
    (void)state;
    table self;
    open_table(&self, 3, SIZE_MAX);
    for (unsigned taken = 0; taken < 8; taken++) {
        lk_scan_options options = everything;
        lk_batches     *rows = NULL;
        lk_err          err = {0};
        options.batch_rows = 500;
        assert_int_equal(lk_dataset_scan(self.dataset, &options, &rows, &err), LK_OK);
        struct ArrowArray kept = {0};
        for (unsigned i = 0; i < taken; i++) {
            lk_array_release(&kept);
            assert_int_equal(lk_batches_next(rows, &kept, &err), LK_OK);
        }
        lk_batches_close(rows);
        if (taken > 0) { /* a batch outlives its scan */
            check_name(&kept, 1, 0, id_of(&kept, 0, 0));
        }
        lk_array_release(&kept);
    }
    close_table(&self);
}

/* Scans all in `limit` bytes of memory. */
static lk_rc scan_in(size_t threads, size_t limit, bool unordered)
{
    table           self;
    lk_scan_options options = everything;
    lk_batches     *rows = NULL;
    lk_err          err = {0};
    uint64_t        seen = 0;
    bool            more = true;
    lk_rc           rc = LK_OK;
    open_table(&self, threads, limit);
    options.batch_rows = 5000;
    options.unordered = unordered;
    assert_int_equal(lk_dataset_scan(self.dataset, &options, &rows, &err), LK_OK);
    while (more) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, &err);
        more = batch.release != NULL;
        for (int64_t row = 0; more && !unordered && row < batch.length; row++) {
            assert_int_equal(id_of(&batch, 0, row), seen + (uint64_t)row);
        }
        seen += more ? (uint64_t)batch.length : 0;
        lk_array_release(&batch);
    }
    assert_true(rc == LK_E_LIMIT || (rc == LK_OK && seen == ROWS));
    assert_true(self.budget.peak_bytes <= limit);
    lk_batches_close(rows);
    close_table(&self);
    return rc;
}

static void little_memory_is_enough_or_says_so(void **state)
{
    (void)state;
    bool refused = false, done = false;
    for (size_t limit = 50000; limit < 4000000; limit += 150000) {
        lk_rc rc = scan_in(2, limit, false);
        refused = refused || rc == LK_E_LIMIT;
        done = done || rc == LK_OK;
    }
    assert_true(refused && done);
}

/* Those who decode ahead never take the memory that the next batch needs. */
static void what_is_enough_for_one_thread_is_enough_for_many(void **state)
{
    (void)state;
    size_t enough = 50000;
    while (scan_in(0, enough, false) != LK_OK) {
        enough += 50000;
    }
    enough += 50000; /* files that are opened earlier are known earlier */
    for (unsigned turn = 0; turn < 20; turn++) {
        for (size_t limit = enough; limit < 4 * enough; limit += enough) {
            assert_int_equal(scan_in(4, limit, turn % 2 == 0), LK_OK);
        }
    }
}

/* -- in any order ---------------------------------------------------------------------------------------- */
/* A local store of which the file that is opened first is read only when the gate is open. */
static struct {
    struct lk_store_ops        ops;
    const struct lk_store_ops *under;
    _Atomic(lk_store_reader *) slow;
    atomic_bool                open, impatient;
} gate;

static lk_rc gate_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    lk_store_reader *none = NULL;
    lk_rc            rc = gate.under->open(store, key, out, size, err);
    if (rc == LK_OK && lk_bytes_starts(key, LK_LITERAL("data/"))) {
        (void)atomic_compare_exchange_strong(&gate.slow, &none, *out);
    }
    return rc;
}

static lk_rc gate_read(lk_store_reader *reader, const lk_store_range *ranges, size_t count, lk_err *err)
{
    uint64_t end = lk_thread_now_ms() + 30000; /* a busy machine is no failure */
    while (reader == atomic_load(&gate.slow) && !atomic_load(&gate.open)) {
        lk_clock_sleep_ms(lk_clock_real(), 1);
        if (lk_thread_now_ms() > end) {
            atomic_store(&gate.impatient, true);
            break;
        }
    }
    return gate.under->read(reader, ranges, count, err);
}

static void where_order_does_not_matter_rows_come_past_a_slow_file(void **state)
{
    (void)state;
    table           self;
    lk_scan_options options = everything;
    lk_batches     *rows = NULL;
    lk_err          err = {0};
    uint64_t        seen = 0, sum = 0;
    open_table(&self, 3, SIZE_MAX);
    options.unordered = true;
    gate.under = self.store->ops;
    gate.ops = *self.store->ops;
    gate.ops.open = gate_open;
    gate.ops.read = gate_read;
    self.store->ops = &gate.ops;
    assert_int_equal(lk_dataset_scan(self.dataset, &options, &rows, &err), LK_OK);
    for (;;) {
        struct ArrowArray batch = {0};
        assert_int_equal(lk_batches_next(rows, &batch, &err), LK_OK);
        if (batch.release == NULL) {
            break;
        }
        assert_true(atomic_load(&gate.slow) != NULL && !atomic_load(&gate.impatient));
        atomic_store(&gate.open, true); /* rows have come */
        for (int64_t row = 0; row < batch.length; row++) {
            sum += (uint64_t)id_of(&batch, 0, row);
        }
        seen += (uint64_t)batch.length;
        lk_array_release(&batch);
    }
    assert_int_equal(seen, ROWS);
    assert_int_equal(sum, (uint64_t)ROWS * (ROWS - 1) / 2);
    lk_batches_close(rows);
    self.store->ops = gate.under;
    close_table(&self);
}

/* Every row once, whatever is asked beside; small batches, so that the ring goes round. */
static void rows_in_any_order_are_the_same_rows(void **state)
{
    (void)state;
    for (size_t round = 0; round < 4;
         round++) { /* without a pool, with small ones, and with one that is not used */
        size_t          threads = 2 * round % 6;
        table           self;
        const lk_value  limit = {.kind = LK_VALUE_I64, .as.i64 = 50000};
        lk_predicate    below = compare(LK_LT, &limit);
        lk_scan_options options = {.limit = UINT64_MAX,
            .unordered = true,
            .batch_rows = 300,
            .alone = round == 2,
            .predicate = &below};
        lk_batches     *rows = NULL;
        lk_err          err = {0};
        uint64_t        seen = 0;
        uint8_t        *there = calloc(ROWS, 1);
        assert_non_null(there);
        open_table(&self, threads, SIZE_MAX);
        assert_int_equal(lk_dataset_scan(self.dataset, &options, &rows, &err), LK_OK);
        for (;;) {
            struct ArrowArray batch = {0};
            assert_int_equal(lk_batches_next(rows, &batch, &err), LK_OK);
            if (batch.release == NULL) {
                break;
            }
            for (int64_t row = 0; row < batch.length; row++, seen++) {
                int64_t id = id_of(&batch, 0, row);
                assert_true(id >= 0 && id < 50000 && !there[id]);
                there[id] = 1;
            }
            lk_array_release(&batch);
        }
        assert_int_equal(seen, 50000);
        lk_batches_close(rows);
        close_table(&self);
        free(there);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_in_order_with_and_without_a_pool),
        cmocka_unit_test(a_filter_keeps_exactly_its_rows_and_prunes_the_rest),
        cmocka_unit_test(a_limit_ends_the_scan),
        cmocka_unit_test(projection_orders_columns_and_row_ids_are_addresses),
        cmocka_unit_test(counting_reads_no_page),
        cmocka_unit_test(deleted_rows_are_gone_from_every_scan),
        cmocka_unit_test(a_cancelled_scan_stops),
        cmocka_unit_test(a_scan_that_is_closed_early_leaves_nothing),
        cmocka_unit_test(little_memory_is_enough_or_says_so),
        cmocka_unit_test(what_is_enough_for_one_thread_is_enough_for_many),
        cmocka_unit_test(where_order_does_not_matter_rows_come_past_a_slow_file),
        cmocka_unit_test(rows_in_any_order_are_the_same_rows),
    };
    return cmocka_run_group_tests_name("lance/scan", tests, NULL, NULL);
}
