/* shape.c - see shape.h. */
#include "lance/shape.h"

#include "arrow/bits.h"
#include "lance/blob.h"
#include "lance/decode_priv.h"
#include "lance/view.h"

#include <stdio.h>

enum { BLOB_DESCRIPTOR_BYTES = 16 };

static lk_rc unsupported(const lk_shape *shape, const char *what, lk_err *err)
{
    const char *name = shape->source->field->name == NULL ? "" : shape->source->field->name;
    lk_rc       rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "column %s: %s", name, what);
    lk_detail(err, "column %s: %s", name, what);
    return rc;
}

/* -- open ------------------------------------------------------------------------------------------ */
/* What the pages hold, when it is not what the field says. width 0: rows of variable size. */
static void store_bytes(lk_shape *self, uint32_t width)
{
    (void)snprintf(self->format, sizeof self->format, width == 0 ? "Z" : "w:%u", width);
    self->made = (struct ArrowSchema){
        .format = self->format, .name = self->source->field->name, .flags = ARROW_FLAG_NULLABLE};
    self->stored = &self->made;
}

static lk_rc open_dictionary(lk_shape *self, lk_err *err)
{
    const struct ArrowSchema *field = self->source->field;
    lk_type                   type, index;
    self->kind = LK_SHAPE_DICTIONARY;
    self->made = (struct ArrowSchema){.format = field->format, .name = field->name, .flags = field->flags};
    self->stored = &self->made;
    if (!lk_type_of(&self->made, &index) || !lk_type_is_integer(index.id) ||
        !lk_type_of(field->dictionary, &type) || type.dictionary || field->dictionary->n_children > 0) {
        return unsupported(self, "a dictionary of values that are not plain", err);
    }
    unsigned bits = index.width * 8 - lk_type_is_signed(index.id);
    self->values_max = bits >= 32 ? UINT32_MAX - 1 : (uint64_t)1 << bits;
    return LK_OK;
}

/* What is wanted of a blob column; its field is of the view's type. */
static lk_blob_view wanted(const lk_shape *self)
{
    const struct ArrowSchema *field = self->source->field;
    if (strcmp(field->format, "+s") != 0) {
        return LK_BLOBS_BYTES;
    }
    return strcmp(field->children[0]->name, "data") == 0 ? LK_BLOBS_STORED : LK_BLOBS_DESCRIBED;
}

static lk_rc open_blob(lk_shape *self, bool in_list, lk_err *err)
{
    const lk_field_source *source = self->source;
    lk_file_reader        *file = source->file;
    bool                   old = file != NULL && (lk_file_is_v20(file) || lk_file_reader_minor(file) < 2);
    self->kind = old ? LK_SHAPE_BLOB_2_1 : LK_SHAPE_BLOB_2_2;
    if (old && in_list) {
        return unsupported(
            self, "blobs inside lists in a file of version 2.1, which says nothing of the lists", err);
    }
    store_bytes(self, old ? BLOB_DESCRIPTOR_BYTES : 0);
    if ((wanted(self) == LK_BLOBS_STORED && old) ||
        (wanted(self) == LK_BLOBS_DESCRIBED && source->field->n_children != (old ? 2 : 5))) {
        return unsupported(self, "a blob column in a file of another version than its table's", err);
    }
    return lk_blob_descriptor_schema(source->field, old ? 1 : 2, &self->descriptor, err);
}

lk_rc lk_shape_open(lk_shape *self, const lk_field_source *source, bool in_list, lk_err *err)
{
    *self = (lk_shape){.source = source, .stored = source->field};
    if (source->kind == LK_COLUMN_BLOB) {
        return open_blob(self, in_list, err);
    }
    lk_file_reader *file = source->file;
    if (source->kind == LK_COLUMN_PACKED) {
        self->kind = LK_SHAPE_PACKED;
        store_bytes(self, lk_packed_row_bits(source->field, file != NULL && lk_file_is_v20(file)) / 8);
        return LK_OK;
    }
    return source->field->dictionary != NULL ? open_dictionary(self, err) : LK_OK;
}

void lk_shape_close(lk_shape *self)
{
    lk_distinct_deinit(&self->values);
    lk_buffer_give(&self->numbers);
    lk_buffer_give(&self->validity.bits);
    if (self->descriptor.release != NULL) {
        self->descriptor.release(&self->descriptor);
    }
}

/* -- pages ----------------------------------------------------------------------------------------- */
lk_rc lk_thresholds_of(
    const uint8_t *layers, size_t layer_count, size_t parent_count, lk_thresholds *out, lk_err *err)
{
    unsigned level = 1;
    bool     lists = false;
    for (size_t layer = 0; layer < layer_count; layer++) {
        lists = lists || lk_layer_is_list(layers[layer]);
    }
    if (layer_count != parent_count + 1 || lists) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a page of %zu layers for a column inside %zu structs",
            layer_count, parent_count);
    }
    *out = (lk_thresholds){.leaf = 1};
    for (size_t layer = 0; layer < layer_count; layer++) {
        level += lk_layer_levels(layers[layer]);
        if (layer < parent_count) {
            out->parents[layer] = (uint16_t)level;
        }
    }
    out->max = (uint16_t)(level - 1);
    return LK_OK;
}

