/*
 * file_source.c - see file_source.h. The engine is sandboxed like a server's, with one hole: the file's descriptor,
 * which is opened here. So no character of the path is a pattern, and no second file can be named.
 *
 * A text file is read twice: once whole to know its columns (lk's callers want the type that every row has, not that
 * of a sample), once for its rows. Threads: confined to the reader; DuckDB's own threads feed it.
 */
#include "sql/file_source.h"

#include "arrow/cast.h"
#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "base/hash.h"
#include "base/limits.h"
#include "sql/duck_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct file_source {
    lk_batches                    base;
    int                           file;
    lk_duck                      *duck;
    duckdb_v2_connection_handle   connection;
    duckdb_v2_arrow_result_handle rows;
    struct ArrowSchema read; /* Parquet: what the engine gives, when the file says more of its types */
    int64_t            row_count;
    bool               done;
} file_source;

/* -- errors ---------------------------------------------------------------------------------------- */

/* How much of text, at a blank, is our descriptor's name in quotes; 0 when it is something else. */
static size_t own_name_size(lk_bytes text)
{
    static const char start[] = "/proc/self/fd/";
    if (text.size < sizeof start + 2 || (text.data[1] != '"' && text.data[1] != '\'') ||
        memcmp(text.data + 2, start, sizeof start - 1) != 0) {
        return 0;
    }
    const char *end = memchr(text.data + sizeof start, text.data[1], text.size - sizeof start);
    return end == NULL ? 0 : (size_t)(end - text.data) + 1;
}

/* DuckDB's message without its advice, its list of options and our descriptor's name, in one line. */
static void shorten(lk_bytes text, lk_buf *out)
{
    static const char *const ends[] = {"\nPossible ", "\n\n", "\n  file ="};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const char *end = memmem(text.data, text.size, ends[i], strlen(ends[i]));
        text.size = end == NULL ? text.size : (size_t)(end - text.data);
    }
    for (size_t i = 0; i < text.size && out->size < LK_ERR_DETAIL_BYTES;) {
        size_t own = text.data[i] == ' ' ? own_name_size((lk_bytes){text.data + i, text.size - i}) : 0;
        if (own == 0) {
            bool plain = (unsigned char)text.data[i] >= ' ';
            lk_buf_append(out,
                plain                  ? text.data + i
                : text.data[i] == '\n' ? "; "
                                       : " ",
                text.data[i] == '\n' ? 2 : 1);
        }
        i += own > 0 ? own : 1;
    }
}

/* What is wrong is the file unless memory or the disk failed. Destroys *info. */
static lk_rc refuse(lk_err *err, DUCKDB_V2_ERROR code, duckdb_v2_error_info_handle *info)
{
    duckdb_v2_str text = {0};
    lk_buf        reason = {0};
    if (*info != NULL) {
        (void)duckdb_v2_error_info_get_code(*info, &code);
        if (duckdb_v2_error_info_get_raw_text(*info, &text) != DUCKDB_V2_ERROR_NONE) {
            text = (duckdb_v2_str){0};
        }
    }
    if (text.len > 0 && memmem(text.ptr, text.len, "when sniffing file", 18) != NULL) {
        lk_buf_append_text(
            &reason, "not every line has as many fields as the first, or a quote is not closed");
    } else {
        shorten(text.len == 0 ? LK_LITERAL("the file cannot be read") : lk_duck_bytes(text), &reason);
    }
    bool memory = code == DUCKDB_V2_ERROR_RESOURCE_OUT_OF_MEMORY,
         io = code == DUCKDB_V2_ERROR_IO_READ_FAILURE;
    lk_rc rc = lk_refuse(err,
        memory ? LK_E_LIMIT
        : io   ? LK_E_IO
               : LK_E_INVALID_REQUEST,
        "%.*s", LK_FMT(lk_buf_view(&reason)));
    lk_buf_deinit(&reason);
    if (*info != NULL) {
        (void)duckdb_v2_error_info_destroy(info);
    }
    return rc;
}

/* -- statements ------------------------------------------------------------------------------------ */

static bool ends_with(const char *path, const char *ending)
{
    size_t size = strlen(path), ending_size = strlen(ending);
    return size >= ending_size && strcasecmp(path + size - ending_size, ending) == 0;
}

