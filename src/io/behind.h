#ifndef LK_IO_BEHIND_H
#define LK_IO_BEHIND_H
/*
 * behind.h - a store that is written to behind the caller's back: for several objects that nobody refers to yet, in a place
 * where each costs a turn of the network. Writes return at once and are made side by side; sync waits for them all.
 *
 * Invariants:
 *   1. When sync returns LK_OK, every object that was written through it before is durable and visible; of those that failed
 *      since the last sync it returns one's error. put_if_absent says *created always: a name that was taken is LK_E_CONFLICT
 *      of sync.
 *   2. remove and its kin wait for what was written before, and forget how that ended: they are how a failed write is undone.
 *   3. A hint is written behind, too. What is staged is not: publishing it waits for it and says how it ended.
 * Before sync, reads and lists may or may not see what was written. Otherwise it keeps the rules of the store beneath.
 *
 * Threads: shared, but whoever syncs waits for everybody's writes, and takes everybody's errors. mutex guards the count of what
 * runs and the error, and is not held during calls.
 */
#include "io/store.h"

/* Borrows both, which outlive the result. lk_store_close waits for what runs. */
lk_store *lk_behind_store_new(lk_store *under, lk_pool *pool);

#endif
