/*
 * paths_test.c - invariant 4: a statement gives the same rows and the same schema on the straight path and
 * in DuckDB. The reference is DuckDB; the statements are random over a table with NaN, -0.0, infinities,
 * nulls and odd texts.
 */
#include "base/rand.h"
#include "sql/table_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static sql_fixture        fixture;
static lk_table_snapshot *table;

static int set_up(void **state)
{
    (void)state;
    sql_fixture_open(&fixture, 256 << 20, 256 << 20);
    table = table_standard(700, 100, 11);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lk_table_snapshot_unref(table);
    sql_fixture_close(&fixture);
    return 0;
}

/* -- statements ------------------------------------------------------------------------------------ */

static const char *const numbers[] = {"0", "1", "-1", "5", "-10", "10", "255", "256", "-129", "127", "699",
    "0.5", "-1.5", "2.5", "0.1", "100.25", "-0.0", "1e3", "7", "18446744073709551615", "18446744073709551616",
    "-0.25", "2.50", "0.125", "12345678901234567890", "'3'", "NULL", "3.14159265358979", "9007199254740993"};
static const char *const texts[] = {"''", "'a'", "'ab'", "'b'", "'B'", "'\xC3\xA4'", "'it''s'", "'zz top'",
    "'zzz'", "'a text that is longer than twelve bytes'", "NULL", "'a%b'", "5"};
static const char *const patterns[] = {
    "'a%'", "'%'", "'ab%'", "'\xC3\xA4%'", "'x_%'", "'%b'", "'a'", "'it''s%'", "'A%'"};
static const char *const number_columns[] = {
    "id", "i32", "u8", "u64", "x", "f", "h", "dec", "Mixed", "mixed", "ID", "t.id", "T.x", "dur"};
static const char *const text_columns[] = {"s", "ls", "t.s", "S"};
static const char *const all_columns[] = {"id", "i32", "u8", "u64", "x", "f", "h", "s", "ls", "bin", "fsb",
    "b", "d", "ts", "tz", "dur", "dec", "t32", "Mixed"};
static const char *const operators[] = {"=", "<>", "<", "<=", ">", ">="};

#define PICK(random, list) ((list)[lk_random_below((random), sizeof(list) / sizeof(list)[0])])

static void values(lk_random *r, const char *const *list, size_t size, lk_buf *out)
{
    size_t count = 1 + lk_random_below(r, 4);
    for (size_t i = 0; i < count; i++) {
        lk_buf_format(out, "%s%s", i == 0 ? "(" : ", ", list[lk_random_below(r, size)]);
    }
    lk_buf_append_text(out, ")");
}

static void leaf(lk_random *r, lk_buf *out)
{
    switch (lk_random_below(r, 10)) {
    case 0:
        lk_buf_format(out, "%s %s %s", PICK(r, number_columns), PICK(r, operators), PICK(r, numbers));
        break;
    case 1:
        lk_buf_format(out, "%s %s %s", PICK(r, numbers), PICK(r, operators), PICK(r, number_columns));
        break;
    case 2:
        lk_buf_format(out, "%s %sIN ", PICK(r, number_columns), lk_random_below(r, 3) == 0 ? "NOT " : "");
        values(r, numbers, sizeof numbers / sizeof numbers[0], out);
        break;
    case 3:
        lk_buf_format(out, "%s %sBETWEEN %s AND %s", PICK(r, number_columns),
            lk_random_below(r, 3) == 0 ? "NOT " : "", PICK(r, numbers), PICK(r, numbers));
        break;
    case 4:
        lk_buf_format(out, "%s %s %s", PICK(r, text_columns), PICK(r, operators), PICK(r, texts));
        break;
    case 5:
        lk_buf_format(out, "%s %sLIKE %s", PICK(r, text_columns), lk_random_below(r, 3) == 0 ? "NOT " : "",
            PICK(r, patterns));
        break;
    case 6:
        lk_buf_format(out, "%s IS %sNULL", PICK(r, all_columns), lk_random_below(r, 2) == 0 ? "NOT " : "");
        break;
    case 7:
        lk_buf_format(out, "b %s %s", PICK(r, operators), lk_random_below(r, 2) == 0 ? "TRUE" : "false");
        break;
    case 8:
        lk_buf_append_text(out, lk_random_below(r, 2) == 0 ? "b" : "NOT b");
        break;
    default:
        lk_buf_format(out, "%s IN ", PICK(r, text_columns));
        values(r, texts, sizeof texts / sizeof texts[0], out);
        break;
    }
}