lk_rc lk_shape_page_begin(const lk_shape *self, lk_page_rows *rows, lk_err *err)
{
    const lk_page *page = rows->page;
    bool           constant = page->layout.kind == LK_PAGE_CONSTANT;
    bool packed = lk_shape_has_levels(self) && self->stored == &self->made && self->format[0] == 'Z';
    rows->codec = page->codec;
    if (page->layout.is_blob != (self->kind == LK_SHAPE_BLOB_2_1) ||
        (!constant && (page->packed != NULL) != packed)) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a page of another kind of column");
    }
    if (self->kind == LK_SHAPE_DICTIONARY && page->layout.dictionary != NULL) {
        rows->codec = page->codec->inner;
    } else if (self->kind == LK_SHAPE_DICTIONARY && !constant) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a page of a dictionary column without a dictionary");
    }
    if (constant && (page->layout.has_inline_value || page->meta->buffer_count % 2 == 1) &&
        self->kind != LK_SHAPE_PLAIN) {
        return unsupported(self, "a constant page of this kind of column", err);
    }
    return LK_OK;
}

lk_rc lk_shape_number_start(lk_shape *self, lk_buffer_pool *pool, uint64_t items, lk_err *err)
{
    lk_rc rc = lk_buffer_grow(pool, &self->numbers, 0, (size_t)items * 4, err);
    if (rc == LK_OK) {
        memset(self->numbers.data, 0xff, (size_t)items * 4);
    }
    return rc;
}

lk_rc lk_shape_number(lk_shape *self, uint64_t item, lk_bytes value, uint32_t *number, lk_err *err)
{
    *number = lk_load_u32(self->numbers.data + item * 4);
    if (*number != UINT32_MAX) {
        return LK_OK;
    }
    *number = lk_distinct_add(&self->values, value);
    if (*number >= self->values_max) {
        lk_rc rc =
            lk_fail(err, LK_E_LIMIT, "more than %llu distinct values", (unsigned long long)self->values_max);
        lk_detail(err,
            "column %s: a batch has more distinct values than its index type can number; read it as values",
            self->source->field->name == NULL ? "" : self->source->field->name);
        return rc;
    }
    lk_store_u32(self->numbers.data + item * 4, *number);
    return LK_OK;
}

static lk_rc renumber(lk_shape *self, const lk_page_rows *rows, uint64_t before, lk_err *err)
{
    const lk_dictionary *dictionary = rows->page->codec->state;
    lk_column           *column = rows->column;
    size_t               width = column->row_bits / 8;
    const uint8_t       *valid = column->validity.bits.data;
    lk_type              type;
    if (!lk_type_of(self->source->field->dictionary, &type) ||
        dictionary->width != (type.layout == LK_LAYOUT_BITS       ? 1
                                 : type.layout == LK_LAYOUT_FIXED ? type.width
                                                                  : 0)) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a dictionary of other values than its column's");
    }
    lk_rc rc = lk_shape_number_start(self, column->pool, dictionary->count, err);
    for (uint64_t row = before; rc == LK_OK && row < column->rows; row++) {
        uint8_t *at = column->values.data + row * width;
        uint64_t item = 0, number = 0;
        uint32_t found = 0;
        if (valid == NULL || lk_bit(valid, (int64_t)row)) {
            memcpy(&item, at, width);
            item = item < dictionary->count ? item : dictionary->count - 1;
            rc = lk_shape_number(self, item, lk_dictionary_item(dictionary, item), &found, err);
            number = found;
        }
        memcpy(at, &number, width);
    }
    return rc;
}

/* A descriptor of no bytes but with a position says null: its level lies above 16 bits of repetition. */
static lk_rc blob_nulls(lk_shape *self, const lk_page_rows *rows, uint64_t before, lk_validity *parents,
    size_t parent_count, lk_err *err)
{
    const lk_page_layout *layout = &rows->page->layout;
    lk_column            *column = rows->column;
    lk_thresholds         levels;
    lk_rc rc = lk_thresholds_of(layout->outer_layers, layout->outer_layer_count, parent_count, &levels, err);
    for (uint64_t row = before; rc == LK_OK && row < column->rows; row++) {
        uint8_t *at = column->values.data + row * BLOB_DESCRIPTOR_BYTES;
        uint64_t position = lk_load_u64(at);
        bool     null = lk_load_u64(at + 8) == 0 && position != 0;
        uint16_t level = null ? (uint16_t)(position >> 16) : 0;
        if (null && (level == 0 || level > levels.max || position >> 32 != 0)) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "a null blob of level %llu", (unsigned long long)position);
        }
        if (null) {
            memset(at, 0, BLOB_DESCRIPTOR_BYTES);
        }
        rc = lk_validity_append(
            &self->validity, column->pool, column->capacity, row, &level, 1, levels.leaf, err);
        for (size_t parent = 0; rc == LK_OK && parent < parent_count; parent++) {
            rc = lk_validity_append(&parents[parent], column->pool, column->capacity, row, &level, 1,
                levels.parents[parent], err);
        }
    }
    return rc;
}

