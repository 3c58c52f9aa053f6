#ifndef LK_LANCE_ROW_LOSS_H
#define LK_LANCE_ROW_LOSS_H
/*
 * row_loss.h - rows that leave a table, whether another takes their place (update.c) or none does (delete.c).
 *
 * A fragment's deletion file names all its deleted rows, so it is made from what the newest version has and what is
 * to be deleted. A fragment whose rows are all deleted leaves the version. When another's commit comes first, the
 * files are made again only for the fragments that it touched.
 * Threads: confined.
 */
#include "lance/change.h"
#include "lance/row_set.h"

typedef struct lk_row_loss {
    lk_change         *change;
    lk_dataset        *dataset;
    struct lk_touched *fragments; /* that lose rows; ascending by id */
    size_t             count;
    bool               moved; /* rows changed meanwhile: choosing them anew may help */
} lk_row_loss;

/* Starts with these rows of change->base, which is dataset's version; of rows that are deleted already nothing is
 * done. LK_E_INVALID_REQUEST when there is no such row. Deinit also after a failure. */
LK_MUST_CHECK lk_rc lk_row_loss_init(
    lk_row_loss *loss, lk_change *change, lk_dataset *dataset, lk_row_set *rows, lk_err *err);
void lk_row_loss_deinit(lk_row_loss *loss); /* accepts zero */

typedef struct lk_row_loss_fields { /* of the operation's message */
    uint32_t updated, removed;
} lk_row_loss_fields;

/* On top of tip: what is left of the fragments goes into the plan, what is to be said of it into the operation.
 * LK_E_CONFLICT and moved when one of the rows is not there any more. */
LK_MUST_CHECK lk_rc lk_row_loss_plan(lk_row_loss *loss, const lk_manifest *tip, lk_row_loss_fields fields,
    lk_arena *arena, lk_change_plan *plan, lk_buf *operation, lk_err *err);

/* Rows that go, and the fragments that lose some or all of theirs. */
void lk_row_loss_count(const lk_row_loss *loss, uint64_t *rows, uint64_t *changed, uint64_t *removed);

#endif
