#ifndef LK_ROLLOUT_MERGE_H
#define LK_ROLLOUT_MERGE_H
/*
 * merge.h - a shard's generations become rows of the base table, so that reading does not get slower with every add.
 *
 *   choose the oldest --> append their rows --> take them off the shard's manifest --> collect their directories
 *                         (base version + 1)    (shard version + 1)                    (collect.h)
 *
 * Invariants:
 *   1. A row is in the base table or in a listed generation at every moment; between the second and the third step it is in
 *      both, and readers show it once.
 *   2. A merge that was stopped anywhere is done again by the next one: ids that the base table has are not appended again.
 *   3. Only generations that were chosen are taken off; ones that came meanwhile stay. The claim is the writer's, not another.
 *
 * Threads: one merge of a shard at a time, which the caller sees to.
 */
#include "rollout/view.h"
#include "rollout/writer.h"

typedef struct lk_rollout_merge_options {
    size_t     generations_max; /* at once; 0: all */
    uint64_t   bytes_max; /* of their rows, in memory or in files, but at least one generation; 0: no bound */
    lk_cancel *cancel;
    bool       gentle; /* nobody waits for it: it takes one processor at most, if storage is near */
    lk_store *
        late; /* the table's place again, where somebody waits: syncs together what one merge writes; NULL: none */
} lk_rollout_merge_options;

typedef struct lk_rollout_merge_report {
    size_t   generations; /* that were taken off */
    uint64_t rows;        /* that were appended */
    uint64_t base_version;
} lk_rollout_merge_report;

/* Merges generations of the writer's shard. Nothing to do is LK_OK with a report of zeros. LK_E_SHARD_FENCED when the claim
 * was lost: the rows may be in the base table then, and the generations are still listed. */
LK_MUST_CHECK lk_rc lk_rollout_merge(const lk_lance_env *env, lk_rollout_view *view,
    lk_rollout_writer *writer, lk_uuid shard, const lk_rollout_merge_options *options,
    lk_rollout_merge_report *report, lk_err *err);

/* Of a version's data files. */
uint64_t lk_rollout_stored_bytes(const struct lk_manifest *manifest);

#endif
