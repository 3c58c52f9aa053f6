#ifndef LK_SQL_SIMPLE_PRIV_H
#define LK_SQL_SIMPLE_PRIV_H
/* simple_priv.h - the statements that need no parser; see simple.c. Threads: stateless. */
#include "sql/statement_priv.h"

/* Fills an empty statement but for its tree and origin, as lk_statement_parse would; false (and nothing
 * meant) when the text is not of that narrow form. The text is the statement's own. */
bool lk_simple_parse(lk_sql_statement *statement);

#endif
