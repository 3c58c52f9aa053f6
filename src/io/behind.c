/* behind.c - see behind.h. A write is a task of the pool; where the pool is full, its caller makes it. */
#include "io/behind.h"

#include "io/wrap.h"

#include <stdlib.h>

typedef struct behind_store {
    lk_wrap_store wrap;
    lk_pool      *pool;
    lk_mutex      mutex;
    lk_cond       idle;
    size_t        running; /* guarded by mutex, as are the following */
    lk_rc         rc;      /* of the first that failed since the last sync */
    lk_err        err;
} behind_store;

typedef enum task_kind { PUT, FINISH, HINT } task_kind;

typedef struct task {
    behind_store    *store;
    task_kind        kind;
    lk_store_writer *writer;
    lk_arena         arena;
    lk_bytes         key, bytes;
} task;

/* -- tasks --------------------------------------------------------------------------------------------------------- */

static lk_rc perform(task *t, lk_err *err)
{
    lk_store *under = t->store->wrap.under;
    bool      created = false;
    lk_rc     rc = LK_OK;
    switch (t->kind) {
    case PUT:
        rc = lk_store_put_if_absent(under, t->key, t->bytes, &created, err);
        return rc == LK_OK && !created ? lk_fail(err, LK_E_CONFLICT, "%.*s exists already", LK_FMT(t->key))
                                       : rc;
    case FINISH:
        return lk_store_finish(t->writer, err);
    case HINT:
        lk_store_hint(under, t->key, t->bytes);
        return LK_OK;
    }
    return rc;
}

static void run(void *context)
{
    task         *t = context;
    behind_store *self = t->store;
    lk_err        err = {0};
    lk_rc         rc = perform(t, &err);
    lk_arena_close(&t->arena);
    free(t);
    lk_mutex_lock(&self->mutex);
    if (rc != LK_OK && self->rc == LK_OK) {
        self->rc = rc;
        self->err = err;
    }
    if (--self->running == 0) {
        lk_cond_broadcast(&self->idle);
    }
    lk_mutex_unlock(&self->mutex);
}

static lk_rc begin(lk_store *store, task_kind kind, lk_store_writer *writer, lk_bytes key, lk_bytes bytes)
{
    behind_store *self = (behind_store *)store;
    task         *t = calloc(1, sizeof *t);
    lk_err        full = {0};
    LK_ASSERT(t != NULL);
    *t = (task){.store = self, .kind = kind, .writer = writer};
    t->key = lk_arena_copy(&t->arena, key);
    t->bytes = lk_arena_copy(&t->arena, bytes);
    lk_mutex_lock(&self->mutex);
    self->running++;
    lk_mutex_unlock(&self->mutex);
    if (lk_pool_submit(self->pool, run, t, &full) != LK_OK) {
        run(t);
    }
    return LK_OK;
}

static lk_rc wait_for_all(lk_store *store, lk_err *err)
{
    behind_store *self = (behind_store *)store;
    lk_mutex_lock(&self->mutex);
    while (self->running > 0) {
        lk_cond_wait(&self->idle, &self->mutex);
    }
    lk_rc rc = self->rc;
    if (rc != LK_OK) {
        *err = self->err;
    }
    self->rc = LK_OK;
    lk_mutex_unlock(&self->mutex);
    return rc;
}

static void settle(lk_store *store)
{
    lk_err forgotten = {0};
    lk_rc  rc = wait_for_all(store, &forgotten);
    (void)rc;
}

/* Everything but writes is the store beneath's to do, at once. */
static lk_rc enter(lk_wrap_store *wrap, lk_store_call *call, lk_err *err)
{
    (void)err;
    if (lk_store_verb_kind(call->verb) == LK_STORE_REMOVE) {
        settle(&wrap->base);
    }
    return LK_OK;
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

typedef struct behind_writer {
    lk_store_writer  base;
    lk_store_writer *under;
} behind_writer;

static lk_rc behind_create(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    lk_store_writer *under = NULL;
    lk_rc            rc = lk_store_create(((behind_store *)store)->wrap.under, key, &under, err);
    if (rc == LK_OK) {
        behind_writer *writer = calloc(1, sizeof *writer);
        LK_ASSERT(writer != NULL);
        *writer = (behind_writer){{store}, under};
        *out = &writer->base;
    }
    return rc;
}

static lk_rc behind_write(lk_store_writer *writer, const void *data, size_t size, lk_err *err)
{
    return lk_store_write(((behind_writer *)writer)->under, data, size, err);
}

static lk_rc behind_finish(lk_store_writer *writer, lk_err *err)
{
    lk_rc rc = begin(writer->store, FINISH, ((behind_writer *)writer)->under, (lk_bytes){0}, (lk_bytes){0});
    (void)err;
    free(writer);
    return rc;
}

static void behind_abandon(lk_store_writer *writer)
{
    lk_store_abandon(((behind_writer *)writer)->under);
    free(writer);
}

static lk_rc behind_put(lk_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    (void)err;
    *created = true;
    return begin(store, PUT, NULL, key, bytes);
}

static lk_rc behind_hint(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    (void)err;
    return begin(store, HINT, NULL, key, bytes);
}

/* Its outcome counts: the store beneath publishes it, even where that can no more than put. */
static lk_rc behind_stage(lk_store *store, lk_bytes key, lk_bytes bytes, lk_store_staged **out, lk_err *err)
{
    return lk_store_stage(((behind_store *)store)->wrap.under, key, bytes, out, err);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static void behind_close(lk_store *store)
{
    behind_store *self = (behind_store *)store;
    settle(store);
    lk_cond_deinit(&self->idle);
    lk_mutex_deinit(&self->mutex);
    free(self);
}

lk_store *lk_behind_store_new(lk_store *under, lk_pool *pool)
{
    behind_store *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->wrap.enter = enter;
    lk_wrap_store_init(&self->wrap, under);
    struct lk_store_ops *ops = &self->wrap.ops;
    ops->create = behind_create;
    ops->write = behind_write;
    ops->finish = behind_finish;
    ops->abandon = behind_abandon;
    ops->put_if_absent = behind_put;
    ops->hint = behind_hint;
    ops->stage = behind_stage;
    ops->sync = wait_for_all;
    ops->alias = NULL; /* these two would not find what is on its way */
    ops->replace = NULL;
    ops->remove_unfinished = NULL;
    ops->close = behind_close;
    self->pool = pool;
    lk_mutex_init(&self->mutex, LK_RANK_IO);
    lk_cond_init(&self->idle);
    return &self->wrap.base;
}
