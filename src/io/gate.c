/* gate.c - see gate.h. Every call passes the gate; writers are wrapped, since they end long after they began. */
#include "io/gate.h"

#include <stdlib.h>

typedef struct gate_store {
    lk_store            base;
    struct lk_store_ops ops; /* without what the store beneath cannot */
    lk_store           *under;
    lk_store_counts    *counts;
    lk_mutex            mutex;
    lk_cond             left;
    size_t              inside; /* guarded by mutex, as is the following */
    bool                shut;
} gate_store;

typedef struct gate_writer {
    lk_store_writer  base;
    lk_store_writer *under;
} gate_writer;

/* -- the gate ---------------------------------------------------------------------------------------------------- */

static lk_rc enter(lk_store *store, lk_err *err)
{
    gate_store *self = (gate_store *)store;
    lk_mutex_lock(&self->mutex);
    bool shut = self->shut;
    self->inside += !shut;
    lk_mutex_unlock(&self->mutex);
    return shut ? lk_fail(err, LK_E_TABLE_NOT_FOUND, "%.*s was removed", LK_FMT(store->uri)) : LK_OK;
}

static lk_rc leave(lk_store *store, lk_store_kind kind, lk_rc rc)
{
    gate_store *self = (gate_store *)store;
    if (self->counts != NULL) {
        lk_store_result result = rc == LK_OK            ? LK_STORE_DONE
                                 : rc == LK_E_NOT_FOUND ? LK_STORE_ABSENT
                                                        : LK_STORE_FAILED;
        atomic_fetch_add(&self->counts->calls[kind][result], 1);
    }
    lk_mutex_lock(&self->mutex);
    self->inside--;
    if (self->shut && self->inside == 0) {
        lk_cond_broadcast(&self->left);
    }
    lk_mutex_unlock(&self->mutex);
    return rc;
}

void lk_gate_shut(lk_store *gate)
{
    gate_store *self = (gate_store *)gate;
    lk_mutex_lock(&self->mutex);
    self->shut = true;
    while (self->inside > 0) {
        lk_cond_wait(&self->left, &self->mutex);
    }
    lk_mutex_unlock(&self->mutex);
}

bool lk_gate_is_shut(lk_store *gate)
{
    gate_store *self = (gate_store *)gate;
    lk_mutex_lock(&self->mutex);
    bool shut = self->shut;
    lk_mutex_unlock(&self->mutex);
    return shut;
}

static lk_store *under(lk_store *store)
{
    return ((gate_store *)store)->under;
}

/* -- objects ------------------------------------------------------------------------------------------------------ */

static lk_rc gate_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    lk_rc rc = enter(store, err);
    return rc != LK_OK ? rc
                       : leave(store, LK_STORE_OPEN, lk_store_open_object(under(store), key, out, size, err));
}

