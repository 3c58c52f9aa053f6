/* args_test.c - command lines that are accepted, and those that are not and say why. */
#include "cli/args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct parsed {
    const char  *table, *file, *format, *output;
    lk_arg_texts columns;
    uint64_t     limit;
    bool         json, help;
    lk_err       err;
    lk_arena     arena;
} parsed;

static lk_rc parse_list(parsed *p, int argc, char **argv)
{
    *p = (parsed){.limit = 7};
    const lk_arg args[] = {
        {"NS.TABLE", LK_ARG_OPERAND, &p->table, NULL, "the table", false},
        {"FILE", LK_ARG_OPTIONAL_OPERAND, &p->file, NULL, "the file", false},
        {"--format", LK_ARG_TEXT, &p->format, "FORMAT", "the format", false},
        {"--column", LK_ARG_TEXTS, &p->columns, "NAME:TYPE", "a column", false},
        {"--limit", LK_ARG_U64, &p->limit, "N", "at most", false},
        {"--json", LK_ARG_FLAG, &p->json, NULL, "as JSON", false},
        {"--output", LK_ARG_TEXT, &p->output, "FILE", "where to", true},
    };
    return lk_args_parse(args, sizeof args / sizeof args[0], argc, argv, &p->arena, &p->help, &p->err);
}

/* The words of a line, apart by one blank. */
static lk_rc parse(parsed *p, const char *line)
{
    static char text[512];
    char       *words[32], *rest = text;
    int         count = 0;
    (void)snprintf(text, sizeof text, "%s", line);
    while (*rest != '\0') {
        words[count++] = rest;
        rest += strcspn(rest, " ");
        if (*rest == ' ') {
            *rest++ = '\0';
        }
    }
    return parse_list(p, count, words);
}

static void expect_usage(const char *line, const char *detail)
{
    parsed p;
    assert_int_equal(parse(&p, line), LK_E_USAGE);
    if (strstr(p.err.detail, detail) == NULL) {
        fail_msg("'%s': '%s' is not in '%s'", line, detail, p.err.detail);
    }
    lk_arena_close(&p.arena);
}

static void options_and_operands_mix_in_both_spellings(void **state)
{
    (void)state;
    parsed p;
    assert_int_equal(
        parse(&p, "--limit 12 a.b --json -o out --format=csv f.parquet --column n:int64 --column=m:utf8?"),
        LK_OK);
    assert_string_equal(p.table, "a.b");
    assert_string_equal(p.file, "f.parquet");
    assert_string_equal(p.format, "csv");
    assert_string_equal(p.output, "out");
    assert_int_equal(p.limit, 12);
    assert_true(p.json);
    assert_false(p.help);
    assert_int_equal(p.columns.count, 2);
    assert_string_equal(p.columns.items[0], "n:int64");
    assert_string_equal(p.columns.items[1], "m:utf8?");
    lk_arena_close(&p.arena);
}

static void what_is_not_given_keeps_its_default(void **state)
{
    (void)state;
    parsed p;
    assert_int_equal(parse(&p, "a.b --output o"), LK_OK);
    assert_null(p.file);
    assert_null(p.format);
    assert_int_equal(p.limit, 7);
    assert_false(p.json);
    assert_int_equal(p.columns.count, 0);
    lk_arena_close(&p.arena);
}

static void after_two_dashes_everything_is_an_operand_and_one_dash_always_is(void **state)
{
    (void)state;
    parsed p;
    assert_int_equal(parse(&p, "--output o -- --table --help"), LK_OK);
    assert_string_equal(p.table, "--table");
    assert_string_equal(p.file, "--help");
    assert_false(p.help);
    lk_arena_close(&p.arena);
    assert_int_equal(parse(&p, "--output o a.b -"), LK_OK);
    assert_string_equal(p.file, "-");
    lk_arena_close(&p.arena);
}

static void an_empty_value_is_a_value(void **state)
{
    (void)state;
    parsed p;
    assert_int_equal(parse(&p, "a.b --output= --format "), LK_E_USAGE); /* the last word is missing */
    lk_arena_close(&p.arena);
    char  table[] = "a.b", output[] = "--output=", format[] = "--format", nothing[] = "";
    char *words[] = {table, output, format, nothing};
    assert_int_equal(parse_list(&p, 4, words), LK_OK);
    assert_string_equal(p.output, "");
    assert_string_equal(p.format, "");
    lk_arena_close(&p.arena);
}

