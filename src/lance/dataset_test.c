/*
 * dataset_test.c - one open dataset used by many threads while others append (LK_TSAN), more files than the
 * cache keeps, opening by manifest key, and versions that were removed.
 */
#include "lance/dataset_priv.h"
#include "lance/table_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FILES = 84, FILES_OPEN = 64, THREADS = 4, APPENDS = 10 };

static lk_dataset *must_open(const lk_lance_env *env, uint64_t version)
{
    lk_err      err = {0};
    lk_dataset *dataset = NULL;
    if (lk_dataset_open(env, version, &dataset, &err) != LK_OK) {
        fail_msg("open: %s", err.context);
    }
    return dataset;
}

static void must_append(lk_dataset *base, int64_t first, int64_t rows, size_t rows_per_file)
{
    lk_err           err = {0};
    lk_dataset      *next = NULL;
    lk_batches      *source = fixture_rows(first, rows, 1);
    lk_write_options options = {.max_rows_per_file = rows_per_file};
    if (lk_dataset_append(base, lk_direct_committer(), source, &options, &next, &err) != LK_OK) {
        fail_msg("append: %s; %s", err.context, err.detail);
    }
    lk_batches_close(source);
    lk_dataset_unref(next);
}

/* A table with FILES fragments of one row each at version 2. */
static lk_dataset *make_table(const lk_lance_env *env)
{
    struct ArrowSchema schema = {0};
    lk_dataset        *made = NULL;
    lk_err             err = {0};
    fixture_schema(&schema);
    assert_int_equal(lk_dataset_create(env, lk_direct_committer(), &schema, NULL, &made, &err), LK_OK);
    must_append(made, 0, FILES, 1);
    lk_dataset_unref(made);
    lk_schema_release(&schema);
    return must_open(env, 2);
}

/* Runs on several threads, so it reports through its result and not by assertions. */
typedef struct visitor {
    lk_thread   thread;
    lk_dataset *dataset;
    uint64_t    rows;
    lk_err      err;
} visitor;

static void visit_files(void *context)
{
    visitor *self = context;
    for (size_t fragment = 0; fragment < self->dataset->manifest->fragment_count; fragment++) {
        lk_file_reader *reader = NULL;
        if (lk_dataset_file(self->dataset, fragment, 0, &reader, &self->err) != LK_OK) {
            return;
        }
        self->rows += lk_file_reader_rows(reader);
        lk_file_reader_unref(reader);
    }
}

static void scan_rows(void *context)
{
    visitor        *self = context;
    lk_batches     *scan = NULL;
    lk_scan_options options = {.limit = UINT64_MAX};
    if (lk_dataset_scan(self->dataset, &options, &scan, &self->err) != LK_OK) {
        return;
    }
    for (;;) {
        struct ArrowArray batch = {0};
        if (lk_batches_next(scan, &batch, &self->err) != LK_OK || batch.release == NULL) {
            break;
        }
        self->rows += (uint64_t)batch.length;
        lk_array_release(&batch);
    }
    lk_batches_close(scan);
}

static void visit_deletions(void *context)
{
    visitor *self = context;
    for (size_t fragment = 0; fragment < self->dataset->manifest->fragment_count; fragment++) {
        const lk_deletion *deletion = NULL;
        if (lk_dataset_deletion(self->dataset, fragment, &deletion, &self->err) != LK_OK) {
            return;
        }
        self->rows += deletion == NULL ? 0 : lk_deletion_count(deletion);
    }
}

static void start(visitor *visitors, lk_dataset *dataset, void (*run)(void *context))
{
    for (int i = 0; i < THREADS; i++) {
        lk_err err = {0};
        visitors[i] = (visitor){.dataset = lk_dataset_ref(dataset)};
        assert_int_equal(lk_thread_start(&visitors[i].thread, "visitor", run, &visitors[i], &err), LK_OK);
    }
}

static void join(visitor *visitors, uint64_t rows)
{
    for (int i = 0; i < THREADS; i++) {
        lk_thread_join(&visitors[i].thread);
        lk_dataset_unref(visitors[i].dataset);
        if (visitors[i].err.rc != LK_OK) {
            fail_msg("%s", visitors[i].err.context);
        }
        assert_int_equal(visitors[i].rows, rows);
    }
}

