/* compact_test.c - small and worn fragments become full ones, others' commits meanwhile, faults at every step. (That
 * pylance reads the result and its indices still answer: tests/interop.) */
#include "lance/alter.h"
#include "lance/fault_fixture.h"
#include "lance/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lk_rc compact(const lk_lance_env *env, uint64_t at, uint64_t target_rows, lk_committer *committer,
    lk_compact_report *report, lk_err *err)
{
    lk_compact_options options = {.target_rows = target_rows};
    lk_dataset        *base = NULL, *next = NULL;
    lk_rc              rc = lk_dataset_open(env, at, &base, err);
    if (rc == LK_OK) {
        rc = lk_dataset_compact(base, committer, &options, NULL, report, &next, err);
    }
    lk_dataset_unref(next);
    lk_dataset_unref(base);
    return rc;
}

static lk_compact_report must_compact(const lk_lance_env *env, uint64_t at, uint64_t target_rows)
{
    lk_err            err = {0};
    lk_compact_report report;
    if (compact(env, at, target_rows, lk_direct_committer(), &report, &err) != LK_OK) {
        fail_msg("compact: %s; %s", err.context, err.detail);
    }
    return report;
}

static void delete_rows(const lk_lance_env *env, uint64_t fragment, uint64_t first, uint64_t count)
{
    lk_err      err = {0};
    lk_dataset *base = fixture_open(env, 0), *next = NULL;
    lk_row_set *rows = lk_row_set_new();
    for (uint64_t i = first; i < first + count; i++) {
        uint64_t address = fragment << 32 | i;
        lk_row_set_add(rows, &address, 1);
    }
    assert_int_equal(
        lk_dataset_delete_rows(base, lk_direct_committer(), rows, (lk_bytes){0}, NULL, NULL, &next, &err),
        LK_OK);
    lk_row_set_free(rows);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
}

static int compare_ids(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* The newest version has the ids 0 to count - 1, but those from gone_first to gone_end - 1. */
static void expect_ids(const lk_lance_env *env, int64_t count, int64_t gone_first, int64_t gone_end)
{
    lk_buf         buffer = fixture_ids(env, 0);
    const int64_t *ids = (const int64_t *)(void *)buffer.data;
    int64_t        at = 0;
    qsort(buffer.data, buffer.size / sizeof *ids, sizeof *ids, compare_ids);
    assert_int_equal(buffer.size / sizeof *ids, count - (gone_end - gone_first));
    for (int64_t id = 0; id < count; id++) {
        if (id < gone_first || id >= gone_end) {
            assert_int_equal(ids[at++], id);
        }
    }
    lk_buf_deinit(&buffer);
}

static void expect_ascending(const lk_lance_env *env)
{
    lk_buf         buffer = fixture_ids(env, 0);
    const int64_t *ids = (const int64_t *)(void *)buffer.data;
    for (size_t i = 1; i < buffer.size / sizeof *ids; i++) {
        assert_true(ids[i - 1] < ids[i]);
    }
    lk_buf_deinit(&buffer);
}

/* Rows of the newest version's fragments, joined by commas; their ids ascend. */
static void expect_fragments(const lk_lance_env *env, const char *expected)
{
    lk_dataset        *latest = fixture_open(env, 0);
    const lk_manifest *manifest = lk_dataset_manifest(latest);
    lk_buf             text = {0};
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        assert_true(i == 0 || manifest->fragments[i - 1].id < manifest->fragments[i].id);
        lk_buf_format(
            &text, "%s%llu", i == 0 ? "" : ",", (unsigned long long)manifest->fragments[i].physical_rows);
    }
    assert_string_equal(text.data, expected);
    lk_buf_deinit(&text);
    lk_dataset_unref(latest);
}

