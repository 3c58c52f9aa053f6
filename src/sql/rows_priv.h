#ifndef LK_SQL_ROWS_PRIV_H
#define LK_SQL_ROWS_PRIV_H
/* rows_priv.h - rows by their names: the columns _rowid and _rowaddr, and the rows that win an ORDER BY ... LIMIT; see
 * rows.c. */
#include "sql/statement_priv.h"

enum { LK_TOP_ROWS_MAX = 10000 };

/* Sets statement->row_columns; then every star of the tree leaves them out. After the gate. */
void lk_rows_mark(lk_sql_statement *statement, json_t *node);

/* They stand behind a table's own columns, in this order: _rowid, _rowaddr. */
size_t      lk_row_column_count(void);
const char *lk_row_column_name(size_t index);

/* Whether the tree asks for the first rows of one table by plain columns, in plain columns: *shape is what it shows,
 * *narrow (owned) the tree that asks for their addresses alone. */
bool lk_rows_top(lk_arena *arena, const json_t *tree, lk_shape *shape, json_t **narrow);

#endif