static void threads_share_the_open_files_of_a_dataset(void **state)
{
    fixture_scratch scratch;
    visitor         visitors[THREADS];
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_budget       open_files;
    lk_budget_init(&open_files, "open files", FILES_OPEN, NULL);
    env.open_files = &open_files;
    lk_dataset *dataset = make_table(&env);
    assert_int_equal(dataset->manifest->fragment_count, FILES);
    start(visitors, dataset, visit_files);
    join(visitors, FILES);
    assert_int_equal(open_files.used_bytes, FILES_OPEN);
    lk_dataset_unref(dataset);
    assert_int_equal(open_files.used_bytes, 0);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void readers_of_a_version_see_it_to_the_end_while_others_append(void **state)
{
    fixture_scratch scratch;
    visitor         visitors[THREADS];
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_dataset     *dataset = make_table(&env);
    start(visitors, dataset, scan_rows);
    for (int64_t i = 0; i < APPENDS; i++) {
        must_append(dataset, FILES + i, 1, 0);
    }
    join(visitors, FILES);
    lk_dataset *latest = must_open(&env, 0);
    assert_int_equal(lk_dataset_version(latest), 2 + APPENDS);
    assert_int_equal(lk_dataset_row_count(latest), FILES + APPENDS);
    lk_dataset_unref(latest);
    lk_dataset_unref(dataset);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void threads_share_the_deletions_of_a_dataset(void **state)
{
    visitor      visitors[THREADS];
    lk_store    *store = fixture_golden("lifecycle_2.1");
    lk_lance_env env = fixture_env(store);
    lk_dataset  *dataset = must_open(&env, 3);
    start(visitors, dataset, visit_deletions);
    join(visitors, 15); /* 150 rows were written, 135 are left */
    assert_true(lk_dataset_bytes(dataset) > lk_manifest_bytes(dataset->manifest));
    lk_dataset_unref(dataset);
    lk_store_close(store);
}

static void a_dataset_opens_by_the_key_of_its_manifest(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_dataset     *dataset = make_table(&env), *staged = NULL;
    lk_buf          object = fixture_object(store, dataset->manifest->key.data);
    lk_err          err = {0};
    bool            created = false;
    lk_bytes        key = LK_LITERAL("_versions/staging-2-x");
    assert_int_equal(lk_store_put_if_absent(store, key, lk_buf_view(&object), &created, &err), LK_OK);
    assert_int_equal(lk_dataset_open_manifest(&env, key, &staged, &err), LK_OK);
    assert_int_equal(lk_dataset_version(staged), 2);
    assert_int_equal(lk_dataset_row_count(staged), FILES);
    must_append(staged, FILES, 1, 0); /* gets the name of version 3, whatever the base was opened by */
    lk_dataset *third = must_open(&env, 3);
    assert_int_equal(lk_dataset_row_count(third), FILES + 1);
    lk_dataset_unref(third);
    lk_dataset_unref(staged);
    lk_dataset_unref(dataset);
    lk_buf_deinit(&object);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void a_manifest_under_the_name_of_another_version_is_corrupt(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_dataset     *dataset = make_table(&env), *wrong = NULL;
    lk_buf          object = fixture_object(store, dataset->manifest->key.data);
    lk_arena        arena = {0};
    lk_err          err = {0};
    bool            created = false;
    lk_bytes        key = lk_manifest_key(7, LK_MANIFEST_V2, &arena);
    assert_int_equal(lk_store_put_if_absent(store, key, lk_buf_view(&object), &created, &err), LK_OK);
    assert_int_equal(lk_dataset_open(&env, 7, &wrong, &err), LK_E_CORRUPT_FILE);
    lk_arena_close(&arena);
    lk_dataset_unref(dataset);
    lk_buf_deinit(&object);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void a_missing_data_file_is_an_error_that_names_it(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_dataset     *dataset = make_table(&env);
    lk_arena        arena = {0};
    lk_err          err = {0};
    lk_file_reader *reader = NULL;
    lk_bytes        key = lk_data_file_key(&dataset->manifest->fragments[3].files[0], &arena);
    assert_int_equal(lk_store_remove(store, key, &err), LK_OK);
    assert_int_equal(lk_dataset_file(dataset, 3, 0, &reader, &err), LK_E_SNAPSHOT_GONE);
    assert_non_null(strstr(err.context, dataset->manifest->fragments[3].files[0].path.data));
    lk_arena_close(&arena);
    lk_dataset_unref(dataset);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_the_open_files_of_a_dataset),
        cmocka_unit_test(readers_of_a_version_see_it_to_the_end_while_others_append),
        cmocka_unit_test(threads_share_the_deletions_of_a_dataset),
        cmocka_unit_test(a_dataset_opens_by_the_key_of_its_manifest),
        cmocka_unit_test(a_manifest_under_the_name_of_another_version_is_corrupt),
        cmocka_unit_test(a_missing_data_file_is_an_error_that_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
