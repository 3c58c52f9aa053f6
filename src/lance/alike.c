/* alike.c - see alike.h. */
#include "lance/alike.h"

#include "arrow/schema.h"
#include "lance/dataset_priv.h"
#include "lance/file_priv.h"
#include "lance/view.h"

#include <stdlib.h>

enum { ROWS_MAX = 8192 };

typedef struct shared_column {
    size_t column;            /* of the table */
    size_t first, leaf_count; /* of the file: where its leaves are; none: not known */
} shared_column;

struct lk_alike {
    lk_dataset        *first;
    lk_file_reader    *file; /* of first */
    lk_buffer_pool    *pool;
    struct ArrowSchema view; /* of the table, dictionaries as values */
    shared_column     *columns;
    size_t             column_count;
    lk_shared_array   *rows; /* of first */
};

const lk_dataset *lk_alike_first(const lk_alike *alike)
{
    return alike->first;
}

void lk_alike_free(lk_alike *alike)
{
    if (alike != NULL) {
        lk_shared_array_unref(alike->rows);
        lk_schema_release(&alike->view);
        lk_buffer_pool_close(alike->pool);
        lk_file_reader_unref(alike->file);
        lk_dataset_unref(alike->first);
        free(alike->columns);
        free(alike);
    }
}

/* -- which tables --------------------------------------------------------------------------------------------------- */

/* One fragment without deletions, of one small file of its own. */
static bool is_small(const lk_dataset *dataset)
{
    const lk_manifest *manifest = dataset->manifest;
    if (manifest->fragment_count != 1 || manifest->fragments[0].file_count != 1) {
        return false;
    }
    const lk_fragment  *fragment = &manifest->fragments[0];
    const lk_data_file *file = &fragment->files[0];
    return fragment->deletion.kind == LK_DELETION_NONE && fragment->physical_rows <= ROWS_MAX &&
           file->base == NULL && file->size_bytes > 0 && file->size_bytes <= LK_FILE_TAIL_BYTES;
}

static bool fits_first(const lk_alike *alike, const lk_dataset *dataset)
{
    if (dataset->manifest->schema != alike->first->manifest->schema || !is_small(dataset)) {
        return false;
    }
    const lk_data_file *a = &alike->first->manifest->fragments[0].files[0];
    const lk_data_file *b = &dataset->manifest->fragments[0].files[0];
    return a->field_count == b->field_count &&
           memcmp(a->fields, b->fields, a->field_count * sizeof *a->fields) == 0 &&
           memcmp(a->columns, b->columns, a->field_count * sizeof *a->columns) == 0;
}

/* -- columns that need no decoding --------------------------------------------------------------------------------- */

/* Where the column's leaves are in the file: one behind the other, or nowhere that is of use. */
static void find_leaves(const lk_alike *alike, shared_column *column)
{
    const lk_lance_schema *schema = alike->first->manifest->schema;
    const lk_fragment     *fragment = &alike->first->manifest->fragments[0];
    size_t                 top = schema->top[column->column], file = 0;
    bool                   together = true;
    for (size_t field = top; together && field < schema->fields[top].end; field++) {
        int32_t at = -1;
        if (!lk_fragment_find(fragment, schema->fields[field].id, &file, &at) || at < 0) {
            together = !schema->fields[field].leaf;
            continue;
        }
        column->first = column->leaf_count == 0 ? (size_t)at : column->first;
        together = (size_t)at == column->first + column->leaf_count++;
    }
    column->leaf_count = together ? column->leaf_count : 0;
}

/* Whether the column holds in this file what it holds in the first. */
static bool same_column(const lk_alike *alike, const shared_column *column, const lk_file_reader *file)
{
    bool same = alike->rows != NULL && column->leaf_count > 0;
    for (size_t leaf = column->first; same && leaf < column->first + column->leaf_count; leaf++) {
        same = lk_file_same_column(alike->file, file, leaf);
    }
    return same;
}

/* -- reading ---------------------------------------------------------------------------------------------------------- */

