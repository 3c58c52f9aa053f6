#ifndef LK_CATALOG_SNAPSHOT_H
#define LK_CATALOG_SNAPSHOT_H
/*
 * snapshot.h - the directory of tables at one generation, immutable, shared by every query that pinned it.
 *
 * Invariants:
 *   1. Nothing in a snapshot changes after lk_snapshot_new returns; so readers take no lock.
 *   2. Items ascend by (namespace, name); no table appears twice.
 *   3. Names, locations, incarnations and schemas belong to one generation. A version does not: versions
 *      move without the generation, so a reader pins one through lk_catalog_cache_resolve.
 *
 * Threads: shared. Whoever got a pointer from _new or _ref owes one _unref.
 */
#include "catalog/authority.h"

typedef struct lk_snapshot lk_snapshot;

/* Copies everything. Items must ascend (asserted). */
lk_snapshot *lk_snapshot_new(lk_bytes generation, const lk_registration *items, size_t count);
lk_snapshot *lk_snapshot_ref(lk_snapshot *snapshot);   /* returns its argument */
void         lk_snapshot_unref(lk_snapshot *snapshot); /* accepts NULL */

lk_bytes               lk_snapshot_generation(const lk_snapshot *snapshot);
size_t                 lk_snapshot_count(const lk_snapshot *snapshot);
const lk_registration *lk_snapshot_at(const lk_snapshot *snapshot, size_t index); /* borrowed */

/* The table's item, or NULL: it does not exist in this generation. */
const lk_registration *lk_snapshot_find(const lk_snapshot *snapshot, lk_table_ref table);

/* The items of one namespace: [*first, *first + returned count). */
size_t lk_snapshot_namespace(const lk_snapshot *snapshot, lk_bytes ns, size_t *first);

#endif
