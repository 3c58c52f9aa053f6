#ifndef LK_LANCE_WRITE_SHAPE_H
#define LK_LANCE_WRITE_SHAPE_H
/*
 * write_shape.h - leaf columns that are stored as something else than their rows (shape.h reads them): a column's
 * arrays are turned into arrays of what is stored, which wait in its leaf like any others, and its pages say what
 * they hold.
 *
 *   dictionary  numbers of values; a page has a dictionary of those that occur in it
 *   packed      a struct's members side by side, as bytes
 *   blob        descriptors; the bytes go into the data file or beside it (write_blob.h) when they come
 *
 * Invariants:
 *   1. A null row, or one below a null, is stored empty: no byte of it reaches a file.
 *   2. The numbers of the rows that wait in a leaf are those of `values`, which only lk_write_shape_room empties.
 *
 * Threads: confined.
 */
#include "lance/distinct.h"
#include "lance/shape_kind.h"
#include "lance/write_blob.h"
#include "lance/write_page.h"

typedef struct lk_write_shape {
    lk_shape_kind             kind;
    const struct ArrowSchema *field;
    struct ArrowSchema        made; /* what is stored, unless plain */
    char                      format[16];
    lk_arena                  arena;
    const lk_encoding        *encoding; /* packed structs, and descriptors */
    lk_distinct               values;
    uint64_t                  values_max;
    /* The array that was made last. */
    lk_buf      validity, fixed, offsets, bytes;
    const void *pointers[3];
} lk_write_shape;

/* Rows of a column, and the structs around it (none inside lists). */
typedef struct lk_shape_rows {
    const struct ArrowArray *array;
    int64_t                  start, count; /* absolute: the array's offset is in it */
    const lk_leaf_parent    *parents;
    size_t                   parent_count;
} lk_shape_rows;

/* What a field of a table is stored as in a file of version 2.<file_minor>. LK_E_INVALID_SCHEMA, with advice, when
 * it cannot be. */
LK_MUST_CHECK lk_rc lk_write_shape_open(
    lk_write_shape *shape, const struct ArrowSchema *field, uint32_t file_minor, bool in_list, lk_err *err);
void   lk_write_shape_close(lk_write_shape *shape); /* idempotent */
size_t lk_write_shape_capacity(const lk_write_shape *shape);

/* The type that the leaf has. */
static inline const struct ArrowSchema *lk_write_shape_stored(const lk_write_shape *shape)
{
    return shape->kind == LK_SHAPE_PLAIN ? shape->field : &shape->made;
}

/* What a field's metadata asks for is about its rows: of it remains what suits what is stored. */
void lk_write_shape_options(const lk_write_shape *shape, lk_field_options *options);

/* Whether the rows that wait must become a page before these come: their values would be too many for one. */
bool lk_write_shape_full(const lk_write_shape *shape, const lk_shape_rows *rows);
void lk_write_shape_reset(lk_write_shape *shape); /* nothing waits any more */

/* The rows as they are stored: *out has offset 0, belongs to the shape and lives until the next call. Nulls in a
 * packed struct are LK_E_SCHEMA_MISMATCH. */
LK_MUST_CHECK lk_rc lk_write_shape_convert(lk_write_shape *shape, const lk_shape_rows *rows,
    lk_blob_writer *blobs, struct ArrowArray *out, lk_err *err);

/* The waiting rows as a page. */
void lk_write_shape_page(lk_write_shape *shape, lk_leaf *leaf, uint32_t file_minor, lk_page_out *out);

/* Packed structs (write_packed.c): LK_OK and the encoding of a row, fixed or variable. */
LK_MUST_CHECK lk_rc lk_packed_encoding(const struct ArrowSchema *field, uint32_t file_minor, lk_arena *arena,
    const lk_encoding **out, lk_err *err);
/* Rows of a packed struct as bytes; with offsets (i32) when they vary. validity says which rows are stored. */
LK_MUST_CHECK lk_rc lk_packed_rows(const struct ArrowSchema *field, const lk_shape_rows *rows,
    const uint8_t *validity, uint32_t row_bytes, lk_buf *bytes, lk_buf *offsets, lk_err *err);

#endif
