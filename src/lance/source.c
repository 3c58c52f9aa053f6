/*
 * source.c - where the rows of a version lie: which store, which data file, which column, and which of them
 * are deleted.
 */
#include "lance/blob.h"
#include "lance/dataset_priv.h"

#include <inttypes.h>
#include <stdlib.h>

/* -- places ------------------------------------------------------------------------------------------ */

static lk_rc open_place(lk_dataset *dataset, const lk_base_path *base, lk_base_store *out, lk_err *err)
{
    if (dataset->env.open_base == NULL) {
        lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "files in %.*s", LK_FMT(base->path));
        lk_detail(err, "rows of this table lie in another one, which cannot be read from here");
        return rc;
    }
    lk_rc rc = dataset->env.open_base(dataset->env.open_base_context, base->path, &out->store, err);
    if (rc == LK_OK) {
        out->files = lk_file_cache_new(out->store, dataset->env.budget, dataset->env.open_files);
    }
    return rc;
}

lk_rc lk_dataset_place(lk_dataset *dataset, const lk_base_path *base, lk_base_store *out, lk_err *err)
{
    if (base == NULL) {
        *out = (lk_base_store){dataset->env.store, dataset->files};
        return LK_OK;
    }
    lk_base_store *slot = &dataset->bases[base - dataset->manifest->bases], opened = {0};
    lk_mutex_lock(&dataset->mutex);
    *out = *slot;
    lk_mutex_unlock(&dataset->mutex);
    if (out->store != NULL) {
        return LK_OK;
    }
    lk_rc rc = open_place(dataset, base, &opened, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_mutex_lock(&dataset->mutex);
    if (slot->store == NULL) { /* nobody was faster */
        *slot = opened;
        opened = (lk_base_store){0};
    }
    *out = *slot;
    lk_mutex_unlock(&dataset->mutex);
    lk_file_cache_unref(opened.files);
    lk_store_close(opened.store);
    return LK_OK;
}

/* A file that the manifest names and that is not there: the version was removed while it was being read. */
static lk_rc gone(lk_rc rc, lk_err *err)
{
    if (rc != LK_E_NOT_FOUND) {
        return rc;
    }
    lk_err cause = *err;
    *err = (lk_err){0};
    return lk_fail(err, LK_E_SNAPSHOT_GONE, "%.*s", (int)cause.len, cause.context);
}

/* -- files and columns ------------------------------------------------------------------------------- */

lk_rc lk_dataset_file(lk_dataset *dataset, size_t fragment, size_t file, lk_file_reader **out, lk_err *err)
{
    lk_arena            arena = {0};
    const lk_fragment  *in = &dataset->manifest->fragments[fragment];
    const lk_data_file *data_file = &in->files[file];
    lk_base_store       place = {0};
    lk_rc               rc = lk_dataset_place(dataset, data_file->base, &place, err);
    if (rc == LK_OK) {
        lk_bytes key = lk_data_file_key(data_file, &arena);
        rc = gone(lk_file_cache_open(place.files, key, data_file->size_bytes, out, err), err);
    }
    if (rc == LK_OK && lk_file_reader_rows(*out) != in->physical_rows) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "data file %.*s has %" PRIu64 " rows, its fragment %" PRIu64,
            LK_FMT(data_file->path), lk_file_reader_rows(*out), in->physical_rows);
        lk_file_reader_unref(*out);
        *out = NULL;
    }
    lk_arena_close(&arena);
    return rc;
}

/* *found = false: the field is in no file of the fragment. */
static lk_rc find_leaf(const lk_dataset *dataset, size_t fragment, const lk_lance_field *field, bool *found,
    size_t *file, size_t *column, lk_err *err)
{
    int32_t at = -1;
    *found = lk_fragment_find(&dataset->manifest->fragments[fragment], field->id, file, &at);
    if (*found && at < 0) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: field %d is listed without a column",
            LK_FMT(dataset->manifest->fragments[fragment].files[*file].path), field->id);
    }
    *column = (size_t)at;
    return LK_OK;
}

static lk_rc leaf_source(
    lk_dataset *dataset, size_t fragment, const lk_lance_field *field, lk_field_source *out, lk_err *err)
{
    size_t file = 0;
    bool   found = false;
    lk_rc  rc = find_leaf(dataset, fragment, field, &found, &file, &out->column, err);
    if (rc != LK_OK || !found) {
        return rc; /* file stays NULL: all null */
    }
    rc = lk_dataset_file(dataset, fragment, file, &out->file, err);
    if (rc == LK_OK && out->column >= lk_file_reader_column_count(out->file)) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: field %d is in column %zu of %zu",
            LK_FMT(lk_file_reader_key(out->file)), field->id, out->column,
            lk_file_reader_column_count(out->file));
    }
    return rc;
}

