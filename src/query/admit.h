#ifndef LK_QUERY_ADMIT_H
#define LK_QUERY_ADMIT_H
/*
 * admit.h - how many statements run at once, in all and per tenant.
 *
 * A permit is taken before planning or streaming and held until the stream ends. Waiters queue in order of
 * arrival, each with one deadline for both gates; a tenant at its own limit never blocks another tenant.
 *
 * Invariant: running <= limit, and running of a tenant <= tenant_limit; every permit is given back once.
 * Threads: shared (one mutex of rank ADMISSION).
 */
#include "base/bytes.h"
#include "base/thread.h"

typedef struct lk_admission lk_admission;
typedef struct lk_permit    lk_permit;

enum { LK_ADMISSION_WAITERS_MAX = 1024 };

lk_admission *lk_admission_open(size_t limit, size_t tenant_limit, uint64_t queue_timeout_ms);
void          lk_admission_close(lk_admission *admission); /* no permit may be out; accepts NULL */

/* LK_E_QUERY_SLOTS or LK_E_TENANT_SLOTS when no slot came free in time, LK_E_CANCELLED, LK_E_SHUTTING_DOWN. */
LK_MUST_CHECK lk_rc lk_admission_take(
    lk_admission *admission, lk_bytes tenant, lk_cancel *cancel, lk_permit **out, lk_err *err);
void lk_permit_give(lk_permit *permit); /* accepts NULL */

void   lk_admission_stop(lk_admission *admission); /* waiters and newcomers get LK_E_SHUTTING_DOWN */
size_t lk_admission_running(lk_admission *admission);

#endif
