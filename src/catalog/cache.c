/*
 * cache.c - see cache.h. One hash table of registrations, one directory, one mutex; a flight is a call to the
 * authority that everybody who needs its answer waits for.
 */
#include "catalog/cache.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"

#include <stdlib.h>

typedef enum presence { UNKNOWN, PRESENT, ABSENT } presence;

typedef struct entry {
    struct entry   *next;
    uint64_t        hash;
    lk_table_ref    table; /* in own */
    char           *own;
    presence        state;
    lk_arena        arena; /* of the registration, when PRESENT */
    lk_registration registration;
    uint64_t        asked_ms; /* when the answer was asked for */
    uint64_t        retry_ms; /* after a failure: not before */
    uint64_t        epoch;    /* an answer asked for in an older one is not kept */
    uint64_t        flights;  /* finished ones */
    lk_rc           last_rc;  /* of the last flight */
    unsigned        waiters;
    bool            flying;
} entry;

struct lk_catalog_cache {
    lk_catalog_cache_options options;
    lk_pool                 *pool; /* one thread: refreshes behind readers */
    lk_mutex                 mutex;
    lk_cond                  landed; /* a flight ended */
    /* All below guarded by mutex. */
    entry      **buckets;
    size_t       bucket_count, count, absent_count, hand;
    lk_snapshot *snapshot; /* NULL: never loaded */
    uint64_t     confirmed_ms, directory_retry_ms, directory_epoch, snapshot_epoch, directory_flights;
    uint64_t     failures, calls;
    lk_rc        directory_rc;
    bool         refreshing, closing;
};

enum { BUCKETS_MIN = 64 };

static uint64_t now_ms(const lk_catalog_cache *cache)
{
    return lk_clock_monotonic_ms(cache->options.clock);
}

/* -- the table of entries (under the mutex) --------------------------------------------------------- */
static uint64_t hash_bytes(uint64_t hash, lk_bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        hash = (hash ^ (uint8_t)bytes.data[i]) * 0x100000001b3u; /* FNV-1a */
    }
    return hash;
}

static uint64_t hash_table(lk_table_ref table)
{
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, table.ns);
    return hash_bytes((hash ^ '.') * 0x100000001b3u, table.name);
}

static entry **slot(lk_catalog_cache *cache, uint64_t hash, lk_table_ref table)
{
    entry **at = &cache->buckets[hash & (cache->bucket_count - 1)];
    while (*at != NULL && ((*at)->hash != hash || lk_table_ref_compare((*at)->table, table) != 0)) {
        at = &(*at)->next;
    }
    return at;
}

static void set_state(lk_catalog_cache *cache, entry *e, presence state)
{
    cache->absent_count += (state == ABSENT) - (size_t)(e->state == ABSENT);
    e->state = state;
    if (state != PRESENT) {
        lk_arena_close(&e->arena);
        e->registration = (lk_registration){0};
    }
}

static void remove_entry(lk_catalog_cache *cache, entry **at)
{
    entry *e = *at;
    set_state(cache, e, UNKNOWN);
    *at = e->next;
    cache->count--;
    free(e->own);
    free(e);
}

static void evict_one(lk_catalog_cache *cache)
{
    for (size_t tries = 0; tries < cache->bucket_count; tries++) {
        entry **at = &cache->buckets[cache->hand++ & (cache->bucket_count - 1)];
        while (*at != NULL && ((*at)->flying || (*at)->waiters > 0)) {
            at = &(*at)->next;
        }
        if (*at != NULL) {
            remove_entry(cache, at);
            return;
        }
    }
}

static void grow(lk_catalog_cache *cache)
{
    size_t  count = cache->bucket_count * 2;
    entry **buckets = calloc(count, sizeof *buckets);
    LK_ASSERT(buckets != NULL);
    for (size_t i = 0; i < cache->bucket_count; i++) {
        for (entry *e = cache->buckets[i], *next = NULL; e != NULL; e = next) {
            next = e->next;
            e->next = buckets[e->hash & (count - 1)];
            buckets[e->hash & (count - 1)] = e;
        }
    }
    free(cache->buckets);
    cache->buckets = buckets;
    cache->bucket_count = count;
}

