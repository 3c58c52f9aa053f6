#ifndef LK_LANCE_REBASE_H
#define LK_LANCE_REBASE_H
/*
 * rebase.h - whether a change that was made on one version may be committed on top of a later one: what the
 * commits in between did decides.
 *
 *      ours:                                       append  update, delete,   columns,   overwrite
 *   theirs:                                                  compact           cast
 *   append, config, index, reserve, clone, bases     +       + k               + p          +
 *   project, merge                                   c       f c               c            +
 *   delete, update, rewrite, data replacement        +       f k               + p          +
 *   overwrite                                        -       -                 -            -
 *   restore                                          -       -                 -            +
 *   memwal state, unnamed                            -       -                 -            -
 *   data overlay                                     -       -                 -            +
 *
 *   +  they go together    -  they do not
 *   f  if the fragments we touch have the same files still, and nobody else deleted the rows we take out (compaction:
 *      any row)
 *   c  if our columns still mean the same; rows that move must not lose a column that is new
 *   k  by key (merge): if no row was added or moved; else the keys are looked for again
 *   p  planned anew: values are written for the fragments that came or changed
 *
 * A restore goes with everything: what was there does not matter to it. Reserving fragment ids goes with all but an
 * overwrite or a restore. What f, c, k and p ask needs the newest manifest only; each change looks at its own (append.c,
 * row_loss.c, update.c, compact.c, columns.c, cast.c). An update, delete or merge whose rows changed is chosen again by a
 * committer that stands alone.
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

/* Whether another's operation leaves what rows and columns are: all but the last four rows of the table above. */
bool lk_rebase_keeps_rows(lk_operation other);

/* Whether rows of base's columns still mean the same: a dropped or renamed column does no harm, a new one reads as
 * null, but one that was cast got a new id, and their values would be lost without a word. LK_E_CONFLICT. */
LK_MUST_CHECK lk_rc lk_rebase_check_columns(const lk_manifest *base, const lk_manifest *tip, lk_err *err);

#endif
