#ifndef LK_SQL_INSTANCE_PRIV_H
#define LK_SQL_INSTANCE_PRIV_H
/*
 * instance_priv.h - DuckDB with its running statements, shared: results hold a reference, so that an
 * instance that an internal error made useless can be replaced while its last results are still open.
 * Threads: shared; immutable but for what duck and runs guard themselves.
 */
#include "sql/run_priv.h"

typedef struct lk_instance {
    atomic_uint refs;
    lk_duck    *duck;
    lk_runs    *runs;
} lk_instance;

LK_MUST_CHECK lk_rc lk_instance_open(lk_instance **out, const lk_duck_options *options, lk_err *err);
lk_instance        *lk_instance_ref(lk_instance *instance);
void                lk_instance_unref(lk_instance *instance); /* accepts NULL */

/* The present instance of an lk_sql, for tests that break it. Borrowed. */
lk_instance *lk_sql_instance(lk_sql *sql);

#endif
