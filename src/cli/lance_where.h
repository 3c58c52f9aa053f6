#ifndef LK_CLI_LANCE_WHERE_H
#define LK_CLI_LANCE_WHERE_H
/*
 * lance_where.h - the rows of a dataset for which an SQL condition is true, by the SQL engine: everything that may
 * stand after WHERE in a statement, over the dataset's columns. Threads: confined.
 */
#include "base/config.h"
#include "lance/alter.h"

typedef struct lk_cli_where lk_cli_where;

/* Starts the engine. LK_E_USAGE for an empty condition; a wrong one fails when rows are chosen: LK_E_INVALID_SQL,
 * LK_E_PLANNING with the reason as detail. Borrows condition. */
LK_MUST_CHECK lk_rc lk_cli_where_open(
    const lk_config *config, const char *condition, lk_cli_where **out, lk_err *err);
void lk_cli_where_close(lk_cli_where *where); /* accepts NULL */

/* Borrowed; valid until close. */
const lk_row_selector *lk_cli_where_selector(const lk_cli_where *where);

#endif
