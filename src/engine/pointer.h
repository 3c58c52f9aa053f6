#ifndef LK_ENGINE_POINTER_H
#define LK_ENGINE_POINTER_H
/*
 * pointer.h - which manifest is the newest of a dataset that lake owns: one record in the KV, moved by
 * compare-and-set, with the older versions archived beside it.
 *
 *   lance-manifest-latest/<base>             {"incarnation","version","path"}            live
 *                                            {"state":"deleting"|"deleted","incarnation"}
 *   lance-manifest/<base>/<20-digit version> {"incarnation","path"}                      archived
 *
 *   absent --claim 1--> live 1 --claim 2--> live 2 ... --delete--> deleting --> deleted --claim 1--> live 1
 *
 * Invariants:
 *   1. Of two racing claims of one version exactly one wins; within an incarnation versions only grow, by
 *      one.
 *   2. A claim archives the version it replaces in the same atomic write, under its final name.
 *   3. The record never returns to absent, and a dataset made anew has a new incarnation: a writer that
 *      slept through a delete can match nothing.
 *   4. The path of the live record is whole and durable before it is claimed. It is a staging name until the
 *      final name is known to be ours (commit.h); lk_pointer_finalize then moves it.
 *
 * Threads: stateless functions over a shared lk_kv.
 */
#include "kv/kv.h"

typedef enum lk_pointer_state {
    LK_POINTER_ABSENT,
    LK_POINTER_LIVE,
    LK_POINTER_DELETING,
    LK_POINTER_DELETED
} lk_pointer_state;

typedef struct lk_pointer { /* everything in the arena it was loaded into */
    lk_pointer_state state;
    lk_bytes         incarnation; /* all states but ABSENT */
    uint64_t         version;     /* LIVE */
    lk_bytes         path;        /* LIVE: the manifest, relative to the dataset */
    lk_bytes         raw;         /* the exact stored bytes */
} lk_pointer;

/* The final name of a version's manifest, relative to the dataset (Lance's V2 naming). */
lk_bytes lk_pointer_final_path(lk_arena *arena, uint64_t version);

/* LK_E_CORRUPT_RECORD when the bytes are none of the above. */
LK_MUST_CHECK lk_rc lk_pointer_load(lk_kv *kv, lk_bytes base, lk_arena *arena, lk_pointer *out, lk_err *err);

typedef struct lk_pointer_claim {
    lk_bytes            base, incarnation;
    uint64_t            version; /* to install */
    lk_bytes            path;    /* its durable staging manifest */
    lk_bytes            guard_key, guard_value;
    const lk_kv_change *with; /* further changes of the same atomic write */
    size_t              with_count;
} lk_pointer_claim;

/*
 * Installs version on top of *current (as loaded). *applied = false: current was not the predecessor any
 * more, or the guard or a condition of `with` did not hold; nothing changed. LK_E_INVALID_REQUEST when
 * version does not follow current, or a new dataset would reuse the incarnation of a deleted one.
 */
LK_MUST_CHECK lk_rc lk_pointer_claim_next(
    lk_kv *kv, const lk_pointer *current, const lk_pointer_claim *claim, bool *applied, lk_err *err);

/* Replaces the staging path of the live version by its final name. *applied as above. */
LK_MUST_CHECK lk_rc lk_pointer_finalize(lk_kv *kv, lk_bytes base, const lk_pointer *current,
    lk_bytes guard_key, lk_bytes guard_value, bool *applied, lk_err *err);

/* The manifest of one exact version: the live record or its archive. *found = false when the version does not
 * exist, belongs to another incarnation, or the dataset is deleted. */
LK_MUST_CHECK lk_rc lk_pointer_resolve(lk_kv *kv, lk_bytes base, lk_bytes incarnation, uint64_t version,
    lk_arena *arena, lk_bytes *path, bool *found, lk_err *err);

/*
 * Deletes an incarnation's record and history: mark deleting, drop the archive in pages, mark deleted. Can be
 * run again from any point. Absent and already deleted are LK_OK. LK_E_CONFLICT when another incarnation
 * lives there, or the guard is lost.
 */
LK_MUST_CHECK lk_rc lk_pointer_delete(
    lk_kv *kv, lk_bytes base, lk_bytes incarnation, lk_bytes guard_key, lk_bytes guard_value, lk_err *err);

#endif
