/*
 * constant.c - pages of one value, or of none at all (all null).
 *
 *   buffers: none; [value]; [rep, def]; [value, rep, def]. A value of up to 32 bytes lies in the layout. Levels
 *   are plain u16, or a block when the layout says how it is compressed.
 *   value buffer: u32 buffers, their u32 sizes, the buffers of a one-row Arrow array without its validity
 */
#include "lance/file_priv.h"
#include "lance/stream.h"

/* Levels compress well, but not better than this: more are not believed. */
enum { LEVELS_A_BYTE = 65536 };

typedef struct constant {
    bool     has_value;
    lk_bytes value; /* of a row: fixed bytes, or the text */
    bool     has_levels;
    size_t   levels; /* the page's buffer with definition levels */
} constant;

static lk_rc damaged(const lk_page_rows *rows, const char *what, lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: constant page: %s", LK_FMT(rows->file->key), what);
}

static lk_rc read_buffer(const lk_page_rows *rows, size_t index, lk_buffer *into, lk_bytes *out, lk_err *err)
{
    const lk_page_buffer *buffer = &rows->page->meta->buffers[index];
    lk_rc                 rc = lk_buffer_grow(rows->scratch->pool, into, 0, (size_t)buffer->size, err);
    if (rc == LK_OK) {
        lk_store_range range = {buffer->offset, (size_t)buffer->size, into->data};
        rc = lk_file_bytes(rows->file, &range, 1, err);
    }
    *out = (lk_bytes){(const char *)into->data, (size_t)buffer->size};
    return rc;
}

/* The last Arrow buffer of the value; text has its two offsets in front of it. */
static lk_rc parse_value(const lk_page_rows *rows, lk_bytes scalar, lk_bytes *out, lk_err *err)
{
    uint32_t count = scalar.size < 4 ? 0 : lk_load_u32(scalar.data);
    uint64_t at = 4 + 4 * (uint64_t)count, size = 0;
    if (count != (rows->column->offset_bytes > 0 ? 2U : 1U) || at > scalar.size) {
        return damaged(rows, "its value is not one of its type", err);
    }
    for (uint32_t buffer = 0; buffer < count; buffer++) {
        at += size;
        size = lk_load_u32(scalar.data + 4 + 4 * (size_t)buffer);
        if (at > scalar.size || size > scalar.size - at) {
            return damaged(rows, "its value is cut off", err);
        }
    }
    *out = (lk_bytes){scalar.data + at, (size_t)size};
    return LK_OK;
}

static lk_rc read_value(const lk_page_rows *rows, constant *out, lk_err *err)
{
    const lk_page_layout *layout = &rows->page->layout;
    size_t                buffers = rows->page->meta->buffer_count;
    lk_bytes              scalar = {0};
    out->has_levels = buffers >= 2;
    out->levels = buffers == 3 ? 2 : 1;
    if (buffers > 3 || (layout->has_inline_value && buffers % 2 == 1)) {
        return damaged(rows, "another number of buffers than its kind has", err);
    }
    if (layout->has_inline_value) {
        out->has_value = true;
        out->value = layout->inline_value;
        return LK_OK;
    }
    if (buffers % 2 == 0) {
        return LK_OK;
    }
    out->has_value = true;
    lk_rc rc = read_buffer(rows, 0, &rows->scratch->bytes, &scalar, err);
    return rc == LK_OK ? parse_value(rows, scalar, &out->value, err) : rc;
}

static lk_rc check_value(const lk_page_rows *rows, const constant *value, lk_err *err)
{
    const lk_column *column = rows->column;
    if (!value->has_value || column->offset_bytes > 0) {
        return LK_OK;
    }
    bool fits = column->row_bits > 0 && value->value.size >= (column->row_bits + 7) / 8;
    return fits && column->level_count == 0 ? LK_OK : damaged(rows, "its value is not one of its type", err);
}

