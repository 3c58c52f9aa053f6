#ifndef LK_CLI_SOURCE_H
#define LK_CLI_SOURCE_H
/*
 * source.h - files a user hands us, as batches: Arrow IPC by arrow/ipc; Parquet, CSV and NDJSON by the SQL engine in
 * this process. The kind goes by the name's ending: .arrow .feather .ipc .arrows - | .parquet | .csv .tsv |
 * .ndjson .jsonl .json, each of the text forms also with .gz. Threads: confined.
 */
#include "arrow/batch.h"
#include "cli/cli.h"

typedef struct lk_source_options {
    const char *null_text;  /* CSV: what stands for null besides nothing; NULL: only nothing */
    bool keep_dictionaries; /* Arrow: dictionary-encoded columns stay so, else they come as plain values */
    bool text_only;         /* CSV: every column as utf8, for a checked cast to a table's types */
} lk_source_options;

/* Whether the name says what kind of file it is; LK_E_USAGE. The file is not looked at. */
LK_MUST_CHECK lk_rc lk_source_check(const char *path, lk_err *err);

LK_MUST_CHECK lk_rc lk_source_open(
    const char *path, const lk_source_options *options, lk_batches **out, lk_err *err);

/* The schema a table made from this file would have: the file's own; CSV and JSON by inspection, all nullable. */
LK_MUST_CHECK lk_rc lk_source_schema(
    const char *path, const lk_source_options *options, struct ArrowSchema *out, lk_err *err);

#endif
