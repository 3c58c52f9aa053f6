/* text_test.c - the look at a text before the parser: EXPLAIN, REVISION, bounds; comments and strings are
 * not code. */
#include "sql/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void explain_is_taken_off(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        lk_explain  explain;
        const char *body;
    } rows[] = {
        {"SELECT 1", LK_EXPLAIN_NONE, "SELECT 1"},
        {"EXPLAIN SELECT 1", LK_EXPLAIN_PLAN, " SELECT 1"},
        {"  -- c\n/* x /* y */ z */ explain\tAnalyze SELECT 1", LK_EXPLAIN_ANALYZE, " SELECT 1"},
        {"EXPLAINS SELECT 1", LK_EXPLAIN_NONE, "EXPLAINS SELECT 1"},
        {"\"EXPLAIN\" SELECT 1", LK_EXPLAIN_NONE, "\"EXPLAIN\" SELECT 1"},
        {"EXPLAIN", LK_EXPLAIN_PLAN, ""},
        {"EXPLAIN ANALYZER", LK_EXPLAIN_PLAN, " ANALYZER"},
        {"", LK_EXPLAIN_NONE, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lk_arena    arena = {0};
        lk_err      err = {0};
        lk_sql_text out = {0};
        assert_int_equal(lk_sql_text_read(lk_bytes_of(rows[i].text), &arena, &out, &err), LK_OK);
        assert_int_equal(out.explain, rows[i].explain);
        assert_string_equal(out.body.data, rows[i].body);
        assert_int_equal(out.body.size, strlen(rows[i].body));
        lk_arena_close(&arena);
    }
}

static void revision_becomes_a_word_the_parser_knows(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"FROM a.t AT (REVISION => 'x:1')", "FROM a.t AT (VERSION  => 'x:1')"},
        {"FROM a.t at/**/(revision=>'x:1')", "FROM a.t at/**/(VERSION =>'x:1')"},
        {"SELECT revision, at FROM a.t", "SELECT revision, at FROM a.t"},
        {"SELECT 'AT (REVISION => 1)'", "SELECT 'AT (REVISION => 1)'"},
        {"SELECT E'\\' AT (REVISION' AT (REVISION", "SELECT E'\\' AT (REVISION' AT (VERSION "},
        {"-- AT (REVISION\nSELECT $$AT (REVISION$$, $a$ AT (REVISION $a$, \"AT (REVISION\"",
            "-- AT (REVISION\nSELECT $$AT (REVISION$$, $a$ AT (REVISION $a$, \"AT (REVISION\""},
        {"SELECT $1 AT (REVISION", "SELECT $1 AT (VERSION "},
        {"SELECT x AT ((REVISION", "SELECT x AT ((REVISION"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lk_arena    arena = {0};
        lk_err      err = {0};
        lk_sql_text out = {0};
        assert_int_equal(lk_sql_text_read(lk_bytes_of(rows[i][0]), &arena, &out, &err), LK_OK);
        assert_string_equal(out.body.data, rows[i][1]);
        lk_arena_close(&arena);
    }
}

static void bytes_that_are_no_text_are_refused(void **state)
{
    (void)state;
    const lk_bytes rows[] = {{"SELECT \xff", 8}, {"SELECT 1\0", 9}, {"\xed\xa0\x80", 3}, {"SELECT \xc3", 8}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lk_arena    arena = {0};
        lk_err      err = {0};
        lk_sql_text out = {0};
        assert_int_equal(lk_sql_text_read(rows[i], &arena, &out, &err), LK_E_INVALID_SQL);
        lk_arena_close(&arena);
    }
}

static void depth_counts_only_code(void **state)
{
    (void)state;
    lk_buf deep = {0}, quoted = {0};
    lk_buf_append_text(&quoted, "SELECT '");
    for (int i = 0; i < 129; i++) {
        lk_buf_append_text(&deep, "([{" + i % 3);
        lk_buf_append_text(&quoted, "(");
    }
    lk_buf_append_text(&quoted, "'");
    lk_arena    arena = {0};
    lk_err      err = {0};
    lk_sql_text out = {0};
    assert_int_equal(lk_sql_text_read(lk_buf_view(&deep), &arena, &out, &err), LK_E_INVALID_SQL);
    assert_int_equal(lk_sql_text_read(lk_buf_view(&quoted), &arena, &out, &err), LK_OK);
    lk_arena_close(&arena);
    lk_buf_deinit(&deep);
    lk_buf_deinit(&quoted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(explain_is_taken_off),
        cmocka_unit_test(revision_becomes_a_word_the_parser_knows),
        cmocka_unit_test(bytes_that_are_no_text_are_refused),
        cmocka_unit_test(depth_counts_only_code),
    };
    return cmocka_run_group_tests_name("sql text", tests, NULL, NULL);
}
