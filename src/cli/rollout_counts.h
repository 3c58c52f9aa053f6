#ifndef LK_CLI_ROLLOUT_COUNTS_H
#define LK_CLI_ROLLOUT_COUNTS_H
/* rollout_counts.h - how many records there are of each value of a text column, the same from a server and in place. Threads:
 * confined. */
#include "arrow/batch.h"
#include "cli/rollout_target.h"

/* One row a value, ascending, null first: the value in a column of the counted one's name, rows, first_created_at,
 * last_created_at. filters: as of a list; NULL: none. LK_E_INVALID_REQUEST, LK_E_NOT_FOUND. */
LK_MUST_CHECK lk_rc lk_rollout_counts(lk_rollout_target *target, const char *name, const char *by,
    const char *filters, lk_arena *arena, lk_batches **out, lk_err *err);

#endif
