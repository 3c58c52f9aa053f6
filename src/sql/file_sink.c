/*
 * file_sink.c - see file_sink.h. The engine is sandboxed as file_source's is: the one file it may open is our
 * descriptor. Rows come to it through a table function of one thread, so their order is kept.
 */
#include "sql/file_sink.h"

#include "arrow/schema.h"
#include "base/file.h"
#include "base/limits.h"
#include "sql/carrier_priv.h"
#include "sql/duck_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHUNK_ROWS = 2048, GROUP_BYTES = 64 * 1024 * 1024, GROUP_ROWS_MAX = 60 * CHUNK_ROWS };

typedef struct file_sink {
    lk_batches                     *batches;
    struct ArrowSchema              carrier;
    struct ArrowArray               first; /* read ahead, to know how wide rows are */
    bool                            first_given;
    int                             file;
    lk_duck                        *duck;
    duckdb_v2_connection_handle     connection;
    duckdb_v2_arrow_importer_handle importer;
    bool                            draining;
    uint64_t                        rows;
    lk_err                          failure; /* of the batches; DuckDB only hears that there is one */
} file_sink;

/* -- rows for DuckDB ------------------------------------------------------------------------------------ */

static void fail_text(duckdb_v2_error_info_handle slot, const char *text)
{
    duckdb_v2_str bytes = lk_duck_str(lk_bytes_of(text));
    (void)duckdb_v2_error_info_set_code(slot, DUCKDB_V2_ERROR_INPUT_INVALID);
    (void)duckdb_v2_error_info_set_text(slot, &bytes);
}

static DUCKDB_V2_ERROR declare(file_sink *self, duckdb_v2_table_function_bind_info_handle result,
    duckdb_v2_context_handle context, duckdb_v2_error_info_handle *info)
{
    duckdb_v2_arrow_importer_handle importer = NULL;
    duckdb_v2_schema_handle         schema = NULL;
    idx_t                           count = 0;
    DUCKDB_V2_ERROR                 code =
        duckdb_v2_arrow_importer_create(context, &self->carrier, CHUNK_ROWS, &importer, info);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_arrow_importer_get_schema(importer, &schema, info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_schema_get_count(schema, &count, info);
    }
    for (idx_t i = 0; code == DUCKDB_V2_ERROR_NONE && i < count; i++) {
        duckdb_v2_str name = lk_duck_str(lk_bytes_of(self->carrier.children[i]->name)), ignored = {0};
        duckdb_v2_logical_type_handle type = NULL; /* borrowed */
        code = duckdb_v2_schema_get_field(schema, i, &ignored, &type, info);
        if (code == DUCKDB_V2_ERROR_NONE) {
            code = duckdb_v2_table_function_bind_add_result_column(result, &name, type, info);
        }
    }
    (void)duckdb_v2_schema_destroy(&schema);
    (void)duckdb_v2_arrow_importer_destroy(&importer);
    return code;
}

static void on_bind(duckdb_v2_function_bind_info_handle info,
    duckdb_v2_table_function_bind_info_handle result, duckdb_v2_context_handle context,
    duckdb_v2_error_info_handle *slot)
{
    void                       *user = NULL;
    duckdb_v2_error_info_handle problem = NULL;
    DUCKDB_V2_ERROR             code = duckdb_v2_function_bind_get_user_data(info, &user, &problem);
    if (code == DUCKDB_V2_ERROR_NONE) {
        duckdb_v2_opaque data = {user, NULL, NULL};
        code = declare(user, result, context, &problem);
        if (code == DUCKDB_V2_ERROR_NONE) {
            code = duckdb_v2_function_bind_set_bind_data(info, &data, &problem);
        }
    }
    if (code != DUCKDB_V2_ERROR_NONE) {
        fail_text(*slot, "the columns cannot be declared");
        (void)duckdb_v2_error_info_destroy(&problem);
    }
}

