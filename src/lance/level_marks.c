/* level_marks.c - see level_marks.h. */
#include "lance/level_marks.h"

#include "lance/bitpack.h"
#include "lance/cpu.h"

/* Not under AddressSanitizer, so that tests see both ways. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
#include <immintrin.h>
#define LK_WIDE
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

/* The four kinds of bits that an entry can have, in the order of their levels; the first is a repetition level. */
enum { KINDS = 4, BLOCK_WORDS = LK_BITPACK_BLOCK / 64 };

static size_t words_for(uint64_t count)
{
    return (size_t)(count / 64 + 2);
}

/* -- one level's bits --------------------------------------------------------------------------------- */
/* Which of 64 levels are `level`. */
static uint64_t equal64(const uint16_t *levels, uint16_t level)
{
    uint64_t bits = 0;
#ifdef __SSE2__
    const __m128i same = _mm_set1_epi16((int16_t)level);
    for (unsigned part = 0; part < 4; part++) {
        const __m128i *at = (const __m128i *)(const void *)(levels + 16 * part);
        __m128i        low = _mm_cmpeq_epi16(_mm_loadu_si128(at), same);
        __m128i        high = _mm_cmpeq_epi16(_mm_loadu_si128(at + 1), same);
        bits |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_packs_epi16(low, high)) << (16 * part);
    }
#else
    for (unsigned at = 0; at < 64; at++) {
        bits |= (uint64_t)(levels[at] == level) << at;
    }
#endif
    return bits;
}

static void equal_bits(const uint16_t *levels, uint64_t count, uint16_t level, uint64_t *out)
{
    uint64_t at = 0, last = 0;
    for (; at + 64 <= count; at += 64) {
        *out++ = equal64(levels + at, level);
    }
    for (uint64_t rest = at; rest < count; rest++) {
        last |= (uint64_t)(levels[rest] == level) << (rest - at);
    }
    out[0] = last;
    out[1] = 0;
}

LK_VECTOR static uint16_t highest(const uint16_t *levels, uint64_t count)
{
    uint16_t most = 0;
    for (uint64_t at = 0; at < count; at++) {
        most = levels[at] > most ? levels[at] : most;
    }
    return most;
}

/* One packed block of words of one bit, in the order of its values: bit r of the 64 lanes are neighbours (bitpack.c). */
static unsigned place_of(unsigned row)
{
    return 2 * (row % 8) + row / 8;
}

#ifdef __SSE2__
static void unpack_bits_plain(const uint8_t *packed, uint64_t out[BLOCK_WORDS])
{
    __m128i lanes[8];
    for (unsigned i = 0; i < 8; i++) {
        lanes[i] = _mm_loadu_si128((const __m128i *)(const void *)packed + i);
    }
    for (unsigned row = 16; row-- > 0;) { /* its bit is the highest of every lane */
        uint64_t word = 0;
        for (unsigned i = 0; i < 8; i += 2) {
            unsigned some = (unsigned)_mm_movemask_epi8(_mm_packs_epi16(lanes[i], lanes[i + 1]));
            word |= (uint64_t)some << (8 * i);
            lanes[i] = _mm_add_epi16(lanes[i], lanes[i]);
            lanes[i + 1] = _mm_add_epi16(lanes[i + 1], lanes[i + 1]);
        }
        out[place_of(row)] = word;
    }
}
#else
static void unpack_bits_plain(const uint8_t *packed, uint64_t out[BLOCK_WORDS])
{
    for (unsigned row = 0; row < 16; row++) {
        uint64_t word = 0;
        for (unsigned lane = 0; lane < 64; lane++) {
            word |= (uint64_t)(lk_load_u16(packed + lane * 2) >> row & 1U) << lane;
        }
        out[place_of(row)] = word;
    }
}
#endif

#ifdef LK_WIDE
__attribute__((target("avx512bw"))) static void unpack_bits_wide(
    const uint8_t *packed, uint64_t out[BLOCK_WORDS])
{
    __m512i low = _mm512_loadu_si512(packed), high = _mm512_loadu_si512(packed + 64);
    for (unsigned row = 0; row < 16; row++) {
        __m512i  bit = _mm512_set1_epi16((int16_t)(uint16_t)(1U << row));
        uint64_t first = _mm512_test_epi16_mask(low, bit), second = _mm512_test_epi16_mask(high, bit);
        out[place_of(row)] = first | second << 32;
    }
}
#endif

