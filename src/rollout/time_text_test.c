/* time_text_test.c - RFC 3339's own examples, instants that Python's datetime gave, and what is no instant. */
#include "rollout/time_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void instants_are_read_and_written_in_utc(void **state)
{
    static const struct {
        const char *text;
        int64_t     us;
        const char *utc;
    } known[] = {
        {"1985-04-12T23:20:50.52Z", 482196050520000, "1985-04-12T23:20:50.520Z"},
        {"1996-12-19T16:39:57-08:00", 851042397000000, "1996-12-20T00:39:57Z"},
        {"1937-01-01T12:00:27.87+00:20", -1041337172130000, "1937-01-01T11:40:27.870Z"},
        {"1990-12-31T23:59:60Z", 662688000000000, "1991-01-01T00:00:00Z"},
        {"2026-11-30T07:35:03.064554Z", 1796024103064554, "2026-11-30T07:35:03.064554Z"},
        {"2026-01-01t00:00:00.120+02:00", 1767218400120000, "2025-12-31T22:00:00.120Z"},
        {"2024-02-29 12:00:00.0000019z", 1709208000000001, "2024-02-29T12:00:00.000001Z"},
        {"0001-01-01T00:00:00Z", -62135596800000000, "0001-01-01T00:00:00Z"},
        {"9999-12-31T23:59:59.999999Z", 253402300799999999, "9999-12-31T23:59:59.999999Z"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        int64_t us = 0;
        char    text[LK_TIME_TEXT_MAX];
        assert_true(lk_time_read(lk_bytes_of(known[i].text), &us));
        assert_int_equal(us, known[i].us);
        size_t size = lk_time_write(us, text);
        assert_int_equal(size, strlen(known[i].utc));
        assert_memory_equal(text, known[i].utc, size);
    }
}

static void what_is_no_instant_is_refused(void **state)
{
    static const char *const texts[] = {"", "2026-01-01", "2026-01-01T00:00:00", "2026-1-01T00:00:00Z",
        "2025-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z",
        "2026-01-32T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:61Z",
        "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+0100",
        "2026-01-01T00:00:00Zx", "2026-01-01T00:00:00 Z"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int64_t us;
        assert_false(lk_time_read(lk_bytes_of(texts[i]), &us));
    }
}

static void an_instant_outside_the_years_has_no_text(void **state)
{
    char text[LK_TIME_TEXT_MAX];
    assert_int_equal(lk_time_write(INT64_MAX, text), 0);
    assert_int_equal(lk_time_write(INT64_MIN, text), 0);
    assert_int_equal(lk_time_write(253402300800000000, text), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instants_are_read_and_written_in_utc),
        cmocka_unit_test(what_is_no_instant_is_refused),
        cmocka_unit_test(an_instant_outside_the_years_has_no_text),
    };
    return cmocka_run_group_tests_name("time_text", tests, NULL, NULL);
}
