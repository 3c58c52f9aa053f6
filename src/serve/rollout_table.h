#ifndef LK_SERVE_ROLLOUT_TABLE_H
#define LK_SERVE_ROLLOUT_TABLE_H
/*
 * rollout_table.h - rows as Arrow batches of the table's own types: `role` is dictionary-encoded with 8-bit indices, what is never
 * null says so.
 * Threads: a stream is confined.
 */
#include "arrow/batch.h"

/* Takes rows, also when it fails. */
LK_MUST_CHECK lk_rc rollout_table_open(lk_batches *rows, lk_batches **out, lk_err *err);

#endif
