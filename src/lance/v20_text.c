/* v20_text.c - see v20_priv.h: texts of one page. A range of rows is a stretch of bytes, which their ends tell. */
#include "lance/v20_priv.h"

#include <stdlib.h>
#include <string.h>

/* Where the end of the next row goes. */
static uint8_t *next_end(const lk_column *column)
{
    return column->values.data + (column->rows + 1) * column->offset_bytes;
}

static lk_rc read_plain(
    const lk_page_rows *rows, const lk_v20_array *bytes, const lk_v20_ends *text, lk_err *err)
{
    lk_column *column = rows->column;
    lk_rc      rc = lk_column_reserve(column, text->size, err);
    if (rc == LK_OK) {
        rc = lk_v20_bytes(
            rows, bytes, text->spans, rows->range_count, 1, column->data.data + column->data_size, err);
    }
    if (rc == LK_OK) {
        lk_v20_put_ends(text, column->data_size, column->offset_bytes, next_end(column));
        column->data_size += text->size;
    }
    return rc;
}

/* Reads the coded text and finds for every end in it where its plain text ends. */
static lk_rc read_fsst(const lk_page_rows *rows, const lk_v20_array *bytes, lk_v20_ends *text, lk_err *err)
{
    lk_column  *column = rows->column;
    lk_scratch *scratch = rows->scratch;
    if (bytes->scheme != LK_V20_PLAIN || text->size > UINT32_MAX / LK_FSST_SYMBOL_BYTES) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "FSST text that is compressed again, or too long");
    }
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->bytes, 0, text->size + 8, err);
    if (rc == LK_OK) {
        rc = lk_v20_bytes(rows, bytes, text->spans, rows->range_count, 1, scratch->bytes.data, err);
    }
    if (rc == LK_OK) {
        rc = lk_buffer_grow(scratch->pool, &scratch->block, 0, (text->size + 1) * sizeof(uint32_t), err);
    }
    if (rc == LK_OK) {
        rc = lk_column_reserve(column, (text->size + 1) * LK_FSST_SYMBOL_BYTES, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    uint32_t *positions = (uint32_t *)(void *)scratch->block.data;
    uint8_t  *to = column->data.data + column->data_size;
    uint8_t  *end =
        lk_fsst_decode_all(rows->page->fsst, scratch->bytes.data, (size_t)text->size, to, 0, positions);
    if (end == NULL) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "an FSST code without a symbol");
    }
    for (uint64_t row = 0; row < text->count; row++) {
        text->ends[row] = positions[text->ends[row]];
    }
    lk_v20_put_ends(text, column->data_size, column->offset_bytes, next_end(column));
    column->data_size += (uint64_t)(end - to);
    return LK_OK;
}

static lk_rc read_binary(const lk_page_rows *rows, const lk_v20_array *array, bool fsst, lk_err *err)
{
    lk_v20_ends text = {0};
    lk_rc       rc = lk_v20_find_ends(rows, array, &text, err);
    if (rc == LK_OK) {
        rc = fsst && !rows->page->fsst->plain ? read_fsst(rows, array->values, &text, err)
                                              : read_plain(rows, array->values, &text, err);
    }
    if (rc == LK_OK) {
        rc = lk_v20_complete(rows->column, text.valid, text.count, err);
    }
    free(text.spans);
    return rc;
}

/* All of one length, side by side. */
static lk_rc read_equal(const lk_page_rows *rows, const lk_v20_array *array, uint64_t count, lk_err *err)
{
    lk_column *column = rows->column;
    uint64_t   size = 0;
    if (__builtin_mul_overflow(count, array->dimension, &size)) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "texts of %u bytes each are too many", array->dimension);
    }
    lk_rc rc = lk_column_reserve(column, size, err);
    if (rc == LK_OK) {
        rc = lk_v20_bytes(rows, array->values, rows->ranges, rows->range_count, array->dimension,
            column->data.data + column->data_size, err);
    }
    uint8_t *to = next_end(column);
    for (uint64_t row = 0; rc == LK_OK && row < count; row++) {
        column->data_size += array->dimension;
        memcpy(to + row * column->offset_bytes, &column->data_size, column->offset_bytes);
    }
    return rc;
}

static lk_rc read_equal_nullable(
    const lk_page_rows *rows, const lk_v20_array *array, const lk_v20_array *validity, lk_err *err)
{
    lk_scratch *scratch = rows->scratch;
    uint64_t    count = lk_v20_row_count(rows);
    lk_rc       rc = read_equal(rows, array, count, err);
    if (rc == LK_OK && validity != NULL) {
        rc = lk_buffer_grow(scratch->pool, &scratch->levels, 0, count / 8 + 8, err);
    }
    if (rc == LK_OK && validity != NULL) {
        rc = lk_v20_bits(rows, validity, 1, scratch->levels.data, 0, err);
    }
    return rc == LK_OK
               ? lk_v20_complete(rows->column, validity == NULL ? NULL : scratch->levels.data, count, err)
               : rc;
}

lk_rc lk_v20_text(const lk_page_rows *rows, const lk_v20_array *array, lk_err *err)
{
    const lk_v20_array *validity = array->kind == LK_V20_NULLABLE ? array->validity : NULL;
    const lk_v20_array *inside = array->kind == LK_V20_NULLABLE ? array->values : array;
    if (inside->kind == LK_V20_FIXED_SIZE_BINARY) {
        return read_equal_nullable(rows, inside, validity, err);
    }
    if (array->kind == LK_V20_BINARY) {
        return read_binary(rows, array, false, err);
    }
    if (array->kind == LK_V20_FSST && rows->page->fsst != NULL) {
        return read_binary(rows, array->values, true, err);
    }
    return lk_fail(err, LK_E_CORRUPT_FILE, "a page is encoded for a column of another type");
}
