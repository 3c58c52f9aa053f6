/* faulty.c - see faulty.h. What a call meets is its note between enter and leave. */
#include "io/faulty.h"

#include "io/wrap.h"

#include <stdlib.h>

typedef struct faulty_store {
    lk_wrap_store  wrap;
    lk_fault_plan *plan;
} faulty_store;

static bool writes(const lk_store_call *call)
{
    lk_store_kind kind = lk_store_verb_kind(call->verb);
    return kind == LK_STORE_WRITE || kind == LK_STORE_REMOVE;
}

/* What the caller hears instead of the truth. */
static lk_rc fail(lk_fault fault, const lk_store_call *call, lk_err *err)
{
    lk_rc rc = fault == LK_FAULT_FULL                               ? LK_E_STORE_FULL
               : fault == LK_FAULT_DENIED || fault == LK_FAULT_TORN ? LK_E_IO
                                                                    : LK_E_STORE_UNAVAILABLE;
    rc = lk_fail(err, rc, "injected: %s meets fault %d", lk_store_verb_name(call->verb), (int)fault);
    err->maybe_applied = writes(call) && (fault == LK_FAULT_LOST || fault == LK_FAULT_REPLY_LOST);
    return rc;
}

/* What a crash in the middle of a put leaves: part of the bytes, under a temporary's name. */
static void tear(const faulty_store *self, lk_store_call *call)
{
    size_t directory = call->key.size;
    while (directory > 0 && call->key.data[directory - 1] != '/') {
        directory--;
    }
    call->bytes.size /= 2;
    if (call->verb != LK_STORE_VERB_WRITE) {
        call->key = lk_arena_format(&call->arena, "%.*s.tmp-torn-%llu", (int)directory, call->key.data,
            (unsigned long long)lk_fault_plan_calls(self->plan));
    }
}

static lk_rc enter(lk_wrap_store *wrap, lk_store_call *call, lk_err *err)
{
    const faulty_store *self = (const faulty_store *)wrap;
    lk_fault            fault = lk_fault_plan_next(self->plan, lk_store_verb_name(call->verb));
    bool                tears = call->verb == LK_STORE_VERB_WRITE || call->verb == LK_STORE_VERB_PUT ||
                 call->verb == LK_STORE_VERB_REPLACE;
    call->note = (uint64_t)fault;
    if (fault == LK_FAULT_TORN && tears) {
        tear(self, call);
        return LK_OK;
    }
    bool arrives = fault == LK_FAULT_NONE || (fault == LK_FAULT_REPLY_LOST && writes(call));
    return arrives ? LK_OK : fail(fault, call, err);
}

static lk_rc leave(lk_wrap_store *wrap, lk_store_call *call, lk_rc rc, lk_err *err)
{
    (void)wrap;
    return rc == LK_OK && call->note != LK_FAULT_NONE ? fail((lk_fault)call->note, call, err) : rc;
}

static void faulty_close(lk_store *store)
{
    lk_store_close(((faulty_store *)store)->wrap.under);
    free(store);
}

lk_store *lk_faulty_store_new(lk_store *under, lk_fault_plan *plan)
{
    faulty_store *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    *self = (faulty_store){
        .wrap = {.readers = true, .writers = true, .enter = enter, .leave = leave},
        .plan = plan,
    };
    lk_wrap_store_init(&self->wrap, under);
    /* Each of these is made of calls that meet faults one by one. */
    self->wrap.ops.fetch = NULL;
    self->wrap.ops.stage = NULL;
    self->wrap.ops.hint = NULL;
    self->wrap.ops.list_first = NULL;
    self->wrap.ops.remove_many = NULL;
    self->wrap.ops.close = faulty_close;
    return &self->wrap.base;
}
