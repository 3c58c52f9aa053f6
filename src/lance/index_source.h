#ifndef LK_LANCE_INDEX_SOURCE_H
#define LK_LANCE_INDEX_SOURCE_H
/*
 * index_source.h - what an index is made from: the values of one field in the live rows of a fragment, and the rows'
 * addresses. Threads: confined.
 */
#include "lance/dataset_priv.h"

/* Zones do not cross the stretches that a source gives. */
enum { LK_INDEX_ZONE_ROWS = 8192 };

typedef struct lk_index_source {
    lk_dataset     *dataset;
    size_t          field; /* in manifest->schema->fields */
    lk_cancel      *cancel;
    lk_buffer_pool *pool;
} lk_index_source;

/* As many addresses (uint64) as values. The callee may move them. */
typedef lk_rc lk_index_take(
    void *context, struct ArrowArray *values, struct ArrowArray *addresses, lk_err *err);

/* Gives the live rows of a fragment (by number), in order of their offsets, in stretches that begin at multiples of
 * LK_INDEX_ZONE_ROWS. */
LK_MUST_CHECK lk_rc lk_index_source_read(
    const lk_index_source *source, size_t fragment, lk_index_take *take, void *context, lk_err *err);

#endif
