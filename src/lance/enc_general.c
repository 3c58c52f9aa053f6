/*
 * enc_general.c - a mini-block whose first value buffer is compressed with LZ4 or zstd.
 */
#include "lance/codec.h"

/* A chunk holds at most 2^15 values; nobody compresses more than this into one. */
enum { PLAIN_BYTES_MAX = 64 * 1024 * 1024 };

static lk_rc plain_chunk(
    const lk_codec *codec, const lk_chunk *chunk, lk_chunk *out, lk_scratch *scratch, lk_err *err)
{
    lk_scheme scheme = (lk_scheme)codec->param;
    size_t    size = 0;
    lk_rc     rc = lk_decompressed_size(scheme, chunk->buffers[0], &size, err);
    if (rc == LK_OK && size > PLAIN_BYTES_MAX) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "a chunk of %zu bytes", size);
    }
    if (rc == LK_OK) {
        rc = lk_buffer_grow(scratch->pool, &scratch->plain, 0, size, err);
    }
    if (rc == LK_OK) {
        rc = lk_decompress(&scratch->zstd, scheme, chunk->buffers[0], scratch->plain.data, size, err);
    }
    *out = *chunk;
    out->buffers[0] = (lk_bytes){(const char *)scratch->plain.data, size};
    return rc;
}

static lk_rc general_append(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    lk_column *column, lk_scratch *scratch, lk_err *err)
{
    lk_chunk plain;
    lk_rc    rc = plain_chunk(codec, chunk, &plain, scratch, err);
    return rc == LK_OK ? codec->inner->append(codec->inner, &plain, start, count, column, scratch, err) : rc;
}

static lk_rc general_words(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    uint8_t *out, size_t room, lk_scratch *scratch, lk_err *err)
{
    lk_chunk plain;
    lk_rc    rc = plain_chunk(codec, chunk, &plain, scratch, err);
    return rc == LK_OK ? codec->inner->words(codec->inner, &plain, start, count, out, room, scratch, err)
                       : rc;
}

lk_rc lk_general_codec(const lk_encoding *encoding, lk_arena *arena, lk_codec *out, lk_err *err)
{
    if (encoding->values->kind == LK_ENCODING_GENERAL) { /* one buffer for the plain bytes */
        return lk_fail(err, LK_E_CORRUPT_FILE, "compression inside compression");
    }
    const lk_codec *inner = NULL;
    lk_rc           rc = lk_codec_new(encoding->values, arena, &inner, err);
    if (rc == LK_OK) {
        *out = (lk_codec){.append = general_append,
            .words = inner->words == NULL ? NULL : general_words,
            .bits = inner->bits,
            .buffers = inner->buffers,
            .inner = inner,
            .param = (uint32_t)encoding->scheme};
    }
    return rc;
}