static void help_wins_over_every_mistake(void **state)
{
    (void)state;
    parsed                   p;
    static const char *const lines[] = {"--help", "-h", "--nonsense --help", "a b c d --limit x -h"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(parse(&p, lines[i]), LK_OK);
        assert_true(p.help);
        lk_arena_close(&p.arena);
    }
}

static void mistakes_are_named(void **state)
{
    (void)state;
    expect_usage("", "NS.TABLE is missing (the table)");
    expect_usage("a.b", "--output is missing");
    expect_usage("a.b f more --output o", "unexpected 'more'");
    expect_usage("a.b --nonsense", "unknown option --nonsense");
    expect_usage("a.b -x", "unknown option -x");
    expect_usage("a.b --form csv", "unknown option --form");
    expect_usage("a.b --output", "--output needs a value: FILE");
    expect_usage("a.b --output o --output o", "--output may be given once");
    expect_usage("a.b --output o --json --json", "--json may be given once");
    expect_usage("a.b --json=yes", "--json takes no value");
    expect_usage("a.b --limit x", "--limit takes a whole number, not 'x'");
    expect_usage("a.b --limit=", "whole number");
    expect_usage("a.b --limit -1", "whole number");
    expect_usage("a.b --limit +1", "whole number");
    expect_usage("a.b --limit 1.5", "whole number");
    expect_usage("a.b --limit 18446744073709551616", "whole number");
}

static void the_largest_number_fits(void **state)
{
    (void)state;
    parsed p;
    assert_int_equal(parse(&p, "a.b --output o --limit 18446744073709551615"), LK_OK);
    assert_true(p.limit == UINT64_MAX);
    lk_arena_close(&p.arena);
}

static void a_repeated_option_has_a_bound(void **state)
{
    (void)state;
    enum { WORDS = 2 * (LK_ARG_TEXTS_MAX + 1) };
    static char *words[WORDS];
    static char  option[] = "--column", value[] = "n:int64";
    parsed       p;
    for (size_t i = 0; i < WORDS; i += 2) {
        words[i] = option;
        words[i + 1] = value;
    }
    assert_int_equal(parse_list(&p, WORDS, words), LK_E_USAGE);
    assert_non_null(strstr(p.err.detail, "--column"));
    lk_arena_close(&p.arena);
}

static void help_shows_the_table(void **state)
{
    (void)state;
    bool         json = false;
    const char  *text = NULL;
    const lk_arg args[] = {
        {"NS.TABLE", LK_ARG_OPERAND, &text, NULL, "the table", false},
        {"FILE", LK_ARG_OPTIONAL_OPERAND, &text, NULL, "the file", false},
        {"--json", LK_ARG_FLAG, &json, NULL, "as JSON", false},
        {"--output", LK_ARG_TEXT, &text, "FILE", "where to", true},
        {"--when-it-is-missing", LK_ARG_TEXT, &text, "create|fail", "what then", false},
        {"--long", LK_ARG_FLAG, &json, NULL,
            "what takes more than one line goes on in the next one, below where it began and broken between "
            "two "
            "words",
            false},
    };
    const lk_command command = {"do it", "does it", "At length."};
    char            *shown = NULL;
    size_t           size = 0;
    FILE            *out = open_memstream(&shown, &size);
    lk_args_help(&command, args, sizeof args / sizeof args[0], out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(shown,
        "usage: lake do it NS.TABLE [FILE] --output FILE [options]\n\ndoes it\n\n"
        "  NS.TABLE                    the table\n"
        "  FILE                        the file\n"
        "  --json                      as JSON\n"
        "  --output FILE               where to\n"
        "  --when-it-is-missing create|fail\n"
        "                              what then\n"
        "  --long                      what takes more than one line goes on in the next "
        "one, below where it began and broken\n"
        "                              between two words\n"
        "  --help                      show this\n"
        "\nAt length.\n");
    free(shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_operands_mix_in_both_spellings),
        cmocka_unit_test(what_is_not_given_keeps_its_default),
        cmocka_unit_test(after_two_dashes_everything_is_an_operand_and_one_dash_always_is),
        cmocka_unit_test(an_empty_value_is_a_value),
        cmocka_unit_test(help_wins_over_every_mistake),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(the_largest_number_fits),
        cmocka_unit_test(a_repeated_option_has_a_bound),
        cmocka_unit_test(help_shows_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
