/*
 * row_column.c - row ids and versions that grew too long for the manifest: a hidden uint64 column of one of the
 * fragment's data files (field ids -3, -4, -5).
 */
#include "arrow/schema.h"
#include "lance/row_identity.h"
#include "lance/row_ids.h"

static lk_rc find_column(
    lk_dataset *dataset, size_t fragment, int32_t field_id, lk_field_source *out, lk_err *err)
{
    size_t  file = 0;
    int32_t column = -1;
    if (!lk_fragment_find(&dataset->manifest->fragments[fragment], field_id, &file, &column) || column < 0) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "no data file holds the hidden field %d", field_id);
    }
    lk_rc rc = lk_dataset_file(dataset, fragment, file, &out->file, err);
    out->column = (size_t)column;
    if (rc == LK_OK && out->column >= lk_file_reader_column_count(out->file)) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "the hidden field %d is in column %d of %zu", field_id, column,
            lk_file_reader_column_count(out->file));
    }
    return rc;
}

static lk_rc decode_column(
    lk_dataset *dataset, size_t fragment, int32_t field_id, struct ArrowArray *out, lk_err *err)
{
    struct ArrowSchema schema = {0};
    lk_field_source    source = {.field = &schema};
    lk_row_range       all = {0, dataset->manifest->fragments[fragment].physical_rows};
    lk_buffer_pool    *pool = lk_buffer_pool_new(dataset->env.budget);
    lk_rc              rc = lk_column_parse(LK_LITERAL("hidden:uint64"), &schema, err);
    if (rc == LK_OK) {
        rc = find_column(dataset, fragment, field_id, &source, err);
    }
    if (rc == LK_OK) {
        rc = lk_file_decode(&source, &all, 1, pool, out, err);
    }
    if (rc == LK_OK && out->null_count != 0) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "the hidden field %d has nulls", field_id);
    }
    lk_dataset_source_close(&source);
    lk_schema_release(&schema);
    lk_buffer_pool_close(pool);
    return rc;
}

static void encode_ids(const uint64_t *values, size_t count, lk_buf *out)
{
    lk_id_list ids = {0};
    lk_id_list_add(&ids, values, count);
    lk_id_list_encode(&ids, out);
    lk_id_list_deinit(&ids);
}

static void encode_versions(const uint64_t *values, size_t count, lk_buf *out)
{
    lk_version_list versions = {0};
    for (size_t row = 0; row < count; row++) {
        lk_version_list_add(&versions, values[row], 1);
    }
    lk_version_list_encode(&versions, out);
    lk_version_list_deinit(&versions);
}

lk_rc lk_row_column_read(
    lk_dataset *dataset, size_t fragment, int32_t field_id, lk_arena *arena, lk_bytes *out, lk_err *err)
{
    struct ArrowArray column = {0};
    lk_buf            message = {0};
    lk_rc             rc = decode_column(dataset, fragment, field_id, &column, err);
    if (rc == LK_OK) {
        const uint64_t *values = (const uint64_t *)column.buffers[1] + column.offset;
        (field_id == LK_FIELD_ROW_IDS ? encode_ids : encode_versions)(
            values, (size_t)column.length, &message);
        *out = lk_arena_copy(arena, lk_buf_view(&message));
    }
    if (column.release != NULL) {
        lk_array_release(&column);
    }
    lk_buf_deinit(&message);
    return rc;
}
