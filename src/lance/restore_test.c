/* restore_test.c - old versions made new again, others' commits in between, and faults at every step. */
#include "lance/alter.h"
#include "lance/fault_fixture.h"
#include "lance/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lk_rc restore(
    const lk_lance_env *env, uint64_t at, lk_committer *committer, uint64_t version, lk_err *err)
{
    lk_dataset *base = NULL, *next = NULL;
    lk_rc       rc = lk_dataset_open(env, at, &base, err);
    if (rc == LK_OK) {
        rc = lk_dataset_restore(base, committer, version, NULL, &next, err);
    }
    lk_dataset_unref(base);
    lk_dataset_unref(next);
    return rc;
}

/* Ids count from 0 without a gap. */
static void expect_rows(const lk_lance_env *env, uint64_t version, size_t rows)
{
    lk_buf         buffer = fixture_ids(env, version);
    const int64_t *ids = (const int64_t *)(void *)buffer.data;
    assert_int_equal(buffer.size / sizeof *ids, rows);
    for (size_t i = 0; i < rows; i++) {
        assert_int_equal(ids[i], i);
    }
    lk_buf_deinit(&buffer);
}

static void a_restored_version_is_the_newest_and_the_history_stays(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    fixture_table(&env, 0, 10, 3);
    assert_int_equal(restore(&env, 0, lk_direct_committer(), 2, &err), LK_OK);
    expect_rows(&env, 5, 10);
    expect_rows(&env, 4, 30);
    lk_dataset        *latest = fixture_open(&env, 0);
    const lk_manifest *manifest = lk_dataset_manifest(latest);
    assert_int_equal(manifest->version, 5);
    assert_int_equal(manifest->fragment_count, 1);
    assert_int_equal(manifest->fragment_id_max, 2); /* 1 and 2 are not given out again */
    lk_dataset_unref(latest);
    assert_int_equal(fixture_count(store, "data"), 3);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void a_version_that_is_not_there_is_not_restored(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    fixture_table(&env, 0, 10, 1);
    assert_int_equal(restore(&env, 0, lk_direct_committer(), 7, &err), LK_E_NOT_FOUND);
    assert_string_equal(err.detail, "there is no version 7");
    assert_int_equal(fixture_count(store, "_transactions"), 2);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void a_restore_goes_with_whatever_was_committed_meanwhile(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    fixture_table(&env, 0, 10, 3);
    assert_int_equal(restore(&env, 2, lk_direct_committer(), 2, &err), LK_OK); /* on top of 4 */
    expect_rows(&env, 5, 10);
    assert_int_equal(restore(&env, 3, lk_direct_committer(), 4, &err), LK_OK); /* on top of a restore */
    expect_rows(&env, 6, 30);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void an_owned_table_is_not_restored_on_top_of_another_version(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    lk_committer    owned = *lk_direct_committer();
    owned.stands_alone = false;
    fixture_table(&env, 0, 10, 3);
    assert_int_equal(restore(&env, 3, &owned, 2, &err), LK_E_CONFLICT);
    assert_int_equal(fixture_count(store, "_versions"), 4);
    assert_int_equal(fixture_count(store, "_transactions"), 4);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* pylance 14 deleted rows, added, dropped and cast columns, restored: any of its versions is good again. */
static void versions_of_the_reference_are_restored(void **state)
{
    lk_store    *golden = fixture_golden("lifecycle_2.1");
    lk_lance_env golden_env = fixture_env(golden);
    lk_arena     arena = {0};
    lk_err       err = {0};
    uint64_t    *versions = NULL;
    size_t       count = 0;
    assert_int_equal(lk_dataset_versions(&golden_env, &arena, &versions, &count, &err), LK_OK);
    for (size_t i = 0; i < count; i++) {
        fixture_scratch scratch;
        lk_store       *store = fixture_scratch_open(&scratch);
        lk_lance_env    env = fixture_env(store);
        fixture_copy(golden, store);
        lk_buf before = fixture_ids(&env, versions[i]);
        if (restore(&env, 0, lk_direct_committer(), versions[i], &err) != LK_OK) {
            fail_msg("restore: %s", err.context);
        }
        lk_buf after = fixture_ids(&env, versions[count - 1] + 1);
        assert_true(lk_bytes_equal(lk_buf_view(&before), lk_buf_view(&after)));
        lk_buf_deinit(&before);
        lk_buf_deinit(&after);
        lk_store_close(store);
        fixture_scratch_remove(&scratch);
    }
    assert_true(count > 5);
    lk_arena_close(&arena);
    lk_store_close(golden);
}

static void round_of_restore(fixture_faults *f)
{
    lk_err err = {0}, again = {0};
    fixture_table(&f->env, 0, 10, 2);
    fixture_arm(f);
    lk_rc rc = restore(&f->faulty_env, 0, lk_direct_committer(), 2, &err);
    bool  failed = fixture_disarm(f, rc, &err);
    bool  done =
        fixture_count(f->plain, "_versions") > 3 + (f->kind == LK_FAULT_TORN); /* a torn one is no version */
    if (failed) {
        expect_rows(&f->env, 0, 20);
        assert_true(f->kind == LK_FAULT_TORN || fixture_count(f->plain, "_transactions") == 3);
    } else if (rc == LK_OK || done) {
        expect_rows(&f->env, 0, 10);
    }
    assert_int_equal(
        restore(&f->faulty_env, 0, lk_direct_committer(), 2, &again), LK_OK); /* twice is as good */
    expect_rows(&f->env, 0, 10);
}

static void a_restore_survives_a_fault_at_every_store_call(void **state)
{
    (void)state;
    fixture_every_call_fails(round_of_restore, NULL, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restored_version_is_the_newest_and_the_history_stays),
        cmocka_unit_test(a_version_that_is_not_there_is_not_restored),
        cmocka_unit_test(a_restore_goes_with_whatever_was_committed_meanwhile),
        cmocka_unit_test(an_owned_table_is_not_restored_on_top_of_another_version),
        cmocka_unit_test(versions_of_the_reference_are_restored),
        cmocka_unit_test(a_restore_survives_a_fault_at_every_store_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
