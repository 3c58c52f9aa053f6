/*
 * predicate_test.c - three-valued logic, NaN, and pruning (predicate.h). Expected rows follow DuckDB, which
 * tests/interop/test_arrow_predicate.py asks in person over random trees.
 */
#include "arrow/predicate.h"

#include "arrow/array_fixture.h"
#include "arrow/array_priv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* after the above: cmocka.h needs them */
#include <cmocka.h>

static lk_value integer(int64_t number)
{
    return (lk_value){.kind = LK_VALUE_I64, .as.i64 = number};
}

static lk_value real(double number)
{
    return (lk_value){.kind = LK_VALUE_F64, .as.f64 = number};
}

static lk_value bytes(const char *text)
{
    return (lk_value){.kind = LK_VALUE_BYTES, .as.bytes = lk_bytes_of(text)};
}

static lk_predicate compare(lk_compare how, const lk_value *value)
{
    return (lk_predicate){.kind = LK_PREDICATE_COMPARE, .compare = how, .values = value, .value_count = 1};
}

/* Evaluates over one column; the selection as text, one digit a row. */
static void expect_rows(
    const lk_predicate *predicate, const char *type, struct ArrowArray *column, const char *expected)
{
    static const size_t columns[] = {0};
    char                declared[64], selected[64];
    struct ArrowArray   batch;
    uint8_t             selection[64];
    lk_err              err = {0};
    snprintf(declared, sizeof declared, "x:%s", type);
    struct ArrowSchema schema = make_schema((const char *[]){declared, NULL});
    lk_batch_of_columns(column, 1, column->length, &batch);
    assert_int_equal(lk_predicate_evaluate(predicate, &schema, &batch, columns, 1, selection, &err), LK_OK);
    for (int64_t i = 0; i < batch.length; i++) {
        selected[i] = (char)('0' + selection[i]);
    }
    selected[batch.length] = '\0';
    assert_string_equal(selected, expected);
    lk_array_release(&batch);
    lk_schema_release(&schema);
}

static struct ArrowArray doubles(const double *values, int64_t count)
{
    struct ArrowArray array;
    lk_array_start(&array, count, 2, 0, false);
    lk_array_borrow(&array, 1, values);
    return array;
}

