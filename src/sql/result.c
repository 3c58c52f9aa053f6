/*
 * result.c - see result_priv.h. A reader that stops asking for batches holds the scan back; closing early
 * interrupts what runs. Threads: confined to the reader.
 */
#include "sql/result_priv.h"

#include "arrow/schema.h"
#include "base/limits.h"
#include "sql/carrier_priv.h"
#include "sql/listing_priv.h"
#include "sql/origin_priv.h"
#include "sql/rows_priv.h"

#include <stdlib.h>
#include <strings.h>

typedef struct result {
    lk_batches                    base;
    lk_instance                  *instance; /* owned reference */
    lk_run                        run;
    bool                          registered;
    duckdb_v2_arrow_result_handle rows;
    struct ArrowSchema            exported; /* as DuckDB hands it out; base.schema has table types back */
    bool                         *restores; /* columns that need their type back by value */
    bool                          done;
} result;

/* -- sources --------------------------------------------------------------------------------------- */

/* The snapshot's columns and behind them the row columns. */
static lk_rc add_row_columns(lk_run_source *source, lk_err *err)
{
    const struct ArrowSchema *own = source->snapshot->ops->schema(source->snapshot);
    size_t                    count = (size_t)own->n_children, more = lk_row_column_count();
    lk_arena                  arena = {0};
    lk_rc                     rc = LK_OK;
    lk_schema_start(&source->with_rows, count + more);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = lk_schema_copy(own->children[i], source->with_rows.children[i], err);
    }
    for (size_t i = 0; rc == LK_OK && i < more; i++) {
        const char *name = lk_row_column_name(i);
        if (lk_schema_find(own, lk_bytes_of(name)) >= 0) {
            rc = lk_fail(err, LK_E_PLANNING, "a column %s", name);
            (void)lk_detail(err, "the table has a column %s of its own", name);
        } else {
            rc = lk_column_parse(
                lk_arena_format(&arena, "%s:uint64", name), source->with_rows.children[count + i], err);
        }
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc open_source(
    const lk_sql_request *request, const lk_sql_source *source, lk_run_source *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    if (source->listing == LK_LISTING_NONE) {
        out->snapshot = lk_table_snapshot_ref(request->snapshots[source->table]);
        if (request->statement->row_columns && out->snapshot->ops->take != NULL) {
            rc = add_row_columns(out, err);
        }
    } else {
        struct ArrowArray rows = {0};
        rc = lk_listing_make(source, &request->directory, &out->listing_schema, &rows, err);
        if (rc == LK_OK) {
            out->listing = lk_array_share(&rows);
        }
    }
    return rc == LK_OK ? lk_carrier_schema(lk_run_source_schema(out), &out->carrier, err) : rc;
}

static lk_rc open_sources(result *self, const lk_sql_request *request, lk_err *err)
{
    const lk_sql_statement *statement = request->statement;
    lk_rc                   rc = LK_OK;
    self->run.sources = calloc(statement->source_count + 1, sizeof *self->run.sources);
    LK_ASSERT(self->run.sources != NULL);
    for (size_t i = 0; rc == LK_OK && i < statement->source_count; i++) {
        rc = open_source(request, &statement->sources[i], &self->run.sources[i], err);
    }
    return rc;
}

static void close_sources(result *self)
{
    for (size_t i = 0; self->run.sources != NULL && i < self->run.statement->source_count; i++) {
        lk_run_source *source = &self->run.sources[i];
        lk_table_snapshot_unref(source->snapshot);
        lk_shared_array_unref(source->listing);
        lk_schema_release(&source->listing_schema);
        lk_schema_release(&source->with_rows);
        lk_schema_release(&source->carrier);
    }
    free(self->run.sources);
}

/* -- the output's schema --------------------------------------------------------------------------- */

/* One spelling of a type: DuckDB writes the width of decimals that need none. */
static lk_rc canonical(struct ArrowSchema *field, lk_err *err)
{
    char   format[32];
    size_t size = strlen(field->format);
    lk_rc  rc = LK_OK;
    if (strncmp(field->format, "d:", 2) == 0 && size > 4 && size < sizeof format &&
        strcmp(field->format + size - 4, ",128") == 0) {
        memcpy(format, field->format, size - 4);
        format[size - 4] = '\0';
        rc = ArrowSchemaSetFormat(field, format) == NANOARROW_OK ? LK_OK
                                                                 : lk_fail(err, LK_E_LIMIT, "%s", format);
    }
    for (int64_t i = 0; rc == LK_OK && i < field->n_children; i++) {
        rc = canonical(field->children[i], err);
    }
    return rc;
}

static bool same_name(lk_bytes a, const char *b)
{
    return a.size == strlen(b) && strncasecmp(a.data, b, a.size) == 0;
}

static bool differs(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    bool differ = strcmp(a->format, b->format) != 0;
    for (int64_t i = 0; !differ && i < a->n_children; i++) {
        differ = differs(a->children[i], b->children[i]);
    }
    return differ;
}

/* Gives one output column its table field: type, metadata, nullability; the name stays as the statement
 * has it. */
static lk_rc give_back(result *self, size_t i, const lk_origin_column *origin, lk_err *err)
{
    struct ArrowSchema       *shown = self->base.schema.children[i];
    const struct ArrowSchema *exported = self->exported.children[i];
    const struct ArrowSchema *table = lk_run_source_schema(&self->run.sources[origin->source]);
    const struct ArrowSchema *field = table->children[origin->column];
    if (!same_name(origin->name, exported->name) || !lk_carrier_fits(exported, field)) {
        return LK_OK;
    }
    struct ArrowSchema copy = {0};
    lk_rc              rc = lk_schema_copy(field, &copy, err);
    if (rc == LK_OK && ArrowSchemaSetName(&copy, exported->name) != NANOARROW_OK) {
        rc = lk_fail(err, LK_E_LIMIT, "column name");
    }
    if (rc != LK_OK) {
        lk_schema_release(&copy);
        return rc;
    }
    if (origin->nullable) {
        copy.flags |= ARROW_FLAG_NULLABLE;
    }
    lk_schema_release(shown);
    lk_schema_move(&copy, shown);
    self->restores[i] = differs(exported, field);
    return LK_OK;
}

static lk_rc name_types(result *self, lk_err *err)
{
    const lk_sql_statement *statement = self->run.statement;
    lk_origin_columns       columns = {0};
    lk_arena                arena = {0};
    lk_rc                   rc = canonical(&self->exported, err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(&self->exported, &self->base.schema, err);
    }
    if (rc == LK_OK && ArrowSchemaSetName(&self->base.schema, "") != NANOARROW_OK) {
        rc = lk_fail(err, LK_E_LIMIT, "schema name");
    }
    if (rc != LK_OK) {
        return rc;
    }
    self->base.schema.flags = 0;
    self->restores = calloc((size_t)self->exported.n_children + 1, sizeof *self->restores);
    LK_ASSERT(self->restores != NULL);
    const struct ArrowSchema **schemas =
        lk_arena_take(&arena, (statement->source_count + 1) * sizeof *schemas);
    for (size_t i = 0; i < statement->source_count; i++) {
        schemas[i] = lk_run_source_schema(&self->run.sources[i]);
    }
    if (lk_origin_resolve(statement->origin, schemas, &arena, &columns) &&
        columns.count == (size_t)self->exported.n_children) {
        for (size_t i = 0; rc == LK_OK && i < columns.count; i++) {
            rc = columns.items[i].known ? give_back(self, i, &columns.items[i], err) : LK_OK;
        }
    }
    lk_arena_close(&arena);
    return rc;
}

/* -- the stream ------------------------------------------------------------------------------------ */

static void close_result(lk_batches *batches)
{
    result *self = (result *)batches;
    if (self->rows != NULL && !self->done) {
        (void)duckdb_v2_connection_interrupt(
            self->run.connection, NULL); /* else destroying waits for the work */
    }
    (void)duckdb_v2_arrow_result_destroy(&self->rows);
    if (self->registered) {
        lk_runs_remove(self->run.runs, &self->run);
    }
    (void)duckdb_v2_connection_destroy(&self->run.connection);
    close_sources(self);
    lk_schema_release(&self->exported);
    lk_schema_release(&self->base.schema);
    free(self->restores);
    free(self->run.references);
    lk_sql_statement_unref(self->run.statement);
    lk_mutex_deinit(&self->run.mutex);
    lk_instance_unref(self->instance);
    free(self);
}

static lk_rc restore(result *self, struct ArrowArray *batch, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (int64_t i = 0; rc == LK_OK && i < batch->n_children; i++) {
        if (self->restores[i]) {
            rc = lk_carrier_restore(
                self->exported.children[i], self->base.schema.children[i], batch->children[i], err);
        }
    }
    return rc;
}

static lk_rc next_batch(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    result                     *self = (result *)batches;
    duckdb_v2_error_info_handle info = NULL;
    *out = (struct ArrowArray){0};
    if (self->done) {
        return LK_OK;
    }
    lk_rc rc = lk_cancel_check(self->run.cancel, err);
    if (rc == LK_OK) {
        DUCKDB_V2_ERROR code = duckdb_v2_arrow_result_fetch_array(self->rows, out, &info);
        if (code != DUCKDB_V2_ERROR_NONE) {
            rc = lk_run_error(&self->run, LK_DUCK_RUNNING, code, &info, "run", err);
        }
    }
    if (rc == LK_OK && out->release != NULL) {
        rc = restore(self, out, err);
    }
    self->done = rc != LK_OK || out->release == NULL;
    if (rc != LK_OK) {
        lk_array_release(out);
    }
    return rc;
}

static DUCKDB_V2_ERROR execute(
    result *self, duckdb_v2_sql_statement_handle statement, duckdb_v2_error_info_handle *info)
{
    return duckdb_v2_statement_execute_arrow(
        self->run.connection, statement, NULL, NULL, 0, LK_STREAM_BATCH_ROWS, &self->rows, info);
}

/* Plans the statement. DuckDB may start its first pipelines at once; an early close interrupts them. When the
 * optimiser wanted to copy a scan that had taken filters over, it plans again with the filters left to
 * DuckDB. */
static lk_rc plan(result *self, const char *engine_sql, lk_err *err)
{
    duckdb_v2_error_info_handle    info = NULL;
    duckdb_v2_sql_statement_handle statement = NULL;
    lk_rc                          rc = lk_duck_parse(self->run.connection, engine_sql, &statement, err);
    if (rc != LK_OK) {
        return rc;
    }
    DUCKDB_V2_ERROR code = execute(self, statement, &info);
    if (code != DUCKDB_V2_ERROR_NONE && self->run.copied) {
        (void)duckdb_v2_error_info_destroy(&info);
        self->run.keeps_filters = true;
        code = execute(self, statement, &info);
    }
    (void)duckdb_v2_sql_statement_destroy(&statement);
    struct ArrowSchema schema = {0};
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_arrow_result_get_schema(self->rows, &schema, &info);
    }
    if (code != DUCKDB_V2_ERROR_NONE) {
        return lk_run_error(&self->run, LK_DUCK_PLANNING, code, &info, "plan", err);
    }
    rc = lk_schema_copy(&schema, &self->exported, err); /* a copy of ours can be changed */
    lk_schema_release(&schema);
    return rc;
}

lk_rc lk_result_open(lk_instance *instance, const lk_sql_request *request, const char *engine_sql,
    lk_batches **out, lk_err *err)
{
    result *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->base.next = next_batch;
    self->base.close = close_result;
    self->instance = lk_instance_ref(instance);
    self->run.duck = instance->duck;
    self->run.runs = instance->runs;
    self->run.statement = lk_sql_statement_ref(request->statement);
    self->run.cancel = request->cancel;
    self->run.keeps_filters = request->filters_stay;
    lk_mutex_init(&self->run.mutex, LK_RANK_SCAN);

    lk_rc rc = lk_cancel_check(request->cancel, err);
    if (rc == LK_OK) {
        rc = open_sources(self, request, err);
    }
    if (rc == LK_OK) {
        rc = lk_duck_connect(instance->duck, &self->run.connection, err);
    }
    if (rc == LK_OK) {
        lk_runs_add(instance->runs, &self->run);
        self->registered = true;
        rc = lk_scan_bind_names(&self->run, err);
    }
    if (rc == LK_OK) {
        rc = plan(self, engine_sql, err);
    }
    if (rc == LK_OK) {
        rc = name_types(self, err);
    }
    if (rc != LK_OK) {
        close_result(&self->base);
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}
