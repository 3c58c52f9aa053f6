#ifndef LK_ARROW_BITS_H
#define LK_ARROW_BITS_H
/*
 * bits.h - bitmaps: least significant bit first, as Arrow has them. A NULL bitmap means all ones.
 * Writers set bits in zeroed memory. Threads: stateless.
 */
#include "base/bytes.h"

static inline bool lk_bit(const uint8_t *bits, int64_t index)
{
    return (bits[index >> 3] >> (index & 7)) & 1;
}

static inline bool lk_bit_or_one(const uint8_t *bits, int64_t index)
{
    return bits == NULL || lk_bit(bits, index);
}

static inline void lk_bit_set(uint8_t *bits, int64_t index)
{
    bits[index >> 3] = (uint8_t)(bits[index >> 3] | (1U << (index & 7)));
}

static inline size_t lk_bits_size(int64_t count)
{
    return (size_t)((count + 7) / 8);
}

/* The ones in [start, start + count). */
int64_t lk_bits_count(const uint8_t *bits, int64_t start, int64_t count);

/* to[to_start ...] |= from[from_start ...], count bits; from NULL: ones. The target bits must be zero. */
void lk_bits_copy(const uint8_t *from, int64_t from_start, uint8_t *to, int64_t to_start, int64_t count);

/* One byte (0 or 1) a bit. */
void lk_bits_expand(const uint8_t *bits, int64_t start, int64_t count, uint8_t *out);

#endif
