#ifndef LK_LANCE_FILE_CACHE_H
#define LK_LANCE_FILE_CACHE_H
/*
 * file_cache.h - the open data files of a table, shared by its versions: the least recently used is closed
 * first.
 *
 * Invariant: at most LK_FILE_CACHE_FILES_MAX readers are kept; whoever uses one holds a reference, so an
 * evicted reader lives until its last user lets go.
 * Threads: shared; one mutex of rank SCAN, never held across I/O.
 */
#include "lance/file_read.h"

/* Each is one open file; a process may hold hundreds of tables. */
enum { LK_FILE_CACHE_FILES_MAX = 64 };

typedef struct lk_file_cache lk_file_cache;

lk_file_cache *lk_file_cache_new(lk_store *store, lk_budget *budget); /* both borrowed; refs = 1 */
lk_file_cache *lk_file_cache_ref(lk_file_cache *cache);
void           lk_file_cache_unref(lk_file_cache *cache); /* accepts NULL */
size_t         lk_file_cache_bytes(lk_file_cache *cache);

/* The reader of this object, opened when it is not kept. *out is a new reference. */
LK_MUST_CHECK lk_rc lk_file_cache_open(
    lk_file_cache *cache, lk_bytes key, uint64_t size_bytes, lk_file_reader **out, lk_err *err);

#endif
