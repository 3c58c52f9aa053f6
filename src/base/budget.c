/* budget.c - see budget.h. A take charges the leaf first and walks up; a refusal undoes what it charged. */
#include "base/budget.h"

void lk_budget_init(lk_budget *budget, const char *name, size_t limit_bytes, lk_budget *parent)
{
    budget->parent = parent;
    budget->name = name;
    atomic_init(&budget->limit_bytes, limit_bytes);
    atomic_init(&budget->used_bytes, 0);
    atomic_init(&budget->peak_bytes, 0);
}

void lk_budget_set_limit(lk_budget *budget, size_t limit_bytes)
{
    atomic_store(&budget->limit_bytes, limit_bytes);
}

static bool charge(lk_budget *budget, size_t size)
{
    size_t used = atomic_load_explicit(&budget->used_bytes, memory_order_relaxed);
    size_t limit = atomic_load_explicit(&budget->limit_bytes, memory_order_relaxed);
    do {
        if (used > limit || size > limit - used) { /* above it: it was lowered */
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &budget->used_bytes, &used, used + size, memory_order_relaxed, memory_order_relaxed));
    size_t peak = atomic_load_explicit(&budget->peak_bytes, memory_order_relaxed);
    while (peak < used + size && !atomic_compare_exchange_weak_explicit(&budget->peak_bytes, &peak,
                                     used + size, memory_order_relaxed, memory_order_relaxed)) {}
    return true;
}

static void discharge(lk_budget *budget, size_t size)
{
    size_t before = atomic_fetch_sub_explicit(&budget->used_bytes, size, memory_order_relaxed);
    LK_ASSERT(before >= size);
}

lk_rc lk_budget_take(lk_budget *budget, size_t size, lk_err *err)
{
    for (lk_budget *b = budget; b != NULL; b = b->parent) {
        if (!charge(b, size)) {
            for (lk_budget *undo = budget; undo != b; undo = undo->parent) {
                discharge(undo, size);
            }
            return lk_fail(err, LK_E_LIMIT, "budget %s: %zu bytes beside %zu of %zu", b->name, size,
                atomic_load_explicit(&b->used_bytes, memory_order_relaxed),
                atomic_load_explicit(&b->limit_bytes, memory_order_relaxed));
        }
    }
    return LK_OK;
}

void lk_budget_give(lk_budget *budget, size_t size)
{
    for (lk_budget *b = budget; b != NULL; b = b->parent) {
        discharge(b, size);
    }
}
