/* run_test.c - statements run by the engine: names, types that come back, listings, errors. Expected
 * values follow from the table's definition (row i has id i) or from SQL itself. */
#include "sql/table_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static sql_fixture        fixture;
static lk_table_snapshot *plain, *standard;

static int set_up(void **state)
{
    (void)state;
    sql_fixture_open(&fixture, 256 << 20, 256 << 20);
    plain = table_plain(10000, 1024);
    standard = table_standard(1000, 128, 7);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lk_table_snapshot_unref(plain);
    lk_table_snapshot_unref(standard);
    sql_fixture_close(&fixture);
    return 0;
}

/* Both tables of a statement are the plain one. */
static void expect(const char *text, const char *expected)
{
    lk_err             err = {0};
    lk_table_snapshot *tables[] = {plain, plain, plain};
    char              *got = fixture_text(&fixture, text, tables, false, &err);
    if (strcmp(got, expected) != 0) {
        fail_msg("%s\n  gave\n%s(%s)\n  not\n%s", text, got, err.context, expected);
    }
    free(got);
}

static void names_resolve_as_in_sql(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"SELECT count(*), sum(id), min(s) FROM ns.t", "10000|49995000|key-00000000----\n"},
        {"SELECT ns.t.id FROM ns.t WHERE ns.t.id = 7 ORDER BY lake.ns.t.id", "7\n"},
        {"SELECT lake.ns.t.id + 1 FROM lake.ns.t WHERE t.id = 7", "8\n"},
        {"SELECT a.id, b.id FROM ns.t a JOIN ns.t b ON a.id = b.id + 9998 ORDER BY 1", "9998|0\n9999|1\n"},
        {"SELECT a.t.id, b.t.id FROM a.t, b.t WHERE a.t.id = 3 AND b.t.id = 4", "3|4\n"},
        {"SELECT x.k FROM ns.t AS x(k) WHERE k = 5 ORDER BY k", "5\n"},
        {"WITH t AS (SELECT 1 AS id) SELECT t.id FROM t", "1\n"},
        {"WITH T AS (SELECT 1 AS id) SELECT t.id + 0 FROM t", "1\n"},
        {"SELECT (SELECT max(id) FROM b.u WHERE b.u.id < a.t.id) FROM a.t WHERE id = 9 ORDER BY 1", "8\n"},
        {"SELECT (SELECT max(id) FROM b.t WHERE b.t.id < 3) FROM a.t WHERE a.t.id = 9 ORDER BY 1", "2\n"},
        {"SELECT count(*) FROM ns.t WHERE EXISTS (SELECT 1 FROM ns.u WHERE u.id = ns.t.id AND u.id < 5)",
            "5\n"},
        {"SELECT id FROM (SELECT ns.t.id FROM ns.t LIMIT 3) q ORDER BY id DESC", "2\n1\n0\n"},
        {"SELECT id FROM ns.t ORDER BY id LIMIT 2 OFFSET 3", "3\n4\n"},
        {"SELECT 1 UNION ALL SELECT id FROM ns.t WHERE id = 2 ORDER BY 1", "1\n2\n"},
        {"SELECT sum(id) FROM ns.t AT (VERSION => 3)", "49995000\n"},
        {"SELECT max(a.id) FROM ns.t AS a AT (REVISION => 'x:3')", "9999\n"},
        {"SELECT range FROM range(3)", "0\n1\n2\n"},
        {"SELECT (SELECT count(*) FROM ns.t WHERE id < 5), (SELECT count(*) FROM ns.t WHERE id < 7)",
            "5|7\n"},
        {"SELECT count(*) FROM (SELECT * FROM ns.t WHERE id < 5 UNION ALL SELECT * FROM ns.t WHERE id < 7)",
            "12\n"},
        {"WITH q AS (SELECT * FROM ns.t WHERE id < 50) SELECT count(*) FROM q a JOIN q b ON a.id = b.id + 1 "
         "WHERE "
         "a.id > 10 AND b.id < 20",
            "10\n"},
        {"SELECT sum(n) FROM (SELECT s, count(*) AS n FROM ns.t WHERE id >= 100 GROUP BY s HAVING count(*) = "
         "10)",
            "9000\n"},
        {"SELECT a.id FROM ns.t a SEMI JOIN ns.t b ON a.id = b.id AND b.id IN (3, 5) ORDER BY 1", "3\n5\n"},
        {"SELECT count(*) FROM ns.t WHERE id = 5 AND (SELECT max(id) FROM ns.t) = 9999", "1\n"},
        {"VALUES (1), (2)", "1\n2\n"},
        {"SELECT id FROM ns.t WHERE id IN (1, 3) OR s LIKE 'no%' OR id BETWEEN 9998 AND 10005 ORDER BY id",
            "1\n3\n9998\n9999\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect(rows[i][0], rows[i][1]);
    }
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"SELECT nope FROM ns.t", "error PLANNING: Referenced column \"nope\" not found in FROM clause!"},
        {"SELECT t.id FROM a.t, b.t", "error PLANNING: Referenced table \"t\" not found!"},
        {"SELECT id FROM a.t x, b.t y", "error PLANNING: Ambiguous reference to column name \"id\""},
        {"SELECT s + 1 FROM ns.t ORDER BY 1",
            "error PLANNING: No function matches the given name and argument types '+("},
        {"SELECT s::INT FROM ns.t ORDER BY 1", "error EXECUTION: Could not convert string 'key-"},
        {"SELECT (SELECT max(b.t.id) FROM b.t WHERE b.t.id < a.t.id) FROM a.t",
            "error PLANNING: table \"a\".\"t\" is hidden by another one of that name"},
        {"SELECT sum(s) FROM ns.t",
            "error PLANNING: No function matches the given name and argument types 'sum(VARCHAR)'"},
        {"SELECT CAST('x' AS INT)", "error EXECUTION: Could not convert string 'x' to INT32"},
        {"SELECT CAST(id AS TINYINT) FROM ns.t ORDER BY 1", "error EXECUTION: Type INT64 with value "},
        {"SELECT ?", "error PLANNING: the statement has parameters"},
        {"SELECT error('boo')", "error EXECUTION: boo"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lk_err             err = {0};
        lk_table_snapshot *tables[] = {plain, plain};
        char              *got = fixture_text(&fixture, rows[i][0], tables, false, &err);
        if (strncmp(got, rows[i][1], strlen(rows[i][1])) != 0) {
            fail_msg("%s\n  gave\n%s\n  not\n%s", rows[i][0], got, rows[i][1]);
        }
        assert_null(strstr(got, "lake:"));
        assert_null(strstr(got, "LINE 1"));
        free(got);
    }
}