static entry *find_or_add(lk_catalog_cache *cache, lk_table_ref table)
{
    uint64_t hash = hash_table(table);
    entry   *e = *slot(cache, hash, table);
    if (e != NULL) {
        return e;
    }
    if (cache->count >= LK_CATALOG_ENTRIES_MAX) {
        evict_one(cache);
    }
    if (cache->count >= cache->bucket_count) {
        grow(cache);
    }
    e = calloc(1, sizeof *e);
    char *own = malloc(table.ns.size + table.name.size + 1);
    LK_ASSERT(e != NULL && own != NULL);
    memcpy(own, table.ns.data, table.ns.size);
    memcpy(own + table.ns.size, table.name.data, table.name.size);
    e->own = own;
    e->table = (lk_table_ref){{own, table.ns.size}, {own + table.ns.size, table.name.size}};
    e->hash = hash;
    e->next = cache->buckets[hash & (cache->bucket_count - 1)];
    cache->buckets[hash & (cache->bucket_count - 1)] = e;
    cache->count++;
    return e;
}

static void copy_registration(const lk_registration *from, lk_arena *arena, lk_registration *to)
{
    *to = (lk_registration){
        .table = {lk_arena_copy(arena, from->table.ns), lk_arena_copy(arena, from->table.name)},
        .location = lk_arena_copy(arena, from->location),
        .engine = lk_arena_copy(arena, from->engine),
        .incarnation = lk_arena_copy(arena, from->incarnation),
        .version = from->version,
        .schema_ipc = lk_arena_copy(arena, from->schema_ipc)};
}

/* -- registrations ---------------------------------------------------------------------------------- */
static bool usable(const entry *e, uint64_t now)
{
    if (e->state == PRESENT) {
        return now - e->asked_ms <= LK_CATALOG_STALE_MS || now < e->retry_ms;
    }
    return e->state == ABSENT && now - e->asked_ms <= LK_CATALOG_ABSENT_MS;
}

static void install(entry *e, lk_catalog_cache *cache, const lk_registration *fresh, uint64_t asked_ms)
{
    bool     same = e->state == PRESENT && lk_bytes_equal(e->registration.incarnation, fresh->incarnation);
    uint64_t floor = same ? e->registration.version : 0; /* never behind what was shown */
    e->asked_ms = asked_ms;
    e->retry_ms = 0;
    if (same) {
        e->registration.version = fresh->version > floor ? fresh->version : floor;
        return;
    }
    set_state(cache, e, UNKNOWN);
    copy_registration(fresh, &e->arena, &e->registration);
    set_state(cache, e, PRESENT);
}

/* Runs one flight for e. Called and returns with the mutex held; e stays, because it is flying. */
static void fly(lk_catalog_cache *cache, entry *e, lk_err *err)
{
    lk_arena        arena = {0};
    lk_registration fresh = {0};
    uint64_t        epoch = e->epoch, asked_ms = now_ms(cache);
    lk_authority   *authority = cache->options.authority;
    e->flying = true;
    cache->calls++;
    lk_mutex_unlock(&cache->mutex);
    lk_rc rc = authority->ops->resolve(authority, cache->options.who, e->table, &arena, &fresh, err);
    lk_mutex_lock(&cache->mutex);
    e->flying = false;
    e->flights++;
    e->last_rc = rc;
    if (rc == LK_OK && epoch == e->epoch) {
        install(e, cache, &fresh, asked_ms);
    } else if (rc == LK_E_TABLE_NOT_FOUND && epoch == e->epoch) {
        set_state(cache, e, cache->absent_count < LK_CATALOG_ABSENT_MAX ? ABSENT : UNKNOWN);
        e->asked_ms = asked_ms;
    } else if (rc != LK_OK && rc != LK_E_TABLE_NOT_FOUND) {
        e->retry_ms = now_ms(cache) + LK_CATALOG_RETRY_MS;
    }
    lk_cond_broadcast(&cache->landed);
    lk_arena_close(&arena);
}

/* Waits for the flight of somebody else; false when it failed and left nothing to show. */
static bool wait_landing(lk_catalog_cache *cache, entry *e)
{
    uint64_t flight = e->flights;
    e->waiters++;
    while (e->flying && e->flights == flight) {
        lk_cond_wait(&cache->landed, &cache->mutex);
    }
    e->waiters--;
    return e->last_rc == LK_OK || e->last_rc == LK_E_TABLE_NOT_FOUND || e->state == PRESENT;
}

static lk_rc absent(lk_table_ref table, lk_err *err)
{
    return lk_fail(err, LK_E_TABLE_NOT_FOUND, "no table %.*s.%.*s", LK_FMT(table.ns), LK_FMT(table.name));
}

