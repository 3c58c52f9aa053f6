/*
 * enc_string.c - text and bytes in a mini-block: offsets in front, bytes behind (variable), and the same with
 * each value FSST-coded.
 */
#include "lance/codec.h"
#include "lance/cpu.h"

/* out[i] = from[i] + by for count values; false when from is not ascending up to `limit`. */
LK_VECTOR static bool shift32(
    const uint32_t *from, uint32_t count, uint32_t by, uint32_t limit, uint32_t *out)
{
    unsigned wrong = 0;
    for (uint32_t at = 0; at < count; at++) {
        wrong |= from[at + 1] < from[at];
        out[at] = from[at + 1] + by;
    }
    return wrong == 0 && from[count] <= limit;
}

static bool shift64(const uint64_t *from, uint32_t count, uint64_t by, uint64_t limit, uint64_t *out)
{
    bool wrong = false;
    for (uint32_t at = 0; at < count; at++) {
        wrong |= from[at + 1] < from[at];
        out[at] = from[at + 1] + by;
    }
    return !wrong && from[count] <= limit;
}

/* Offset i of the chunk, whose offsets are `width` bytes. */
static uint64_t offset_at(const lk_chunk *chunk, uint32_t width, uint32_t index)
{
    const char *at = chunk->buffers[0].data + (size_t)index * width;
    return width == 4 ? lk_load_u32(at) : lk_load_u64(at);
}

static lk_rc damaged(lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "text offsets of a chunk are wrong");
}

/* The bytes of rows [start, start + count), by the outer two offsets; the inner ones are not checked yet. */
static lk_rc outer_range(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    uint64_t *first, uint64_t *last, lk_err *err)
{
    size_t size = chunk->buffers[0].size;
    if (size / codec->param < (size_t)chunk->values + 1) {
        return damaged(err);
    }
    *first = offset_at(chunk, codec->param, start);
    *last = offset_at(chunk, codec->param, start + count);
    return *first > *last || *last > size ? damaged(err) : LK_OK;
}

/* Offsets of another width than the column's, one by one. */
static bool shift_mixed(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    uint64_t by, lk_column *column)
{
    uint64_t before = offset_at(chunk, codec->param, start);
    uint8_t *to = column->values.data + (column->rows + 1) * column->offset_bytes;
    for (uint32_t at = 0; at < count; at++) {
        uint64_t here = offset_at(chunk, codec->param, start + at + 1), shifted = here + by;
        if (here < before) {
            return false;
        }
        memcpy(to + (size_t)at * column->offset_bytes, &shifted, column->offset_bytes);
        before = here;
    }
    return true;
}

static bool shift_offsets(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    uint64_t first, uint64_t last, lk_column *column)
{
    uint64_t       by = column->data_size - first;
    const uint8_t *from = (const uint8_t *)chunk->buffers[0].data + (size_t)start * codec->param;
    uint8_t       *to = column->values.data + (column->rows + 1) * column->offset_bytes;
    if (codec->param == 4 && column->offset_bytes == 4) {
        return shift32((const uint32_t *)(const void *)from, count, (uint32_t)by, (uint32_t)last,
            (uint32_t *)(void *)to);
    }
    if (codec->param == 8 && column->offset_bytes == 8) {
        return shift64((const uint64_t *)(const void *)from, count, by, last, (uint64_t *)(void *)to);
    }
    return shift_mixed(codec, chunk, start, count, by, column);
}

