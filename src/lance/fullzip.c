/*
 * fullzip.c - pages of whole rows, for wide values: a row is [control word] value, so one read gets it.
 *
 *   buffer 0: entries. Control word: 0, 1, 2 or 4 bytes, the definition level and, in lists, the repetition level
 *             above it. Fixed values: there in every entry that owns one. Variable ones: u32 or u64 size and
 *             bytes, only where the definition level is 0.
 *   buffer 1 (variable values, lists): rows + 1 positions of 1, 2, 4 or 8 bytes into buffer 0
 */
#include "lance/file_priv.h"
#include "lance/stream.h"

#include <stdlib.h>

static lk_rc damaged(const lk_file_reader *file, const char *what, lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: full-zip page: %s", LK_FMT(file->key), what);
}

/* -- load ------------------------------------------------------------------------------------------ */
static lk_rc unsupported(const char *what, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "full-zip page with %s", what);
    lk_detail(err, "Lance full-zip page with %s", what);
    return rc;
}

static lk_rc load_fixed(lk_page *page, lk_err *err)
{
    lk_encoding_kind kind = page->layout.values->kind;
    if (kind != LK_ENCODING_FLAT && kind != LK_ENCODING_FIXED_SIZE_LIST &&
        kind != LK_ENCODING_PACKED_STRUCT) {
        return unsupported("fixed values that are not flat", err);
    }
    return lk_codec_new(page->layout.values, &page->arena, &page->codec, err);
}

static lk_rc load_variable(lk_page *page, lk_err *err)
{
    const lk_encoding *values = page->layout.values;
    if (values->kind == LK_ENCODING_FSST && values->values->kind == LK_ENCODING_VARIABLE) {
        page->fsst = lk_arena_take(&page->arena, sizeof *page->fsst);
        return lk_fsst_read_table(values->symbol_table, page->fsst, err);
    }
    if (values->kind == LK_ENCODING_VARIABLE_PACKED_STRUCT) {
        return lk_packed_new(values, &page->arena, &page->packed, err);
    }
    bool compressed = values->kind == LK_ENCODING_GENERAL && values->values->kind == LK_ENCODING_VARIABLE;
    return compressed || values->kind == LK_ENCODING_VARIABLE ? LK_OK
                                                              : unsupported("values of this encoding", err);
}

lk_rc lk_fullzip_load(lk_page *page, lk_err *err)
{
    const lk_page_layout *layout = &page->layout;
    bool                  lists = lk_has_lists(layout);
    size_t                buffers = layout->bits_per_offset > 0 || lists ? 2 : 1;
    bool                  counted =
        lists ? layout->bits_rep > 0 : layout->bits_rep == 0 && layout->num_items == page->meta->rows;
    if (!counted || page->meta->buffer_count < buffers) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "full-zip page of %llu entries and %llu rows",
            (unsigned long long)layout->num_items, (unsigned long long)page->meta->rows);
    }
    return layout->bits_per_offset > 0 ? load_variable(page, err) : load_fixed(page, err);
}

/* -- common ---------------------------------------------------------------------------------------- */
static size_t control_bytes(const lk_page_layout *layout)
{
    unsigned bits = layout->bits_rep + layout->bits_def;
    return bits == 0 ? 0 : bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
}

/* Completes a row with its level. */
static lk_rc complete_row(const lk_page_rows *rows, uint16_t level, lk_err *err)
{
    return rows->page->layout.bits_def == 0
               ? lk_column_valid(rows->column, 1, err)
               : lk_column_validity(rows->column, &level, 1, &rows->thresholds, err);
}

static uint64_t little(const uint8_t *at, size_t width)
{
    uint64_t word = 0;
    memcpy(&word, at, width);
    return word;
}

/* -- reading ------------------------------------------------------------------------------------------- */
enum { GROUP_RANGES = 128, GROUP_BYTES = 1024 * 1024 };

/* A stretch of one of the page's buffers, and where it lies once it is read. */
typedef struct piece {
    uint64_t start;
    size_t   size, at;
} piece;

/* Reads pieces (at most GROUP_RANGES) in one call, one behind the other into `to`. */
static lk_rc read_pieces(const lk_page_rows *rows, const lk_page_buffer *buffer, piece *pieces, size_t count,
    lk_buffer *to, lk_err *err)
{
    lk_store_range ranges[GROUP_RANGES];
    size_t         bytes = 0;
    for (size_t index = 0; index < count; index++) {
        pieces[index].at = bytes;
        bytes += pieces[index].size;
    }
    lk_rc rc = lk_buffer_grow(rows->scratch->pool, to, 0, bytes, err);
    for (size_t index = 0; rc == LK_OK && index < count; index++) {
        ranges[index] = (lk_store_range){
            buffer->offset + pieces[index].start, pieces[index].size, to->data + pieces[index].at};
    }
    return rc == LK_OK ? lk_file_bytes(rows->file, ranges, count, err) : rc;
}

