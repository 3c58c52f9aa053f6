#ifndef LK_IO_HELD_H
#define LK_IO_HELD_H
/*
 * held.h - a few objects whose bytes are in memory already, as a store to read from: for code that opens what was fetched
 * before, many at once.
 * Ownership: borrows objects, keys and bytes, also for its readers. Threads: shared.
 */
#include "io/store.h"

/* Only open and read; everything else is LK_E_UNIMPLEMENTED. uri: for messages. */
lk_store *lk_held_store_new(lk_bytes uri, const lk_store_wanted *objects, size_t count);

#endif
