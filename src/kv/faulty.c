/* faulty.c - see faulty.h. */
#include "kv/faulty.h"

#include <stdlib.h>

struct faulty_kv {
    lk_kv          base;
    lk_kv         *under;
    lk_fault_plan *plan;
};

static lk_rc fail(lk_fault fault, const char *call, lk_bytes key, bool writes, lk_err *err)
{
    lk_rc rc = fault == LK_FAULT_FULL     ? LK_E_STORE_FULL
               : fault == LK_FAULT_DENIED ? LK_E_IO
                                          : LK_E_KV_UNAVAILABLE;
    bool  known = fault == LK_FAULT_FULL || fault == LK_FAULT_DENIED;
    rc = lk_fail(err, rc, "injected: %s %.*s meets fault %d", call, LK_FMT(key), (int)fault);
    err->maybe_applied = writes && !known;
    return rc;
}

static lk_rc faulty_get(lk_kv *kv, lk_bytes key, lk_arena *arena, lk_bytes *value, bool *found, lk_err *err)
{
    struct faulty_kv *self = (struct faulty_kv *)kv;
    lk_fault          fault = lk_fault_plan_next(self->plan, "get");
    if (fault != LK_FAULT_NONE) {
        return fail(fault, "get", key, false, err);
    }
    return lk_kv_get(self->under, key, arena, value, found, err);
}

static lk_rc faulty_write(lk_kv *kv, const lk_kv_write *write, bool *applied, lk_err *err)
{
    struct faulty_kv *self = (struct faulty_kv *)kv;
    lk_fault          fault = lk_fault_plan_next(self->plan, "write");
    if (fault == LK_FAULT_NONE) {
        return lk_kv_put(self->under, write, applied, err);
    }
    bool  unheard = false;
    lk_rc rc = fault == LK_FAULT_REPLY_LOST ? lk_kv_put(self->under, write, &unheard, err) : LK_OK;
    return rc == LK_OK ? fail(fault, "write", write->changes[0].key, true, err) : rc;
}

static lk_rc faulty_scan(lk_kv *kv, lk_bytes prefix, lk_bytes after, size_t limit, lk_arena *arena,
    lk_kv_item **items, size_t *count, lk_bytes *next, lk_err *err)
{
    struct faulty_kv *self = (struct faulty_kv *)kv;
    lk_fault          fault = lk_fault_plan_next(self->plan, "scan");
    if (fault != LK_FAULT_NONE) {
        return fail(fault, "scan", prefix, false, err);
    }
    return lk_kv_scan(self->under, prefix, after, limit, arena, items, count, next, err);
}

static void faulty_close(lk_kv *kv)
{
    lk_kv_close(((struct faulty_kv *)kv)->under);
    free(kv);
}

static const struct lk_kv_ops faulty_ops = {faulty_get, faulty_write, faulty_scan, faulty_close};

lk_kv *lk_kv_faulty_new(lk_kv *under, lk_fault_plan *plan)
{
    struct faulty_kv *self = calloc(1, sizeof *self);
    if (self == NULL) {
        abort();
    }
    *self = (struct faulty_kv){.base = {&faulty_ops}, .under = under, .plan = plan};
    return &self->base;
}
