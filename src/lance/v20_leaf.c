/*
 * v20_leaf.c - see v20_priv.h: one page's rows of a leaf. A page says at every level (the rows, the items of every
 * fixed-size list) which are null, and inside of it all where the values are.
 */
#include "arrow/bits.h"
#include "lance/v20_priv.h"

#include <string.h>

static lk_rc unfit(lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "a page is encoded for a column of another type");
}

lk_rc lk_v20_complete(lk_column *column, const uint8_t *bits, uint64_t count, lk_err *err)
{
    if (bits == NULL) {
        return lk_column_valid(column, count, err);
    }
    lk_rc rc =
        lk_validity_put(&column->validity, column->pool, column->capacity, column->rows, bits, 0, count, err);
    column->rows += count;
    return rc;
}

/* Items of a level: those of level 0 are the rows. */
static uint64_t items_of(const lk_column *column, size_t level)
{
    return level == 0 ? 1 : column->levels[level - 1].items;
}

static lk_validity *validity_of(lk_column *column, size_t level)
{
    return level == 0 ? &column->validity : &column->levels[level - 1].validity;
}

/* The validity of the next `count` rows' items at a level: bits, or NULL for all valid. */
static lk_rc put_validity(lk_column *column, size_t level, const uint8_t *bits, uint64_t count, lk_err *err)
{
    uint64_t items = items_of(column, level);
    return lk_validity_put(validity_of(column, level), column->pool, column->capacity * items,
        column->rows * items, bits, 0, count * items, err);
}

static lk_rc put_all_null(const lk_page_rows *rows, size_t level, uint64_t count, lk_err *err)
{
    lk_column  *column = rows->column;
    lk_scratch *scratch = rows->scratch;
    size_t      size = (size_t)(count * items_of(column, level) / 8 + 8);
    lk_column_put_empty(column, count);
    if (column->type.layout == LK_LAYOUT_NULL && level == column->level_count) {
        return LK_OK;
    }
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->levels, 0, size, err);
    if (rc != LK_OK) {
        return rc;
    }
    memset(scratch->levels.data, 0, size);
    rc = put_validity(column, level, scratch->levels.data, count, err);
    for (size_t inner = level + 1; rc == LK_OK && inner <= column->level_count; inner++) {
        rc = put_validity(column, inner, NULL, count, err);
    }
    return rc;
}

/* Reads the bits of a level and puts them. */
static lk_rc read_validity(
    const lk_page_rows *rows, const lk_v20_array *bits, size_t level, uint64_t count, lk_err *err)
{
    lk_scratch *scratch = rows->scratch;
    uint64_t    items = items_of(rows->column, level);
    lk_rc       rc = lk_buffer_grow(scratch->pool, &scratch->levels, 0, count * items / 8 + 8, err);
    if (rc == LK_OK) {
        rc = lk_v20_bits(rows, bits, items, scratch->levels.data, 0, err);
    }
    return rc == LK_OK ? put_validity(rows->column, level, scratch->levels.data, count, err) : rc;
}

static lk_rc read_values(const lk_page_rows *rows, const lk_v20_array *array, lk_err *err)
{
    lk_column *column = rows->column;
    uint64_t   items = items_of(column, column->level_count);
    if (column->type.layout == LK_LAYOUT_BITS && array->kind == LK_V20_FLAT && array->bits == 1) {
        return lk_v20_bits(rows, array, items, column->values.data, column->rows * column->row_bits, err);
    }
    if (column->type.layout != LK_LAYOUT_FIXED) {
        return unfit(err);
    }
    if (array->kind == LK_V20_FLAT && array->bits == column->type.width * 8) {
        return lk_v20_bytes(
            rows, array, rows->ranges, rows->range_count, column->row_bits / 8, lk_column_next(column), err);
    }
    return column->level_count > 0 ? unfit(err)
                                   : lk_v20_words(rows, array, rows->ranges, rows->range_count,
                                         column->type.width, lk_column_next(column), err);
}

lk_rc lk_v20_leaf(const lk_page_rows *rows, const lk_v20_array *array, lk_err *err)
{
    lk_column *column = rows->column;
    uint64_t   count = lk_v20_row_count(rows);
    lk_rc      rc = LK_OK;
    if (column->offset_bytes > 0 && array->kind != LK_V20_ALL_NULL) {
        return lk_v20_text(rows, array, err);
    }
    for (size_t level = 0; rc == LK_OK; level++) {
        if (array->kind == LK_V20_ALL_NULL) {
            rc = put_all_null(rows, level, count, err);
            break;
        }
        bool nullable = array->kind == LK_V20_NULLABLE;
        rc = nullable ? read_validity(rows, array->validity, level, count, err)
                      : put_validity(column, level, NULL, count, err);
        array = nullable ? array->values : array;
        if (rc == LK_OK && level == column->level_count) {
            rc = read_values(rows, array, err);
            break;
        }
        if (rc == LK_OK &&
            (array->kind != LK_V20_FIXED_SIZE_LIST || array->dimension != column->levels[level].size)) {
            rc = unfit(err);
        }
        array = array->values;
    }
    column->rows += rc == LK_OK ? count : 0;
    return rc;
}
