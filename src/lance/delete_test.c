/* delete_test.c - rows deleted by address and by predicate: what is left, what others may do meanwhile, and faults at
 * every step. (That pylance reads the result is tests/interop's business.) */
#include "lance/alter.h"
#include "lance/fault_fixture.h"
#include "lance/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t address(uint64_t fragment, uint64_t offset)
{
    return fragment << 32 | offset;
}

/* Deletes offsets [first, first + count) of a fragment, on top of version `at`. */
static lk_rc delete_range(const lk_lance_env *env, uint64_t at, lk_committer *committer, uint64_t fragment,
    uint64_t first, uint64_t count, lk_delete_report *report, lk_err *err)
{
    lk_dataset *base = NULL, *next = NULL;
    lk_row_set *rows = lk_row_set_new();
    for (uint64_t i = 0; i < count; i++) {
        uint64_t one = address(fragment, first + i);
        lk_row_set_add(rows, &one, 1);
    }
    lk_rc rc = lk_dataset_open(env, at, &base, err);
    if (rc == LK_OK) {
        rc = lk_dataset_delete_rows(base, committer, rows, (lk_bytes){0}, NULL, report, &next, err);
    }
    lk_row_set_free(rows);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
    return rc;
}

static void must_delete(
    const lk_lance_env *env, uint64_t at, uint64_t fragment, uint64_t first, uint64_t count)
{
    lk_err err = {0};
    if (delete_range(env, at, lk_direct_committer(), fragment, first, count, NULL, &err) != LK_OK) {
        fail_msg("delete: %s; %s", err.context, err.detail);
    }
}

/* The ids of a version are exactly those below `all` that `kept` says yes to. */
static void expect_ids(const lk_lance_env *env, uint64_t version, int64_t all, bool (*kept)(int64_t id))
{
    lk_buf         buffer = fixture_ids(env, version);
    const int64_t *ids = (const int64_t *)(void *)buffer.data;
    size_t         at = 0, count = buffer.size / sizeof *ids;
    for (int64_t id = 0; id < all; id++) {
        if (kept(id)) {
            assert_true(at < count);
            assert_int_equal(ids[at++], id);
        }
    }
    assert_int_equal(at, count);
    lk_buf_deinit(&buffer);
}

static bool every(int64_t id)
{
    return id >= 0;
}

static bool not_10_to_12(int64_t id)
{
    return id < 10 || id > 12;
}

static bool not_10_to_19(int64_t id)
{
    return id < 10 || id > 19;
}

static bool not_10_to_12_and_15(int64_t id)
{
    return not_10_to_12(id) && id != 15;
}

static bool not_10_to_12_and_25(int64_t id)
{
    return not_10_to_12(id) && id != 25;
}

