#ifndef LK_SQL_FILE_SINK_H
#define LK_SQL_FILE_SINK_H
/*
 * file_sink.h - batches as a Parquet file, written by an engine of its own in the caller's process. For client
 * commands, and for a rollout store's lists. Threads: confined.
 */
#include "arrow/batch.h"

/*
 * Writes all batches (borrowed) to a new file of this name, zstd-compressed, in their order; what fails leaves no file.
 * Types that Parquet's writer lacks are written as the nearest one it has (sql/carrier_priv.h: float16 as float,
 * durations as integers, fixed-size binary as binary); decimal256 is LK_E_INVALID_SCHEMA. Memory is bounded.
 * LK_E_IO, LK_E_STORE_FULL, LK_E_LIMIT.
 */
LK_MUST_CHECK lk_rc lk_sql_parquet_write(lk_batches *batches, const char *path, uint64_t *rows, lk_err *err);

#endif
