#ifndef LK_TEST_CRASH_STORE_H
#define LK_TEST_CRASH_STORE_H
/*
 * crash_store.h - an lk_store over a directory whose process kills itself (SIGKILL) before or after the n-th storage call of
 * a named step of the rollout store. Without a plan it changes nothing.
 * Threads: confined.
 */
#include "io/store.h"

#define CRASH_STEPS(X)                                     \
    X(create)   /* a new store: its table and its index */ \
    X(claim)    /* a shard's manifest with a new epoch */  \
    X(log)      /* a log entry */                          \
    X(files)    /* a generation's files */                 \
    X(sync)     /* of all that was written for a flush */  \
    X(manifest) /* the shard's manifest that lists them */ \
    X(hint)     /* the place to begin looking */           \
    X(m1)       /* a merge reads */                        \
    X(m2)       /* and writes data files of the table */   \
    X(m3)       /* and commits them */                     \
    X(m4)       /* and takes its generations off */        \
    X(m5)       /* their directories are removed */        \
    X(empty)    /* superseded manifests are emptied */     \
    X(compact)  /* small fragments become one */           \
    X(fold)     /* the newest of many do */

typedef enum crash_step {
#define X(name) CRASH_##name,
    CRASH_STEPS(X)
#undef X
        CRASH_STEP_COUNT
} crash_step;

typedef enum crash_phase {
    PHASE_NONE,
    PHASE_CREATE,
    PHASE_ADD,
    PHASE_MERGE,
    PHASE_COLLECT,
    PHASE_COMPACT,
    PHASE_FOLD
} crash_phase;

/* Of the process; shared by its stores. */
typedef struct crash_plan {
    crash_step  step;
    int64_t     calls_until; /* calls of the step that pass before; negative: none */
    bool        after;       /* the call is done first */
    crash_phase phase;       /* set by the caller as it goes on */
    uint64_t    epoch;       /* of the last manifest that was put */
} crash_plan;

const char *crash_step_name(crash_step step);

/* Borrows plan; takes under, closed with the result. */
lk_store *crash_store_new(lk_store *under, crash_plan *plan);

#endif
