/* index_test.c - indices made, kept and used: order of values, runs, others' commits, faults, the cache. */
#include "lance/alter.h"
#include "lance/fault_fixture.h"
#include "lance/index.h"
#include "lance/index_cache.h"
#include "lance/index_sort.h"
#include "lance/row_tree.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ID = 0, NAME = 1 }; /* columns of the fixture */

/* -- order ------------------------------------------------------------------------------------------------ */
static void expect_order(
    const char *format, const void *values, const uint8_t *validity, int64_t count, const int64_t *expected)
{
    struct ArrowSchema field = {.format = format};
    const void        *buffers[] = {validity, values};
    struct ArrowArray  array = {
         .length = count, .null_count = validity == NULL ? 0 : -1, .n_buffers = 2, .buffers = buffers};
    lk_type type;
    int64_t order[16];
    assert_true(lk_type_of(&field, &type) && lk_index_orders(&field));
    lk_index_sort(&type, &array, order);
    assert_memory_equal(order, expected, (size_t)count * sizeof *order);
    for (int64_t i = 1; i < count; i++) {
        assert_true(lk_index_compare(&type, &array, order[i - 1], &array, order[i]) <= 0);
    }
}

static void numbers_sort_by_value_and_nulls_come_first(void **state)
{
    const int64_t wide[] = {5, INT64_MIN, -1, INT64_MAX, 0};
    const int8_t  narrow[] = {5, -128, -1, 127, 0};
    const uint8_t holes[] = {0x17}; /* the fourth is null */
    expect_order("l", wide, NULL, 5, (const int64_t[]){1, 2, 4, 0, 3});
    expect_order("c", narrow, NULL, 5, (const int64_t[]){1, 2, 4, 0, 3});
    expect_order("C", narrow, NULL, 5, (const int64_t[]){4, 0, 3, 1, 2});
    expect_order("l", wide, holes, 5, (const int64_t[]){3, 1, 2, 4, 0});
}

/* IEEE 754 totalOrder: -NaN, -inf, -1, -0, +0, 1, inf, NaN. */
static void floats_sort_in_total_order(void **state)
{
    const double values[] = {
        (double)NAN, 0.0, (double)INFINITY, -0.0, -(double)INFINITY, 1, -1, -(double)NAN};
    const float   narrow[] = {NAN, 0.0F, INFINITY, -0.0F, -INFINITY, 1, -1, -NAN};
    const int64_t expected[] = {7, 4, 6, 3, 1, 5, 2, 0};
    expect_order("g", values, NULL, 8, expected);
    expect_order("f", narrow, NULL, 8, expected);
}

static void wide_decimals_sort_by_all_their_words(void **state)
{
    const uint64_t values[] = {
        7, 0, 0, 1, UINT64_MAX, 0, 0, UINT64_MAX, UINT64_MAX, UINT64_MAX}; /* low, high */
    expect_order("d:38,0", values, NULL, 5, (const int64_t[]){3, 4, 0, 2, 1});
}

static void texts_sort_by_bytes_beyond_what_they_share(void **state)
{
    static const char  bytes[] = "prefix-same-bprefix-same-aprefix-same-a\0prefix-same-prefix-same-\xc3\xa9";
    const int32_t      offsets[] = {0, 13, 26, 40, 52, 66};
    struct ArrowSchema field = {.format = "u"};
    const void        *buffers[] = {NULL, offsets, bytes};
    struct ArrowArray  array = {.length = 5, .n_buffers = 3, .buffers = buffers};
    const int64_t      expected[] = {3, 1, 2, 0, 4};
    int64_t            order[5];
    lk_type            type;
    assert_true(lk_type_of(&field, &type));
    lk_index_sort(&type, &array, order);
    assert_memory_equal(order, expected, sizeof expected);
}

/* -- runs ------------------------------------------------------------------------------------------------- */
typedef struct collected {
    int64_t  last;
    uint64_t count, sum_of_ids;
} collected;

static lk_rc collect(
    void *context, const struct ArrowArray *values, const struct ArrowArray *ids, lk_err *err)
{
    collected *all = context;
    for (int64_t i = 0; i < values->length; i++) {
        int64_t  value = ((const int64_t *)values->buffers[1])[values->offset + i];
        uint64_t id = ((const uint64_t *)ids->buffers[1])[ids->offset + i];
        assert_true(all->count == 0 || all->last <= value);
        assert_int_equal(value, (int64_t)(id * 7919 % 10007)); /* they stayed together */
        all->last = value;
        all->count++;
        all->sum_of_ids += id;
    }
    return LK_OK;
}