static void small_fragments_become_one_in_the_same_order(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    fixture_table(&env, 0, 10, 7);
    lk_compact_report report = must_compact(&env, 0, 1000);
    assert_int_equal(report.fragments_before, 7);
    assert_int_equal(report.fragments_after, 1);
    assert_int_equal(report.rows, 70);
    assert_int_equal(report.versions, 2); /* one takes the id, one uses it */
    expect_fragments(&env, "70");
    expect_ids(&env, 70, 0, 0);
    expect_ascending(&env);
    report = must_compact(&env, 0, 1000); /* nothing is left to do */
    assert_int_equal(report.versions, 0);
    assert_int_equal(report.fragments_after, 1);
    lk_dataset *latest = fixture_open(&env, 0);
    assert_int_equal(lk_dataset_version(latest), 10);
    assert_int_equal(lk_dataset_manifest(latest)->fragments[0].id, 7); /* one that was never given out */
    lk_dataset_unref(latest);
    lk_buf old = fixture_ids(&env, 8);
    assert_int_equal(old.size / sizeof(int64_t), 70);
    lk_buf_deinit(&old);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void no_fragment_grows_beyond_the_target(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    fixture_table(&env, 0, 10, 7);
    must_compact(&env, 0, 35);
    expect_fragments(&env, "30,30,10");
    expect_ids(&env, 70, 0, 0);
    assert_int_equal(must_compact(&env, 0, 35).versions, 0);
    must_compact(&env, 0, 40);
    expect_fragments(&env, "30,40");
    expect_ids(&env, 70, 0, 0);
    expect_ascending(&env);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void append_rows(const lk_lance_env *env, int64_t first, int64_t count)
{
    lk_err      err = {0};
    lk_dataset *base = fixture_open(env, 0), *next = NULL;
    lk_batches *rows = fixture_rows(first, count, 1);
    assert_int_equal(lk_dataset_append(base, lk_direct_committer(), rows, NULL, &next, &err), LK_OK);
    lk_batches_close(rows);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
}

static void what_is_gathered_becomes_one_wherever_it_lies(void **state)
{
    fixture_scratch          scratch;
    lk_err                   err = {0};
    lk_compact_report        report;
    lk_store                *store = fixture_scratch_open(&scratch);
    lk_lance_env             env = fixture_env(store);
    const lk_compact_options small = {.gather_rows = 100, .gather_bytes = UINT64_MAX};
    fixture_table(&env, 0, 10, 2);
    append_rows(&env, 20, 100);
    append_rows(&env, 120, 99);
    append_rows(&env, 219, 101);
    append_rows(&env, 320, 5);
    for (int round = 0; round < 2; round++) { /* the second finds nothing to do: 124 are not small */
        lk_dataset *base = fixture_open(&env, 0), *next = NULL;
        assert_int_equal(
            lk_dataset_compact(base, lk_direct_committer(), &small, NULL, &report, &next, &err), LK_OK);
        assert_int_equal(report.versions > 0, round == 0);
        expect_fragments(&env, "100,101,124");
        expect_ids(&env, 325, 0, 0);
        lk_dataset_unref(next);
        lk_dataset_unref(base);
    }
    append_rows(&env, 325, 5); /* one alone stays where it is */
    lk_dataset *base = fixture_open(&env, 0), *next = NULL;
    assert_int_equal(
        lk_dataset_compact(base, lk_direct_committer(), &small, NULL, &report, &next, &err), LK_OK);
    assert_int_equal(report.versions, 0);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void many_groups_are_committed_a_few_at_a_time(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    fixture_table(&env, 0, 2, 70);
    lk_compact_report report = must_compact(&env, 0, 4); /* 35 groups of two */
    assert_int_equal(report.versions, 1 + 3);
    expect_ascending(&env);
    assert_int_equal(report.fragments_after, 35);
    expect_ids(&env, 140, 0, 0);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void deleted_rows_are_dropped_where_they_are_many(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    fixture_table(&env, 0, 20, 3);
    delete_rows(&env, 1, 0, 2); /* a tenth is not yet many */
    assert_int_equal(must_compact(&env, 0, 20).versions, 0);
    delete_rows(&env, 1, 2, 3);
    lk_compact_report report = must_compact(&env, 0, 20);
    assert_int_equal(report.deleted_rows_dropped, 5);
    assert_int_equal(report.fragments_rewritten, 1);
    expect_fragments(&env, "20,20,15"); /* rewritten rows come last */
    expect_ids(&env, 60, 20, 25);
    lk_dataset *latest = fixture_open(&env, 0);
    assert_int_equal(lk_dataset_manifest(latest)->reader_flags, 0); /* no deletion file is left */
    assert_int_equal(lk_dataset_manifest(latest)->deleted_rows, 0);
    lk_dataset_unref(latest);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- others at the same time ------------------------------------------------------------------------------ */

static void a_compaction_goes_with_appends_and_with_changes_elsewhere(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    lk_dataset     *next = NULL;
    fixture_table(&env, 0, 10, 3); /* version 4 */
    lk_dataset *base = fixture_open(&env, 0);
    lk_batches *rows = fixture_rows(30, 10, 1);
    assert_int_equal(lk_dataset_append(base, lk_direct_committer(), rows, NULL, &next, &err), LK_OK);
    lk_batches_close(rows);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
    delete_rows(&env, 3, 5, 1); /* from the appended fragment */
    lk_compact_report report = must_compact(&env, 4, 30);
    assert_int_equal(report.fragments_after, 2);
    expect_fragments(&env, "30,9");
    expect_ids(&env, 40, 35, 36);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* A committer with an accident: just before its commit number `at`, somebody else does something. */
typedef struct interfering {
    lk_committer        base;
    const lk_lance_env *env;
    int                 commits, at;
    void (*act)(const lk_lance_env *env);
} interfering;

static lk_rc interfere_and_commit(lk_committer *committer, lk_store *store, uint64_t version, lk_bytes key,
    lk_bytes manifest, bool *won, lk_err *err)
{
    interfering *self = (interfering *)committer;
    if (self->commits++ == self->at) {
        self->act(self->env);
    }
    return lk_direct_committer()->commit(lk_direct_committer(), store, version, key, manifest, won, err);
}

static void delete_one(const lk_lance_env *env)
{
    delete_rows(env, 1, 5, 1);
}

static void append_ten(const lk_lance_env *env)
{
    append_rows(env, 30, 10);
}

static void compact_all(const lk_lance_env *env)
{
    must_compact(env, 0, 100);
}

enum { RESERVING, REWRITING }; /* commits of a compaction */

static lk_rc compact_beside(
    const lk_lance_env *env, int at, void (*act)(const lk_lance_env *env), uint64_t target_rows, lk_err *err)
{
    lk_compact_report report;
    interfering       committer = {{interfere_and_commit, true}, env, 0, at, act};
    return compact(env, 0, target_rows, &committer.base, &report, err);
}

static void a_fragment_that_changed_meanwhile_is_a_conflict_that_leaves_nothing(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          deleted = {0}, rewritten = {0};
    fixture_table(&env, 0, 10, 3); /* version 4 */
    assert_int_equal(compact_beside(&env, REWRITING, delete_one, 100, &deleted), LK_E_CONFLICT);
    assert_non_null(strstr(deleted.detail, "changed meanwhile"));
    assert_int_equal(fixture_count(store, "data"), 3);
    assert_int_equal(fixture_count(store, "_transactions"), 6); /* reserving, deleting */
    assert_int_equal(compact_beside(&env, REWRITING, compact_all, 100, &rewritten), LK_E_CONFLICT);
    assert_int_equal(fixture_count(store, "data"), 4);
    expect_fragments(&env, "29");
    expect_ids(&env, 30, 15, 16);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void what_was_deleted_before_the_ids_were_reserved_is_no_conflict(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    fixture_table(&env, 0, 10, 3);
    assert_int_equal(compact_beside(&env, RESERVING, delete_one, 100, &err), LK_OK);
    expect_fragments(&env, "29");
    expect_ids(&env, 30, 15, 16);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void rows_appended_during_a_compaction_stay_behind_it(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    fixture_table(&env, 0, 10, 3);
    assert_int_equal(compact_beside(&env, REWRITING, append_ten, 30, &err), LK_OK);
    expect_fragments(&env, "30,10");
    expect_ids(&env, 40, 0, 0);
    expect_ascending(&env);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void an_owned_table_is_compacted_by_its_committer_alone(void **state)
{
    fixture_scratch   scratch;
    lk_store         *store = fixture_scratch_open(&scratch);
    lk_lance_env      env = fixture_env(store);
    lk_err            err = {0};
    lk_compact_report report;
    lk_committer      owned = *lk_direct_committer();
    owned.stands_alone = false;
    fixture_table(&env, 0, 10, 3);
    assert_int_equal(compact(&env, 3, 100, &owned, &report, &err), LK_E_CONFLICT);
    assert_int_equal(fixture_count(store, "data"), 3);
    lk_err none = {0};
    assert_int_equal(compact(&env, 0, 100, &owned, &report, &none), LK_OK);
    expect_ids(&env, 30, 0, 0);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- every store call fails in turn ---------------------------------------------------------------------------- */

static void round_of_compaction(fixture_faults *f)
{
    lk_err            err = {0}, again = {0};
    lk_compact_report report;
    fixture_table(&f->env, 0, 10, 3);
    delete_rows(&f->env, 1, 5, 2);
    fixture_arm(f);
    lk_rc rc = compact(&f->faulty_env, 0, 20, lk_direct_committer(), &report, &err);
    bool  failed = fixture_disarm(f, rc, &err);
    expect_ids(&f->env, 30, 15, 17); /* done or not, the rows are the same */
    if (failed && f->kind != LK_FAULT_TORN) {
        lk_dataset *latest = fixture_open(&f->env, 0); /* ids may have been reserved */
        assert_int_equal(fixture_count(f->plain, "data"), 3);
        assert_int_equal(fixture_count(f->plain, "_transactions"), lk_dataset_version(latest));
        lk_dataset_unref(latest);
    }
    assert_int_equal(compact(&f->faulty_env, 0, 20, lk_direct_committer(), &report, &again), LK_OK);
    expect_fragments(&f->env, "18,10");
    expect_ids(&f->env, 30, 15, 17);
}

static void a_compaction_survives_a_fault_at_every_store_call(void **state)
{
    (void)state;
    fixture_every_call_fails(round_of_compaction, NULL, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_fragments_become_one_in_the_same_order),
        cmocka_unit_test(no_fragment_grows_beyond_the_target),
        cmocka_unit_test(what_is_gathered_becomes_one_wherever_it_lies),
        cmocka_unit_test(many_groups_are_committed_a_few_at_a_time),
        cmocka_unit_test(deleted_rows_are_dropped_where_they_are_many),
        cmocka_unit_test(a_compaction_goes_with_appends_and_with_changes_elsewhere),
        cmocka_unit_test(a_fragment_that_changed_meanwhile_is_a_conflict_that_leaves_nothing),
        cmocka_unit_test(what_was_deleted_before_the_ids_were_reserved_is_no_conflict),
        cmocka_unit_test(rows_appended_during_a_compaction_stay_behind_it),
        cmocka_unit_test(an_owned_table_is_compacted_by_its_committer_alone),
        cmocka_unit_test(a_compaction_survives_a_fault_at_every_store_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
