/* rand_test.c - the generators' published outputs, and uniform bounds. */
#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* splitmix64 from seed 0, as its authors publish it; it fills the state. */
static void a_seed_is_spread_by_splitmix64(void **state)
{
    lk_seeded_random random;
    lk_seeded_random_init(&random, 0);
    static const uint64_t expected[4] = {
        0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC};
    assert_memory_equal(random.state, expected, sizeof expected);
}

/* xoshiro256** from the state 1 2 3 4: the vector that its reference implementations share. */
static void the_seeded_generator_is_xoshiro256_starstar(void **state)
{
    lk_seeded_random random;
    lk_seeded_random_init(&random, 0);
    static const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240};
    memcpy(random.state, (uint64_t[]){1, 2, 3, 4}, sizeof random.state);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(lk_random_u64(&random.base), expected[i]);
    }
}

static void bounded_values_cover_the_bound_evenly(void **state)
{
    lk_seeded_random random;
    unsigned         counts[6] = {0};
    lk_seeded_random_init(&random, 42);
    for (int i = 0; i < 60000; i++) {
        uint64_t value = lk_random_below(&random.base, 6);
        assert_true(value < 6);
        counts[value]++;
    }
    for (int i = 0; i < 6; i++) {
        assert_in_range(counts[i], 9500, 10500); /* five standard deviations of 91 */
    }
    assert_int_equal(lk_random_below(&random.base, 1), 0);
}

static void the_system_fills_every_byte(void **state)
{
    uint8_t seen[64] = {0};
    for (int i = 0; i < 64; i++) { /* a byte is zero 64 times with chance 2^-512 */
        uint8_t bytes[64] = {0};
        lk_random_os()->fill(lk_random_os(), bytes, sizeof bytes);
        for (int at = 0; at < 64; at++) {
            seen[at] |= bytes[at];
        }
    }
    for (int at = 0; at < 64; at++) {
        assert_int_not_equal(seen[at], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_is_spread_by_splitmix64),
        cmocka_unit_test(the_seeded_generator_is_xoshiro256_starstar),
        cmocka_unit_test(bounded_values_cover_the_bound_evenly),
        cmocka_unit_test(the_system_fills_every_byte),
    };
    return cmocka_run_group_tests_name("rand", tests, NULL, NULL);
}
