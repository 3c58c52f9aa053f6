/* blob.c - see blob.h: the row is found by its id, then its value's place in the data file. */
#include "rollout/blob.h"

#include "arrow/schema.h"
#include "lance/take.h"
#include "lance/value_place.h"
#include "rollout/cell.h"

#include <stdlib.h>

struct lk_rollout_blob {
    lk_dataset      *dataset; /* a reference: it keeps the file */
    lk_value_place   place;
    bool             is_null;
    lk_shared_array *held;  /* of one row with one column, when the value has no place */
    lk_bytes         value; /* in it */
    lk_buf           content_type, checksum;
};

/* -- the row ------------------------------------------------------------------------------------------------------- */

/* Columns of a schema in this order; those that it lacks are left out. */
static size_t find_columns(
    const struct ArrowSchema *schema, const char *const *names, size_t count, size_t *out)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t at = lk_schema_find(schema, lk_bytes_of(names[i]));
        if (at >= 0) {
            out[found++] = (size_t)at;
        }
    }
    return found;
}

static void keep_text(const struct ArrowSchema *schema, const struct ArrowArray *batch, int64_t row,
    const char *name, lk_buf *out)
{
    int64_t at = lk_schema_find(schema, lk_bytes_of(name));
    if (at >= 0 && strcmp(schema->children[at]->format, "u") == 0 &&
        lk_cell_valid(batch->children[at], row)) {
        lk_buf_append_bytes(out, lk_cell_text(batch->children[at], row));
    }
}

static void keep_texts(
    lk_rollout_blob *blob, const struct ArrowSchema *schema, const struct ArrowArray *batch, int64_t row)
{
    keep_text(schema, batch, row, "content_type", &blob->content_type);
    keep_text(schema, batch, row, "payload_checksum", &blob->checksum);
}

/* The first row of a stream whose last column is the address. */
static lk_rc first_row(
    lk_batches *batches, lk_rollout_blob *blob, uint64_t *address, bool *found, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (bool more = true; rc == LK_OK && more && !*found;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        if (more && batch.length > 0) {
            const struct ArrowArray *addresses = batch.children[batch.n_children - 1];
            *address = ((const uint64_t *)addresses->buffers[1])[addresses->offset];
            keep_texts(blob, &batches->schema, &batch, 0);
            *found = true;
        }
        lk_array_release(&batch);
    }
    return rc;
}

static lk_rc find_in_base(lk_rollout_blob *blob, lk_rollout_snapshot *snapshot, lk_bytes id,
    lk_cancel *cancel, uint64_t *address, bool *found, lk_err *err)
{
    static const char *const names[] = {"content_type", "payload_checksum"};
    size_t                   columns[2];
    lk_batches              *batches = NULL;
    blob->dataset = lk_dataset_ref(snapshot->base);
    const struct ArrowSchema *schema = lk_dataset_schema(snapshot->base);
    const lk_value            value = {.kind = LK_VALUE_BYTES, .as.bytes = id};
    const lk_predicate        same = {.kind = LK_PREDICATE_COMPARE,
               .column = (size_t)lk_schema_find(schema, LK_LITERAL("id")),
               .compare = LK_EQ,
               .values = &value,
               .value_count = 1};
    const lk_scan_options     options = {.columns = columns,
            .column_count = find_columns(schema, names, 2, columns),
            .meta = LK_META_ROW_ADDRESS,
            .dictionary_values = true,
            .predicate = &same,
            .limit = 1,
            .cancel = cancel};
    lk_rc                     rc = lk_dataset_scan(snapshot->base, &options, &batches, err);
    if (rc == LK_OK) {
        rc = first_row(batches, blob, address, found, err);
    }
    lk_batches_close(batches);
    return rc;
}

static lk_rc find_in_source(
    lk_rollout_blob *blob, const lk_rollout_place *place, uint64_t *address, lk_err *err)
{
    lk_err opening = {0};
    lk_rc  rc = lk_rollout_rows_dataset(place->rows, &blob->dataset, &opening);
    if (rc == LK_E_NOT_FOUND) {
        return lk_refuse(err, LK_E_SNAPSHOT_GONE,
            "the payload's generation was merged and collected since this snapshot: read it from a new one");
    }
    if (rc != LK_OK) {
        *err = opening;
        return rc;
    }
    *address = place->rows->addresses[place->row];
    keep_texts(blob, place->rows->schema, lk_shared_array_get(place->rows->batch), (int64_t)place->row);
    return LK_OK;
}

/* -- the value ------------------------------------------------------------------------------------------------------ */

