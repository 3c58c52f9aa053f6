/*
 * enc_dict.c - dictionary pages: every distinct value once, rows as indices.
 * Null rows hold any index, also one past the end: indices are clamped, never believed.
 */
#include "lance/codec.h"

enum { DICTIONARY_BYTES_MAX = 256 * 1024 * 1024 };

/* -- reading the items ----------------------------------------------------------------------------- */
static lk_rc damaged(lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "a dictionary is damaged");
}

/* u32 or u64: bits of an offset, where the bytes start, count + 1 offsets; then the bytes. */
static lk_rc variable_items(lk_bytes block, uint64_t count, lk_arena *arena, lk_dictionary *out, lk_err *err)
{
    uint32_t width = block.size == 0 ? 0 : (uint8_t)block.data[0] / 8;
    uint64_t start = 0, before = 0;
    if ((width != 4 && width != 8) || block.size < 2U * width || count >= DICTIONARY_BYTES_MAX / 8) {
        return damaged(err);
    }
    memcpy(&start, block.data + width, width);
    if (start > block.size || start < 2U * width || (start - 2U * width) / width < count + 1) {
        return damaged(err);
    }
    out->size = block.size - (size_t)start;
    out->bytes = lk_arena_take(arena, out->size + LK_DICTIONARY_SLACK);
    memcpy(out->bytes, block.data + start, out->size);
    out->offsets = lk_arena_take(arena, (size_t)(count + 1) * sizeof *out->offsets);
    for (uint64_t item = 0; item <= count; item++) {
        memcpy(&out->offsets[item], block.data + (2 + item) * width, width);
        if (out->offsets[item] < before || out->offsets[item] > out->size) {
            return damaged(err);
        }
        uint64_t size = item == 0 ? 0 : out->offsets[item] - before;
        out->longest = size > out->longest ? size : out->longest;
        before = out->offsets[item];
    }
    return LK_OK;
}

static lk_rc unwrap(const lk_encoding *encoding, lk_bytes *block, lk_scratch *scratch, lk_err *err)
{
    size_t size = 0;
    lk_rc  rc = lk_decompressed_size(encoding->scheme, *block, &size, err);
    if (rc == LK_OK && size > DICTIONARY_BYTES_MAX) {
        return damaged(err);
    }
    if (rc == LK_OK) {
        rc = lk_buffer_grow(scratch->pool, &scratch->plain, 0, size, err);
    }
    if (rc == LK_OK) {
        rc = lk_decompress(&scratch->zstd, encoding->scheme, *block, scratch->plain.data, size, err);
    }
    if (rc == LK_OK) {
        *block = (lk_bytes){(const char *)scratch->plain.data, size};
    }
    return rc;
}

/* Bits to bytes. */
static lk_rc boolean_items(
    const lk_encoding *encoding, lk_bytes block, lk_scratch *scratch, lk_dictionary *out, lk_err *err)
{
    if (encoding->kind == LK_ENCODING_GENERAL) {
        lk_rc rc = unwrap(encoding, &block, scratch, err);
        if (rc != LK_OK) {
            return rc;
        }
        encoding = encoding->values;
    }
    if (encoding->kind != LK_ENCODING_FLAT || block.size < (out->count + 7) / 8) {
        return damaged(err);
    }
    for (uint64_t item = 0; item < out->count; item++) {
        out->bytes[item] = (uint8_t)block.data[item / 8] >> (item % 8) & 1;
    }
    return LK_OK;
}

static lk_rc fixed_items(const lk_encoding *encoding, lk_bytes block, lk_arena *arena, lk_scratch *scratch,
    lk_dictionary *out, lk_err *err)
{
    uint32_t bits = lk_block_bits(encoding);
    if ((bits % 8 != 0 && bits != 1) || bits == 0 || out->count > DICTIONARY_BYTES_MAX / ((bits + 7) / 8)) {
        return damaged(err);
    }
    out->bits = bits;
    out->width = (bits + 7) / 8;
    out->size = (size_t)out->count * out->width;
    out->bytes = lk_arena_take(arena, out->size + 1);
    if (bits == 1) {
        return boolean_items(encoding, block, scratch, out, err);
    }
    return lk_block_words(encoding, block, out->count, bits, out->bytes, scratch, err);
}