/* How many pieces from the first on are read together: by bytes, at least one. */
static size_t group_of(const piece *pieces, size_t count)
{
    size_t some = 0, bytes = 0;
    while (some < count && some < GROUP_RANGES && (some == 0 || bytes + pieces[some].size <= GROUP_BYTES)) {
        bytes += pieces[some++].size;
    }
    return some;
}

/* -- fixed values ------------------------------------------------------------------------------------ */
/* One row's bytes as the chunk of one value that the codec knows: bitmaps in front of the values. */
static lk_rc append_fixed(const lk_page_rows *rows, const uint8_t *bytes, size_t size, lk_err *err)
{
    const lk_codec *codec = rows->codec;
    lk_column      *column = rows->column;
    lk_chunk        chunk = {.buffer_count = codec->buffers, .values = 1};
    size_t          at = 0, level = 0;
    if (column->type.layout == LK_LAYOUT_BITS && column->level_count == 0) { /* a boolean takes a byte */
        lk_column_put_bits(column, bytes, 0, 1);
        return LK_OK;
    }
    const lk_encoding *encoding = rows->page->layout.values;
    for (size_t buffer = 0; buffer + 1 < codec->buffers; level++, encoding = encoding->values) {
        if (encoding->has_validity) {
            size_t bitmap = (size_t)(column->levels[level].items + 7) / 8;
            if (size - at < bitmap) {
                return damaged(rows->file, "a row is too short", err);
            }
            chunk.buffers[buffer++] = (lk_bytes){(const char *)bytes + at, bitmap};
            at += bitmap;
        }
    }
    chunk.buffers[codec->buffers - 1] = (lk_bytes){(const char *)bytes + at, size - at};
    return codec->append(codec, &chunk, 0, 1, column, rows->scratch, err);
}

static lk_rc check_fixed(const lk_page_rows *rows, lk_err *err)
{
    const lk_codec *codec = rows->codec;
    uint32_t        bits = codec->bits;
    if (rows->column->type.layout == LK_LAYOUT_BITS && rows->column->level_count == 0) {
        return bits == 1 || bits == 8 ? LK_OK : damaged(rows->file, "booleans of another width", err);
    }
    lk_rc rc = lk_codec_check(codec, rows->column, err);
    if (rc == LK_OK && codec->buffers > 1 + rows->column->level_count) {
        rc = damaged(rows->file, "more bitmaps than list levels", err);
    }
    return rc;
}

/* Rows without control words and bitmaps are one piece. */
static bool plain(const lk_page_rows *rows, size_t stride)
{
    return rows->page->layout.bits_def == 0 && rows->codec->buffers == 1 &&
           rows->column->row_bits == stride * 8;
}

