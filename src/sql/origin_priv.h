#ifndef LK_SQL_ORIGIN_PRIV_H
#define LK_SQL_ORIGIN_PRIV_H
/* origin_priv.h - output columns traced to table columns; see origin.c. Threads: stateless. */
#include "sql/statement_priv.h"

typedef struct lk_origin_column {
    bool     known; /* a plain reference to schemas[source]'s column */
    size_t   source, column;
    bool     nullable;
    lk_bytes qualifier, name;
} lk_origin_column;

typedef struct lk_origin_columns {
    lk_origin_column *items;
    size_t            count;
    bool              merged;
} lk_origin_columns;

/* The output columns of select, left to right; false when their number cannot be told from names. In the
 * arena. */
bool lk_origin_resolve(const lk_origin_select *select, const struct ArrowSchema *const *schemas,
    lk_arena *arena, lk_origin_columns *out);

#endif
