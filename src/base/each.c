/* each.c - see each.h. */
#include "base/each.h"

#include <stdlib.h>

typedef struct job {
    lk_mutex mutex;
    lk_cond  done; /* signalled when nothing is running */
    lk_rc (*run)(void *context, size_t index, lk_err *err);
    void  *context;
    size_t count, next, running; /* by mutex, as is all below */
    size_t refs;                 /* the caller and tasks that have not come yet */
    size_t failed;               /* the part that err is of; count: none */
    lk_err err;
} job;

/* Under the mutex, which is let go of while a part runs. */
static void do_parts(job *self)
{
    while (self->next < self->count) {
        size_t index = self->next++;
        lk_err err = {0};
        self->running++;
        lk_mutex_unlock(&self->mutex);
        lk_rc rc = self->run(self->context, index, &err);
        lk_mutex_lock(&self->mutex);
        self->running--;
        if (rc != LK_OK && index < self->failed) {
            self->failed = index;
            self->err = err;
            self->next = self->count;
        }
    }
    if (self->running == 0) {
        lk_cond_signal(&self->done);
    }
}

/* Under the mutex, which it unlocks. */
static void leave(job *self)
{
    bool last = --self->refs == 0;
    lk_mutex_unlock(&self->mutex);
    if (last) {
        lk_cond_deinit(&self->done);
        lk_mutex_deinit(&self->mutex);
        free(self);
    }
}

static void help(void *context)
{
    job *self = context;
    lk_mutex_lock(&self->mutex);
    do_parts(self);
    leave(self);
}

static lk_rc one_by_one(
    size_t count, lk_rc (*run)(void *context, size_t index, lk_err *err), void *context, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t index = 0; rc == LK_OK && index < count; index++) {
        rc = run(context, index, err);
    }
    return rc;
}

/* As many helpers as there are other parts, if the pool takes them. */
static void call_for_help(job *self, lk_pool *pool)
{
    lk_err ignored = {0};
    size_t wanted = self->count - 1, threads = lk_pool_thread_count(pool);
    wanted = wanted < threads ? wanted : threads;
    for (size_t helper = 0; helper < wanted; helper++) {
        lk_mutex_lock(&self->mutex);
        self->refs++;
        lk_mutex_unlock(&self->mutex);
        if (lk_pool_submit(pool, help, self, &ignored) != LK_OK) {
            lk_mutex_lock(&self->mutex);
            self->refs--;
            lk_mutex_unlock(&self->mutex);
            return;
        }
    }
}

lk_rc lk_each(lk_pool *pool, size_t count, lk_rc (*run)(void *context, size_t index, lk_err *err),
    void *context, lk_err *err)
{
    if (pool == NULL || count < 2) {
        return one_by_one(count, run, context, err);
    }
    job *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    *self = (job){.run = run, .context = context, .count = count, .refs = 1, .failed = count};
    lk_mutex_init(&self->mutex, LK_RANK_POOL);
    lk_cond_init(&self->done);
    call_for_help(self, pool);
    lk_mutex_lock(&self->mutex);
    do_parts(self);
    while (self->running > 0) {
        lk_cond_wait(&self->done, &self->mutex);
    }
    lk_rc rc = LK_OK;
    if (self->failed < count) {
        *err = self->err;
        rc = self->err.rc;
    }
    leave(self);
    return rc;
}
