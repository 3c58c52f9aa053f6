#ifndef LK_SQL_FILE_SOURCE_H
#define LK_SQL_FILE_SOURCE_H
/*
 * file_source.h - Parquet, CSV and NDJSON files as batches, read by an engine of its own in the caller's process.
 *
 * For client commands that read the user's own files; a server never calls it. Threads: confined.
 */
#include "arrow/batch.h"

typedef enum lk_sql_file_kind { LK_SQL_FILE_PARQUET, LK_SQL_FILE_CSV, LK_SQL_FILE_NDJSON } lk_sql_file_kind;

typedef struct lk_sql_file_options {
    const char *null_text; /* CSV: also null, besides the empty field; NULL: none */
    bool text_only; /* CSV: every field utf8; NDJSON: every text utf8, also one that looks like a date */
} lk_sql_file_options;

/* CSV: commas (.tsv: tabs), RFC 4180 quotes; a header line names the columns; a quoted field is never null. NDJSON:
 * also one array of objects. Types are detected over the whole file unless text_only. A name that ends in .gz is
 * decompressed. Parquet has the types that Arrow's writers note in the file where its own can become them (fixed-size
 * lists, large texts). Else every field is nullable; rows come in the file's order. Memory is bounded.
 * LK_E_NOT_FOUND; LK_E_INVALID_REQUEST with the reader's reason as detail; LK_E_IO, LK_E_LIMIT. */
LK_MUST_CHECK lk_rc lk_sql_file_open(const char *path, lk_sql_file_kind kind,
    const lk_sql_file_options *options, lk_batches **out, lk_err *err);

#endif
