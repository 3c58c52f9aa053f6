#ifndef LK_META_ENV_H
#define LK_META_ENV_H
/*
 * env.h - what the protocols of the authority work with; built once by meta.c, or by a test.
 * Threads: immutable once built; everything in it is shared.
 */
#include "base/rand.h"
#include "catalog/registry.h"
#include "engine/engine.h"
#include "meta/admit.h"
#include "meta/fence.h"

typedef struct lk_meta_env { /* all borrowed */
    lk_kv          *kv;
    lk_engine      *engine;
    lk_clock       *clock;
    lk_random      *random;
    lk_fence        fence;
    lk_table_locks *locks;
    lk_bytes        tables_root;
    uint64_t        lock_wait_ms;   /* how long a write waits for its table */
    uint64_t        retention_secs; /* of operation records */
    /* Tests only: called before each step of append, create and drop; NULL otherwise. */
    void (*crash_point)(const char *step, void *context);
    void *crash_context;
} lk_meta_env;

static inline void lk_crash_point(const lk_meta_env *env, const char *step)
{
    if (env->crash_point != NULL) {
        env->crash_point(step, env->crash_context);
    }
}

static inline uint64_t lk_now_secs(const lk_meta_env *env)
{
    return lk_clock_wall_ms(env->clock) / 1000;
}

#endif
