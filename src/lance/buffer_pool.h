#ifndef LK_LANCE_BUFFER_POOL_H
#define LK_LANCE_BUFFER_POOL_H
/*
 * buffer_pool.h - 64-byte aligned buffers that a scan uses again and again: fresh pages from the kernel cost
 * more than decoding into them does.
 *
 * Invariants: every buffer, idle and kept ones included, is charged to the pool's budget; a pool keeps at most
 * LK_POOL_IDLE_BYTES_MAX idle and gives them up when its budget is short. It lives until its last buffer comes
 * back, so buffers may outlive the scan, but never the budget. Threads: shared, by its mutex (rank LEAF).
 */
#include "base/budget.h"

#include <stdbool.h>
#include <stdint.h>

enum { LK_POOL_IDLE_BYTES_MAX = 64 * 1024 * 1024, LK_POOL_KEPT_BYTES_MAX = 128 * 1024 * 1024 };

typedef struct lk_buffer_pool lk_buffer_pool;

typedef struct lk_buffer {
    uint8_t        *data;     /* NULL: no buffer */
    size_t          capacity; /* at least what was asked for */
    lk_buffer_pool *pool;
} lk_buffer;

lk_buffer_pool *lk_buffer_pool_new(lk_budget *budget); /* NULL: unlimited */
/* Ends the scan's hold: idle buffers go now, the others as they come back. Accepts NULL. */
void lk_buffer_pool_close(lk_buffer_pool *pool);

/* Idle buffers go now: others than the pool's takers need the budget. */
void lk_buffer_pool_trim(lk_buffer_pool *pool);

/* Whether `size` more would leave half of the budget: for what is only good to have. */
bool lk_buffer_pool_is_roomy(const lk_buffer_pool *pool, size_t size);

/* LK_E_LIMIT when the budget is out. The bytes are whatever they were. */
LK_MUST_CHECK lk_rc lk_buffer_take(lk_buffer_pool *pool, size_t size, lk_buffer *out, lk_err *err);
/* Makes room for `size`, keeping the first `used` bytes. */
LK_MUST_CHECK lk_rc lk_buffer_grow(
    lk_buffer_pool *pool, lk_buffer *buffer, size_t used, size_t size, lk_err *err);
void lk_buffer_give(lk_buffer *buffer); /* accepts zero; clears *buffer */

/* -- contents worth finding again: a few buffers that are idle and yet remembered ------------------------- */
/* A key that no other contents ever have. */
uint64_t lk_buffer_key_new(void);
/* Gives a buffer back whose first `size` bytes the pool may keep, until it needs the room. Clears *buffer. */
void lk_buffer_keep(lk_buffer *buffer, uint64_t key, size_t size);
/* Takes it out again; false: it is gone, or somebody else has it. */
bool lk_buffer_find(lk_buffer_pool *pool, uint64_t key, lk_buffer *out, size_t *size);
/* How often it was there, and was not. */
void lk_buffer_pool_count(const lk_buffer_pool *pool, uint64_t *found, uint64_t *missed);

#endif