/* A value without a place: small, or compressed by other software. */
static lk_rc hold(lk_rollout_blob *blob, size_t column, uint64_t address, lk_cancel *cancel, lk_err *err)
{
    const lk_take_rows    rows = {LK_TAKE_ADDRESS, &address, 1};
    const lk_scan_options options = {
        .columns = &column, .column_count = 1, .limit = UINT64_MAX, .cancel = cancel};
    lk_batches       *batches = NULL;
    struct ArrowArray batch = {0};
    lk_rc             rc = lk_dataset_take(blob->dataset, &rows, &options, &batches, err);
    if (rc == LK_OK) {
        rc = lk_batches_next(batches, &batch, err);
    }
    if (rc == LK_OK && batch.length != 1) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "the row of a payload is gone");
    }
    if (rc == LK_OK) {
        bool large = strcmp(batches->schema.children[0]->format, "Z") == 0;
        blob->held = lk_array_share(&batch);
        const struct ArrowArray *values = lk_shared_array_get(blob->held)->children[0];
        blob->is_null = !lk_cell_valid(values, 0);
        if (!blob->is_null) {
            blob->value = large ? lk_cell_large(values, 0) : lk_cell_text(values, 0);
        }
    }
    lk_array_release(&batch);
    lk_batches_close(batches);
    return rc;
}

static lk_rc find_value(lk_rollout_blob *blob, uint64_t address, lk_cancel *cancel, lk_err *err)
{
    const struct ArrowSchema *schema = lk_dataset_schema(blob->dataset);
    int64_t                   column = lk_schema_find(schema, LK_LITERAL("binary_payload"));
    if (column < 0) {
        blob->is_null = true; /* a table whose writers have no payloads */
        return LK_OK;
    }
    const char *format = schema->children[column]->format;
    if (strcmp(format, "Z") != 0 && strcmp(format, "z") != 0) {
        return lk_refuse(err, LK_E_UNSUPPORTED_FORMAT, "binary_payload of this store is no binary column");
    }
    lk_rc rc = lk_value_place_find(blob->dataset, address, (size_t)column, &blob->place, err);
    blob->is_null = blob->place.null;
    return rc == LK_OK && !blob->is_null && !blob->place.plain
               ? hold(blob, (size_t)column, address, cancel, err)
               : rc;
}

/* -- life ------------------------------------------------------------------------------------------------------------ */

lk_rc lk_rollout_blob_open(lk_rollout_snapshot *snapshot, lk_bytes id, lk_cancel *cancel,
    lk_rollout_blob **out, bool *found, lk_err *err)
{
    lk_rollout_place place = {0};
    uint64_t         address = 0;
    lk_rc            rc = LK_OK;
    lk_rollout_blob *blob = calloc(1, sizeof *blob);
    LK_ASSERT(blob != NULL);
    *out = NULL;
    *found = lk_rollout_snapshot_place(snapshot, id, &place);
    if (*found) {
        rc = find_in_source(blob, &place, &address, err);
    } else if (lk_rollout_snapshot_has_base(snapshot)) {
        rc = find_in_base(blob, snapshot, id, cancel, &address, found, err);
    }
    if (rc == LK_OK && *found) {
        rc = find_value(blob, address, cancel, err);
    }
    if (rc != LK_OK || !*found) {
        lk_rollout_blob_close(blob);
        return rc;
    }
    *out = blob;
    return LK_OK;
}

void lk_rollout_blob_close(lk_rollout_blob *blob)
{
    if (blob == NULL) {
        return;
    }
    lk_value_place_deinit(&blob->place);
    lk_shared_array_unref(blob->held);
    lk_dataset_unref(blob->dataset);
    lk_buf_deinit(&blob->content_type);
    lk_buf_deinit(&blob->checksum);
    free(blob);
}

bool lk_rollout_blob_is_null(const lk_rollout_blob *blob)
{
    return blob->is_null;
}

uint64_t lk_rollout_blob_size(const lk_rollout_blob *blob)
{
    return blob->place.plain ? blob->place.size : blob->value.size;
}

lk_bytes lk_rollout_blob_content_type(const lk_rollout_blob *blob)
{
    return lk_buf_view(&blob->content_type);
}

lk_bytes lk_rollout_blob_checksum(const lk_rollout_blob *blob)
{
    return lk_buf_view(&blob->checksum);
}

lk_rc lk_rollout_blob_read(lk_rollout_blob *blob, uint64_t offset, void *out, size_t size, lk_err *err)
{
    if (blob->place.plain) {
        return lk_value_place_read(&blob->place, offset, out, size, err);
    }
    LK_ASSERT(offset <= blob->value.size && size <= blob->value.size - offset);
    if (size > 0) {
        memcpy(out, blob->value.data + offset, size);
    }
    return LK_OK;
}