static void nan_is_equal_to_itself_and_above_every_number(void **state)
{
    static const double values[] = {-1, -0.0, 0.0, 1, INFINITY, NAN};
    static const struct {
        lk_compare  how;
        double      value;
        const char *rows;
    } cases[] = {{LK_EQ, NAN, "000001"}, {LK_NE, NAN, "111110"}, {LK_LT, NAN, "111110"},
        {LK_LE, NAN, "111111"}, {LK_GT, NAN, "000000"}, {LK_GE, NAN, "000001"}, {LK_EQ, 0.0, "011000"},
        {LK_EQ, -0.0, "011000"}, {LK_GT, 0.0, "000111"}, {LK_GE, 1, "000111"}, {LK_LT, INFINITY, "111100"},
        {LK_GT, INFINITY, "000001"}, {LK_NE, 1, "111011"}, {LK_LE, INFINITY, "111110"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_value          value = real(cases[i].value);
        lk_predicate      p = compare(cases[i].how, &value);
        struct ArrowArray column = doubles(values, 6);
        expect_rows(&p, "float64", &column, cases[i].rows);
    }
}

static void null_is_neither_true_nor_false(void **state)
{
    static const int64_t values[] = {1, NONE, 3};
    lk_value             two = integer(2);
    lk_predicate         less = compare(LK_LT, &two), not_less, is_null, any, all;
    const lk_predicate  *below[] = {&less}, *either[] = {&less, &is_null}, *both[] = {&not_less, &less};
    not_less = (lk_predicate){.kind = LK_PREDICATE_NOT, .children = below, .child_count = 1};
    is_null = (lk_predicate){.kind = LK_PREDICATE_IS_NULL};
    any = (lk_predicate){.kind = LK_PREDICATE_OR, .children = either, .child_count = 2};
    all = (lk_predicate){.kind = LK_PREDICATE_OR, .children = both, .child_count = 2};
    const struct {
        const lk_predicate *p;
        const char         *rows;
    } cases[] = {{&less, "100"}, {&not_less, "001"}, {&is_null, "010"}, {&any, "110"}, {&all, "101"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ArrowArray column = make_integers("int64?", values, 3);
        expect_rows(cases[i].p, "int64?", &column, cases[i].rows);
    }
}

static void empty_and_and_or_are_true_and_false(void **state)
{
    static const int64_t values[] = {1, 2};
    lk_predicate         all = {.kind = LK_PREDICATE_AND}, any = {.kind = LK_PREDICATE_OR};
    struct ArrowArray    column = make_integers("int64", values, 2);
    expect_rows(&all, "int64", &column, "11");
    column = make_integers("int64", values, 2);
    expect_rows(&any, "int64", &column, "00");
}

static void a_constant_beyond_the_column_type_is_compared_as_a_number(void **state)
{
    static const int64_t values[] = {-128, 0, 127};
    static const struct {
        lk_compare  how;
        int64_t     value;
        const char *rows;
    } cases[] = {{LK_LT, 1000, "111"}, {LK_GE, 1000, "000"}, {LK_NE, -1000, "111"}, {LK_GT, -129, "111"},
        {LK_EQ, 128, "000"}, {LK_LE, 127, "111"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_value          value = integer(cases[i].value);
        lk_predicate      p = compare(cases[i].how, &value);
        struct ArrowArray column = make_integers("int8", values, 3);
        expect_rows(&p, "int8", &column, cases[i].rows);
    }
}

static void text_is_compared_by_bytes_and_prefix(void **state)
{
    static const char *const texts[] = {"", "a", "ab", NULL, "b", "\xC3\xA9"};
    lk_value                 a = bytes("a"), high = bytes("z"), empty = bytes("");
    lk_predicate             above = compare(LK_GT, &a), last = compare(LK_GT, &high);
    lk_predicate             prefix = {.kind = LK_PREDICATE_PREFIX, .values = &a, .value_count = 1};
    lk_predicate             any = {.kind = LK_PREDICATE_PREFIX, .values = &empty, .value_count = 1};
    const struct {
        const lk_predicate *p;
        const char         *rows;
    } cases[] = {{&above, "001011"}, {&last, "000001"}, {&prefix, "011000"}, {&any, "111011"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ArrowArray column = make_texts("utf8?", texts, 6);
        expect_rows(cases[i].p, "utf8?", &column, cases[i].rows);
    }
}

static void long_in_lists_find_what_short_ones_find(void **state)
{
    static const int64_t values[] = {0, 5, NONE, 500, 1001, -3};
    lk_value             list[1000];
    for (int i = 0; i < 1000; i++) {
        list[i] = integer(i * 5);
    }
    for (size_t count = 0; count <= 1000; count += count < 20 ? 1 : 490) {
        lk_predicate      p = {.kind = LK_PREDICATE_IN, .values = list, .value_count = count};
        struct ArrowArray column = make_integers("int64?", values, 6);
        expect_rows(&p, "int64?", &column,
            count == 0    ? "000000"
            : count == 1  ? "100000"
            : count > 100 ? "110100"
                          : "110000");
    }
    static const double reals[] = {-0.0, NAN, 2};
    for (int i = 0; i < 30; i++) {
        list[i] = real(i == 7 ? (double)NAN : (double)i);
    }
    lk_predicate      p = {.kind = LK_PREDICATE_IN, .values = list, .value_count = 30};
    struct ArrowArray column = doubles(reals, 3);
    expect_rows(&p, "float64", &column, "111");
}

static void what_cannot_be_compared_is_an_error_before_any_row(void **state)
{
    static const size_t columns[] = {0};
    struct ArrowSchema  schema = make_schema((const char *[]){"x:list<int64>", NULL});
    int64_t             counts[] = {1};
    struct ArrowArray   list = make_lists("list<int64>", counts, 1), batch;
    lk_value            one = integer(1);
    lk_predicate        p = compare(LK_EQ, &one);
    uint8_t             selection[1];
    lk_err              err = {0};
    lk_batch_of_columns(&list, 1, 1, &batch);
    assert_false(lk_predicate_supports(schema.children[0]));
    lk_rc rc = lk_predicate_evaluate(&p, &schema, &batch, columns, 1, selection, &err);
    assert_int_equal(rc, LK_E_UNSUPPORTED_FORMAT);
    p.kind = LK_PREDICATE_IS_NOT_NULL;
    assert_int_equal(lk_predicate_evaluate(&p, &schema, &batch, columns, 1, selection, &err), LK_OK);
    assert_int_equal(selection[0], 1);
    lk_array_release(&batch);
    lk_schema_release(&schema);
}

static void columns_are_listed_once_in_order(void **state)
{
    lk_arena            arena = {0};
    lk_value            one = integer(1);
    lk_predicate        a = compare(LK_EQ, &one), b = a, c = a;
    const lk_predicate *children[] = {&a, &b, &c};
    lk_predicate        all = {.kind = LK_PREDICATE_AND, .children = children, .child_count = 3};
    size_t             *columns = NULL;
    a.column = 9, b.column = 2, c.column = 9;
    assert_int_equal(lk_predicate_columns(&all, &arena, &columns), 2);
    assert_int_equal(columns[0], 2);
    assert_int_equal(columns[1], 9);
    lk_arena_close(&arena);
}

/* -- pruning ------------------------------------------------------------------------------------------- */

static const lk_column_stats *given(size_t column, void *context)
{
    return column == 0 ? context : NULL;
}

static bool may(const lk_predicate *p, lk_column_stats *stats)
{
    return lk_predicate_may_match(p, given, stats);
}

static void bounds_rule_out_what_lies_outside_them(void **state)
{
    lk_column_stats stats = {true, true, false, integer(10), integer(20), 0, 100};
    static const struct {
        lk_compare how;
        int64_t    value;
        bool       may;
    } cases[] = {{LK_EQ, 9, false}, {LK_EQ, 10, true}, {LK_EQ, 21, false}, {LK_LT, 10, false},
        {LK_LT, 11, true}, {LK_LE, 9, false}, {LK_LE, 10, true}, {LK_GT, 20, false}, {LK_GT, 19, true},
        {LK_GE, 21, false}, {LK_GE, 20, true}, {LK_NE, 10, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_value            value = integer(cases[i].value);
        lk_predicate        p = compare(cases[i].how, &value);
        const lk_predicate *child[] = {&p};
        lk_predicate        twice, not = {.kind = LK_PREDICATE_NOT, .children = child, .child_count = 1};
        const lk_predicate *negated[] = {&not };
        twice = (lk_predicate){.kind = LK_PREDICATE_NOT, .children = negated, .child_count = 1};
        assert_int_equal(may(&p, &stats), cases[i].may);
        assert_int_equal(may(&twice, &stats), cases[i].may);
    }
    stats.min = stats.max = integer(7);
    lk_value     seven = integer(7);
    lk_predicate differs = compare(LK_NE, &seven);
    assert_false(may(&differs, &stats));
}

static void unknown_bounds_rule_out_nothing(void **state)
{
    lk_column_stats stats = {.null_count = UINT64_MAX, .row_count = 5, .has_nan = true};
    lk_value        one = integer(1);
    lk_predicate    p = compare(LK_EQ, &one), other = p, is_null = {.kind = LK_PREDICATE_IS_NULL};
    other.column = 1;
    assert_true(may(&p, &stats));
    assert_true(may(&other, &stats));
    assert_true(may(&is_null, &stats));
    stats.has_min = true, stats.min = bytes("text"); /* bounds of another kind say nothing */
    assert_true(may(&p, &stats));
}

static void nulls_alone_match_only_is_null(void **state)
{
    lk_column_stats     stats = {.null_count = 5, .row_count = 5, .has_nan = true};
    lk_value            one = integer(1);
    lk_predicate        p = compare(LK_NE, &one), valid = {.kind = LK_PREDICATE_IS_NOT_NULL}, is_null = valid;
    const lk_predicate *child[] = {&p};
    lk_predicate not = {.kind = LK_PREDICATE_NOT, .children = child, .child_count = 1};
    is_null.kind = LK_PREDICATE_IS_NULL;
    assert_false(may(&p, &stats));
    assert_false(may(&not, &stats)); /* not null is null */
    assert_false(may(&valid, &stats));
    assert_true(may(&is_null, &stats));
    stats.null_count = 0;
    assert_false(may(&is_null, &stats));
}

static void nan_counts_as_the_greatest_when_pruning(void **state)
{
    lk_column_stats stats = {true, true, true, real(0), real(1), 0, 10};
    lk_value        five = real(5), nan = real(NAN);
    lk_predicate above = compare(LK_GT, &five), equal = compare(LK_EQ, &nan), below = compare(LK_LT, &five);
    assert_true(may(&above, &stats));
    assert_true(may(&equal, &stats));
    stats.has_nan = false;
    assert_false(may(&above, &stats));
    assert_false(may(&equal, &stats));
    assert_true(may(&below, &stats));
}

static void prefixes_and_lists_are_pruned(void **state)
{
    lk_column_stats stats = {true, true, true, bytes("apple"), bytes("bread"), 0, 10};
    static const struct {
        const char *prefix;
        bool        may;
    } cases[] = {{"a", true}, {"apple pie", true}, {"app", true}, {"aa", false}, {"b", true}, {"bri", false},
        {"c", false}, {"", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_value     value = bytes(cases[i].prefix);
        lk_predicate p = {.kind = LK_PREDICATE_PREFIX, .values = &value, .value_count = 1};
        assert_int_equal(may(&p, &stats), cases[i].may);
    }
    lk_value     list[] = {bytes("aa"), bytes("zz"), bytes("banana")};
    lk_predicate in = {.kind = LK_PREDICATE_IN, .values = list, .value_count = 2};
    assert_false(may(&in, &stats));
    in.value_count = 3;
    assert_true(may(&in, &stats));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nan_is_equal_to_itself_and_above_every_number),
        cmocka_unit_test(null_is_neither_true_nor_false),
        cmocka_unit_test(empty_and_and_or_are_true_and_false),
        cmocka_unit_test(a_constant_beyond_the_column_type_is_compared_as_a_number),
        cmocka_unit_test(text_is_compared_by_bytes_and_prefix),
        cmocka_unit_test(long_in_lists_find_what_short_ones_find),
        cmocka_unit_test(what_cannot_be_compared_is_an_error_before_any_row),
        cmocka_unit_test(columns_are_listed_once_in_order),
        cmocka_unit_test(bounds_rule_out_what_lies_outside_them),
        cmocka_unit_test(unknown_bounds_rule_out_nothing),
        cmocka_unit_test(nulls_alone_match_only_is_null),
        cmocka_unit_test(nan_counts_as_the_greatest_when_pruning),
        cmocka_unit_test(prefixes_and_lists_are_pruned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
