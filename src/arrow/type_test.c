/* type_test.c - formats, half precision and UTF-8 (type.h, utf8.h). */
#include "arrow/type.h"
#include "arrow/utf8.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* after the above: cmocka.h needs them */
#include <cmocka.h>

static bool read_format(const char *format, lk_type *out)
{
    struct ArrowSchema schema = {.format = format};
    return lk_type_of(&schema, out);
}

/* The strings are those of the Arrow C data interface's tables. */
static void formats_give_type_layout_and_parameters(void **state)
{
    lk_type type;
    assert_true(read_format("d:10,2", &type));
    assert_true(type.id == LK_TYPE_DECIMAL128 && type.width == 16 && type.precision == 10 && type.scale == 2);
    assert_true(read_format("d:19,-5,256", &type));
    assert_true(type.id == LK_TYPE_DECIMAL256 && type.width == 32 && type.scale == -5);
    assert_true(read_format("w:42", &type));
    assert_true(type.id == LK_TYPE_FIXED_BINARY && type.width == 42);
    assert_true(read_format("tsu:America/New_York", &type));
    assert_true(type.id == LK_TYPE_TIMESTAMP && type.unit == LK_UNIT_MICRO);
    assert_true(lk_bytes_equal(type.zone, LK_LITERAL("America/New_York")));
    assert_true(read_format("tsn:", &type) && type.zone.size == 0);
    assert_true(read_format("tin", &type) && type.width == 16);
}

static void what_lake_does_not_carry_or_is_malformed_is_refused(void **state)
{
    static const char *const formats[] = {"vu", "vz", "+vl", "+vL", "+r", "+ud:0,1", "+us:0", "", "x",
        "d:", "d:39,0", "d:0,0", "d:5", "d:5,2,64x", "d:5,2,99", "d:10,2,32", "w:", "w:-1", "w:99999999999",
        "+w:x", "tsu", "tsx:", "ts", "tt", "ii"};
    lk_type                  type;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (read_format(formats[i], &type)) {
            fail_msg("'%s' was accepted", formats[i]);
        }
    }
}

static void children_must_be_as_many_as_the_type_needs(void **state)
{
    struct ArrowSchema child = {.format = "l"}, *children[] = {&child};
    struct ArrowSchema schema = {.format = "+l"};
    lk_type            type;
    assert_false(lk_type_of(&schema, &type));
    schema.children = children, schema.n_children = 1;
    assert_true(lk_type_of(&schema, &type));
    schema.format = "+m"; /* its child must be a struct of two */
    assert_false(lk_type_of(&schema, &type));
    schema.format = "l";
    assert_false(lk_type_of(&schema, &type));
}

/* IEEE 754 binary16: the values of the format's own table of examples, then every number there and back. */
static void half_precision_is_exact_one_way_and_nearest_the_other(void **state)
{
    assert_true(lk_float16_to_float(0x3C00) == 1.0F && lk_float16_to_float(0xC000) == -2.0F);
    assert_true(lk_float16_to_float(0x0001) == 0x1p-24F && lk_float16_to_float(0x03FF) == 1023 * 0x1p-24F);
    assert_true(lk_float16_to_float(0x0400) == 0x1p-14F && lk_float16_to_float(0x7BFF) == 65504.0F);
    assert_true(lk_float16_to_float(0x3555) == 0.333251953125F);
    assert_true(isinf(lk_float16_to_float(0x7C00)) && isnan(lk_float16_to_float(0x7E00)));
    assert_true(signbit(lk_float16_to_float(0x8000)) != 0);
    for (uint32_t bits = 0; bits <= 0xFFFF; bits++) {
        float value = lk_float16_to_float((uint16_t)bits);
        if (!isnan(value)) {
            assert_int_equal(lk_float16_of_float(value), bits);
        }
    }
    assert_int_equal(lk_float16_of_float(65519.0F), 0x7BFF);
    assert_int_equal(lk_float16_of_float(65520.0F), 0x7C00);
    assert_int_equal(lk_float16_of_float(1.0F + 0x1p-11F), 0x3C00);            /* a tie, to even */
    assert_int_equal(lk_float16_of_float(1.0F + 0x1p-10F + 0x1p-11F), 0x3C02); /* a tie, to even */
    assert_int_equal(lk_float16_of_float(1.0F + 0x1p-11F + 0x1p-20F), 0x3C01); /* above it */
    assert_int_equal(lk_float16_of_float(0x1p-25F), 0x0000);                   /* a tie, to even */
    assert_int_equal(lk_float16_of_float(0x1p-25F + 0x1p-40F), 0x0001);
    assert_int_equal(lk_float16_of_float(-0.0F), 0x8000);
    assert_true(isnan(lk_float16_to_float(lk_float16_of_float(NAN))));
}

#ifdef __FLT16_MAX__
__extension__ typedef _Float16 compiler_half;
#endif

/* The compiler's own conversions, where it has the type. */
static void half_precision_rounds_as_the_compiler_does(void **state)
{
#ifdef __FLT16_MAX__
    uint32_t bits = 1;
    for (int i = 0; i < 200000; i++) {
        bits = bits * 1664525U + 1013904223U;
        float value;
        memcpy(&value, &bits, 4);
        compiler_half half = (compiler_half)value;
        uint16_t      expected;
        memcpy(&expected, &half, 2);
        if (!isnan(value)) {
            assert_int_equal(lk_float16_of_float(value), expected);
        }
    }
#else
    skip();
#endif
}

/* RFC 3629's limits, and the sequences of Markus Kuhn's decoder test that must be refused. */
static void utf8_is_told_from_what_is_not(void **state)
{
    static const char *const good[] = {"", "plain ascii, longer than eight bytes", "\xC2\x80", "\xDF\xBF",
        "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80",
        "\xF4\x8F\xBF\xBF",
        "12345678\xE2\x82\xAC"
        "12345678",
        "\xCE\xBA\xE1\xBD\xB9\xCF\x83\xCE\xBC\xCE\xB5"};
    static const char *const bad[] = {"\x80", "\xBF", "\xC0\xAF", "\xC1\xBF", "\xC2", "\xC2\x41",
        "\xE0\x80\xAF", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x80\x80\xAF",
        "\xF0\x8F\xBF\xBF", "\xF0\x9F\x98", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF8\x88\x80\x80\x80",
        "\xFE", "\xFF", "1234567\xC3", "12345678\xE2\x28\xA1"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(lk_utf8_valid(good[i], strlen(good[i])));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (lk_utf8_valid(bad[i], strlen(bad[i]))) {
            fail_msg("bad[%zu] was accepted", i);
        }
    }
    assert_true(lk_ascii_only("twelve bytes", 12));
    assert_false(lk_ascii_only("twelve byte\x80", 12));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_give_type_layout_and_parameters),
        cmocka_unit_test(what_lake_does_not_carry_or_is_malformed_is_refused),
        cmocka_unit_test(children_must_be_as_many_as_the_type_needs),
        cmocka_unit_test(half_precision_is_exact_one_way_and_nearest_the_other),
        cmocka_unit_test(half_precision_rounds_as_the_compiler_does),
        cmocka_unit_test(utf8_is_told_from_what_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
