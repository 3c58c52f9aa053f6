/* columns_test.c - columns dropped, renamed and added as null, others' commits meanwhile, faults at every step. (That
 * pylance reads the result, nested columns and indices: tests/interop.) */
#include "arrow/schema.h"
#include "lance/alter.h"
#include "lance/fault_fixture.h"
#include "lance/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef enum edit { DROP_NAME, DROP_ID, RENAME, ADD } edit;

/* Drops name or id, renames name to label, or adds extra, on top of version `at`. */
static lk_rc apply(const lk_lance_env *env, uint64_t at, edit what, const char *text, lk_err *err)
{
    struct ArrowSchema added = {0};
    lk_bytes           path = lk_bytes_of(what == DROP_ID ? "id" : "name");
    lk_dataset        *base = NULL, *next = NULL;
    lk_committer      *committer = lk_direct_committer();
    lk_rc              rc = lk_dataset_open(env, at, &base, err);
    if (rc == LK_OK && what == ADD) {
        lk_schema_start(&added, 1);
        assert_int_equal(lk_column_parse(lk_bytes_of(text), added.children[0], err), LK_OK);
        rc = lk_dataset_add_columns(base, committer, &added, NULL, &next, err);
        lk_schema_release(&added);
    } else if (rc == LK_OK && what == RENAME) {
        rc = lk_dataset_rename_column(base, committer, path, lk_bytes_of(text), NULL, &next, err);
    } else if (rc == LK_OK) {
        rc = lk_dataset_drop_columns(base, committer, &path, 1, NULL, &next, err);
    }
    lk_dataset_unref(next);
    lk_dataset_unref(base);
    return rc;
}

static void must(const lk_lance_env *env, uint64_t at, edit what, const char *text)
{
    lk_err err = {0};
    if (apply(env, at, what, text, &err) != LK_OK) {
        fail_msg("%s; %s", err.context, err.detail);
    }
}

/* Names joined by commas. */
static void expect_columns(const lk_lance_env *env, uint64_t version, const char *expected)
{
    lk_dataset               *dataset = fixture_open(env, version);
    const struct ArrowSchema *schema = lk_dataset_schema(dataset);
    lk_buf                    names = {0};
    for (int64_t i = 0; i < schema->n_children; i++) {
        lk_buf_format(&names, "%s%s", i == 0 ? "" : ",", schema->children[i]->name);
    }
    assert_string_equal(names.data, expected);
    lk_buf_deinit(&names);
    lk_dataset_unref(dataset);
}

/* Ids of a version are 0 to count - 1. */
static void expect_ids(const lk_lance_env *env, uint64_t version, size_t count)
{
    lk_buf         buffer = fixture_ids(env, version);
    const int64_t *ids = (const int64_t *)(void *)buffer.data;
    assert_int_equal(buffer.size / sizeof *ids, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ids[i], i);
    }
    lk_buf_deinit(&buffer);
}

/* Null values of the last column over all rows. */
static int64_t count_nulls(const lk_lance_env *env)
{
    lk_err          err = {0};
    lk_dataset     *dataset = fixture_open(env, 0);
    lk_batches     *scan = NULL;
    lk_scan_options options = {.limit = UINT64_MAX};
    int64_t         nulls = 0;
    assert_int_equal(lk_dataset_scan(dataset, &options, &scan, &err), LK_OK);
    for (;;) {
        struct ArrowArray batch = {0};
        assert_int_equal(lk_batches_next(scan, &batch, &err), LK_OK);
        if (batch.release == NULL) {
            break;
        }
        struct ArrowArrayView view;
        struct ArrowSchema   *type = scan->schema.children[scan->schema.n_children - 1];
        struct ArrowArray    *column = batch.children[batch.n_children - 1];
        assert_int_equal(ArrowArrayViewInitFromSchema(&view, type, NULL), NANOARROW_OK);
        assert_int_equal(ArrowArrayViewSetArray(&view, column, NULL), NANOARROW_OK);
        nulls += ArrowArrayViewComputeNullCount(&view);
        ArrowArrayViewReset(&view);
        lk_array_release(&batch);
    }
    lk_batches_close(scan);
    lk_dataset_unref(dataset);
    return nulls;
}

