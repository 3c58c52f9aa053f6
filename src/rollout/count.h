#ifndef LK_ROLLOUT_COUNT_H
#define LK_ROLLOUT_COUNT_H
/*
 * count.h - how many records of a snapshot there are of each value of a text column: rows by policy_version say how stale
 * what a learner samples is. Reads the id and that column, nothing else.
 * Threads: stateless.
 */
#include "rollout/query.h"

enum { LK_ROLLOUT_GROUPS_MAX = 65536 };

typedef struct lk_rollout_group {
    lk_bytes value; /* data NULL: null */
    uint64_t rows;
    int64_t  first_created_at, last_created_at; /* microseconds */
} lk_rollout_group;

/*
 * The groups of the rows that pass the query's filters (nothing else of it counts but budget and cancel), ascending by
 * value, null first; all in the arena. by: a text column or role. LK_E_LIMIT: more than LK_ROLLOUT_GROUPS_MAX.
 */
LK_MUST_CHECK lk_rc lk_rollout_count_by(lk_rollout_snapshot *snapshot, lk_record_column by,
    const lk_rollout_query *query, lk_arena *arena, lk_rollout_group **groups, size_t *count, lk_err *err);

#endif
