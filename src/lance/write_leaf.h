#ifndef LK_LANCE_WRITE_LEAF_H
#define LK_LANCE_WRITE_LEAF_H
/*
 * write_leaf.h - the rows of one leaf column that wait to become a page.
 *
 * Invariants:
 *   1. Null rows hold the value before them, zeros or empty text: nothing from under a null reaches the file.
 *   2. marks say why a row is null: 0 valid, 1 the leaf itself, 1 + k its k-th struct outwards (the outermost
 *      that is null). They exist only once a null was seen.
 *
 * Threads: confined.
 */
#include "arrow/type.h"
#include "base/bytes.h"
#include "lance/column.h"
#include "lance/field_options.h"

typedef struct lk_leaf_level { /* of fixed-size lists, outer to inner */
    uint32_t size;
    uint64_t items; /* a row */
    lk_buf   bits;  /* item validity, when has_nulls */
    bool     has_nulls;
} lk_leaf_level;

typedef struct lk_leaf {
    lk_type          type; /* of the innermost values */
    lk_field_options options;
    size_t           layer_count; /* 1 + structs around it */
    uint32_t         row_bits;    /* fixed; 0: variable or null type */
    uint32_t         offset_bytes;
    lk_leaf_level    levels[LK_LIST_LEVELS_MAX];
    size_t           level_count;
    uint64_t         rows;
    lk_buf           values; /* fixed rows, bit by bit when row_bits is no multiple of 8; else the text */
    lk_buf           ends;   /* variable: where each value ends in values, u64 */
    lk_buf           marks;  /* u8 a row, when has_marks */
    bool             has_marks;
    uint64_t         longest; /* variable: of the values */
    /* In lists: rows above are values, and these are the rows of the table. */
    bool     is_list[LK_LAYERS_MAX]; /* by layer, the leaf's first */
    unsigned lists;                  /* how many of them; 0: none of this is used */
    lk_buf   reps, defs;             /* u16 an entry */
    uint64_t list_rows;
    uint64_t hidden; /* entries without a value: null and empty lists */
} lk_leaf;

static inline uint64_t lk_leaf_rows(const lk_leaf *leaf)
{
    return leaf->lists > 0 ? leaf->list_rows : leaf->rows;
}

/* Fills the shape from the field. LK_E_INVALID_SCHEMA for types that this writer does not store, and for metadata that
 * asks for what there is not. */
LK_MUST_CHECK lk_rc lk_leaf_init(
    lk_leaf *leaf, const struct ArrowSchema *field, size_t layer_count, lk_err *err);
void lk_leaf_deinit(lk_leaf *leaf); /* idempotent */
void lk_leaf_clear(lk_leaf *leaf);  /* no rows, memory kept */

/* Moves the rows of leaf to `into`, whose memory the leaf goes on with. */
void lk_leaf_take(lk_leaf *leaf, lk_leaf *into);

size_t lk_leaf_bytes(const lk_leaf *leaf);    /* waiting in the page */
size_t lk_leaf_capacity(const lk_leaf *leaf); /* memory held */

/* One struct around a leaf, or a fixed-size list of structs: its array, and where the leaf's rows begin in it. Row
 * `row` of the leaf lies in row (start + row) / items of the array. */
typedef struct lk_leaf_parent {
    const struct ArrowArray *array;
    int64_t                  start; /* absolute: the array's offset, times items, is in it */
    int64_t                  items; /* the leaf's rows to one of the array: those of the fixed-size lists */
} lk_leaf_parent;

static inline int64_t lk_leaf_parent_row(const lk_leaf_parent *parent, int64_t row)
{
    return (parent->start + row) / parent->items;
}

/* Whether one of the parent's rows that hold the leaf's next `count` is null. */
bool lk_leaf_parent_has_null(const lk_leaf_parent *parent, int64_t count);

/*
 * Appends `count` rows from absolute row `start` of array (offset included). parents: structs around it, inner
 * to outer, layer_count - 1 of them.
 */
LK_MUST_CHECK lk_rc lk_leaf_append(lk_leaf *leaf, const struct ArrowArray *array, int64_t start,
    int64_t count, const lk_leaf_parent *parents, lk_err *err);

/* Appends one value that is null. */
void lk_leaf_append_null(lk_leaf *leaf);

/* How many of the next `count` rows bring the page to page_bytes (at least 1). */
int64_t lk_leaf_room(
    const lk_leaf *leaf, const struct ArrowArray *array, int64_t start, int64_t count, size_t page_bytes);

#endif
