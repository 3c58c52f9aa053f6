#ifndef LK_SQL_LISTING_PRIV_H
#define LK_SQL_LISTING_PRIV_H
/*
 * listing_priv.h - information_schema and SHOW as small Arrow tables, made from the directory that the
 * request brings. Threads: stateless.
 */
#include "sql/statement_priv.h"

/* The rows of one listing source, in order of namespace and name. */
LK_MUST_CHECK lk_rc lk_listing_make(const lk_sql_source *source, const lk_sql_directory *directory,
    struct ArrowSchema *schema, struct ArrowArray *rows, lk_err *err);

#endif
