#ifndef LK_CLI_DESTINATION_H
#define LK_CLI_DESTINATION_H
/*
 * destination.h - where a command's rows go: a file of the kind that its ending says, or stdout in a format. A file appears
 * whole or not at all. Threads: confined to the main thread.
 */
#include "cli/cli.h"
#include "cli/output.h"

typedef struct lk_destination {
    const char      *path, *format_name; /* as the user gave them */
    lk_output_format format;             /* path == NULL */
    /* In place of lk_output_write, for rows with a text form of their own; NULL: that. */
    lk_rc (*write)(lk_batches *rows, lk_output_format format, FILE *file, uint64_t *count, lk_err *err);
} lk_destination;

/* clang-format off */
#define LK_DESTINATION_ARGS(to) \
    {"--format", LK_ARG_TEXT, &(to).format_name, "FORMAT", \
        "on stdout: table (default), json, ndjson, csv or arrow", false}, \
    {"--output", LK_ARG_TEXT, &(to).path, "FILE", \
        "write a file instead (-o FILE): .parquet, .csv, .json, .ndjson, else Arrow; - is --format arrow", false}
/* clang-format on */

/* Sets to->format, and to->path to NULL where it is stdout. LK_E_USAGE. */
LK_MUST_CHECK lk_rc lk_destination_check(lk_destination *to, lk_err *err);

/* Writes all rows (borrowed), and says on stderr how many. */
LK_MUST_CHECK lk_rc lk_destination_write(
    lk_batches *rows, const lk_destination *to, lk_arena *arena, lk_err *err);

#endif
