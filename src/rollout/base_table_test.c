/* base_table_test.c - tables of rollout stores: made, raced for, opened as others have them; rows brought to their columns. */
#include "rollout/base_table.h"

#include "arrow/schema.h"
#include "base/file.h"
#include "io/local.h"
#include "lance/mem_wal.h"
#include "rollout/records_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char         root[64];
static lk_store    *store;
static lk_lance_env env;

static int open_root(void **state)
{
    lk_err err = {0};
    (void)snprintf(root, sizeof root, "%s/lake-base-XXXXXX", P_tmpdir);
    env = (lk_lance_env){.clock = lk_clock_real(), .random = lk_random_os()};
    if (mkdtemp(root) == NULL || lk_local_store_open(&store, lk_bytes_of(root), false, &err) != LK_OK) {
        return -1;
    }
    env.store = store;
    return 0;
}

static int close_root(void **state)
{
    lk_err err = {0};
    lk_store_close(store);
    return lk_directory_remove(root, &err) == LK_OK ? 0 : -1;
}

static void a_new_table_has_its_index_in_version_2(void **state)
{
    lk_err      err = {0};
    lk_dataset *table = NULL, *again = NULL;
    bool        found = false;
    assert_int_equal(lk_base_table_open(&env, &table, &err), LK_E_NOT_FOUND);
    err = (lk_err){0};
    assert_int_equal(lk_base_table_create(&env, true, &table, &err), LK_OK);
    assert_int_equal(lk_dataset_version(table), 2);
    assert_int_equal(lk_dataset_schema(table)->n_children, 36);
    assert_int_equal(lk_mem_wal_found(table, &found, &err), LK_OK);
    assert_true(found);
    assert_int_equal(lk_base_table_create(&env, true, &again, &err), LK_E_TABLE_EXISTS);
    err = (lk_err){0};
    assert_int_equal(lk_base_table_open(&env, &again, &err), LK_OK);
    assert_int_equal(lk_base_table_index(&again, &err), LK_OK); /* there is one */
    assert_int_equal(lk_dataset_version(again), 2);
    lk_dataset_unref(table);
    lk_dataset_unref(again);
}

static void an_index_that_another_made_meanwhile_is_as_good(void **state)
{
    lk_err             err = {0};
    struct ArrowSchema schema = {0};
    lk_dataset        *first = NULL, *second = NULL;
    lk_record_schema(false, &schema);
    assert_int_equal(lk_dataset_create(&env, lk_direct_committer(), &schema, NULL, &first, &err), LK_OK);
    second = lk_dataset_ref(first);
    assert_int_equal(lk_base_table_index(&first, &err), LK_OK);
    assert_int_equal(lk_base_table_index(&second, &err), LK_OK);
    assert_int_equal(lk_dataset_version(second), 2);
    lk_dataset_unref(first);
    lk_dataset_unref(second);
    lk_schema_release(&schema);
}

static void create(const lk_bytes *columns, size_t count)
{
    lk_err             err = {0};
    struct ArrowSchema schema = {0};
    lk_dataset        *table = NULL;
    assert_int_equal(lk_columns_parse(columns, count, &schema, &err), LK_OK);
    assert_int_equal(lk_dataset_create(&env, lk_direct_committer(), &schema, NULL, &table, &err), LK_OK);
    lk_dataset_unref(table);
    lk_schema_release(&schema);
}

static void what_is_no_rollout_store_is_named(void **state)
{
    const lk_bytes columns[] = {LK_LITERAL("id:utf8"), LK_LITERAL("rollout_id:int64")};
    lk_err         err = {0};
    lk_dataset    *table = NULL;
    create(columns, 2);
    assert_int_equal(lk_base_table_open(&env, &table, &err), LK_E_UNSUPPORTED_FORMAT);
    assert_string_equal(err.detail, "this is no rollout store: column rollout_id has another type");
}

