#ifndef LK_LANCE_FILE_CACHE_H
#define LK_LANCE_FILE_CACHE_H
/*
 * file_cache.h - what is known of a table's data files, shared by its versions: open readers, the least recently
 * used closed first, and zone statistics, which outlive their readers: a point query prunes a table of thousands
 * of files without opening one of them.
 *
 * Invariants:
 *   1. At most LK_FILE_CACHE_FILES_MAX readers are kept, and none beyond what `open_files` (one a reader) allows
 *      the process; whoever uses one holds a reference, so an evicted reader lives until its last user lets go.
 *   2. Kept statistics take LK_FILE_CACHE_STATS_BYTES_MAX at most; when they are full all go, and come again.
 *   3. A data file never changes, so nothing that is kept becomes wrong.
 *
 * Threads: shared; one mutex of rank SCAN, never held across I/O.
 */
#include "lance/file_read.h"
#include "lance/index_cache.h"
#include "lance/stats.h"

enum { LK_FILE_CACHE_FILES_MAX = 1024, LK_FILE_CACHE_STATS_BYTES_MAX = 16 * 1024 * 1024 };

typedef struct lk_file_cache lk_file_cache;

/* All borrowed; budget and open_files may be NULL (unlimited). refs = 1. */
lk_file_cache *lk_file_cache_new(lk_store *store, lk_budget *budget, lk_budget *open_files);
lk_file_cache *lk_file_cache_ref(lk_file_cache *cache);
void           lk_file_cache_unref(lk_file_cache *cache); /* accepts NULL */
size_t         lk_file_cache_bytes(lk_file_cache *cache);

/* What was read of the indices of this place. Borrowed. */
lk_index_cache *lk_file_cache_indices(lk_file_cache *cache);

/* The reader of this object, opened when it is not kept. *out is a new reference. */
LK_MUST_CHECK lk_rc lk_file_cache_open(
    lk_file_cache *cache, lk_bytes key, uint64_t size_bytes, lk_file_reader **out, lk_err *err);

/* The zone statistics of this object; it is opened when they are not kept. *out is a new reference. */
LK_MUST_CHECK lk_rc lk_file_cache_stats(
    lk_file_cache *cache, lk_bytes key, uint64_t size_bytes, lk_stats **out, lk_err *err);

#endif
