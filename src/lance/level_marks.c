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

/* Bits of starts, hidden entries, and nulls by layer. */
enum { KINDS = 2 + LK_MARK_LAYERS_MAX, BLOCK_WORDS = LK_BITPACK_BLOCK / 64 };

static size_t words_for(uint64_t count)
{
    return (size_t)(count / 64 + 2);
}

/* -- some levels' bits -------------------------------------------------------------------------------- */
/* Levels [low, high]; they are far below 2^15. */
typedef struct range {
    uint16_t low, high;
} range;

static bool within(uint16_t level, range of)
{
    return level >= of.low && level <= of.high;
}

/* Which of 64 levels are within the range. */
static uint64_t within64(const uint16_t *levels, range of)
{
    uint64_t bits = 0;
#ifdef __SSE2__
    const __m128i below = _mm_set1_epi16((int16_t)(of.low - 1)),
                  above = _mm_set1_epi16((int16_t)(of.high + 1));
    for (unsigned part = 0; part < 4; part++) {
        const __m128i *at = (const __m128i *)(const void *)(levels + 16 * part);
        __m128i        one = _mm_loadu_si128(at), two = _mm_loadu_si128(at + 1);
        __m128i        low = _mm_and_si128(_mm_cmpgt_epi16(one, below), _mm_cmpgt_epi16(above, one));
        __m128i        high = _mm_and_si128(_mm_cmpgt_epi16(two, below), _mm_cmpgt_epi16(above, two));
        bits |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_packs_epi16(low, high)) << (16 * part);
    }
#else
    for (unsigned at = 0; at < 64; at++) {
        bits |= (uint64_t)within(levels[at], of) << at;
    }
#endif
    return bits;
}

static void range_bits(const uint16_t *levels, uint64_t count, range of, uint64_t *out)
{
    uint64_t at = 0, last = 0;
    for (; at + 64 <= count; at += 64) {
        *out++ = within64(levels + at, of);
    }
    for (uint64_t rest = at; rest < count; rest++) {
        last |= (uint64_t)within(levels[rest], of) << (rest - at);
    }
    out[0] = last;
    out[1] = 0;
}

static const range one_range = {1, 1};

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
        range_bits(levels, tail, one_range, out);
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
/* What the definition levels of a layout mean. */
typedef struct meaning {
    range    hidden, nulls[LK_MARK_LAYERS_MAX]; /* low above high: no level */
    uint16_t most, empty; /* empty: the one among the list's nulls that is none; 0: there is no such */
    size_t   list, layer_count;
} meaning;

static meaning meaning_of(const lk_page_layout *layout)
{
    meaning  m = {.layer_count = layout->layer_count};
    uint16_t visible = (uint16_t)lk_visible_level(layout);
    for (size_t layer = 0; layer < layout->layer_count; layer++) {
        uint8_t kind = layout->layers[layer];
        m.nulls[layer].low = (uint16_t)(m.most + 1);
        m.most = (uint16_t)(m.most + lk_layer_levels(kind));
        if (lk_layer_is_list(kind)) {
            m.list = layer;
            m.empty = kind == LK_LAYER_EMPTYABLE_LIST || kind == LK_LAYER_NULL_AND_EMPTY_LIST ? m.most : 0;
        }
    }
    for (size_t layer = 0; layer < layout->layer_count; layer++) {
        m.nulls[layer].high = layer < m.list ? visible : m.most;
    }
    if (m.empty > 0 && m.empty == m.most) {
        m.nulls[m.list].high--;
        m.empty = 0;
    }
    m.hidden = (range){(uint16_t)(visible + 1), m.most};
    return m;
}

static void cut_bits(uint8_t *data, uint64_t count, uint64_t *bits[KINDS])
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        bits[kind] = (uint64_t *)(void *)data + kind * words_for(count);
    }
}

/* Without the bits of the list's empty level. */
static void clear_empties(const uint16_t *def, const meaning *m, lk_marks *out, uint64_t *bits[KINDS])
{
    uint64_t *nulls = bits[2 + m->list];
    for (uint64_t at = 0; at < out->count; at++) {
        nulls[at / 64] &= ~((uint64_t)(def[at] == m->empty) << at % 64);
    }
}