static lk_rc resolve_locked(
    lk_catalog_cache *cache, lk_table_ref table, lk_arena *arena, lk_registration *out, lk_err *err)
{
    for (;;) {
        entry *e = find_or_add(cache, table);
        if (usable(e, now_ms(cache))) {
            if (e->state == ABSENT) {
                return absent(table, err);
            }
            copy_registration(&e->registration, arena, out);
            return LK_OK;
        }
        if (e->flying) {
            if (!wait_landing(cache, e)) {
                return lk_fail(err, e->last_rc, "shared the failure of another reader's question");
            }
            continue;
        }
        lk_err   failure = {0};
        uint64_t epoch = e->epoch;
        fly(cache, e, &failure);
        if (failure.rc == LK_E_TABLE_NOT_FOUND && epoch == e->epoch) {
            return absent(table, err); /* whether or not it is remembered */
        }
        if (failure.rc == LK_OK && epoch == e->epoch) {
            copy_registration(&e->registration, arena, out); /* however long it took */
            return LK_OK;
        }
        if (failure.rc != LK_OK && failure.rc != LK_E_TABLE_NOT_FOUND && e->state != PRESENT) {
            *err = failure;
            return failure.rc;
        }
    }
}

lk_rc lk_catalog_cache_resolve(
    lk_catalog_cache *cache, lk_table_ref table, lk_arena *arena, lk_registration *out, lk_err *err)
{
    lk_rc rc = lk_table_ref_check(table, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_mutex_lock(&cache->mutex);
    rc = resolve_locked(cache, table, arena, out, err);
    lk_mutex_unlock(&cache->mutex);
    return rc;
}

void lk_catalog_cache_appended(lk_catalog_cache *cache, lk_table_ref table, uint64_t version)
{
    lk_mutex_lock(&cache->mutex);
    entry *e = find_or_add(cache, table);
    e->epoch++;
    if (e->state == PRESENT && e->registration.version < version) {
        e->registration.version = version;
    } else if (e->state == ABSENT) {
        set_state(cache, e, UNKNOWN);
    }
    lk_mutex_unlock(&cache->mutex);
}

void lk_catalog_cache_changed(lk_catalog_cache *cache, lk_table_ref table)
{
    lk_mutex_lock(&cache->mutex);
    entry *e = find_or_add(cache, table);
    e->epoch++;
    set_state(cache, e, UNKNOWN);
    cache->directory_epoch++;
    lk_mutex_unlock(&cache->mutex);
}

/* -- the directory ---------------------------------------------------------------------------------- */
/* One refresh. Called and returns with the mutex held and refreshing set; clears it. */
static void refresh(lk_catalog_cache *cache, lk_err *err)
{
    lk_arena         arena = {0};
    lk_bytes         known = {0}, generation = {0};
    lk_registration *items = NULL;
    size_t           count = 0;
    bool             modified = false;
    uint64_t         epoch = cache->directory_epoch, asked_ms = now_ms(cache);
    lk_authority    *authority = cache->options.authority;
    lk_snapshot     *fresh = NULL, *old = NULL;
    if (cache->snapshot != NULL) {
        known = lk_arena_copy(&arena, lk_snapshot_generation(cache->snapshot));
    }
    cache->calls++;
    lk_mutex_unlock(&cache->mutex);
    lk_rc rc =
        authority->ops->directory(authority, known, &arena, &modified, &generation, &items, &count, err);
    if (rc == LK_OK && modified) {
        fresh = lk_snapshot_new(generation, items, count);
    } else if (rc == LK_OK && known.size == 0) {
        rc = lk_fail(err, LK_E_AUTHORITY_UNAVAILABLE, "not modified, but nothing was known");
    }
    if (rc != LK_OK) {
        lk_log_error(LK_LOG_REFRESH_FAILED, err);
    }
    lk_mutex_lock(&cache->mutex);
    if (fresh != NULL) {
        old = cache->snapshot;
        cache->snapshot = fresh;
    }
    if (rc == LK_OK) {
        cache->confirmed_ms = asked_ms;
        cache->snapshot_epoch = epoch;
    }
    cache->directory_retry_ms = rc == LK_OK ? 0 : now_ms(cache) + LK_CATALOG_RETRY_MS;
    cache->failures = rc == LK_OK ? 0 : cache->failures + 1;
    cache->directory_rc = rc;
    cache->directory_flights++;
    cache->refreshing = false;
    lk_cond_broadcast(&cache->landed);
    lk_snapshot_unref(old);
    lk_arena_close(&arena);
}

static void refresh_behind(void *context)
{
    lk_catalog_cache *cache = context;
    lk_err            ignored = {0};
    lk_mutex_lock(&cache->mutex);
    if (cache->closing) {
        cache->refreshing = false;
        lk_cond_broadcast(&cache->landed);
    } else {
        refresh(cache, &ignored);
    }
    lk_mutex_unlock(&cache->mutex);
}

static void start_behind(lk_catalog_cache *cache)
{
    lk_err ignored = {0};
    cache->refreshing = lk_pool_submit(cache->pool, refresh_behind, cache, &ignored) == LK_OK;
}

/* Whether what we have may be shown at once; may start a refresh behind it. */
static bool directory_usable(lk_catalog_cache *cache)
{
    uint64_t now = now_ms(cache), age = now - cache->confirmed_ms;
    bool     failing = cache->directory_retry_ms != 0;
    bool     current = cache->snapshot_epoch == cache->directory_epoch && age <= LK_CATALOG_STALE_MS;
    if (cache->snapshot == NULL || (!current && !failing)) {
        return false;
    }
    if (!cache->refreshing && (failing ? now >= cache->directory_retry_ms : age > LK_CATALOG_FRESH_MS)) {
        start_behind(cache);
    }
    return true;
}

static lk_rc directory_locked(lk_catalog_cache *cache, lk_err *err)
{
    while (!directory_usable(cache)) {
        lk_err failure = {0};
        if (cache->refreshing) {
            uint64_t flight = cache->directory_flights;
            while (cache->refreshing && cache->directory_flights == flight) {
                lk_cond_wait(&cache->landed, &cache->mutex);
            }
            if (cache->directory_rc != LK_OK && cache->snapshot == NULL) {
                return lk_fail(err, cache->directory_rc, "shared the failure of another reader's refresh");
            }
            continue;
        }
        uint64_t epoch = cache->directory_epoch;
        cache->refreshing = true;
        refresh(cache, &failure);
        if (failure.rc != LK_OK && cache->snapshot == NULL) {
            *err = failure;
            return failure.rc;
        }
        if (failure.rc == LK_OK && cache->snapshot_epoch >= epoch) {
            break; /* asked for after we came, however long it took */
        }
    }
    return LK_OK;
}

lk_rc lk_catalog_cache_directory(lk_catalog_cache *cache, lk_snapshot **out, lk_err *err)
{
    lk_mutex_lock(&cache->mutex);
    lk_rc rc = directory_locked(cache, err);
    if (rc == LK_OK) {
        *out = lk_snapshot_ref(cache->snapshot);
    }
    lk_mutex_unlock(&cache->mutex);
    return rc;
}

/* -- life ------------------------------------------------------------------------------------------- */
void lk_catalog_cache_health(lk_catalog_cache *cache, lk_catalog_health *out)
{
    lk_mutex_lock(&cache->mutex);
    *out = (lk_catalog_health){.warmed = cache->snapshot != NULL,
        .refreshing = cache->refreshing,
        .directory_age_ms = cache->snapshot == NULL ? 0 : now_ms(cache) - cache->confirmed_ms,
        .consecutive_failures = cache->failures,
        .authority_calls = cache->calls};
    lk_mutex_unlock(&cache->mutex);
}

lk_rc lk_catalog_cache_open(lk_catalog_cache **out, const lk_catalog_cache_options *options, lk_err *err)
{
    lk_catalog_cache *cache = calloc(1, sizeof *cache);
    LK_ASSERT(cache != NULL);
    cache->options = *options;
    lk_rc rc = lk_pool_open(&cache->pool, "catalog", 1, 1, err);
    if (rc != LK_OK) {
        free(cache);
        return rc;
    }
    cache->bucket_count = BUCKETS_MIN;
    cache->buckets = calloc(BUCKETS_MIN, sizeof *cache->buckets);
    LK_ASSERT(cache->buckets != NULL);
    lk_mutex_init(&cache->mutex, LK_RANK_CATALOG);
    lk_cond_init(&cache->landed);
    *out = cache;
    return LK_OK;
}

void lk_catalog_cache_close(lk_catalog_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    lk_mutex_lock(&cache->mutex);
    cache->closing = true;
    lk_mutex_unlock(&cache->mutex);
    lk_pool_close(cache->pool);
    for (size_t i = 0; i < cache->bucket_count; i++) {
        while (cache->buckets[i] != NULL) {
            remove_entry(cache, &cache->buckets[i]);
        }
    }
    free(cache->buckets);
    lk_snapshot_unref(cache->snapshot);
    lk_cond_deinit(&cache->landed);
    lk_mutex_deinit(&cache->mutex);
    free(cache);
}
