#ifndef LK_ARROW_ARRAY_PRIV_H
#define LK_ARROW_ARRAY_PRIV_H
/*
 * array_priv.h - how this room builds arrays: one holder block behind each ArrowArray, buffers that are
 * owned (freed with it) or borrowed (kept alive by a keeper).
 *
 * Invariant: every array built here can be moved out of its parent and released on its own.
 * Threads: keepers are shared (atomic count), arrays confined until built.
 */
#include "arrow/batch.h"
#include "arrow/type.h"

#include <stdatomic.h>

/* A reference-counted thing that buffers live in. */
typedef struct lk_keeper {
    atomic_uint refs;
    void (*free)(struct lk_keeper *keeper);
} lk_keeper;

void lk_keeper_init(lk_keeper *keeper, void (*free_keeper)(lk_keeper *keeper)); /* refs = 1 */
void lk_keeper_ref(lk_keeper *keeper);
void lk_keeper_unref(lk_keeper *keeper);

lk_keeper *lk_shared_array_keeper(lk_shared_array *shared);

/* size bytes at a 64-byte boundary, padded to 64 with zeros after size and 64 more bytes of slack, so that
 * kernels may write a whole vector past the end. Content undefined (lk_block_zero: zero). LK_E_LIMIT. */
LK_MUST_CHECK lk_rc lk_block_new(size_t size, void **out, lk_err *err);
LK_MUST_CHECK lk_rc lk_block_zero(size_t size, void **out, lk_err *err);

/* *out: null_count 0, offset 0, all buffers NULL, children and dictionary present but released. */
void lk_array_start(
    struct ArrowArray *out, int64_t length, int64_t buffer_count, int64_t child_count, bool dictionary);
void lk_array_own(struct ArrowArray *array, int64_t buffer, void *block); /* moves a block in */
void lk_array_borrow(struct ArrowArray *array, int64_t buffer, const void *data);
void lk_array_keep(struct ArrowArray *array, lk_keeper *keeper); /* takes a reference; once per array */

/* *out shows the same rows, children and dictionary included, all borrowed from keeper. */
void lk_array_mirror(const struct ArrowArray *array, lk_keeper *keeper, struct ArrowArray *out);

/* Whether some row may be null: a bitmap is there and null_count is not known to be 0. */
static inline bool lk_array_may_hold_nulls(const struct ArrowArray *array)
{
    return array->n_buffers > 0 && array->buffers[0] != NULL && array->null_count != 0;
}

/* The bitmap, or NULL when no row is null. Bit of row i: array->offset + i. */
static inline const uint8_t *lk_array_validity(const struct ArrowArray *array)
{
    return lk_array_may_hold_nulls(array) ? array->buffers[0] : NULL;
}

/* How much of buffer `index` the rows need, those before the offset included. A buffer that is NULL: 0. */
size_t lk_array_buffer_bytes(const lk_type *type, const struct ArrowArray *array, int64_t index);

#endif
