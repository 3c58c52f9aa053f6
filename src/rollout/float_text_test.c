/* float_text_test.c - the C library's correctly rounded conversions are the judge, over edges and random floats. */
#include "rollout/float_text.h"

#include "base/rand.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void reads_like_the_library(const char *text)
{
    float       value = 0;
    const char *end = text + strlen(text), *next = NULL;
    assert_true(lk_float_read(text, end, &value, &next));
    assert_ptr_equal(next, end);
    float expected = strtof(text, NULL);
    assert_memory_equal(&value, &expected, sizeof value);
}

static void numbers_are_rounded_to_the_nearest_float(void **state)
{
    static const char *const texts[] = {"0", "-0", "0.0", "-0.0e5", "1", "0.1", "-0.12345678806304932",
        "16777217", "16777216.999999999999999999", "16777217.000000000000000000000000001", "1e-45", "7.0e-46",
        "1.1754942e-38", "1.17549435e-38", "3.4028234e38", "3.4028235677973362e+38", "9007199254740993",
        "18446744073709551615", "18446744073709551616", "123456789012345678901234567890", "1E+3", "1e-400",
        "0.000000000000000000000001", "1.00000005960464477539062500000", "1.00000005960464477539062500001",
        "1.0000000596046447753906249999"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        reads_like_the_library(texts[i]);
    }
}

static void what_json_does_not_allow_is_no_number(void **state)
{
    static const char *const texts[] = {"", "-", "+1", ".5", "1.", "01", "-01", "1e", "1e+", "NaN",
        "Infinity", "1e39", "-3.5e38", "3.4028236e38", "1e999999999999", "e5"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        float       value;
        const char *next;
        assert_false(lk_float_read(texts[i], texts[i] + strlen(texts[i]), &value, &next));
    }
}

static void a_number_ends_where_it_ends(void **state)
{
    float       value;
    const char *next, *text = "1.5,2";
    assert_true(lk_float_read(text, text + 5, &value, &next));
    assert_ptr_equal(next, text + 3);
    assert_true(lk_float_read(text, text + 3, &value, &next));
    assert_false(lk_float_read(text, text + 2, &value, &next));
}

/* As few digits as any decimal that the library reads as the same float, and no other float. */
static void is_shortest(float value)
{
    char        text[LK_FLOAT_TEXT_MAX + 1], other[64];
    float       again;
    const char *next;
    size_t      size = lk_float_write(value, text);
    assert_in_range(size, 3, LK_FLOAT_TEXT_MAX);
    text[size] = '\0';
    again = strtof(text, NULL);
    assert_memory_equal(&again, &value, sizeof value);
    assert_true(lk_float_read(text, text + size, &again, &next));
    assert_memory_equal(&again, &value, sizeof value);

    size_t digits = 0, last = 0; /* without zeros on both ends */
    for (size_t i = 0; i < size && text[i] != 'e'; i++) {
        if (text[i] >= '0' && text[i] <= '9' && (digits > 0 || text[i] != '0')) {
            digits++;
            last = text[i] != '0' ? digits : last;
        }
    }
    if (last > 1) {
        snprintf(other, sizeof other, "%.*e", (int)last - 2, (double)value);
        assert_true(strtof(other, NULL) != value);
    }
}

static void floats_are_written_in_the_fewest_digits(void **state)
{
    static const struct {
        float       value;
        const char *text;
    } known[] = {{0.1F, "0.1"}, {1, "1.0"}, {-0.0F, "-0.0"}, {1e16F, "1e16"}, {1e15F, "1000000000000000.0"},
        {1.5e-5F, "0.000015"}, {1e-6F, "1e-6"}, {123456789.0F, "123456790.0"}, {3.4e38F, "3.4e38"},
        {1e-45F, "1e-45"}, {16777216, "16777216.0"}, {FLT_MAX, "3.4028235e38"}, {FLT_MIN, "1.1754944e-38"},
        {-2.5F, "-2.5"}, {9.999999e9F, "9999999000.0"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char   text[LK_FLOAT_TEXT_MAX];
        size_t size = lk_float_write(known[i].value, text);
        assert_int_equal(size, strlen(known[i].text));
        assert_memory_equal(text, known[i].text, size);
        is_shortest(known[i].value);
    }
}

static void any_float_survives_both_ways(void **state)
{
    lk_seeded_random random;
    lk_seeded_random_init(&random, 20260101);
    for (int i = 0; i < 200000; i++) {
        uint32_t bits;
        float    value;
        random.base.fill(&random.base, &bits, sizeof bits);
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value) != 0) {
            char wide[48];
            is_shortest(value);
            snprintf(wide, sizeof wide, "%.17g", (double)value * 1.0000000001);
            if (strtof(wide, NULL) <= FLT_MAX && strtof(wide, NULL) >= -FLT_MAX) {
                reads_like_the_library(wide);
            }
        }
    }
}

/* About the middle between two floats the first rounding, to a double, may hide on which side of it the number is. */
static void numbers_about_the_middle_between_floats_are_on_the_right_side(void **state)
{
    lk_seeded_random random;
    lk_seeded_random_init(&random, 20260102);
    for (int i = 0; i < 20000; i++) {
        uint32_t bits;
        random.base.fill(&random.base, &bits, sizeof bits);
        float  value = (float)(bits >> 8) / 16777216.0F * (float)(1 << (bits & 15));
        double middle = ((double)value + (double)nextafterf(value, FLT_MAX)) / 2;
        char   text[48];
        for (int digits = 6; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, middle);
            reads_like_the_library(text);
            snprintf(text, sizeof text, "%.*f", digits, middle);
            reads_like_the_library(text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_rounded_to_the_nearest_float),
        cmocka_unit_test(what_json_does_not_allow_is_no_number),
        cmocka_unit_test(a_number_ends_where_it_ends),
        cmocka_unit_test(floats_are_written_in_the_fewest_digits),
        cmocka_unit_test(any_float_survives_both_ways),
        cmocka_unit_test(numbers_about_the_middle_between_floats_are_on_the_right_side),
    };
    return cmocka_run_group_tests_name("float_text", tests, NULL, NULL);
}
