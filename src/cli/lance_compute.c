/* lance_compute.c - see lance_compute.h. One statement for every fragment, its rows in order. */
#include "cli/lance_compute.h"

#include "arrow/schema.h"
#include "cli/lance_sql.h"

#include <stdlib.h>

struct lk_cli_compute {
    lk_column_source  source;
    lk_cli_lance_sql *sql;
    lk_buf            statement;
    size_t            count;
};

/* The engine's batches without the addresses that ordered them. */
typedef struct values {
    lk_batches  base;
    lk_batches *found;
} values;

static lk_rc next_values(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    values           *self = (values *)batches;
    size_t            count = (size_t)self->base.schema.n_children;
    struct ArrowArray batch = {0};
    lk_rc             rc = lk_batches_next(self->found, &batch, err);
    if (rc != LK_OK || batch.release == NULL) {
        return rc;
    }
    int64_t            length = batch.length;
    struct ArrowArray *columns = calloc(count + 1, sizeof *columns);
    lk_shared_array   *shared = lk_array_share(&batch);
    LK_ASSERT(columns != NULL);
    for (size_t i = 0; i < count; i++) {
        lk_shared_batch_column(shared, i, &columns[i]);
    }
    lk_batch_of_columns(columns, count, length, out);
    lk_shared_array_unref(shared);
    free(columns);
    return LK_OK;
}

static void close_values(lk_batches *batches)
{
    values *self = (values *)batches;
    lk_batches_close(self->found);
    lk_schema_release(&self->base.schema);
    free(self);
}

static lk_rc open_values(void *context, lk_dataset *part, lk_batches **out, lk_err *err)
{
    lk_cli_compute          *compute = context;
    const lk_cli_lance_table table = {"dataset", part};
    values                  *self = calloc(1, sizeof *self);
    size_t                  *columns = calloc(compute->count + 1, sizeof *columns);
    LK_ASSERT(self != NULL && columns != NULL);
    self->base.next = next_values;
    self->base.close = close_values;
    for (size_t i = 0; i < compute->count; i++) {
        columns[i] = i;
    }
    lk_rc rc = lk_cli_lance_sql_run(
        compute->sql, lk_buf_view(&compute->statement), &table, 1, compute->count + 1, &self->found, err);
    if (rc == LK_OK) {
        rc = lk_schema_project(&self->found->schema, columns, compute->count, &self->base.schema, err);
    }
    free(columns);
    if (rc != LK_OK) {
        close_values(&self->base);
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}

lk_rc lk_cli_compute_open(const lk_config *config, const struct ArrowSchema *columns,
    const lk_bytes *expressions, lk_cli_compute **out, lk_err *err)
{
    lk_cli_compute *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->source = (lk_column_source){open_values, self};
    self->count = (size_t)columns->n_children;
    lk_buf_append_text(&self->statement, "SELECT ");
    for (size_t i = 0; i < self->count; i++) { /* a comment at an end must not take the parenthesis along */
        lk_buf_format(&self->statement, "(\n%.*s\n) AS ", LK_FMT(expressions[i]));
        lk_cli_lance_sql_name(&self->statement, lk_bytes_of(columns->children[i]->name));
        lk_buf_append_text(&self->statement, ", ");
    }
    lk_buf_append_text(&self->statement, "_rowid FROM lake.lance.dataset ORDER BY _rowid");
    lk_rc rc = lk_cli_lance_sql_open(config, &self->sql, err);
    if (rc != LK_OK) {
        lk_cli_compute_close(self);
        return rc;
    }
    *out = self;
    return LK_OK;
}

void lk_cli_compute_close(lk_cli_compute *compute)
{
    if (compute != NULL) {
        lk_cli_lance_sql_close(compute->sql);
        lk_buf_deinit(&compute->statement);
        free(compute);
    }
}

const lk_column_source *lk_cli_compute_source(const lk_cli_compute *compute)
{
    return &compute->source;
}
