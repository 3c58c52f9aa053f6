#ifndef LK_CLI_LANCE_SQL_H
#define LK_CLI_LANCE_SQL_H
/*
 * lance_sql.h - SQL over datasets that stand alone: one SELECT, whose tables lake.lance.NAME are datasets with one
 * column more, the last: _rowid, the row's address (fragment << 32 | row offset). Threads: confined.
 */
#include "base/config.h"
#include "lance/dataset.h"

typedef struct lk_cli_lance_sql lk_cli_lance_sql;

typedef struct lk_cli_lance_table {
    const char *name;
    lk_dataset *dataset;
} lk_cli_lance_table;

/* Starts the engine and makes a scratch directory. */
LK_MUST_CHECK lk_rc lk_cli_lance_sql_open(const lk_config *config, lk_cli_lance_sql **out, lk_err *err);
void                lk_cli_lance_sql_close(lk_cli_lance_sql *sql); /* accepts NULL */

/* A directory for whoever needs one as long as sql is open. */
const char *lk_cli_lance_sql_scratch(const lk_cli_lance_sql *sql);

/* Runs a statement that reads these tables, and no other, and gives `column_count` columns; texts of users that are
 * part of it may turn it into something else, which is LK_E_INVALID_SQL. */
LK_MUST_CHECK lk_rc lk_cli_lance_sql_run(lk_cli_lance_sql *sql, lk_bytes statement,
    const lk_cli_lance_table *tables, size_t table_count, size_t column_count, lk_batches **out, lk_err *err);

/* Runs a statement with one column, addresses of rows, and adds them. */
LK_MUST_CHECK lk_rc lk_cli_lance_sql_rows(lk_cli_lance_sql *sql, lk_bytes statement,
    const lk_cli_lance_table *tables, size_t table_count, struct lk_row_set *rows, lk_err *err);

/* Appends "name" with quotes. */
void lk_cli_lance_sql_name(lk_buf *out, lk_bytes name);

#endif
