/*
 * duck_test.c - the sandbox without the gate before it: what the engine itself refuses once it is locked,
 * and how its errors are read. The statements go straight to the engine.
 */
#include "sql/duck_priv.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

static char     directory[] = "/tmp/lake-duck-test-XXXXXX";
static lk_duck *duck;

static lk_rc no_functions(duckdb_v2_connection_handle connection, void *context, lk_err *err)
{
    (void)connection;
    (void)context;
    (void)err;
    return LK_OK;
}

static int set_up(void **state)
{
    (void)state;
    lk_err err = {0};
    char   spill[64];
    assert_non_null(mkdtemp(directory));
    (void)snprintf(spill, sizeof spill, "%s/spill", directory);
    assert_int_equal(mkdir(spill, 0700), 0);
    const lk_duck_options options = {
        .spill_path = spill, .memory_bytes = 256 << 20, .spill_bytes = 64 << 20, .thread_count = 2};
    assert_int_equal(lk_duck_open(&duck, &options, no_functions, NULL, &err), LK_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lk_err err = {0};
    lk_duck_close(duck);
    return lk_directory_remove(directory, &err) == LK_OK ? 0 : 1;
}

/* Runs a text on a connection of its own to its end. */
static lk_rc run(const char *text, lk_err *err)
{
    duckdb_v2_connection_handle    connection = NULL;
    duckdb_v2_sql_statement_handle statement = NULL;
    duckdb_v2_result_handle        result = NULL;
    duckdb_v2_error_info_handle    info = NULL;
    assert_int_equal(lk_duck_connect(duck, &connection, err), LK_OK);
    lk_rc rc = lk_duck_parse(connection, text, &statement, err);
    if (rc == LK_OK) {
        DUCKDB_V2_ERROR code =
            duckdb_v2_statement_execute(connection, statement, NULL, NULL, 0, &result, &info);
        for (bool more = code == DUCKDB_V2_ERROR_NONE; more;) {
            duckdb_v2_data_chunk_handle chunk = NULL;
            code = duckdb_v2_result_fetch_chunk(result, &chunk, &info);
            more = code == DUCKDB_V2_ERROR_NONE && chunk != NULL;
            (void)duckdb_v2_data_chunk_destroy(&chunk);
        }
        rc = code == DUCKDB_V2_ERROR_NONE ? LK_OK : lk_duck_fail(err, LK_DUCK_RUNNING, code, &info, "run");
    }
    (void)duckdb_v2_result_destroy(&result);
    (void)duckdb_v2_sql_statement_destroy(&statement);
    (void)duckdb_v2_connection_destroy(&connection);
    return rc;
}

static void no_file_can_be_opened(void **state)
{
    (void)state;
    static const char *const texts[] = {"SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM read_blob('/proc/self/environ')",
        "SELECT * FROM '/etc/passwd'", "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_json('/etc/passwd')", "SELECT * FROM read_parquet('/tmp/x.parquet')",
        "SELECT * FROM sniff_csv('/etc/passwd')", "SELECT * FROM read_csv('http://127.0.0.1:1/x.csv')",
        "SELECT * FROM read_csv('s3://b/k.csv')", "COPY (SELECT 1) TO '/tmp/lake-evil.csv'",
        "ATTACH '/tmp/lake-evil.db' AS e", "EXPORT DATABASE '/tmp/lake-evil'",
        "LOAD '/tmp/x.duckdb_extension'", "INSTALL httpfs", "LOAD httpfs"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lk_err err = {0};
        if (run(texts[i], &err) == LK_OK) {
            fail_msg("ran: %s", texts[i]);
        }
    }
}

static void no_setting_can_be_changed(void **state)
{
    (void)state;
    static const char *const texts[] = {"SET GLOBAL enable_external_access = true",
        "SET enable_external_access = true", "SET memory_limit = '100GB'", "SET GLOBAL threads = 64",
        "SET GLOBAL lock_configuration = false", "SET lock_configuration = false", "RESET lock_configuration",
        "SET GLOBAL allowed_directories = ['/']", "SET temp_directory = '/tmp'",
        "SET TimeZone = 'America/New_York'", "SET GLOBAL max_temp_directory_size = '1TB'",
        "PRAGMA enable_profiling", "SET GLOBAL enable_logging = true"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lk_err err = {0};
        if (run(texts[i], &err) == LK_OK) {
            fail_msg("ran: %s", texts[i]);
        }
    }
}

static void errors_are_read_by_kind(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        lk_rc       rc;
        const char *detail;
    } rows[] = {
        {"SELECT 'x'::INT", LK_E_EXECUTION, "Could not convert string 'x' to INT32"},
        {"SELECT 1 FROM no_table", LK_E_EXECUTION, "Table with name no_table does not exist!"},
        {"SELEC", LK_E_INVALID_SQL, "syntax error"},
        {"SELECT (SELECT i FROM range(2) t(i))", LK_E_EXECUTION, "More than one row returned by a subquery"},
        {"SELECT 9223372036854775807 + i FROM range(1, 3) t(i)", LK_E_EXECUTION, "Overflow in addition"},
        {"SELECT len(list(repeat('x', 1000000) || i)) FROM range(2000) t(i)", LK_E_QUERY_MEMORY, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lk_err err = {0};
        lk_rc  rc = run(rows[i].text, &err);
        if (rc != rows[i].rc || strncmp(err.detail, rows[i].detail, strlen(rows[i].detail)) != 0) {
            fail_msg("%s: %s, %s (%s)", rows[i].text, lk_rc_name(rc), err.detail, err.context);
        }
        assert_null(strstr(err.detail, "LINE 1"));
    }
}

static void a_tree_turns_back_into_its_text(void **state)
{
    (void)state;
    static const char *const texts[] = {"SELECT a, b AS c FROM t WHERE ((a > 1) AND (b = 'it''s'))",
        "SELECT sum(x) FROM a AS v(x) GROUP BY ALL ORDER BY 1 DESC LIMIT 5", "SELECT $1, $2"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lk_err err = {0};
        lk_buf tree = {0}, text = {0};
        assert_int_equal(lk_duck_serialize(duck, lk_bytes_of(texts[i]), &tree, &err), LK_OK);
        assert_int_equal(lk_duck_deserialize(duck, lk_buf_view(&tree), &text, &err), LK_OK);
        assert_string_equal(text.data, texts[i]);
        lk_buf_deinit(&tree);
        lk_buf_deinit(&text);
    }
}

static void a_broken_tree_is_an_error(void **state)
{
    (void)state;
    static const char *const trees[] = {"", "{", "[]", "{}", "{\"statements\":[]}", "{\"statements\":[{}]}",
        "{\"error\":false,\"statements\":[{\"node\":{\"type\":\"NO_NODE\"}}]}"};
    for (size_t i = 0; i < sizeof trees / sizeof trees[0]; i++) {
        lk_err err = {0};
        lk_buf text = {0};
        assert_int_not_equal(lk_duck_deserialize(duck, lk_bytes_of(trees[i]), &text, &err), LK_OK);
        lk_buf_deinit(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_file_can_be_opened),
        cmocka_unit_test(no_setting_can_be_changed),
        cmocka_unit_test(errors_are_read_by_kind),
        cmocka_unit_test(a_tree_turns_back_into_its_text),
        cmocka_unit_test(a_broken_tree_is_an_error),
    };
    return cmocka_run_group_tests_name("sql engine", tests, set_up, tear_down);
}
