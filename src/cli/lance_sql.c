/*
 * lance_sql.c - see lance_sql.h.
 */
#include "cli/lance_sql.h"

#include "arrow/schema.h"
#include "base/file.h"
#include "cli/cli.h"
#include "engine/engine.h"
#include "lance/row_set.h"
#include "sql/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_ID "_rowid"

enum { TABLES_MAX = 2 };

struct lk_cli_lance_sql {
    lk_sql *sql;
    char    scratch[64];
};

/* -- a snapshot with row ids ---------------------------------------------------------------------------- */

typedef struct rows_snapshot {
    lk_table_snapshot  base;
    lk_dataset        *dataset;
    struct ArrowSchema schema;
} rows_snapshot;

static const struct ArrowSchema *snapshot_schema(const lk_table_snapshot *snapshot)
{
    return &((const rows_snapshot *)snapshot)->schema;
}

static uint64_t snapshot_row_count(const lk_table_snapshot *snapshot)
{
    return lk_dataset_row_count(((const rows_snapshot *)snapshot)->dataset);
}

static size_t snapshot_bytes(const lk_table_snapshot *snapshot)
{
    return sizeof(rows_snapshot) + lk_dataset_bytes(((const rows_snapshot *)snapshot)->dataset);
}

static void snapshot_free(lk_table_snapshot *snapshot)
{
    rows_snapshot *self = (rows_snapshot *)snapshot;
    lk_schema_release(&self->schema);
    lk_dataset_unref(self->dataset);
    free(self);
}

static lk_rc not_so(lk_err *err)
{
    return lk_refuse(err, LK_E_PLANNING, "a condition on " ROW_ID " is not supported");
}

/* A dataset gives the row ids as the last column; that is where the statement's own column stands. */
static lk_rc to_dataset(
    const rows_snapshot *self, const lk_scan_options *in, lk_arena *arena, lk_scan_options *out, lk_err *err)
{
    size_t *read = NULL;
    size_t  row_id = (size_t)self->schema.n_children - 1;
    *out = *in;
    out->dictionary_values = true; /* as statements see them */
    out->blobs = LK_BLOBS_BYTES;
    if (in->predicate != NULL) {
        size_t count = lk_predicate_columns(in->predicate, arena, &read);
        if (count > 0 && read[count - 1] == row_id) {
            return not_so(err);
        }
    }
    if (in->no_columns) {
        return LK_OK;
    }
    for (size_t i = 0; in->columns != NULL && i < in->column_count; i++) {
        if (in->columns[i] == row_id && i + 1 != in->column_count) {
            return not_so(err);
        }
    }
    bool last = in->columns == NULL || (in->column_count > 0 && in->columns[in->column_count - 1] == row_id);
    out->meta = last ? LK_META_ROW_ADDRESS : 0;
    out->column_count -= last && in->columns != NULL;
    return LK_OK;
}