/* Writes the value `count` times. */
static lk_rc put_value(const lk_page_rows *rows, lk_bytes value, uint64_t count, lk_err *err)
{
    lk_column *column = rows->column;
    size_t     width = column->row_bits / 8;
    if (column->offset_bytes > 0) {
        uint64_t bytes = 0;
        lk_rc rc = __builtin_mul_overflow(value.size, count, &bytes) ? lk_fail(err, LK_E_LIMIT, "a long text")
                                                                     : lk_column_reserve(column, bytes, err);
        for (uint64_t row = 1; rc == LK_OK && row <= count; row++) {
            memcpy(column->data.data + column->data_size, value.data, value.size);
            column->data_size += value.size;
            memcpy(column->values.data + (column->rows + row) * column->offset_bytes, &column->data_size,
                column->offset_bytes);
        }
        return rc;
    }
    if (width == 0) { /* booleans: eight a byte, however they are aligned */
        uint8_t  bits[64];
        uint64_t start = column->rows;
        memset(bits, value.data[0] & 1 ? 0xff : 0, sizeof bits);
        for (uint64_t done = 0; done < count; done += 512) {
            column->rows = start + done;
            lk_column_put_bits(column, bits, 0, count - done < 512 ? count - done : 512);
        }
        column->rows = start;
        return LK_OK;
    }
    for (uint64_t row = 0; row < count; row++) {
        memcpy(lk_column_next(column) + row * width, value.data, width);
    }
    return LK_OK;
}

/* Definition levels of the page (compressed: all; plain: what the range needs) with *levels at its start. */
static lk_rc read_levels(const lk_page_rows *rows, const constant *self, const lk_row_range *range,
    const uint16_t **levels, lk_err *err)
{
    const lk_page_layout *layout = &rows->page->layout;
    const lk_page_buffer *buffer = &rows->page->meta->buffers[self->levels];
    lk_scratch           *scratch = rows->scratch;
    bool                  plain = layout->def == NULL;
    uint64_t              total = rows->page->meta->rows, count = plain ? range->count : total;
    if (total > UINT32_MAX || (plain && buffer->size / 2 < total) ||
        (!plain && (layout->num_def_values != total || total / LEVELS_A_BYTE > buffer->size))) {
        return damaged(rows, "another number of levels than rows", err);
    }
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->levels, 0, (size_t)(count + 1024) * 2, err);
    if (rc != LK_OK) {
        return rc;
    }
    uint16_t *out = (uint16_t *)(void *)scratch->levels.data;
    if (plain) {
        lk_store_range read = {buffer->offset + range->start * 2, (size_t)range->count * 2, out};
        *levels = out;
        return lk_file_bytes(rows->file, &read, 1, err);
    }
    lk_bytes block = {0};
    *levels = out + range->start;
    rc = read_buffer(rows, self->levels, &scratch->words, &block, err);
    return rc == LK_OK ? lk_levels_read(layout->def, block, total, out, scratch, err) : rc;
}

static lk_rc append_range(
    const lk_page_rows *rows, const constant *self, const lk_row_range *range, lk_err *err)
{
    const uint16_t *levels = NULL;
    lk_column      *column = rows->column;
    lk_rc           rc = LK_OK;
    if (!self->has_value && !self->has_levels) {
        return lk_column_nulls(column, range->count, 1, &rows->thresholds, err);
    }
    if (self->has_levels) {
        rc = read_levels(rows, self, range, &levels, err);
    }
    if (rc == LK_OK && self->has_value) {
        rc = put_value(rows, self->value, range->count, err);
    } else if (rc == LK_OK) {
        lk_column_put_empty(column, range->count);
    }
    for (size_t level = 0; rc == LK_OK && level < column->level_count; level++) {
        rc = lk_column_items(column, level, NULL, 0, range->count, err);
    }
    if (rc == LK_OK) {
        rc = self->has_levels ? lk_column_validity(column, levels, range->count, &rows->thresholds, err)
                              : lk_column_valid(column, range->count, err);
    }
    return rc;
}

lk_rc lk_constant_rows(const lk_page_rows *rows, lk_err *err)
{
    constant self = {0};
    lk_rc    rc = read_value(rows, &self, err);
    if (rc == LK_OK) {
        rc = check_value(rows, &self, err);
    }
    for (size_t index = 0; rc == LK_OK && index < rows->range_count; index++) {
        rc = append_range(rows, &self, &rows->ranges[index], err);
    }
    return rc;
}

/* -- lists ----------------------------------------------------------------------------------------- */
typedef struct page_levels {
    uint16_t *rep, *def; /* def NULL: all zero */
    uint64_t  count;
} page_levels;

/* How many levels a buffer holds: as many as fit, or as the layout says when it is compressed. */
static lk_rc level_count(const lk_page_rows *rows, size_t index, const lk_encoding *how, uint64_t stated,
    uint64_t *count, lk_err *err)
{
    uint64_t size = rows->page->meta->buffers[index].size;
    *count = how == NULL ? size / 2 : stated;
    return *count / LEVELS_A_BYTE <= size && *count <= UINT32_MAX ? LK_OK
                                                                  : damaged(rows, "too many levels", err);
}

