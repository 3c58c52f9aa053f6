#ifndef LK_BASE_THREAD_H
#define LK_BASE_THREAD_H
/*
 * thread.h - threads, ranked mutexes, conditions and bounded pools. Two link-time bodies: pthreads
 * (thread_pthread.c) and the simulator's fibers (tests/sim), so a simulation runs the real code.
 *
 * Invariants:
 *   1. A thread takes mutexes in strictly increasing rank; anything else aborts.
 *   2. No interface call (KV, store, engine) is made while a mutex is held: lk_assert_no_mutex.
 *   3. A pool's queue has a cap; a submit beyond it is refused, never queued.
 */
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Ranks, lowest taken first. */
typedef enum lk_rank {
    LK_RANK_SERVER = 10,
    LK_RANK_CALL = 20,
    LK_RANK_ADMISSION = 30,
    LK_RANK_META = 40,
    LK_RANK_CATALOG = 50,
    LK_RANK_QUERY = 60,
    LK_RANK_SQL = 70,
    LK_RANK_ENGINE = 80,
    LK_RANK_SCAN = 90,
    LK_RANK_IO = 100,
    LK_RANK_KV = 110,
    LK_RANK_POOL = 120,
    LK_RANK_LEAF = 130 /* logger, metrics: nothing is taken under it */
} lk_rank;

typedef struct lk_mutex {
    void   *body;
    lk_rank rank;
} lk_mutex;

void lk_mutex_init(lk_mutex *mutex, lk_rank rank);
void lk_mutex_deinit(lk_mutex *mutex);
void lk_mutex_lock(lk_mutex *mutex);
void lk_mutex_unlock(lk_mutex *mutex);
void lk_assert_no_mutex(void);

typedef struct lk_cond {
    void *body;
} lk_cond;

void lk_cond_init(lk_cond *cond);
void lk_cond_deinit(lk_cond *cond);
void lk_cond_wait(lk_cond *cond, lk_mutex *mutex);
/* false when the absolute monotonic deadline (lk_clock_monotonic_ms) passed first. */
bool lk_cond_wait_until(lk_cond *cond, lk_mutex *mutex, uint64_t deadline_ms);
void lk_cond_signal(lk_cond *cond);
void lk_cond_broadcast(lk_cond *cond);

typedef struct lk_thread {
    void *body;
} lk_thread;

LK_MUST_CHECK lk_rc lk_thread_start(
    lk_thread *thread, const char *name, void (*run)(void *context), void *context, lk_err *err);
void     lk_thread_join(lk_thread *thread); /* accepts zero; once */
void     lk_thread_lower(void);  /* the calling thread lets others have the processors first, for good */
uint64_t lk_thread_now_ms(void); /* the monotonic clock that the body's deadlines are measured by */

/* A fixed number of threads over one bounded FIFO queue. */
typedef struct lk_pool lk_pool;

LK_MUST_CHECK lk_rc lk_pool_open(
    lk_pool **out, const char *name, size_t thread_count, size_t queue_max, lk_err *err);
/* LK_E_LIMIT when the queue is full, LK_E_SHUTTING_DOWN after lk_pool_close began. */
LK_MUST_CHECK lk_rc lk_pool_submit(lk_pool *pool, void (*run)(void *context), void *context, lk_err *err);
size_t              lk_pool_thread_count(const lk_pool *pool);
void                lk_pool_close(lk_pool *pool); /* runs what is queued, joins; accepts NULL */

/* The request's stop flag: set once, read at every batch and every I/O. Threads: shared. */
typedef struct lk_cancel {
    _Atomic bool set;
    uint64_t     deadline_ms; /* absolute monotonic; 0 = none; written before sharing */
} lk_cancel;

/* LK_E_CANCELLED or LK_E_DEADLINE once the flag is set or the deadline passed; NULL never stops. */
LK_MUST_CHECK lk_rc lk_cancel_check(lk_cancel *cancel, lk_err *err);

#endif
