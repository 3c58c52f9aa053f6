/*
 * simple_test.c - what the short reader accepts, it reads as DuckDB's parser does. The reference is the
 * statement that the parser and the gate make of the same text; texts are random, and every keyword is
 * tried in every place.
 */
#include "base/rand.h"
#include "sql/parse_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char     directory[] = "/tmp/lake-simple-test-XXXXXX";
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
    assert_non_null(mkdtemp(directory));
    const lk_duck_options options = {
        .spill_path = directory, .memory_bytes = 256 << 20, .spill_bytes = 64 << 20, .thread_count = 1};
    assert_int_equal(lk_duck_open(&duck, &options, no_functions, NULL, &err), LK_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lk_duck_close(duck);
    return rmdir(directory);
}

/* -- comparing ------------------------------------------------------------------------------------- */

static bool same_filter(const lk_filter *a, const lk_filter *b)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    bool same = a->kind == b->kind && a->compare == b->compare && lk_bytes_equal(a->column, b->column) &&
                a->literal_count == b->literal_count && a->child_count == b->child_count;
    for (size_t i = 0; same && i < a->literal_count; i++) {
        same = a->literals[i].kind == b->literals[i].kind &&
               lk_bytes_equal(a->literals[i].text, b->literals[i].text);
    }
    for (size_t i = 0; same && i < a->child_count; i++) {
        same = same_filter(a->children[i], b->children[i]);
    }
    return same;
}

static bool same_shape(const lk_shape *a, const lk_shape *b)
{
    bool same = a != NULL && b != NULL && a->source == b->source && a->count == b->count &&
                a->limit == b->limit && lk_bytes_equal(a->count_name, b->count_name) &&
                a->item_count == b->item_count;
    for (size_t i = 0; same && i < a->item_count; i++) {
        same = a->items[i].star == b->items[i].star &&
               lk_bytes_equal(a->items[i].column, b->items[i].column) &&
               lk_bytes_equal(a->items[i].alias, b->items[i].alias) &&
               a->items[i].excluded_count == b->items[i].excluded_count;
    }
    return same && same_filter(a->filter, b->filter);
}

static bool same_statement(const lk_sql_statement *a, const lk_sql_statement *b)
{
    return a->explain == b->explain && a->table_count == b->table_count &&
           a->source_count == b->source_count && a->parameter_count == b->parameter_count &&
           a->lists == b->lists && lk_bytes_equal(a->tables[0].table.ns, b->tables[0].table.ns) &&
           lk_bytes_equal(a->tables[0].table.name, b->tables[0].table.name) &&
           a->tables[0].when == b->tables[0].when && a->sources[0].listing == b->sources[0].listing &&
           a->sources[0].table == b->sources[0].table && same_shape(a->shape, b->shape);
}

/* Whether the short reader took it; when it did, both agree or the test fails. */
static bool check(const char *text)
{
    lk_err            err = {0};
    lk_sql_statement *simple = lk_statement_simple(lk_bytes_of(text)), *parsed = NULL;
    bool              taken = simple != NULL;
    if (taken) {
        lk_rc rc = lk_statement_parse(duck, lk_bytes_of(text), &parsed, &err);
        if (rc != LK_OK || !same_statement(simple, parsed)) {
            fail_msg("taken: %s\n the parser: %s %s", text,
                rc == LK_OK ? "reads it otherwise" : lk_rc_name(rc), err.detail);
        }
    }
    lk_sql_statement_unref(simple);
    lk_sql_statement_unref(parsed);
    return taken;
}

/* -- tests ----------------------------------------------------------------------------------------- */

static void these_are_taken(void **state)
{
    (void)state;
    static const char *const texts[] = {"SELECT * FROM ns.t WHERE id = 12345",
        "select id, x as y from lake.ns.t;",
        "SELECT t.id FROM ns.t WHERE t.id >= -5 AND s = 'abc' AND x < 0.5 LIMIT 10 ; ",
        "SELECT count(*) FROM ns.t", "SELECT COUNT(*) AS n FROM ns.t WHERE id<>3",
        "SELECT \"a b\", \"Select\" FROM \"n-s\".\"t.u\"", "SELECT\n*\tFROM ns.t LIMIT 0",
        "SELECT value, name, key, year FROM ns.t WHERE s='\xC3\xA4;--'",
        "SELECT * FROM ns.t WHERE \"id\" = 1", "SELECT * FROM LAKE.ns.t", "SELECT id FROM ns. t",
        "SELECT * FROM ns.t WHERE id=-1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!check(texts[i])) {
            fail_msg("not taken: %s", texts[i]);
        }
    }
}

