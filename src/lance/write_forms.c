/*
 * write_forms.c - see write_page_priv.h: the values of a mini-block chunk: flat, bit-packed, as runs, as planes of
 * bytes, as text behind its offsets.
 */
#include "lance/bitpack.h"
#include "lance/cpu.h"
#include "lance/write_page_priv.h"

#include <math.h>

enum {
    CHUNK_FIXED_BYTES = 8192, /* of values: one packed block of 64-bit words */
    CHUNK_TEXT_BYTES = 12288, /* offsets and text: 512 texts of 16 bytes */
    TEXT_FILL = 'H',
    RUN_MAX = 255,
    SPLIT_SAMPLE = 4096
};
static const double split_entropy = 4; /* bits a byte, on average; the reference's bound */

/* -- which ----------------------------------------------------------------------------------------------- */
#define CHANGES(bits)                                                                    \
    LK_VECTOR static uint64_t changes##bits(const uint##bits##_t *words, uint64_t count) \
    {                                                                                    \
        uint64_t changes = 0;                                                            \
        for (uint64_t at = 1; at < count; at++) {                                        \
            changes += words[at] != words[at - 1];                                       \
        }                                                                                \
        return changes;                                                                  \
    }
CHANGES(16)
CHANGES(32)
CHANGES(64)

static uint64_t run_bytes(const lk_values *values, double threshold)
{
    const void *words = values->bytes;
    uint64_t    count = values->count, changes = 0;
    switch (values->bits) {
    case 8:
        changes = lk_changes8(words, count);
        break;
    case 16:
        changes = changes16(words, count);
        break;
    case 32:
        changes = changes32(words, count);
        break;
    default:
        changes = changes64(words, count);
        break;
    }
    if (threshold > 0 && (double)(changes + 1) >= threshold * (double)count) {
        return UINT64_MAX;
    }
    return (changes + 1 + count / RUN_MAX + count / LK_CHUNK_VALUES_MAX) * (values->bits / 8 + 1);
}

static uint64_t packed_bytes(const lk_values *values)
{
    uint64_t bits = 0;
    for (uint64_t start = 0; start < values->count; start += LK_BITPACK_BLOCK) {
        uint64_t rest = values->count - start;
        uint64_t count = rest < LK_BITPACK_BLOCK ? rest : LK_BITPACK_BLOCK;
        unsigned width =
            lk_bitpack_width(values->bits, values->bytes + start * (values->bits / 8), (size_t)count);
        bits += (uint64_t)width * LK_BITPACK_BLOCK + values->bits;
    }
    return bits / 8;
}

/* Whether bytes in the same place of neighbouring values are alike, so that a compression of planes finds more. */
static bool split_pays(const lk_values *values)
{
    size_t   width = values->bits / 8;
    uint64_t count = values->count < SPLIT_SAMPLE ? values->count : SPLIT_SAMPLE;
    double   entropy = 0;
    for (size_t plane = 0; plane < width; plane++) {
        uint32_t seen[256] = {0};
        for (uint64_t at = 0; at < count; at++) {
            seen[(uint8_t)values->bytes[(at * (values->count / count)) * width + plane]]++;
        }
        for (size_t byte = 0; byte < 256; byte++) {
            double share = (double)seen[byte] / (double)count;
            entropy -= share > 0 ? share * log2(share) : 0;
        }
    }
    return entropy / (double)width < split_entropy;
}

static bool splits(const lk_leaf *leaf, const lk_values *values)
{
    const lk_field_options *options = &leaf->options;
    bool                    wide = values->bits == 32 || values->bits == 64;
    return wide && lk_compression_is_general(options->compression) && options->split != LK_SPLIT_OFF &&
           values->bytes == leaf->values.data && (options->split == LK_SPLIT_ON || split_pays(values));
}

