/*
 * enc_bitpack.c - bit packing, both forms: inline (one block of 1,024 words a chunk, its width in front) and
 * out of line (any number of blocks, the width in the encoding).
 */
#include "lance/bitpack.h"
#include "lance/codec.h"

static lk_rc unpack_one(const uint8_t *packed, uint32_t word_bits, uint32_t width, uint64_t start,
    uint64_t count, uint8_t *out, size_t room, lk_scratch *scratch, lk_err *err)
{
    size_t word = word_bits / 8, whole = LK_BITPACK_BLOCK * word;
    if (start == 0 && room >= whole) {
        lk_bitpack_unpack(word_bits, width, packed, out);
        return LK_OK;
    }
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->block, 0, whole, err);
    if (rc == LK_OK) {
        lk_bitpack_unpack(word_bits, width, packed, scratch->block.data);
        memcpy(out, scratch->block.data + start * word, count * word);
    }
    return rc;
}

static lk_rc inline_words(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    uint8_t *out, size_t room, lk_scratch *scratch, lk_err *err)
{
    lk_bytes packed = chunk->buffers[0];
    size_t   word = codec->bits / 8;
    uint64_t width = 0;
    if (packed.size >= word) {
        memcpy(&width, packed.data, word);
    }
    if (packed.size < word || width > codec->bits || packed.size - word < lk_bitpack_bytes((unsigned)width) ||
        chunk->values > LK_BITPACK_BLOCK) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a packed block of %zu bytes for %u values of width %llu",
            packed.size, chunk->values, (unsigned long long)width);
    }
    const uint8_t *block = (const uint8_t *)packed.data + word;
    return unpack_one(block, codec->bits, (uint32_t)width, start, count, out, room, scratch, err);
}

static lk_rc inline_append(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    lk_column *column, lk_scratch *scratch, lk_err *err)
{
    uint8_t *to = lk_column_next(column);
    size_t   room = column->values.capacity - (size_t)(to - column->values.data);
    return inline_words(codec, chunk, start, count, to, room, scratch, err);
}

lk_rc lk_inline_codec(const lk_encoding *encoding, lk_codec *out, lk_err *err)
{
    (void)err;
    *out = (lk_codec){.append = inline_append, .words = inline_words, .bits = encoding->bits, .buffers = 1};
    return LK_OK;
}

/* Whole blocks, then the tail: packed like a block, or plain when that is what is left. */
lk_rc lk_packed_words(lk_bytes packed, uint32_t word_bits, uint32_t width, uint64_t count, uint8_t *out,
    lk_scratch *scratch, lk_err *err)
{
    size_t   word = word_bits / 8, block = lk_bitpack_bytes(width);
    uint64_t full = count / LK_BITPACK_BLOCK, tail = count % LK_BITPACK_BLOCK;
    if (width > word_bits || (block > 0 && packed.size / block < full)) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "packed words end early");
    }
    for (uint64_t at = 0; at < full; at++) {
        lk_bitpack_unpack(word_bits, width, packed.data + at * block, out + at * LK_BITPACK_BLOCK * word);
    }
    const char *rest = packed.data + full * block;
    size_t      left = packed.size - full * block;
    out += full * LK_BITPACK_BLOCK * word;
    if (tail == 0 || left == tail * word) {
        memcpy(out, rest, tail * word);
        return LK_OK;
    }
    if (left < block) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "packed words end early");
    }
    return unpack_one((const uint8_t *)rest, word_bits, width, 0, tail, out, 0, scratch, err);
}