static void put_defs(const uint16_t *def, const meaning *m, lk_marks *out, uint64_t *bits[KINDS])
{
    if (m->hidden.low <= m->hidden.high) {
        range_bits(def, out->count, m->hidden, bits[1]);
        out->hidden = bits[1];
    }
    for (size_t layer = 0; layer < m->layer_count; layer++) {
        range of = m->nulls[layer];
        if (of.low <= of.high) {
            range_bits(def, out->count, of, bits[2 + layer]);
            out->nulls[layer] = bits[2 + layer];
        }
    }
    if (m->empty > 0) {
        clear_empties(def, m, out, bits);
    }
}

/* The only level there is: all that it means have the same bits. */
static void share_bits(const meaning *m, lk_marks *out, const uint64_t *bits)
{
    out->hidden = m->hidden.low == 1 ? bits : NULL;
    for (size_t layer = 0; layer < m->layer_count; layer++) {
        bool null = m->nulls[layer].low == 1 && m->nulls[layer].high == 1;
        out->nulls[layer] = null ? bits : NULL;
    }
}

static lk_rc read_defs(const lk_page_layout *layout, lk_bytes block, uint16_t *words, uint64_t *bits[KINDS],
    lk_scratch *scratch, lk_marks *out, lk_err *err)
{
    meaning m = meaning_of(layout);
    if (m.most == 1 && is_one_bit(layout->def)) {
        share_bits(&m, out, bits[1]);
        return read_one_bit(block, out->count, bits[1], err);
    }
    lk_rc rc = lk_levels_read(layout->def, block, out->count, words, scratch, err);
    if (rc == LK_OK && highest(words, out->count) > m.most) {
        rc = damaged("one that no layer has", err);
    }
    if (rc == LK_OK) {
        put_defs(words, &m, out, bits);
    }
    return rc;
}

lk_rc lk_marks_read(const lk_page_layout *layout, lk_bytes rep, lk_bytes def, uint64_t count,
    lk_scratch *scratch, lk_marks *out, lk_err *err)
{
    uint64_t *bits[KINDS];
    size_t    size = KINDS * words_for(count) * sizeof(uint64_t);
    lk_rc     rc = lk_buffer_grow(
            scratch->pool, &scratch->levels, 0, size + (size_t)(count + LK_BITPACK_BLOCK) * 2, err);
    if (rc != LK_OK) {
        return rc;
    }
    uint16_t *words = (uint16_t *)(void *)(scratch->levels.data + size);
    cut_bits(scratch->levels.data, count, bits);
    *out = (lk_marks){.starts = bits[0], .count = count};
    if (is_one_bit(layout->rep)) {
        rc = read_one_bit(rep, count, bits[0], err);
    } else {
        rc = lk_levels_read(layout->rep, rep, count, words, scratch, err);
        if (rc == LK_OK && highest(words, count) > 1) {
            rc = damaged("one above 1", err);
        }
        if (rc == LK_OK) {
            range_bits(words, count, one_range, bits[0]);
        }
    }
    return rc == LK_OK && layout->def != NULL ? read_defs(layout, def, words, bits, scratch, out, err) : rc;
}

lk_rc lk_marks_of(const lk_page_layout *layout, const uint16_t *rep, const uint16_t *def, uint64_t count,
    lk_buffer_pool *pool, lk_buffer *into, lk_marks *out, lk_err *err)
{
    uint64_t *bits[KINDS];
    meaning   m = meaning_of(layout);
    size_t    size = KINDS * words_for(count) * sizeof(uint64_t);
    lk_rc     rc = lk_buffer_grow(pool, into, 0, size, err);
    if (rc != LK_OK) {
        return rc;
    }
    cut_bits(into->data, count, bits);
    *out = (lk_marks){.starts = bits[0], .count = count};
    if ((rep != NULL && highest(rep, count) > 1) || (def != NULL && highest(def, count) > m.most)) {
        return damaged("one that no layer has", err);
    }
    if (rep != NULL) {
        range_bits(rep, count, one_range, bits[0]);
    } else {
        memset(bits[0], 0, words_for(count) * sizeof(uint64_t));
    }
    if (def != NULL) {
        put_defs(def, &m, out, bits);
    }
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
    for (uint64_t at = from; at < end && marks->hidden != NULL; at += 64) {
        hidden += (uint64_t)__builtin_popcountll(lk_marks_word(marks->hidden, at) & lowest(end - at));
    }
    return end - from - hidden;
}
