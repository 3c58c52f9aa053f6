/* rollout_remote_test.c - how long a client waits between tries, and what it escapes in a path. */
#include "cli/rollout_remote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void an_answer_says_how_long_to_wait(void **state)
{
    static const struct {
        const char *text;
        uint64_t    wait_ms;
    } cases[] = {{"0", 0}, {"1", 1000}, {"59", 59000}, {"60", 60000}, {"61", 60000}, {"9999999", 60000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(
            lk_rollout_retry_wait_ms(1, lk_bytes_of(cases[i].text), lk_random_os()), cases[i].wait_ms);
    }
}

static void without_it_waits_double_and_differ(void **state)
{
    lk_seeded_random random;
    lk_seeded_random_init(&random, 7);
    uint64_t longest = 100;
    for (unsigned attempt = 1; attempt < 40; attempt++) {
        uint64_t wait_ms = lk_rollout_retry_wait_ms(attempt, (lk_bytes){0}, &random.base);
        assert_true(wait_ms >= longest / 2 && wait_ms <= longest);
        longest = longest * 2 < 10000 ? longest * 2 : 10000;
    }
    /* A date is no number of seconds. */
    assert_true(
        lk_rollout_retry_wait_ms(1, LK_LITERAL("Wed, 21 Oct 2026 07:28:00 GMT"), &random.base) <= 100);
}

static void everything_with_a_meaning_in_a_url_is_escaped(void **state)
{
    lk_buf out = {0};
    lk_rollout_path_escape(LK_LITERAL("a/b c'\";--\xc3\xa9?x=1&y#%~._-Z9"), &out);
    lk_buf_append(&out, "", 1);
    assert_string_equal(out.data, "a%2Fb%20c%27%22%3B--%C3%A9%3Fx%3D1%26y%23%25~._-Z9");
    lk_buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_says_how_long_to_wait),
        cmocka_unit_test(without_it_waits_double_and_differ),
        cmocka_unit_test(everything_with_a_meaning_in_a_url_is_escaped),
    };
    return cmocka_run_group_tests_name("rollout_remote", tests, NULL, NULL);
}