static void append_quoted(lk_buf *out, lk_bytes text, char quote)
{
    lk_buf_append(out, &quote, 1);
    for (size_t i = 0; i < text.size; i++) {
        lk_buf_append(out, &quote, text.data[i] == quote ? 1 : 0);
        lk_buf_append(out, text.data + i, 1);
    }
    lk_buf_append(out, &quote, 1);
}

/* A quoted field is text, never null: that is how an empty text and an absent value differ. Everything that a
 * reader could guess but the types is set. */
static void csv_statement(const char *path, int file, const lk_sql_file_options *options, lk_buf *out)
{
    bool tabs = ends_with(path, ".tsv") || ends_with(path, ".tsv.gz");
    lk_buf_format(out,
        "FROM read_csv('/proc/self/fd/%d', header = true, delim = '%s', quote = '\"', escape = '\"', comment "
        "= '', "
        "skip = 0, encoding = 'utf-8', strict_mode = true, hive_partitioning = false, compression = '%s', "
        "allow_quoted_nulls = false, %s, nullstr = [''",
        file, tabs ? "\t" : ",", ends_with(path, ".gz") ? "gzip" : "none",
        options->text_only ? "all_varchar = true" : "sample_size = -1");
    if (options->null_text != NULL) {
        lk_buf_append_text(out, ", ");
        append_quoted(out, lk_bytes_of(options->null_text), '\'');
    }
    lk_buf_append_text(out, "])");
}

/* The DuckDB type of a detected JSON column, with every text as it stands in the file: detection would read dates,
 * times and UUIDs into values that are written differently. */
static void append_type(const struct ArrowSchema *field, lk_buf *out)
{
    struct ArrowSchemaView view;
    if (ArrowSchemaViewInit(&view, field, NULL) != NANOARROW_OK) {
        view.type = NANOARROW_TYPE_STRING;
    }
    switch ((int)view.type) {
    case NANOARROW_TYPE_BOOL:
        lk_buf_append_text(out, "BOOLEAN");
        return;
    case NANOARROW_TYPE_INT64:
        lk_buf_append_text(out, "BIGINT");
        return;
    case NANOARROW_TYPE_UINT64:
        lk_buf_append_text(out, "UBIGINT");
        return;
    case NANOARROW_TYPE_DECIMAL128:
        lk_buf_append_text(out, "HUGEINT");
        return;
    case NANOARROW_TYPE_DOUBLE:
        lk_buf_append_text(out, "DOUBLE");
        return;
    case NANOARROW_TYPE_LIST:
        append_type(field->children[0], out);
        lk_buf_append_text(out, "[]");
        return;
    case NANOARROW_TYPE_STRUCT:
        for (int64_t i = 0; i < field->n_children; i++) {
            lk_buf_append_text(out, i == 0 ? "STRUCT(" : ", ");
            append_quoted(out, lk_bytes_of(field->children[i]->name), '"');
            lk_buf_append_text(out, " ");
            append_type(field->children[i], out);
        }
        lk_buf_append_text(out, ")");
        return;
    case NANOARROW_TYPE_MAP:
        lk_buf_append_text(out, "MAP(VARCHAR, ");
        append_type(field->children[0]->children[1], out);
        lk_buf_append_text(out, ")");
        return;
    default:
        lk_buf_append_text(out, "VARCHAR");
        return;
    }
}

/* columns: NULL detects them. */
static void json_statement(const char *path, int file, const struct ArrowSchema *columns, lk_buf *out)
{
    lk_buf_format(out,
        "FROM read_json('/proc/self/fd/%d', hive_partitioning = false, compression = '%s', "
        "maximum_object_size = %d, map_inference_threshold = -1, ",
        file, ends_with(path, ".gz") ? "gzip" : "none", LK_FILE_SOURCE_JSON_BYTES_MAX);
    if (columns == NULL) {
        lk_buf_append_text(out, "sample_size = -1, maximum_depth = -1)");
        return;
    }
    for (int64_t i = 0; i < columns->n_children; i++) {
        lk_buf type = {0};
        lk_buf_append_text(out, i == 0 ? "columns = {" : ", ");
        append_quoted(out, lk_bytes_of(columns->children[i]->name), '\'');
        lk_buf_append_text(out, ": ");
        append_type(columns->children[i], &type);
        append_quoted(out, lk_buf_view(&type), '\'');
        lk_buf_deinit(&type);
    }
    lk_buf_append_text(out, "})");
}

