#ifndef LK_LANCE_ALIKE_H
#define LK_LANCE_ALIKE_H
/*
 * alike.h - many tables of few rows that were made alike, read whole: what the first costs, its schema, a plan and the columns
 * that hold the same, the others share.
 *
 * Invariants: a table is read so only when nothing tells it from the first but its rows: its schema is the first's, it has one
 * fragment of one small file with the same columns, and no deletions. Everything else is for a scan. A column is taken from
 * the first only when its metadata and pages are the same byte for byte.
 * Threads: immutable once made.
 */
#include "lance/dataset.h"

typedef struct lk_alike lk_alike;

/* For tables like `first` (referenced), read as the columns of `to` (copied), by name. *out is NULL when this cannot be done:
 * it has other types, lacks one of the columns, or is no such table. */
LK_MUST_CHECK lk_rc lk_alike_new(
    lk_dataset *first, const struct ArrowSchema *to, lk_alike **out, lk_err *err);
void lk_alike_free(lk_alike *alike); /* accepts NULL; the arrays that were read stay */

const lk_dataset *lk_alike_first(const lk_alike *alike); /* what lk_dataset_open_like takes */

/* All rows of a table, in order: a batch of `to`; *fits false: it is not like the first, and nothing was read. */
LK_MUST_CHECK lk_rc lk_alike_read(
    const lk_alike *alike, lk_dataset *dataset, bool *fits, struct ArrowArray *out, lk_err *err);

#endif