static lk_rc variable_append(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    lk_column *column, lk_scratch *scratch, lk_err *err)
{
    (void)scratch;
    uint64_t first = 0, last = 0;
    lk_rc    rc = outer_range(codec, chunk, start, count, &first, &last, err);
    if (rc == LK_OK) {
        rc = lk_column_reserve(column, last - first, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    if (!shift_offsets(codec, chunk, start, count, first, last, column)) {
        return damaged(err);
    }
    memcpy(column->data.data + column->data_size, chunk->buffers[0].data + first, last - first);
    column->data_size += last - first;
    return LK_OK;
}

static lk_rc offset_width(const lk_encoding *encoding, lk_codec *out, lk_err *err)
{
    const lk_encoding *offsets = encoding->lengths;
    if (offsets->kind != LK_ENCODING_FLAT || (offsets->bits != 32 && offsets->bits != 64)) {
        lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "variable with offsets that are not flat");
        lk_detail(err, "Lance encoding variable with offsets that are not flat");
        return rc;
    }
    out->param = offsets->bits / 8;
    return LK_OK;
}

lk_rc lk_variable_codec(const lk_encoding *encoding, lk_codec *out, lk_err *err)
{
    *out = (lk_codec){.append = variable_append, .sliced = true, .buffers = 1};
    return offset_width(encoding, out, err);
}

/* -- FSST ------------------------------------------------------------------------------------------ */
/* out[i] = base + positions[from[i + 1] - first]; the caller knows that from ascends. */
LK_VECTOR static void place32(const uint32_t *from, uint32_t count, uint32_t first, const uint32_t *positions,
    uint32_t base, uint32_t *out)
{
    for (uint32_t at = 0; at < count; at++) {
        out[at] = base + positions[from[at + 1] - first];
    }
}

static void place_mixed(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    uint64_t first, const uint32_t *positions, lk_column *column)
{
    uint8_t *to = column->values.data + (column->rows + 1) * column->offset_bytes;
    for (uint32_t at = 0; at < count; at++) {
        uint64_t offset =
            column->data_size + positions[offset_at(chunk, codec->param, start + at + 1) - first];
        memcpy(to + (size_t)at * column->offset_bytes, &offset, column->offset_bytes);
    }
}

/* Offsets of the plain text: where the text of each value's last code ended. First the coded ones are checked,
 * into the same place. */
static bool place_offsets(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    const uint32_t *positions, lk_column *column)
{
    uint64_t first = offset_at(chunk, codec->param, start),
             last = offset_at(chunk, codec->param, start + count);
    const uint8_t *from = (const uint8_t *)chunk->buffers[0].data + (size_t)start * codec->param;
    uint8_t       *to = column->values.data + (column->rows + 1) * column->offset_bytes;
    if (!shift_offsets(codec, chunk, start, count, first, last, column)) {
        return false;
    }
    if (codec->param == 4 && column->offset_bytes == 4) {
        place32((const uint32_t *)(const void *)from, count, (uint32_t)first, positions,
            (uint32_t)column->data_size, (uint32_t *)(void *)to);
    } else {
        place_mixed(codec, chunk, start, count, first, positions, column);
    }
    return true;
}

static lk_rc fsst_append(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    lk_column *column, lk_scratch *scratch, lk_err *err)
{
    const lk_fsst *fsst = codec->state;
    uint64_t       first = 0, last = 0;
    if (fsst->plain) {
        return variable_append(codec, chunk, start, count, column, scratch, err);
    }
    lk_rc rc = outer_range(codec, chunk, start, count, &first, &last, err);
    if (rc == LK_OK) {
        rc = lk_column_reserve(column, (last - first) * LK_FSST_SYMBOL_BYTES + LK_FSST_SYMBOL_BYTES, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    rc =
        lk_buffer_grow(scratch->pool, &scratch->words, 0, (size_t)(last - first + 1) * sizeof(uint32_t), err);
    if (rc != LK_OK) {
        return rc;
    }
    const uint8_t *bytes = (const uint8_t *)chunk->buffers[0].data + first;
    uint32_t      *positions = (uint32_t *)(void *)scratch->words.data;
    uint8_t       *to = column->data.data + column->data_size;
    uint8_t       *end = lk_fsst_decode_all(fsst, bytes, (size_t)(last - first), to, 0, positions);
    if (end == NULL) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "an FSST code without a symbol");
    }
    if (!place_offsets(codec, chunk, start, count, positions, column)) {
        return damaged(err);
    }
    column->data_size += (uint64_t)(end - to);
    return LK_OK;
}

lk_rc lk_fsst_codec(const lk_encoding *encoding, lk_arena *arena, lk_codec *out, lk_err *err)
{
    lk_fsst *fsst = lk_arena_take(arena, sizeof *fsst);
    if (encoding->values->kind != LK_ENCODING_VARIABLE) {
        lk_rc rc =
            lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "FSST around encoding %d", (int)encoding->values->kind);
        lk_detail(err, "Lance encoding FSST around something that is not variable");
        return rc;
    }
    *out = (lk_codec){.append = fsst_append, .sliced = true, .buffers = 1, .state = fsst};
    lk_rc rc = offset_width(encoding->values, out, err);
    return rc == LK_OK ? lk_fsst_read_table(encoding->symbol_table, fsst, err) : rc;
}
