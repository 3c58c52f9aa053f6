#ifndef LK_LANCE_INDEX_ORDER_H
#define LK_LANCE_INDEX_ORDER_H
/*
 * index_order.h - the order of values in an index: nulls first; floats in IEEE 754's total order (-0.0 before 0.0, NaN
 * at the ends); texts by their bytes. Finer than a predicate's, and never against it.
 * Threads: stateless.
 */
#include "arrow/type.h"

/* Whether an index can be made over the field. */
bool lk_index_orders(const struct ArrowSchema *field);

/* -1, 0, 1. Rows are counted from the array's offset. */
int lk_index_compare(const lk_type *type, const struct ArrowArray *a, int64_t row_a,
    const struct ArrowArray *b, int64_t row_b);

bool lk_index_is_null(const struct ArrowArray *array, int64_t row);
bool lk_index_is_nan(const lk_type *type, const struct ArrowArray *array, int64_t row);

/* Equal for values that are equal to a predicate, null included. */
uint64_t lk_index_hash(const lk_type *type, const struct ArrowArray *array, int64_t row);

/* The rows of an array in order, those of equal values as they come. order: array->length numbers. */
void lk_index_sort(const lk_type *type, const struct ArrowArray *array, int64_t *order);

#endif
