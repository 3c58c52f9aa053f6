#ifndef LK_SQL_RESULT_PRIV_H
#define LK_SQL_RESULT_PRIV_H
/* result_priv.h - a statement run by DuckDB, as a stream of batches; see result.c. */
#include "sql/instance_priv.h"

/* engine_sql is the rewritten text. Takes references of the instance and of what it needs from the
 * request. Its schema is complete when this returns and nothing has been read yet. */
LK_MUST_CHECK lk_rc lk_result_open(lk_instance *instance, const lk_sql_request *request,
    const char *engine_sql, lk_batches **out, lk_err *err);

#endif