static lk_rc gate_create(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    lk_store_writer *writer = NULL;
    lk_rc            rc = enter(store, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = leave(store, LK_STORE_WRITE, lk_store_create(under(store), key, &writer, err));
    if (rc == LK_OK) {
        gate_writer *wrapped = calloc(1, sizeof *wrapped);
        LK_ASSERT(wrapped != NULL);
        *wrapped = (gate_writer){.base = {.store = store}, .under = writer};
        *out = &wrapped->base;
    }
    return rc;
}

static lk_rc gate_write(lk_store_writer *writer, const void *data, size_t size, lk_err *err)
{
    lk_rc rc = enter(writer->store, err);
    return rc != LK_OK ? rc
                       : leave(writer->store, LK_STORE_WRITE,
                             lk_store_write(((gate_writer *)writer)->under, data, size, err));
}

static lk_rc gate_finish(lk_store_writer *writer, lk_err *err)
{
    gate_writer *self = (gate_writer *)writer;
    lk_rc        rc = enter(writer->store, err);
    if (rc == LK_OK) {
        rc = leave(writer->store, LK_STORE_WRITE, lk_store_finish(self->under, err));
    } else {
        lk_store_abandon(self->under);
    }
    free(self);
    return rc;
}

static void gate_abandon(lk_store_writer *writer)
{
    lk_store_abandon(((gate_writer *)writer)->under);
    free(writer);
}

static lk_rc gate_put(lk_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    lk_rc rc = enter(store, err);
    return rc != LK_OK
               ? rc
               : leave(store, LK_STORE_WRITE, lk_store_put_if_absent(under(store), key, bytes, created, err));
}

static lk_rc gate_alias(lk_store *store, lk_bytes from, lk_bytes to, bool *created, lk_err *err)
{
    lk_rc rc = enter(store, err);
    return rc != LK_OK
               ? rc
               : leave(store, LK_STORE_WRITE, under(store)->ops->alias(under(store), from, to, created, err));
}

static lk_rc gate_replace(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    lk_rc rc = enter(store, err);
    return rc != LK_OK ? rc : leave(store, LK_STORE_WRITE, lk_store_replace(under(store), key, bytes, err));
}

static lk_rc gate_hint(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    lk_rc rc = enter(store, err);
    if (rc == LK_OK) {
        lk_store_hint(under(store), key, bytes);
        rc = leave(store, LK_STORE_WRITE, LK_OK);
    }
    return rc;
}

typedef struct gate_staged {
    lk_store_staged  base;
    lk_store        *store;
    lk_store_staged *under;
} gate_staged;

static lk_rc gate_publish(lk_store_staged *staged, bool *created, lk_err *err)
{
    gate_staged *self = (gate_staged *)staged;
    lk_rc        rc = enter(self->store, err);
    if (rc == LK_OK) {
        rc = leave(self->store, LK_STORE_WRITE, lk_store_publish(self->under, created, err));
    } else {
        lk_store_discard(self->under);
    }
    free(self);
    return rc;
}

static void gate_discard(lk_store_staged *staged)
{
    lk_store_discard(((gate_staged *)staged)->under);
    free(staged);
}

static lk_rc gate_stage(lk_store *store, lk_bytes key, lk_bytes bytes, lk_store_staged **out, lk_err *err)
{
    lk_store_staged *staged = NULL;
    lk_rc            rc = enter(store, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = leave(store, LK_STORE_WRITE, lk_store_stage(under(store), key, bytes, &staged, err));
    if (rc == LK_OK) {
        gate_staged *wrapped = calloc(1, sizeof *wrapped);
        LK_ASSERT(wrapped != NULL);
        *wrapped = (gate_staged){{gate_publish, gate_discard}, store, staged};
        *out = &wrapped->base;
    }
    return rc;
}

static lk_rc gate_sync(lk_store *store, lk_err *err)
{
    lk_rc rc = enter(store, err);
    return rc != LK_OK ? rc : leave(store, LK_STORE_WRITE, lk_store_sync(under(store), err));
}

/* -- lists ---------------------------------------------------------------------------------------------------------- */

static lk_rc gate_list(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    lk_rc rc = enter(store, err);
    return rc != LK_OK ? rc
                       : leave(store, LK_STORE_LIST,
                             lk_store_list(under(store), directory, arena, entries, count, err));
}

static lk_rc gate_list_names(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    lk_rc rc = enter(store, err);
    return rc != LK_OK ? rc
                       : leave(store, LK_STORE_LIST,
                             lk_store_list_names(under(store), directory, arena, entries, count, err));
}

static lk_rc gate_list_first(lk_store *store, lk_bytes directory, size_t count_min, lk_arena *arena,
    lk_store_entry **entries, size_t *count, lk_err *err)
{
    lk_rc rc = enter(store, err);
    return rc != LK_OK
               ? rc
               : leave(store, LK_STORE_LIST,
                     lk_store_list_first(under(store), directory, count_min, arena, entries, count, err));
}

/* -- removing -------------------------------------------------------------------------------------------------------- */

static lk_rc gate_remove(lk_store *store, lk_bytes key, lk_err *err)
{
    lk_rc rc = enter(store, err);
    return rc != LK_OK ? rc : leave(store, LK_STORE_REMOVE, lk_store_remove(under(store), key, err));
}

static lk_rc gate_remove_tree(lk_store *store, lk_bytes directory, lk_err *err)
{
    lk_rc rc = enter(store, err);
    return rc != LK_OK ? rc
                       : leave(store, LK_STORE_REMOVE, lk_store_remove_tree(under(store), directory, err));
}

static lk_rc gate_remove_many(lk_store *store, const lk_bytes *keys, size_t count, lk_err *err)
{
    lk_rc rc = enter(store, err);
    return rc != LK_OK ? rc
                       : leave(store, LK_STORE_REMOVE, lk_store_remove_many(under(store), keys, count, err));
}

static lk_rc gate_remove_unfinished(lk_store *store, int64_t before_ms, size_t *count, lk_err *err)
{
    lk_rc rc = enter(store, err);
    return rc != LK_OK ? rc
                       : leave(store, LK_STORE_REMOVE,
                             lk_store_remove_unfinished(under(store), before_ms, count, err));
}

/* -- life ----------------------------------------------------------------------------------------------------------- */

static void gate_close(lk_store *store)
{
    gate_store *self = (gate_store *)store;
    LK_ASSERT(self->inside == 0);
    lk_cond_deinit(&self->left);
    lk_mutex_deinit(&self->mutex);
    free(self);
}

lk_store *lk_gate_store_new(lk_store *store, lk_store_counts *counts)
{
    gate_store *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->ops = (struct lk_store_ops){
        .open = gate_open, /* readers come from beneath, and so do their operations */
        .create = gate_create,
        .write = gate_write,
        .finish = gate_finish,
        .abandon = gate_abandon,
        .put_if_absent = gate_put,
        .list = gate_list,
        .list_names = gate_list_names,
        .list_first = store->ops->list_first == NULL ? NULL : gate_list_first,
        .sync = gate_sync,
        .alias = store->ops->alias == NULL ? NULL : gate_alias,
        .replace = store->ops->replace == NULL ? NULL : gate_replace,
        .hint = gate_hint,
        .stage = gate_stage,
        .remove = gate_remove,
        .remove_tree = gate_remove_tree,
        .remove_many = gate_remove_many,
        .remove_unfinished = gate_remove_unfinished,
        .close = gate_close,
    };
    self->under = store;
    self->counts = counts;
    self->base = (lk_store){.ops = &self->ops, .uri = store->uri, .far = store->far};
    lk_mutex_init(&self->mutex, LK_RANK_IO);
    lk_cond_init(&self->left);
    return &self->base;
}
