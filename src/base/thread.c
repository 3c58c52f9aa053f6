/*
 * thread.c - what of thread.h needs no operating system: the pool and the stop flag, over the mutexes,
 * conditions and threads of whichever body is linked.
 */
#include "base/thread.h"

#include <stdlib.h>

struct task {
    void (*run)(void *context);
    void *context;
};

struct lk_pool {
    lk_mutex     mutex;
    lk_cond      work;  /* signalled when a task arrives or the pool closes */
    struct task *queue; /* ring of queue_max; under mutex, as are the next three */
    size_t       head, count;
    bool         closing;
    size_t       queue_max, thread_count;
    lk_thread    threads[];
};

static bool next_task(lk_pool *pool, struct task *out)
{
    lk_mutex_lock(&pool->mutex);
    while (pool->count == 0 && !pool->closing) {
        lk_cond_wait(&pool->work, &pool->mutex);
    }
    bool found = pool->count > 0;
    if (found) {
        *out = pool->queue[pool->head];
        pool->head = (pool->head + 1) % pool->queue_max;
        pool->count--;
    }
    lk_mutex_unlock(&pool->mutex);
    return found;
}

static void work(void *context)
{
    struct task task;
    while (next_task(context, &task)) {
        task.run(task.context);
        lk_assert_no_mutex();
    }
}

lk_rc lk_pool_open(lk_pool **out, const char *name, size_t thread_count, size_t queue_max, lk_err *err)
{
    LK_ASSERT(thread_count > 0 && queue_max > 0);
    lk_pool *pool = calloc(1, sizeof *pool + thread_count * sizeof pool->threads[0]);
    if (pool == NULL || (pool->queue = calloc(queue_max, sizeof pool->queue[0])) == NULL) {
        abort();
    }
    lk_mutex_init(&pool->mutex, LK_RANK_POOL);
    lk_cond_init(&pool->work);
    pool->queue_max = queue_max;
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < thread_count; i++) {
        rc = lk_thread_start(&pool->threads[i], name, work, pool, err);
        pool->thread_count += rc == LK_OK;
    }
    if (rc != LK_OK) {
        lk_pool_close(pool);
        return rc;
    }
    *out = pool;
    return LK_OK;
}

lk_rc lk_pool_submit(lk_pool *pool, void (*run)(void *context), void *context, lk_err *err)
{
    lk_mutex_lock(&pool->mutex);
    bool closing = pool->closing, full = pool->count == pool->queue_max;
    if (!closing && !full) {
        pool->queue[(pool->head + pool->count) % pool->queue_max] = (struct task){run, context};
        pool->count++;
        lk_cond_signal(&pool->work);
    }
    lk_mutex_unlock(&pool->mutex);
    if (closing) {
        return lk_fail(err, LK_E_SHUTTING_DOWN, "pool is closing");
    }
    return full ? lk_fail(err, LK_E_LIMIT, "%zu tasks are queued", pool->queue_max) : LK_OK;
}

size_t lk_pool_thread_count(const lk_pool *pool)
{
    return pool->thread_count;
}

void lk_pool_close(lk_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    lk_mutex_lock(&pool->mutex);
    pool->closing = true;
    lk_cond_broadcast(&pool->work);
    lk_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < pool->thread_count; i++) {
        lk_thread_join(&pool->threads[i]);
    }
    lk_cond_deinit(&pool->work);
    lk_mutex_deinit(&pool->mutex);
    free(pool->queue);
    free(pool);
}

lk_rc lk_cancel_check(lk_cancel *cancel, lk_err *err)
{
    if (cancel == NULL) {
        return LK_OK;
    }
    if (cancel->set) {
        return lk_fail(err, LK_E_CANCELLED, "stop was asked for");
    }
    if (cancel->deadline_ms != 0 && lk_thread_now_ms() >= cancel->deadline_ms) {
        return lk_fail(err, LK_E_DEADLINE, "the deadline passed");
    }
    return LK_OK;
}