static void unpack_bits(const uint8_t *packed, uint64_t out[BLOCK_WORDS])
{
#ifdef LK_WIDE
    if (__builtin_cpu_supports("avx512bw")) {
        unpack_bits_wide(packed, out);
        return;
    }
#endif
    unpack_bits_plain(packed, out);
}

/* -- blocks ------------------------------------------------------------------------------------------- */
static lk_rc damaged(const char *what, lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "levels of a list: %s", what);
}

static bool is_one_bit(const lk_encoding *encoding)
{
    return encoding->kind == LK_ENCODING_OUT_OF_LINE_BITPACKING && encoding->bits == 16 &&
           encoding->values->bits == 1;
}

/* The tail of a packed block is a block of its own, or plain words where these are fewer bytes. */
static lk_rc read_tail(lk_bytes rest, unsigned tail, uint64_t *out, lk_err *err)
{
    uint64_t whole[BLOCK_WORDS];
    if (rest.size == tail * 2) {
        uint16_t levels[LK_BITPACK_BLOCK];
        memcpy(levels, rest.data, rest.size);
        equal_bits(levels, tail, 1, out);
        return highest(levels, tail) <= 1 ? LK_OK : damaged("one above 1", err);
    }
    if (rest.size < lk_bitpack_bytes(1)) {
        return damaged("a block ends early", err);
    }
    unpack_bits((const uint8_t *)rest.data, whole);
    unsigned words = tail / 64;
    memcpy(out, whole, words * sizeof *out);
    out[words] = tail % 64 == 0 ? 0 : whole[words] & (((uint64_t)1 << tail % 64) - 1);
    out[words + 1] = 0;
    return LK_OK;
}

static lk_rc read_one_bit(lk_bytes block, uint64_t count, uint64_t *out, lk_err *err)
{
    size_t   size = lk_bitpack_bytes(1);
    uint64_t full = count / LK_BITPACK_BLOCK;
    unsigned tail = (unsigned)(count % LK_BITPACK_BLOCK);
    if (block.size / size < full) {
        return damaged("a block ends early", err);
    }
    for (uint64_t at = 0; at < full; at++) {
        unpack_bits((const uint8_t *)block.data + at * size, out + at * BLOCK_WORDS);
    }
    lk_bytes rest = {block.data + full * size, block.size - (size_t)full * size};
    out += full * BLOCK_WORDS;
    if (tail == 0) {
        out[0] = out[1] = 0;
        return LK_OK;
    }
    return read_tail(rest, tail, out, err);
}

/* -- marks -------------------------------------------------------------------------------------------- */
/* Which definition level means what; 0: none does. Returns the highest. */
static uint16_t levels_of(const lk_page_layout *layout, uint16_t means[KINDS])
{
    uint8_t  list = layout->layers[1];
    uint16_t level = 0;
    memset(means, 0, KINDS * sizeof *means);
    if (layout->layers[0] == LK_LAYER_NULLABLE_ITEM) {
        means[1] = ++level;
    }
    if (list == LK_LAYER_NULLABLE_LIST || list == LK_LAYER_NULL_AND_EMPTY_LIST) {
        means[2] = ++level;
    }
    if (list == LK_LAYER_EMPTYABLE_LIST || list == LK_LAYER_NULL_AND_EMPTY_LIST) {
        means[3] = ++level;
    }
    return level;
}

static void put_defs(const uint16_t *def, uint64_t count, const uint16_t means[KINDS], uint64_t *bits[KINDS])
{
    for (unsigned kind = 1; kind < KINDS; kind++) {
        if (means[kind] > 0) {
            equal_bits(def, count, means[kind], bits[kind]);
        }
    }
}

/* NULL for the kinds that there are none of. */
static void hand_out(
    uint64_t *const bits[KINDS], const uint16_t means[KINDS], bool defs, uint64_t count, lk_marks *out)
{
    *out = (lk_marks){.starts = bits[0],
        .item_nulls = defs && means[1] > 0 ? bits[1] : NULL,
        .list_nulls = defs && means[2] > 0 ? bits[2] : NULL,
        .list_empties = defs && means[3] > 0 ? bits[3] : NULL,
        .count = count};
}

static void cut_bits(uint8_t *data, uint64_t count, uint64_t *bits[KINDS])
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        bits[kind] = (uint64_t *)(void *)data + kind * words_for(count);
    }
}