static void on_global(duckdb_v2_table_function_init_global_info_handle info, duckdb_v2_context_handle context,
    duckdb_v2_error_info_handle *slot)
{
    void                       *bound = NULL;
    duckdb_v2_error_info_handle problem = NULL;
    DUCKDB_V2_ERROR code = duckdb_v2_table_function_init_global_get_bind_data(info, &bound, &problem);
    if (code == DUCKDB_V2_ERROR_NONE) {
        file_sink       *self = bound;
        duckdb_v2_opaque state = {self, NULL, NULL};
        code =
            duckdb_v2_arrow_importer_create(context, &self->carrier, CHUNK_ROWS, &self->importer, &problem);
        if (code == DUCKDB_V2_ERROR_NONE) {
            code = duckdb_v2_table_function_init_global_set_max_threads(info, 1, &problem);
        }
        if (code == DUCKDB_V2_ERROR_NONE) {
            code = duckdb_v2_table_function_init_global_set_global_state(info, &state, &problem);
        }
    }
    if (code != DUCKDB_V2_ERROR_NONE) {
        fail_text(*slot, "the rows cannot be given");
        (void)duckdb_v2_error_info_destroy(&problem);
    }
}

/* The next batch that has rows, in its carriers; released when there is none. */
static lk_rc next_batch(file_sink *self, struct ArrowArray *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    *out = (struct ArrowArray){0};
    if (!self->first_given) {
        self->first_given = true;
        lk_array_move(&self->first, out);
    }
    while (rc == LK_OK && (out->release == NULL || out->length == 0)) {
        lk_array_release(out);
        rc = lk_batches_next(self->batches, out, err);
        if (out->release == NULL) {
            return rc;
        }
    }
    self->rows += rc == LK_OK ? (uint64_t)out->length : 0;
    for (int64_t i = 0; rc == LK_OK && i < out->n_children; i++) {
        rc = lk_carrier_import(
            self->batches->schema.children[i], self->carrier.children[i], out->children[i], err);
    }
    if (rc != LK_OK) {
        lk_array_release(out);
    }
    return rc;
}

static DUCKDB_V2_ERROR refer(duckdb_v2_data_chunk_handle chunk, duckdb_v2_data_chunk_handle out,
    size_t columns, duckdb_v2_error_info_handle *info)
{
    idx_t           rows = 0;
    DUCKDB_V2_ERROR code = duckdb_v2_data_chunk_get_size(chunk, &rows, info);
    for (size_t i = 0; code == DUCKDB_V2_ERROR_NONE && i < columns; i++) {
        duckdb_v2_vector_handle from = NULL, to = NULL;
        code = duckdb_v2_data_chunk_get_vector(chunk, i, &from, info);
        if (code == DUCKDB_V2_ERROR_NONE) {
            code = duckdb_v2_data_chunk_get_vector(out, i, &to, info);
        }
        if (code == DUCKDB_V2_ERROR_NONE) {
            code = duckdb_v2_vector_reference(to, from, info);
        }
        if (code == DUCKDB_V2_ERROR_NONE && i == 0) {
            code = duckdb_v2_vector_set_size(to, rows, info);
        }
    }
    return code;
}

/* One chunk into out; leaves it empty at the end. */
static lk_rc produce(file_sink *self, duckdb_v2_data_chunk_handle out, lk_err *err)
{
    for (;;) {
        duckdb_v2_error_info_handle info = NULL;
        DUCKDB_V2_ERROR             code = DUCKDB_V2_ERROR_NONE;
        duckdb_v2_data_chunk_handle chunk = NULL;
        if (!self->draining) {
            struct ArrowArray batch = {0};
            lk_rc             rc = next_batch(self, &batch, err);
            if (rc != LK_OK || batch.release == NULL) {
                return rc;
            }
            code = duckdb_v2_arrow_importer_append(self->importer, &batch, true, true, &info);
            lk_array_release(&batch);
            self->draining = code == DUCKDB_V2_ERROR_NONE;
        }
        if (code == DUCKDB_V2_ERROR_NONE) {
            code = duckdb_v2_arrow_importer_next_chunk(self->importer, &chunk, &info);
        }
        self->draining = code == DUCKDB_V2_ERROR_NONE && chunk != NULL;
        if (self->draining) {
            code = refer(chunk, out, (size_t)self->carrier.n_children, &info);
        }
        (void)duckdb_v2_data_chunk_destroy(&chunk);
        if (code != DUCKDB_V2_ERROR_NONE) {
            return lk_duck_fail(err, LK_DUCK_RUNNING, code, &info, "give rows");
        }
        if (self->draining) {
            return LK_OK;
        }
    }
}

