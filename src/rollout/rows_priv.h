#ifndef LK_ROLLOUT_ROWS_PRIV_H
#define LK_ROLLOUT_ROWS_PRIV_H
/* rows_priv.h - what rows.c and rows_load.c share. Threads: as rows.h. */
#include "rollout/rows.h"

/* Fills rows with those of a dataset that count: all of them, or these addresses. */
LK_MUST_CHECK lk_rc lk_rollout_rows_read(
    lk_rollout_rows *rows, lk_dataset *dataset, struct lk_row_set *only, lk_err *err);

/* Sets batch (copied) and what follows from it and from storage, the addresses; charges rows->env.budget. */
LK_MUST_CHECK lk_rc lk_rollout_rows_keep(lk_rollout_rows *rows, const struct ArrowArray *batch, lk_err *err);

#endif
