/* bitpack_test.c - the order of packed bits is FastLanes'; every width comes back. */
#include "lance/bitpack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static uint64_t value_of(unsigned index, unsigned width)
{
    uint64_t value = (index + 1) * 0x9e3779b97f4a7c15U;
    return width == 64 ? value : value & (((uint64_t)1 << width) - 1);
}

/* The published layout, bit by bit: row r of lane l is value order[r / 8] * 16 + (r % 8) * 128 + l; a lane packs
 * its rows low bits first into words that lie `lanes` apart. */
static unsigned packed_bit(
    const uint8_t *packed, unsigned word_bits, unsigned width, unsigned lane, unsigned row, unsigned bit)
{
    unsigned lanes = LK_BITPACK_BLOCK / word_bits, at = row * width + bit;
    size_t   word = (size_t)(at / word_bits) * lanes + lane, place = word * word_bits + at % word_bits;
    return packed[place / 8] >> place % 8 & 1;
}

static void check_width(unsigned word_bits, unsigned width)
{
    static const unsigned order[] = {0, 4, 2, 6, 1, 5, 3, 7};
    uint8_t in[LK_BITPACK_BLOCK * 8 + 1], out[LK_BITPACK_BLOCK * 8 + 1], packed[LK_BITPACK_BLOCK * 8];
    size_t  word = word_bits / 8, size = LK_BITPACK_BLOCK * word;
    for (unsigned i = 0; i < LK_BITPACK_BLOCK; i++) {
        uint64_t value = value_of(i, width);
        memcpy(in + 1 + i * word, &value, word); /* not aligned, on purpose */
    }
    lk_bitpack_pack(word_bits, width, in + 1, packed);
    for (unsigned row = 0; row < word_bits; row++) {
        for (unsigned lane = 0; lane < LK_BITPACK_BLOCK / word_bits; lane++) {
            uint64_t value = value_of(order[row / 8] * 16 + row % 8 * 128 + lane, width);
            for (unsigned bit = 0; bit < width; bit++) {
                assert_int_equal(packed_bit(packed, word_bits, width, lane, row, bit), value >> bit & 1);
            }
        }
    }
    lk_bitpack_unpack(word_bits, width, packed, out + 1);
    assert_memory_equal(in + 1, out + 1, size);
    lk_bitpack_unpack(word_bits, width, packed, out);
    assert_memory_equal(in + 1, out, size);
}

static void packed_bits_lie_where_the_format_says(void **state)
{
    (void)state;
    for (unsigned word_bits = 8; word_bits <= 64; word_bits *= 2) {
        for (unsigned width = 1; width <= word_bits; width++) {
            check_width(word_bits, width);
        }
    }
}

static void width_zero_is_all_zeros(void **state)
{
    (void)state;
    uint32_t out[LK_BITPACK_BLOCK];
    memset(out, 0xff, sizeof out);
    lk_bitpack_unpack(32, 0, NULL, out);
    for (size_t i = 0; i < LK_BITPACK_BLOCK; i++) {
        assert_int_equal(out[i], 0);
    }
}

static void the_width_is_that_of_the_largest_word(void **state)
{
    (void)state;
    uint8_t bytes[5 * 8 + 1] = {0};
    for (unsigned word_bits = 8; word_bits <= 64; word_bits *= 2) {
        for (unsigned width = 0; width <= word_bits; width++) {
            uint64_t value = width == 0 ? 0 : (uint64_t)1 << (width - 1);
            memset(bytes, 0, sizeof bytes);
            memcpy(bytes + 1 + 3 * (word_bits / 8), &value, word_bits / 8);
            assert_int_equal(lk_bitpack_width(word_bits, bytes + 1, 5), width);
            assert_int_equal(lk_bitpack_width(word_bits, bytes + 1, 3), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_bits_lie_where_the_format_says),
        cmocka_unit_test(width_zero_is_all_zeros),
        cmocka_unit_test(the_width_is_that_of_the_largest_word),
    };
    return cmocka_run_group_tests_name("lance/bitpack", tests, NULL, NULL);
}