static lk_rc snapshot_scan(
    lk_table_snapshot *snapshot, const lk_scan_options *options, lk_batches **out, lk_err *err)
{
    lk_arena        arena = {0};
    lk_scan_options mine;
    rows_snapshot  *self = (rows_snapshot *)snapshot;
    lk_rc           rc = to_dataset(self, options, &arena, &mine, err);
    if (rc == LK_OK) {
        rc = lk_dataset_scan(self->dataset, &mine, out, err);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc snapshot_morsels(
    lk_table_snapshot *snapshot, const lk_scan_options *options, lk_morsel_scan **out, lk_err *err)
{
    lk_arena        arena = {0};
    lk_scan_options mine;
    rows_snapshot  *self = (rows_snapshot *)snapshot;
    lk_rc           rc = to_dataset(self, options, &arena, &mine, err);
    if (rc == LK_OK) {
        rc = lk_dataset_morsel_scan(self->dataset, &mine, out, err);
    }
    lk_arena_close(&arena);
    return rc;
}

static const struct lk_table_snapshot_ops snapshot_ops = {
    .schema = snapshot_schema,
    .row_count = snapshot_row_count,
    .scan = snapshot_scan,
    .morsels = snapshot_morsels,
    .bytes = snapshot_bytes,
    .free = snapshot_free,
};

static lk_rc add_row_id(const struct ArrowSchema *columns, struct ArrowSchema *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    if (lk_schema_find(columns, LK_LITERAL(ROW_ID)) >= 0) {
        return lk_refuse(err, LK_E_INVALID_SCHEMA, "the dataset has a column " ROW_ID " of its own");
    }
    lk_schema_start(out, (size_t)columns->n_children + 1);
    for (int64_t i = 0; rc == LK_OK && i < columns->n_children; i++) {
        lk_schema_release(out->children[i]);
        rc = lk_schema_copy(columns->children[i], out->children[i], err);
    }
    return rc == LK_OK
               ? lk_column_parse(LK_LITERAL(ROW_ID ":uint64"), out->children[columns->n_children], err)
               : rc;
}

static lk_rc new_snapshot(lk_dataset *dataset, lk_table_snapshot **out, lk_err *err)
{
    rows_snapshot *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->base.ops = &snapshot_ops;
    atomic_init(&self->base.refs, 1);
    self->dataset = lk_dataset_ref(dataset);
    struct ArrowSchema seen = {0};
    lk_rc rc = lk_view_schema(lk_dataset_schema(dataset), (lk_view){true, LK_BLOBS_BYTES}, &seen, err);
    if (rc == LK_OK) {
        rc = add_row_id(&seen, &self->schema, err);
    }
    lk_schema_release(&seen);
    if (rc != LK_OK) {
        lk_table_snapshot_unref(&self->base);
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}

/* -- the engine ------------------------------------------------------------------------------------------- */

lk_rc lk_cli_lance_sql_open(const lk_config *config, lk_cli_lance_sql **out, lk_err *err)
{
    lk_cli_lance_sql *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    (void)snprintf(self->scratch, sizeof self->scratch, "%s/lake-where-XXXXXX", P_tmpdir);
    if (mkdtemp(self->scratch) == NULL) {
        self->scratch[0] = '\0';
        lk_cli_lance_sql_close(self);
        return lk_fail(err, LK_E_IO, "no temporary directory in %s", P_tmpdir);
    }
    const lk_sql_options options = {.spill_directory = lk_bytes_of(self->scratch),
        .memory_bytes = config->query_memory_bytes,
        .spill_bytes = config->query_spill_bytes,
        .thread_count = config->query_threads,
        .sql_bytes_max = config->query_max_sql_bytes};
    lk_rc                rc = lk_sql_open(&self->sql, &options, err);
    if (rc != LK_OK) {
        lk_cli_lance_sql_close(self);
        return rc;
    }
    *out = self;
    return LK_OK;
}

void lk_cli_lance_sql_close(lk_cli_lance_sql *self)
{
    if (self == NULL) {
        return;
    }
    lk_err ignored = {0};
    lk_sql_close(self->sql);
    if (self->scratch[0] != '\0' && lk_directory_remove(self->scratch, &ignored) != LK_OK) {
        fprintf(stderr, "lake: %s is left behind\n", self->scratch);
    }
    free(self);
}

const char *lk_cli_lance_sql_scratch(const lk_cli_lance_sql *self)
{
    return self->scratch;
}

void lk_cli_lance_sql_name(lk_buf *out, lk_bytes name)
{
    lk_buf_append_text(out, "\"");
    for (size_t i = 0; i < name.size; i++) {
        lk_buf_append(out, name.data + i, 1);
        if (name.data[i] == '"') {
            lk_buf_append_text(out, "\"");
        }
    }
    lk_buf_append_text(out, "\"");
}

/* -- running ------------------------------------------------------------------------------------------------ */

static lk_rc more_than_asked(lk_err *err)
{
    return lk_refuse(err, LK_E_INVALID_SQL, "the condition is more than a condition");
}

static const lk_cli_lance_table *find_table(
    const lk_cli_lance_table *tables, size_t count, const lk_sql_table *named)
{
    for (size_t i = 0; i < count; i++) {
        if (named->when == LK_SQL_CURRENT && lk_bytes_equal(named->table.name, lk_bytes_of(tables[i].name))) {
            return &tables[i];
        }
    }
    return NULL;
}

/* One snapshot for each table that the statement reads. */
static lk_rc pin_tables(const lk_sql_statement *statement, const lk_cli_lance_table *tables, size_t count,
    lk_table_snapshot **snapshots, lk_err *err)
{
    size_t              named = 0;
    const lk_sql_table *names = lk_sql_statement_tables(statement, &named);
    lk_rc               rc = named == count ? LK_OK : more_than_asked(err);
    for (size_t i = 0; i < named && rc == LK_OK; i++) {
        const lk_cli_lance_table *table = find_table(tables, count, &names[i]);
        rc = table == NULL ? more_than_asked(err) : new_snapshot(table->dataset, &snapshots[i], err);
    }
    return rc;
}

lk_rc lk_cli_lance_sql_run(lk_cli_lance_sql *self, lk_bytes text, const lk_cli_lance_table *tables,
    size_t table_count, size_t column_count, lk_batches **out, lk_err *err)
{
    lk_table_snapshot *snapshots[TABLES_MAX] = {0};
    lk_sql_statement  *statement = NULL;
    LK_ASSERT(table_count <= TABLES_MAX);
    lk_rc rc = lk_sql_parse(self->sql, text, &statement, err);
    if (rc == LK_OK) {
        rc = pin_tables(statement, tables, table_count, snapshots, err);
    }
    if (rc == LK_OK) {
        const lk_sql_request request = {.statement = statement, .snapshots = snapshots};
        rc = lk_sql_run(self->sql, &request, out, err);
    }
    if (rc == LK_OK && (*out)->schema.n_children != (int64_t)column_count) {
        lk_batches_close(*out);
        *out = NULL;
        rc = more_than_asked(err);
    }
    for (size_t i = 0; i < table_count; i++) {
        lk_table_snapshot_unref(snapshots[i]);
    }
    lk_sql_statement_unref(statement);
    return rc;
}

static lk_rc add_rows(lk_batches *found, lk_row_set *rows, lk_err *err)
{
    if (strcmp(found->schema.children[0]->format, "L") != 0) {
        return more_than_asked(err);
    }
    for (;;) {
        struct ArrowArray batch = {0};
        lk_rc             rc = lk_batches_next(found, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            return rc;
        }
        const struct ArrowArray *ids = batch.children[0];
        lk_row_set_add(
            rows, (const uint64_t *)ids->buffers[1] + ids->offset + batch.offset, (size_t)batch.length);
        lk_array_release(&batch);
    }
}

lk_rc lk_cli_lance_sql_rows(lk_cli_lance_sql *self, lk_bytes statement, const lk_cli_lance_table *tables,
    size_t table_count, lk_row_set *rows, lk_err *err)
{
    lk_batches *found = NULL;
    lk_rc       rc = lk_cli_lance_sql_run(self, statement, tables, table_count, 1, &found, err);
    if (rc == LK_OK) {
        rc = add_rows(found, rows, err);
    }
    lk_batches_close(found);
    return rc;
}
