#ifndef LK_META_FENCE_H
#define LK_META_FENCE_H
/*
 * fence.h - writes that only the leader may make: each is conditional on the leader record that this node
 * installed, loaded immediately before the write.
 *
 * Invariants:
 *   1. Without evidence nothing is written: LK_E_NOT_LEADER.
 *   2. *applied = false means that a condition of the caller's own changes did not hold; having lost the
 *      lease is LK_E_NOT_LEADER, never false. (Replays rely on telling them apart.)
 *
 * Threads: shared.
 */
#include "engine/engine.h"
#include "meta/elect.h"

typedef struct lk_fence {
    lk_kv    *kv;    /* borrowed */
    lk_elect *elect; /* borrowed */
} lk_fence;

/* Evidence for writes that others make for us (the engine's); guard_value lives in arena. */
LK_MUST_CHECK lk_rc lk_fence_terms(
    const lk_fence *fence, lk_arena *arena, lk_commit_terms *terms, lk_err *err);

/* Writes the changes, all or none. */
LK_MUST_CHECK lk_rc lk_fence_write(
    const lk_fence *fence, const lk_kv_change *changes, size_t count, bool *applied, lk_err *err);

/* After a write under `terms` lost: LK_E_NOT_LEADER when the leader record is not those bytes any more, else
 * LK_OK. */
LK_MUST_CHECK lk_rc lk_fence_check(const lk_fence *fence, const lk_commit_terms *terms, lk_err *err);

#endif
