/*
 * instance_test.c - an error that closes DuckDB for good ends the statement that met it, not the service:
 * the next statement gets a new engine, and results of the old one end cleanly.
 */
#include "sql/instance_priv.h"
#include "sql/table_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* A table function whose bind callback reports a fatal error: DuckDB then refuses everything. */
static void on_bind(duckdb_v2_function_bind_info_handle info,
    duckdb_v2_table_function_bind_info_handle result, duckdb_v2_context_handle context,
    duckdb_v2_error_info_handle *slot)
{
    (void)info;
    (void)result;
    (void)context;
    duckdb_v2_str text = lk_duck_str(LK_LITERAL("as the test asked"));
    (void)duckdb_v2_error_info_set_code(*slot, DUCKDB_V2_ERROR_RUNTIME_FATAL);
    (void)duckdb_v2_error_info_set_text(*slot, &text);
}

static void on_exec(duckdb_v2_table_function_exec_info_handle info, duckdb_v2_context_handle context,
    duckdb_v2_error_info_handle *slot)
{
    (void)info;
    (void)context;
    (void)slot;
}

static void on_global(duckdb_v2_table_function_init_global_info_handle info, duckdb_v2_context_handle context,
    duckdb_v2_error_info_handle *slot)
{
    (void)info;
    (void)context;
    (void)slot;
}

static void break_engine(lk_duck *duck)
{
    lk_err                          err = {0};
    duckdb_v2_connection_handle     connection = NULL;
    duckdb_v2_factory_handle        factory = NULL;
    duckdb_v2_table_function_handle function = NULL;
    duckdb_v2_sql_statement_handle  statement = NULL;
    duckdb_v2_result_handle         result = NULL;
    duckdb_v2_str                   name = lk_duck_str(LK_LITERAL("boom"));
    assert_int_equal(lk_duck_connect(duck, &connection, &err), LK_OK);
    assert_int_equal(duckdb_v2_connection_get_factory(connection, &factory, NULL), 0);
    assert_int_equal(duckdb_v2_table_function_create(factory, &function, NULL), 0);
    assert_int_equal(duckdb_v2_table_function_set_name(function, &name, NULL), 0);
    assert_int_equal(duckdb_v2_table_function_set_bind_callback(function, on_bind, NULL), 0);
    assert_int_equal(duckdb_v2_table_function_set_init_global_callback(function, on_global, NULL), 0);
    assert_int_equal(duckdb_v2_table_function_set_exec_callback(function, on_exec, NULL), 0);
    assert_int_equal(duckdb_v2_connection_register_table_function(connection, function, NULL), 0);
    assert_int_equal(lk_duck_parse(connection, "SELECT * FROM boom()", &statement, &err), LK_OK);
    assert_int_not_equal(duckdb_v2_statement_execute(connection, statement, NULL, NULL, 0, &result, NULL), 0);
    (void)duckdb_v2_table_function_destroy(&function);
    (void)duckdb_v2_sql_statement_destroy(&statement);
    (void)duckdb_v2_connection_destroy(&connection);
}

static void a_broken_engine_is_replaced(void **state)
{
    (void)state;
    lk_err      err = {0};
    sql_fixture f;
    sql_fixture_open(&f, 256 << 20, 256 << 20);
    lk_table_snapshot *table = table_plain(300000, 4096);
    lk_sql_statement  *statement = NULL;
    lk_batches        *open_result = NULL;
    struct ArrowArray  batch = {0};
    assert_int_equal(lk_sql_parse(f.sql, LK_LITERAL("SELECT id + 1, s FROM ns.t"), &statement, &err), LK_OK);
    const lk_sql_request request = {.statement = statement, .snapshots = &table};
    assert_int_equal(lk_sql_run(f.sql, &request, &open_result, &err), LK_OK);
    assert_int_equal(lk_batches_next(open_result, &batch, &err), LK_OK);
    lk_array_release(&batch);

    lk_instance *first = lk_sql_instance(f.sql);
    break_engine(first->duck);
    assert_false(lk_duck_answers(first->duck));

    /* One statement hears of it; the one after it has a new engine. */
    char *got = fixture_text(&f, "SELECT sum(id) + 0 FROM ns.t", &table, false, &err);
    assert_string_equal(got, "error INTERNAL: ");
    free(got);
    got = fixture_text(&f, "SELECT sum(id) + 0 FROM ns.t", &table, false, &err);
    assert_string_equal(got, "44999850000\n");
    free(got);
    assert_ptr_not_equal(lk_sql_instance(f.sql), first);

    /* What the old one had begun may end either way, but it ends. */
    lk_rc rc = LK_OK;
    do {
        rc = lk_batches_next(open_result, &batch, &err);
        bool more = rc == LK_OK && batch.release != NULL;
        lk_array_release(&batch);
        if (!more) {
            break;
        }
    } while (true);
    assert_true(rc == LK_OK || rc == LK_E_INTERNAL);
    lk_batches_close(open_result);
    lk_sql_statement_unref(statement);
    lk_table_snapshot_unref(table);
    sql_fixture_close(&f);
}

static void an_engine_that_still_answers_is_kept(void **state)
{
    (void)state;
    lk_err      err = {0};
    sql_fixture f;
    sql_fixture_open(&f, 256 << 20, 256 << 20);
    assert_int_equal(lk_sql_warm(f.sql, &err), LK_OK);
    lk_instance *first = lk_sql_instance(f.sql);
    atomic_store(&first->duck->suspect, true);
    assert_int_equal(lk_sql_warm(f.sql, &err), LK_OK);
    assert_ptr_equal(lk_sql_instance(f.sql), first);
    assert_false(atomic_load(&first->duck->suspect));
    sql_fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_engine_is_replaced),
        cmocka_unit_test(an_engine_that_still_answers_is_kept),
    };
    return cmocka_run_group_tests_name("sql instance", tests, NULL, NULL);
}
