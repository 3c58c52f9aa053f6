#ifndef LK_LANCE_DISTINCT_H
#define LK_LANCE_DISTINCT_H
/*
 * distinct.h - values, each of them once, numbered in the order in which they came: the dictionary of a batch that
 * is read, or of a page that is written.
 *
 * Invariant: number n's bytes are those between the (n-1)-th and the n-th end. Threads: confined.
 */
#include "base/bytes.h"

#include <stdint.h>

typedef struct lk_distinct {
    lk_buf    bytes;
    lk_buf    ends; /* u64, one a value */
    uint32_t  count;
    uint32_t *slots; /* open addressing: number + 1, 0 = free; slot_count is a power of two */
    size_t    slot_count;
    uint64_t  seed; /* of the hash: values may be chosen by a stranger */
} lk_distinct;

/* The number of a value, which is added when it is new. */
uint32_t lk_distinct_add(lk_distinct *distinct, lk_bytes value);
lk_bytes lk_distinct_get(const lk_distinct *distinct, uint32_t number);
size_t   lk_distinct_capacity(const lk_distinct *distinct); /* memory held */
void     lk_distinct_clear(lk_distinct *distinct);          /* no values, memory kept */
void     lk_distinct_deinit(lk_distinct *distinct);         /* idempotent */

#endif
