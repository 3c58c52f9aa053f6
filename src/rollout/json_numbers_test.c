/* json_numbers_test.c - runs against the C library's conversions, and against the cursor's own calls where a run must end. */
#include "rollout/json_numbers.h"

#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define TAIL "                                "

static void integers_are_the_library_s(void **state)
{
    lk_random *random = lk_random_os();
    for (int i = 0; i < 200000; i++) {
        char    text[96];
        int32_t value = 0;
        int     digits = 1 + (int)lk_random_below(random, 8);
        long    number = (long)lk_random_below(random, 100000000);
        for (int cut = 8; cut > digits; cut--) {
            number /= 10;
        }
        (void)snprintf(text, sizeof text, "%s%ld," TAIL, i % 3 == 0 ? "-" : i % 3 == 1 ? " " : "", number);
        lk_json_cursor c;
        lk_json_cursor_init(&c, lk_bytes_of(text));
        assert_int_equal(lk_json_take_int32_run(&c, &value, 1), 1);
        assert_int_equal(value, strtol(text, NULL, 10));
        assert_int_equal(c.at[-1], ',');
        lk_json_cursor_deinit(&c);
    }
}

static void expect_float(const char *number, bool may_end)
{
    char           text[160];
    float          value = 0, expected = strtof(number, NULL);
    lk_json_cursor c;
    (void)snprintf(text, sizeof text, "%s," TAIL, number);
    lk_json_cursor_init(&c, lk_bytes_of(text));
    size_t taken = lk_json_take_float_run(&c, &value, 1);
    assert_true(taken == 1 || may_end);
    if (taken == 1) {
        assert_memory_equal(&value, &expected, sizeof value);
    } else {
        assert_ptr_equal(c.at, text);
    }
    lk_json_cursor_deinit(&c);
}

static void floats_are_the_library_s(void **state)
{
    static const char *const texts[] = {"0", "-0", "-0.0", "0.1", "-0.0151936", "16777217", "16777216",
        "0.16777217", "16777216.5", "8388608.5", "8388609.5", "4194304.25", "4194304.75", "0.5",
        "12345678.12345678"};
    lk_random               *random = lk_random_os();
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect_float(texts[i], true);
    }
    for (int i = 0; i < 400000; i++) {
        char     number[64];
        uint32_t bits = (uint32_t)lk_random_u64(random);
        float    value;
        int      digits = 1 + (int)lk_random_below(random, 15);
        bits = (bits & 0x807FFFFF) | ((100 + bits % 45) << 23); /* about 1e-8 to 1e5: logprobs and the like */
        memcpy(&value, &bits, sizeof value);
        (void)snprintf(number, sizeof number, "%.*f", digits, (double)value);
        expect_float(number, true);
        if (digits < 8) {
            (void)snprintf(number, sizeof number, "%.*f", digits, (double)value);
            expect_float(number, false);
        }
    }
}

static void a_run_ends_before_what_is_not_plain(void **state)
{
    static const struct {
        const char *text;
        size_t      integers, floats; /* that are taken before it */
    } cases[] = {{"1,2,null,", 2, 2}, {"1,2.5,3,", 1, 3}, {"1,1e3,", 1, 1}, {"1,02,", 1, 1}, {"1,-,", 1, 1},
        {"1,2 ,", 1, 1}, {"1,  2,", 1, 1}, {"1,123456789,", 1, 1}, {"1,.5,", 1, 1}, {"1,2.,", 1, 1},
        {"1,]", 1, 1}, {"7]", 0, 0}, {"1,\"2\",", 1, 1}, {"1,0.12345678901234567,", 1, 1}, {"1,--2,", 1, 1},
        {"1,12345678.123456789,", 1, 1}, {"1,\xC3\xA9,", 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char           text[160];
        int32_t        integers[8];
        float          floats[8];
        lk_json_cursor c;
        (void)snprintf(text, sizeof text, "%s" TAIL, cases[i].text);
        lk_json_cursor_init(&c, lk_bytes_of(text));
        assert_int_equal(lk_json_take_int32_run(&c, integers, 8), cases[i].integers);
        lk_json_cursor_init(&c, lk_bytes_of(text));
        assert_int_equal(lk_json_take_float_run(&c, floats, 8), cases[i].floats);
        lk_json_cursor_deinit(&c);
    }
}

static void a_run_stays_within_the_text_and_the_room(void **state)
{
    int32_t        values[2];
    lk_json_cursor c;
    lk_json_cursor_init(&c, LK_LITERAL("1,2,3," TAIL));
    assert_int_equal(lk_json_take_int32_run(&c, values, 2), 2);
    assert_int_equal(values[1], 2);
    assert_int_equal(*c.at, '3');
    for (size_t size = 0; size < 32; size++) { /* the bytes behind it are not looked at */
        char *text = malloc(size + 1);
        assert_non_null(text);
        memset(text, '1', size);
        lk_json_cursor_init(&c, (lk_bytes){text, size});
        assert_int_equal(lk_json_take_int32_run(&c, values, 2), 0);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_the_library_s),
        cmocka_unit_test(floats_are_the_library_s),
        cmocka_unit_test(a_run_ends_before_what_is_not_plain),
        cmocka_unit_test(a_run_stays_within_the_text_and_the_room),
    };
    return cmocka_run_group_tests_name("runs of numbers", tests, NULL, NULL);
}