static void on_exec(duckdb_v2_table_function_exec_info_handle info, duckdb_v2_context_handle context,
    duckdb_v2_error_info_handle *slot)
{
    (void)context;
    void                       *state = NULL;
    duckdb_v2_data_chunk_handle out = NULL;
    if (duckdb_v2_table_function_exec_get_global_state(info, &state, NULL) != DUCKDB_V2_ERROR_NONE ||
        duckdb_v2_table_function_exec_get_output_chunk(info, &out, NULL) != DUCKDB_V2_ERROR_NONE) {
        fail_text(*slot, "no rows");
        return;
    }
    file_sink *self = state;
    if (produce(self, out, &self->failure) != LK_OK) {
        fail_text(*slot, "the rows ended with an error");
    }
}

/* -- the engine ----------------------------------------------------------------------------------------- */

static DUCKDB_V2_ERROR register_rows(
    duckdb_v2_connection_handle connection, file_sink *self, duckdb_v2_error_info_handle *info)
{
    duckdb_v2_factory_handle        factory = NULL;
    duckdb_v2_table_function_handle function = NULL;
    duckdb_v2_str                   name = lk_duck_str(LK_LITERAL("lake_rows"));
    duckdb_v2_opaque                user = {self, NULL, NULL};
    DUCKDB_V2_ERROR                 code = duckdb_v2_connection_get_factory(connection, &factory, info);
#define NEXT(call) code = code == DUCKDB_V2_ERROR_NONE ? (call) : code
    NEXT(duckdb_v2_table_function_create(factory, &function, info));
    NEXT(duckdb_v2_table_function_set_name(function, &name, info));
    NEXT(duckdb_v2_table_function_set_user_data(function, &user, info));
    NEXT(duckdb_v2_table_function_set_bind_callback(function, on_bind, info));
    NEXT(duckdb_v2_table_function_set_init_global_callback(function, on_global, info));
    NEXT(duckdb_v2_table_function_set_exec_callback(function, on_exec, info));
    NEXT(duckdb_v2_connection_register_table_function(connection, function, info));
#undef NEXT
    (void)duckdb_v2_table_function_destroy(&function);
    return code;
}

static DUCKDB_V2_ERROR run(
    duckdb_v2_connection_handle connection, const char *sql, duckdb_v2_error_info_handle *info)
{
    duckdb_v2_statement_iterator_handle iterator = NULL;
    duckdb_v2_sql_statement_handle      statement = NULL;
    duckdb_v2_result_handle             result = NULL;
    DUCKDB_V2_ERROR                     code = duckdb_v2_parse_sql(connection, sql, &iterator, info);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_statement_iterator_next(iterator, &statement, info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_statement_execute(connection, statement, NULL, NULL, 0, &result, info);
    }
    for (bool more = code == DUCKDB_V2_ERROR_NONE; more;) {
        duckdb_v2_data_chunk_handle chunk = NULL;
        code = duckdb_v2_result_fetch_chunk(result, &chunk, info);
        more = code == DUCKDB_V2_ERROR_NONE && chunk != NULL;
        (void)duckdb_v2_data_chunk_destroy(&chunk);
    }
    (void)duckdb_v2_result_destroy(&result);
    (void)duckdb_v2_sql_statement_destroy(&statement);
    (void)duckdb_v2_statement_iterator_destroy(&iterator);
    return code;
}

/* The one hole in the sandbox, and the rows. */
static lk_rc prepare(duckdb_v2_connection_handle connection, void *context, lk_err *err)
{
    file_sink                  *self = context;
    duckdb_v2_error_info_handle info = NULL;
    lk_buf                      sql = {0};
    lk_buf_format(&sql, "SET GLOBAL allowed_paths = ['/proc/self/fd/%d']", self->file);
    DUCKDB_V2_ERROR code = run(connection, sql.data, &info);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = register_rows(connection, self, &info);
    }
    lk_buf_deinit(&sql);
    return code == DUCKDB_V2_ERROR_NONE ? LK_OK
                                        : lk_duck_fail(err, LK_DUCK_STARTING, code, &info, "prepare a file");
}