static lk_rc append_plain(
    const lk_page_rows *rows, const uint8_t *bytes, uint64_t count, size_t stride, lk_err *err)
{
    lk_column *column = rows->column;
    memcpy(lk_column_next(column), bytes, count * stride);
    for (size_t level = 0; level < column->level_count; level++) {
        lk_rc rc = lk_column_items(column, level, NULL, 0, count, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return lk_column_valid(column, count, err);
}

static lk_rc append_rows(
    const lk_page_rows *rows, const uint8_t *bytes, uint64_t count, size_t stride, lk_err *err)
{
    size_t control = control_bytes(&rows->page->layout);
    for (uint64_t row = 0; row < count; row++) {
        const uint8_t *at = bytes + row * stride;
        uint16_t       level = (uint16_t)little(at, control);
        lk_rc          rc = append_fixed(rows, at + control, stride - control, err);
        if (rc == LK_OK) {
            rc = complete_row(rows, level, err);
        }
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

bool lk_fullzip_span(const lk_page *page, const lk_row_range *range, uint64_t *offset, uint64_t *size)
{
    const lk_page_layout *layout = &page->layout;
    if (layout->kind != LK_PAGE_FULLZIP || layout->bits_per_value == 0 || layout->bits_rep > 0) {
        return false;
    }
    uint64_t stride = control_bytes(layout) + (layout->bits_per_value + 7) / 8;
    return !__builtin_mul_overflow(range->count, stride, size) &&
           !__builtin_mul_overflow(range->start, stride, offset) &&
           !__builtin_add_overflow(*offset, page->meta->buffers[0].offset, offset);
}

static lk_rc fixed_rows(const lk_page_rows *rows, lk_err *err)
{
    const lk_page_layout *layout = &rows->page->layout;
    const lk_page_buffer *buffer = &rows->page->meta->buffers[0];
    size_t                stride = control_bytes(layout) + (layout->bits_per_value + 7) / 8;
    if (layout->num_items > buffer->size / stride) {
        return damaged(rows->file, "rows end early", err);
    }
    lk_rc  rc = check_fixed(rows, err);
    piece *pieces = malloc((rows->range_count + 1) * sizeof *pieces);
    LK_ASSERT(pieces != NULL);
    for (size_t index = 0; index < rows->range_count; index++) {
        const lk_row_range *range = &rows->ranges[index];
        pieces[index] = (piece){range->start * stride, (size_t)range->count * stride, 0};
    }
    for (size_t first = 0, some = 0; rc == LK_OK && first < rows->range_count; first += some) {
        some = group_of(pieces + first, rows->range_count - first);
        rc = read_pieces(rows, buffer, pieces + first, some, &rows->scratch->bytes, err);
        for (size_t index = first; rc == LK_OK && index < first + some; index++) {
            const uint8_t *bytes = rows->scratch->bytes.data + pieces[index].at;
            rc = (plain(rows, stride) ? append_plain : append_rows)(
                rows, bytes, rows->ranges[index].count, stride, err);
        }
    }
    free(pieces);
    return rc;
}

/* -- variable values --------------------------------------------------------------------------------- */
static lk_rc append_compressed(const lk_page_rows *rows, lk_bytes value, lk_err *err)
{
    lk_column *column = rows->column;
    lk_scheme  scheme = rows->page->layout.values->scheme;
    size_t     size = 0;
    if (value.size == 0) {
        return LK_OK;
    }
    lk_rc rc = lk_decompressed_size(scheme, value, &size, err);
    if (rc == LK_OK) {
        rc = lk_column_reserve(column, size, err);
    }
    if (rc == LK_OK) {
        rc = lk_decompress(
            &rows->scratch->zstd, scheme, value, column->data.data + column->data_size, size, err);
        column->data_size += size;
    }
    return rc;
}

static lk_rc append_coded(const lk_page_rows *rows, lk_bytes value, lk_err *err)
{
    lk_column *column = rows->column;
    lk_rc      rc = lk_column_reserve(column, value.size * LK_FSST_SYMBOL_BYTES + LK_FSST_SYMBOL_BYTES, err);
    if (rc != LK_OK) {
        return rc;
    }
    uint8_t *to = column->data.data + column->data_size;
    uint8_t *end = lk_fsst_decode(rows->page->fsst, (const uint8_t *)value.data, value.size, to);
    if (end == NULL) {
        return damaged(rows->file, "an FSST code without a symbol", err);
    }
    column->data_size += (uint64_t)(end - to);
    return LK_OK;
}

static lk_rc append_value(const lk_page_rows *rows, lk_bytes value, lk_err *err)
{
    lk_column *column = rows->column;
    lk_rc      rc = LK_OK;
    if (rows->page->packed != NULL) {
        rc =
            value.size == 0 ? LK_OK : lk_packed_append(rows->page->packed, value, column, rows->scratch, err);
    } else if (rows->page->layout.values->kind == LK_ENCODING_GENERAL) {
        rc = append_compressed(rows, value, err);
    } else if (rows->page->fsst != NULL && !rows->page->fsst->plain) {
        rc = append_coded(rows, value, err);
    } else {
        rc = lk_column_reserve(column, value.size, err);
        if (rc == LK_OK && value.size > 0) {
            memcpy(column->data.data + column->data_size, value.data, value.size);
            column->data_size += value.size;
        }
    }
    return rc;
}

/* One entry: its control word, and its value unless that says null. */
static lk_rc append_entry(const lk_page_rows *rows, lk_bytes entry, lk_err *err)
{
    size_t     control = control_bytes(&rows->page->layout), width = rows->page->layout.bits_per_offset / 8;
    lk_bytes   value = {0};
    uint16_t   level = 0;
    lk_column *column = rows->column;
    if (entry.size < control) {
        return damaged(rows->file, "a row is too short", err);
    }
    level = (uint16_t)little((const uint8_t *)entry.data, control);
    if (level == 0) {
        if (entry.size - control < width) {
            return damaged(rows->file, "a row is too short", err);
        }
        uint64_t size = little((const uint8_t *)entry.data + control, width);
        if (size != entry.size - control - width) {
            return damaged(rows->file, "a value is not as long as its row", err);
        }
        value = (lk_bytes){entry.data + control + width, (size_t)size};
    }
    lk_rc rc = append_value(rows, value, err);
    if (rc != LK_OK) {
        return rc;
    }
    memcpy(column->values.data + (column->rows + 1) * column->offset_bytes, &column->data_size,
        column->offset_bytes);
    return complete_row(rows, level, err);
}

/* The rows of one range as they were read: their positions in the page's first buffer, and its bytes from the first
 * of them on. */
typedef struct stretch {
    const uint8_t *positions;
    uint64_t       rows;
    size_t         width; /* of a position */
    uint64_t       first, last;
    const char    *bytes;
} stretch;

typedef lk_rc (*append_stretch)(const lk_page_rows *rows, const stretch *some, lk_err *err);

static lk_rc append_entries(const lk_page_rows *rows, const stretch *some, lk_err *err)
{
    uint64_t before = some->first;
    for (uint64_t row = 0; row < some->rows; row++) {
        uint64_t next = little(some->positions + (row + 1) * some->width, some->width);
        if (next < before || next > some->last) {
            return damaged(rows->file, "row positions do not ascend", err);
        }
        lk_bytes entry = {some->bytes + (before - some->first), (size_t)(next - before)};
        lk_rc    rc = append_entry(rows, entry, err);
        if (rc != LK_OK) {
            return rc;
        }
        before = next;
    }
    return LK_OK;
}

/* Values of ranges whose positions are read; places: where those lie, then where the values do. */
static lk_rc append_group(const lk_page_rows *rows, const lk_row_range *ranges, piece *places, size_t count,
    size_t width, append_stretch append, lk_err *err)
{
    const lk_page_buffer *buffer = &rows->page->meta->buffers[0];
    const uint8_t        *positions = rows->scratch->levels.data;
    piece                 values[GROUP_RANGES];
    for (size_t index = 0; index < count; index++) {
        const uint8_t *at = positions + places[index].at;
        uint64_t       first = little(at, width), last = little(at + ranges[index].count * width, width);
        if (first > last || last > buffer->size) {
            return damaged(rows->file, "row positions lie outside of it", err);
        }
        values[index] = (piece){first, (size_t)(last - first), 0};
    }
    lk_rc rc = LK_OK;
    for (size_t done = 0, some = 0; rc == LK_OK && done < count; done += some) {
        some = group_of(values + done, count - done);
        rc = read_pieces(rows, buffer, values + done, some, &rows->scratch->bytes, err);
        for (size_t index = done; rc == LK_OK && index < done + some; index++) {
            const stretch one = {.positions = positions + places[index].at,
                .rows = ranges[index].count,
                .width = width,
                .first = values[index].start,
                .last = values[index].start + values[index].size,
                .bytes = (const char *)rows->scratch->bytes.data + values[index].at};
            rc = append(rows, &one, err);
        }
    }
    return rc;
}

/* Positions of many ranges are read together, then their values. */
static lk_rc each_stretch(const lk_page_rows *rows, size_t width, append_stretch append, lk_err *err)
{
    piece places[GROUP_RANGES];
    lk_rc rc = LK_OK;
    for (size_t first = 0, some = 0; rc == LK_OK && first < rows->range_count; first += some) {
        size_t left = rows->range_count - first;
        left = left < GROUP_RANGES ? left : GROUP_RANGES;
        for (size_t index = 0; index < left; index++) {
            const lk_row_range *range = &rows->ranges[first + index];
            places[index] = (piece){range->start * width, (size_t)(range->count + 1) * width, 0};
        }
        some = group_of(places, left);
        rc = read_pieces(rows, &rows->page->meta->buffers[1], places, some, &rows->scratch->levels, err);
        if (rc == LK_OK) {
            rc = append_group(rows, rows->ranges + first, places, some, width, append, err);
        }
    }
    return rc;
}

static lk_rc variable_rows(const lk_page_rows *rows, lk_err *err)
{
    const lk_page_meta *meta = rows->page->meta;
    uint64_t            width = meta->rows == UINT64_MAX ? 0 : meta->buffers[1].size / (meta->rows + 1);
    if (rows->column->offset_bytes == 0) {
        return damaged(rows->file, "variable values in a column of fixed ones", err);
    }
    if (width != 1 && width != 2 && width != 4 && width != 8) {
        return damaged(rows->file, "row positions of an odd width", err);
    }
    return each_stretch(rows, (size_t)width, append_entries, err);
}

lk_rc lk_fullzip_rows(const lk_page_rows *rows, lk_err *err)
{
    return rows->page->layout.bits_per_offset > 0 ? variable_rows(rows, err) : fixed_rows(rows, err);
}

/* -- lists ----------------------------------------------------------------------------------------- */
enum { LEVELS_AT_ONCE = 256 };

/* Entries of some rows, taken apart one after the other. */
typedef struct entries {
    const lk_page_rows *rows;
    lk_bytes            left;
    uint16_t            rep[LEVELS_AT_ONCE], def[LEVELS_AT_ONCE];
    size_t              count;
} entries;

static lk_rc flush_levels(entries *self, lk_err *err)
{
    lk_rc rc = lk_stream_append(
        self->rows->stream, &self->rows->page->layout, self->rep, self->def, self->count, err);
    self->count = 0;
    return rc;
}

static bool skip(lk_bytes *bytes, size_t size)
{
    if (bytes->size < size) {
        return false;
    }
    *bytes = (lk_bytes){bytes->data + size, bytes->size - size};
    return true;
}

/* The value behind a control word: fixed bytes, or a size and as many. */
static lk_rc take_value(entries *self, bool empty, lk_err *err)
{
    const lk_page_rows   *rows = self->rows;
    const lk_page_layout *layout = &rows->page->layout;
    size_t                width = layout->bits_per_offset / 8;
    lk_bytes              value = self->left;
    lk_column            *column = rows->column;
    if (width == 0) {
        size_t size = (layout->bits_per_value + 7) / 8;
        return skip(&self->left, size) ? append_fixed(rows, (const uint8_t *)value.data, size, err)
                                       : damaged(rows->file, "a value is cut off", err);
    }
    value.size = 0;
    if (!empty) {
        if (self->left.size < width) {
            return damaged(rows->file, "a value is cut off", err);
        }
        uint64_t size = little((const uint8_t *)self->left.data, width);
        value = (lk_bytes){self->left.data + width, (size_t)size};
        if (size > self->left.size - width || !skip(&self->left, width + (size_t)size)) {
            return damaged(rows->file, "a value is cut off", err);
        }
    }
    lk_rc rc = append_value(rows, value, err);
    if (rc == LK_OK) {
        memcpy(column->values.data + (column->rows + 1) * column->offset_bytes, &column->data_size,
            column->offset_bytes);
    }
    return rc;
}

static lk_rc take_entry(entries *self, lk_err *err)
{
    const lk_page_rows   *rows = self->rows;
    const lk_page_layout *layout = &rows->page->layout;
    size_t                control = control_bytes(layout);
    const uint8_t        *word = (const uint8_t *)self->left.data;
    if (!skip(&self->left, control)) {
        return damaged(rows->file, "an entry is cut off", err);
    }
    uint64_t levels = little(word, control);
    uint16_t def = (uint16_t)(levels & ((1U << layout->bits_def) - 1));
    self->rep[self->count] = (uint16_t)(levels >> layout->bits_def);
    self->def[self->count++] = def;
    lk_rc rc = LK_OK;
    if (def <= lk_visible_level(layout)) {
        rc = lk_column_extend(rows->column, 1, err);
        if (rc == LK_OK) {
            rc = take_value(self, def != 0, err);
        }
        rows->column->rows += rc == LK_OK;
    }
    return rc == LK_OK && self->count == LEVELS_AT_ONCE ? flush_levels(self, err) : rc;
}

static lk_rc append_levelled(const lk_page_rows *rows, const stretch *some, lk_err *err)
{
    entries self = {.rows = rows, .left = {some->bytes, (size_t)(some->last - some->first)}};
    lk_rc   rc = LK_OK;
    while (rc == LK_OK && self.left.size > 0) {
        rc = take_entry(&self, err);
    }
    return rc == LK_OK ? flush_levels(&self, err) : rc;
}

lk_rc lk_fullzip_entries(const lk_page_rows *rows, lk_err *err)
{
    const lk_page_meta *meta = rows->page->meta;
    bool                fixed = rows->page->layout.bits_per_offset == 0;
    uint64_t            width = meta->rows == UINT64_MAX ? 0 : meta->buffers[1].size / (meta->rows + 1);
    if (width != 1 && width != 2 && width != 4 && width != 8) {
        return damaged(rows->file, "row positions of an odd width", err);
    }
    if (!fixed && rows->column->offset_bytes == 0) {
        return damaged(rows->file, "variable values in a column of fixed ones", err);
    }
    lk_rc rc = fixed ? check_fixed(rows, err) : LK_OK;
    return rc == LK_OK ? each_stretch(rows, (size_t)width, append_levelled, err) : rc;
}
