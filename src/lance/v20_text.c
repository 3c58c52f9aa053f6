/*
 * v20_text.c - see v20_priv.h: texts of one page. A page stores where each value ends; an end of `adjustment` and
 * more is that of a null. A range of rows needs the end before it and then one stretch of bytes.
 */
#include "lance/cpu.h"
#include "lance/v20_priv.h"

#include <stdlib.h>
#include <string.h>

static lk_rc damaged(lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "ends of texts are wrong");
}

/* -- ends ------------------------------------------------------------------------------------------ */
LK_VECTOR static bool any_null(const uint64_t *ends, uint64_t count, uint64_t adjustment)
{
    uint64_t seen = 0;
    for (uint64_t row = 0; row < count; row++) {
        seen |= (uint64_t)(ends[row] >= adjustment);
    }
    return seen != 0;
}

/* Bits of the valid ones, from bit `at` of bits on. */
static void mark_valid(const uint64_t *ends, uint64_t count, uint64_t adjustment, uint8_t *bits, uint64_t at)
{
    for (uint64_t row = 0; row < count; row++, at++) {
        unsigned one = ends[row] < adjustment;
        unsigned kept = at % 8 == 0 ? 0 : bits[at / 8];
        bits[at / 8] = (uint8_t)(kept | one << (at % 8));
    }
}

/* Turns ends in the page, the first value beginning at `first`, into ends behind `base`. False when they do not
 * ascend. */
static bool relocate(
    const uint64_t *ends, uint64_t count, uint64_t adjustment, uint64_t first, uint64_t base, uint64_t *out)
{
    uint64_t before = first, wrong = 0;
    for (uint64_t row = 0; row < count; row++) {
        uint64_t end = ends[row] - (ends[row] >= adjustment ? adjustment : 0);
        wrong |= (uint64_t)(end < before);
        before = end;
        out[row] = end - first + base;
    }
    return wrong == 0;
}

/* Where the rows of a page lie in its text. */
typedef struct text_rows {
    uint64_t      count;
    uint64_t      words; /* ends that were read: one more for a range that does not start the page */
    uint64_t     *ends;  /* in scratch->words: of each value, behind the first one's start */
    lk_row_range *bytes; /* one a range, the caller frees them */
    uint64_t      size;
    uint8_t      *valid; /* in scratch->levels; NULL: all are */
} text_rows;

/* The ends that the ranges need, the one before each range included. */
static lk_rc read_ends(const lk_page_rows *rows, const lk_v20_array *array, text_rows *out, lk_err *err)
{
    lk_scratch   *scratch = rows->scratch;
    lk_row_range *ranges = malloc((rows->range_count + 1) * sizeof *ranges);
    LK_ASSERT(ranges != NULL);
    for (size_t range = 0; range < rows->range_count; range++) {
        uint64_t extra = rows->ranges[range].start > 0;
        ranges[range] = (lk_row_range){rows->ranges[range].start - extra, rows->ranges[range].count + extra};
        out->words += ranges[range].count;
    }
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->words, 0, (out->words + 1) * sizeof(uint64_t), err);
    if (rc == LK_OK) {
        rc = lk_v20_words(
            rows, array->indices, ranges, rows->range_count, sizeof(uint64_t), scratch->words.data, err);
    }
    out->ends = (uint64_t *)(void *)scratch->words.data;
    free(ranges);
    return rc;
}

static lk_rc mark_nulls(const lk_page_rows *rows, const lk_v20_array *array, text_rows *out, lk_err *err)
{
    lk_scratch     *scratch = rows->scratch;
    const uint64_t *ends = out->ends;
    uint64_t        at = 0;
    if (!any_null(ends, out->words, array->adjustment)) {
        return LK_OK;
    }
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->levels, 0, out->count / 8 + 8, err);
    for (size_t range = 0; rc == LK_OK && range < rows->range_count; range++) {
        ends += rows->ranges[range].start > 0;
        mark_valid(ends, rows->ranges[range].count, array->adjustment, scratch->levels.data, at);
        ends += rows->ranges[range].count;
        at += rows->ranges[range].count;
    }
    out->valid = rc == LK_OK ? scratch->levels.data : NULL;
    return rc;
}