/* In 2.0 they are null only where their bytes are asked for. */
static lk_rc blob_nulls_2_0(lk_shape *self, const lk_page_rows *rows, uint64_t before, lk_err *err)
{
    lk_column *column = rows->column;
    lk_rc      rc = LK_OK;
    for (uint64_t row = before; rc == LK_OK && wanted(self) == LK_BLOBS_BYTES && row < column->rows; row++) {
        uint8_t *at = column->values.data + row * BLOB_DESCRIPTOR_BYTES;
        uint16_t level = lk_load_u64(at + 8) == 0 && lk_load_u64(at) != 0;
        rc = lk_validity_append(&self->validity, column->pool, column->capacity, row, &level, 1, 1, err);
    }
    return rc;
}

lk_rc lk_shape_page_end(lk_shape *self, const lk_page_rows *rows, uint64_t before, lk_validity *parents,
    size_t parent_count, lk_err *err)
{
    if (self->kind == LK_SHAPE_DICTIONARY && rows->page->layout.dictionary != NULL) {
        return renumber(self, rows, before, err);
    }
    if (self->kind == LK_SHAPE_BLOB_2_1 && rows->page->v20 != NULL) {
        return blob_nulls_2_0(self, rows, before, err);
    }
    return self->kind == LK_SHAPE_BLOB_2_1 ? blob_nulls(self, rows, before, parents, parent_count, err)
                                           : LK_OK;
}

/* -- the array ------------------------------------------------------------------------------------- */
static lk_rc finish_dictionary(lk_shape *self, lk_column *column, struct ArrowArray *out, lk_err *err)
{
    lk_column         values = {0};
    struct ArrowArray dictionary = {0};
    lk_rc             rc = lk_column_init(
                    &values, self->source->field->dictionary, self->values.count, column->pool, NULL, 0, err);
    for (uint32_t number = 0; rc == LK_OK && number < self->values.count; number++) {
        rc = lk_column_put(&values, lk_distinct_get(&self->values, number), err);
        values.rows++;
    }
    if (rc == LK_OK) {
        rc = lk_decode_check_text(&values, err);
    }
    if (rc == LK_OK) {
        lk_column_finish(&values, &dictionary);
        lk_column_finish(column, out);
        lk_column_set_dictionary(out, &dictionary);
    }
    lk_column_deinit(&values);
    return rc;
}

static lk_rc finish_blob(lk_shape *self, lk_column *column, struct ArrowArray *out, lk_err *err)
{
    struct ArrowArray descriptors = {0};
    lk_blob_view      as = wanted(self);
    if (self->validity.bits.data != NULL) {
        lk_buffer_give(&column->validity.bits);
        column->validity = self->validity;
        self->validity = (lk_validity){0};
    }
    lk_rc rc = lk_packed_split(&self->descriptor, column, as == LK_BLOBS_DESCRIBED ? out : &descriptors, err);
    if (rc == LK_OK && as != LK_BLOBS_DESCRIBED) {
        const lk_field_source *source = self->source;
        rc = as == LK_BLOBS_BYTES
                 ? lk_blob_read_all(source->file, source->outside, &descriptors, column->pool, out, err)
                 : lk_blob_read_stored(source->file, source->field, &descriptors, column->pool, out, err);
        descriptors.release(&descriptors);
    }
    return rc;
}

static lk_rc finish(lk_shape *self, lk_column *column, struct ArrowArray *out, lk_err *err)
{
    switch (self->kind) {
    case LK_SHAPE_DICTIONARY:
        return finish_dictionary(self, column, out, err);
    case LK_SHAPE_PACKED:
        return lk_packed_split(self->source->field, column, out, err);
    case LK_SHAPE_BLOB_2_1:
    case LK_SHAPE_BLOB_2_2:
        return finish_blob(self, column, out, err);
    case LK_SHAPE_PLAIN:
    default:
        break;
    }
    lk_rc rc = lk_decode_check_text(column, err);
    if (rc == LK_OK) {
        lk_column_finish(column, out);
    }
    return rc;
}

lk_rc lk_shape_finish(lk_shape *self, lk_column *column, struct ArrowArray *out, lk_err *err)
{
    lk_rc rc = finish(self, column, out, err);
    if (rc != LK_OK && self->source->file != NULL) {
        lk_context(
            err, "column %zu of %.*s", self->source->column, LK_FMT(lk_file_reader_key(self->source->file)));
    }
    return rc;
}
