/* instance.c - see instance_priv.h. */
#include "sql/instance_priv.h"

#include <stdlib.h>

static lk_rc register_functions(duckdb_v2_connection_handle connection, void *context, lk_err *err)
{
    return lk_scan_register(connection, context, err);
}

lk_rc lk_instance_open(lk_instance **out, const lk_duck_options *options, lk_err *err)
{
    lk_instance *instance = calloc(1, sizeof *instance);
    LK_ASSERT(instance != NULL);
    atomic_init(&instance->refs, 1);
    lk_rc rc = lk_runs_open(&instance->runs, err);
    if (rc == LK_OK) {
        rc = lk_duck_open(&instance->duck, options, register_functions, instance->runs, err);
    }
    if (rc != LK_OK) {
        lk_instance_unref(instance);
        return rc;
    }
    *out = instance;
    return LK_OK;
}

lk_instance *lk_instance_ref(lk_instance *instance)
{
    (void)atomic_fetch_add_explicit(&instance->refs, 1, memory_order_relaxed);
    return instance;
}

void lk_instance_unref(lk_instance *instance)
{
    if (instance == NULL) {
        return;
    }
    unsigned before = atomic_fetch_sub_explicit(&instance->refs, 1, memory_order_release);
    LK_ASSERT(before > 0);
    if (before == 1) {
        atomic_thread_fence(memory_order_acquire);
        lk_runs_close(instance->runs);
        lk_duck_close(instance->duck);
        free(instance);
    }
}