static void add_pairs(lk_index_sorter *sorter, uint64_t first, int64_t count)
{
    struct ArrowArray values = {0}, ids = {0};
    lk_err            err = {0};
    assert_int_equal(ArrowArrayInitFromType(&values, NANOARROW_TYPE_INT64), NANOARROW_OK);
    assert_int_equal(ArrowArrayInitFromType(&ids, NANOARROW_TYPE_UINT64), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&values), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&ids), NANOARROW_OK);
    for (uint64_t id = first; id < first + (uint64_t)count; id++) {
        assert_int_equal(ArrowArrayAppendInt(&values, (int64_t)(id * 7919 % 10007)), NANOARROW_OK);
        assert_int_equal(ArrowArrayAppendUInt(&ids, id), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&values, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayFinishBuildingDefault(&ids, NULL), NANOARROW_OK);
    assert_int_equal(lk_index_sorter_add(sorter, &values, &ids, &err), LK_OK);
}

static void pairs_come_in_order_from_many_runs_and_leave_nothing_behind(void **state)
{
    fixture_scratch    scratch;
    lk_store          *store = fixture_scratch_open(&scratch);
    lk_lance_env       env = fixture_env(store);
    lk_change          change = {.env = &env};
    struct ArrowSchema field = {.format = "l", .name = "v", .flags = ARROW_FLAG_NULLABLE};
    lk_budget          budget;
    lk_err             err = {0};
    collected          all = {0};
    lk_budget_init(&budget, "sort", 64 << 20, NULL);
    env.budget = &budget;
    lk_index_sorter *sorter = lk_index_sorter_new(&change, LK_LITERAL("_indices/x"), &field, 100000, NULL);
    for (uint64_t i = 0; i < 20; i++) {
        add_pairs(sorter, i * 2000, 2000);
    }
    assert_true(fixture_count(store, "_indices/x") > 5);
    assert_int_equal(lk_index_sorter_finish(sorter, collect, &all, &err), LK_OK);
    assert_int_equal(all.count, 40000);
    assert_int_equal(all.sum_of_ids, UINT64_C(40000) * 39999 / 2);
    lk_index_sorter_close(sorter);
    assert_int_equal(fixture_count(store, "_indices/x"), 0);
    assert_int_equal(budget.used_bytes, 0);
    lk_change_deinit(&change);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- tables ----------------------------------------------------------------------------------------------- */
static lk_rc create(const lk_lance_env *env, uint64_t at, const char *column, lk_index_kind kind, lk_err *err)
{
    lk_dataset      *base = NULL, *next = NULL;
    lk_index_options options = {.kind = kind, .column = lk_bytes_of(column)};
    lk_rc            rc = lk_dataset_open(env, at, &base, err);
    if (rc == LK_OK) {
        rc = lk_index_create(base, lk_direct_committer(), &options, NULL, NULL, &next, err);
    }
    lk_dataset_unref(base);
    lk_dataset_unref(next);
    return rc;
}

/* How many fragments the one index of the newest version covers; SIZE_MAX: there is none. */
static size_t covered(const lk_lance_env *env)
{
    lk_arena        arena = {0};
    lk_err          err = {0};
    const lk_index *list = NULL;
    size_t          count = 0;
    lk_dataset     *dataset = fixture_open(env, 0);
    assert_int_equal(lk_index_list(dataset, &arena, &list, &count, &err), LK_OK);
    assert_true(count <= 1);
    size_t out = count == 0 ? SIZE_MAX : list[0].covered_count;
    if (count == 1) {
        lk_index_damage damage;
        assert_int_equal(lk_index_verify(dataset, list, NULL, &damage, &err), LK_OK);
        assert_int_equal(damage.missing + damage.extra + damage.wrong, 0);
    }
    lk_dataset_unref(dataset);
    lk_arena_close(&arena);
    return out;
}

/* Rows with this id, and how many were decoded to find them. */
static size_t count_rows(const lk_lance_env *env, int64_t id, uint64_t *decoded)
{
    const lk_value     value = {.kind = LK_VALUE_I64, .as.i64 = id};
    const lk_predicate predicate = {
        .kind = LK_PREDICATE_COMPARE, .column = ID, .compare = LK_EQ, .values = &value, .value_count = 1};
    lk_scan_options options = {.predicate = &predicate, .limit = UINT64_MAX};
    lk_morsel_scan *scan = NULL;
    lk_scan_stats   stats = {0};
    lk_err          err = {0};
    size_t          rows = 0, morsel = 0;
    bool            done = false;
    lk_dataset     *dataset = fixture_open(env, 0);
    assert_int_equal(lk_dataset_morsel_scan(dataset, &options, &scan, &err), LK_OK);
    while (!done) {
        struct ArrowArray batch = {0};
        assert_int_equal(lk_morsel_scan_next(scan, &batch, &morsel, &done, &err), LK_OK);
        rows += done ? 0 : (size_t)batch.length;
        lk_array_release(&batch);
    }
    lk_morsel_scan_stats(scan, &stats);
    *decoded = stats.rows_decoded;
    lk_morsel_scan_close(scan);
    lk_dataset_unref(dataset);
    return rows;
}

static void a_key_is_found_by_reading_its_row(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    uint64_t        decoded = 0;
    fixture_table(&env, 0, 5000, 2);
    assert_int_equal(create(&env, 0, "id", LK_INDEX_BTREE, &err), LK_OK);
    assert_int_equal(covered(&env), 2);
    assert_int_equal(count_rows(&env, 7777, &decoded), 1);
    assert_int_equal(decoded, 1);
    assert_int_equal(count_rows(&env, 70000, &decoded), 0);
    assert_int_equal(decoded, 0);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void delete_id(const lk_lance_env *env, uint64_t address)
{
    lk_dataset *base = fixture_open(env, 0), *next = NULL;
    lk_row_set *rows = lk_row_set_new();
    lk_err      err = {0};
    lk_row_set_add(rows, &address, 1);
    assert_int_equal(
        lk_dataset_delete_rows(base, lk_direct_committer(), rows, (lk_bytes){0}, NULL, NULL, &next, &err),
        LK_OK);
    lk_row_set_free(rows);
    lk_dataset_unref(base);
    lk_dataset_unref(next);
}

static void an_index_covers_what_others_left_as_it_was_while_it_was_made(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    uint64_t        decoded = 0;
    lk_batches     *rows = NULL;
    lk_dataset     *next = NULL;
    fixture_table(&env, 0, 100, 3); /* version 4 */
    lk_dataset *base = fixture_open(&env, 0);
    rows = fixture_rows(300, 100, 1);
    assert_int_equal(lk_dataset_append(base, lk_direct_committer(), rows, NULL, &next, &err), LK_OK);
    lk_batches_close(rows);
    lk_dataset_unref(base);
    lk_dataset_unref(next);
    delete_id(&env, 5);
    assert_int_equal(create(&env, 4, "id", LK_INDEX_BTREE, &err), LK_OK);
    assert_int_equal(covered(&env), 3);
    assert_int_equal(count_rows(&env, 5, &decoded), 0); /* deleted meanwhile */
    assert_int_equal(count_rows(&env, 250, &decoded), 1);
    assert_int_equal(decoded, 1); /* the new fragment has zone statistics */
    assert_int_equal(count_rows(&env, 333, &decoded), 1);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void an_index_of_the_same_name_that_came_meanwhile_is_a_conflict(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    fixture_table(&env, 0, 100, 1);
    assert_int_equal(create(&env, 2, "id", LK_INDEX_BTREE, &err), LK_OK);
    assert_int_equal(create(&env, 2, "id", LK_INDEX_ZONEMAP, &err), LK_E_CONFLICT);
    assert_non_null(strstr(err.detail, "id_idx"));
    err = (lk_err){0};
    assert_int_equal(create(&env, 2, "name", LK_INDEX_ZONEMAP, &err), LK_OK); /* another one goes */
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void what_cannot_be_indexed_is_refused_by_name(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    fixture_table(&env, 0, 10, 1);
    assert_int_equal(create(&env, 0, "nowhere", LK_INDEX_BTREE, &err), LK_E_NOT_FOUND);
    assert_non_null(strstr(err.detail, "nowhere"));
    err = (lk_err){0};
    assert_int_equal(create(&env, 0, "id", LK_INDEX_BITMAP, &err), LK_E_INVALID_REQUEST);
    assert_non_null(strstr(err.detail, "bitmap"));
    assert_int_equal(fixture_count(store, "_indices"), 0);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- faults ----------------------------------------------------------------------------------------------- */
static void round_of_index(fixture_faults *f)
{
    lk_err   err = {0}, again = {0};
    uint64_t decoded = 0;
    fixture_table(&f->env, 0, 50, 2);
    fixture_arm(f);
    lk_rc rc = create(&f->faulty_env, 3, "id", LK_INDEX_BTREE, &err);
    bool  failed = fixture_disarm(f, rc, &err);
    assert_int_equal(count_rows(&f->env, 77, &decoded), 1); /* whatever happened */
    assert_true(!failed || covered(&f->env) == SIZE_MAX);
    assert_true(rc != LK_OK || covered(&f->env) == 2);
    assert_int_equal(create(&f->faulty_env, 0, "id", LK_INDEX_BTREE, &again), LK_OK);
    assert_int_equal(covered(&f->env), 2);
}

static void making_an_index_survives_a_fault_at_every_store_call(void **state)
{
    (void)state;
    fixture_every_call_fails(round_of_index, NULL, 5);
}

/* -- sets of rows, the cache -------------------------------------------------------------------------------- */
static lk_rc sum(void *context, uint64_t first, uint64_t count, lk_err *err)
{
    uint64_t *total = context;
    total[0] += count;
    total[1] += first * count + count * (count - 1) / 2;
    return LK_OK;
}

/* Fragment 0: rows 3 and 5; fragment 2: all. As pylance writes them. */
static void a_set_of_rows_is_read_and_a_damaged_one_refused(void **state)
{
    const uint8_t set[] = {2, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 16,
        0, 0, 0, 3, 0, 5, 0, 2, 0, 0, 0, 0, 0, 0, 0};
    uint64_t      total[2] = {0};
    lk_err        err = {0};
    assert_int_equal(lk_row_tree_read((lk_bytes){(const char *)set, sizeof set}, sum, total, &err), LK_OK);
    assert_int_equal(total[0], 2 + (UINT64_C(1) << 32));
    for (size_t size = 0; size < sizeof set; size++) {
        err = (lk_err){0};
        assert_int_equal(
            lk_row_tree_read((lk_bytes){(const char *)set, size}, sum, total, &err), LK_E_CORRUPT_FILE);
    }
}

static unsigned parts_freed;

static void free_part(lk_index_part *part)
{
    parts_freed++;
    free(part);
}

static void the_cache_keeps_what_was_used_last_within_its_bounds(void **state)
{
    lk_index_cache *cache = lk_index_cache_new();
    lk_uuid         uuid = {{1}};
    enum { PARTS = 10, BYTES = LK_INDEX_CACHE_BYTES_MAX / 4 };
    parts_freed = 0;
    for (uint64_t number = 0; number < PARTS; number++) {
        lk_index_part *part = calloc(1, sizeof *part);
        atomic_init(&part->refs, 1);
        part->bytes = BYTES;
        part->free = free_part;
        lk_index_cache_put(cache, uuid, number, part);
        lk_index_part_unref(part);
        lk_index_part_unref(lk_index_cache_get(cache, uuid, 0)); /* used again and again */
        assert_true(lk_index_cache_bytes(cache) <= LK_INDEX_CACHE_BYTES_MAX + (1 << 20));
    }
    assert_int_equal(parts_freed, PARTS - 4);
    lk_index_part *first = lk_index_cache_get(cache, uuid, 0), *second = lk_index_cache_get(cache, uuid, 1);
    assert_non_null(first);
    assert_null(second);
    lk_index_cache_free(cache);
    assert_int_equal(parts_freed, PARTS - 1); /* whoever holds one may go on */
    lk_index_part_unref(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_sort_by_value_and_nulls_come_first),
        cmocka_unit_test(floats_sort_in_total_order),
        cmocka_unit_test(wide_decimals_sort_by_all_their_words),
        cmocka_unit_test(texts_sort_by_bytes_beyond_what_they_share),
        cmocka_unit_test(pairs_come_in_order_from_many_runs_and_leave_nothing_behind),
        cmocka_unit_test(a_key_is_found_by_reading_its_row),
        cmocka_unit_test(an_index_covers_what_others_left_as_it_was_while_it_was_made),
        cmocka_unit_test(an_index_of_the_same_name_that_came_meanwhile_is_a_conflict),
        cmocka_unit_test(what_cannot_be_indexed_is_refused_by_name),
        cmocka_unit_test(making_an_index_survives_a_fault_at_every_store_call),
        cmocka_unit_test(a_set_of_rows_is_read_and_a_damaged_one_refused),
        cmocka_unit_test(the_cache_keeps_what_was_used_last_within_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
