#ifndef LK_ROLLOUT_RESUME_H
#define LK_ROLLOUT_RESUME_H
/*
 * resume.h - snapshots that cursors name, again: generations that are still there are opened, ones that were merged and
 * collected are read from the base table, where the commit of each merge says which of its rows came from which.
 * (store.h has the contracts.)
 * Threads: stateless.
 */
#include "rollout/cursor.h"

/* LK_E_SNAPSHOT_GONE; LK_E_INVALID_REQUEST when the base version is another table's. */
LK_MUST_CHECK lk_rc lk_rollout_resume(const lk_lance_env *env, lk_rollout_view *view,
    const lk_rollout_cursor *cursor, lk_rollout_snapshot **out, lk_err *err);

/* The rows of generations that `now` has or had, and that are not below the cursor's pins. */
LK_MUST_CHECK lk_rc lk_rollout_since(const lk_lance_env *env, const lk_rollout_cursor *cursor,
    lk_rollout_snapshot *now, lk_rollout_snapshot **out, lk_err *err);

/* -- what a merge says of its commit ------------------------------------------------------------------------ */
/* Transaction property of the base table's version that a merge makes: "<shard uuid> <generation>:<rows> ...", the rows in
 * that order in the fragments that the version adds. */
#define LK_ROLLOUT_MERGED "lake.rollout.merged"

#endif