lk_bytes lk_dictionary_item(const lk_dictionary *dictionary, uint64_t index)
{
    index = index < dictionary->count ? index : dictionary->count - 1;
    if (dictionary->width > 0) {
        return (lk_bytes){(const char *)dictionary->bytes + index * dictionary->width, dictionary->width};
    }
    uint64_t start = dictionary->offsets[index];
    return (lk_bytes){
        (const char *)dictionary->bytes + start, (size_t)(dictionary->offsets[index + 1] - start)};
}

lk_rc lk_dictionary_read(const lk_encoding *encoding, lk_bytes block, uint64_t count, lk_arena *arena,
    lk_scratch *scratch, lk_dictionary **out, lk_err *err)
{
    lk_dictionary *dictionary = lk_arena_take(arena, sizeof *dictionary);
    dictionary->count = count;
    *out = dictionary;
    if (count == 0) {
        return damaged(err);
    }
    if (encoding->kind == LK_ENCODING_GENERAL && encoding->values->kind == LK_ENCODING_VARIABLE) {
        lk_rc rc = unwrap(encoding, &block, scratch, err);
        return rc == LK_OK ? variable_items(block, count, arena, dictionary, err) : rc;
    }
    if (encoding->kind == LK_ENCODING_VARIABLE) {
        return variable_items(block, count, arena, dictionary, err);
    }
    return fixed_items(encoding, block, arena, scratch, dictionary, err);
}

/* -- rows ------------------------------------------------------------------------------------------ */
/* These loops take most of a scan's time over columns of few values: each is compiled for every width. */
#define INLINED static inline __attribute__((always_inline))

/* Index `at` of words of `width` bytes, clamped. */
INLINED uint64_t index_at(const uint8_t *words, uint32_t width, uint32_t at, uint64_t count)
{
    uint64_t index = 0;
    memcpy(&index, words + (size_t)at * width, width);
    return index < count ? index : count - 1;
}

INLINED void gather_items(const lk_dictionary *dictionary, uint32_t item, const uint8_t *words,
    uint32_t width, uint32_t count, uint8_t *out)
{
    const uint8_t *bytes = dictionary->bytes;
    uint64_t       items = dictionary->count;
    for (uint32_t at = 0; at < count; at++) {
        memcpy(out + (size_t)at * item, bytes + index_at(words, width, at, items) * item, item);
    }
}

INLINED void gather_words(
    const lk_dictionary *dictionary, const uint8_t *words, uint32_t width, uint32_t count, uint8_t *out)
{
    switch (dictionary->width) {
    case 4:
        gather_items(dictionary, 4, words, width, count, out);
        return;
    case 8:
        gather_items(dictionary, 8, words, width, count, out);
        return;
    case 16:
        gather_items(dictionary, 16, words, width, count, out);
        return;
    default:
        gather_items(dictionary, dictionary->width, words, width, count, out);
    }
}

static void gather_fixed(
    const lk_dictionary *dictionary, const uint8_t *words, uint32_t width, uint32_t count, uint8_t *out)
{
    switch (width) {
    case 1:
        gather_words(dictionary, words, 1, count, out);
        return;
    case 2:
        gather_words(dictionary, words, 2, count, out);
        return;
    case 4:
        gather_words(dictionary, words, 4, count, out);
        return;
    default:
        gather_words(dictionary, words, width, count, out);
    }
}

static void gather_bits(
    const lk_dictionary *dictionary, const uint8_t *words, uint32_t width, uint32_t count, lk_column *column)
{
    uint64_t first = column->rows;
    for (uint32_t at = 0; at < count; at++) {
        column->rows = first + at;
        lk_column_put_bits(column, dictionary->bytes + index_at(words, width, at, dictionary->count), 0, 1);
    }
    column->rows = first;
}

