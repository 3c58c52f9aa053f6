/*
 * enc_block.c - blocks: what is decoded whole, definition levels and dictionary items.
 */
#include "lance/bitpack.h"
#include "lance/codec.h"

static lk_rc unsupported(const lk_encoding *encoding, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "encoding %d in a block", (int)encoding->kind);
    lk_detail(err, "Lance encoding number %d inside a block", (int)encoding->kind);
    return rc;
}

uint32_t lk_block_bits(const lk_encoding *encoding)
{
    while (encoding->kind == LK_ENCODING_GENERAL || encoding->kind == LK_ENCODING_RLE) {
        encoding = encoding->values;
    }
    return encoding->kind == LK_ENCODING_VARIABLE || encoding->kind == LK_ENCODING_FSST ? 0 : encoding->bits;
}

static lk_rc run_block(const lk_encoding *encoding, lk_bytes block, uint64_t count, uint8_t *out, lk_err *err)
{
    uint64_t values = block.size < 8 ? UINT64_MAX : lk_load_u64(block.data);
    if (encoding->values->kind != LK_ENCODING_FLAT || encoding->lengths->kind != LK_ENCODING_FLAT ||
        encoding->lengths->bits != 8) {
        return unsupported(encoding, err);
    }
    if (values > block.size - 8) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a block of runs ends early");
    }
    lk_bytes lengths = {block.data + 8 + values, block.size - 8 - (size_t)values};
    return lk_runs_expand(
        (lk_bytes){block.data + 8, (size_t)values}, lengths, encoding->values->bits, 0, count, out, err);
}

static lk_rc inline_block(const lk_encoding *encoding, lk_bytes block, uint64_t count, uint8_t *out,
    lk_scratch *scratch, lk_err *err)
{
    lk_codec codec = {0};
    lk_chunk chunk = {.buffers = {block}, .buffer_count = 1, .values = (uint32_t)count};
    if (count > LK_BITPACK_BLOCK) {
        return lk_fail(
            err, LK_E_CORRUPT_FILE, "an inline packed block of %llu values", (unsigned long long)count);
    }
    lk_rc rc = lk_inline_codec(encoding, &codec, err);
    return rc == LK_OK ? codec.words(&codec, &chunk, 0, (uint32_t)count, out, 0, scratch, err) : rc;
}

static lk_rc general_block(const lk_encoding *encoding, lk_bytes block, uint64_t count, uint32_t bits,
    uint8_t *out, lk_scratch *scratch, lk_err *err)
{
    size_t size = 0;
    if (encoding->values->kind == LK_ENCODING_GENERAL) {
        return unsupported(encoding, err);
    }
    lk_rc rc = lk_decompressed_size(encoding->scheme, block, &size, err);
    if (rc == LK_OK) {
        rc = lk_buffer_grow(scratch->pool, &scratch->plain, 0, size, err);
    }
    if (rc == LK_OK) {
        rc = lk_decompress(&scratch->zstd, encoding->scheme, block, scratch->plain.data, size, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    lk_bytes plain = {(const char *)scratch->plain.data, size};
    return lk_block_words(encoding->values, plain, count, bits, out, scratch, err);
}

lk_rc lk_block_words(const lk_encoding *encoding, lk_bytes block, uint64_t count, uint32_t bits, uint8_t *out,
    lk_scratch *scratch, lk_err *err)
{
    if (lk_block_bits(encoding) != bits || bits % 8 != 0) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a block of %u-bit words where %u-bit ones belong",
            lk_block_bits(encoding), bits);
    }
    if (encoding->kind == LK_ENCODING_FLAT) {
        if (block.size / (bits / 8) < count) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "a flat block ends early");
        }
        memcpy(out, block.data, count * (bits / 8));
        return LK_OK;
    }
    if (encoding->kind == LK_ENCODING_OUT_OF_LINE_BITPACKING) {
        return lk_packed_words(block, bits, encoding->values->bits, count, out, scratch, err);
    }
    if (encoding->kind == LK_ENCODING_INLINE_BITPACKING) {
        return inline_block(encoding, block, count, out, scratch, err);
    }
    if (encoding->kind == LK_ENCODING_RLE && bits <= 64) {
        return run_block(encoding, block, count, out, err);
    }
    if (encoding->kind == LK_ENCODING_GENERAL) {
        return general_block(encoding, block, count, bits, out, scratch, err);
    }
    return unsupported(encoding, err);
}

lk_rc lk_levels_read(const lk_encoding *encoding, lk_bytes block, uint64_t count, uint16_t *out,
    lk_scratch *scratch, lk_err *err)
{
    return lk_block_words(encoding, block, count, 16, (uint8_t *)out, scratch, err);
}
