#ifndef LK_ARROW_PREDICATE_PRIV_H
#define LK_ARROW_PREDICATE_PRIV_H
/*
 * predicate_priv.h - the loops under lk_predicate_evaluate. Truth is one byte a row: 0 false, 1 null, 2 true,
 * so that AND is the smaller, OR the larger, NOT 2 - x. Kernels ignore nulls; lk_truth_nulls puts them in.
 * Threads: stateless.
 */
#include "arrow/array_priv.h"
#include "arrow/predicate.h"

enum { LK_FALSE = 0, LK_NULL = 1, LK_TRUE = 2 };

/* What kind of lk_value a type compares with. */
typedef enum lk_comparable {
    LK_COMPARABLE_NONE,
    LK_COMPARABLE_BOOL,
    LK_COMPARABLE_SIGNED,
    LK_COMPARABLE_UNSIGNED,
    LK_COMPARABLE_FLOAT,
    LK_COMPARABLE_BYTES,
    LK_COMPARABLE_FIXED_BYTES,
    LK_COMPARABLE_DECIMAL128
} lk_comparable;
lk_comparable lk_comparable_of(const lk_type *type);

/* One column's rows [start, start + count), counted from the buffers' beginning. */
typedef struct lk_column_rows {
    const struct ArrowArray *array;
    lk_type                  type;
    lk_comparable            comparable;
    int64_t                  start;
    size_t                   count; /* at most LK_TRUTH_ROWS */
} lk_column_rows;
#define LK_TRUTH_ROWS 2048

/* Each fills rows->count bytes. value must be of the kind that the column compares with. */
void lk_truth_compare(const lk_column_rows *rows, lk_compare compare, const lk_value *value, uint8_t *truth);
void lk_truth_prefix(const lk_column_rows *rows, lk_bytes prefix, uint8_t *truth);
void lk_truth_nulls(const lk_column_rows *rows, uint8_t *truth);
void lk_truth_is_null(const lk_column_rows *rows, bool wanted, uint8_t *truth);
void lk_truth_and(const uint8_t *other, size_t count, uint8_t *truth);
void lk_truth_or(const uint8_t *other, size_t count, uint8_t *truth);
void lk_truth_not(size_t count, uint8_t *truth);
void lk_truth_select(const uint8_t *truth, size_t count, uint8_t *selection);

/* Columns of up to eight bytes a value have keys: equal values, and no others, have equal keys. */
bool lk_has_key(const lk_column_rows *rows);
void lk_column_keys(const lk_column_rows *rows, uint64_t *keys);
/* A constant's key; false when no value of the column's type equals it. */
bool lk_value_key(const lk_column_rows *rows, const lk_value *value, uint64_t *key);
/* The value of one row of a column without keys (bytes, decimal128), whether it is null or not. */
lk_value lk_value_at(const lk_column_rows *rows, size_t row);

/* -1, 0, 1 by DuckDB's order; *comparable = false when the kinds do not go together. */
int  lk_value_compare(const lk_value *a, const lk_value *b, bool *comparable);
bool lk_value_is_nan(const lk_value *value);

#endif