/* Fills out from the ends of a BINARY. */
static lk_rc find_text(const lk_page_rows *rows, const lk_v20_array *array, text_rows *out, lk_err *err)
{
    uint64_t adjustment = array->adjustment;
    *out = (text_rows){.count = lk_v20_row_count(rows)};
    lk_rc rc = read_ends(rows, array, out, err);
    if (rc == LK_OK) {
        rc = mark_nulls(rows, array, out, err);
    }
    out->bytes = malloc((rows->range_count + 1) * sizeof *out->bytes);
    LK_ASSERT(out->bytes != NULL);
    uint64_t *from = out->ends, *to = from;
    for (size_t range = 0; rc == LK_OK && range < rows->range_count; range++) {
        uint64_t count = rows->ranges[range].count, first = 0;
        if (rows->ranges[range].start > 0) {
            first = *from++;
            first -= first >= adjustment ? adjustment : 0;
        }
        if (!relocate(from, count, adjustment, first, out->size, to)) {
            return damaged(err);
        }
        out->bytes[range] = (lk_row_range){first, count == 0 ? 0 : to[count - 1] - out->size};
        out->size += out->bytes[range].count;
        from += count;
        to += count;
    }
    return rc;
}

/* -- offsets of the column ----------------------------------------------------------------------------- */
LK_VECTOR static void put32(const uint64_t *ends, uint64_t count, uint64_t base, uint32_t *out)
{
    for (uint64_t row = 0; row < count; row++) {
        out[row] = (uint32_t)(ends[row] + base);
    }
}

LK_VECTOR static void put64(const uint64_t *ends, uint64_t count, uint64_t base, uint64_t *out)
{
    for (uint64_t row = 0; row < count; row++) {
        out[row] = ends[row] + base;
    }
}

static void put_ends(lk_column *column, const uint64_t *ends, uint64_t count)
{
    uint8_t *to = column->values.data + (column->rows + 1) * column->offset_bytes;
    if (column->offset_bytes == 4) {
        put32(ends, count, column->data_size, (uint32_t *)(void *)to);
    } else {
        put64(ends, count, column->data_size, (uint64_t *)(void *)to);
    }
}

/* -- the encodings ----------------------------------------------------------------------------------- */
static lk_rc read_plain(
    const lk_page_rows *rows, const lk_v20_array *bytes, const text_rows *text, lk_err *err)
{
    lk_column *column = rows->column;
    lk_rc      rc = lk_column_reserve(column, text->size, err);
    if (rc == LK_OK) {
        rc = lk_v20_bytes(
            rows, bytes, text->bytes, rows->range_count, 1, column->data.data + column->data_size, err);
    }
    if (rc == LK_OK) {
        put_ends(column, text->ends, text->count);
        column->data_size += text->size;
    }
    return rc;
}

/* Reads the coded text and finds for every end in it where its plain text ends. */
static lk_rc read_fsst(const lk_page_rows *rows, const lk_v20_array *bytes, text_rows *text, lk_err *err)
{
    lk_column  *column = rows->column;
    lk_scratch *scratch = rows->scratch;
    if (bytes->scheme != LK_V20_PLAIN || text->size > UINT32_MAX / LK_FSST_SYMBOL_BYTES) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "FSST text that is compressed again, or too long");
    }
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->bytes, 0, text->size + 8, err);
    if (rc == LK_OK) {
        rc = lk_v20_bytes(rows, bytes, text->bytes, rows->range_count, 1, scratch->bytes.data, err);
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
    put_ends(column, text->ends, text->count);
    column->data_size += (uint64_t)(end - to);
    return LK_OK;
}

static lk_rc read_binary(const lk_page_rows *rows, const lk_v20_array *array, bool fsst, lk_err *err)
{
    text_rows text = {0};
    lk_rc     rc = find_text(rows, array, &text, err);
    if (rc == LK_OK) {
        rc = fsst && !rows->page->fsst->plain ? read_fsst(rows, array->values, &text, err)
                                              : read_plain(rows, array->values, &text, err);
    }
    if (rc == LK_OK) {
        rc = lk_v20_complete(rows->column, text.valid, text.count, err);
    }
    free(text.bytes);
    return rc;
}

/* All of one length, side by side. */
static lk_rc read_equal(const lk_page_rows *rows, const lk_v20_array *array, uint64_t count, lk_err *err)
{
    lk_column *column = rows->column;
    uint64_t   size = 0;
    if (__builtin_mul_overflow(count, array->dimension, &size)) {
        return damaged(err);
    }
    lk_rc rc = lk_column_reserve(column, size, err);
    if (rc == LK_OK) {
        rc = lk_v20_bytes(rows, array->values, rows->ranges, rows->range_count, array->dimension,
            column->data.data + column->data_size, err);
    }
    uint8_t *to = column->values.data + (column->rows + 1) * column->offset_bytes;
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
