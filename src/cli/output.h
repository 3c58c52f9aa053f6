#ifndef LK_CLI_OUTPUT_H
#define LK_CLI_OUTPUT_H
/*
 * output.h - a stream of batches on a file, in the format the user asked for.
 *
 * table: aligned columns, widths from the first LK_OUTPUT_MEASURED_ROWS rows, no control characters; a plan (EXPLAIN)
 * as it is drawn. json: one array of objects; ndjson: an object a line; csv: RFC 4180 with a header line, null as
 * nothing, an empty text quoted; arrow: an Arrow IPC stream. Threads: confined.
 */
#include "arrow/batch.h"

#include <stdio.h>

enum { LK_OUTPUT_MEASURED_ROWS = 1000, LK_OUTPUT_CELL_MAX = 120 };

typedef enum lk_output_format {
    LK_OUTPUT_TABLE,
    LK_OUTPUT_JSON,
    LK_OUTPUT_NDJSON,
    LK_OUTPUT_CSV,
    LK_OUTPUT_ARROW,
    LK_OUTPUT_ARROW_FILE /* the file format, for -o FILE; not a --format */
} lk_output_format;

/* NULL: table. LK_E_USAGE names the formats there are. */
LK_MUST_CHECK lk_rc lk_output_format_parse(const char *text, lk_output_format *out, lk_err *err);

/* Writes every batch of the stream (borrowed) to file. A closed pipe ends it quietly: LK_OK. */
LK_MUST_CHECK lk_rc lk_output_write(
    lk_batches *batches, lk_output_format format, FILE *file, uint64_t *row_count, lk_err *err);

#endif
