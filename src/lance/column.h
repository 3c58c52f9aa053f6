#ifndef LK_LANCE_COLUMN_H
#define LK_LANCE_COLUMN_H
/*
 * column.h - one leaf column being put together from pages: values, validity, and the validity of the structs
 * around it; in the end an ArrowArray.
 *
 * Invariants:
 *   1. `rows` rows are complete. A codec writes the values of the next rows; then lk_column_validity (or
 *      lk_column_valid, lk_column_nulls) completes them.
 *   2. A bitmap exists only once a null was seen; until then everything before is valid.
 *   3. rows never exceeds capacity, which is known from the start, or made room for (lists); `data` grows.
 *
 * Threads: confined.
 */
#include "arrow/type.h"
#include "lance/buffer_pool.h"
#include "lance/encoding.h"

enum { LK_LIST_LEVELS_MAX = 8 }; /* fixed-size lists inside each other */

typedef struct lk_validity {
    lk_buffer bits; /* data NULL: all valid so far */
    uint64_t  null_count;
} lk_validity;

/* One level of fixed-size list: its items and, when some are null, which. */
typedef struct lk_list_level {
    uint32_t    size;
    uint64_t    items; /* a row, this level and the ones around it */
    lk_validity validity;
} lk_list_level;

typedef struct lk_column {
    const struct ArrowSchema *field;
    lk_type                   type; /* of the values; of the innermost items for a fixed-size list */
    lk_buffer_pool           *pool;
    uint64_t                  rows, capacity;
    uint32_t                  row_bits;     /* fixed widths: bits a row, all items of a list */
    uint32_t                  offset_bytes; /* 4 or 8 for variable values, else 0 */
    lk_buffer                 values;       /* fixed values; or capacity + 1 offsets */
    lk_buffer                 data;
    uint64_t                  data_size;
    lk_validity               validity;
    lk_validity              *parents; /* structs around the leaf, inner to outer; the caller's */
    size_t                    parent_count;
    lk_list_level             levels[LK_LIST_LEVELS_MAX]; /* outer to inner */
    size_t                    level_count;
} lk_column;

/* Definition levels at or above which a leaf, or the struct at that place, is null. */
typedef struct lk_thresholds {
    uint16_t leaf;
    uint16_t parents[LK_LAYERS_MAX];
    uint16_t max; /* the highest level there is */
} lk_thresholds;

/* Room for exactly `rows` rows. LK_E_UNSUPPORTED_FORMAT for types no leaf has. On error nothing is held. */
LK_MUST_CHECK lk_rc lk_column_init(lk_column *column, const struct ArrowSchema *field, uint64_t rows,
    lk_buffer_pool *pool, lk_validity *parents, size_t parent_count, lk_err *err);
void                lk_column_deinit(lk_column *column); /* idempotent; not the parents */

/* Room for `more` bytes after data_size. */
LK_MUST_CHECK lk_rc lk_column_reserve(lk_column *column, uint64_t more, lk_err *err);

/* Room for `more` rows after `rows`, for columns whose rows are not known from the start. */
LK_MUST_CHECK lk_rc lk_column_extend(lk_column *column, uint64_t more, lk_err *err);

/* Where the next row's fixed value goes (row_bits a multiple of 8). */
static inline uint8_t *lk_column_next(const lk_column *column)
{
    return column->values.data + column->rows * (column->row_bits / 8);
}

/* Copies `count` rows of row_bits bits from bit `from` of bits. */
void lk_column_put_bits(lk_column *column, const uint8_t *bits, uint64_t from, uint64_t count);

/* Completes count rows whose values are written. */
LK_MUST_CHECK lk_rc lk_column_valid(lk_column *column, uint64_t count, lk_err *err);
LK_MUST_CHECK lk_rc lk_column_validity(
    lk_column *column, const uint16_t *levels, uint64_t count, const lk_thresholds *thresholds, lk_err *err);

/* Appends count null rows, values included. level: the definition level they all have. */
LK_MUST_CHECK lk_rc lk_column_nulls(
    lk_column *column, uint64_t count, uint16_t level, const lk_thresholds *thresholds, lk_err *err);

/* Writes the values (not the validity) of count null rows: zeros, empty texts. */
void lk_column_put_empty(lk_column *column, uint64_t count);

/* Copies the values (not the validity) of rows [start, start + count) of a column of the same type. */
LK_MUST_CHECK lk_rc lk_column_copy(
    lk_column *column, const lk_column *from, uint64_t start, uint64_t count, lk_err *err);

/* Bits of items of a list level for the next rows: bits from `from` on. Before the rows are completed. */
LK_MUST_CHECK lk_rc lk_column_items(
    lk_column *column, size_t level, const uint8_t *bits, uint64_t from, uint64_t rows, lk_err *err);

/* Appends to a bitmap of capacity `capacity` whose first `at` bits are written. */
LK_MUST_CHECK lk_rc lk_validity_append(lk_validity *validity, lk_buffer_pool *pool, uint64_t capacity,
    uint64_t at, const uint16_t *levels, uint64_t count, uint16_t threshold, lk_err *err);

/* Appends `count` bits from bit `from` of bits (NULL: ones) to a bitmap of capacity `capacity` whose first `at`
 * bits are written. */
LK_MUST_CHECK lk_rc lk_validity_put(lk_validity *validity, lk_buffer_pool *pool, uint64_t capacity,
    uint64_t at, const uint8_t *bits, uint64_t from, uint64_t count, lk_err *err);

/* Moves everything into an array of column->field's type; the column is empty afterwards. */
void lk_column_finish(lk_column *column, struct ArrowArray *out);

/* Gives a struct's node (made with one empty buffer) its validity. */
void lk_column_set_validity(struct ArrowArray *array, lk_validity *validity);

/* Gives an array of indices its values (moved in). */
void lk_column_set_dictionary(struct ArrowArray *array, struct ArrowArray *dictionary);

/* Writes (not the validity of) the next row: its fixed bytes, a byte of a boolean, a text. LK_E_CORRUPT_FILE for
 * fixed bytes of another size. */
LK_MUST_CHECK lk_rc lk_column_put(lk_column *column, lk_bytes value, lk_err *err);

/* An array node over these buffers (moved in; data may be NULL) with room for children. */
void lk_column_node(struct ArrowArray *out, uint64_t length, uint64_t null_count, lk_buffer *buffers,
    size_t buffer_count, size_t child_count);

#endif
