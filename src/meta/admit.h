#ifndef LK_META_ADMIT_H
#define LK_META_ADMIT_H
/*
 * admit.h - how many appends may run, and how many bytes of rows they may hold; and one writer per table.
 *
 * Invariants:
 *   1. Running appends never exceed slots_max, their bytes never bytes_max (except one append alone).
 *   2. A table is held by at most one caller; entries exist only while somebody holds or awaits them.
 *   3. Waiting ends at a deadline or with the caller's cancel flag. No order among waiters is promised.
 *
 * Threads: shared; guarded by one mutex each (ADMISSION). No mutex is held between enter and leave.
 */
#include "base/clock.h"
#include "base/thread.h"
#include "model/ids.h"

typedef struct lk_admit {
    lk_clock *clock;
    lk_mutex  mutex;
    lk_cond   freed;
    uint64_t  slots_max, bytes_max;
    uint64_t  slots, bytes; /* taken; guarded by mutex */
    bool      closing;
} lk_admit;

void lk_admit_init(lk_admit *admit, lk_clock *clock, uint64_t slots_max, uint64_t bytes_max);
void lk_admit_deinit(lk_admit *admit);

/* LK_E_APPEND_SLOTS at deadline_ms (absolute monotonic), LK_E_SHUTTING_DOWN once closing, or what cancel
 * says. */
LK_MUST_CHECK lk_rc lk_admit_enter(
    lk_admit *admit, uint64_t bytes, uint64_t deadline_ms, lk_cancel *cancel, lk_err *err);
void     lk_admit_leave(lk_admit *admit, uint64_t bytes);
void     lk_admit_close(lk_admit *admit); /* refuses newcomers, waits until nobody is inside */
uint64_t lk_admit_running(lk_admit *admit);

typedef struct lk_table_lock lk_table_lock; /* one held table */

typedef struct lk_table_locks {
    lk_clock      *clock;
    lk_mutex       mutex;
    lk_cond        released;
    lk_table_lock *held; /* guarded by mutex */
} lk_table_locks;

void lk_table_locks_init(lk_table_locks *locks, lk_clock *clock);
void lk_table_locks_deinit(lk_table_locks *locks); /* nothing may be held */

/* LK_E_APPEND_IN_PROGRESS at deadline_ms, or what cancel says. */
LK_MUST_CHECK lk_rc lk_table_locks_take(lk_table_locks *locks, lk_table_ref table, uint64_t deadline_ms,
    lk_cancel *cancel, lk_table_lock **out, lk_err *err);
void                lk_table_locks_release(lk_table_locks *locks, lk_table_lock *lock); /* accepts NULL */

#endif