/* -- the file ------------------------------------------------------------------------------------------- */

static lk_rc check_types(file_sink *self, lk_err *err)
{
    const struct ArrowSchema *schema = &self->batches->schema;
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (!lk_carrier_exists(schema->children[i])) {
            return lk_refuse(err, LK_E_INVALID_SCHEMA,
                "column %.100s: its type is not written to Parquet; use Arrow", schema->children[i]->name);
        }
    }
    return lk_carrier_schema(schema, &self->carrier, err);
}

/* A group of rows is held in memory before it is written. */
static uint64_t group_rows(const file_sink *self)
{
    uint64_t width = 1;
    if (self->first.release != NULL && self->first.length > 0) {
        width += lk_array_bytes(&self->batches->schema, &self->first) / (uint64_t)self->first.length;
    }
    uint64_t rows = GROUP_BYTES / width / CHUNK_ROWS * CHUNK_ROWS;
    return rows < CHUNK_ROWS ? CHUNK_ROWS : rows > GROUP_ROWS_MAX ? GROUP_ROWS_MAX : rows;
}

/* What went wrong: with the rows, with the disk, or with DuckDB. */
static lk_rc explain(file_sink *self, DUCKDB_V2_ERROR code, duckdb_v2_error_info_handle *info, lk_err *err)
{
    if (self->failure.rc != LK_OK) {
        (void)duckdb_v2_error_info_destroy(info);
        *err = self->failure;
        return err->rc;
    }
    lk_rc rc = lk_duck_fail(err, LK_DUCK_RUNNING, code, info, "write Parquet");
    if (errno == ENOSPC || memmem(err->context, err->len, "No space left", 13) != NULL) {
        *err = (lk_err){0};
        rc = lk_refuse(err, LK_E_STORE_FULL, "no space is left for the Parquet file");
    }
    return rc;
}

static lk_rc copy_rows(file_sink *self, lk_err *err)
{
    const lk_duck_options options = {
        .spill_path = "", .memory_bytes = LK_FILE_SOURCE_MEMORY_BYTES, .thread_count = 2};
    duckdb_v2_error_info_handle info = NULL;
    lk_buf                      sql = {0};
    lk_rc                       rc = lk_duck_open(&self->duck, &options, prepare, self, err);
    if (rc == LK_OK) {
        rc = lk_duck_connect(self->duck, &self->connection, err);
    }
    if (rc == LK_OK) {
        lk_buf_format(&sql,
            "COPY (FROM lake_rows()) TO '/proc/self/fd/%d' (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE "
            "false, "
            "ROW_GROUP_SIZE %" PRIu64 ")",
            self->file, group_rows(self));
        errno = 0;
        DUCKDB_V2_ERROR code = run(self->connection, sql.data, &info);
        rc = code == DUCKDB_V2_ERROR_NONE ? LK_OK : explain(self, code, &info, err);
    }
    lk_buf_deinit(&sql);
    return rc;
}

lk_rc lk_sql_parquet_write(lk_batches *batches, const char *path, uint64_t *rows, lk_err *err)
{
    file_sink self = {.batches = batches, .file = -1};
    lk_rc     rc = check_types(&self, err);
    if (rc == LK_OK) {
        rc = lk_batches_next(batches, &self.first, err);
    }
    if (rc == LK_OK && (self.file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) < 0) {
        rc = lk_fail_errno(err, errno, "create", path);
    }
    if (rc == LK_OK) {
        rc = copy_rows(&self, err);
        if (rc != LK_OK) {
            (void)unlink(path);
        }
    }
    (void)duckdb_v2_arrow_importer_destroy(&self.importer);
    (void)duckdb_v2_connection_destroy(&self.connection);
    lk_duck_close(self.duck);
    if (self.file >= 0) {
        (void)close(self.file);
    }
    lk_array_release(&self.first);
    lk_schema_release(&self.carrier);
    *rows = self.rows;
    return rc;
}
