#ifndef LK_ROLLOUT_BASE_IDS_H
#define LK_ROLLOUT_BASE_IDS_H
/*
 * base_ids.h - which ids the base table may have, so that an add or a merge need not look through it: the hashes of all ids
 * that its files hold, read once per file, or told by who wrote it. Files never change; a hash stays when its row was deleted or its file replaced.
 *
 * Invariant: an id that some version has, whose files were read, is never said to be absent.
 * Bounded: a table with more ids than LK_ROLLOUT_BASE_IDS_MAX, or than the budget has room for, may have any id.
 * Ownership: counted. Threads: shared; one caller at a time, the others wait.
 */
#include "lance/dataset.h"

enum { LK_ROLLOUT_BASE_IDS_MAX = 4 * 1024 * 1024 };

typedef struct lk_base_ids lk_base_ids;
lk_base_ids               *lk_base_ids_new(lk_budget *budget); /* borrowed, outlives it; NULL: unlimited */
lk_base_ids               *lk_base_ids_ref(lk_base_ids *ids);
void                       lk_base_ids_unref(lk_base_ids *ids); /* accepts NULL */

/* maybe[i] = false: this version of the table has no row of ids[i]. Reads what it did not read yet. */
LK_MUST_CHECK lk_rc lk_base_ids_ask(lk_base_ids *ids, lk_dataset *base, const lk_bytes *wanted, size_t count,
    lk_cancel *cancel, bool *maybe, lk_err *err);

/* next is what an append to base made: the rows of its new fragments have these ids, and their files need not be read. If
 * others committed between the two nothing is learned. */
void lk_base_ids_learn(
    lk_base_ids *ids, lk_dataset *base, lk_dataset *next, const lk_bytes *added, size_t count);

#endif