static void a_failing_scan_reports_its_own_cause(void **state)
{
    (void)state;
    lk_err             err = {0};
    lk_table_snapshot *table = table_plain(10000, 1024);
    table_counters_of(table)->fail_at = 5;
    char *got = fixture_text(&fixture, "SELECT sum(id) FROM ns.t", &table, false, &err);
    assert_string_equal(got, "error CORRUPT_FILE: ");
    free(got);
    table_counters_of(table)->fail_at = 0;
    got = fixture_text(&fixture, "SELECT sum(id) FROM ns.t", &table, false, &err);
    assert_string_equal(got, "49995000\n");
    free(got);
    lk_table_snapshot_unref(table);
}

static void columns_and_filters_reach_the_scan(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
        size_t      columns, rows;
    } cases[] = {
        {"SELECT sum(x) FROM ns.t WHERE id >= 9990", "5072.985\n", 1, 10},
        {"SELECT count(*) + 0 FROM ns.t WHERE id < 10", "10\n", 1, 10},
        {"SELECT max(id) + 0 FROM ns.t WHERE s = 'key-00000000----'", "9000\n", 1, 10},
        {"SELECT max(id) + 0 FROM ns.t WHERE s LIKE 'key-00000000%' AND id <> 0", "9000\n", 1, 9},
        {"SELECT count(*) + 0 FROM ns.t WHERE id > 10 AND id < 20", "9\n", 1, 11},
        {"SELECT count(*) + 0 FROM ns.t WHERE id IN (5, 50, 500) OR id IS NULL", "3\n", 1, 3},
        {"SELECT count(*) + 0 FROM ns.t WHERE NOT (id < 9999)", "1\n", 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_err                err = {0};
        lk_table_snapshot    *table = table_plain(10000, 1024);
        const table_counters *counters = table_counters_of(table);
        char                 *got = fixture_text(&fixture, cases[i].text, &table, false, &err);
        if (i > 0) { /* the first sums floats: compared by counters only */
            assert_string_equal(got, cases[i].expected);
        }
        if (counters->rows != cases[i].rows || counters->columns != cases[i].columns || !counters->filtered) {
            fail_msg("%s: %zu columns, %zu rows", cases[i].text, counters->columns, counters->rows);
        }
        free(got);
        lk_table_snapshot_unref(table);
    }
}

