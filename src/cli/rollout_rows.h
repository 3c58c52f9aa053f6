#ifndef LK_CLI_ROLLOUT_ROWS_H
#define LK_CLI_ROLLOUT_ROWS_H
/*
 * rollout_rows.h - records that come as rows (Arrow, Parquet, CSV), cut into groups; an id column is put before them when they
 * have none. Threads: confined.
 */
#include "cli/rollout_input.h"

typedef struct lk_rollout_rows_in lk_rollout_rows_in;

/* kind: arrow, parquet, csv, or "rows": by the name's ending. LK_E_USAGE. */
LK_MUST_CHECK lk_rc lk_rollout_rows_in_open(
    const lk_rollout_input_options *options, const char *kind, lk_rollout_rows_in **out, lk_err *err);
const struct ArrowSchema *lk_rollout_rows_in_schema(const lk_rollout_rows_in *rows);
/* *count 0: the end. */
LK_MUST_CHECK lk_rc lk_rollout_rows_in_next(
    lk_rollout_rows_in *rows, lk_shared_array **out, size_t *count, lk_err *err);
void lk_rollout_rows_in_close(lk_rollout_rows_in *rows); /* accepts NULL */

#endif
