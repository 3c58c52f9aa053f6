#ifndef LK_ROLLOUT_MAINTAIN_H
#define LK_ROLLOUT_MAINTAIN_H
/*
 * maintain.h - what is done for open stores behind the requests: merges that adds set off or that are due by the clock,
 * folding of small fragments of base tables, removal of what merges and crashes left.
 *
 * Invariants:
 *   1. Nothing here fails an add: failures are counted, told once in the log, and tried again after a wait that doubles.
 *   2. A store is worked on by one thread at a time.
 *   3. Work is bounded: a round merges so many generations and bytes at most, then the next store has its turn.
 *
 * Threads: shared; mutex guards the queue.
 */
#include "rollout/store.h"

typedef struct lk_rollout_maintenance {
    bool     background;      /* merges that adds set off run behind them; the add does it at 4 N pending */
    bool     collect_log;     /* log entries that no writer needs are removed (R-WAL-3) */
    uint64_t interval_ms;     /* merges by the clock; 0: none */
    uint64_t generations_min; /* that must be pending for those; 0: 1 */
    uint64_t generations_max; /* of one round; 0: 8 */
    uint64_t bytes_max;       /* of one round; 0: 1 GiB */
    uint64_t grace_ms;        /* how long what was merged stays for those who read it; 0: 60 s */
} lk_rollout_maintenance;

typedef struct lk_rollout_maintenance_stats {
    uint64_t rounds, failures, folds, directories_removed, log_entries_removed;
} lk_rollout_maintenance_stats;

#endif
