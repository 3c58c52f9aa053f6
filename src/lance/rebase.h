#ifndef LK_LANCE_REBASE_H
#define LK_LANCE_REBASE_H
/*
 * rebase.h - whether an append that was made on one version may be committed on top of a later one: what the
 * commits in between did decides.
 *
 *   goes with an append:   append, delete, update, rewrite, merge, project, config, index, reserve, data
 *                          replacement, clone, bases; if our columns still mean the same afterwards
 *   does not:              overwrite, restore, memwal state, data overlay, and operations without a name here
 *
 * Threads: stateless.
 */
#include "lance/manifest.h"

/*
 * Finds the newest version. *tip stays NULL when it is `base` itself; else it is that version's manifest, the
 * caller's, and every commit after `checked` (a version that was looked at before, or base's) was found to go
 * with an append of base's columns. LK_E_CONFLICT with a detail when one was not.
 */
LK_MUST_CHECK lk_rc lk_rebase_append(
    lk_store *store, const lk_manifest *base, uint64_t checked, lk_manifest **tip, lk_err *err);

#endif