static DUCKDB_V2_ERROR plan(
    file_source *self, const char *sql, struct ArrowSchema *schema, duckdb_v2_error_info_handle *info)
{
    duckdb_v2_statement_iterator_handle iterator = NULL;
    duckdb_v2_sql_statement_handle      statement = NULL;
    DUCKDB_V2_ERROR                     code = duckdb_v2_parse_sql(self->connection, sql, &iterator, info);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_statement_iterator_next(iterator, &statement, info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_statement_execute_arrow(
            self->connection, statement, NULL, NULL, 0, LK_STREAM_BATCH_ROWS, &self->rows, info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_arrow_result_get_schema(self->rows, schema, info);
    }
    (void)duckdb_v2_sql_statement_destroy(&statement);
    (void)duckdb_v2_statement_iterator_destroy(&iterator);
    return code;
}

static lk_rc run(file_source *self, const lk_buf *sql, struct ArrowSchema *schema, lk_err *err)
{
    duckdb_v2_error_info_handle info = NULL;
    DUCKDB_V2_ERROR             code = plan(self, sql->data, schema, &info);
    return code == DUCKDB_V2_ERROR_NONE ? LK_OK : refuse(err, code, &info);
}

/* -- the file -------------------------------------------------------------------------------------- */

static lk_rc open_file(const char *path, int *out, off_t *size, lk_err *err)
{
    struct stat status;
    *out = open(path, O_RDONLY | O_CLOEXEC);
    if (*out < 0 || fstat(*out, &status) != 0) {
        bool absent = errno == ENOENT || errno == ENOTDIR;
        return lk_refuse(
            err, absent ? LK_E_NOT_FOUND : LK_E_IO, "cannot open %.150s: %s", path, strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "%.150s is not a regular file", path);
    }
    *size = status.st_size;
    return LK_OK;
}

/* The one hole in the sandbox; runs before it is closed. */
static lk_rc allow_file(duckdb_v2_connection_handle connection, void *context, lk_err *err)
{
    file_source *self = context;
    lk_buf       sql = {0};
    lk_buf_format(&sql, "SET GLOBAL allowed_paths = ['/proc/self/fd/%d']", self->file);
    duckdb_v2_error_info_handle    info = NULL;
    duckdb_v2_sql_statement_handle statement = NULL;
    duckdb_v2_result_handle        result = NULL;
    lk_rc                          rc = lk_duck_parse(connection, sql.data, &statement, err);
    if (rc == LK_OK) {
        DUCKDB_V2_ERROR code =
            duckdb_v2_statement_execute(connection, statement, NULL, NULL, 0, &result, &info);
        for (bool more = code == DUCKDB_V2_ERROR_NONE; more;) {
            duckdb_v2_data_chunk_handle chunk = NULL;
            code = duckdb_v2_result_fetch_chunk(result, &chunk, &info);
            more = code == DUCKDB_V2_ERROR_NONE && chunk != NULL;
            (void)duckdb_v2_data_chunk_destroy(&chunk);
        }
        rc = code == DUCKDB_V2_ERROR_NONE
                 ? LK_OK
                 : lk_duck_fail(err, LK_DUCK_STARTING, code, &info, "allow the file");
    }
    (void)duckdb_v2_result_destroy(&result);
    (void)duckdb_v2_sql_statement_destroy(&statement);
    lk_buf_deinit(&sql);
    return rc;
}

static lk_rc open_engine(file_source *self, lk_err *err)
{
    long                  cores = sysconf(_SC_NPROCESSORS_ONLN);
    const lk_duck_options options = {.spill_path = "",
        .memory_bytes = LK_FILE_SOURCE_MEMORY_BYTES,
        .thread_count = cores < 1                            ? 1
                        : cores > LK_FILE_SOURCE_THREADS_MAX ? LK_FILE_SOURCE_THREADS_MAX
                                                             : (uint64_t)cores};
    lk_rc                 rc = lk_duck_open(&self->duck, &options, allow_file, self, err);
    return rc == LK_OK ? lk_duck_connect(self->duck, &self->connection, err) : rc;
}

static lk_rc start(file_source *self, const char *path, lk_sql_file_kind kind,
    const lk_sql_file_options *options, lk_err *err)
{
    lk_buf              sql = {0};
    struct ArrowSchema *schema = &self->base.schema;
    if (kind == LK_SQL_FILE_PARQUET) {
        lk_buf_format(&sql, "FROM read_parquet('/proc/self/fd/%d', hive_partitioning = false)", self->file);
    } else if (kind == LK_SQL_FILE_CSV) {
        csv_statement(path, self->file, options, &sql);
    } else {
        json_statement(path, self->file, NULL, &sql);
    }
    lk_rc rc = run(self, &sql, schema, err);
    if (rc == LK_OK && kind == LK_SQL_FILE_NDJSON && options->text_only) {
        struct ArrowSchema detected = {0};
        lk_schema_move(schema, &detected);
        (void)duckdb_v2_arrow_result_destroy(&self->rows);
        lk_buf_clear(&sql);
        json_statement(path, self->file, &detected, &sql);
        lk_schema_release(&detected);
        rc = run(self, &sql, schema, err);
    }
    lk_buf_deinit(&sql);
    return rc;
}

/* -- what Parquet files of Arrow's writers say beside their own types ------------------------------ */

/* The one value of a statement's one row, binary; false when there is no row. */
static bool one_value(file_source *self, const lk_buf *sql, lk_buf *out)
{
    duckdb_v2_error_info_handle info = NULL;
    struct ArrowSchema          schema = {0};
    struct ArrowArray           batch = {0};
    DUCKDB_V2_ERROR             code = plan(self, sql->data, &schema, &info);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_arrow_result_fetch_array(self->rows, &batch, &info);
    }
    bool found = code == DUCKDB_V2_ERROR_NONE && batch.release != NULL && batch.length > 0 &&
                 strcmp(schema.children[0]->format, "z") == 0;
    if (found) {
        const struct ArrowArray *column = batch.children[0];
        const int32_t           *offsets = (const int32_t *)column->buffers[1] + column->offset;
        lk_buf_append(out, (const char *)column->buffers[2] + offsets[0], (size_t)(offsets[1] - offsets[0]));
    }
    lk_array_release(&batch);
    lk_schema_release(&schema);
    (void)duckdb_v2_arrow_result_destroy(&self->rows);
    if (info != NULL) {
        (void)duckdb_v2_error_info_destroy(&info);
    }
    return found;
}