lk_rc lk_dataset_stats(lk_dataset *dataset, size_t fragment, size_t field, lk_arena *arena, lk_stats **out,
    size_t *column, lk_err *err)
{
    const lk_fragment *in = &dataset->manifest->fragments[fragment];
    lk_base_store      from = {0};
    size_t             file = 0;
    bool               found = false;
    *out = NULL;
    lk_rc rc =
        find_leaf(dataset, fragment, &dataset->manifest->schema->fields[field], &found, &file, column, err);
    if (rc != LK_OK || !found) {
        return rc;
    }
    rc = lk_dataset_place(dataset, in->files[file].base, &from, err);
    if (rc == LK_OK) {
        lk_bytes key = lk_data_file_key(&in->files[file], arena);
        rc = gone(lk_file_cache_stats(from.files, key, in->files[file].size_bytes, out, err), err);
    }
    return rc;
}

static bool is_list(const struct ArrowSchema *field)
{
    return strcmp(field->format, "+l") == 0 || strcmp(field->format, "+L") == 0;
}

/* A list is a column of its own in files of version 2.0. */
static lk_rc list_source(
    lk_dataset *dataset, size_t fragment, const lk_lance_field *field, lk_field_source *out, lk_err *err)
{
    const lk_fragment *in = &dataset->manifest->fragments[fragment];
    size_t             file = 0;
    int32_t            column = -1;
    bool found = lk_fragment_find(in, field->id, &file, &column) && column >= 0 && in->files[file].minor == 0;
    return found ? leaf_source(dataset, fragment, field, out, err) : LK_OK;
}

static lk_column_kind kind_of(const struct ArrowSchema *field)
{
    return lk_is_blob(field) ? LK_COLUMN_BLOB : lk_is_packed(field) ? LK_COLUMN_PACKED : LK_COLUMN_PLAIN;
}

static lk_rc fill_source(lk_dataset *dataset, size_t fragment, size_t field_index,
    const struct ArrowSchema *as, lk_arena *arena, lk_field_source *out, lk_err *err)
{
    const lk_lance_field *fields = dataset->manifest->schema->fields, *field = &fields[field_index];
    *out = (lk_field_source){.field = as,
        .kind = kind_of(field->arrow),
        .is_dictionary = field->arrow->dictionary != NULL,
        .outside = dataset->env.blob_outside};
    if (field->leaf) {
        return leaf_source(dataset, fragment, field, out, err);
    }
    size_t count = (size_t)field->arrow->n_children, child = field_index + 1;
    if (is_list(field->arrow)) {
        lk_rc rc = list_source(dataset, fragment, field, out, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    if (count == 0) {
        size_t  file = 0;
        int32_t column = -1;
        out->listed = lk_fragment_find(&dataset->manifest->fragments[fragment], field->id, &file, &column);
    }
    out->children = lk_arena_take(arena, count * sizeof *out->children);
    for (; out->child_count < count; child = fields[child].end) {
        size_t index = out->child_count++;
        lk_rc  rc =
            fill_source(dataset, fragment, child, as->children[index], arena, &out->children[index], err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

lk_rc lk_dataset_source(lk_dataset *dataset, size_t fragment, size_t field, const struct ArrowSchema *as,
    lk_arena *arena, lk_field_source *out, lk_err *err)
{
    lk_rc rc = fill_source(dataset, fragment, field, as, arena, out, err);
    if (rc != LK_OK) {
        lk_dataset_source_close(out);
        lk_context(err, "fragment %" PRIu64 " of %.*s", dataset->manifest->fragments[fragment].id,
            LK_FMT(dataset->manifest->key));
    }
    return rc;
}

void lk_dataset_source_close(lk_field_source *source)
{
    for (size_t i = 0; i < source->child_count; i++) {
        lk_dataset_source_close(&source->children[i]);
    }
    lk_file_reader_unref(source->file);
    *source = (lk_field_source){0};
}

lk_rc lk_dataset_deletion(lk_dataset *dataset, size_t fragment, const lk_deletion **out, lk_err *err)
{
    const lk_fragment *in = &dataset->manifest->fragments[fragment];
    lk_deletion       *read = NULL;
    *out = NULL;
    if (in->deletion.kind == LK_DELETION_NONE) {
        return LK_OK;
    }
    lk_mutex_lock(&dataset->mutex);
    *out = dataset->deletions[fragment];
    lk_mutex_unlock(&dataset->mutex);
    if (*out != NULL) {
        return LK_OK;
    }
    lk_base_store place = {0};
    lk_rc         rc = lk_dataset_place(dataset, in->deletion.base, &place, err);
    if (rc == LK_OK) {
        rc = gone(lk_deletion_read(place.store, in, &read, err), err);
    }
    if (rc == LK_OK && dataset->env.budget != NULL) {
        rc = lk_budget_take(dataset->env.budget, lk_deletion_bytes(read), err);
    }
    if (rc != LK_OK) {
        lk_deletion_close(read);
        return rc;
    }
    lk_mutex_lock(&dataset->mutex);
    if (dataset->deletions[fragment] == NULL) { /* nobody was faster */
        dataset->deletions[fragment] = read;
        dataset->deletion_bytes += lk_deletion_bytes(read);
        read = NULL;
    }
    *out = dataset->deletions[fragment];
    lk_mutex_unlock(&dataset->mutex);
    if (read != NULL && dataset->env.budget != NULL) {
        lk_budget_give(dataset->env.budget, lk_deletion_bytes(read));
    }
    lk_deletion_close(read);
    return LK_OK;
}