static lk_rc read_all(const lk_page_rows *rows, size_t index, const lk_encoding *how, uint64_t count,
    uint16_t *out, lk_err *err)
{
    static const lk_encoding plain = {.kind = LK_ENCODING_FLAT, .bits = 16};
    lk_bytes                 block = {0};
    lk_rc                    rc = read_buffer(rows, index, &rows->scratch->words, &block, err);
    return rc == LK_OK ? lk_levels_read(how == NULL ? &plain : how, block, count, out, rows->scratch, err)
                       : rc;
}

static lk_rc read_page_levels(const lk_page_rows *rows, size_t rep_index, page_levels *out, lk_err *err)
{
    const lk_page_layout *layout = &rows->page->layout;
    uint64_t              defs = 0;
    lk_rc rc = level_count(rows, rep_index, layout->rep, layout->num_rep_values, &out->count, err);
    if (rc == LK_OK) {
        rc = level_count(rows, rep_index + 1, layout->def, layout->num_def_values, &defs, err);
    }
    if (rc == LK_OK && ((defs != 0 && defs != out->count) || out->count == 0)) {
        rc = damaged(rows, "repetition and definition levels differ in number", err);
    }
    if (rc == LK_OK) {
        rc = lk_buffer_grow(rows->scratch->pool, &rows->scratch->levels, 0, (out->count + 1024) * 4, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    out->rep = (uint16_t *)(void *)rows->scratch->levels.data;
    out->def = defs == 0 ? NULL : out->rep + out->count + 1024;
    rc = read_all(rows, rep_index, layout->rep, out->count, out->rep, err);
    return rc == LK_OK && out->def != NULL
               ? read_all(rows, rep_index + 1, layout->def, out->count, out->def, err)
               : rc;
}

/* Entries [first, last) and the values that they own. */
static lk_rc append_entries(const lk_page_rows *rows, const constant *self, const page_levels *levels,
    uint64_t first, uint64_t last, lk_err *err)
{
    const lk_page_layout *layout = &rows->page->layout;
    lk_column            *column = rows->column;
    uint64_t              values = 0;
    for (uint64_t entry = first; entry < last; entry++) {
        values += levels->def == NULL || levels->def[entry] <= lk_visible_level(layout);
    }
    lk_rc rc = lk_column_extend(column, values, err);
    if (rc == LK_OK) {
        rc = lk_stream_append(rows->stream, layout, levels->rep + first,
            levels->def == NULL ? NULL : levels->def + first, last - first, err);
    }
    if (rc == LK_OK && self->has_value) {
        rc = put_value(rows, self->value, values, err);
    } else if (rc == LK_OK) {
        lk_column_put_empty(column, values);
    }
    for (size_t level = 0; rc == LK_OK && level < column->level_count; level++) {
        rc = lk_column_items(column, level, NULL, 0, values, err);
    }
    column->rows += rc == LK_OK ? values : 0;
    return rc;
}

lk_rc lk_constant_entries(const lk_page_rows *rows, lk_err *err)
{
    constant    self = {0};
    page_levels levels = {0};
    lk_rc       rc = read_value(rows, &self, err);
    if (rc == LK_OK) {
        rc = check_value(rows, &self, err);
    }
    if (rc == LK_OK && !self.has_levels) {
        rc = damaged(rows, "lists without levels", err);
    }
    if (rc == LK_OK) {
        rc = read_page_levels(rows, self.levels - 1, &levels, err);
    }
    uint64_t entry = 0, row = 0; /* row that begins next */
    for (size_t index = 0; rc == LK_OK && index < rows->range_count; index++) {
        const lk_row_range *range = &rows->ranges[index];
        for (; entry < levels.count && row <= range->start; entry++) {
            row += levels.rep[entry] == rows->stream->lists;
        }
        uint64_t first = entry - (row > range->start); /* back to the entry that began it */
        for (; entry < levels.count; entry++) {
            if (levels.rep[entry] == rows->stream->lists && ++row > range->start + range->count) {
                break;
            }
        }
        row -= row > range->start + range->count;
        rc = append_entries(rows, &self, &levels, first, entry, err);
    }
    return rc;
}
