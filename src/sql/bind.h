#ifndef LK_SQL_BIND_H
#define LK_SQL_BIND_H
/*
 * bind.h - names to pinned snapshots: which version a statement reads, and the open table behind it.
 *
 * Invariants:
 *   1. What is pinned at planning is what runs: lk_bind_pin opens exactly (location, incarnation, version) and
 *      asks no catalog.
 *   2. One open per key: concurrent misses share it; a failed open is remembered by nobody.
 *   3. Bounded: at most LK_BIND_ENTRIES_MAX open tables and about bytes_max of their memory; the least
 *      recently used go first. A running statement keeps its own reference.
 *
 * Threads: shared (one mutex of rank SQL, never held during an open).
 */
#include "catalog/cache.h"
#include "engine/engine.h"
#include "sql/sql.h"

typedef struct lk_bind lk_bind;

enum { LK_BIND_ENTRIES_MAX = 4096 };

typedef struct lk_bound_table { /* in the arena of the call */
    lk_table_ref table;
    lk_bytes     engine, location, incarnation;
    uint64_t     version;
} lk_bound_table;

/* engine and cache are borrowed and outlive the binder. bytes_max 0: 256 MiB. */
lk_bind *lk_bind_open(lk_engine *engine, lk_catalog_cache *cache, size_t bytes_max);
void     lk_bind_close(lk_bind *bind); /* accepts NULL */

/* The exact version a table reference of a statement means now. The caller has authorised the name.
 * LK_E_TABLE_NOT_FOUND; LK_E_REVISION_GONE (another incarnation); LK_E_SNAPSHOT_GONE (a version that does not
 * exist yet); LK_E_AUTHORITY_UNAVAILABLE. */
LK_MUST_CHECK lk_rc lk_bind_resolve(
    lk_bind *bind, const lk_sql_table *table, lk_arena *arena, lk_bound_table *out, lk_err *err);

/* The open table at that version; one lk_table_snapshot_unref is owed. LK_E_SNAPSHOT_GONE when reclaimed. */
LK_MUST_CHECK lk_rc lk_bind_pin(
    lk_bind *bind, const lk_bound_table *table, lk_table_snapshot **out, lk_err *err);

#endif
