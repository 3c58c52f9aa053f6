#ifndef LK_LANCE_BITPACK_H
#define LK_LANCE_BITPACK_H
/*
 * bitpack.h - FastLanes bit packing: blocks of 1,024 unsigned words of 8, 16, 32 or 64 bits, each kept in
 * `width` bits, in the transposed order that vector units like (Afroozeh and Boncz, "The FastLanes Compression
 * Layout", 2023). width 0 keeps nothing: all values are zero.
 *
 * Kernels are chosen for the processor at load time. Pointers need no alignment. Threads: stateless.
 */
#include <stddef.h>
#include <stdint.h>

enum { LK_BITPACK_BLOCK = 1024 };

/* Bytes of one packed block. */
static inline size_t lk_bitpack_bytes(unsigned width)
{
    return (size_t)width * (LK_BITPACK_BLOCK / 8);
}

/* word_bits: 8, 16, 32, 64; width <= word_bits. out: 1,024 words; in: lk_bitpack_bytes(width). */
void lk_bitpack_unpack(unsigned word_bits, unsigned width, const void *in, void *out);

/* The inverse. Values must fit in width bits. */
void lk_bitpack_pack(unsigned word_bits, unsigned width, const void *in, void *out);

/* The bits that the largest of `count` words takes. */
unsigned lk_bitpack_width(unsigned word_bits, const void *in, size_t count);

#endif