static void these_are_left_to_the_parser(void **state)
{
    (void)state;
    static const char *const texts[] = {"SELECT 1", "SELECT * FROM t", "SELECT * FROM a.b.t",
        "SELECT a b FROM ns.t", "SELECT * FROM ns.t AS x", "SELECT * FROM ns.t x",
        "SELECT * FROM ns.t WHERE id = 1 OR id = 2", "SELECT * FROM ns.t -- c", "SELECT/**/* FROM ns.t",
        "SELECT * FROM information_schema.tables", "SELECT * FROM ns.t WHERE s = 'it''s'",
        "SELECT * FROM ns.t WHERE x = 1e5", "SELECT * FROM ns.t WHERE x = 1.",
        "SELECT * FROM ns.t WHERE x = .5", "SELECT * FROM ns.t WHERE x = 1_000",
        "SELECT * FROM ns.t WHERE x = 0x10", "SELECT * FROM ns.t WHERE x = 1a", "SELECT other.id FROM ns.t",
        "SELECT ns.t.id FROM ns.t", "SELECT id FROM", "SELECT * FROM ns.t LIMIT -1",
        "SELECT * FROM ns.t LIMIT 5 OFFSET 1", "SELECT * FROM ns.t;;", "SELECT * FROM ns.t ORDER BY id",
        "SELECT select FROM ns.t", "SELECT \"\" FROM ns.t", "SELECT * FROM ns.t WHERE",
        "SELECT * FROM ns.t WHERE id == 5", "SELECT * FROM ns.t WHERE id = 5 AND",
        "SELECT * FROM ns.t WHERE id = 5 5", "SELECT * FROM ns.t WHERE id = - 5",
        "SELECT * FROM ns.t WHERE id = --5\n5", "SELECT * FROM ns.t WHERE true", "SELECT *, id FROM ns.t",
        "SELECT id, * FROM ns.t", "SELECT a\xC3\xA4 FROM ns.t", "SELECT a$b FROM ns.t",
        "SELECT DISTINCT id FROM ns.t", "SELECT * FROM ns.t AT (VERSION => 1)", "EXPLAIN SELECT * FROM ns.t",
        "SELECT count(*), id FROM ns.t", "SELECT id FROM ns.t WHERE id = 5 LIMIT 5 LIMIT 5",
        "SELECT id FROM ns.t WHERE id =5e", "SELECT id FROM ns.t WHERE s = 'a' 'b'",
        "SELECT * FROM ns.t WHERE id = ?"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (check(texts[i])) {
            fail_msg("taken: %s", texts[i]);
        }
    }
}

