#ifndef LK_BASE_BUDGET_H
#define LK_BASE_BUDGET_H
/*
 * budget.h - counted memory that may be refused: everything sized by a file, a peer or a user.
 *
 * Invariant: used_bytes exceeds limit_bytes only after that was lowered; every take is given back exactly once.
 * Threads: shared; the counter is atomic. A child charges its parent as well.
 */
#include "base/err.h"

#include <stdatomic.h>
#include <stddef.h>

typedef struct lk_budget {
    struct lk_budget *parent; /* NULL for a root */
    const char       *name;   /* for the error's context */
    atomic_size_t     limit_bytes, used_bytes, peak_bytes;
} lk_budget;

void lk_budget_init(lk_budget *budget, const char *name, size_t limit_bytes, lk_budget *parent);
/* Another limit for what is taken from now on; what was taken above it stays. */
void lk_budget_set_limit(lk_budget *budget, size_t limit_bytes);

/* Charges size. LK_E_LIMIT when the budget (or an ancestor) has no room; nothing is charged then. */
LK_MUST_CHECK lk_rc lk_budget_take(lk_budget *budget, size_t size, lk_err *err);
void                lk_budget_give(lk_budget *budget, size_t size);

#endif