/* Arrow's writers keep their schema in the file's metadata: an IPC schema message in base64. Parquet itself knows no
 * fixed-size lists, nor large texts, and no metadata of a field. Values for dictionaries. */
static bool stored_schema(file_source *self, struct ArrowSchema *out)
{
    lk_buf             sql = {0}, text = {0}, message = {0};
    lk_err             ignored = {0};
    struct ArrowSchema schema = {0};
    lk_buf_format(&sql,
        "SELECT value FROM parquet_kv_metadata('/proc/self/fd/%d') WHERE key = 'ARROW:schema'", self->file);
    bool found = one_value(self, &sql, &text) && lk_base64_decode(lk_buf_view(&text), true, &message) &&
                 lk_ipc_schema_decode(lk_buf_view(&message), &schema, &ignored) == LK_OK &&
                 lk_schema_decode_dictionaries(&schema, out, &ignored) == LK_OK;
    lk_schema_release(&schema);
    lk_buf_deinit(&sql);
    lk_buf_deinit(&text);
    lk_buf_deinit(&message);
    return found;
}

/* DuckDB reads decimals of more than 38 digits as doubles: digits would be lost without a word. */
static const struct ArrowSchema *rounded_column(
    const struct ArrowSchema *read, const struct ArrowSchema *stored)
{
    if (strcmp(read->format, "g") == 0 && strncmp(stored->format, "d:", 2) == 0) {
        return stored;
    }
    const struct ArrowSchema *found = NULL;
    for (int64_t i = 0; found == NULL && read->n_children == stored->n_children && i < read->n_children;
         i++) {
        found = rounded_column(read->children[i], stored->children[i]);
    }
    return found;
}

