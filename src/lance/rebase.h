#ifndef LK_LANCE_REBASE_H
#define LK_LANCE_REBASE_H
/*
 * rebase.h - whether a change that was made on one version may be committed on top of a later one: what the
 * commits in between did decides.
 *
 *                                                              append  delete,  columns
 *                                                                      rewrite
 *   append, config, index, reserve, clone, bases                 +       +        +
 *   project, merge                                               c       f        c
 *   delete, update, rewrite, data replacement                    +       f        +
 *   overwrite, restore, memwal state, data overlay, unnamed      -       -        -
 *
 *   +  they go together    -  they do not
 *   f  if the fragments we touch have the same files still, and nobody else deleted the rows we delete (a rewrite:
 *      any row)
 *   c  if our columns still mean the same
 *
 * A restore goes with everything: what was there does not matter to it. The last two rules need the newest manifest
 * only; each change checks its own (append.c, delete.c, compact.c, columns.c).
 * Threads: stateless.
 */
#include "lance/pb_table.h"

/*
 * Finds the newest version. *tip stays NULL when it is `base` itself; else it is that version's manifest, the
 * caller's, and every commit after `checked` (a version that was looked at before, or base's) was found to be
 * allowed (NULL: whatever it was). LK_E_CONFLICT with a detail when one was not.
 */
LK_MUST_CHECK lk_rc lk_rebase(lk_store *store, const lk_manifest *base, uint64_t checked,
    bool (*allowed)(lk_operation other), lk_manifest **tip, lk_err *err);

/* Whether another's operation leaves what rows and columns are: true but for the last row of the table above, and for
 * operations that we have no name for. What is allowed beyond that by f and c is looked at in the newest manifest. */
bool lk_rebase_keeps_rows(lk_operation other);

/* Whether rows of base's columns still mean the same: a dropped or renamed column does no harm, a new one reads as
 * null, but one that was cast got a new id, and their values would be lost without a word. LK_E_CONFLICT. */
LK_MUST_CHECK lk_rc lk_rebase_check_columns(const lk_manifest *base, const lk_manifest *tip, lk_err *err);

#endif
