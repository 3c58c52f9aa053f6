/*
 * rollout_coding.c - see rollout_media.h: gzip (RFC 1952) and zstd (RFC 8878), both ways.
 *
 * A body is decoded in one go while it stays within a few times its own size; beyond that what was decoded is thrown away and
 * the rest only counted, so that a bomb costs time in proportion to the limit, and no memory. A body that turns out to be
 * within the limit after all is then decoded again.
 */
#include "base/err.h"
#include "serve/rollout_media.h"

#include <limits.h>
#include <stdlib.h>

#include <zlib.h>
#include <zstd.h>

enum {
    WINDOW = 256 * 1024,
    TRUSTED = 8 * 1024 * 1024,
    TRUSTED_RATIO = 8,
    GZIP = 16 + MAX_WBITS,
    ZSTD_WINDOW_LOG_MAX = 25 /* 32 MiB, which every level but the ultra ones stays within */
};

/* -- decoding ---------------------------------------------------------------------------------------------------- */

typedef struct decoder {
    lk_rollout_coding coding;
    lk_bytes          rest; /* of the body */
    z_stream          z;
    ZSTD_DStream     *zstd;
    bool              between; /* at the end of a frame or member, and not in another */
} decoder;

static void decoder_open(decoder *d, lk_rollout_coding coding, lk_bytes body)
{
    *d = (decoder){.coding = coding, .rest = body};
    if (coding == LK_ROLLOUT_GZIP) {
        LK_ASSERT(inflateInit2(&d->z, GZIP) == Z_OK);
    } else {
        d->zstd = ZSTD_createDStream();
        LK_ASSERT(d->zstd != NULL);
        LK_ASSERT(!ZSTD_isError(ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX)));
    }
}

static void decoder_close(decoder *d)
{
    if (d->coding == LK_ROLLOUT_GZIP) {
        (void)inflateEnd(&d->z);
    } else {
        (void)ZSTD_freeDStream(d->zstd);
    }
}

static lk_rc step_gzip(decoder *d, char *out, size_t size, size_t *got, lk_err *err)
{
    uInt given = d->rest.size > UINT_MAX ? UINT_MAX : (uInt)d->rest.size;
    if (d->between && inflateReset(&d->z) != Z_OK) {
        return lk_fail(err, LK_E_INTERNAL, "zlib could not begin again");
    }
    d->z.next_in = (Bytef *)(uintptr_t)d->rest.data;
    d->z.avail_in = given;
    d->z.next_out = (Bytef *)out;
    d->z.avail_out = (uInt)size;
    int    outcome = inflate(&d->z, Z_NO_FLUSH);
    size_t used = given - d->z.avail_in;
    d->rest = (lk_bytes){d->rest.data + used, d->rest.size - used};
    *got = size - d->z.avail_out;
    d->between = outcome == Z_STREAM_END;
    return outcome == Z_OK || outcome == Z_STREAM_END
               ? LK_OK
               : lk_refuse(err, LK_E_INVALID_REQUEST, "the body is not whole gzip data");
}

static lk_rc step_zstd(decoder *d, char *out, size_t size, size_t *got, lk_err *err)
{
    ZSTD_inBuffer  in = {d->rest.data, d->rest.size, 0};
    ZSTD_outBuffer to = {out, size, 0};
    size_t         outcome = ZSTD_decompressStream(d->zstd, &to, &in);
    *got = to.pos;
    d->rest = (lk_bytes){d->rest.data + in.pos, d->rest.size - in.pos};
    d->between = outcome == 0;
    if (ZSTD_isError(outcome) || (in.pos == 0 && to.pos == 0)) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "the body is not whole zstd data");
    }
    return LK_OK;
}

static lk_rc decode_step(decoder *d, char *out, size_t size, size_t *got, lk_err *err)
{
    return d->coding == LK_ROLLOUT_GZIP ? step_gzip(d, out, size, got, err)
                                        : step_zstd(d, out, size, got, err);
}

static bool decoder_done(const decoder *d)
{
    return d->rest.size == 0 && d->between;
}

static lk_rc too_large(uint64_t max, lk_err *err)
{
    return lk_refuse(
        err, LK_E_TOO_LARGE, "the decoded body is larger than %llu bytes", (unsigned long long)max);
}

/* Decodes up to `most` bytes; *whole when that was all. */
static lk_rc decode_some(decoder *d, uint64_t most, uint64_t max, lk_buf *out, bool *whole, lk_err *err)
{
    size_t start = out->size;
    lk_rc  rc = LK_OK;
    while (rc == LK_OK && !decoder_done(d) && out->size - start <= most) {
        size_t got = 0;
        lk_buf_reserve(out, WINDOW);
        rc = decode_step(d, out->data + out->size, WINDOW, &got, err);
        out->size += got;
        out->data[out->size] = '\0';
        if (rc == LK_OK && out->size - start > max) {
            rc = too_large(max, err);
        }
    }
    *whole = decoder_done(d);
    return rc;
}

