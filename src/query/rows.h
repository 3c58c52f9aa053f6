#ifndef LK_QUERY_ROWS_H
#define LK_QUERY_ROWS_H
/*
 * rows.h - small answers built row by row: a stream of batches over a function that appends one row.
 * Threads: confined.
 */
#include "arrow/batch.h"

enum { LK_ROWS_BATCH = 256 };

typedef struct lk_row_source {
    /* Appends one value to every child of batch and sets *more; *more = false appends nothing and ends it. */
    lk_rc (*next)(void *context, struct ArrowArray *batch, bool *more, lk_err *err);
    void (*close)(void *context); /* may be NULL */
    void *context;
} lk_row_source;

/* Takes *schema and the source. More than rows_max rows end in LK_E_DISCOVERY_ROWS after the last allowed one. */
lk_batches *lk_rows_open(struct ArrowSchema *schema, lk_row_source source, uint64_t rows_max);

/* A stream of no rows. Takes *schema. */
lk_batches *lk_rows_none(struct ArrowSchema *schema);

/* Columns by table: name, Arrow type, nullable. Builds a struct schema of them. */
typedef struct lk_row_column {
    const char    *name;
    enum ArrowType type;
    bool           nullable;
} lk_row_column;
void lk_rows_schema(const lk_row_column *columns, size_t count, struct ArrowSchema *out);

/* Append one value to a child; NULL data appends null. Memory failure aborts: these answers are small. */
void lk_row_text(struct ArrowArray *child, lk_bytes text);
void lk_row_int(struct ArrowArray *child, int64_t value);
void lk_row_null(struct ArrowArray *child);

#endif
