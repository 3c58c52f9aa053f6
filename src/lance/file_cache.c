/*
 * file_cache.c - see file_cache.h. A small array, searched in full: 64 keys are compared faster than one file
 * is opened.
 */
#include "lance/file_cache.h"

#include "base/thread.h"

#include <stdatomic.h>
#include <stdlib.h>

struct lk_file_cache {
    atomic_uint     refs;
    lk_store       *store;
    lk_budget      *budget;
    lk_mutex        mutex;
    lk_file_reader *readers[LK_FILE_CACHE_FILES_MAX]; /* by mutex; the first count */
    uint64_t        used_at[LK_FILE_CACHE_FILES_MAX]; /* by mutex; ticks */
    uint64_t        tick;                             /* by mutex */
    size_t          count;                            /* by mutex */
};

lk_file_cache *lk_file_cache_new(lk_store *store, lk_budget *budget)
{
    lk_file_cache *cache = calloc(1, sizeof *cache);
    LK_ASSERT(cache != NULL);
    atomic_init(&cache->refs, 1);
    cache->store = store;
    cache->budget = budget;
    lk_mutex_init(&cache->mutex, LK_RANK_SCAN);
    return cache;
}

lk_file_cache *lk_file_cache_ref(lk_file_cache *cache)
{
    atomic_fetch_add_explicit(&cache->refs, 1, memory_order_relaxed);
    return cache;
}

void lk_file_cache_unref(lk_file_cache *cache)
{
    if (cache == NULL || atomic_fetch_sub_explicit(&cache->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < cache->count; i++) {
        lk_file_reader_unref(cache->readers[i]);
    }
    lk_mutex_deinit(&cache->mutex);
    free(cache);
}

/* Under the mutex: the kept reader of key, or NULL. */
static lk_file_reader *find(lk_file_cache *cache, lk_bytes key)
{
    for (size_t i = 0; i < cache->count; i++) {
        if (lk_bytes_equal(lk_file_reader_key(cache->readers[i]), key)) {
            cache->used_at[i] = ++cache->tick;
            return cache->readers[i];
        }
    }
    return NULL;
}

/* Under the mutex: keeps reader; returns what had to make room for it. */
static lk_file_reader *keep(lk_file_cache *cache, lk_file_reader *reader)
{
    size_t          slot = cache->count;
    lk_file_reader *evicted = NULL;
    if (slot < LK_FILE_CACHE_FILES_MAX) {
        cache->count++;
    } else {
        slot = 0;
        for (size_t i = 1; i < cache->count; i++) {
            slot = cache->used_at[i] < cache->used_at[slot] ? i : slot;
        }
        evicted = cache->readers[slot];
    }
    cache->readers[slot] = lk_file_reader_ref(reader);
    cache->used_at[slot] = ++cache->tick;
    return evicted;
}

lk_rc lk_file_cache_open(
    lk_file_cache *cache, lk_bytes key, uint64_t size_bytes, lk_file_reader **out, lk_err *err)
{
    lk_file_reader *opened = NULL, *surplus = NULL;
    lk_mutex_lock(&cache->mutex);
    lk_file_reader *found = find(cache, key);
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
    found = find(cache, key); /* somebody may have been faster */
    if (found == NULL) {
        surplus = keep(cache, opened);
        *out = opened;
    } else {
        surplus = opened;
        *out = lk_file_reader_ref(found);
    }
    lk_mutex_unlock(&cache->mutex);
    lk_file_reader_unref(surplus);
    return LK_OK;
}

size_t lk_file_cache_bytes(lk_file_cache *cache)
{
    lk_file_reader *readers[LK_FILE_CACHE_FILES_MAX];
    size_t          size = sizeof *cache;
    lk_mutex_lock(&cache->mutex);
    size_t count = cache->count;
    for (size_t i = 0; i < count; i++) {
        readers[i] = lk_file_reader_ref(cache->readers[i]);
    }
    lk_mutex_unlock(&cache->mutex);
    for (size_t i = 0; i < count; i++) {
        size += lk_file_reader_bytes(readers[i]);
        lk_file_reader_unref(readers[i]);
    }
    return size;
}