static lk_rc decode_column(
    const lk_alike *alike, lk_dataset *dataset, size_t column, struct ArrowArray *out, lk_err *err)
{
    const lk_manifest *manifest = dataset->manifest;
    const lk_row_range all = {0, manifest->fragments[0].physical_rows};
    lk_arena           arena = {0};
    lk_field_source    source = {0};
    lk_rc              rc = lk_dataset_source(
                     dataset, 0, manifest->schema->top[column], alike->view.children[column], &arena, &source, err);
    if (rc == LK_OK) {
        rc = lk_file_decode(&source, &all, 1, alike->pool, out, err);
        lk_dataset_source_close(&source);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc read_rows(
    const lk_alike *alike, lk_dataset *dataset, lk_file_reader *file, struct ArrowArray *out, lk_err *err)
{
    struct ArrowArray *columns = calloc(alike->column_count + 1, sizeof *columns);
    LK_ASSERT(columns != NULL);
    lk_rc  rc = LK_OK;
    size_t done = 0;
    for (; rc == LK_OK && done < alike->column_count; done++) {
        const shared_column *column = &alike->columns[done];
        if (same_column(alike, column, file)) {
            lk_shared_batch_column(alike->rows, done, &columns[done]);
        } else {
            rc = decode_column(alike, dataset, column->column, &columns[done], err);
        }
    }
    if (rc == LK_OK) {
        int64_t rows = (int64_t)dataset->manifest->fragments[0].physical_rows;
        lk_batch_of_columns(columns, alike->column_count, rows, out);
    }
    for (size_t i = 0; rc != LK_OK && i < done; i++) {
        lk_array_release(&columns[i]);
    }
    free(columns);
    return rc;
}

lk_rc lk_alike_read(
    const lk_alike *alike, lk_dataset *dataset, bool *fits, struct ArrowArray *out, lk_err *err)
{
    lk_file_reader *file = NULL;
    *fits = fits_first(alike, dataset);
    if (!*fits) {
        return LK_OK;
    }
    lk_rc rc = lk_dataset_file(dataset, 0, 0, &file, err);
    if (rc == LK_OK) {
        rc = read_rows(alike, dataset, file, out, err);
    }
    lk_file_reader_unref(file);
    if (rc != LK_OK) {
        lk_context(err, "fragment 0 of %.*s", LK_FMT(dataset->manifest->key));
    }
    return rc;
}

/* -- making ----------------------------------------------------------------------------------------------------------- */

/* The same at every depth, names and nullability left out. */
static bool same_type(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    bool same = strcmp(a->format, b->format) == 0 && a->n_children == b->n_children &&
                a->dictionary == NULL && b->dictionary == NULL;
    for (int64_t i = 0; same && i < a->n_children; i++) {
        same = same_type(a->children[i], b->children[i]);
    }
    return same;
}

/* Whether each column of `to` is one of the table's as it is. */
static bool plan(lk_alike *alike, const struct ArrowSchema *to)
{
    bool found = true;
    alike->column_count = (size_t)to->n_children;
    alike->columns = calloc(alike->column_count + 1, sizeof *alike->columns);
    LK_ASSERT(alike->columns != NULL);
    for (int64_t i = 0; found && i < to->n_children; i++) {
        int64_t at = lk_schema_find(&alike->view, lk_bytes_of(to->children[i]->name));
        found = at >= 0 && same_type(alike->view.children[at], to->children[i]);
        alike->columns[i].column = (size_t)at;
    }
    return found;
}

static lk_rc read_first(lk_alike *alike, lk_err *err)
{
    struct ArrowArray rows = {0};
    lk_rc             rc = lk_dataset_file(alike->first, 0, 0, &alike->file, err);
    for (size_t i = 0; rc == LK_OK && i < alike->column_count; i++) {
        find_leaves(alike, &alike->columns[i]);
    }
    if (rc == LK_OK) {
        rc = read_rows(alike, alike->first, alike->file, &rows, err);
    }
    if (rc == LK_OK) {
        alike->rows = lk_array_share(&rows);
    }
    return rc;
}

lk_rc lk_alike_new(lk_dataset *first, const struct ArrowSchema *to, lk_alike **out, lk_err *err)
{
    *out = NULL;
    if (!is_small(first)) {
        return LK_OK;
    }
    lk_alike *alike = calloc(1, sizeof *alike);
    LK_ASSERT(alike != NULL);
    alike->first = lk_dataset_ref(first);
    alike->pool = lk_buffer_pool_new(first->env.budget);
    lk_rc rc = lk_view_schema(
        &first->manifest->schema->arrow, (lk_view){.dictionary_values = true}, &alike->view, err);
    bool can = rc == LK_OK && plan(alike, to);
    if (can) {
        rc = read_first(alike, err);
    }
    if (!can || rc != LK_OK) {
        lk_alike_free(alike);
        return rc;
    }
    *out = alike;
    return LK_OK;
}
