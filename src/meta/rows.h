#ifndef LK_META_ROWS_H
#define LK_META_ROWS_H
/*
 * rows.h - the rows of one append, collected and checked before anything is written, and streamed to the
 * engine as often as it takes.
 *
 * Threads: confined to the append's caller.
 */
#include "arrow/batch.h"
#include "base/thread.h"

typedef struct lk_rows {
    struct ArrowSchema schema; /* the table's */
    lk_shared_array  **batches;
    size_t             count, capacity;
    uint64_t           row_count, bytes;
} lk_rows;

/*
 * Takes every batch of source. LK_E_SCHEMA_MISMATCH when its schema differs in names, order or types from
 * the table's or a null lies where the table has none; LK_E_INVALID_APPEND unless 1 .. LK_APPEND_ROWS_MAX
 * rows; LK_E_LIMIT beyond bytes_max. Use lk_rows_deinit also after an error.
 */
LK_MUST_CHECK lk_rc lk_rows_collect(lk_rows *rows, const struct ArrowSchema *table, lk_batches *source,
    uint64_t bytes_max, lk_cancel *cancel, lk_err *err);
void                lk_rows_deinit(lk_rows *rows); /* accepts zero */

/* A new stream over the same rows; borrows rows until it is closed. */
LK_MUST_CHECK lk_rc lk_rows_stream(lk_rows *rows, lk_batches **out, lk_err *err);

#endif
