#ifndef LK_META_DROP_H
#define LK_META_DROP_H
/*
 * drop.h - taking a table away, and the durable note of files that nobody may use any more.
 *
 *   drop/v1/<ns>/<table>/<incarnation>   {"namespace","table","location","incarnation_id"}   the tombstone
 *
 *   load -> bury        one atomic write: tombstone, registration gone, namespace counted, new generation
 *   finish              the engine removes data and history; then the tombstone goes
 *
 * Invariants, at every point where the process may die:
 *   1. The name is free, and the data unreachable, from the write that makes the tombstone; both or neither.
 *   2. A tombstone is removed only after the files it names are. Finishing again is harmless: a location
 *      belongs to one incarnation for ever.
 *   3. A create that failed ends as a tombstone, too (create.h), so there is one way for files to die.
 *
 * A process that was stopped while it wrote rows of the table may write them after their removal; nothing
 * names such files, and a collector of unreferenced directories may take them at any time.
 *
 * Crash points: before bury nothing happened. After it the table is gone and recovery finishes. In the middle
 * of, or after, the removal: recovery removes again, finds nothing, and takes the tombstone away.
 *
 * Threads: lk_drop_run is confined to the caller, who holds the table's lock; lk_drop_finish needs no lock.
 */
#include "meta/env.h"

typedef struct lk_remains { /* what a tombstone, or the intent of a create, says */
    lk_table_ref table;
    lk_bytes     location, incarnation;
} lk_remains;

#define LK_DROP_PREFIX   LK_LITERAL("drop/v1/")
#define LK_CREATE_PREFIX LK_LITERAL("create/v1/")

lk_bytes lk_remains_key(lk_arena *arena, lk_bytes prefix, const lk_remains *remains);
lk_bytes lk_remains_encode(lk_arena *arena, const lk_remains *remains);
/* LK_E_CORRUPT_RECORD when unreadable or not what its key names. */
LK_MUST_CHECK lk_rc lk_remains_decode(
    lk_bytes prefix, lk_bytes key, lk_bytes raw, lk_arena *arena, lk_remains *out, lk_err *err);

/* Buries the table if it exists; *dropped tells. Files are still there: lk_drop_finish, or recovery. */
LK_MUST_CHECK lk_rc lk_drop_run(
    const lk_meta_env *env, lk_arena *arena, lk_table_ref table, bool *dropped, lk_err *err);

/* Removes what the tombstone names, then the tombstone. raw: its exact bytes. */
LK_MUST_CHECK lk_rc lk_drop_finish(
    const lk_meta_env *env, lk_arena *arena, const lk_remains *remains, lk_bytes raw, lk_err *err);

#endif