static void condition(lk_random *r, int depth, lk_buf *out)
{
    size_t kind = depth == 0 ? 0 : lk_random_below(r, 5);
    if (kind <= 1) {
        leaf(r, out);
    } else if (kind == 2) {
        lk_buf_append_text(out, "NOT (");
        condition(r, depth - 1, out);
        lk_buf_append_text(out, ")");
    } else {
        lk_buf_append_text(out, "(");
        condition(r, depth - 1, out);
        lk_buf_append_text(out, kind == 3 ? " AND " : " OR ");
        condition(r, depth - 1, out);
        lk_buf_append_text(out, ")");
    }
}

static void statement(lk_random *r, lk_buf *out)
{
    size_t shape = lk_random_below(r, 4);
    lk_buf_append_text(out, "SELECT ");
    if (shape == 0) {
        lk_buf_append_text(out, "count(*)");
    } else if (shape == 1) {
        lk_buf_append_text(out, "id, x, s, h AS half, \"Mixed\", b");
    } else {
        size_t first = lk_random_below(r, sizeof all_columns / sizeof all_columns[0]);
        lk_buf_format(out, "id AS row, t.%s", all_columns[first == 0 ? 1 : first]);
    }
    lk_buf_append_text(out, " FROM ns.t");
    if (lk_random_below(r, 10) > 0) {
        lk_buf_append_text(out, " WHERE ");
        condition(r, 3, out);
    }
    if (lk_random_below(r, 4) == 0) {
        lk_buf_format(out, " LIMIT %d", (int)lk_random_below(r, 40));
    }
}

/* -- comparing ------------------------------------------------------------------------------------- */

static bool is_straight(const char *text)
{
    lk_err            err = {0};
    lk_sql_statement *parsed = NULL;
    lk_batches       *result = NULL;
    assert_int_equal(lk_sql_parse(fixture.sql, lk_bytes_of(text), &parsed, &err), LK_OK);
    const lk_sql_request request = {.statement = parsed, .snapshots = &table};
    bool                 straight =
        lk_sql_run(fixture.sql, &request, &result, &err) == LK_OK && lk_sql_result_is_straight(result);
    lk_batches_close(result);
    lk_sql_statement_unref(parsed);
    return straight;
}

static void compare_schemas(const char *text, const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    assert_int_equal(a->n_children, b->n_children);
    for (int64_t i = 0; i < a->n_children; i++) {
        if (strcmp(a->children[i]->format, b->children[i]->format) != 0 ||
            strcmp(a->children[i]->name, b->children[i]->name) != 0 ||
            a->children[i]->flags != b->children[i]->flags) {
            fail_msg("%s: column %d is %s %s %d here, %s %s %d there", text, (int)i, a->children[i]->name,
                a->children[i]->format, (int)a->children[i]->flags, b->children[i]->name,
                b->children[i]->format, (int)b->children[i]->flags);
        }
    }
}

static void compare(const char *text)
{
    lk_err             err = {0}, engine_err = {0};
    struct ArrowSchema a, b;
    struct ArrowArray  straight, engine;
    lk_rc              rc = fixture_query(&fixture, text, &table, false, &a, &straight, &err);
    lk_rc              engine_rc = fixture_query(&fixture, text, &table, true, &b, &engine, &engine_err);
    if (rc != engine_rc) {
        fail_msg("%s: %s (%s) here, %s (%s) in DuckDB", text, lk_rc_name(rc), err.context,
            lk_rc_name(engine_rc), engine_err.context);
    }
    if (rc == LK_OK) {
        compare_schemas(text, &a, &b);
        char *got = fixture_format(&a, &straight), *want = fixture_format(&b, &engine);
        if (strcmp(got, want) != 0) {
            fail_msg("%s\n gave\n%.2000s\n not\n%.2000s", text, got, want);
        }
        free(got);
        free(want);
    }
    lk_array_release(&straight);
    lk_array_release(&engine);
    lk_schema_release(&a);
    lk_schema_release(&b);
}

/* The same statement over a subquery that no filter can be pushed through: DuckDB's own comparisons
 * decide. */
static void compare_unpushed(const char *text)
{
    static const char plain_from[] = " FROM ns.t";
    const char       *from = strstr(text, plain_from);
    lk_err            err = {0};
    lk_buf            wrapped = {0};
    lk_buf_append(&wrapped, text, (size_t)(from - text));
    lk_buf_append_text(&wrapped, " FROM (SELECT *, row_number() OVER () AS n FROM (SELECT id, i32, u8, u64, "
                                 "x, f, h, s, ls, bin, fsb, b, d, "
                                 "ts, tz, dur, dec, t32, Mixed FROM ns.t)) AS t");
    lk_buf_append_text(&wrapped, from + sizeof plain_from - 1);
    char *got = fixture_text(&fixture, text, &table, false, &err);
    atomic_store(&table_counters_of(table)->filtered, false);
    char *want = fixture_text(&fixture, wrapped.data, &table, false, &err);
    assert_false(table_counters_of(table)->filtered);
    if (strcmp(got, want) != 0 && strncmp(got, "error", 5) != 0) {
        fail_msg("%s\n gave\n%.2000s\n not\n%.2000s", text, got, want);
    }
    free(got);
    free(want);
    lk_buf_deinit(&wrapped);
}

