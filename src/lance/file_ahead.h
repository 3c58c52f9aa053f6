#ifndef LK_LANCE_FILE_AHEAD_H
#define LK_LANCE_FILE_AHEAD_H
/*
 * file_ahead.h - bytes of data files in far stores, fetched in two goes before many columns ask for them one by one:
 * whole pages of which many rows are wanted, and the tables of others; then the chunks of their rows.
 *
 * Invariants:
 *   1. Only a hint: where memory is short, a range cannot be known yet or a read fails nothing is held, and who wants
 *      the bytes reads them, or gets the error.
 *   2. At most LK_AHEAD_BYTES_MAX are held by one, charged to the pool's budget until it is closed; half of that is
 *      left to those who decode.
 *
 * Threads: confined; what is held serves every reader of the file, by the file's mutex.
 */
#include "lance/file_read.h"

enum { LK_AHEAD_BYTES_MAX = 16 * 1024 * 1024 };

typedef struct lk_file_ahead lk_file_ahead;

/* What decoding these rows of the sources reads. *out may be NULL: nothing is held. */
void lk_file_ahead_open(const lk_field_source *sources, size_t count, const lk_row_range *ranges,
    size_t range_count, lk_buffer_pool *pool, lk_file_ahead **out);
void lk_file_ahead_close(lk_file_ahead *ahead); /* accepts NULL */

#endif
