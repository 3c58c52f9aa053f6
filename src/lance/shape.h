#ifndef LK_LANCE_SHAPE_H
#define LK_LANCE_SHAPE_H
/*
 * shape.h - leaf columns whose pages hold something else than their rows: indices into a dictionary, packed structs,
 * descriptors of blobs. The pages are put together in a column of what they hold (`stored`); every page is seen once
 * when its rows are there, and in the end the column becomes the array that was asked for.
 *
 *   dictionary  pages hold indices into their own dictionaries; the array has one, of the values that occur
 *   packed      rows of bytes, taken apart into the struct's members
 *   blob        2.1: 16 bytes, position and size; 2.2: a packed struct that says where the bytes lie. The array is
 *               one of descriptors, or of the bytes (blob.h)
 *
 * Threads: confined.
 */
#include "lance/distinct.h"
#include "lance/file_priv.h"
#include "lance/shape_kind.h"

typedef struct lk_shape {
    lk_shape_kind             kind;
    const lk_field_source    *source;
    const struct ArrowSchema *stored; /* the field itself, or `made` */
    struct ArrowSchema        made;
    char                      format[16];
    struct ArrowSchema        descriptor; /* blobs */
    lk_distinct               values;     /* dictionary */
    uint64_t                  values_max; /* that the index type can number */
    lk_buffer                 numbers;    /* of a page's items among values, u32; UINT32_MAX: not yet */
    lk_validity               validity;   /* blobs of 2.1, which say so in their descriptors */
} lk_shape;

/* LK_E_UNSUPPORTED_FORMAT by name for what we do not read. */
LK_MUST_CHECK lk_rc lk_shape_open(lk_shape *shape, const lk_field_source *source, bool in_list, lk_err *err);
void                lk_shape_close(lk_shape *shape); /* idempotent */

/* Whether pages' own levels say which rows and structs are null; else descriptors do (blobs of 2.1). */
static inline bool lk_shape_has_levels(const lk_shape *shape)
{
    return shape->kind != LK_SHAPE_BLOB_2_1;
}

/* Chooses rows->codec. LK_E_CORRUPT_FILE for a page that is none of this shape. */
LK_MUST_CHECK lk_rc lk_shape_page_begin(const lk_shape *shape, lk_page_rows *rows, lk_err *err);

/* The page's rows are [before, rows->column->rows). parents: the structs around a blob of 2.1. */
LK_MUST_CHECK lk_rc lk_shape_page_end(lk_shape *shape, const lk_page_rows *rows, uint64_t before,
    lk_validity *parents, size_t parent_count, lk_err *err);

/* Of a dictionary column, page by page: its items' numbers among the array's values, found when they occur. `item`
 * is below what the page began with. */
LK_MUST_CHECK lk_rc lk_shape_number_start(lk_shape *shape, lk_buffer_pool *pool, uint64_t items, lk_err *err);
LK_MUST_CHECK lk_rc lk_shape_number(
    lk_shape *shape, uint64_t item, lk_bytes value, uint32_t *number, lk_err *err);

/* The array; the column is empty afterwards. */
LK_MUST_CHECK lk_rc lk_shape_finish(lk_shape *shape, lk_column *column, struct ArrowArray *out, lk_err *err);

/* Definition levels of an entry's layers. LK_E_CORRUPT_FILE for other layers than the column's. */
LK_MUST_CHECK lk_rc lk_thresholds_of(
    const uint8_t *layers, size_t layer_count, size_t parent_count, lk_thresholds *out, lk_err *err);

#endif
