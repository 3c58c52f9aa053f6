#ifndef LK_LANCE_INDEX_CACHE_H
#define LK_LANCE_INDEX_CACHE_H
/*
 * index_cache.h - parts of indices that were read and decoded, shared by a table's versions: an index's files never
 * change, so nothing that is kept becomes wrong. The least recently used parts go first.
 *
 * Invariants: at most LK_INDEX_CACHE_BYTES_MAX and LK_INDEX_CACHE_PARTS_MAX are kept. A part's memory is charged by
 * whoever made it, as long as it lives. Whoever uses a part holds a reference.
 * Threads: shared, by one mutex of rank SCAN; parts are immutable.
 */
#include "base/uuid.h"

#include <stdatomic.h>

enum { LK_INDEX_CACHE_BYTES_MAX = 64 * 1024 * 1024, LK_INDEX_CACHE_PARTS_MAX = 1024 };

typedef struct lk_index_part lk_index_part;
struct lk_index_part { /* the first member of what is kept */
    atomic_uint refs;
    size_t      bytes;
    void (*free)(lk_index_part *part);
};

lk_index_part *lk_index_part_ref(lk_index_part *part);
void           lk_index_part_unref(lk_index_part *part); /* accepts NULL */

typedef struct lk_index_cache lk_index_cache;

lk_index_cache *lk_index_cache_new(void);
void            lk_index_cache_free(lk_index_cache *cache); /* accepts NULL */
size_t          lk_index_cache_bytes(lk_index_cache *cache);

/* A new reference to part `number` of the index, NULL when it is not kept. */
lk_index_part *lk_index_cache_get(lk_index_cache *cache, lk_uuid uuid, uint64_t number);
/* Keeps a reference of its own. */
void lk_index_cache_put(lk_index_cache *cache, lk_uuid uuid, uint64_t number, lk_index_part *part);

#endif