lk_form lk_form_of(const lk_leaf *leaf, const lk_values *values, uint64_t *bytes)
{
    if (values->offset_bytes > 0) {
        *bytes = lk_values_text_bytes(values);
        return LK_FORM_TEXT;
    }
    uint32_t bits = values->bits;
    bool     words = bits == 8 || bits == 16 || bits == 32 || bits == 64;
    bool     own = values->bytes == leaf->values.data; /* not indices */
    *bytes = (values->count * bits + 7) / 8;
    if (!words || (own && (leaf->level_count > 0 || leaf->options.compression == LK_COMPRESSION_NONE))) {
        return LK_FORM_FLAT;
    }
    if (splits(leaf, values)) {
        return LK_FORM_SPLIT;
    }
    uint64_t packed = packed_bytes(values), runs = run_bytes(values, leaf->options.run_threshold);
    uint64_t best = packed < *bytes ? packed : *bytes;
    if (runs != UINT64_MAX && runs * 8 <= best * 7) { /* a tenth is not worth the slower way of reading */
        *bytes = runs;
        return LK_FORM_RUNS;
    }
    if (packed * 8 <= *bytes * 7) {
        *bytes = packed;
        return LK_FORM_PACKED;
    }
    return LK_FORM_FLAT;
}

/* -- how many -------------------------------------------------------------------------------------------- */
static uint64_t flat_count(const lk_values *values)
{
    uint64_t rows = LK_CHUNK_VALUES_MAX;
    while (rows > 2 && rows * values->bits / 8 > CHUNK_FIXED_BYTES) {
        rows /= 2;
    }
    return rows;
}

static uint64_t text_bytes(const lk_values *values, uint64_t start, uint64_t count)
{
    return lk_values_end(values, start + count) - lk_values_end(values, start) +
           (count + 1) * values->offset_bytes;
}

static uint64_t count_runs(const lk_values *values, uint64_t start, uint64_t count)
{
    size_t   width = values->bits / 8;
    uint64_t runs = 0, length = 0;
    for (uint64_t at = start; at < start + count; at++) {
        const char *here = values->bytes + at * width;
        bool        same = at > start && length < RUN_MAX && memcmp(here, here - width, width) == 0;
        length = same ? length + 1 : 1;
        runs += !same;
    }
    return runs;
}

static uint64_t chunk_bytes(lk_form form, const lk_values *values, uint64_t start, uint64_t count)
{
    return form == LK_FORM_TEXT ? text_bytes(values, start, count)
                                : count_runs(values, start, count) * (values->bits / 8 + 1);
}

uint64_t lk_form_chunk(lk_form form, const lk_values *values, uint64_t start, uint32_t limit)
{
    uint64_t rest = values->count - start, rows = LK_CHUNK_VALUES_MAX;
    if (form == LK_FORM_PACKED) {
        return rest < LK_BITPACK_BLOCK ? rest : LK_BITPACK_BLOCK;
    }
    if (form == LK_FORM_FLAT || form == LK_FORM_SPLIT) {
        rows = flat_count(values);
        return rest < rows ? rest : rows;
    }
    uint64_t most = form == LK_FORM_RUNS ? CHUNK_FIXED_BYTES : limit > 0 ? limit : CHUNK_TEXT_BYTES;
    if (rest <= rows && chunk_bytes(form, values, start, rest) <= most) {
        return rest;
    }
    while (rows > 2 && (rows > rest || chunk_bytes(form, values, start, rows) > most)) {
        rows /= 2;
    }
    return rows < rest ? rows : rest;
}

/* -- bytes ----------------------------------------------------------------------------------------------- */
static void put_flat(const lk_values *values, uint64_t start, uint64_t count, lk_buf *data)
{
    if (values->bits % 8 == 0) {
        size_t width = values->bits / 8;
        lk_buf_append(data, values->bytes + start * width, (size_t)count * width);
    } else {
        lk_page_put_bits(data, values->bytes, start * values->bits, count * values->bits);
    }
}

static void put_packed(const lk_values *values, uint64_t start, uint64_t count, lk_buf *data)
{
    uint64_t    padded[LK_BITPACK_BLOCK] = {0};
    size_t      width = values->bits / 8;
    const char *words = values->bytes + start * width;
    uint64_t    bits = lk_bitpack_width(values->bits, words, (size_t)count);
    if (count < LK_BITPACK_BLOCK) {
        words = memcpy(padded, words, (size_t)count * width);
    }
    lk_buf_append(data, &bits, width);
    lk_buf_append_zeros(data, lk_bitpack_bytes((unsigned)bits));
    lk_bitpack_pack(
        values->bits, (unsigned)bits, words, data->data + data->size - lk_bitpack_bytes((unsigned)bits));
}

