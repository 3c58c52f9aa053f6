#ifndef LK_SQL_LITERAL_PRIV_H
#define LK_SQL_LITERAL_PRIV_H
/*
 * literal_priv.h - a literal of the text as a value of a column's type, where comparing the two means the
 * same to DuckDB whatever common type it picks. Threads: stateless.
 */
#include "sql/statement_priv.h"

/* False: leave the comparison to DuckDB (out of range, inexact, or a pair of types with rules of its own).
 * out borrows from the literal. */
bool lk_literal_value(const lk_literal *literal, const struct ArrowSchema *field, lk_value *out);

#endif
