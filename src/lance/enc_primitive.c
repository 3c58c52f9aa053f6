/*
 * enc_primitive.c - flat values (whole bytes or single bits), byte stream split, and runs.
 */
#include "lance/codec.h"
#include "lance/cpu.h"

/* -- flat ------------------------------------------------------------------------------------------ */
static lk_rc flat_range(const lk_codec *codec, const lk_chunk *chunk, lk_err *err)
{
    uint64_t bits = (uint64_t)chunk->values * codec->bits;
    if (chunk->buffers[0].size < (bits + 7) / 8) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "%u flat values of %u bits in %zu bytes", chunk->values,
            codec->bits, chunk->buffers[0].size);
    }
    return LK_OK;
}

static lk_rc flat_words(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    uint8_t *out, size_t room, lk_scratch *scratch, lk_err *err)
{
    (void)room;
    (void)scratch;
    size_t width = codec->bits / 8;
    lk_rc  rc = flat_range(codec, chunk, err);
    if (rc == LK_OK) {
        memcpy(out, chunk->buffers[0].data + start * width, count * width);
    }
    return rc;
}

static lk_rc flat_append(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    lk_column *column, lk_scratch *scratch, lk_err *err)
{
    if (codec->words != NULL) {
        return flat_words(codec, chunk, start, count, lk_column_next(column), 0, scratch, err);
    }
    lk_rc rc = flat_range(codec, chunk, err);
    if (rc == LK_OK) {
        const uint8_t *bits = (const uint8_t *)chunk->buffers[0].data;
        lk_column_put_bits(column, bits, (uint64_t)start * codec->bits, count);
    }
    return rc;
}

lk_rc lk_flat_codec(const lk_encoding *encoding, lk_codec *out, lk_err *err)
{
    if (encoding->bits == 0) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "flat values of no bits");
    }
    *out = (lk_codec){.append = flat_append,
        .words = encoding->bits % 8 == 0 ? flat_words : NULL,
        .bits = encoding->bits,
        .sliced = true,
        .buffers = 1};
    return LK_OK;
}

/* -- words in a column ------------------------------------------------------------------------------ */
/* append of the codecs that can only make words: straight into the column. */
static lk_rc words_append(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    lk_column *column, lk_scratch *scratch, lk_err *err)
{
    uint8_t *to = lk_column_next(column);
    size_t   room = column->values.capacity - (size_t)(to - column->values.data);
    return codec->words(codec, chunk, start, count, to, room, scratch, err);
}

/* -- byte stream split ------------------------------------------------------------------------------ */
/* Byte j of value i lies at j * values + i. */
LK_VECTOR static void join(const uint8_t *planes, size_t plane, size_t width, size_t count, uint8_t *out)
{
    for (size_t byte = 0; byte < width; byte++) {
        const uint8_t *from = planes + byte * plane;
        for (size_t at = 0; at < count; at++) {
            out[at * width + byte] = from[at];
        }
    }
}

static lk_rc split_words(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    uint8_t *out, size_t room, lk_scratch *scratch, lk_err *err)
{
    (void)room;
    (void)scratch;
    lk_rc rc = flat_range(codec, chunk, err);
    if (rc == LK_OK) {
        join((const uint8_t *)chunk->buffers[0].data + start, chunk->values, codec->bits / 8, count, out);
    }
    return rc;
}

lk_rc lk_split_codec(const lk_encoding *encoding, lk_codec *out, lk_err *err)
{
    const lk_encoding *values = encoding->values;
    if (values->kind != LK_ENCODING_FLAT || values->bits % 8 != 0 || values->bits == 0 ||
        values->bits > 128) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "byte stream split of something not flat");
    }
    *out = (lk_codec){
        .append = words_append, .words = split_words, .bits = values->bits, .sliced = true, .buffers = 1};
    return LK_OK;
}

/* -- runs ------------------------------------------------------------------------------------------ */
/* Most runs are short: the first words of one are written at once where there is room, the next run overwrites what
 * is too much. */
static inline __attribute__((always_inline)) uint64_t expand(const uint8_t *values, const uint8_t *lengths,
    size_t runs, uint64_t skip, uint64_t count, uint32_t width, uint8_t *out)
{
    enum { AT_ONCE = 8 };
    uint64_t done = 0;
    for (size_t run = 0; run < runs && done < count; run++) {
        uint64_t length = lengths[run], word = 0, at = 0;
        if (length <= skip) {
            skip -= length;
            continue;
        }
        uint64_t take = length - skip < count - done ? length - skip : count - done;
        memcpy(&word, values + run * width, width);
        if (count - done >= AT_ONCE) {
            for (; at < AT_ONCE; at++) {
                memcpy(out + (done + at) * width, &word, width);
            }
        }
        for (; at < take; at++) {
            memcpy(out + (done + at) * width, &word, width);
        }
        done += take;
        skip = 0;
    }
    return done;
}

lk_rc lk_runs_expand(lk_bytes values, lk_bytes lengths, uint32_t value_bits, uint64_t start, uint64_t count,
    uint8_t *out, lk_err *err)
{
    const uint8_t *words = (const uint8_t *)values.data, *repeats = (const uint8_t *)lengths.data;
    uint32_t       width = value_bits / 8;
    size_t         runs = values.size / width < lengths.size ? values.size / width : lengths.size;
    uint64_t       done = width == 8   ? expand(words, repeats, runs, start, count, 8, out)
                          : width == 4 ? expand(words, repeats, runs, start, count, 4, out)
                                       : expand(words, repeats, runs, start, count, width, out);
    return done == count ? LK_OK : lk_fail(err, LK_E_CORRUPT_FILE, "runs end before the last value");
}

static lk_rc run_words(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    uint8_t *out, size_t room, lk_scratch *scratch, lk_err *err)
{
    (void)room;
    (void)scratch;
    return lk_runs_expand(chunk->buffers[0], chunk->buffers[1], codec->bits, start, count, out, err);
}

/* Runs of booleans and other odd widths are not written by anyone. */
lk_rc lk_run_codec(const lk_encoding *encoding, lk_codec *out, lk_err *err)
{
    const lk_encoding *values = encoding->values, *lengths = encoding->lengths;
    bool word = values->bits == 8 || values->bits == 16 || values->bits == 32 || values->bits == 64;
    if (values->kind != LK_ENCODING_FLAT || !word || lengths->kind != LK_ENCODING_FLAT ||
        lengths->bits != 8) {
        lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "runs of another form");
        lk_detail(err, "Lance encoding run length with lengths or values that are not flat");
        return rc;
    }
    *out = (lk_codec){.append = words_append, .words = run_words, .bits = values->bits, .buffers = 2};
    return LK_OK;
}
