/*
 * append_test.c - making tables and adding rows: what becomes visible, what conflicts, and what is left behind
 * when any store call fails. (That pylance reads the result is tests/interop's business.)
 */
#include "lance/dataset_priv.h"
#include "lance/fault_fixture.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* -- helpers ----------------------------------------------------------------------------------------- */

static lk_dataset *must_open(const lk_lance_env *env, uint64_t version)
{
    lk_err      err = {0};
    lk_dataset *dataset = NULL;
    if (lk_dataset_open(env, version, &dataset, &err) != LK_OK) {
        fail_msg("open: %s", err.context);
    }
    return dataset;
}

static lk_rc create(const lk_lance_env *env, lk_err *err)
{
    struct ArrowSchema schema = {0};
    lk_dataset        *made = NULL;
    fixture_schema(&schema);
    lk_rc rc = lk_dataset_create(env, lk_direct_committer(), &schema, NULL, &made, err);
    lk_dataset_unref(made);
    lk_schema_release(&schema);
    return rc;
}

static void must_create(const lk_lance_env *env)
{
    lk_err err = {0};
    if (create(env, &err) != LK_OK) {
        fail_msg("create: %s", err.context);
    }
}

/* Takes rows. */
static lk_rc append(lk_dataset *base, lk_committer *committer, lk_batches *rows,
    const lk_write_options *options, uint64_t *version, lk_err *err)
{
    lk_dataset *next = NULL;
    lk_rc       rc = lk_dataset_append(base, committer, rows, options, &next, err);
    lk_batches_close(rows);
    if (rc == LK_OK) {
        *version = lk_dataset_version(next);
        lk_dataset_unref(next);
    }
    return rc;
}

static uint64_t must_append(lk_dataset *base, lk_batches *rows, const lk_write_options *options)
{
    lk_err   err = {0};
    uint64_t version = 0;
    if (append(base, lk_direct_committer(), rows, options, &version, &err) != LK_OK) {
        fail_msg("append: %s; %s", err.context, err.detail);
    }
    return version;
}

/* The sum of column 0 (int64) and the number of rows that a scan gives. */
static void scan_sum(lk_dataset *dataset, int64_t *sum, int64_t *rows)
{
    lk_err          err = {0};
    lk_batches     *scan = NULL;
    lk_scan_options options = {.limit = UINT64_MAX};
    *sum = *rows = 0;
    if (lk_dataset_scan(dataset, &options, &scan, &err) != LK_OK) {
        fail_msg("scan: %s", err.context);
    }
    for (;;) {
        struct ArrowArray batch = {0};
        if (lk_batches_next(scan, &batch, &err) != LK_OK) {
            fail_msg("scan: %s", err.context);
        }
        if (batch.release == NULL) {
            break;
        }
        const int64_t *ids = (const int64_t *)batch.children[0]->buffers[1] + batch.children[0]->offset;
        for (int64_t i = 0; i < batch.length; i++) {
            *sum += ids[i];
        }
        *rows += batch.length;
        lk_array_release(&batch);
    }
    lk_batches_close(scan);
}

static void expect_rows(const lk_lance_env *env, uint64_t version, int64_t rows)
{
    lk_dataset *dataset = must_open(env, version);
    int64_t     sum = 0, seen = 0;
    scan_sum(dataset, &sum, &seen);
    assert_int_equal(seen, rows);
    assert_int_equal(lk_dataset_row_count(dataset), rows);
    assert_int_equal(sum, rows * (rows - 1) / 2); /* ids count from 0 without a gap */
    lk_dataset_unref(dataset);
}

