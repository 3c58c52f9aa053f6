/*
 * file_cache.c - see file_cache.h. Readers lie in a small array whose hashes are searched in full, which is faster
 * than opening one file; statistics in a hash table, open-addressed, at most half full.
 */
#include "lance/file_cache.h"

#include "base/thread.h"
#include "lance/file_priv.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    KNOWN_START = 64, /* a power of two, as every size of the table is */
    READERS_MIN = 4
};

typedef struct known {
    uint64_t  hash;
    lk_bytes  key;   /* in the cache's arena */
    lk_stats *stats; /* NULL: free */
} known;

struct lk_file_cache {
    atomic_uint      refs;
    lk_store        *store;
    lk_budget       *budget, *open_files;
    lk_mutex         mutex;  /* guards all below */
    uint64_t        *hashes; /* room of them, of the first count; so are the next two */
    lk_file_reader **readers;
    uint64_t        *used_at; /* ticks */
    uint64_t         tick;
    size_t           room, count;
    lk_index_cache  *indices; /* NULL: no index was asked for yet, as most tables have none */
    known           *known;
    size_t           known_room, known_count, known_bytes;
    lk_arena         keys;
};

lk_file_cache *lk_file_cache_new(lk_store *store, lk_budget *budget, lk_budget *open_files)
{
    lk_file_cache *cache = calloc(1, sizeof *cache);
    LK_ASSERT(cache != NULL);
    atomic_init(&cache->refs, 1);
    cache->store = store;
    cache->budget = budget;
    cache->open_files = open_files;
    lk_mutex_init(&cache->mutex, LK_RANK_SCAN);
    return cache;
}

lk_file_cache *lk_file_cache_ref(lk_file_cache *cache)
{
    atomic_fetch_add_explicit(&cache->refs, 1, memory_order_relaxed);
    return cache;
}

static void forget_stats(lk_file_cache *cache)
{
    for (size_t i = 0; i < cache->known_room; i++) {
        lk_stats_unref(cache->known[i].stats);
    }
    free(cache->known);
    lk_arena_close(&cache->keys);
    cache->known = NULL;
    cache->known_room = cache->known_count = cache->known_bytes = 0;
}

void lk_file_cache_unref(lk_file_cache *cache)
{
    if (cache == NULL || atomic_fetch_sub_explicit(&cache->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < cache->count; i++) {
        lk_file_reader_unref(cache->readers[i]);
    }
    if (cache->open_files != NULL) {
        lk_budget_give(cache->open_files, cache->count);
    }
    forget_stats(cache);
    lk_index_cache_free(cache->indices);
    free(cache->hashes);
    free(cache->readers);
    free(cache->used_at);
    lk_mutex_deinit(&cache->mutex);
    free(cache);
}

lk_index_cache *lk_file_cache_indices(lk_file_cache *cache)
{
    lk_mutex_lock(&cache->mutex);
    if (cache->indices == NULL) {
        cache->indices = lk_index_cache_new();
    }
    lk_index_cache *indices = cache->indices;
    lk_mutex_unlock(&cache->mutex);
    return indices;
}

static uint64_t hash_of(lk_bytes key)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < key.size; i++) {
        hash = (hash ^ (unsigned char)key.data[i]) * UINT64_C(1099511628211);
    }
    return hash ^ hash >> 32;
}

/* -- readers, under the mutex -------------------------------------------------------------------------- */
static lk_file_reader *find(lk_file_cache *cache, lk_bytes key, uint64_t hash)
{
    for (size_t i = 0; i < cache->count; i++) {
        if (cache->hashes[i] == hash && lk_bytes_equal(lk_file_reader_key(cache->readers[i]), key)) {
            cache->used_at[i] = ++cache->tick;
            return cache->readers[i];
        }
    }
    return NULL;
}

static void grow_readers(lk_file_cache *cache)
{
    cache->room = cache->room == 0 ? READERS_MIN : cache->room * 2;
    cache->hashes = realloc(cache->hashes, cache->room * sizeof *cache->hashes);
    cache->readers = realloc(cache->readers, cache->room * sizeof(lk_file_reader *));
    cache->used_at = realloc(cache->used_at, cache->room * sizeof *cache->used_at);
    LK_ASSERT(cache->hashes != NULL && cache->readers != NULL && cache->used_at != NULL);
}

/* The slot for one more reader, *evicted being what had to leave it; false: the process has too many files open
 * and this cache has none to close. */
static bool make_room(lk_file_cache *cache, size_t *slot, lk_file_reader **evicted)
{
    lk_err full = {0};
    if (cache->count < LK_FILE_CACHE_FILES_MAX &&
        (cache->open_files == NULL || lk_budget_take(cache->open_files, 1, &full) == LK_OK)) {
        *slot = cache->count++;
        while (cache->room < cache->count) {
            grow_readers(cache);
        }
        return true;
    }
    *slot = 0;
    for (size_t i = 1; i < cache->count; i++) {
        *slot = cache->used_at[i] < cache->used_at[*slot] ? i : *slot;
    }
    *evicted = cache->count > 0 ? cache->readers[*slot] : NULL;
    return cache->count > 0;
}

