#ifndef LK_META_LOCAL_AUTHORITY_H
#define LK_META_LOCAL_AUTHORITY_H
/*
 * local_authority.h - lk_authority in process: who may ask, then the protocols of this room.
 *
 * Invariants:
 *   1. Names and grants are checked before anything is read or written. A name that may not be used answers
 *      LK_E_DENIED, whether or not there is such a table.
 *   2. The operation tenant is the principal's, never the request's.
 *   3. An append is checked (rows, schema) before it waits for its table, and waits for a slot first.
 *
 * Who may: admin anything; user and services what their grants say (lk_principal_may_use: a door that acts
 * for a delegated caller passes that caller's namespace and tenant as the principal). Besides, the service
 * roles may resolve any table and list all namespaces: a query replica fills its cache with that.
 *
 * Threads: shared.
 */
#include "meta/env.h"
#include "meta/recover.h"

typedef struct lk_local_authority {
    lk_authority       base; /* first */
    const lk_meta_env *env;
    lk_admit          *appends;  /* slots and bytes of appends */
    lk_admit          *ddl;      /* running creates and drops: only counted, so that close can wait */
    lk_recovery       *recovery; /* kicked after a drop; NULL in tests */
    uint64_t           append_wait_ms, append_bytes_max;
} lk_local_authority;

/* Fills *authority; everything is borrowed. close does nothing. */
void lk_local_authority_init(lk_local_authority *authority, const lk_meta_env *env, lk_admit *appends,
    lk_admit *ddl, lk_recovery *recovery, uint64_t append_wait_ms, uint64_t append_bytes_max);

#endif
