/* clock_test.c - the real clock moves forward; the manual one only when told. */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void the_real_clock_sleeps_at_least_as_long_as_asked(void **state)
{
    lk_clock *clock = lk_clock_real();
    uint64_t  before = lk_clock_now_us();
    lk_clock_sleep_ms(clock, 20);
    assert_true(lk_clock_now_us() - before >= 20000);
    assert_true(lk_clock_wall_ms(clock) > 1577836800000u); /* 2020 */
    assert_true(lk_clock_monotonic_ms(clock) >= before / 1000);
}

static void the_manual_clock_moves_only_by_sleeping(void **state)
{
    lk_manual_clock manual;
    lk_manual_clock_init(&manual, 1000);
    uint64_t before = lk_clock_monotonic_ms(&manual.base);
    assert_int_equal(lk_clock_wall_ms(&manual.base), 1000);
    lk_clock_sleep_ms(&manual.base, 250);
    assert_int_equal(lk_clock_wall_ms(&manual.base), 1250);
    assert_int_equal(lk_clock_monotonic_ms(&manual.base) - before, 250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_real_clock_sleeps_at_least_as_long_as_asked),
        cmocka_unit_test(the_manual_clock_moves_only_by_sleeping),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
