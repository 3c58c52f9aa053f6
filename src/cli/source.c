/* source.c - see source.h. */
#include "cli/source.h"

#include "arrow/ipc.h"
#include "sql/file_source.h"

static bool ends_with(lk_bytes text, const char *ending)
{
    lk_bytes e = lk_bytes_of(ending);
    return text.size >= e.size && strncasecmp(text.data + text.size - e.size, e.data, e.size) == 0;
}

static bool ends_with_any(lk_bytes text, const char *const *endings)
{
    bool found = false;
    for (size_t i = 0; endings[i] != NULL && !found; i++) {
        found = ends_with(text, endings[i]);
    }
    return found;
}

static bool is_arrow(lk_bytes path)
{
    static const char *const endings[] = {".arrow", ".feather", ".ipc", ".arrows", NULL};
    return lk_bytes_equal(path, LK_LITERAL("-")) || ends_with_any(path, endings);
}

static lk_rc kind_of(lk_bytes path, lk_sql_file_kind *out, lk_err *err)
{
    static const char *const csv[] = {".csv", ".tsv", ".csv.gz", ".tsv.gz", NULL};
    static const char *const json[] = {".ndjson", ".jsonl", ".json", ".ndjson.gz", ".jsonl.gz", NULL};
    if (ends_with(path, ".parquet")) {
        *out = LK_SQL_FILE_PARQUET;
    } else if (ends_with_any(path, csv)) {
        *out = LK_SQL_FILE_CSV;
    } else if (ends_with_any(path, json)) {
        *out = LK_SQL_FILE_NDJSON;
    } else {
        return lk_cli_usage(err,
            "cannot tell what kind of file %.100s is; it should end in .arrow, .parquet, .csv or .ndjson",
            path.data);
    }
    return LK_OK;
}

lk_rc lk_source_check(const char *path, lk_err *err)
{
    lk_sql_file_kind kind = LK_SQL_FILE_PARQUET;
    return is_arrow(lk_bytes_of(path)) ? LK_OK : kind_of(lk_bytes_of(path), &kind, err);
}

lk_rc lk_source_open(const char *path, const lk_source_options *options, lk_batches **out, lk_err *err)
{
    lk_sql_file_kind kind = LK_SQL_FILE_PARQUET;
    if (is_arrow(lk_bytes_of(path))) {
        const lk_ipc_options ipc = {.decode_dictionaries = !options->keep_dictionaries};
        lk_ipc_source       *source = NULL;
        lk_rc                rc = lk_ipc_source_file(path, &source, err);
        return rc != LK_OK ? rc : lk_ipc_open(source, &ipc, out, err);
    }
    lk_rc rc = kind_of(lk_bytes_of(path), &kind, err);
    if (rc == LK_OK) {
        const lk_sql_file_options sql = {.null_text = options->null_text, .text_only = options->text_only};
        rc = lk_sql_file_open(path, kind, &sql, out, err);
    }
    return rc;
}

lk_rc lk_source_schema(
    const char *path, const lk_source_options *options, struct ArrowSchema *out, lk_err *err)
{
    lk_batches             *batches = NULL;
    const lk_source_options typed = {.null_text = options->null_text};
    lk_rc                   rc = lk_source_open(path, &typed, &batches, err);
    if (rc == LK_OK) {
        lk_schema_move(&batches->schema, out);
        lk_batches_close(batches);
    }
    return rc;
}