/* Counts what is left of it, after `size`. */
static lk_rc count_rest(decoder *d, uint64_t size, uint64_t max, lk_err *err)
{
    char *window = malloc(WINDOW);
    lk_rc rc = LK_OK;
    LK_ASSERT(window != NULL);
    while (rc == LK_OK && !decoder_done(d)) {
        size_t got = 0;
        rc = decode_step(d, window, WINDOW, &got, err);
        size += got;
        if (rc == LK_OK && size > max) {
            rc = too_large(max, err);
        }
    }
    free(window);
    return rc;
}

lk_rc lk_rollout_body_decode(lk_bytes body, lk_rollout_coding coding, uint64_t max, lk_buf *out, lk_err *err)
{
    decoder  d;
    bool     whole = false;
    size_t   start = out->size;
    uint64_t trusted = TRUSTED + TRUSTED_RATIO * (uint64_t)body.size;
    decoder_open(&d, coding, body);
    lk_rc rc = decode_some(&d, trusted, max, out, &whole, err);
    if (rc == LK_OK && !whole) {
        uint64_t size = out->size - start;
        lk_buf   held = {0};
        lk_buf_append(&held, out->data, start);
        lk_buf_deinit(out); /* its memory, too */
        *out = held;
        rc = count_rest(&d, size, max, err);
        decoder_close(&d);
        decoder_open(&d, coding, body);
        if (rc == LK_OK) {
            rc = decode_some(&d, UINT64_MAX, max, out, &whole, err);
        }
    }
    decoder_close(&d);
    return rc;
}

/* -- encoding ---------------------------------------------------------------------------------------------------- */

struct lk_rollout_encoder {
    lk_rollout_coding coding;
    z_stream          z;
    ZSTD_CStream     *zstd;
};

lk_rollout_encoder *lk_rollout_encoder_new(lk_rollout_coding coding)
{
    lk_rollout_encoder *e = calloc(1, sizeof *e);
    LK_ASSERT(e != NULL && coding != LK_ROLLOUT_IDENTITY);
    e->coding = coding;
    if (coding == LK_ROLLOUT_GZIP) {
        LK_ASSERT(deflateInit2(&e->z, Z_BEST_SPEED, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    } else {
        e->zstd = ZSTD_createCStream();
        LK_ASSERT(e->zstd != NULL && !ZSTD_isError(ZSTD_initCStream(e->zstd, 1)));
    }
    return e;
}

void lk_rollout_encoder_free(lk_rollout_encoder *e)
{
    if (e == NULL) {
        return;
    }
    if (e->coding == LK_ROLLOUT_GZIP) {
        (void)deflateEnd(&e->z);
    } else {
        (void)ZSTD_freeCStream(e->zstd);
    }
    free(e);
}

static void encode_gzip(lk_rollout_encoder *e, lk_bytes bytes, bool last, lk_buf *out)
{
    LK_ASSERT(bytes.size <= UINT_MAX);
    e->z.next_in = (Bytef *)(uintptr_t)bytes.data;
    e->z.avail_in = (uInt)bytes.size;
    do {
        lk_buf_reserve(out, WINDOW / 4);
        e->z.next_out = (Bytef *)out->data + out->size;
        e->z.avail_out = WINDOW / 4;
        LK_ASSERT(deflate(&e->z, last ? Z_FINISH : Z_NO_FLUSH) != Z_STREAM_ERROR);
        out->size += WINDOW / 4 - e->z.avail_out;
    } while (e->z.avail_out == 0);
}

static void encode_zstd(lk_rollout_encoder *e, lk_bytes bytes, bool last, lk_buf *out)
{
    ZSTD_inBuffer in = {bytes.data, bytes.size, 0};
    size_t        left;
    do {
        lk_buf_reserve(out, WINDOW / 4);
        ZSTD_outBuffer to = {out->data + out->size, WINDOW / 4, 0};
        left = ZSTD_compressStream2(e->zstd, &to, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        LK_ASSERT(!ZSTD_isError(left));
        out->size += to.pos;
    } while (last ? left != 0 : in.pos < in.size);
}

void lk_rollout_encode(lk_rollout_encoder *e, lk_bytes bytes, bool last, lk_buf *out)
{
    if (e->coding == LK_ROLLOUT_GZIP) {
        encode_gzip(e, bytes, last, out);
    } else {
        encode_zstd(e, bytes, last, out);
    }
    out->data[out->size] = '\0';
}
