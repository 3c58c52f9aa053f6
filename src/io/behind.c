/* behind.c - see behind.h. A write is a task of the pool; where the pool is full, its caller makes it. */
#include "io/behind.h"

#include <stdlib.h>

typedef struct behind_store {
    lk_store            base;
    struct lk_store_ops ops; /* without what the store beneath cannot */
    lk_store           *under;
    lk_pool            *pool;
    lk_mutex            mutex;
    lk_cond             idle;
    size_t              running; /* guarded by mutex, as are the following */
    lk_rc               rc;      /* of the first that failed since the last sync */
    lk_err              err;
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
    lk_store *under = t->store->under;
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

static lk_store *beneath(lk_store *store)
{
    return ((behind_store *)store)->under;
}

static lk_store *settled(lk_store *store)
{
    lk_err forgotten = {0};
    lk_rc  rc = wait_for_all(store, &forgotten);
    (void)rc;
    return beneath(store);
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

typedef struct behind_writer {
    lk_store_writer  base;
    lk_store_writer *under;
} behind_writer;

static lk_rc behind_create(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    lk_store_writer *under = NULL;
    lk_rc            rc = lk_store_create(beneath(store), key, &under, err);
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

/* Its outcome counts: it is published at once, by the store beneath. */
static lk_rc behind_stage(lk_store *store, lk_bytes key, lk_bytes bytes, lk_store_staged **out, lk_err *err)
{
    return lk_store_stage(beneath(store), key, bytes, out, err);
}

/* -- reading and removing: the store beneath does it --------------------------------------------------------------- */

static lk_rc behind_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    return lk_store_open_object(beneath(store), key, out, size, err);
}

static lk_rc behind_fetch(
    lk_store *store, lk_store_wanted *wanted, size_t count, lk_arena *arena, lk_err *err)
{
    return lk_store_fetch(beneath(store), wanted, count, arena, err);
}

static lk_rc behind_list(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    return lk_store_list(beneath(store), directory, arena, entries, count, err);
}

static lk_rc behind_list_names(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    return lk_store_list_names(beneath(store), directory, arena, entries, count, err);
}

static lk_rc behind_list_first(lk_store *store, lk_bytes directory, size_t count_min, lk_arena *arena,
    lk_store_entry **entries, size_t *count, lk_err *err)
{
    return lk_store_list_first(beneath(store), directory, count_min, arena, entries, count, err);
}

static lk_rc behind_remove(lk_store *store, lk_bytes key, lk_err *err)
{
    return lk_store_remove(settled(store), key, err);
}

static lk_rc behind_remove_tree(lk_store *store, lk_bytes directory, lk_err *err)
{
    return lk_store_remove_tree(settled(store), directory, err);
}

static lk_rc behind_remove_many(lk_store *store, const lk_bytes *keys, size_t count, lk_err *err)
{
    return lk_store_remove_many(settled(store), keys, count, err);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static void behind_close(lk_store *store)
{
    behind_store *self = (behind_store *)store;
    (void)settled(store);
    lk_cond_deinit(&self->idle);
    lk_mutex_deinit(&self->mutex);
    free(self);
}

lk_store *lk_behind_store_new(lk_store *under, lk_pool *pool)
{
    behind_store *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->ops = (struct lk_store_ops){
        .open = behind_open, /* readers come from beneath, and so do their operations */
        .fetch = under->ops->fetch == NULL ? NULL : behind_fetch,
        .create = behind_create,
        .write = behind_write,
        .finish = behind_finish,
        .abandon = behind_abandon,
        .put_if_absent = behind_put,
        .list = behind_list,
        .list_names = behind_list_names,
        .list_first = under->ops->list_first == NULL ? NULL : behind_list_first,
        .sync = wait_for_all,
        .hint = behind_hint,
        .stage = behind_stage,
        .remove = behind_remove,
        .remove_tree = behind_remove_tree,
        .remove_many = behind_remove_many,
        .close = behind_close,
    };
    self->under = under;
    self->pool = pool;
    self->base = (lk_store){.ops = &self->ops, .uri = under->uri, .far = under->far};
    lk_mutex_init(&self->mutex, LK_RANK_IO);
    lk_cond_init(&self->idle);
    return &self->base;
}
