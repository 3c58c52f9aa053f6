/* index_cache.c - see index_cache.h. Searched in full: comparing a thousand hashes costs less than one read. */
#include "lance/index_cache.h"

#include "base/bytes.h"
#include "base/thread.h"

#include <stdlib.h>

enum { ROOM_MIN = 8 };

typedef struct kept {
    lk_uuid        uuid;
    uint64_t       number, used_at;
    lk_index_part *part;
} kept;

struct lk_index_cache {
    lk_mutex  mutex;  /* guards all below */
    uint64_t *hashes; /* room of them, of the first count */
    kept     *parts;
    size_t    room, count, bytes;
    uint64_t  tick;
};

lk_index_part *lk_index_part_ref(lk_index_part *part)
{
    atomic_fetch_add_explicit(&part->refs, 1, memory_order_relaxed);
    return part;
}

void lk_index_part_unref(lk_index_part *part)
{
    if (part != NULL && atomic_fetch_sub_explicit(&part->refs, 1, memory_order_acq_rel) == 1) {
        part->free(part);
    }
}

lk_index_cache *lk_index_cache_new(void)
{
    lk_index_cache *cache = calloc(1, sizeof *cache);
    LK_ASSERT(cache != NULL);
    lk_mutex_init(&cache->mutex, LK_RANK_SCAN);
    return cache;
}

static uint64_t hash_of(lk_uuid uuid, uint64_t number)
{
    uint64_t hash = lk_load_u64(uuid.bytes) ^ lk_load_u64(uuid.bytes + 8);
    return (hash ^ number) * UINT64_C(0x9E3779B97F4A7C15);
}

/* Under the mutex: the place of a part, SIZE_MAX: it is not kept. */
static size_t find(const lk_index_cache *cache, lk_uuid uuid, uint64_t number)
{
    uint64_t hash = hash_of(uuid, number);
    for (size_t i = 0; i < cache->count; i++) {
        if (cache->hashes[i] == hash && cache->parts[i].number == number &&
            memcmp(cache->parts[i].uuid.bytes, uuid.bytes, sizeof uuid.bytes) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* Under the mutex: takes the one that was not used for longest out. */
static lk_index_part *evict(lk_index_cache *cache)
{
    size_t oldest = 0;
    for (size_t i = 1; i < cache->count; i++) {
        oldest = cache->parts[i].used_at < cache->parts[oldest].used_at ? i : oldest;
    }
    lk_index_part *part = cache->parts[oldest].part;
    cache->count--;
    cache->parts[oldest] = cache->parts[cache->count];
    cache->hashes[oldest] = cache->hashes[cache->count];
    cache->bytes -= part->bytes;
    return part;
}

void lk_index_cache_free(lk_index_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    while (cache->count > 0) {
        lk_index_part_unref(evict(cache));
    }
    lk_mutex_deinit(&cache->mutex);
    free(cache->hashes);
    free(cache->parts);
    free(cache);
}

size_t lk_index_cache_bytes(lk_index_cache *cache)
{
    lk_mutex_lock(&cache->mutex);
    size_t bytes = cache->bytes + cache->room * (sizeof *cache->hashes + sizeof *cache->parts);
    lk_mutex_unlock(&cache->mutex);
    return bytes + sizeof *cache;
}

lk_index_part *lk_index_cache_get(lk_index_cache *cache, lk_uuid uuid, uint64_t number)
{
    lk_index_part *part = NULL;
    lk_mutex_lock(&cache->mutex);
    size_t at = find(cache, uuid, number);
    if (at != SIZE_MAX) {
        cache->parts[at].used_at = ++cache->tick;
        part = lk_index_part_ref(cache->parts[at].part);
    }
    lk_mutex_unlock(&cache->mutex);
    return part;
}

/* Under the mutex: keeps the part if nobody was faster. */
static void keep(lk_index_cache *cache, lk_uuid uuid, uint64_t number, lk_index_part *part)
{
    if (find(cache, uuid, number) != SIZE_MAX) {
        return;
    }
    if (cache->count == cache->room) {
        cache->room = cache->room == 0 ? ROOM_MIN : cache->room * 2;
        cache->hashes = realloc(cache->hashes, cache->room * sizeof *cache->hashes);
        cache->parts = realloc(cache->parts, cache->room * sizeof *cache->parts);
        LK_ASSERT(cache->hashes != NULL && cache->parts != NULL);
    }
    cache->hashes[cache->count] = hash_of(uuid, number);
    cache->parts[cache->count++] = (kept){uuid, number, ++cache->tick, lk_index_part_ref(part)};
    cache->bytes += part->bytes;
}

void lk_index_cache_put(lk_index_cache *cache, lk_uuid uuid, uint64_t number, lk_index_part *part)
{
    for (;;) {
        lk_index_part *evicted = NULL;
        lk_mutex_lock(&cache->mutex);
        bool full =
            cache->count == LK_INDEX_CACHE_PARTS_MAX || cache->bytes + part->bytes > LK_INDEX_CACHE_BYTES_MAX;
        if (full && cache->count > 0) {
            evicted = evict(cache);
        } else if (!full) {
            keep(cache, uuid, number, part);
        }
        lk_mutex_unlock(&cache->mutex);
        lk_index_part_unref(evicted);
        if (evicted == NULL) {
            return;
        }
    }
}