static void rows_keep_their_order(void **state)
{
    (void)state;
    lk_err             err = {0};
    struct ArrowSchema schema;
    struct ArrowArray  rows;
    lk_table_snapshot *table = table_plain(300000, 2048);
    assert_int_equal(fixture_query(&fixture, "SELECT id + 0 AS k FROM ns.t WHERE id % 3 = 1", &table, false,
                         &schema, &rows, &err),
        LK_OK);
    assert_int_equal(rows.length, 100000);
    const int64_t *values = rows.children[0]->buffers[1];
    for (int64_t i = 0; i < rows.length; i++) {
        assert_int_equal(values[rows.children[0]->offset + i], 3 * i + 1);
    }
    lk_array_release(&rows);
    lk_schema_release(&schema);
    lk_table_snapshot_unref(table);
}

static void a_limit_stops_the_scan(void **state)
{
    (void)state;
    lk_err             err = {0};
    lk_table_snapshot *table = table_plain(1000000, 8192);
    char              *got = fixture_text(&fixture, "SELECT id + 1 FROM ns.t LIMIT 2", &table, false, &err);
    assert_string_equal(got, "1\n2\n");
    assert_true(table_counters_of(table)->rows <= 8 * 8192);
    free(got);
    lk_table_snapshot_unref(table);
}

/* -- listings -------------------------------------------------------------------------------------- */

static lk_rc list(void *context, lk_arena *arena, const lk_sql_listed **items, size_t *count, lk_err *err)
{
    (void)err;
    (void)context;
    lk_sql_listed *out = lk_arena_take(arena, 3 * sizeof *out);
    out[0] = (lk_sql_listed){{LK_LITERAL("a"), LK_LITERAL("t")}, plain->ops->schema(plain)};
    out[1] = (lk_sql_listed){{LK_LITERAL("b"), LK_LITERAL("u")}, standard->ops->schema(standard)};
    out[2] = (lk_sql_listed){{LK_LITERAL("b"), LK_LITERAL("v")}, NULL};
    *items = out;
    *count = 3;
    return LK_OK;
}

static void expect_listing(const char *text, const char *expected)
{
    lk_err            err = {0};
    lk_sql_statement *statement = NULL;
    lk_batches       *result = NULL;
    struct ArrowArray rows = {0};
    assert_int_equal(lk_sql_parse(fixture.sql, lk_bytes_of(text), &statement, &err), LK_OK);
    assert_true(lk_sql_statement_lists(statement));
    const lk_sql_request request = {.statement = statement, .directory = {list, NULL}};
    assert_int_equal(lk_sql_run(fixture.sql, &request, &result, &err), LK_OK);
    assert_int_equal(lk_batches_next(result, &rows, &err), LK_OK);
    char *got = fixture_format(&result->schema, &rows);
    assert_string_equal(got, expected);
    free(got);
    lk_array_release(&rows);
    lk_batches_close(result);
    lk_sql_statement_unref(statement);
}