/* Buffer 0: a value a run; 1: its length in a byte. */
static void put_runs(const lk_values *values, size_t index, uint64_t start, uint64_t count, lk_buf *data)
{
    size_t width = values->bits / 8;
    for (uint64_t at = start; at < start + count;) {
        const char *value = values->bytes + at * width;
        uint64_t    length = 1;
        while (at + length < start + count && length < RUN_MAX &&
               memcmp(value, value + length * width, width) == 0) {
            length++;
        }
        lk_buf_append(data, index == 0 ? value : (const char *)&length, index == 0 ? width : 1);
        at += length;
    }
}

static void put_split(const lk_values *values, uint64_t start, uint64_t count, lk_buf *data)
{
    size_t      width = values->bits / 8, at = data->size;
    const char *from = values->bytes + start * width;
    lk_buf_append_zeros(data, (size_t)count * width);
    for (size_t plane = 0; plane < width; plane++) {
        char *to = data->data + at + plane * count;
        for (uint64_t value = 0; value < count; value++) {
            to[value] = from[value * width + plane];
        }
    }
}

static void put_text(const lk_values *values, uint64_t start, uint64_t count, lk_buf *data)
{
    size_t      width = values->offset_bytes, at = data->size;
    uint64_t    first = lk_values_end(values, start), shift = (count + 1) * width - first;
    uint64_t    end = lk_values_end(values, start + count), offset = first + shift;
    const char *ends = values->ends + start * 8;
    lk_buf_reserve(data, (size_t)(end + shift));
    char *to = data->data + at;
    memcpy(to, &offset, width);
    for (uint64_t row = 1; width == 4 && row <= count; row++) {
        lk_store_u32(to + row * 4, (uint32_t)(lk_load_u64(ends + row * 8 - 8) + shift));
    }
    for (uint64_t row = 1; width == 8 && row <= count; row++) {
        lk_store_u64(to + row * 8, lk_load_u64(ends + row * 8 - 8) + shift);
    }
    data->size += (size_t)(count + 1) * width;
    lk_buf_append(data, values->bytes + first, (size_t)(end - first));
    lk_page_pad(data, at, width, TEXT_FILL);
}

void lk_form_put(
    lk_form form, const lk_values *values, size_t index, uint64_t start, uint64_t count, lk_buf *data)
{
    switch (form) {
    case LK_FORM_FLAT:
        put_flat(values, start, count, data);
        break;
    case LK_FORM_PACKED:
        put_packed(values, start, count, data);
        break;
    case LK_FORM_RUNS:
        put_runs(values, index, start, count, data);
        break;
    case LK_FORM_SPLIT:
        put_split(values, start, count, data);
        break;
    case LK_FORM_TEXT:
        put_text(values, start, count, data);
        break;
    }
}

const lk_encoding *lk_form_encoding(
    lk_form form, const lk_leaf *leaf, const lk_values *values, lk_page_out *out)
{
    lk_encoding *outer = NULL;
    switch (form) {
    case LK_FORM_PACKED:
        return lk_page_node(out, LK_ENCODING_INLINE_BITPACKING, values->bits);
    case LK_FORM_TEXT:
        return lk_page_text_encoding(values->offset_bytes, out);
    case LK_FORM_RUNS:
        outer = lk_page_node(out, LK_ENCODING_RLE, 0);
        outer->values = lk_page_node(out, LK_ENCODING_FLAT, values->bits);
        outer->lengths = lk_page_node(out, LK_ENCODING_FLAT, 8);
        return outer;
    case LK_FORM_SPLIT:
        outer = lk_page_node(out, LK_ENCODING_BYTE_STREAM_SPLIT, 0);
        outer->values = lk_page_node(out, LK_ENCODING_FLAT, values->bits);
        return outer;
    case LK_FORM_FLAT:
        break;
    }
    return values->bytes == leaf->values.data ? lk_page_list_encoding(leaf, out)
                                              : lk_page_node(out, LK_ENCODING_FLAT, values->bits);
}
