#ifndef LK_SQL_PARSE_PRIV_H
#define LK_SQL_PARSE_PRIV_H
/* parse_priv.h - texts to statements and back to text; see statement.c. Threads: shared. */
#include "sql/duck_priv.h"
#include "sql/statement_priv.h"

/* The errors of lk_sql_parse, but LK_E_SQL_TOO_LARGE. */
LK_MUST_CHECK lk_rc lk_statement_parse(lk_duck *duck, lk_bytes text, lk_sql_statement **out, lk_err *err);

/* The statement of a text that needs no parser (simple.c), or NULL. */
lk_sql_statement *lk_statement_simple(lk_bytes text);

/* The statement with its tree: itself, or what the parser makes of its text; borrowed from the statement. */
LK_MUST_CHECK lk_rc lk_statement_parsed(
    lk_duck *duck, lk_sql_statement *statement, lk_sql_statement **out, lk_err *err);

/* The text DuckDB runs, made on first use; borrowed from the statement. */
LK_MUST_CHECK lk_rc lk_statement_engine_sql(
    lk_duck *duck, lk_sql_statement *statement, const char **out, lk_err *err);

#endif
