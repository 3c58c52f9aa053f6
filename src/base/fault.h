#ifndef LK_BASE_FAULT_H
#define LK_BASE_FAULT_H
/*
 * fault.h - a plan of failures that the faulty decorators (kv/faulty, io/faulty, ...) ask before each
 * outside call. One plan may serve several decorators, so "the n-th outside call" counts across them.
 *
 * Invariant: what a plan decides depends only on how it was armed and on the order of the calls.
 * Threads: shared; one mutex of rank LEAF.
 */
#include "base/rand.h"
#include "base/thread.h"

typedef enum lk_fault {
    LK_FAULT_NONE,
    LK_FAULT_LOST,       /* the request never arrives */
    LK_FAULT_REPLY_LOST, /* it is done, but nobody hears */
    LK_FAULT_TORN,       /* a write stops half-way */
    LK_FAULT_FULL,       /* no space is left */
    LK_FAULT_DENIED,     /* permission is refused */
    LK_FAULT_COUNT
} lk_fault;

typedef struct lk_fault_plan {
    lk_mutex         mutex;       /* guards all below */
    lk_fault         kind;        /* what the armed call meets */
    int64_t          calls_until; /* calls that pass before it; negative: not armed */
    uint32_t         per_mille;   /* chance of every call; 0: none */
    uint32_t         kinds;       /* bit set of lk_fault to draw from */
    lk_seeded_random random;
    uint64_t         calls;
    bool             fired;
    void (*before)(void *context, const char *call); /* may delay, yield or kill; no mutex is held */
    void *context;
} lk_fault_plan;

void lk_fault_plan_init(lk_fault_plan *plan); /* meets no fault */
void lk_fault_plan_deinit(lk_fault_plan *plan);

/* The call after calls_until others meets kind, once; negative disarms. Clears fired. */
void lk_fault_plan_arm(lk_fault_plan *plan, lk_fault kind, int64_t calls_until);
/* From now on each call meets one of kinds (bits 1u << LK_FAULT_X) with the chance per_mille / 1000. */
void lk_fault_plan_chance(lk_fault_plan *plan, uint32_t per_mille, uint32_t kinds, uint64_t seed);
/* before is called ahead of every call, e.g. to delay it. Set while no call is running. */
void lk_fault_plan_hook(lk_fault_plan *plan, void (*before)(void *context, const char *call), void *context);

lk_fault lk_fault_plan_next(lk_fault_plan *plan, const char *call); /* for decorators; NULL: no fault */
bool     lk_fault_plan_fired(lk_fault_plan *plan);
uint64_t lk_fault_plan_calls(lk_fault_plan *plan);

#endif