/* What `count` rows take. */
INLINED uint64_t size_of_texts(
    const lk_dictionary *dictionary, const uint8_t *words, uint32_t width, uint32_t count)
{
    const uint64_t *offsets = dictionary->offsets;
    uint64_t        items = dictionary->count, size = 0;
    for (uint32_t at = 0; at < count; at++) {
        uint64_t index = index_at(words, width, at, items);
        size += offsets[index + 1] - offsets[index];
    }
    return size;
}

/* Writes texts and the offsets of their ends. step: how much is copied of each, however short; 0: exactly it. */
INLINED void put_texts(const lk_dictionary *dictionary, const uint8_t *words, uint32_t width, uint32_t count,
    size_t step, uint32_t offset_bytes, lk_column *column)
{
    const uint64_t *offsets = dictionary->offsets;
    const uint8_t  *bytes = dictionary->bytes;
    uint8_t        *ends = column->values.data + (column->rows + 1) * offset_bytes;
    uint8_t        *data = column->data.data;
    uint64_t        items = dictionary->count, end = column->data_size;
    for (uint32_t at = 0; at < count; at++) {
        uint64_t index = index_at(words, width, at, items);
        size_t   size = (size_t)(offsets[index + 1] - offsets[index]);
        memcpy(data + end, bytes + offsets[index], step == 0 ? size : step);
        end += size;
        memcpy(ends + (size_t)at * offset_bytes, &end, offset_bytes);
    }
    column->data_size = end;
}

INLINED lk_rc gather_texts(const lk_dictionary *dictionary, const uint8_t *words, uint32_t width,
    uint32_t count, lk_column *column, lk_err *err)
{
    enum { SHORT = 16 };
    uint64_t size = size_of_texts(dictionary, words, width, count);
    lk_rc    rc = lk_column_reserve(column, size + LK_DICTIONARY_SLACK, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (column->offset_bytes != 4 || dictionary->longest > LK_DICTIONARY_SLACK) {
        put_texts(dictionary, words, width, count, 0, column->offset_bytes, column);
    } else if (dictionary->longest > SHORT) {
        put_texts(dictionary, words, width, count, LK_DICTIONARY_SLACK, 4, column);
    } else {
        put_texts(dictionary, words, width, count, SHORT, 4, column);
    }
    return LK_OK;
}

static lk_rc gather_variable(const lk_dictionary *dictionary, const uint8_t *words, uint32_t width,
    uint32_t count, lk_column *column, lk_err *err)
{
    switch (width) {
    case 1:
        return gather_texts(dictionary, words, 1, count, column, err);
    case 2:
        return gather_texts(dictionary, words, 2, count, column, err);
    case 4:
        return gather_texts(dictionary, words, 4, count, column, err);
    default:
        return gather_texts(dictionary, words, width, count, column, err);
    }
}

static lk_rc dictionary_append(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    lk_column *column, lk_scratch *scratch, lk_err *err)
{
    const lk_dictionary *dictionary = codec->state;
    const lk_codec      *inner = codec->inner;
    uint32_t             width = inner->bits / 8;
    size_t               room = ((size_t)chunk->values + 1024) * width;
    lk_rc                rc = lk_buffer_grow(scratch->pool, &scratch->words, 0, room, err);
    if (rc == LK_OK) {
        rc = inner->words(inner, chunk, start, count, scratch->words.data, room, scratch, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    if (dictionary->bits == 1) {
        gather_bits(dictionary, scratch->words.data, width, count, column);
        return LK_OK;
    }
    if (dictionary->width > 0) {
        gather_fixed(dictionary, scratch->words.data, width, count, lk_column_next(column));
        return LK_OK;
    }
    return gather_variable(dictionary, scratch->words.data, width, count, column, err);
}

lk_rc lk_dictionary_codec(const lk_dictionary *dictionary, const lk_codec *indices, lk_arena *arena,
    const lk_codec **out, lk_err *err)
{
    if (indices->words == NULL || indices->bits > 64) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "dictionary indices are not whole words");
    }
    lk_codec *codec = lk_arena_take(arena, sizeof *codec);
    *codec = (lk_codec){.append = dictionary_append,
        .bits = dictionary->bits,
        .buffers = indices->buffers,
        .inner = indices,
        .state = dictionary};
    *out = codec;
    return LK_OK;
}
