#ifndef LK_CATALOG_CACHE_H
#define LK_CATALOG_CACHE_H
/*
 * cache.h - what a query process knows of the catalog, so that reads do not reach the authority.
 *
 * Invariants:
 *   1. The directory is one immutable generation; it is swapped whole and never mixed.
 *   2. Of one incarnation, a reader of this cache never sees a version go down; after
 *      lk_catalog_cache_appended it sees that version or a newer one.
 *   3. One question at a time: concurrent misses of one table, and concurrent refreshes, share one call.
 *   4. While the authority answers, nothing older than LK_CATALOG_STALE_MS is shown. While it does not, the
 *      last good answer is, without limit of time; with none, the error is.
 *   5. Bounded: LK_CATALOG_ENTRIES_MAX entries, LK_CATALOG_ABSENT_MAX of them absent names, each of which is
 *      remembered LK_CATALOG_ABSENT_MS.
 *
 * A registration is asked for again when it is stale; its readers wait for that one call. A directory older
 * than LK_CATALOG_FRESH_MS is returned as it is while one refresh runs behind it; when it is stale, or after
 * lk_catalog_cache_changed, readers wait. After a failure nobody waits: one call a LK_CATALOG_RETRY_MS tries
 * again.
 *
 * Threads: shared. Calls may block on the authority; hold no lock. Entries guarded by one mutex (CATALOG).
 */
#include "base/clock.h"
#include "catalog/snapshot.h"

typedef struct lk_catalog_cache lk_catalog_cache;

typedef struct lk_catalog_cache_options { /* all borrowed; outlive the cache */
    lk_authority       *authority;
    const lk_principal *who; /* the query tier's own identity: callers authorise names before they ask */
    lk_clock           *clock;
} lk_catalog_cache_options;

/* Asks nothing yet: the first reader pays for the first directory. */
LK_MUST_CHECK lk_rc lk_catalog_cache_open(
    lk_catalog_cache **out, const lk_catalog_cache_options *options, lk_err *err);
void lk_catalog_cache_close(lk_catalog_cache *cache); /* accepts NULL; waits for a running refresh */

/* The directory (names, schemas) for discovery. One _unref is owed. */
LK_MUST_CHECK lk_rc lk_catalog_cache_directory(lk_catalog_cache *cache, lk_snapshot **out, lk_err *err);

/* The table's registration with the version to pin, copied into arena. LK_E_TABLE_NOT_FOUND. */
LK_MUST_CHECK lk_rc lk_catalog_cache_resolve(
    lk_catalog_cache *cache, lk_table_ref table, lk_arena *arena, lk_registration *out, lk_err *err);

/* An append through this process was acknowledged at version: readers here see it from now on. */
void lk_catalog_cache_appended(lk_catalog_cache *cache, lk_table_ref table, uint64_t version);

/* This process created or dropped the table, or found its pinned version gone: forget it, and ask for the
 * directory again before it is next shown. */
void lk_catalog_cache_changed(lk_catalog_cache *cache, lk_table_ref table);

typedef struct lk_catalog_health {
    bool     warmed; /* a directory was loaded once */
    bool     refreshing;
    uint64_t directory_age_ms;     /* since the authority last confirmed it; 0 before warmed */
    uint64_t consecutive_failures; /* of directory refreshes */
    uint64_t authority_calls;      /* in all, for tests and metrics */
} lk_catalog_health;
void lk_catalog_cache_health(lk_catalog_cache *cache, lk_catalog_health *out);

#endif