static void deleted_rows_are_gone_and_the_old_version_stays(void **state)
{
    fixture_scratch  scratch;
    lk_store        *store = fixture_scratch_open(&scratch);
    lk_lance_env     env = fixture_env(store);
    lk_err           err = {0};
    lk_delete_report report;
    fixture_table(&env, 0, 10, 3);
    assert_int_equal(delete_range(&env, 0, lk_direct_committer(), 1, 0, 3, &report, &err), LK_OK);
    assert_int_equal(report.rows, 3);
    assert_int_equal(report.fragments_changed, 1);
    assert_int_equal(report.fragments_removed, 0);
    expect_ids(&env, 5, 30, not_10_to_12);
    expect_ids(&env, 4, 30, every);
    lk_dataset        *latest = fixture_open(&env, 0);
    const lk_manifest *manifest = lk_dataset_manifest(latest);
    assert_int_equal(manifest->reader_flags, LK_FLAG_DELETION_FILES);
    assert_int_equal(manifest->writer_flags, LK_FLAG_DELETION_FILES);
    assert_int_equal(manifest->fragments[1].deletion.kind, LK_DELETION_ARRAY);
    assert_int_equal(manifest->fragments[1].deletion.count, 3);
    lk_dataset_unref(latest);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void a_fragment_without_rows_leaves_the_table(void **state)
{
    fixture_scratch  scratch;
    lk_store        *store = fixture_scratch_open(&scratch);
    lk_lance_env     env = fixture_env(store);
    lk_err           err = {0};
    lk_delete_report report;
    fixture_table(&env, 0, 10, 3);
    must_delete(&env, 0, 1, 2, 3);
    assert_int_equal(delete_range(&env, 0, lk_direct_committer(), 1, 0, 10, &report, &err), LK_OK);
    assert_int_equal(report.rows, 7); /* three were gone */
    assert_int_equal(report.fragments_removed, 1);
    expect_ids(&env, 0, 30, not_10_to_19);
    lk_dataset        *latest = fixture_open(&env, 0);
    const lk_manifest *manifest = lk_dataset_manifest(latest);
    assert_int_equal(manifest->fragment_count, 2);
    assert_int_equal(manifest->fragment_id_max, 2);
    assert_int_equal(manifest->reader_flags, 0); /* no deletion file is left */
    lk_dataset_unref(latest);
    must_delete(&env, 0, 0, 0, 10);
    must_delete(&env, 0, 2, 0, 10);
    latest = fixture_open(&env, 0);
    assert_int_equal(lk_dataset_row_count(latest), 0);
    assert_int_equal(lk_dataset_manifest(latest)->fragment_count, 0);
    lk_dataset_unref(latest);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void nothing_to_delete_makes_no_version(void **state)
{
    fixture_scratch  scratch;
    lk_store        *store = fixture_scratch_open(&scratch);
    lk_lance_env     env = fixture_env(store);
    lk_err           err = {0};
    lk_delete_report report;
    fixture_table(&env, 0, 10, 1);
    must_delete(&env, 0, 0, 2, 3);
    assert_int_equal(delete_range(&env, 0, lk_direct_committer(), 0, 3, 2, &report, &err), LK_OK);
    assert_int_equal(report.rows, 0);
    assert_int_equal(delete_range(&env, 0, lk_direct_committer(), 0, 0, 0, &report, &err), LK_OK);
    assert_int_equal(fixture_count(store, "_versions"), 3);
    assert_int_equal(fixture_count(store, "_deletions"), 1);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void a_row_that_is_not_there_is_refused_by_address(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          offset = {0}, fragment = {0};
    fixture_table(&env, 0, 10, 1);
    assert_int_equal(
        delete_range(&env, 0, lk_direct_committer(), 0, 8, 3, NULL, &offset), LK_E_INVALID_REQUEST);
    assert_string_equal(offset.detail, "there is no row 10 of fragment 0");
    assert_int_equal(
        delete_range(&env, 0, lk_direct_committer(), 7, 4, 1, NULL, &fragment), LK_E_INVALID_REQUEST);
    assert_string_equal(fragment.detail, "there is no row 4 of fragment 7");
    assert_int_equal(fixture_count(store, "_versions"), 2);
    assert_int_equal(fixture_count(store, "_deletions"), 0);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void many_rows_are_a_bitmap_and_few_an_array(void **state)
{
    enum { ROWS = 70000 }; /* more than one container */
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    static const struct {
        uint64_t         first, count;
        lk_deletion_kind kind;
        uint64_t         total;
    } steps[] = {{100, 4999, LK_DELETION_ARRAY, 4999}, {5099, 1, LK_DELETION_BITMAP, 5000},
        {65530, 10, LK_DELETION_BITMAP, 5010}, {10000, 50000, LK_DELETION_BITMAP, 55010}};
    fixture_table(&env, 0, ROWS, 1);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        must_delete(&env, 0, 0, steps[i].first, steps[i].count);
        lk_dataset             *latest = fixture_open(&env, 0);
        const lk_deletion_file *file = &lk_dataset_manifest(latest)->fragments[0].deletion;
        assert_int_equal(file->kind, steps[i].kind);
        assert_int_equal(file->count, steps[i].total);
        lk_dataset_unref(latest);
        lk_buf         buffer = fixture_ids(&env, 0);
        const int64_t *ids = (const int64_t *)(void *)buffer.data;
        size_t         count = buffer.size / sizeof *ids;
        assert_int_equal(count, ROWS - steps[i].total);
        for (size_t row = 0; row < count; row++) { /* none of this step's is left */
            uint64_t id = (uint64_t)ids[row];
            assert_true(id < steps[i].first || id >= steps[i].first + steps[i].count);
        }
        lk_buf_deinit(&buffer);
    }
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- others at the same time ------------------------------------------------------------------------------ */

static void append(const lk_lance_env *env, int64_t first, int64_t rows)
{
    lk_err      err = {0};
    lk_dataset *base = fixture_open(env, 0), *next = NULL;
    lk_batches *source = fixture_rows(first, rows, 1);
    assert_int_equal(lk_dataset_append(base, lk_direct_committer(), source, NULL, &next, &err), LK_OK);
    lk_batches_close(source);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
}

static void a_delete_goes_with_appends_and_with_deletes_of_other_rows(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    fixture_table(&env, 0, 10, 2); /* version 3 */
    append(&env, 20, 10);
    must_delete(&env, 3, 1, 0, 3); /* on top of the append */
    expect_ids(&env, 5, 30, not_10_to_12);
    must_delete(&env, 4, 2, 5, 1); /* the other deleted from another fragment */
    expect_ids(&env, 6, 30, not_10_to_12_and_25);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void deletes_of_one_fragment_are_merged(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    fixture_table(&env, 0, 10, 3);
    must_delete(&env, 4, 1, 0, 3);
    must_delete(&env, 4, 1, 5, 1);
    expect_ids(&env, 6, 30, not_10_to_12_and_15);
    assert_int_equal(fixture_count(store, "_deletions"), 2);
    must_delete(&env, 5, 1, 6, 4); /* 13 and 14 are left, and go with this one */
    must_delete(&env, 4, 1, 3, 2);
    expect_ids(&env, 8, 30, not_10_to_19);
    lk_dataset *latest = fixture_open(&env, 0);
    assert_int_equal(lk_dataset_manifest(latest)->fragment_count, 2);
    lk_dataset_unref(latest);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void deleting_what_another_deleted_is_a_conflict_that_leaves_nothing(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          same_row = {0}, same_fragment = {0};
    fixture_table(&env, 0, 10, 3);
    must_delete(&env, 4, 1, 0, 3);
    assert_int_equal(delete_range(&env, 4, lk_direct_committer(), 1, 2, 2, NULL, &same_row), LK_E_CONFLICT);
    assert_non_null(strstr(same_row.detail, "deleted or updated"));
    assert_int_equal(fixture_count(store, "_deletions"), 1);
    assert_int_equal(fixture_count(store, "_transactions"), 5);
    must_delete(&env, 0, 1, 3, 7);
    assert_int_equal(
        delete_range(&env, 4, lk_direct_committer(), 1, 5, 1, NULL, &same_fragment), LK_E_CONFLICT);
    assert_non_null(strstr(same_fragment.detail, "deleted or moved"));
    assert_int_equal(fixture_count(store, "_versions"), 6);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void a_delete_does_not_go_with_a_restore(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    lk_dataset     *next = NULL;
    fixture_table(&env, 0, 10, 3);
    lk_dataset *base = fixture_open(&env, 0);
    assert_int_equal(lk_dataset_restore(base, lk_direct_committer(), 3, NULL, &next, &err), LK_OK);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
    assert_int_equal(delete_range(&env, 4, lk_direct_committer(), 1, 0, 1, NULL, &err), LK_E_CONFLICT);
    assert_non_null(strstr(err.detail, "restore"));
    assert_int_equal(fixture_count(store, "_deletions"), 0);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void an_owned_table_is_not_changed_on_top_of_another_version(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    lk_committer    owned = *lk_direct_committer();
    owned.stands_alone = false;
    fixture_table(&env, 0, 10, 3);
    assert_int_equal(delete_range(&env, 3, &owned, 1, 0, 1, NULL, &err), LK_E_CONFLICT);
    assert_int_equal(fixture_count(store, "_deletions"), 0);
    assert_int_equal(fixture_count(store, "_versions"), 4);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- by predicate ------------------------------------------------------------------------------------------- */

/* id >= 10 AND id <= 12 */
static const lk_predicate *ids_10_to_12(void)
{
    static const lk_value     low = {LK_VALUE_I64, {.i64 = 10}}, high = {LK_VALUE_I64, {.i64 = 12}};
    static const lk_predicate from = {
        .kind = LK_PREDICATE_COMPARE, .compare = LK_GE, .values = &low, .value_count = 1};
    static const lk_predicate to = {
        .kind = LK_PREDICATE_COMPARE, .compare = LK_LE, .values = &high, .value_count = 1};
    static const lk_predicate *both[] = {&from, &to};
    static const lk_predicate  out = {.kind = LK_PREDICATE_AND, .children = both, .child_count = 2};
    return &out;
}

static lk_rc delete_where(const lk_lance_env *env, uint64_t at, lk_delete_report *report, lk_err *err)
{
    lk_predicate_selector selector;
    lk_dataset           *base = NULL, *next = NULL;
    lk_rc                 rc = lk_dataset_open(env, at, &base, err);
    if (rc == LK_OK) {
        lk_predicate_selector_init(
            &selector, base, ids_10_to_12(), LK_LITERAL("id >= 10 AND id <= 12"), NULL);
        rc = lk_dataset_delete(base, lk_direct_committer(), &selector.base, NULL, report, &next, err);
    }
    lk_dataset_unref(next);
    lk_dataset_unref(base);
    return rc;
}

static void rows_that_a_predicate_holds_for_are_deleted(void **state)
{
    fixture_scratch  scratch;
    lk_store        *store = fixture_scratch_open(&scratch);
    lk_lance_env     env = fixture_env(store);
    lk_err           err = {0};
    lk_delete_report report;
    fixture_table(&env, 0, 12, 3); /* the range crosses two fragments */
    assert_int_equal(delete_where(&env, 0, &report, &err), LK_OK);
    assert_int_equal(report.rows, 3);
    assert_int_equal(report.fragments_changed, 2);
    expect_ids(&env, 0, 36, not_10_to_12);
    assert_int_equal(delete_where(&env, 0, &report, &err), LK_OK); /* again: nothing */
    assert_int_equal(report.rows, 0);
    assert_int_equal(fixture_count(store, "_versions"), 5);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void rows_are_chosen_again_when_they_changed_meanwhile(void **state)
{
    fixture_scratch  scratch;
    lk_store        *store = fixture_scratch_open(&scratch);
    lk_lance_env     env = fixture_env(store);
    lk_err           err = {0};
    lk_delete_report report;
    fixture_table(&env, 0, 10, 3);
    must_delete(&env, 4, 1, 1, 1); /* the row with id 11 */
    assert_int_equal(delete_where(&env, 4, &report, &err), LK_OK);
    assert_int_equal(report.rows, 2);
    expect_ids(&env, 6, 30, not_10_to_12);
    assert_int_equal(fixture_count(store, "_transactions"), 6);
    assert_int_equal(fixture_count(store, "_deletions"), 2);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- every store call fails in turn ---------------------------------------------------------------------------- */

static void round_of_delete(fixture_faults *f)
{
    lk_err           err = {0}, again = {0};
    lk_delete_report report;
    fixture_table(&f->env, 0, 12, 3);
    fixture_arm(f);
    lk_rc rc = delete_where(&f->faulty_env, 0, &report, &err);
    bool  failed = fixture_disarm(f, rc, &err);
    expect_ids(&f->env, 4, 36, every); /* whatever happened, the old version is whole */
    if (failed) {
        expect_ids(&f->env, 0, 36, every);
        if (f->kind != LK_FAULT_TORN) { /* nothing of the failed try is left */
            assert_int_equal(fixture_count(f->plain, "_deletions"), 0);
            assert_int_equal(fixture_count(f->plain, "_transactions"), 4);
        }
    }
    assert_int_equal(delete_where(&f->faulty_env, 0, &report, &again), LK_OK); /* the client's retry */
    expect_ids(&f->env, 0, 36, not_10_to_12);
    expect_ids(&f->env, 5, 36, not_10_to_12); /* one version of it */
}

static void a_delete_survives_a_fault_at_every_store_call(void **state)
{
    (void)state;
    fixture_every_call_fails(round_of_delete, NULL, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deleted_rows_are_gone_and_the_old_version_stays),
        cmocka_unit_test(a_fragment_without_rows_leaves_the_table),
        cmocka_unit_test(nothing_to_delete_makes_no_version),
        cmocka_unit_test(a_row_that_is_not_there_is_refused_by_address),
        cmocka_unit_test(many_rows_are_a_bitmap_and_few_an_array),
        cmocka_unit_test(a_delete_goes_with_appends_and_with_deletes_of_other_rows),
        cmocka_unit_test(deletes_of_one_fragment_are_merged),
        cmocka_unit_test(deleting_what_another_deleted_is_a_conflict_that_leaves_nothing),
        cmocka_unit_test(a_delete_does_not_go_with_a_restore),
        cmocka_unit_test(an_owned_table_is_not_changed_on_top_of_another_version),
        cmocka_unit_test(rows_that_a_predicate_holds_for_are_deleted),
        cmocka_unit_test(rows_are_chosen_again_when_they_changed_meanwhile),
        cmocka_unit_test(a_delete_survives_a_fault_at_every_store_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