/* Keeps reader; returns what had to make room for it. */
static lk_file_reader *keep(lk_file_cache *cache, lk_file_reader *reader, uint64_t hash)
{
    size_t          slot = 0;
    lk_file_reader *evicted = NULL;
    if (make_room(cache, &slot, &evicted)) {
        cache->hashes[slot] = hash;
        cache->readers[slot] = lk_file_reader_ref(reader);
        cache->used_at[slot] = ++cache->tick;
    }
    return evicted;
}

lk_rc lk_file_cache_open(
    lk_file_cache *cache, lk_bytes key, uint64_t size_bytes, lk_file_reader **out, lk_err *err)
{
    lk_file_reader *opened = NULL, *surplus = NULL;
    uint64_t        hash = hash_of(key);
    lk_mutex_lock(&cache->mutex);
    lk_file_reader *found = find(cache, key, hash);
    *out = found == NULL ? NULL : lk_file_reader_ref(found);
    lk_mutex_unlock(&cache->mutex);
    if (found != NULL) {
        return LK_OK;
    }
    lk_rc rc = lk_file_reader_open(cache->store, key, size_bytes, cache->budget, &opened, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_mutex_lock(&cache->mutex);
    found = find(cache, key, hash); /* somebody may have been faster */
    if (found == NULL) {
        surplus = keep(cache, opened, hash);
        *out = opened;
    } else {
        surplus = opened;
        *out = lk_file_reader_ref(found);
    }
    lk_mutex_unlock(&cache->mutex);
    lk_file_reader_unref(surplus);
    return LK_OK;
}

/* -- statistics, under the mutex ------------------------------------------------------------------------ */

/* Where key is, or the free slot where it would be. */
static known *place(known *table, size_t room, lk_bytes key, uint64_t hash)
{
    size_t at = hash & (room - 1);
    while (table[at].stats != NULL && (table[at].hash != hash || !lk_bytes_equal(table[at].key, key))) {
        at = (at + 1) & (room - 1);
    }
    return &table[at];
}

static void grow(lk_file_cache *cache)
{
    size_t room = cache->known_room == 0 ? KNOWN_START : cache->known_room * 2;
    known *bigger = calloc(room, sizeof *bigger);
    LK_ASSERT(bigger != NULL);
    for (size_t i = 0; i < cache->known_room; i++) {
        if (cache->known[i].stats != NULL) {
            *place(bigger, room, cache->known[i].key, cache->known[i].hash) = cache->known[i];
        }
    }
    free(cache->known);
    cache->known = bigger;
    cache->known_room = room;
}

static void remember(lk_file_cache *cache, lk_bytes key, uint64_t hash, lk_stats *stats)
{
    size_t bytes = lk_stats_bytes(stats) + key.size + 2 * sizeof(known);
    if (cache->known_bytes + bytes > LK_FILE_CACHE_STATS_BYTES_MAX) {
        forget_stats(cache);
    }
    if (2 * (cache->known_count + 1) > cache->known_room) {
        grow(cache);
    }
    known *slot = place(cache->known, cache->known_room, key, hash);
    if (slot->stats == NULL && bytes <= LK_FILE_CACHE_STATS_BYTES_MAX) {
        *slot = (known){hash, lk_arena_copy(&cache->keys, key), lk_stats_ref(stats)};
        cache->known_count++;
        cache->known_bytes += bytes;
    }
}

lk_rc lk_file_cache_stats(
    lk_file_cache *cache, lk_bytes key, uint64_t size_bytes, lk_stats **out, lk_err *err)
{
    lk_file_reader *reader = NULL;
    uint64_t        hash = hash_of(key);
    lk_mutex_lock(&cache->mutex);
    lk_stats *found =
        cache->known_room == 0 ? NULL : place(cache->known, cache->known_room, key, hash)->stats;
    *out = found == NULL ? NULL : lk_stats_ref(found);
    lk_mutex_unlock(&cache->mutex);
    if (found != NULL) {
        return LK_OK;
    }
    lk_rc rc = lk_file_cache_open(cache, key, size_bytes, &reader, err);
    if (rc != LK_OK) {
        return rc;
    }
    *out = lk_stats_ref(lk_file_stats(reader));
    lk_mutex_lock(&cache->mutex);
    remember(cache, key, hash, *out);
    lk_mutex_unlock(&cache->mutex);
    lk_file_reader_unref(reader);
    return LK_OK;
}

/* -- memory -------------------------------------------------------------------------------------------- */
size_t lk_file_cache_bytes(lk_file_cache *cache)
{
    lk_file_reader *readers[LK_FILE_CACHE_FILES_MAX];
    lk_mutex_lock(&cache->mutex);
    lk_index_cache *indices = cache->indices;
    size_t          count = cache->count, size = sizeof *cache + cache->known_bytes;
    for (size_t i = 0; i < count; i++) {
        readers[i] = lk_file_reader_ref(cache->readers[i]);
    }
    lk_mutex_unlock(&cache->mutex);
    size += indices == NULL ? 0 : lk_index_cache_bytes(indices);
    for (size_t i = 0; i < count; i++) {
        size += lk_file_reader_bytes(readers[i]);
        lk_file_reader_unref(readers[i]);
    }
    return size;
}
