#ifndef LK_LANCE_SHAPE_KIND_H
#define LK_LANCE_SHAPE_KIND_H
/* shape_kind.h - what a column's pages hold instead of its rows (shape.h reads it, write_shape.h writes it). */

typedef enum lk_shape_kind {
    LK_SHAPE_PLAIN, /* the rows */
    LK_SHAPE_DICTIONARY,
    LK_SHAPE_PACKED,
    LK_SHAPE_BLOB_2_1, /* files before 2.2: position and size */
    LK_SHAPE_BLOB_2_2
} lk_shape_kind;

#endif