/* Every word that the engine calls a keyword, where a name may stand. */
static void keywords_are_names_only_where_the_parser_says_so(void **state)
{
    (void)state;
    static const char *const       forms[] = {"SELECT %s FROM ns.t", "SELECT id AS %s FROM ns.t",
              "SELECT * FROM %s.t", "SELECT * FROM ns.%s", "SELECT * FROM ns.t WHERE %s = 1",
              "SELECT count(*) AS %s FROM ns.t", "SELECT a, %s FROM ns.t",
              "SELECT * FROM ns.t WHERE a = 1 AND %s = 1", "SELECT t.%s FROM ns.t",
              "SELECT * FROM ns.t WHERE t.%s = 2 LIMIT 1", "SELECT * FROM lake.%s.t", "SELECT %s AS a FROM ns.t",
              "SELECT %s, a FROM ns.t"};
    lk_err                         err = {0};
    duckdb_v2_connection_handle    connection = NULL;
    duckdb_v2_sql_statement_handle statement = NULL;
    duckdb_v2_result_handle        result = NULL;
    duckdb_v2_data_chunk_handle    chunk = NULL;
    duckdb_v2_vector_handle        vector = NULL;
    duckdb_v2_value_handle         value = NULL;
    duckdb_v2_str                  words = {0};
    assert_int_equal(lk_duck_connect(duck, &connection, &err), LK_OK);
    assert_int_equal(
        lk_duck_parse(connection, "SELECT string_agg(keyword_name, ' ') || ' ' FROM duckdb_keywords()",
            &statement, &err),
        LK_OK);
    assert_int_equal(duckdb_v2_statement_execute(connection, statement, NULL, NULL, 0, &result, NULL), 0);
    assert_int_equal(duckdb_v2_result_fetch_chunk(result, &chunk, NULL), 0);
    assert_int_equal(duckdb_v2_data_chunk_get_vector(chunk, 0, &vector, NULL), 0);
    assert_int_equal(duckdb_v2_vector_get_value(vector, 0, &value, NULL), 0);
    assert_int_equal(duckdb_v2_value_get_varchar(value, &words, NULL), 0);
    size_t taken = 0, count = 0;
    for (const char *at = words.ptr, *end = words.ptr + words.len; at < end; count++) {
        const char *blank = memchr(at, ' ', (size_t)(end - at));
        for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
            const char *hole = strstr(forms[i], "%s");
            char        text[256];
            (void)snprintf(text, sizeof text, "%.*s%.*s%s", (int)(hole - forms[i]), forms[i],
                (int)(blank - at), at, hole + 2);
            taken += check(text);
        }
        at = blank + 1;
    }
    (void)duckdb_v2_value_destroy(&value);
    (void)duckdb_v2_data_chunk_destroy(&chunk);
    (void)duckdb_v2_result_destroy(&result);
    (void)duckdb_v2_sql_statement_destroy(&statement);
    (void)duckdb_v2_connection_destroy(&connection);
    assert_true(count > 400);
    assert_true(taken > 3000); /* the unreserved ones are names */
}

static void random_texts_agree(void **state)
{
    (void)state;
    static const char *const parts[] = {"SELECT ", "select ", "*", "id", "x", "t.id", "ns.t", "lake.ns.t",
        " FROM ", " WHERE ", " AND ", " LIMIT ", " AS ", "count(*)", "=", "<", "<>", "<=", "-", ".", ",", ";",
        "5", "0.5", "-3", "12e3", "'a'", "'it''s'", "\"q\"", "\"a\"\"b\"", " ", "\n", "(", ")", "--", "/*",
        "*/", "'", "\"", "\xC3\xA4", "$", "name", "value", "t", " id = 5", " OR ", "!=", ">=", ">", "@", "=-",
        "'a' ", "007", "18446744073709551616", "1."};
    enum { TEXTS = 4000 };
    lk_seeded_random random;
    lk_seeded_random_init(&random, 17);
    size_t taken = 0;
    for (size_t i = 0; i < TEXTS; i++) {
        lk_buf text = {0};
        lk_buf_append_text(&text, i % 2 == 0 ? "SELECT id, x FROM ns.t WHERE id = 5 AND s = 'a' LIMIT 3"
                                             : "SELECT * FROM ns.t WHERE t.x >= -0.5");
        size_t edits = 1 + lk_random_below(&random.base, 3);
        for (size_t e = 0; e < edits; e++) { /* cut a piece out and put another in */
            const char *part = parts[lk_random_below(&random.base, sizeof parts / sizeof parts[0])];
            size_t      at = lk_random_below(&random.base, text.size + 1);
            size_t      cut = lk_random_below(&random.base, 6);
            cut = at + cut > text.size ? text.size - at : cut;
            lk_buf edited = {0};
            lk_buf_append(&edited, text.data, at);
            lk_buf_append_text(&edited, lk_random_below(&random.base, 4) == 0 ? "" : part);
            lk_buf_append_text(&edited, text.data + at + cut);
            lk_buf_deinit(&text);
            text = edited;
        }
        taken += check(text.data);
        lk_buf_deinit(&text);
    }
    assert_true(taken > TEXTS / 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(these_are_taken),
        cmocka_unit_test(these_are_left_to_the_parser),
        cmocka_unit_test(keywords_are_names_only_where_the_parser_says_so),
        cmocka_unit_test(random_texts_agree),
    };
    return cmocka_run_group_tests_name("sql simple", tests, set_up, tear_down);
}
