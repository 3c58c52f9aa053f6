/*
 * v20_decode.c - see v20_priv.h: a field of a 2.0 file. Structs are their children side by side (they are never
 * null); leaves are values, or rows of bytes; lists are v20_list.c.
 */
#include "lance/v20_priv.h"

#include <stdlib.h>
#include <string.h>

lk_rc lk_v20_load(lk_page *page, lk_err *err)
{
    lk_rc rc = lk_pb_v20_page(page->meta->encoding, page->meta->buffer_count, &page->arena, &page->v20, err);
    page->v20_key = lk_buffer_key_new() * LK_PAGE_BUFFERS_MAX;
    if (rc == LK_OK && page->v20->kind == LK_V20_FSST) {
        page->fsst = lk_arena_take(&page->arena, sizeof *page->fsst);
        rc = lk_fsst_read_table(page->v20->symbol_table, page->fsst, err);
    }
    return rc;
}

bool lk_v20_holds(const lk_field_source *source)
{
    bool found = source->file != NULL && lk_file_is_v20(source->file);
    for (size_t child = 0; !found && child < source->child_count; child++) {
        found = lk_v20_holds(&source->children[child]);
    }
    return found;
}

/* -- leaves ---------------------------------------------------------------------------------------- */
static lk_rc unfit(lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "a page is encoded for a column of another type");
}

typedef struct leaf {
    lk_shape  shape;
    lk_column column;
} leaf;

/* Rows of bytes: packed structs, and the descriptors of blobs. */
static lk_rc read_packed(const lk_page_rows *rows, const lk_v20_array *array, uint64_t count, lk_err *err)
{
    lk_column         *column = rows->column;
    const lk_v20_array whole = {.kind = LK_V20_FLAT, .bits = column->row_bits, .buffer = array->buffer};
    if (array->kind != LK_V20_PACKED_STRUCT || column->row_bits == 0) {
        return unfit(err);
    }
    lk_rc rc = lk_v20_bytes(
        rows, &whole, rows->ranges, rows->range_count, column->row_bits / 8, lk_column_next(column), err);
    return rc == LK_OK ? lk_v20_complete(column, NULL, count, err) : rc;
}

static lk_rc leaf_page(void *context, lk_page_rows *rows, lk_err *err)
{
    leaf                  *self = context;
    const lk_v20_array    *array = rows->page->v20;
    const lk_field_source *source = self->shape.source;
    uint64_t               before = self->column.rows;
    rows->column = &self->column;
    if (source->kind != LK_COLUMN_PLAIN) {
        lk_rc rc = read_packed(rows, array, lk_v20_row_count(rows), err);
        return rc == LK_OK ? lk_shape_page_end(&self->shape, rows, before, NULL, 0, err) : rc;
    }
    if (self->shape.kind == LK_SHAPE_DICTIONARY) {
        return lk_v20_number(rows, array, &self->shape, err);
    }
    return array->kind == LK_V20_DICTIONARY ? lk_v20_expand(rows, array, !source->is_dictionary, err)
                                            : lk_v20_leaf(rows, array, err);
}

static lk_rc decode_leaf(lk_decoder *self, const lk_field_source *source, struct ArrowArray *out, lk_err *err)
{
    leaf  made = {0};
    lk_rc rc = lk_shape_open(&made.shape, source, false, err);
    if (rc == LK_OK) {
        rc = lk_column_init(&made.column, made.shape.stored, self->rows, self->scratch.pool, NULL, 0, err);
    }
    if (rc == LK_OK) {
        rc = lk_decode_each_page(self, source, leaf_page, &made, err);
    }
    if (rc == LK_OK && made.column.rows != self->rows) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: rows beyond its pages", LK_FMT(source->file->key));
    }
    if (rc == LK_OK) {
        rc = lk_shape_finish(&made.shape, &made.column, out, err);
    }
    lk_column_deinit(&made.column);
    lk_shape_close(&made.shape);
    return rc;
}

/* -- structs --------------------------------------------------------------------------------------- */
static lk_rc decode_struct(
    lk_decoder *decoder, const lk_field_source *source, struct ArrowArray *out, lk_err *err)
{
    struct ArrowArray made = {0};
    lk_rc             rc = LK_OK;
    lk_column_node(&made, decoder->rows, 0, &(lk_buffer){0}, 1, source->child_count);
    for (size_t child = 0; rc == LK_OK && child < source->child_count; child++) {
        const lk_field_source *member = &source->children[child];
        rc = lk_source_present(member)
                 ? lk_decode_ranges(
                       decoder, member, decoder->ranges, decoder->range_count, made.children[child], err)
                 : lk_decode_nulls(decoder, member->field, decoder->rows, made.children[child], err);
    }
    if (rc == LK_OK) {
        *out = made;
    } else {
        made.release(&made);
    }
    return rc;
}

lk_rc lk_v20_decode(lk_decoder *decoder, const lk_field_source *source, struct ArrowArray *out, lk_err *err)
{
    if (source->kind == LK_COLUMN_PLAIN && lk_is_list(source->field)) {
        return lk_v20_list(decoder, source, out, err);
    }
    return lk_source_is_struct(source) ? decode_struct(decoder, source, out, err)
                                       : decode_leaf(decoder, source, out, err);
}