static void both_paths_give_the_same_rows(void **state)
{
    (void)state;
    enum { STATEMENTS = 400 };
    lk_seeded_random random;
    lk_seeded_random_init(&random, 3);
    size_t straight = 0, plain = 0;
    for (size_t i = 0; i < STATEMENTS; i++) {
        lk_buf text = {0};
        statement(&random.base, &text);
        compare(text.data);
        compare_unpushed(text.data);
        straight += is_straight(text.data);
        plain++;
        lk_buf_deinit(&text);
    }
    assert_true(straight > plain / 4); /* the test is about something */
    assert_true(straight < plain);
}

static void these_go_straight(void **state)
{
    (void)state;
    static const char *const statements[] = {"SELECT * FROM ns.t", "SELECT id FROM ns.t", "FROM ns.t LIMIT 5",
        "SELECT t.* FROM ns.t AS t WHERE id = 5", "SELECT * FROM lake.ns.t WHERE ns.t.id = 5 LIMIT 1",
        "SELECT id AS k, s FROM ns.t WHERE s LIKE 'a%' AND (x > 0.5 OR x IS NULL) AND NOT b",
        "SELECT count(*) FROM ns.t", "SELECT count(*) AS n FROM ns.t WHERE i32 IN (1, 2, 3)",
        "SELECT big FROM ns.t WHERE id BETWEEN 1 AND 10",
        "SELECT id FROM ns.t WHERE dec >= 0.25 AND u64 < 50", "SELECT s, * EXCLUDE (s) FROM ns.t"};
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (!is_straight(statements[i])) {
            fail_msg("not straight: %s", statements[i]);
        }
    }
}

static void these_do_not(void **state)
{
    (void)state;
    static const char *const statements[] = {"SELECT id + 1 FROM ns.t", "SELECT id FROM ns.t ORDER BY id",
        "SELECT DISTINCT id FROM ns.t", "SELECT id FROM ns.t LIMIT 5 OFFSET 1", "SELECT id, id FROM ns.t",
        "SELECT id FROM ns.t WHERE id = i32", "SELECT id FROM ns.t WHERE f = 0.1",
        "SELECT id FROM ns.t WHERE u8 = -1", "SELECT id FROM ns.t WHERE id = '5'",
        "SELECT id FROM ns.t WHERE s LIKE 'a_'", "SELECT id FROM ns.t WHERE x = 1e3",
        "SELECT id FROM ns.t WHERE i32 IN (1, NULL)", "SELECT count(id) FROM ns.t",
        "SELECT count(*), 1 FROM ns.t",
        "SELECT id FROM ns.t WHERE id = 9007199254740993 AND x = 9007199254740993",
        "SELECT id FROM ns.t GROUP BY id", "SELECT id FROM ns.t TABLESAMPLE 10%",
        "EXPLAIN SELECT id FROM ns.t", "SELECT id FROM (SELECT id FROM ns.t)",
        "SELECT id FROM ns.t QUALIFY row_number() OVER () = 1"};
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (is_straight(statements[i])) {
            fail_msg("straight: %s", statements[i]);
        }
    }
}

static void names_and_counts_agree(void **state)
{
    (void)state;
    static const char *const statements[] = {"SELECT ID FROM ns.t LIMIT 3",
        "SELECT mixed, X FROM ns.t LIMIT 3", "SELECT t.MIXED AS \"A b\" FROM ns.t LIMIT 2",
        "SELECT count(*) FROM ns.t LIMIT 0", "SELECT count(*) FROM ns.t",
        "SELECT COUNT(*) AS N FROM ns.t WHERE x > 0", "SELECT * EXCLUDE (big) FROM ns.t LIMIT 4",
        "SELECT s, t.* EXCLUDE (S, mixed, big) FROM ns.t LIMIT 4", "SELECT * EXCLUDE (nope) FROM ns.t",
        "SELECT id FROM ns.t LIMIT 0", "SELECT id FROM ns.t WHERE id < 0", "SELECT count() FROM ns.t"};
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        compare(statements[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(these_go_straight),
        cmocka_unit_test(these_do_not),
        cmocka_unit_test(names_and_counts_agree),
        cmocka_unit_test(both_paths_give_the_same_rows),
    };
    return cmocka_run_group_tests_name("sql paths", tests, set_up, tear_down);
}
