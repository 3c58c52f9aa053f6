/* admit.c - see admit.h. Tenants with a running or waiting statement have an entry; others have none. */
#include "query/admit.h"

#include "base/clock.h"

#include <stdlib.h>

typedef struct tenant {
    struct tenant *next;
    size_t         running, waiting;
    size_t         name_size;
    char           name[];
} tenant;

struct lk_permit {
    lk_admission *admission;
    tenant       *tenant;
};

typedef struct waiter {
    struct waiter *next;
    tenant        *tenant;
    bool           granted;
} waiter;

struct lk_admission {
    lk_mutex mutex; /* guards everything below */
    lk_cond  changed;
    size_t   limit, tenant_limit, running, waiting;
    uint64_t queue_timeout_ms;
    tenant  *tenants;
    waiter  *first, **last;
    bool     stopping;
};

lk_admission *lk_admission_open(size_t limit, size_t tenant_limit, uint64_t queue_timeout_ms)
{
    lk_admission *a = calloc(1, sizeof *a);
    LK_ASSERT(a != NULL);
    lk_mutex_init(&a->mutex, LK_RANK_ADMISSION);
    lk_cond_init(&a->changed);
    a->limit = limit;
    a->tenant_limit = tenant_limit < limit ? tenant_limit : limit;
    a->queue_timeout_ms = queue_timeout_ms;
    a->last = &a->first;
    return a;
}

void lk_admission_close(lk_admission *a)
{
    if (a != NULL) {
        LK_ASSERT(a->running == 0 && a->first == NULL);
        lk_cond_deinit(&a->changed);
        lk_mutex_deinit(&a->mutex);
        free(a);
    }
}

static tenant *tenant_of(lk_admission *a, lk_bytes name)
{
    for (tenant *t = a->tenants; t != NULL; t = t->next) {
        if (lk_bytes_equal((lk_bytes){t->name, t->name_size}, name)) {
            return t;
        }
    }
    tenant *t = calloc(1, sizeof *t + name.size);
    LK_ASSERT(t != NULL);
    t->name_size = name.size;
    memcpy(t->name, name.data, name.size);
    t->next = a->tenants;
    a->tenants = t;
    return t;
}

static void forget_idle(lk_admission *a, tenant *idle)
{
    if (idle->running > 0 || idle->waiting > 0) {
        return;
    }
    tenant **at = &a->tenants;
    while (*at != idle) {
        at = &(*at)->next;
    }
    *at = idle->next;
    free(idle);
}

/* Grants in order of arrival, passing over tenants that are full. */
static void grant(lk_admission *a)
{
    for (waiter *w = a->first; w != NULL && a->running < a->limit; w = w->next) {
        if (!w->granted && w->tenant->running < a->tenant_limit) {
            w->granted = true;
            w->tenant->running++;
            a->running++;
        }
    }
    lk_cond_broadcast(&a->changed);
}

static void leave_queue(lk_admission *a, waiter *leaving)
{
    waiter **at = &a->first;
    while (*at != leaving) {
        at = &(*at)->next;
    }
    *at = leaving->next;
    if (a->last == &leaving->next) {
        a->last = at;
    }
    leaving->tenant->waiting--;
    a->waiting--;
}

static lk_rc wait_for_grant(lk_admission *a, waiter *w, lk_cancel *cancel, lk_err *err)
{
    enum { CANCEL_POLL_MS = 50 };
    uint64_t now = lk_clock_monotonic_ms(lk_clock_real());
    uint64_t deadline = now + a->queue_timeout_ms;
    lk_rc    rc = LK_OK;
    while (!w->granted && rc == LK_OK) {
        now = lk_clock_monotonic_ms(lk_clock_real());
        rc = lk_cancel_check(cancel, err);
        if (rc == LK_OK && a->stopping) {
            rc = lk_fail(err, LK_E_SHUTTING_DOWN, "no new statements");
        } else if (rc == LK_OK && now >= deadline) {
            bool tenant_full = w->tenant->running >= a->tenant_limit && a->running < a->limit;
            rc = lk_fail(err, tenant_full ? LK_E_TENANT_SLOTS : LK_E_QUERY_SLOTS, "waited %llu ms",
                (unsigned long long)a->queue_timeout_ms);
        } else if (rc == LK_OK) {
            uint64_t until = now + CANCEL_POLL_MS < deadline ? now + CANCEL_POLL_MS : deadline;
            (void)lk_cond_wait_until(&a->changed, &a->mutex, until);
        }
    }
    return rc;
}

lk_rc lk_admission_take(lk_admission *a, lk_bytes name, lk_cancel *cancel, lk_permit **out, lk_err *err)
{
    lk_permit *permit = calloc(1, sizeof *permit);
    LK_ASSERT(permit != NULL);
    lk_mutex_lock(&a->mutex);
    lk_rc rc = LK_OK;
    if (a->stopping) {
        rc = lk_fail(err, LK_E_SHUTTING_DOWN, "no new statements");
    } else if (a->waiting >= LK_ADMISSION_WAITERS_MAX) {
        rc = lk_fail(err, LK_E_QUERY_SLOTS, "%d statements wait already", LK_ADMISSION_WAITERS_MAX);
    } else {
        tenant *t = tenant_of(a, name);
        waiter  w = {.tenant = t};
        *a->last = &w;
        a->last = &w.next;
        t->waiting++;
        a->waiting++;
        grant(a);
        rc = wait_for_grant(a, &w, cancel, err);
        leave_queue(a, &w);
        permit->admission = a;
        permit->tenant = t;
        if (rc != LK_OK) {
            forget_idle(a, t);
        }
    }
    lk_mutex_unlock(&a->mutex);
    if (rc != LK_OK) {
        free(permit);
        return rc;
    }
    *out = permit;
    return LK_OK;
}

void lk_permit_give(lk_permit *permit)
{
    if (permit == NULL) {
        return;
    }
    lk_admission *a = permit->admission;
    lk_mutex_lock(&a->mutex);
    LK_ASSERT(a->running > 0 && permit->tenant->running > 0);
    a->running--;
    permit->tenant->running--;
    forget_idle(a, permit->tenant);
    grant(a);
    lk_mutex_unlock(&a->mutex);
    free(permit);
}

void lk_admission_stop(lk_admission *a)
{
    lk_mutex_lock(&a->mutex);
    a->stopping = true;
    lk_cond_broadcast(&a->changed);
    lk_mutex_unlock(&a->mutex);
}

size_t lk_admission_running(lk_admission *a)
{
    lk_mutex_lock(&a->mutex);
    size_t running = a->running;
    lk_mutex_unlock(&a->mutex);
    return running;
}
