/* gate.c - see gate.h. Every call passes the gate; writers are wrapped, since they end long after they began. */
#include "io/gate.h"

#include <stdlib.h>

typedef struct gate_store {
    lk_wrap_store    wrap;
    lk_store_counts *counts;
    lk_mutex         mutex;
    lk_cond          left;
    size_t           inside; /* guarded by mutex, as is the following */
    bool             shut;
} gate_store;

/* What is open stays readable: reading it changes nothing. */
static bool passes(const lk_store_call *call)
{
    return call->verb == LK_STORE_VERB_READ;
}

/* How many operations on storage a call was. Steps of an object that is being written count at its end, or where they fail. */
static size_t weight(const lk_store_call *call, bool done)
{
    bool step = call->verb == LK_STORE_VERB_CREATE || call->verb == LK_STORE_VERB_WRITE ||
                call->verb == LK_STORE_VERB_STAGE || call->verb == LK_STORE_VERB_SYNC;
    bool many = call->verb == LK_STORE_VERB_FETCH || call->verb == LK_STORE_VERB_REMOVE_MANY;
    return many ? call->key_count : !step || !done;
}

static lk_rc enter(lk_wrap_store *wrap, lk_store_call *call, lk_err *err)
{
    gate_store *self = (gate_store *)wrap;
    if (passes(call)) {
        return LK_OK;
    }
    lk_mutex_lock(&self->mutex);
    bool shut = self->shut;
    self->inside += !shut;
    lk_mutex_unlock(&self->mutex);
    return shut ? lk_fail(err, LK_E_TABLE_NOT_FOUND, "%.*s was removed", LK_FMT(wrap->base.uri)) : LK_OK;
}

static lk_rc leave(lk_wrap_store *wrap, lk_store_call *call, lk_rc rc, lk_err *err)
{
    gate_store *self = (gate_store *)wrap;
    (void)err;
    if (self->counts != NULL) {
        lk_store_result result = rc == LK_OK            ? LK_STORE_DONE
                                 : rc == LK_E_NOT_FOUND ? LK_STORE_ABSENT
                                                        : LK_STORE_FAILED;
        atomic_fetch_add(
            &self->counts->calls[lk_store_verb_kind(call->verb)][result], weight(call, rc == LK_OK));
    }
    if (passes(call)) {
        return rc;
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
    *self = (gate_store){
        .wrap = {.readers = counts != NULL, .writers = true, .enter = enter, .leave = leave},
        .counts = counts,
    };
    lk_wrap_store_init(&self->wrap, store);
    self->wrap.ops.close = gate_close;
    lk_mutex_init(&self->mutex, LK_RANK_IO);
    lk_cond_init(&self->left);
    return &self->wrap.base;
}
