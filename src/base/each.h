#ifndef LK_BASE_EACH_H
#define LK_BASE_EACH_H
/*
 * each.h - one piece of work in parts that mostly wait: done by whoever asks, helped by threads of a pool that are free.
 *
 * Invariants: the caller does parts itself and waits only for parts that somebody has begun, so it gets on when the
 * pool is busy, full or closing, and may be a thread of that pool. After it returned nobody touches the context.
 */
#include "base/thread.h"

/* Runs run(context, 0 .. count - 1), in any order and side by side. After an error no further part is begun; of those
 * that failed the first part's error is handed out. pool NULL: one after the other. */
LK_MUST_CHECK lk_rc lk_each(lk_pool *pool, size_t                 count,
    lk_rc (*run)(void *context, size_t index, lk_err *err), void *context, lk_err *err);

#endif
