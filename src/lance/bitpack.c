/*
 * bitpack.c - see bitpack.h. One kernel per word size; the width is a run-time number because the inner loops
 * run over lanes with one shift for all, which vectorises as well as a kernel per width.
 */
#include "lance/bitpack.h"

#include "lance/cpu.h"

#include <stdbool.h>
#include <string.h>

/* The order of the eight rows of lanes in a block. */
static const uint16_t row_order[8] = {0, 4, 2, 6, 1, 5, 3, 7};

/* Where the values of row r begin: lanes are neighbours from there on. */
static inline unsigned row_start(unsigned row)
{
    return row_order[row / 8] * 16u + (row % 8) * 128u;
}

/* The four word sizes differ in the type alone. */
#define KERNELS(word, bits)                                                                            \
    LK_VECTOR static void unpack##bits(unsigned width, const word *restrict in, word *restrict out)    \
    {                                                                                                  \
        enum { LANES = LK_BITPACK_BLOCK / bits };                                                      \
        const word mask = width == bits ? (word) ~(word)0 : (word)(((uint64_t)1 << (width % 64)) - 1); \
        for (unsigned row = 0; row < bits; row++) {                                                    \
            unsigned    shift = row * width % bits;                                                    \
            const word *low = in + row * width / bits * LANES;                                         \
            word       *to = out + row_start(row);                                                     \
            if (shift + width <= bits) {                                                               \
                for (unsigned lane = 0; lane < LANES; lane++) {                                        \
                    to[lane] = (word)(low[lane] >> shift) & mask;                                      \
                }                                                                                      \
            } else {                                                                                   \
                for (unsigned lane = 0; lane < LANES; lane++) {                                        \
                    word high = (word)(low[lane + LANES] << (bits - shift));                           \
                    to[lane] = (word)((word)(low[lane] >> shift) | high) & mask;                       \
                }                                                                                      \
            }                                                                                          \
        }                                                                                              \
    }                                                                                                  \
    LK_VECTOR static void pack##bits(unsigned width, const word *restrict in, word *restrict out)      \
    {                                                                                                  \
        enum { LANES = LK_BITPACK_BLOCK / bits };                                                      \
        memset(out, 0, lk_bitpack_bytes(width));                                                       \
        for (unsigned row = 0; row < bits; row++) {                                                    \
            unsigned    shift = row * width % bits;                                                    \
            word       *low = out + row * width / bits * LANES;                                        \
            const word *from = in + row_start(row);                                                    \
            for (unsigned lane = 0; lane < LANES; lane++) {                                            \
                low[lane] = (word)(low[lane] | (word)(from[lane] << shift));                           \
            }                                                                                          \
            if (shift + width > bits) {                                                                \
                for (unsigned lane = 0; lane < LANES; lane++) {                                        \
                    low[lane + LANES] = (word)(from[lane] >> (bits - shift));                          \
                }                                                                                      \
            }                                                                                          \
        }                                                                                              \
    }                                                                                                  \
    LK_VECTOR static uint64_t or ##bits(const word *in, size_t count)                                  \
    {                                                                                                  \
        word all = 0;                                                                                  \
        for (size_t at = 0; at < count; at++) {                                                        \
            all = (word)(all | in[at]);                                                                \
        }                                                                                              \
        return all;                                                                                    \
    }

KERNELS(uint8_t, 8)
KERNELS(uint16_t, 16)
KERNELS(uint32_t, 32)
KERNELS(uint64_t, 64)

/* Words that the kernels may touch as such: an aligned copy where the caller's bytes are not. */
enum { BLOCK_BYTES_MAX = LK_BITPACK_BLOCK * 8 };

static bool aligned(const void *pointer, unsigned word_bits)
{
    return (uintptr_t)pointer % (word_bits / 8) == 0;
}

static void unpack_words(unsigned word_bits, unsigned width, const void *in, void *out)
{
    switch (word_bits) {
    case 8:
        unpack8(width, in, out);
        break;
    case 16:
        unpack16(width, in, out);
        break;
    case 32:
        unpack32(width, in, out);
        break;
    default:
        unpack64(width, in, out);
        break;
    }
}

void lk_bitpack_unpack(unsigned word_bits, unsigned width, const void *in, void *out)
{
    uint64_t copy_in[BLOCK_BYTES_MAX / 8], copy_out[BLOCK_BYTES_MAX / 8];
    if (width == 0) {
        memset(out, 0, (size_t)LK_BITPACK_BLOCK * word_bits / 8);
        return;
    }
    if (!aligned(in, word_bits)) {
        in = memcpy(copy_in, in, lk_bitpack_bytes(width));
    }
    if (aligned(out, word_bits)) {
        unpack_words(word_bits, width, in, out);
        return;
    }
    unpack_words(word_bits, width, in, copy_out);
    memcpy(out, copy_out, (size_t)LK_BITPACK_BLOCK * word_bits / 8);
}

static void pack_words(unsigned word_bits, unsigned width, const void *in, void *out)
{
    switch (word_bits) {
    case 8:
        pack8(width, in, out);
        break;
    case 16:
        pack16(width, in, out);
        break;
    case 32:
        pack32(width, in, out);
        break;
    default:
        pack64(width, in, out);
        break;
    }
}

void lk_bitpack_pack(unsigned word_bits, unsigned width, const void *in, void *out)
{
    uint64_t copy_in[BLOCK_BYTES_MAX / 8], copy_out[BLOCK_BYTES_MAX / 8];
    if (width == 0) {
        return;
    }
    if (!aligned(in, word_bits)) {
        in = memcpy(copy_in, in, (size_t)LK_BITPACK_BLOCK * word_bits / 8);
    }
    pack_words(word_bits, width, in, copy_out);
    memcpy(out, copy_out, lk_bitpack_bytes(width));
}

static uint64_t or_words(unsigned word_bits, const void *in, size_t count)
{
    switch (word_bits) {
    case 8:
        return or8(in, count);
    case 16:
        return or16(in, count);
    case 32:
        return or32(in, count);
    default:
        return or64(in, count);
    }
}

unsigned lk_bitpack_width(unsigned word_bits, const void *in, size_t count)
{
    uint64_t all = 0, copy[64];
    size_t   word_bytes = word_bits / 8, step = sizeof copy / word_bytes;
    if (aligned(in, word_bits)) {
        all = or_words(word_bits, in, count);
    } else {
        for (size_t at = 0; at < count; at += step) {
            size_t some = count - at < step ? count - at : step;
            memcpy(copy, (const char *)in + at * word_bytes, some * word_bytes);
            all |= or_words(word_bits, copy, some);
        }
    }
    return all == 0 ? 0 : 64 - (unsigned)__builtin_clzll(all);
}