/* Copies a golden table, versions above `last` left out. */
static void copy_golden(const char *name, lk_store *to, uint64_t last)
{
    static const char *const directories[] = {"_versions", "_transactions", "_deletions", "data"};
    lk_store                *from = fixture_golden(name);
    for (size_t d = 0; d < sizeof directories / sizeof directories[0]; d++) {
        lk_arena        arena = {0};
        lk_store_entry *entries = NULL;
        size_t          count = 0;
        lk_err          err = {0};
        assert_int_equal(
            lk_store_list(from, lk_bytes_of(directories[d]), &arena, &entries, &count, &err), LK_OK);
        for (size_t i = 0; i < count; i++) {
            uint64_t           version = 0;
            lk_manifest_naming naming = LK_MANIFEST_V2;
            bool               created = false;
            if (lk_manifest_parse_name(entries[i].name, &version, &naming) && version > last) {
                continue;
            }
            lk_bytes key = lk_arena_format(&arena, "%s/%.*s", directories[d], LK_FMT(entries[i].name));
            lk_buf   object = fixture_object(from, key.data);
            assert_int_equal(lk_store_put_if_absent(to, key, lk_buf_view(&object), &created, &err), LK_OK);
            lk_buf_deinit(&object);
        }
        lk_arena_close(&arena);
    }
    lk_store_close(from);
}

/* -- tables ------------------------------------------------------------------------------------------ */