static void a_column_is_dropped_renamed_and_added_without_data_files(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    fixture_table(&env, 0, 10, 2); /* two names in ten are null */
    must(&env, 0, RENAME, "label");
    expect_columns(&env, 4, "id,label");
    assert_int_equal(count_nulls(&env), 4);
    must(&env, 0, ADD, "extra:float64?");
    expect_columns(&env, 5, "id,label,extra");
    assert_int_equal(count_nulls(&env), 20);
    must(&env, 3, DROP_NAME, NULL); /* by its id: it has another name since */
    expect_columns(&env, 6, "id,extra");
    expect_columns(&env, 3, "id,name");
    expect_ids(&env, 6, 20);
    assert_int_equal(fixture_count(store, "data"), 2);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void an_added_column_gets_an_id_that_no_file_has(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    fixture_table(&env, 0, 10, 1);
    must(&env, 0, DROP_NAME, NULL);
    must(&env, 0, ADD, "name:utf8?"); /* the old values do not come back */
    expect_columns(&env, 4, "id,name");
    assert_int_equal(count_nulls(&env), 10);
    lk_dataset *latest = fixture_open(&env, 0);
    assert_int_equal(lk_dataset_manifest(latest)->schema->fields[1].id, 2);
    lk_dataset_unref(latest);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void rows_are_still_counted_when_every_old_column_is_dropped(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    fixture_table(&env, 0, 10, 2);
    must(&env, 0, ADD, "extra:float64?");
    must(&env, 0, DROP_NAME, NULL);
    must(&env, 0, DROP_ID, NULL);
    expect_columns(&env, 0, "extra");
    assert_int_equal(count_nulls(&env), 20);
    lk_dataset *latest = fixture_open(&env, 0);
    assert_int_equal(lk_dataset_manifest(latest)->fragments[0].file_count, 1);
    assert_int_equal(lk_dataset_row_count(latest), 20);
    lk_dataset_unref(latest);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void what_makes_no_sense_is_refused_and_changes_nothing(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    fixture_table(&env, 0, 10, 1);
    static const struct {
        edit        what;
        const char *text;
        lk_rc       rc;
        const char *detail;
    } rows[] = {
        {RENAME, "id", LK_E_INVALID_REQUEST, "there is a column id already"},
        {RENAME, "", LK_E_INVALID_REQUEST, "a column's name is not empty and has no dot"},
        {RENAME, "a.b", LK_E_INVALID_REQUEST, "a column's name is not empty and has no dot"},
        {RENAME, "_rowid", LK_E_INVALID_REQUEST, "the name _rowid is reserved"},
        {ADD, "name:int64?", LK_E_INVALID_REQUEST, "there is a column name already"},
        {ADD, "extra:int64", LK_E_INVALID_SCHEMA, "column \"extra\" has no value yet: it must be nullable"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lk_err err = {0};
        assert_int_equal(apply(&env, 0, rows[i].what, rows[i].text, &err), rows[i].rc);
        assert_string_equal(err.detail, rows[i].detail);
    }
    assert_int_equal(fixture_count(store, "_versions"), 2);
    assert_int_equal(fixture_count(store, "_transactions"), 2);
    must(&env, 0, DROP_NAME, NULL);
    lk_err last = {0}, none = {0};
    assert_int_equal(apply(&env, 0, DROP_ID, NULL, &last), LK_E_INVALID_REQUEST);
    assert_string_equal(last.detail, "a table keeps at least one column");
    assert_int_equal(apply(&env, 0, DROP_NAME, NULL, &none), LK_E_NOT_FOUND);
    assert_string_equal(none.detail, "there is no column name");
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void edits_meet_on_one_column(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          gone = {0}, taken = {0};
    fixture_table(&env, 0, 10, 1);
    must(&env, 2, ADD, "extra:int64?");
    assert_int_equal(apply(&env, 2, ADD, "extra:utf8?", &taken), LK_E_INVALID_REQUEST);
    must(&env, 2, DROP_NAME, NULL);
    assert_int_equal(apply(&env, 2, RENAME, "label", &gone), LK_E_CONFLICT);
    assert_string_equal(gone.detail, "the column was dropped or changed meanwhile");
    must(&env, 2, DROP_ID, NULL); /* extra is left */
    expect_columns(&env, 0, "extra");
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void rows_appended_meanwhile_are_kept(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    fixture_table(&env, 0, 10, 1);
    lk_dataset *old = fixture_open(&env, 0), *next = NULL;
    must(&env, 0, DROP_NAME, NULL);
    lk_batches *rows = fixture_rows(10, 10, 1);
    assert_int_equal(lk_dataset_append(old, lk_direct_committer(), rows, NULL, &next, &err), LK_OK);
    lk_batches_close(rows);
    lk_dataset_unref(next);
    lk_dataset_unref(old);
    must(&env, 2, ADD, "extra:int64?"); /* on top of both */
    expect_columns(&env, 5, "id,extra");
    expect_ids(&env, 5, 20);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

typedef struct edit_case {
    edit        what;
    const char *text;
} edit_case;

static void round_of_edit(fixture_faults *f)
{
    static const char *const after[] = {"id", "", "id,label", "id,name,extra"};
    const edit_case         *c = f->context;
    lk_err                   err = {0}, again = {0};
    fixture_table(&f->env, 0, 10, 1);
    fixture_arm(f);
    lk_rc rc = apply(&f->faulty_env, 0, c->what, c->text, &err);
    bool  failed = fixture_disarm(f, rc, &err);
    expect_columns(&f->env, 2, "id,name");
    if (failed) {
        expect_columns(&f->env, 0, "id,name");
        assert_true(f->kind == LK_FAULT_TORN || fixture_count(f->plain, "_transactions") == 2);
    }
    lk_rc second = apply(&f->faulty_env, 0, c->what, c->text, &again);
    assert_true(second == LK_OK || !failed); /* else it is done already */
    expect_columns(&f->env, 3, after[c->what]);
    expect_columns(&f->env, 0, after[c->what]);
}

static void an_edit_survives_a_fault_at_every_store_call(void **state)
{
    static const edit_case edits[] = {{DROP_NAME, NULL}, {RENAME, "label"}, {ADD, "extra:int64?"}};
    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        fixture_every_call_fails(round_of_edit, &edits[i], 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_is_dropped_renamed_and_added_without_data_files),
        cmocka_unit_test(an_added_column_gets_an_id_that_no_file_has),
        cmocka_unit_test(rows_are_still_counted_when_every_old_column_is_dropped),
        cmocka_unit_test(what_makes_no_sense_is_refused_and_changes_nothing),
        cmocka_unit_test(edits_meet_on_one_column),
        cmocka_unit_test(rows_appended_meanwhile_are_kept),
        cmocka_unit_test(an_edit_survives_a_fault_at_every_store_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
