/* base_table.c - see base_table.h. */
#include "rollout/base_table.h"
#include "rollout/generation.h"

#include "arrow/cast.h"
#include "arrow/schema.h"
#include "lance/mem_wal.h"

#include <inttypes.h>
#include <stdlib.h>

/* -- what a table must be ---------------------------------------------------------------------------------------- */

/* Columns that a rollout store cannot do without. */
static bool is_required(lk_record_column column)
{
    return column == LK_RECORD_COLUMN_id || column == LK_RECORD_COLUMN_rollout_id;
}

static lk_rc not_ours(lk_err *err, const char *name, const char *what)
{
    return lk_refuse(err, LK_E_UNSUPPORTED_FORMAT, "this is no rollout store: column %.100s %s", name, what);
}

/* Types that are named alike: dictionaries may have any indices. */
static bool same_type(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    lk_buf left = {0}, right = {0};
    lk_type_format(a, &left);
    lk_type_format(b, &right);
    bool same = lk_bytes_equal(lk_buf_view(&left), lk_buf_view(&right));
    lk_buf_deinit(&left);
    lk_buf_deinit(&right);
    return same ||
           (a->dictionary != NULL && b->dictionary != NULL && same_type(a->dictionary, b->dictionary));
}

static lk_rc check_columns(const struct ArrowSchema *table, lk_err *err)
{
    struct ArrowSchema records = {0};
    lk_rc              rc = LK_OK;
    lk_record_schema(true, &records);
    for (lk_record_column column = 0; rc == LK_OK && column < LK_RECORD_COLUMNS; column++) {
        const char *name = lk_record_column_name(column);
        int64_t     at = lk_schema_find(table, lk_bytes_of(name));
        if (at < 0 && is_required(column)) {
            rc = not_ours(err, name, "is missing");
        } else if (at >= 0 && !same_type(table->children[at], records.children[column])) {
            rc = not_ours(err, name, "has another type");
        }
    }
    lk_schema_release(&records);
    return rc;
}

lk_rc lk_base_table_writable(const struct ArrowSchema *table, lk_err *err)
{
    for (int64_t i = 0; i < table->n_children; i++) {
        const struct ArrowSchema *field = table->children[i];
        bool known = lk_record_column_of(lk_bytes_of(field->name), (lk_record_column)i) != LK_RECORD_COLUMNS;
        if (!known && (field->flags & ARROW_FLAG_NULLABLE) == 0) {
            return lk_refuse(err, LK_E_UNSUPPORTED_FORMAT,
                "column %.100s is not nullable, and records do not have it; this store can only be read",
                field->name);
        }
    }
    return LK_OK;
}

/* -- create and open --------------------------------------------------------------------------------------------- */

lk_rc lk_base_table_index(lk_dataset **table, lk_err *err)
{
    lk_dataset *indexed = NULL;
    lk_rc       rc = lk_mem_wal_create(*table, lk_direct_committer(), &indexed, err);
    if (rc == LK_OK) {
        lk_dataset_unref(*table);
        *table = indexed;
    }
    return rc;
}

lk_rc lk_base_table_create(const lk_lance_env *env, bool newer_columns, lk_dataset **out, lk_err *err)
{
    struct ArrowSchema     schema = {0};
    const lk_write_options options = {.file_version = LK_FILE_VERSION_2_1};
    lk_dataset            *table = NULL;
    lk_record_schema(newer_columns, &schema);
    lk_rc rc = lk_dataset_create(env, lk_direct_committer(), &schema, &options, &table, err);
    if (rc == LK_OK) {
        rc = lk_base_table_index(&table, err);
    }
    if (rc == LK_OK) {
        *out = table;
    } else {
        lk_dataset_unref(table);
    }
    lk_schema_release(&schema);
    return rc;
}

lk_rc lk_base_table_open(const lk_lance_env *env, lk_dataset **out, lk_err *err)
{
    lk_dataset *table = NULL;
    lk_rc       rc = lk_dataset_open(env, 0, &table, err);
    if (rc == LK_OK) {
        rc = check_columns(lk_dataset_schema(table), err);
    }
    if (rc != LK_OK) {
        lk_dataset_unref(table);
        return rc;
    }
    *out = table;
    return LK_OK;
}

/* -- rows to the table's columns --------------------------------------------------------------------------------- */

static bool all_null(const struct ArrowArray *array, int64_t offset, int64_t length)
{
    const uint8_t *valid = array->n_buffers > 0 ? array->buffers[0] : NULL;
    if (array->null_count == array->length || length == 0) {
        return true;
    }
    for (int64_t i = 0; i < length; i++) {
        if (valid == NULL || ArrowBitGet(valid, array->offset + offset + i) != 0) {
            return false;
        }
    }
    return true;
}

/* Columns of the batch that the table has, by index; the others must say nothing. */
static lk_rc choose(const struct ArrowSchema *table, const struct ArrowSchema *schema,
    const struct ArrowArray *batch, size_t *chosen, size_t *count, lk_err *err)
{
    *count = 0;
    for (int64_t i = 0; i < schema->n_children; i++) {
        const char *name = schema->children[i]->name;
        if (lk_schema_find(table, lk_bytes_of(name)) >= 0) {
            chosen[(*count)++] = (size_t)i;
        } else if (!all_null(batch->children[i], batch->offset, batch->length)) {
            return lk_refuse(err, LK_E_SCHEMA_MISMATCH, "this store has no column %.100s", name);
        }
    }
    return LK_OK;
}

lk_rc lk_base_table_align(const struct ArrowSchema *table, const struct ArrowSchema *schema,
    lk_shared_array *batch, struct ArrowArray *out, lk_err *err)
{
    const struct ArrowArray *array = lk_shared_array_get(batch);
    if (lk_generation_same_columns(table, schema)) {
        lk_shared_batch_slice(batch, 0, array->length, out);
        return LK_OK;
    }
    size_t             column_count = (size_t)schema->n_children, count = 0;
    size_t            *chosen = calloc(column_count + 1, sizeof *chosen);
    struct ArrowArray *columns = calloc(column_count + 1, sizeof *columns), few = {0};
    struct ArrowSchema few_schema = {0};
    LK_ASSERT(chosen != NULL && columns != NULL);
    lk_rc rc = choose(table, schema, array, chosen, &count, err);
    if (rc == LK_OK) {
        rc = lk_schema_project(schema, chosen, count, &few_schema, err);
    }
    if (rc == LK_OK) {
        for (size_t i = 0; i < count; i++) {
            lk_shared_batch_column(batch, chosen[i], &columns[i]);
        }
        lk_batch_of_columns(columns, count, array->length, &few);
        lk_shared_array *shared = lk_array_share(&few);
        rc = lk_batch_cast(&few_schema, shared, table, 0, out, err);
        lk_shared_array_unref(shared);
    }
    lk_schema_release(&few_schema);
    free(columns);
    free(chosen);
    return rc;
}
