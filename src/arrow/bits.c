/* bits.c - see bits.h. Whole words where possible, single bits at the edges. */
#include "arrow/bits.h"

/* Up to 64 bits starting anywhere; reads only bytes that hold asked-for bits. */
static uint64_t load_bits(const uint8_t *bits, int64_t start, int64_t count)
{
    const uint8_t *from = bits + (start >> 3);
    unsigned       skip = (unsigned)(start & 7);
    size_t         size = (size_t)((skip + (uint64_t)count + 7) / 8);
    uint64_t       word = 0;
    memcpy(&word, from, size < 8 ? size : 8);
    word >>= skip;
    if (size > 8) {
        word |= (uint64_t)from[8] << (64 - skip);
    }
    return count == 64 ? word : word & ((1ULL << count) - 1);
}

int64_t lk_bits_count(const uint8_t *bits, int64_t start, int64_t count)
{
    if (bits == NULL) {
        return count;
    }
    int64_t ones = 0;
    for (int64_t done = 0; done < count; done += 64) {
        int64_t step = count - done < 64 ? count - done : 64;
        ones += __builtin_popcountll(load_bits(bits, start + done, step));
    }
    return ones;
}

static void copy_edge(const uint8_t *from, int64_t from_start, uint8_t *to, int64_t to_start, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (lk_bit_or_one(from, from_start + i)) {
            lk_bit_set(to, to_start + i);
        }
    }
}

void lk_bits_copy(const uint8_t *from, int64_t from_start, uint8_t *to, int64_t to_start, int64_t count)
{
    int64_t edge = -to_start & 7;
    if (edge > count || count < 16) {
        edge = count;
    }
    copy_edge(from, from_start, to, to_start, edge);
    int64_t done = edge;
    while (count - done >= 8) {
        int64_t  step = count - done < 64 ? (count - done) & ~7 : 64;
        uint64_t word = from == NULL ? UINT64_MAX : load_bits(from, from_start + done, step);
        memcpy(to + ((to_start + done) >> 3), &word, (size_t)step / 8);
        done += step;
    }
    copy_edge(from, from_start + done, to, to_start + done, count - done);
}

void lk_bits_expand(const uint8_t *bits, int64_t start, int64_t count, uint8_t *out)
{
    if (bits == NULL) {
        memset(out, 1, (size_t)count);
        return;
    }
    int64_t done = 0;
    for (; done + 8 <= count; done += 8) {
        /* the byte in all eight lanes, lane i keeping bit i; then any bit of a lane to its bit 0 */
        uint64_t lanes = (load_bits(bits, start + done, 8) * 0x0101010101010101ULL) & 0x8040201008040201ULL;
        uint64_t spread = ((lanes + 0x7F7F7F7F7F7F7F7FULL) >> 7) & 0x0101010101010101ULL;
        memcpy(out + done, &spread, 8);
    }
    for (; done < count; done++) {
        out[done] = lk_bit(bits, start + done);
    }
}