static lk_rc read_defs(const lk_encoding *encoding, lk_bytes block, uint64_t count,
    const uint16_t means[KINDS], uint16_t most, uint16_t *words, uint64_t *bits[KINDS], lk_scratch *scratch,
    lk_err *err)
{
    if (most == 1 && is_one_bit(encoding)) {
        unsigned kind = means[1] > 0 ? 1 : means[2] > 0 ? 2 : 3;
        return read_one_bit(block, count, bits[kind], err);
    }
    lk_rc rc = lk_levels_read(encoding, block, count, words, scratch, err);
    if (rc == LK_OK && highest(words, count) > most) {
        rc = damaged("one that no layer has", err);
    }
    if (rc == LK_OK) {
        put_defs(words, count, means, bits);
    }
    return rc;
}

lk_rc lk_marks_read(const lk_page_layout *layout, lk_bytes rep, lk_bytes def, uint64_t count,
    lk_scratch *scratch, lk_marks *out, lk_err *err)
{
    uint64_t *bits[KINDS];
    uint16_t  means[KINDS], most = levels_of(layout, means);
    size_t    size = KINDS * words_for(count) * sizeof(uint64_t);
    lk_rc     rc = lk_buffer_grow(
            scratch->pool, &scratch->levels, 0, size + (size_t)(count + LK_BITPACK_BLOCK) * 2, err);
    if (rc != LK_OK) {
        return rc;
    }
    uint16_t *words = (uint16_t *)(void *)(scratch->levels.data + size);
    cut_bits(scratch->levels.data, count, bits);
    if (is_one_bit(layout->rep)) {
        rc = read_one_bit(rep, count, bits[0], err);
    } else {
        rc = lk_levels_read(layout->rep, rep, count, words, scratch, err);
        if (rc == LK_OK && highest(words, count) > 1) {
            rc = damaged("one above 1", err);
        }
        if (rc == LK_OK) {
            equal_bits(words, count, 1, bits[0]);
        }
    }
    if (rc == LK_OK && layout->def != NULL) {
        rc = read_defs(layout->def, def, count, means, most, words, bits, scratch, err);
    }
    hand_out(bits, means, layout->def != NULL, count, out);
    return rc;
}

lk_rc lk_marks_of(const lk_page_layout *layout, const uint16_t *rep, const uint16_t *def, uint64_t count,
    lk_buffer_pool *pool, lk_buffer *into, lk_marks *out, lk_err *err)
{
    uint64_t *bits[KINDS];
    uint16_t  means[KINDS], most = levels_of(layout, means);
    size_t    size = KINDS * words_for(count) * sizeof(uint64_t);
    lk_rc     rc = lk_buffer_grow(pool, into, 0, size, err);
    if (rc != LK_OK) {
        return rc;
    }
    cut_bits(into->data, count, bits);
    if ((rep != NULL && highest(rep, count) > 1) || (def != NULL && highest(def, count) > most)) {
        return damaged("one that no layer has", err);
    }
    if (rep != NULL) {
        equal_bits(rep, count, 1, bits[0]);
    } else {
        memset(bits[0], 0, words_for(count) * sizeof(uint64_t));
    }
    if (def != NULL) {
        put_defs(def, count, means, bits);
    }
    hand_out(bits, means, def != NULL, count, out);
    return LK_OK;
}

/* -- looking ------------------------------------------------------------------------------------------ */
static uint64_t lowest(uint64_t bits)
{
    return bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

LK_VECTOR uint64_t lk_marks_find(const lk_marks *marks, uint64_t from, uint64_t rows, uint64_t *passed)
{
    *passed = 0;
    for (uint64_t at = from; at < marks->count; at += 64) {
        uint64_t word = lk_marks_word(marks->starts, at);
        uint64_t here = (uint64_t)__builtin_popcountll(word);
        if (*passed + here <= rows) {
            *passed += here;
            continue;
        }
        for (; *passed < rows; ++*passed) {
            word &= word - 1;
        }
        return at + (uint64_t)__builtin_ctzll(word);
    }
    return marks->count;
}

LK_VECTOR uint64_t lk_marks_values(const lk_marks *marks, uint64_t from, uint64_t end)
{
    uint64_t hidden = 0;
    for (uint64_t at = from; at < end && (marks->list_nulls != NULL || marks->list_empties != NULL);
         at += 64) {
        hidden += (uint64_t)__builtin_popcountll(lk_marks_hidden(marks, at) & lowest(end - at));
    }
    return end - from - hidden;
}
