#ifndef LK_ROLLOUT_MAINTAIN_H
#define LK_ROLLOUT_MAINTAIN_H
/*
 * maintain.h - what is done for open stores behind the requests: merges that adds set off or that are due by the clock,
 * folding of small fragments of base tables, removal of what merges and crashes left and of versions that are old.
 *
 *   watched --> due (merge, fold, collect or clean) --> worked on --> due again, later or never
 *
 * Invariants:
 *   1. Nothing here fails an add: failures are counted, told in the log when they begin, and tried again after a wait that
 *      doubles.
 *   2. A store is worked on by one thread at a time, and by none after it was forgotten.
 *   3. Work is bounded: a round merges so many generations and bytes at most, then the next store has its turn.
 *
 * Threads: shared; mutex guards the jobs and is not held during work.
 */
#include "rollout/store.h"

typedef struct lk_rollout_maintenance {
    bool     off;        /* nothing is done, not even what was left by others: for a look, and then the end */
    bool     background; /* merges that adds set off run behind them; the add does it at 4 N pending */
    bool     collect_log;     /* log entries that no writer needs are removed (collect.h) */
    uint64_t interval_ms;     /* merges by the clock; 0: none */
    uint64_t generations_min; /* that must be pending for those; 0: 1 */
    uint64_t generations_max; /* of one round; 0: 8 */
    uint64_t bytes_max;       /* of one round; 0: 1 GiB */
    uint64_t keep_ms;         /* older versions of the base table are removed, but for the newest; 0: none */
    uint64_t grace_ms;        /* how long what was merged stays for those who read it; 0: 60 s */
} lk_rollout_maintenance;

#define LK_ROLLOUT_MERGE_GENERATIONS 8
#define LK_ROLLOUT_MERGE_BYTES       (1ULL << 30)

typedef struct lk_rollout_maintenance_stats {
    uint64_t rounds;   /* merges that were tried */
    uint64_t failures; /* of anything */
    uint64_t folds, directories_removed, log_entries_removed, manifests_emptied, versions_removed;
} lk_rollout_maintenance_stats;

typedef struct lk_rollout_maintainer lk_rollout_maintainer;
LK_MUST_CHECK lk_rc lk_rollout_maintainer_open(const lk_rollout_maintenance *options, lk_clock *clock,
    lk_random *random, lk_rollout_maintainer **out, lk_err *err);
void                lk_rollout_maintainer_close(
                   lk_rollout_maintainer *maintainer); /* all stores were forgotten; accepts NULL */

/* Begins to look after a store, which is borrowed until it is forgotten. */
void lk_rollout_maintainer_watch(lk_rollout_maintainer *maintainer, lk_rollout_store *store);

/* Ends that: stops what is being done for it, and waits. One that is not watched is let be. */
void lk_rollout_maintainer_forget(lk_rollout_maintainer *maintainer, lk_rollout_store *store);

/* So many generations are pending that a merge is due; generations were merged, by whomever. */
void lk_rollout_maintainer_merge_due(lk_rollout_maintainer *maintainer, lk_rollout_store *store);
void lk_rollout_maintainer_merged(lk_rollout_maintainer *maintainer, lk_rollout_store *store);

void lk_rollout_maintainer_read_stats(lk_rollout_maintainer *maintainer, lk_rollout_maintenance_stats *out);

#endif