/* The stored schema when the file's columns can be given its types: a tool may have changed them and left it. */
static lk_rc use_stored_schema(file_source *self, struct ArrowSchema *stored, lk_err *err)
{
    lk_err ignored = {0};
    lk_rc  rc = LK_OK;
    if (stored->release != NULL && stored->n_children == self->base.schema.n_children &&
        lk_schema_castable(&self->base.schema, stored, &ignored) == LK_OK) {
        const struct ArrowSchema *rounded = rounded_column(&self->base.schema, stored);
        if (rounded != NULL) {
            rc = lk_refuse(err, LK_E_INVALID_REQUEST,
                "column '%.80s': Parquet decimals of more than 38 digits are not read exactly; use an Arrow "
                "file",
                rounded->name == NULL ? "" : rounded->name);
        }
        lk_schema_move(&self->base.schema, &self->read);
        lk_schema_move(stored, &self->base.schema);
    }
    lk_schema_release(stored);
    return rc;
}

static lk_rc to_stored_types(file_source *self, struct ArrowArray *batch, lk_err *err)
{
    struct ArrowArray cast = {0};
    int64_t           rows = batch->length;
    lk_shared_array  *shared = lk_array_share(batch);
    lk_rc rc = lk_batch_cast(&self->read, shared, &self->base.schema, self->row_count, &cast, err);
    lk_shared_array_unref(shared);
    self->row_count += rows;
    *batch = cast;
    return rc;
}

/* -- the stream ------------------------------------------------------------------------------------ */

static void close_source(lk_batches *batches)
{
    file_source *self = (file_source *)batches;
    (void)duckdb_v2_arrow_result_destroy(&self->rows);
    (void)duckdb_v2_connection_destroy(&self->connection);
    lk_duck_close(self->duck);
    lk_schema_release(&self->base.schema);
    lk_schema_release(&self->read);
    if (self->file >= 0) {
        (void)close(self->file);
    }
    free(self);
}

static lk_rc next_batch(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    file_source                *self = (file_source *)batches;
    duckdb_v2_error_info_handle info = NULL;
    *out = (struct ArrowArray){0};
    if (self->done) {
        return LK_OK;
    }
    DUCKDB_V2_ERROR code = duckdb_v2_arrow_result_fetch_array(self->rows, out, &info);
    lk_rc           rc = code == DUCKDB_V2_ERROR_NONE ? LK_OK : refuse(err, code, &info);
    if (rc == LK_OK && out->release != NULL && self->read.release != NULL) {
        rc = to_stored_types(self, out, err);
    }
    if (rc != LK_OK) {
        lk_array_release(out);
    }
    self->done = rc != LK_OK || out->release == NULL;
    return rc;
}

lk_rc lk_sql_file_open(const char *path, lk_sql_file_kind kind, const lk_sql_file_options *options,
    lk_batches **out, lk_err *err)
{
    off_t        size = 0;
    file_source *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->base.next = next_batch;
    self->base.close = close_source;
    lk_rc rc = open_file(path, &self->file, &size, err);
    if (rc == LK_OK && size == 0) {
        rc = lk_refuse(err, LK_E_INVALID_REQUEST, "%.150s is empty", path);
    }
    if (rc == LK_OK) {
        rc = open_engine(self, err);
    }
    struct ArrowSchema stored = {0};
    if (rc == LK_OK && kind == LK_SQL_FILE_PARQUET && !stored_schema(self, &stored)) {
        lk_schema_release(&stored);
    }
    if (rc == LK_OK) {
        rc = start(self, path, kind, options, err);
    }
    if (rc == LK_OK) {
        rc = use_stored_schema(self, &stored, err);
    }
    lk_schema_release(&stored);
    if (rc == LK_OK && ArrowSchemaSetName(&self->base.schema, "") != NANOARROW_OK) {
        rc = lk_fail(err, LK_E_LIMIT, "schema name");
    }
    if (rc != LK_OK) {
        close_source(&self->base);
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}