static void information_schema_answers_from_the_directory(void **state)
{
    (void)state;
    expect_listing("SHOW TABLES", "a.t\nb.u\nb.v\n");
    expect_listing("SHOW TABLES FROM b", "u\nv\n");
    expect_listing("SHOW DATABASES", "lake\n");
    expect_listing("SELECT * FROM information_schema.schemata", "lake|a\nlake|b\n");
    expect_listing(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'b' ORDER BY 1", "u\nv\n");
    expect_listing(
        "SELECT column_name, ordinal_position, is_nullable, data_type FROM information_schema.columns "
        "WHERE table_name = 't'",
        "id|1|NO|BIGINT\nx|2|NO|DOUBLE\ns|3|NO|VARCHAR\n");
    expect_listing("SELECT count(*), string_agg(data_type, ' ' ORDER BY ordinal_position) FROM "
                   "lake.information_schema.columns WHERE table_schema = 'b'",
        "20|BIGINT INTEGER UTINYINT UBIGINT DOUBLE FLOAT FLOAT VARCHAR VARCHAR BLOB BLOB BOOLEAN DATE "
        "TIMESTAMP "
        "TIMESTAMP WITH TIME ZONE BIGINT DECIMAL(10,2) TIME DECIMAL(50,0) BIGINT\n");
}

static void describe_shows_the_columns(void **state)
{
    (void)state;
    expect("DESCRIBE ns.t",
        "id|BIGINT|YES|NULL|NULL|NULL\nx|DOUBLE|YES|NULL|NULL|NULL\ns|VARCHAR|YES|NULL|NULL|NULL\n");
    expect("DESCRIBE SELECT id + 1 AS k FROM ns.t", "k|BIGINT|YES|NULL|NULL|NULL\n");
}

static void explain_shows_the_plan_and_analyze_runs_it(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"EXPLAIN SELECT sum(id) FROM ns.t WHERE x > 5", "LAKE_SCAN"},
        {"EXPLAIN ANALYZE SELECT sum(id) FROM ns.t", "Total Time"},
        {"EXPLAIN SELECT id FROM ns.t", "LAKE_SCAN"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lk_err err = {0};
        char  *got = fixture_text(&fixture, rows[i][0], &plain, false, &err);
        if (strstr(got, rows[i][1]) == NULL) {
            fail_msg("%s gave %s", rows[i][0], got);
        }
        assert_null(strstr(got, fixture.directory));
        free(got);
    }
}

/* -- types ----------------------------------------------------------------------------------------- */

static void plain_references_keep_their_table_type(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "SELECT id, i32, u8, u64, x, f, h, s, ls, bin, fsb, b, d, ts, tz, dur, dec, t32, Mixed FROM ns.t "
        "ORDER BY id",
        "SELECT * FROM (SELECT * EXCLUDE (big) FROM ns.t) ORDER BY id",
        "WITH q AS (SELECT id, i32, u8, u64, x, f, h, s, ls, bin, fsb, b, d, ts, tz, dur, dec, t32, Mixed "
        "FROM ns.t) "
        "SELECT * FROM q ORDER BY q.id",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lk_err             err = {0};
        struct ArrowSchema schema;
        struct ArrowArray  rows;
        lk_rc              rc = fixture_query(&fixture, texts[i], &standard, false, &schema, &rows, &err);
        if (rc != LK_OK) {
            fail_msg("%s: %s %s", texts[i], lk_rc_name(rc), err.context);
        }
        const struct ArrowSchema *table = standard->ops->schema(standard);
        assert_int_equal(schema.n_children, table->n_children - 1);
        for (int64_t c = 0, t = 0; c < schema.n_children; c++, t++) {
            t += strcmp(table->children[t]->name, "big") == 0;
            assert_string_equal(schema.children[c]->name, table->children[t]->name);
            assert_string_equal(schema.children[c]->format, table->children[t]->format);
            assert_int_equal(schema.children[c]->flags, table->children[t]->flags);
        }
        assert_int_equal(rows.length, 1000);
        /* Values: the straight path carries the table's own. */
        struct ArrowSchema straight_schema;
        struct ArrowArray  straight_rows;
        assert_int_equal(
            fixture_query(&fixture,
                "SELECT id, i32, u8, u64, x, f, h, s, ls, bin, fsb, b, d, ts, tz, dur, dec, t32, Mixed "
                "FROM ns.t",
                &standard, false, &straight_schema, &straight_rows, &err),
            LK_OK);
        char *got = fixture_format(&schema, &rows), *want = fixture_format(&straight_schema, &straight_rows);
        assert_string_equal(got, want);
        free(got);
        free(want);
        lk_array_release(&rows);
        lk_schema_release(&schema);
        lk_array_release(&straight_rows);
        lk_schema_release(&straight_schema);
    }
}