static void a_new_table_is_empty_and_is_made_once(void **state)
{
    fixture_scratch    scratch;
    lk_store          *store = fixture_scratch_open(&scratch);
    lk_lance_env       env = fixture_env(store);
    lk_err             err = {0};
    struct ArrowSchema schema = {0};
    must_create(&env);
    lk_dataset *dataset = must_open(&env, 0);
    assert_int_equal(lk_dataset_version(dataset), 1);
    assert_int_equal(lk_dataset_row_count(dataset), 0);
    fixture_schema(&schema);
    assert_int_equal(lk_dataset_schema(dataset)->n_children, 2);
    assert_string_equal(lk_dataset_schema(dataset)->children[1]->format, schema.children[1]->format);
    assert_int_equal(create(&env, &err), LK_E_TABLE_EXISTS);
    assert_int_equal(fixture_count(store, "_transactions"), 1);
    lk_schema_release(&schema);
    lk_dataset_unref(dataset);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void no_table_and_no_version_are_not_found(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0}, again = {0};
    lk_dataset     *dataset = NULL;
    assert_int_equal(lk_dataset_open(&env, 0, &dataset, &err), LK_E_NOT_FOUND);
    must_create(&env);
    assert_int_equal(lk_dataset_open(&env, 2, &dataset, &again), LK_E_NOT_FOUND);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void every_append_is_a_version_and_the_old_ones_stay(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    must_create(&env);
    for (int64_t i = 0; i < 5; i++) {
        lk_dataset *base = must_open(&env, 0);
        assert_int_equal(must_append(base, fixture_rows(i * 20, 10, 2), NULL), i + 2);
        lk_dataset_unref(base);
    }
    for (int64_t version = 1; version <= 6; version++) {
        expect_rows(&env, (uint64_t)version, (version - 1) * 20);
    }
    lk_arena  arena = {0};
    lk_err    err = {0};
    uint64_t *versions = NULL;
    size_t    count = 0;
    assert_int_equal(lk_dataset_versions(&env, &arena, &versions, &count, &err), LK_OK);
    assert_int_equal(count, 6);
    assert_int_equal(versions[0], 1);
    assert_int_equal(versions[5], 6);
    lk_arena_close(&arena);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void rows_are_cut_into_files_at_the_limit(void **state)
{
    fixture_scratch  scratch;
    lk_store        *store = fixture_scratch_open(&scratch);
    lk_lance_env     env = fixture_env(store);
    lk_write_options options = {.max_rows_per_file = 7};
    must_create(&env);
    lk_dataset *base = must_open(&env, 0);
    assert_int_equal(must_append(base, fixture_rows(0, 10, 3), &options), 2);
    lk_dataset        *next = must_open(&env, 0);
    const lk_manifest *manifest = lk_dataset_manifest(next);
    assert_int_equal(manifest->fragment_count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(manifest->fragments[i].id, i);
        assert_int_equal(manifest->fragments[i].physical_rows, i < 4 ? 7 : 2);
    }
    assert_int_equal(fixture_count(store, "data"), 5);
    expect_rows(&env, 2, 30);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void the_transaction_keeps_its_properties(void **state)
{
    fixture_scratch          scratch;
    lk_store                *store = fixture_scratch_open(&scratch);
    lk_lance_env             env = fixture_env(store);
    const lk_commit_property property = {LK_LITERAL("lake.operation_id"), LK_LITERAL("0198-x")};
    lk_write_options         options = {.properties = &property, .property_count = 1};
    lk_arena                 arena = {0};
    lk_err                   err = {0};
    lk_bytes                 value = {0};
    bool                     found = false;
    must_create(&env);
    lk_dataset *base = must_open(&env, 0);
    assert_int_equal(must_append(base, fixture_rows(0, 1, 1), &options), 2);
    lk_dataset *next = must_open(&env, 2);
    assert_int_equal(lk_dataset_property(next, property.key, &arena, &value, &found, &err), LK_OK);
    assert_true(found && lk_bytes_equal(value, property.value));
    assert_int_equal(lk_dataset_property(base, property.key, &arena, &value, &found, &err), LK_OK);
    assert_false(found);
    assert_int_equal(value.size, 0);
    lk_arena_close(&arena);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- refusals ---------------------------------------------------------------------------------------- */

static lk_rc null_id_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    (void)batches;
    (void)err;
    struct ArrowSchema schema = {0};
    fixture_schema(&schema);
    memset(out, 0, sizeof *out);
    assert_int_equal(ArrowArrayInitFromSchema(out, &schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(out), NANOARROW_OK);
    assert_int_equal(ArrowArrayAppendNull(out->children[0], 1), NANOARROW_OK);
    assert_int_equal(ArrowArrayAppendString(out->children[1], ArrowCharView("x")), NANOARROW_OK);
    assert_int_equal(ArrowArrayFinishElement(out), NANOARROW_OK);
    assert_int_equal(ArrowArrayFinishBuildingDefault(out, NULL), NANOARROW_OK);
    lk_schema_release(&schema);
    return LK_OK;
}

static void a_null_where_none_may_be_is_refused_and_leaves_nothing(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    uint64_t        version = 0;
    must_create(&env);
    lk_dataset *base = must_open(&env, 0);
    lk_batches *rows = fixture_rows(0, 1, 1);
    rows->next = null_id_next;
    assert_int_equal(append(base, lk_direct_committer(), rows, NULL, &version, &err), LK_E_SCHEMA_MISMATCH);
    assert_non_null(strstr(err.detail, "id"));
    assert_int_equal(fixture_count(store, "data"), 0);
    assert_int_equal(fixture_count(store, "_transactions"), 1);
    assert_int_equal(fixture_count(store, "_versions"), 1);
    lk_dataset_unref(base);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void another_schema_is_refused_by_column(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    uint64_t        version = 0;
    must_create(&env);
    lk_dataset *base = must_open(&env, 0);
    lk_batches *rows = fixture_rows(0, 1, 1);
    assert_int_equal(ArrowSchemaSetName(rows->schema.children[1], "title"), NANOARROW_OK);
    assert_int_equal(append(base, lk_direct_committer(), rows, NULL, &version, &err), LK_E_SCHEMA_MISMATCH);
    assert_non_null(strstr(err.detail, "name"));
    lk_dataset_unref(base);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- others at the same time ------------------------------------------------------------------------- */

static void an_append_on_an_old_version_is_rebased(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    must_create(&env);
    lk_dataset *base = must_open(&env, 1);
    for (int64_t i = 0; i < 4; i++) {
        assert_int_equal(must_append(base, fixture_rows(i * 10, 10, 1), NULL), i + 2);
    }
    expect_rows(&env, 0, 40);
    lk_dataset_unref(base);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static lk_rc owned_commit(lk_committer *committer, lk_store *store, uint64_t version, lk_bytes final_key,
    lk_bytes manifest, bool *won, lk_err *err)
{
    (void)committer;
    return lk_direct_committer()->commit(
        lk_direct_committer(), store, version, final_key, manifest, won, err);
}

static void an_owned_table_is_never_rebased(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_committer    owned = {owned_commit, .stands_alone = false};
    lk_err          err = {0};
    uint64_t        version = 0;
    must_create(&env);
    lk_dataset *base = must_open(&env, 1);
    assert_int_equal(must_append(base, fixture_rows(0, 10, 1), NULL), 2);
    assert_int_equal(append(base, &owned, fixture_rows(10, 10, 1), NULL, &version, &err), LK_E_CONFLICT);
    assert_false(err.maybe_applied);
    assert_int_equal(fixture_count(store, "data"), 1);
    assert_int_equal(fixture_count(store, "_transactions"), 2);
    lk_dataset_unref(base);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* Appends the first `rows` rows that version `base` has to that version again, with versions up to `last`. */
static lk_rc append_to_golden(uint64_t base_version, uint64_t last, uint64_t *version, lk_err *err)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_batches     *rows = NULL;
    copy_golden("lifecycle_2.1", store, last);
    lk_dataset     *base = must_open(&env, base_version);
    lk_scan_options options = {.limit = 10};
    if (lk_dataset_scan(base, &options, &rows, err) != LK_OK) {
        fail_msg("scan: %s", err->context);
    }
    lk_rc rc = append(base, lk_direct_committer(), rows, NULL, version, err);
    if (rc == LK_OK) {
        lk_dataset *before = must_open(&env, *version - 1), *after = must_open(&env, *version);
        assert_int_equal(lk_dataset_row_count(after), lk_dataset_row_count(before) + 10);
        lk_dataset_unref(before);
        lk_dataset_unref(after);
    }
    lk_dataset_unref(base);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
    return rc;
}

static void an_append_goes_with_a_delete_and_with_new_columns(void **state)
{
    lk_err   err = {0};
    uint64_t version = 0;
    assert_int_equal(
        append_to_golden(1, 5, &version, &err), LK_OK); /* append, delete, y, z since version 1 */
    assert_int_equal(version, 6);
}

static void an_append_does_not_go_with_a_cast(void **state)
{
    lk_err   err = {0};
    uint64_t version = 0;
    assert_int_equal(append_to_golden(7, 8, &version, &err), LK_E_CONFLICT);
    assert_non_null(strstr(err.detail, "\"y\""));
}

static void an_append_does_not_go_with_a_restore(void **state)
{
    lk_err   err = {0};
    uint64_t version = 0;
    assert_int_equal(append_to_golden(12, 13, &version, &err), LK_E_CONFLICT);
    assert_non_null(strstr(err.detail, "restore"));
}

static void a_version_that_nobody_can_look_at_is_a_conflict(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_arena        arena = {0};
    lk_err          err = {0};
    uint64_t        version = 0;
    must_create(&env);
    lk_dataset *base = must_open(&env, 1);
    assert_int_equal(must_append(base, fixture_rows(0, 1, 1), NULL), 2);
    assert_int_equal(must_append(base, fixture_rows(1, 1, 1), NULL), 3);
    assert_int_equal(lk_store_remove(store, lk_manifest_key(2, LK_MANIFEST_V2, &arena), &err), LK_OK);
    assert_int_equal(
        append(base, lk_direct_committer(), fixture_rows(2, 1, 1), NULL, &version, &err), LK_E_CONFLICT);
    assert_non_null(strstr(err.detail, "version 2"));
    expect_rows(&env, 3, 2); /* and version 2 was not made again */
    assert_int_equal(fixture_count(store, "_versions"), 2);
    lk_arena_close(&arena);
    lk_dataset_unref(base);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- every store call fails in turn ------------------------------------------------------------------- */

static const lk_commit_property operation = {{"operation", 9}, {"42", 2}};

/* Whether the newest version is the operation's. */
static bool is_done(const lk_lance_env *env)
{
    lk_arena    arena = {0};
    lk_err      err = {0};
    lk_bytes    value = {0};
    bool        found = false;
    lk_dataset *latest = must_open(env, 0);
    assert_int_equal(lk_dataset_property(latest, operation.key, &arena, &value, &found, &err), LK_OK);
    lk_dataset_unref(latest);
    lk_arena_close(&arena);
    return found;
}

static size_t count_versions(const lk_lance_env *env)
{
    lk_arena  arena = {0};
    lk_err    err = {0};
    uint64_t *versions = NULL;
    size_t    count = 0;
    assert_int_equal(lk_dataset_versions(env, &arena, &versions, &count, &err), LK_OK);
    lk_arena_close(&arena);
    return count;
}

static lk_rc open_and_append(const lk_lance_env *env, lk_err *err)
{
    lk_write_options options = {.properties = &operation, .property_count = 1, .max_rows_per_file = 15};
    lk_dataset      *base = NULL;
    uint64_t         version = 0;
    lk_rc            rc = lk_dataset_open(env, 0, &base, err);
    if (rc == LK_OK) {
        rc = append(base, lk_direct_committer(), fixture_rows(10, 10, 2), &options, &version, err);
    }
    lk_dataset_unref(base);
    return rc;
}

static void round_of_append(fixture_faults *f)
{
    lk_err err = {0};
    must_create(&f->env);
    lk_dataset *first = must_open(&f->env, 0);
    assert_int_equal(must_append(first, fixture_rows(0, 10, 1), NULL), 2);
    lk_dataset_unref(first);
    fixture_arm(f);
    lk_rc rc = open_and_append(&f->faulty_env, &err);
    bool  failed = fixture_disarm(f, rc, &err);
    expect_rows(&f->env, 2, 10); /* whatever happened, the old version is whole */
    bool done = is_done(&f->env);
    if (failed) {
        assert_false(done);
        assert_int_equal(count_versions(&f->env), 2);
    }
    if (!done) {
        lk_err again = {0};
        assert_int_equal(open_and_append(&f->faulty_env, &again), LK_OK); /* the client's retry */
    }
    assert_true(is_done(&f->env));
    expect_rows(&f->env, 3, 30);
    if (failed && f->kind != LK_FAULT_TORN) {
        assert_int_equal(fixture_count(f->plain, "data"), 3); /* nothing of the failed try is left */
        assert_int_equal(fixture_count(f->plain, "_transactions"), 3);
    }
}

static void an_append_survives_a_fault_at_every_store_call(void **state)
{
    (void)state;
    fixture_every_call_fails(round_of_append, NULL, 10);
}

static void round_of_creation(fixture_faults *f)
{
    lk_err err = {0}, again = {0};
    fixture_arm(f);
    lk_rc rc = create(&f->faulty_env, &err);
    bool  failed = fixture_disarm(f, rc, &err);
    lk_rc retried = create(&f->faulty_env, &again);
    assert_true(retried == LK_OK || (retried == LK_E_TABLE_EXISTS && !failed));
    expect_rows(&f->env, 0, 0);
}

static void a_creation_survives_a_fault_at_every_store_call(void **state)
{
    (void)state;
    fixture_every_call_fails(round_of_creation, NULL, 2); /* list, transaction, manifest */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_table_is_empty_and_is_made_once),
        cmocka_unit_test(no_table_and_no_version_are_not_found),
        cmocka_unit_test(every_append_is_a_version_and_the_old_ones_stay),
        cmocka_unit_test(rows_are_cut_into_files_at_the_limit),
        cmocka_unit_test(the_transaction_keeps_its_properties),
        cmocka_unit_test(a_null_where_none_may_be_is_refused_and_leaves_nothing),
        cmocka_unit_test(another_schema_is_refused_by_column),
        cmocka_unit_test(an_append_on_an_old_version_is_rebased),
        cmocka_unit_test(an_owned_table_is_never_rebased),
        cmocka_unit_test(an_append_goes_with_a_delete_and_with_new_columns),
        cmocka_unit_test(an_append_does_not_go_with_a_cast),
        cmocka_unit_test(an_append_does_not_go_with_a_restore),
        cmocka_unit_test(a_version_that_nobody_can_look_at_is_a_conflict),
        cmocka_unit_test(an_append_survives_a_fault_at_every_store_call),
        cmocka_unit_test(a_creation_survives_a_fault_at_every_store_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
