#ifndef LK_META_RECOVER_H
#define LK_META_RECOVER_H
/*
 * recover.h - the leader finishes what others left: final names (engine), dead creates, tombstones, operation
 * records that fell due. On taking the lead, every LK_RECOVERY_INTERVAL_MS, and when kicked (after a drop).
 *
 * Invariants:
 *   1. Recovery runs the same functions as the requests do, from the durable records alone.
 *   2. One bad record costs itself: it is logged, kept, and the rest goes on. Losing the lease ends the pass.
 *   3. Operation records are read in the order they fall due; work is proportional to what is due.
 *
 * Threads: one thread inside; the rest is guarded by mutex (META).
 */
#include "meta/env.h"

typedef struct lk_recovered { /* of one pass */
    uint64_t abandoned, finished, forgotten, failed;
} lk_recovered;

/* One whole pass. first: this node just took the lead. LK_E_NOT_LEADER ends it; other errors are counted. */
LK_MUST_CHECK lk_rc lk_recover_pass(
    const lk_meta_env *env, bool first, lk_cancel *cancel, lk_recovered *out, lk_err *err);

typedef struct lk_recovery {
    const lk_meta_env *env;
    lk_elect          *elect;
    lk_thread          thread;
    lk_mutex           mutex;
    lk_cond            wake; /* the thread waits on it, and whoever waits for a first pass */
    lk_cancel          cancel;
    bool               started;
    bool               stop, kicked;    /* guarded by mutex */
    uint64_t           recovered_epoch; /* of the last leadership whose first pass ended; guarded by mutex */
} lk_recovery;

LK_MUST_CHECK lk_rc lk_recovery_start(
    lk_recovery *recovery, const lk_meta_env *env, lk_elect *elect, lk_err *err);
void     lk_recovery_stop(lk_recovery *recovery); /* accepts one that never started */
void     lk_recovery_kick(lk_recovery *recovery); /* there is work; cheap */
uint64_t lk_recovery_epoch(lk_recovery *recovery);
/* Waits until something changed or deadline_ms. */
void lk_recovery_wait(lk_recovery *recovery, uint64_t deadline_ms);

#endif