static void expressions_have_the_carrier_type(void **state)
{
    (void)state;
    lk_err             err = {0};
    struct ArrowSchema schema;
    struct ArrowArray  rows;
    const char        *text =
        "SELECT h + h, dur + 1, fsb || fsb, ls || 'x', tz, count(*) AS n FROM ns.t GROUP BY ALL";
    assert_int_equal(fixture_query(&fixture, text, &standard, false, &schema, &rows, &err), LK_OK);
    static const char *const formats[] = {"f", "l", "z", "u", "tsm:Europe/Berlin", "l"};
    for (int64_t c = 0; c < schema.n_children; c++) {
        assert_string_equal(schema.children[c]->format, formats[c]);
    }
    lk_array_release(&rows);
    lk_schema_release(&schema);
}

static void outer_joins_make_columns_nullable(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool        a, b;
    } cases[] = {
        {"SELECT a.id, b.id FROM ns.t a JOIN ns.t b ON a.id = b.id + 1", false, false},
        {"SELECT a.id, b.id FROM ns.t a LEFT JOIN ns.t b ON a.id = b.id + 1", false, true},
        {"SELECT a.id, b.id FROM ns.t a RIGHT JOIN ns.t b ON a.id = b.id + 1", true, false},
        {"SELECT a.id, b.id FROM ns.t a FULL JOIN ns.t b ON a.id = b.id + 1", true, true},
        {"SELECT * FROM (SELECT id FROM ns.t) a LEFT JOIN (SELECT id AS k FROM ns.t) b ON id = k", false,
            true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_err             err = {0};
        lk_sql_statement  *statement = NULL;
        struct ArrowSchema schema;
        assert_int_equal(lk_sql_parse(fixture.sql, lk_bytes_of(cases[i].text), &statement, &err), LK_OK);
        const lk_sql_request request = {.statement = statement, .snapshots = &plain};
        assert_int_equal(lk_sql_schema(fixture.sql, &request, &schema, &err), LK_OK);
        assert_int_equal((schema.children[0]->flags & ARROW_FLAG_NULLABLE) != 0, cases[i].a);
        assert_int_equal((schema.children[1]->flags & ARROW_FLAG_NULLABLE) != 0, cases[i].b);
        lk_schema_release(&schema);
        lk_sql_statement_unref(statement);
    }
}

static void a_type_without_carrier_is_refused_by_name(void **state)
{
    (void)state;
    lk_err err = {0};
    char  *got = fixture_text(&fixture, "SELECT big FROM ns.t ORDER BY id", &standard, false, &err);
    assert_string_equal(got, "error PLANNING: column \"big\" has a type that only a plain SELECT can read");
    free(got);
    got = fixture_text(&fixture, "SELECT max(id) FROM ns.t", &standard, false, &err);
    assert_string_equal(got, "999\n");
    free(got);
    got = fixture_text(&fixture, "SELECT big FROM ns.t WHERE id = 3", &standard, false, &err);
    assert_null(strstr(got, "error"));
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_resolve_as_in_sql),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(a_failing_scan_reports_its_own_cause),
        cmocka_unit_test(columns_and_filters_reach_the_scan),
        cmocka_unit_test(rows_keep_their_order),
        cmocka_unit_test(a_limit_stops_the_scan),
        cmocka_unit_test(information_schema_answers_from_the_directory),
        cmocka_unit_test(describe_shows_the_columns),
        cmocka_unit_test(explain_shows_the_plan_and_analyze_runs_it),
        cmocka_unit_test(plain_references_keep_their_table_type),
        cmocka_unit_test(expressions_have_the_carrier_type),
        cmocka_unit_test(outer_joins_make_columns_nullable),
        cmocka_unit_test(a_type_without_carrier_is_refused_by_name),
    };
    return cmocka_run_group_tests_name("sql runs", tests, set_up, tear_down);
}
