/* fault.c - see fault.h. */
#include "base/fault.h"

void lk_fault_plan_init(lk_fault_plan *plan)
{
    *plan = (lk_fault_plan){.calls_until = -1};
    lk_mutex_init(&plan->mutex, LK_RANK_LEAF);
}

void lk_fault_plan_deinit(lk_fault_plan *plan)
{
    lk_mutex_deinit(&plan->mutex);
}

void lk_fault_plan_arm(lk_fault_plan *plan, lk_fault kind, int64_t calls_until)
{
    lk_mutex_lock(&plan->mutex);
    plan->kind = kind;
    plan->calls_until = calls_until;
    plan->fired = false;
    lk_mutex_unlock(&plan->mutex);
}

void lk_fault_plan_chance(lk_fault_plan *plan, uint32_t per_mille, uint32_t kinds, uint64_t seed)
{
    LK_ASSERT(per_mille <= 1000 && kinds < 1u << LK_FAULT_COUNT && (per_mille == 0 || kinds != 0));
    lk_mutex_lock(&plan->mutex);
    plan->per_mille = per_mille;
    plan->kinds = kinds;
    lk_seeded_random_init(&plan->random, seed);
    lk_mutex_unlock(&plan->mutex);
}

void lk_fault_plan_hook(lk_fault_plan *plan, void (*before)(void *context, const char *call), void *context)
{
    lk_mutex_lock(&plan->mutex);
    plan->before = before;
    plan->context = context;
    lk_mutex_unlock(&plan->mutex);
}

static lk_fault draw(lk_fault_plan *plan)
{
    if (plan->per_mille == 0 || lk_random_below(&plan->random.base, 1000) >= plan->per_mille) {
        return LK_FAULT_NONE;
    }
    uint64_t skip = lk_random_below(&plan->random.base, (uint64_t)__builtin_popcount(plan->kinds));
    lk_fault kind = LK_FAULT_NONE;
    for (uint32_t left = plan->kinds; left != 0; left &= left - 1) {
        if (skip-- == 0) {
            kind = (lk_fault)__builtin_ctz(left);
        }
    }
    return kind;
}

lk_fault lk_fault_plan_next(lk_fault_plan *plan, const char *call)
{
    if (plan == NULL) {
        return LK_FAULT_NONE;
    }
    lk_mutex_lock(&plan->mutex);
    bool armed = plan->calls_until == 0;
    plan->calls++;
    plan->calls_until -= plan->calls_until >= 0;
    lk_fault kind = armed ? plan->kind : draw(plan);
    plan->fired = plan->fired || kind != LK_FAULT_NONE;
    void (*before)(void *, const char *) = plan->before;
    void *context = plan->context;
    lk_mutex_unlock(&plan->mutex);
    if (before != NULL) {
        before(context, call);
    }
    return kind;
}

bool lk_fault_plan_fired(lk_fault_plan *plan)
{
    lk_mutex_lock(&plan->mutex);
    bool fired = plan->fired;
    lk_mutex_unlock(&plan->mutex);
    return fired;
}

uint64_t lk_fault_plan_calls(lk_fault_plan *plan)
{
    lk_mutex_lock(&plan->mutex);
    uint64_t calls = plan->calls;
    lk_mutex_unlock(&plan->mutex);
    return calls;
}
