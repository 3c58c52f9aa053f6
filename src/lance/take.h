#ifndef LK_LANCE_TAKE_H
#define LK_LANCE_TAKE_H
/*
 * take.h - chosen rows of one version, in the order they were asked for.
 *
 * Invariants:
 *   1. Only the chunks, entries and positions of the files that hold the rows are read; neighbouring ones in one
 *      read. A row that is asked for twice is read once and given twice.
 *   2. Memory is bounded whatever the count: rows are read in windows of so many as fit a few ten MiB.
 * Threads: the stream is confined to its reader; files are read on the dataset's pool.
 */
#include "lance/dataset.h"

typedef enum lk_take_by {
    LK_TAKE_ADDRESS, /* fragment << 32 | row offset; deleted rows are left out */
    LK_TAKE_ROW_ID, /* stable row ids where the table has them (ids that no row has are left out), else addresses */
    LK_TAKE_OFFSET /* position in the table's order, deleted rows not counted */
} lk_take_by;

typedef struct lk_take_rows {
    lk_take_by      by;
    const uint64_t *rows; /* any order, any number of times; borrowed for the call */
    size_t          count;
} lk_take_rows;

/*
 * Batches of those rows, in request order. Of the options only the projection (columns, meta,
 * no_columns), batch_rows (0: as many as a window holds) and cancel count. LK_E_INVALID_REQUEST names the row that
 * lies outside of the table.
 */
LK_MUST_CHECK lk_rc lk_dataset_take(lk_dataset *dataset, const lk_take_rows *rows,
    const lk_scan_options *options, lk_batches **out, lk_err *err);

#endif
