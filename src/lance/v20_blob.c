/*
 * v20_blob.c - blob columns of 2.0 files: pages of (position, size), 16 bytes a row. Size 0 says empty, and null where
 * the position is not 0: as descriptors such rows are handed out as they are, like the reference does.
 */
#include "lance/shape.h"
#include "lance/v20_priv.h"

enum { DESCRIPTOR_BYTES = 16 };

static lk_rc blob_page(void *context, lk_page_rows *rows, lk_err *err)
{
    lk_leaf_decode     *leaf = context;
    lk_column          *column = leaf->column;
    const lk_v20_array *array = rows->page->v20;
    const lk_v20_array  words = {.kind = LK_V20_FLAT, .bits = DESCRIPTOR_BYTES * 8, .buffer = array->buffer};
    uint64_t            count = lk_v20_row_count(rows), before = column->rows;
    rows->column = column;
    if (array->kind != LK_V20_PACKED_STRUCT || count > column->capacity - before) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a page is encoded for a column of another type");
    }
    lk_rc rc = lk_v20_bytes(
        rows, &words, rows->ranges, rows->range_count, DESCRIPTOR_BYTES, lk_column_next(column), err);
    if (rc == LK_OK) {
        rc = lk_column_valid(column, count, err);
    }
    return rc == LK_OK ? lk_shape_page_end(leaf->shape, rows, before, NULL, 0, err) : rc;
}

lk_rc lk_v20_blob(lk_decoder *decoder, const lk_field_source *source, struct ArrowArray *out, lk_err *err)
{
    lk_shape       shape;
    lk_column      column = {0};
    lk_leaf_decode leaf = {.shape = &shape, .column = &column};
    lk_rc          rc = lk_shape_open(&shape, source, false, err);
    if (rc == LK_OK) {
        rc = lk_column_init(&column, shape.stored, decoder->rows, decoder->scratch.pool, NULL, 0, err);
    }
    if (rc == LK_OK) {
        rc = lk_decode_each_page(decoder, source, blob_page, &leaf, err);
    }
    if (rc == LK_OK && column.rows != decoder->rows) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: rows beyond its pages", LK_FMT(source->file->key));
    }
    if (rc == LK_OK) {
        rc = lk_shape_finish(&shape, &column, out, err);
    }
    lk_column_deinit(&column);
    lk_shape_close(&shape);
    return rc;
}
