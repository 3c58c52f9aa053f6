/* gate_test.c - what passes the gate and what does not, with which code. */
#include "sql/table_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static sql_fixture fixture;

static int set_up(void **state)
{
    (void)state;
    sql_fixture_open(&fixture, 256 << 20, 256 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sql_fixture_close(&fixture);
    return 0;
}

static void expect(const char *text, lk_rc expected)
{
    lk_err            err = {0};
    lk_sql_statement *statement = NULL;
    lk_rc             rc = lk_sql_parse(fixture.sql, lk_bytes_of(text), &statement, &err);
    if (rc != expected) {
        fail_msg("%s\n  gave %s (%s | %s), not %s", text, rc == LK_OK ? "OK" : lk_rc_name(rc), err.context,
            err.detail, expected == LK_OK ? "OK" : lk_rc_name(expected));
    }
    lk_sql_statement_unref(statement);
}

static void reading_statements_pass(void **state)
{
    (void)state;
    static const char *const texts[] = {"SELECT 1", "select 1;", "SELECT 1;;;", "VALUES (1), (2)",
        "FROM ns.t", "TABLE ns.t", "SELECT * FROM lake.ns.t", "EXPLAIN SELECT * FROM ns.t",
        "EXPLAIN ANALYZE SELECT 1", "explain /* c */ analyze -- d\n select 1",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
        "SELECT * FROM range(5), unnest([1, 2]), generate_series(1, 3)", "SHOW TABLES", "SHOW TABLES FROM ns",
        "SHOW DATABASES", "DESCRIBE ns.t", "DESCRIBE SELECT 1", "SUMMARIZE ns.t", "SHOW ns.t",
        "SELECT * FROM information_schema.tables", "SELECT * FROM lake.information_schema.columns",
        "SELECT row_number() OVER (PARTITION BY a ORDER BY b) FROM ns.t",
        "SELECT list_transform([1, 2], lambda x: x + 1), {'a': 1}.a, [1, 2][1], x::INT FROM ns.t",
        "SELECT * FROM ns.t AT (VERSION => 3)", "SELECT * FROM ns.t AS a AT (VERSION => 3)",
        "SELECT * FROM ns.t AT (REVISION => 'abc:3')", "SELECT ns.t.a, lake.ns.t.b FROM ns.t",
        "SELECT * FROM ns.t PIVOT (sum(a) FOR b IN (1, 2))", "SELECT repeat('x', 100), lpad('x', 10, 'y')",
        "SELECT unnest(range(10)), generate_series(0, 5, 1)",
        "SELECT repeat('x', 10000), lpad('a', 20), rpad('b', -3)",
        "SELECT count(*) FILTER (WHERE a > 1) FROM ns.t",
        "SELECT a FROM ns.t UNION ALL SELECT b FROM ns.u ORDER BY 1 LIMIT 3",
        "SELECT 'read_csv(''/etc/passwd'')'", "SELECT \"read_csv\" FROM ns.t", "SELECT 1 -- ; DROP TABLE x",
        "SELECT * FROM ns.t TABLESAMPLE 10%", "SELECT * FROM ns.t WHERE a IN (SELECT b FROM ns.u)",
        "SELECT current_date, now(), version(), random()"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect(texts[i], LK_OK);
    }
}

static void changing_statements_are_refused_by_kind(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        lk_rc       rc;
    } rows[] = {
        {"INSERT INTO ns.t VALUES (1)", LK_E_DML},
        {"UPDATE ns.t SET a = 1", LK_E_DML},
        {"DELETE FROM ns.t", LK_E_DML},
        {"COPY ns.t TO '/tmp/x.csv'", LK_E_DML},
        {"COPY (SELECT 1) TO '/tmp/x.csv'", LK_E_DML},
        {"COPY ns.t FROM '/etc/passwd'", LK_E_DML},
        {"MERGE INTO ns.t USING ns.u ON t.a = u.a WHEN MATCHED THEN DELETE", LK_E_DML},
        {"WITH x AS (INSERT INTO ns.t VALUES (1) RETURNING *) SELECT * FROM x", LK_E_DML},
        {"CREATE TABLE x (a INT)", LK_E_DDL},
        {"CREATE TABLE x AS SELECT 1", LK_E_DDL},
        {"CREATE VIEW v AS SELECT 1", LK_E_DDL},
        {"CREATE MACRO m(a) AS a", LK_E_DDL},
        {"CREATE SECRET (TYPE s3)", LK_E_DDL},
        {"DROP TABLE ns.t", LK_E_DDL},
        {"ALTER TABLE ns.t ADD COLUMN b INT", LK_E_DDL},
        {"CREATE SCHEMA s", LK_E_DDL},
        {"CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION 's3://u/p/'", LK_E_DDL},
        {"TRUNCATE ns.t", LK_E_DML},
        {"SET memory_limit = '1GB'", LK_E_STATEMENT},
        {"SET VARIABLE x = 1", LK_E_STATEMENT},
        {"RESET memory_limit", LK_E_STATEMENT},
        {"EXPLAIN EXPLAIN SELECT 1", LK_E_STATEMENT},
        {"PRAGMA version", LK_E_STATEMENT},
        {"PRAGMA database_list", LK_E_STATEMENT},
        {"ATTACH '/tmp/x.db' AS x", LK_E_STATEMENT},
        {"ATTACH ':memory:' AS x", LK_E_STATEMENT},
        {"DETACH memory", LK_E_STATEMENT},
        {"USE memory", LK_E_STATEMENT},
        {"INSTALL httpfs", LK_E_STATEMENT},
        {"LOAD httpfs", LK_E_STATEMENT},
        {"BEGIN", LK_E_STATEMENT},
        {"COMMIT", LK_E_STATEMENT},
        {"CHECKPOINT", LK_E_STATEMENT},
        {"EXPORT DATABASE '/tmp/x'", LK_E_STATEMENT},
        {"IMPORT DATABASE '/tmp/x'", LK_E_STATEMENT},
        {"CALL pragma_version()", LK_E_STATEMENT},
        {"PREPARE p AS SELECT 1", LK_E_STATEMENT},
        {"EXECUTE p", LK_E_STATEMENT},
        {"VACUUM", LK_E_STATEMENT},
        {"ANALYZE", LK_E_STATEMENT},
        {"EXPLAIN INSERT INTO ns.t VALUES (1)", LK_E_DML},
        {"EXPLAIN ANALYZE DELETE FROM ns.t", LK_E_DML},
        {"EXPLAIN COPY ns.t TO 'x'", LK_E_DML},
        {"EXPLAIN CREATE TABLE x (a INT)", LK_E_DDL},
        {"SHOW ALL TABLES", LK_E_STATEMENT},
        {"PIVOT ns.t ON s USING sum(x)", LK_E_STATEMENT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect(rows[i].text, rows[i].rc);
    }
}

static void broken_texts_are_invalid(void **state)
{
    (void)state;
    static const char *const texts[] = {"", " ", ";", "-- only a comment", "SELEC 1", "SELECT",
        "SELECT 1; SELECT 2", "SELECT 1; DROP TABLE ns.t", "SELECT 'open", "SELECT (1", "SELECT 1 FROM",
        "EXPLAIN", "SELECT * INTO x FROM ns.t", "SELECT \xff", "EXPLAIN SELECT 1; SELECT 2"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect(texts[i], LK_E_INVALID_SQL);
    }
}

static void functions_pass_by_name_only(void **state)
{
    (void)state;
    static const char *const texts[] = {"SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM read_blob('/etc/passwd')",
        "SELECT * FROM read_parquet('s3://b/k')", "SELECT * FROM read_json_auto('x')",
        "SELECT * FROM glob('/*')", "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM parquet_metadata('x')", "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM query_table('x')", "SELECT * FROM json_execute_serialized_sql('{}')",
        "SELECT * FROM duckdb_settings()", "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM duckdb_functions()", "SELECT * FROM duckdb_temporary_files()",
        "SELECT * FROM pragma_database_list()", "SELECT * FROM seq_scan('x')",
        "SELECT * FROM lake_scan(1, 0)", "SELECT * FROM which_secret('s3://x', 's3')",
        "SELECT * FROM test_all_types()", "SELECT getenv('HOME')", "SELECT getvariable('x')",
        "SELECT current_setting('temp_directory')", "SELECT sleep_ms(10)", "SELECT write_log('x')",
        "SELECT nextval('s')", "SELECT setseed(0.5)", "SELECT json_serialize_sql('SELECT 1')",
        "SELECT json_deserialize_sql('{}')", "SELECT pg_sleep(1)", "SELECT current_query()",
        "SELECT txid_current()", "SELECT no_such_function(1)", "SELECT system.main.abs(1)",
        "SELECT main.read_text('/etc/passwd')", "SELECT (SELECT max(getenv('x')) FROM ns.t)",
        "SELECT 1 ORDER BY getenv('x')", "SELECT 1 WHERE EXISTS (SELECT * FROM read_csv('x'))",
        "WITH a AS (SELECT getenv('x')) SELECT * FROM a", "SELECT sum(getvariable('x')) OVER () FROM ns.t",
        "SELECT list_transform([1], lambda x: getenv('y'))", "SELECT nextval('s') OVER () FROM ns.t",
        "SELECT * FROM range(getvariable('x'))", "SELECT list_sum(range(300000000))",
        "SELECT repeat('x', 2000000000)", "SELECT repeat('x', a) FROM ns.t", "SELECT range(a) FROM ns.t",
        "SELECT repeat(repeat('x', 10000), 10000)",
        "SELECT list_transform(range(10000), lambda x: repeat('x', 10000))", "SELECT repeat('x', 10001)",
        "SELECT lpad(count := 1000000, string := 5, \"character\" := 'y')",
        "SELECT lpad('x', 100000000, 'y')", "SELECT * FROM ns.t AT (TIMESTAMP => 'x')",
        "SELECT * FROM ns.t AT (VERSION => 0)", "SELECT * FROM ns.t AT (REVISION => 'x')"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect(texts[i], LK_E_PLANNING);
    }
}

static void names_outside_the_catalog_are_denied(void **state)
{
    (void)state;
    static const char *const texts[] = {"SELECT * FROM t", "SELECT * FROM other.ns.t",
        "SELECT * FROM iceberg.ns.t", "SELECT * FROM '/etc/passwd'", "SELECT * FROM 'x.parquet'",
        "FROM 'http://127.0.0.1/x.csv'", "SELECT * FROM duckdb_tables", "SELECT * FROM sqlite_master",
        "SELECT * FROM information_schema.views", "SELECT * FROM \"lake:0\"",
        "SELECT * FROM memory.information_schema.tables", "WITH a AS (SELECT * FROM a) SELECT * FROM a",
        "SELECT * FROM (WITH a AS (SELECT 1) SELECT 1) x, a", "SELECT (SELECT 1 FROM t) FROM ns.t",
        "SELECT * FROM ns.t JOIN t ON true"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect(texts[i], LK_E_DENIED);
    }
}

static char *repeated(const char *before, const char *part, size_t count, const char *after)
{
    lk_buf out = {0};
    lk_buf_append_text(&out, before);
    for (size_t i = 0; i < count; i++) {
        lk_buf_append_text(&out, part);
    }
    lk_buf_append_text(&out, after);
    return out.data;
}

static void expect_repeated(
    const char *before, const char *part, size_t count, const char *after, lk_rc expected)
{
    char             *text = repeated(before, part, count, after);
    lk_err            err = {0};
    lk_sql_statement *statement = NULL;
    lk_rc             rc = lk_sql_parse(fixture.sql, lk_bytes_of(text), &statement, &err);
    if (rc != expected) {
        fail_msg("%s x %zu gave %s %s", part, count, lk_rc_name(rc), err.detail);
    }
    lk_sql_statement_unref(statement);
    free(text);
}

static void limits_hold(void **state)
{
    (void)state;
    expect_repeated("SELECT ", "(", 129, "", LK_E_INVALID_SQL);
    expect_repeated("SELECT ", "[", 200000, "", LK_E_INVALID_SQL);
    expect_repeated("SELECT ", "- ", 200000, "1", LK_E_INVALID_SQL);
    expect_repeated("SELECT ", "NOT ", 5000, "true", LK_E_INVALID_SQL);
    expect_repeated("SELECT 1", " + 1", 5000, "", LK_E_INVALID_SQL);
    expect_repeated("SELECT 1 IN (0", ", 1", 65535, ")", LK_OK);
    expect_repeated("SELECT true", " OR a = 1", 9000, " FROM ns.t", LK_E_INVALID_SQL);
    expect_repeated("SELECT ", "x", 257, " FROM ns.t", LK_E_INVALID_SQL);
    expect_repeated("SELECT ", "x", 256, " FROM ns.t", LK_OK);
    expect_repeated("SELECT '", "x", 1024 * 1024, "'", LK_E_SQL_TOO_LARGE);
}

static void sixty_four_tables_are_the_most(void **state)
{
    (void)state;
    for (int count = 64; count <= 65; count++) {
        lk_buf text = {0};
        lk_buf_append_text(&text, "SELECT 1 FROM ns.t0");
        for (int i = 1; i < count; i++) {
            lk_buf_format(&text, ", ns.t%d", i);
        }
        lk_buf_append_text(&text, ", ns.t0 AS again");
        expect(text.data, count == 64 ? LK_OK : LK_E_TOO_MANY_TABLES);
        lk_buf_deinit(&text);
    }
}

static void tables_are_listed_once_each_in_order(void **state)
{
    (void)state;
    lk_err            err = {0};
    lk_sql_statement *statement = NULL;
    const char       *text =
        "WITH t AS (SELECT * FROM a.\"x y\"), u AS (SELECT * FROM t) SELECT * FROM u, lake.b.\"q\"\"z\" "
        "AT (VERSION => 7), b.\"q\"\"z\" AS v WHERE EXISTS (SELECT 1 FROM b.\"q\"\"z\" AS w "
        "AT (REVISION => 'in-carnation:12')) AND 1 IN (SELECT 1 FROM a.\"x y\")";
    assert_int_equal(lk_sql_parse(fixture.sql, lk_bytes_of(text), &statement, &err), LK_OK);
    size_t              count = 0;
    const lk_sql_table *tables = lk_sql_statement_tables(statement, &count);
    assert_int_equal(count, 4);
    static const struct {
        const char *ns, *name;
        lk_sql_when when;
        uint64_t    version;
        const char *incarnation;
    } rows[] = {{"a", "x y", LK_SQL_CURRENT, 0, ""}, {"b", "q\"z", LK_SQL_VERSION, 7, ""},
        {"b", "q\"z", LK_SQL_CURRENT, 0, ""}, {"b", "q\"z", LK_SQL_REVISION, 12, "in-carnation"}};
    for (size_t i = 0; i < count; i++) {
        assert_true(lk_bytes_equal(tables[i].table.ns, lk_bytes_of(rows[i].ns)));
        assert_true(lk_bytes_equal(tables[i].table.name, lk_bytes_of(rows[i].name)));
        assert_int_equal(tables[i].when, rows[i].when);
        assert_int_equal(tables[i].version, rows[i].version);
        assert_true(lk_bytes_equal(tables[i].incarnation, lk_bytes_of(rows[i].incarnation)));
    }
    assert_false(lk_sql_statement_lists(statement));
    lk_sql_statement_unref(statement);
}

static void a_text_is_parsed_once(void **state)
{
    (void)state;
    lk_err            err = {0};
    lk_sql_statement *a = NULL, *b = NULL;
    assert_int_equal(lk_sql_parse(fixture.sql, LK_LITERAL("SELECT 1 FROM q.q"), &a, &err), LK_OK);
    assert_int_equal(lk_sql_parse(fixture.sql, LK_LITERAL("SELECT 1 FROM q.q"), &b, &err), LK_OK);
    assert_ptr_equal(a, b);
    lk_sql_statement_unref(a);
    lk_sql_statement_unref(b);
}

static void parameters_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t      count;
    } rows[] = {{"SELECT 1", 0}, {"SELECT ?", 1}, {"SELECT ?, ? + 1", 2}, {"SELECT $2, $1, $1", 2},
        {"SELECT $a, $b", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lk_err            err = {0};
        lk_sql_statement *statement = NULL;
        assert_int_equal(lk_sql_parse(fixture.sql, lk_bytes_of(rows[i].text), &statement, &err), LK_OK);
        assert_int_equal(lk_sql_statement_parameter_count(statement), rows[i].count);
        lk_sql_statement_unref(statement);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_statements_pass),
        cmocka_unit_test(changing_statements_are_refused_by_kind),
        cmocka_unit_test(broken_texts_are_invalid),
        cmocka_unit_test(functions_pass_by_name_only),
        cmocka_unit_test(names_outside_the_catalog_are_denied),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(sixty_four_tables_are_the_most),
        cmocka_unit_test(tables_are_listed_once_each_in_order),
        cmocka_unit_test(a_text_is_parsed_once),
        cmocka_unit_test(parameters_are_counted),
    };
    return cmocka_run_group_tests_name("sql gate", tests, set_up, tear_down);
}
