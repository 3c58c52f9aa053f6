#ifndef LK_ENGINE_MEM_ROWS_H
#define LK_ENGINE_MEM_ROWS_H
/*
 * mem_rows.h - small made-up tables for tests and the simulator: columns id int64 (not nullable) and
 * name utf8 (nullable; null where id is a multiple of 3, else "n<id>").
 * Threads: confined.
 */
#include "arrow/batch.h"

void lk_mem_rows_schema(struct ArrowSchema *out);

/* A stream of batches of at most batch_rows rows: ids first, first + 1, ... */
lk_batches *lk_mem_rows_open(int64_t first, int64_t count, int64_t batch_rows);

/* Drains and closes a stream with such columns (id first): how many rows, and the sum of the ids. */
LK_MUST_CHECK lk_rc lk_mem_rows_sum(lk_batches *take, uint64_t *rows, int64_t *sum, lk_err *err);

#endif
