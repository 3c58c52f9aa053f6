#ifndef LK_ROLLOUT_ROWS_PRIV_H
#define LK_ROLLOUT_ROWS_PRIV_H
/* rows_priv.h - what rows.c, rows_load.c and rows_fetch.c share. Threads: as rows.h. */
#include "lance/alike.h"
#include "rollout/rows.h"

/* Fills rows with those of a dataset that count: all of them, or these addresses. alike: NULL, or of generations that are
 * probably made like this one; not with addresses. */
LK_MUST_CHECK lk_rc lk_rollout_rows_read(
    lk_rollout_rows *rows, lk_dataset *dataset, struct lk_row_set *only, const lk_alike *alike, lk_err *err);

/* lk_rollout_rows_load of a generation that is probably made like others. */
LK_MUST_CHECK lk_rc lk_rollout_rows_load_like(const lk_lance_env *env, lk_rollout_form *form, lk_uuid shard,
    const lk_shard_generation *generation, const lk_alike *alike, lk_rollout_rows **out, lk_err *err);

/* The same of one that is open already, wherever its bytes are. */
LK_MUST_CHECK lk_rc lk_rollout_rows_load_from(const lk_lance_env *env, lk_rollout_form *form, lk_uuid shard,
    const lk_shard_generation *generation, lk_dataset *dataset, const lk_alike *alike, lk_rollout_rows **out,
    lk_err *err);

/*
 * Loads generations of far storage that this software wrote and that are small, each by one request, many at a time
 * (rows_fetch.c). Wishes that it leaves are of others, large, or gone: to be loaded one by one. pool may be NULL.
 */
LK_MUST_CHECK lk_rc lk_rollout_rows_fetch(const lk_lance_env *env, lk_rollout_form *form, lk_pool *pool,
    lk_rollout_wish *wishes, size_t count, lk_err *err);

/* What generations like this one share; NULL when it has rows to hide, or is none of ours. */
LK_MUST_CHECK lk_rc lk_rollout_rows_alike(const lk_rollout_rows *rows, lk_alike **out, lk_err *err);

/* The same at every depth: format strings, and children's; no dictionaries. */
bool lk_rollout_same_type(const struct ArrowSchema *a, const struct ArrowSchema *b);

/* Of a batch of rows->schema that a generation's files have, large lists become null (rows.h). */
LK_MUST_CHECK lk_rc lk_rollout_rows_leave_out(lk_rollout_rows *rows, struct ArrowArray *batch, lk_err *err);

/* Sets batch (copied) and what follows from it and from storage, the addresses; charges rows->env.budget. */
LK_MUST_CHECK lk_rc lk_rollout_rows_keep(lk_rollout_rows *rows, const struct ArrowArray *batch, lk_err *err);

#endif
