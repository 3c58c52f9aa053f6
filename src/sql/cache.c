/* cache.c - see cache_priv.h. */
#include "sql/cache_priv.h"

#include <stdlib.h>

enum { BUCKETS = 4096, SHARE_MAX = 8 }; /* one statement takes at most an eighth */

typedef struct entry {
    struct entry     *chain, *newer, *older;
    lk_sql_statement *statement;
    uint64_t          hash;
} entry;

struct lk_sql_cache {
    lk_mutex mutex; /* guards all below */
    size_t   bytes_max, bytes;
    entry   *newest, *oldest;
    entry   *buckets[BUCKETS];
};

lk_sql_cache *lk_sql_cache_open(size_t bytes_max)
{
    lk_sql_cache *cache = calloc(1, sizeof *cache);
    LK_ASSERT(cache != NULL);
    lk_mutex_init(&cache->mutex, LK_RANK_SQL);
    cache->bytes_max = bytes_max;
    return cache;
}

static uint64_t hash_of(lk_bytes text)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < text.size; i++) {
        hash = (hash ^ (unsigned char)text.data[i]) * UINT64_C(1099511628211);
    }
    return hash ^ hash >> 32;
}

static entry *find(const lk_sql_cache *cache, lk_bytes text, uint64_t hash)
{
    entry *e = cache->buckets[hash % BUCKETS];
    while (e != NULL && (e->hash != hash || !lk_bytes_equal(e->statement->text, text))) {
        e = e->chain;
    }
    return e;
}

static void unlink_use(lk_sql_cache *cache, entry *e)
{
    *(e->newer == NULL ? &cache->newest : &e->newer->older) = e->older;
    *(e->older == NULL ? &cache->oldest : &e->older->newer) = e->newer;
}

static void link_newest(lk_sql_cache *cache, entry *e)
{
    e->newer = NULL;
    e->older = cache->newest;
    *(cache->newest == NULL ? &cache->oldest : &cache->newest->newer) = e;
    cache->newest = e;
}

static void drop(lk_sql_cache *cache, entry *e)
{
    entry **at = &cache->buckets[e->hash % BUCKETS];
    while (*at != e) {
        at = &(*at)->chain;
    }
    *at = e->chain;
    unlink_use(cache, e);
    cache->bytes -= e->statement->bytes;
    lk_sql_statement_unref(e->statement);
    free(e);
}

lk_sql_statement *lk_sql_cache_find(lk_sql_cache *cache, lk_bytes text)
{
    uint64_t          hash = hash_of(text);
    lk_sql_statement *statement = NULL;
    lk_mutex_lock(&cache->mutex);
    entry *e = find(cache, text, hash);
    if (e != NULL) {
        unlink_use(cache, e);
        link_newest(cache, e);
        statement = lk_sql_statement_ref(e->statement);
    }
    lk_mutex_unlock(&cache->mutex);
    return statement;
}

void lk_sql_cache_put(lk_sql_cache *cache, lk_sql_statement *statement)
{
    if (statement->bytes > cache->bytes_max / SHARE_MAX) {
        return;
    }
    uint64_t hash = hash_of(statement->text);
    lk_mutex_lock(&cache->mutex);
    if (find(cache, statement->text, hash) == NULL) {
        entry *e = calloc(1, sizeof *e);
        LK_ASSERT(e != NULL);
        e->statement = lk_sql_statement_ref(statement);
        e->hash = hash;
        e->chain = cache->buckets[hash % BUCKETS];
        cache->buckets[hash % BUCKETS] = e;
        link_newest(cache, e);
        cache->bytes += statement->bytes;
        while (cache->bytes > cache->bytes_max) {
            drop(cache, cache->oldest);
        }
    }
    lk_mutex_unlock(&cache->mutex);
}

void lk_sql_cache_close(lk_sql_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    while (cache->oldest != NULL) {
        drop(cache, cache->oldest);
    }
    lk_mutex_deinit(&cache->mutex);
    free(cache);
}
