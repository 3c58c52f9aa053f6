#ifndef LK_META_CREATE_H
#define LK_META_CREATE_H
/*
 * create.h - a new table: placed by the server, made by the engine, registered in one write.
 *
 *   create/v1/<ns>/<table>/<incarnation>   the intent; same form as a tombstone (drop.h)
 *
 *   check -> intend -> commit
 *
 * check   the name is free, the schema may be stored. Reads only.
 * intend  the intent says where files are about to appear.
 * commit  the engine writes its files, then makes one atomic, guarded write: its pointer at version 1, both
 *         registry records, the namespace's counter, a new generation, and the intent goes.
 *
 * Invariants, at every point where the process may die:
 *   1. A registration names a complete version 1, or does not exist.
 *   2. Files that no registration names have an intent or a tombstone: nothing is orphaned.
 *   3. A table's lock is held from check to commit. So whoever holds it and finds an intent has found a dead
 *      create, and turns the intent into a tombstone in one write; an atomic write that is still on its way
 *      needs the intent and can no longer succeed.
 *
 * Crash points: after intend, or with files written: recovery abandons. After the atomic write: the table
 * exists. Losing the name (LK_E_TABLE_EXISTS) or a refusal by the engine abandons at once.
 *
 * Threads: confined to the caller, who holds the table's lock.
 */
#include "meta/drop.h"

/* LK_E_TABLE_EXISTS, LK_E_INVALID_SCHEMA, LK_E_NOT_LEADER, or what engine and KV say. */
LK_MUST_CHECK lk_rc lk_create_run(const lk_meta_env *env, lk_arena *arena, lk_table_ref table,
    const struct ArrowSchema *schema, lk_err *err);

/* Turns a dead create's intent (raw: its exact bytes) into a tombstone and finishes that. */
LK_MUST_CHECK lk_rc lk_create_abandon(
    const lk_meta_env *env, lk_arena *arena, const lk_remains *remains, lk_bytes raw, lk_err *err);

#endif
