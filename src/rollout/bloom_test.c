/* bloom_test.c - the filter that lance-context 0.6.3 wrote for two ids, and what a filter promises. */
#include "rollout/bloom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

typedef struct word {
    size_t   at;
    uint32_t value;
} word;

/* Every word that is not zero in the filter of a generation with the ids "a" and "b b". */
static const word golden[] = {{1064, 0x80000000}, {1065, 0x100}, {1066, 0x1000}, {1067, 0x100000},
    {1068, 0x800000}, {1069, 0x10000}, {1070, 0x40}, {1071, 0x800}, {4432, 0x4000000}, {4433, 0x20},
    {4434, 0x100}, {4435, 0x1000000}, {4436, 0x1000000}, {4437, 0x200}, {4438, 0x40000000}, {4439, 0x80}};

static void two_ids_give_the_bytes_that_the_reference_wrote(void **state)
{
    static uint8_t filter[LK_BLOOM_SIZE], expected[LK_BLOOM_SIZE];
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        lk_store_u32(expected + 4 * golden[i].at, golden[i].value);
    }
    lk_bloom_add(filter, lk_bloom_hash(LK_LITERAL("a")));
    lk_bloom_add(filter, lk_bloom_hash(LK_LITERAL("b b")));
    assert_memory_equal(filter, expected, sizeof filter);
}

/* As a reader asks: Parquet's specification of split-block filters. */
static bool may_have(const uint8_t *filter, uint64_t hash)
{
    static const uint32_t salts[] = {
        0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31};
    const uint8_t *block = filter + ((hash >> 32) * (LK_BLOOM_SIZE / 32) >> 32) * 32;
    bool           all = true;
    for (size_t i = 0; i < 8; i++) {
        all = all && (lk_load_u32(block + 4 * i) >> (((uint32_t)hash * salts[i]) >> 27) & 1) == 1;
    }
    return all;
}

static void ids_of_every_length_are_found_and_others_hardly_ever(void **state)
{
    static uint8_t filter[LK_BLOOM_SIZE];
    char           text[80];
    size_t         wrong = 0;
    for (int i = 0; i < 4000; i++) {
        snprintf(text, sizeof text, "%0*d", 1 + i % 60, i);
        lk_bloom_add(filter, lk_bloom_hash(lk_bytes_of(text)));
    }
    for (int i = 0; i < 4000; i++) {
        snprintf(text, sizeof text, "%0*d", 1 + i % 60, i);
        assert_true(may_have(filter, lk_bloom_hash(lk_bytes_of(text))));
        snprintf(text, sizeof text, "other-%d", i);
        wrong += may_have(filter, lk_bloom_hash(lk_bytes_of(text)));
    }
    assert_in_range(wrong, 0, 20); /* 0.00057 at 8,192 ids */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ids_give_the_bytes_that_the_reference_wrote),
        cmocka_unit_test(ids_of_every_length_are_found_and_others_hardly_ever),
    };
    return cmocka_run_group_tests_name("bloom", tests, NULL, NULL);
}