static struct ArrowArray one_record(const char *json)
{
    lk_err            err = {0};
    lk_records       *records = NULL;
    struct ArrowArray batch = {0};
    assert_int_equal(lk_records_open(1, NULL, &records, &err), LK_OK);
    assert_int_equal(lk_records_read_ndjson(records, lk_bytes_of(json), &err), LK_OK);
    assert_int_equal(lk_records_finish(records, false, &batch, &err), LK_OK);
    lk_records_close(records);
    return batch;
}

static lk_rc align(const struct ArrowSchema *table, const char *json, struct ArrowArray *out, lk_err *err)
{
    struct ArrowSchema schema = {0};
    struct ArrowArray  batch = one_record(json);
    lk_shared_array   *shared = lk_array_share(&batch);
    lk_record_schema(true, &schema);
    lk_rc rc = lk_base_table_align(table, &schema, shared, out, err);
    lk_shared_array_unref(shared);
    lk_schema_release(&schema);
    return rc;
}

static void rows_take_the_tables_columns(void **state)
{
    const lk_bytes     columns[] = {LK_LITERAL("more:int64?"), LK_LITERAL("role:dictionary<int8,utf8>"),
            LK_LITERAL("rollout_id:utf8"), LK_LITERAL("id:utf8")};
    lk_err             err = {0};
    struct ArrowSchema table = {0};
    struct ArrowArray  out = {0};
    lk_buf             text = {0};
    assert_int_equal(lk_columns_parse(columns, 4, &table, &err), LK_OK);
    assert_int_equal(lk_base_table_writable(&table, &err), LK_OK);
    /* A table without problem_id and the like cannot keep what records always have. */
    assert_int_equal(align(&table, "{\"id\":\"a\",\"rollout_id\":\"r\"}", &out, &err), LK_E_SCHEMA_MISMATCH);
    lk_schema_release(&table);

    lk_record_schema(false, &table);
    err = (lk_err){0};
    assert_int_equal(
        align(&table, "{\"id\":\"a\",\"rollout_id\":\"r\",\"role\":\"tool\",\"score\":2}", &out, &err),
        LK_OK);
    assert_int_equal(out.n_children, 31);
    assert_int_equal(lk_array_validate(&table, &out, &err), LK_OK);
    lk_record_write_json(&table, &out, 0, &text);
    assert_string_equal(text.data,
        "{\"id\":\"a\",\"rollout_id\":\"r\",\"problem_id\":\"r\",\"sequence_order\":0,\"role\":\"tool\","
        "\"created_at\":\"1970-01-01T00:00:00.000001Z\",\"content_type\":\"text/plain\",\"score\":2.0}");
    lk_array_release(&out);
    assert_int_equal(align(&table, "{\"id\":\"a\",\"rollout_id\":\"r\",\"rationale\":\"x\"}", &out, &err),
        LK_E_SCHEMA_MISMATCH);
    assert_string_equal(err.detail, "this store has no column rationale");
    lk_buf_deinit(&text);
    lk_schema_release(&table);
}

static void a_column_that_records_lack_and_that_must_be_there_makes_a_table_read_only(void **state)
{
    const lk_bytes columns[] = {
        LK_LITERAL("id:utf8"), LK_LITERAL("rollout_id:utf8"), LK_LITERAL("tenant:utf8")};
    lk_err      err = {0};
    lk_dataset *table = NULL;
    create(columns, 3);
    assert_int_equal(lk_base_table_open(&env, &table, &err), LK_OK);
    assert_int_equal(lk_base_table_writable(lk_dataset_schema(table), &err), LK_E_UNSUPPORTED_FORMAT);
    assert_non_null(strstr(err.detail, "column tenant"));
    lk_dataset_unref(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_table_has_its_index_in_version_2, open_root, close_root),
        cmocka_unit_test_setup_teardown(
            an_index_that_another_made_meanwhile_is_as_good, open_root, close_root),
        cmocka_unit_test_setup_teardown(what_is_no_rollout_store_is_named, open_root, close_root),
        cmocka_unit_test(rows_take_the_tables_columns),
        cmocka_unit_test_setup_teardown(
            a_column_that_records_lack_and_that_must_be_there_makes_a_table_read_only, open_root, close_root),
    };
    return cmocka_run_group_tests_name("base_table", tests, NULL, NULL);
}
