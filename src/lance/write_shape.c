/* write_shape.c - see write_shape.h: opening, dictionaries, and the pages of all of them. */
#include "lance/write_shape.h"

#include "arrow/bits.h"
#include "lance/packed.h"
#include "lance/write_page_priv.h"

#include <stdio.h>

enum {
    DESCRIPTOR_BYTES = 16,                  /* of a blob before 2.2 */
    DICTIONARY_BYTES_MAX = 32 * 1024 * 1024 /* of values that wait; then a new dictionary begins */
};

/* -- open ------------------------------------------------------------------------------------------ */
static lk_rc refuse(const struct ArrowSchema *field, const char *what, lk_err *err)
{
    const char *name = field->name == NULL ? "" : field->name;
    lk_rc       rc = lk_fail(err, LK_E_INVALID_SCHEMA, "column %s: %s", name, what);
    lk_detail(err, "column %s: %s", name, what);
    return rc;
}

/* width 0: rows of variable size. */
static void store_bytes(lk_write_shape *self, uint32_t width)
{
    (void)snprintf(self->format, sizeof self->format, width == 0 ? "z" : "w:%u", width);
    self->made =
        (struct ArrowSchema){.format = self->format, .name = self->field->name, .flags = ARROW_FLAG_NULLABLE};
}

/* The reference parses the value's name up to the next colon: types with one in their name cannot be values. */
static bool plain_name(const lk_type *type)
{
    return type->id != LK_TYPE_NULL && !lk_type_is_decimal(type->id) && type->id != LK_TYPE_FIXED_BINARY &&
           (type->id <= LK_TYPE_FLOAT64 || lk_type_is_bytes(type->id));
}

static lk_rc open_dictionary(lk_write_shape *self, lk_err *err)
{
    const struct ArrowSchema *field = self->field;
    lk_type                   index, value;
    self->kind = LK_SHAPE_DICTIONARY;
    self->made =
        (struct ArrowSchema){.format = field->format, .name = field->name, .flags = ARROW_FLAG_NULLABLE};
    if (!lk_type_of(&self->made, &index) || !lk_type_is_integer(index.id) ||
        !lk_type_of(field->dictionary, &value) || value.dictionary || !plain_name(&value)) {
        return refuse(field,
            "a dictionary column holds numbers, booleans, texts or bytes; store these as plain values", err);
    }
    unsigned bits = index.width * 8 - lk_type_is_signed(index.id);
    self->values_max = bits >= 31 ? INT32_MAX : (uint64_t)1 << bits;
    return LK_OK;
}

static lk_rc open_blob(lk_write_shape *self, uint32_t file_minor, bool in_list, lk_err *err)
{
    static const char *const  members[] = {"data", "uri", "position", "size"};
    const struct ArrowSchema *field = self->field;
    bool new = lk_is_blob_v2(field);
    self->kind = new ? LK_SHAPE_BLOB_2_2 : LK_SHAPE_BLOB_2_1;
    if (new &&file_minor < 2) {
        return refuse(field, "blobs of the extension lance.blob.v2 need a table of file version 2.2", err);
    }
    if (!new &&file_minor >= 2) {
        return refuse(field, "blobs in files of version 2.2 are columns of the extension lance.blob.v2", err);
    }
    if (!new && (in_list || field->format[0] != 'Z')) {
        return refuse(field,
            "files of version 2.1 hold blobs of large binary outside of lists; create the table with file "
            "version 2.2",
            err);
    }
    if (!new) {
        store_bytes(self, DESCRIPTOR_BYTES);
        return LK_OK;
    }
    bool shaped = field->n_children == 2 || field->n_children == 4;
    for (int64_t child = 0; shaped && child < field->n_children; child++) {
        static const char *const formats[] = {"Z", "u", "L", "L"};
        shaped = strcmp(field->children[child]->name, members[child]) == 0 &&
                 strcmp(field->children[child]->format, formats[child]) == 0;
    }
    if (!shaped) {
        return refuse(field,
            "a blob is a struct of data: large binary and uri: string, or with position and size", err);
    }
    store_bytes(self, 0);
    struct ArrowSchema descriptor;
    lk_rc              rc = lk_blob_descriptor_schema(field, file_minor, &descriptor, err);
    if (rc == LK_OK) {
        rc = lk_packed_encoding(&descriptor, file_minor, &self->arena, &self->encoding, err);
        descriptor.release(&descriptor);
    }
    return rc;
}

lk_rc lk_write_shape_open(
    lk_write_shape *self, const struct ArrowSchema *field, uint32_t file_minor, bool in_list, lk_err *err)
{
    *self = (lk_write_shape){.field = field};
    if (lk_is_blob(field)) {
        return open_blob(self, file_minor, in_list, err);
    }
    if (lk_is_packed(field)) {
        self->kind = LK_SHAPE_PACKED;
        store_bytes(self, lk_packed_row_bits(field, false) / 8);
        return lk_packed_encoding(field, file_minor, &self->arena, &self->encoding, err);
    }
    return field->dictionary != NULL ? open_dictionary(self, err) : LK_OK;
}

void lk_write_shape_close(lk_write_shape *self)
{
    lk_distinct_deinit(&self->values);
    lk_buf_deinit(&self->validity);
    lk_buf_deinit(&self->fixed);
    lk_buf_deinit(&self->offsets);
    lk_buf_deinit(&self->bytes);
    lk_arena_close(&self->arena);
}

size_t lk_write_shape_capacity(const lk_write_shape *self)
{
    return lk_distinct_capacity(&self->values) + self->validity.capacity + self->fixed.capacity +
           self->offsets.capacity + self->bytes.capacity;
}

void lk_write_shape_options(const lk_write_shape *self, lk_field_options *options)
{
    if (self->kind != LK_SHAPE_PLAIN) {
        options->compression = self->kind == LK_SHAPE_DICTIONARY ? LK_COMPRESSION_AUTO : LK_COMPRESSION_NONE;
        options->structure = LK_STRUCTURE_AUTO;
    }
}

/* -- dictionaries ---------------------------------------------------------------------------------------- */
bool lk_write_shape_full(const lk_write_shape *self, const lk_shape_rows *rows)
{
    if (self->kind != LK_SHAPE_DICTIONARY || self->values.count == 0) {
        return false;
    }
    const struct ArrowArray *values = rows->array->dictionary;
    uint64_t                 more = (uint64_t)(values == NULL ? rows->count : values->length);
    more = more < self->values_max ? more : self->values_max;
    return self->values.count + more > self->values_max || self->values.bytes.size > DICTIONARY_BYTES_MAX;
}

void lk_write_shape_reset(lk_write_shape *self)
{
    lk_distinct_clear(&self->values);
}

static bool is_valid(const struct ArrowArray *array, int64_t row)
{
    return array->null_count == 0 || array->buffers[0] == NULL || lk_bit(array->buffers[0], row);
}

/* Value `row` (absolute) of a plain array. */
static lk_bytes value_at(const struct ArrowArray *array, const lk_type *type, int64_t row)
{
    static const char booleans[] = {0, 1};
    if (type->layout == LK_LAYOUT_BITS) {
        return (lk_bytes){&booleans[lk_bit(array->buffers[1], row)], 1};
    }
    if (type->layout == LK_LAYOUT_FIXED) {
        return (lk_bytes){(const char *)array->buffers[1] + (size_t)row * type->width, type->width};
    }
    size_t   width = type->layout == LK_LAYOUT_BYTES32 ? 4 : 8;
    uint64_t start = 0, end = 0;
    memcpy(&start, (const uint8_t *)array->buffers[1] + (size_t)row * width, width);
    memcpy(&end, (const uint8_t *)array->buffers[1] + (size_t)(row + 1) * width, width);
    return (lk_bytes){(const char *)array->buffers[2] + start, (size_t)(end - start)};
}

static void clear_bit(lk_buf *bits, int64_t row)
{
    bits->data[row / 8] = (char)((uint8_t)bits->data[row / 8] & ~(1U << (row % 8)));
}

/* Where a row's value is: in the array itself, or in its dictionary; false: null. */
static bool find_value(const lk_shape_rows *rows, const lk_type *index, int64_t row, int64_t *at)
{
    const struct ArrowArray *values = rows->array->dictionary;
    *at = rows->start + row;
    if (values == NULL) {
        return true;
    }
    uint64_t number = 0;
    memcpy(&number, (const uint8_t *)rows->array->buffers[1] + (size_t)*at * index->width, index->width);
    *at = (int64_t)number + values->offset;
    return number < (uint64_t)values->length && is_valid(values, *at);
}

static lk_rc number_rows(lk_write_shape *self, const lk_shape_rows *rows, lk_err *err)
{
    const struct ArrowArray *values = rows->array->dictionary == NULL ? rows->array : rows->array->dictionary;
    lk_type                  index, value;
    (void)lk_type_of(&self->made, &index);
    (void)lk_type_of(self->field->dictionary, &value);
    lk_buf_append_zeros(&self->fixed, (size_t)rows->count * index.width);
    for (int64_t row = 0; row < rows->count; row++) {
        int64_t at = 0;
        if (!lk_bit((const uint8_t *)self->validity.data, row)) {
            continue;
        }
        if (!find_value(rows, &index, row, &at)) {
            clear_bit(&self->validity, row);
            continue;
        }
        uint32_t number = lk_distinct_add(&self->values, value_at(values, &value, at));
        if (number >= self->values_max) {
            lk_rc rc = lk_fail(err, LK_E_LIMIT, "more distinct values than the index type can number");
            lk_detail(err,
                "column '%s': more than %llu distinct values in one batch, which its index type cannot "
                "number",
                self->field->name == NULL ? "" : self->field->name, (unsigned long long)self->values_max);
            return rc;
        }
        memcpy(self->fixed.data + (size_t)row * index.width, &number, index.width < 4 ? index.width : 4);
    }
    return LK_OK;
}

/* -- rows as they are stored ------------------------------------------------------------------------------- */
/* Bits of the rows that are there: neither they nor a struct around them is null. */
static void mark_valid(lk_write_shape *self, const lk_shape_rows *rows)
{
    lk_buf_clear(&self->validity);
    lk_buf_append_zeros(&self->validity, (size_t)rows->count / 8 + 1);
    for (int64_t row = 0; row < rows->count; row++) {
        bool valid = is_valid(rows->array, rows->start + row);
        for (size_t parent = 0; valid && parent < rows->parent_count; parent++) {
            valid = is_valid(rows->parents[parent].array, lk_leaf_parent_row(&rows->parents[parent], row));
        }
        self->validity.data[row / 8] =
            (char)((uint8_t)self->validity.data[row / 8] | (unsigned)valid << (row % 8));
    }
}

lk_rc lk_write_shape_convert(lk_write_shape *self, const lk_shape_rows *rows, lk_blob_writer *blobs,
    struct ArrowArray *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    mark_valid(self, rows);
    lk_buf_clear(&self->fixed);
    lk_buf_clear(&self->offsets);
    lk_buf_clear(&self->bytes);
    const uint8_t *validity = (const uint8_t *)self->validity.data;
    bool           fixed = self->kind == LK_SHAPE_DICTIONARY || self->made.format[0] == 'w';
    lk_buf        *bytes = fixed ? &self->fixed : &self->bytes;
    if (self->kind == LK_SHAPE_DICTIONARY) {
        rc = number_rows(self, rows, err);
    } else if (self->kind == LK_SHAPE_PACKED) {
        rc = lk_packed_rows(self->field, rows, validity, lk_packed_row_bits(self->field, false) / 8, bytes,
            &self->offsets, err);
    } else {
        rc = lk_blob_rows(blobs, self->field, rows, validity, bytes, &self->offsets, err);
    }
    self->pointers[0] = self->validity.data;
    self->pointers[1] = fixed ? self->fixed.data : self->offsets.data;
    self->pointers[2] = fixed || self->bytes.data == NULL ? "" : self->bytes.data;
    *out = (struct ArrowArray){
        .length = rows->count, .null_count = -1, .n_buffers = fixed ? 2 : 3, .buffers = self->pointers};
    return rc;
}

/* -- pages ----------------------------------------------------------------------------------------- */
/* The numbers of the waiting rows become those of the values that occur among them, in `local`. */
static void number_locally(const lk_write_shape *self, lk_leaf *leaf, lk_distinct *local)
{
    size_t width = leaf->row_bits / 8;
    lk_buf numbers = {0};
    lk_buf_append_zeros(&numbers, (size_t)self->values.count * 4);
    for (uint64_t row = 0; row < leaf->rows; row++) {
        char    *at = leaf->values.data + row * width;
        uint64_t number = 0;
        if (leaf->has_marks && leaf->marks.data[row] != 0) {
            continue;
        }
        memcpy(&number, at, width);
        uint32_t known = lk_load_u32(numbers.data + number * 4); /* its place + 1 */
        if (known == 0) {
            known = lk_distinct_add(local, lk_distinct_get(&self->values, (uint32_t)number)) + 1;
            lk_store_u32(numbers.data + number * 4, known);
        }
        number = known - 1;
        memcpy(at, &number, width);
    }
    lk_buf_deinit(&numbers);
}

/* Booleans, a byte each, as bits. */
static void pack_bits(lk_distinct *items, lk_buf *bits)
{
    lk_buf_append_zeros(bits, (items->count + 7) / 8);
    for (uint32_t item = 0; item < items->count; item++) {
        unsigned bit = (unsigned)items->bytes.data[item] << (item % 8);
        bits->data[item / 8] = (char)((uint8_t)bits->data[item / 8] | bit);
    }
}

static void dictionary_page(
    const lk_write_shape *self, lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out)
{
    lk_distinct local = {0};
    lk_buf      bits = {0};
    lk_values   numbers = lk_values_of(leaf);
    lk_type     type;
    (void)lk_type_of(self->field->dictionary, &type);
    number_locally(self, leaf, &local);
    if (local.count == 0) { /* no value among the entries that own one: any will do */
        (void)lk_distinct_add(
            &local, (lk_bytes){"\0\0\0\0\0\0\0", type.layout == LK_LAYOUT_FIXED ? type.width : 1});
    }
    lk_values items = {.count = local.count, .bytes = local.bytes.data, .ends = local.ends.data};
    if (type.layout == LK_LAYOUT_BITS) {
        pack_bits(&local, &bits);
        items.bytes = bits.data;
        items.bits = 1;
    } else if (type.layout == LK_LAYOUT_FIXED) {
        items.bits = type.width * 8;
    } else {
        items.offset_bytes = type.layout == LK_LAYOUT_BYTES32 ? 4 : 8;
    }
    lk_page_miniblock(leaf, &numbers, false, &items, map, out);
    lk_buf_deinit(&bits);
    lk_distinct_deinit(&local);
}

/* Descriptors of nulls say at which level they are: above 16 bits of repetition. The page inside has no levels. */
static void blob_page(lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out)
{
    lk_page_layout outer = out->layout;
    for (uint64_t row = 0; leaf->has_marks && row < leaf->rows; row++) {
        uint64_t level = map->of_mark[(uint8_t)leaf->marks.data[row]];
        if (level > 0) {
            lk_store_u64(leaf->values.data + row * DESCRIPTOR_BYTES, level << 16);
            lk_store_u64(leaf->values.data + row * DESCRIPTOR_BYTES + 8, 0);
        }
    }
    const lk_page_levels none = {0};
    bool                 marks = leaf->has_marks;
    leaf->has_marks = false;
    out->layout.layer_count = 1;
    out->layout.layers[0] = LK_LAYER_ALL_VALID_ITEM;
    lk_values words = lk_values_of(leaf);
    lk_page_miniblock(leaf, &words, false, NULL, &none, out);
    leaf->has_marks = marks;
    out->layout.is_blob = true;
    out->layout.outer_layer_count = outer.layer_count;
    memcpy(out->layout.outer_layers, outer.layers, sizeof outer.layers);
    static const lk_packed_field fields[] = {{.bits = 64}, {.bits = 64}};
    lk_encoding                 *packed = lk_page_node(out, LK_ENCODING_PACKED_STRUCT, 0);
    packed->fields = fields;
    packed->field_count = 2;
    packed->values = lk_page_node(out, LK_ENCODING_FLAT, DESCRIPTOR_BYTES * 8);
    out->layout.values = packed;
}

void lk_write_shape_page(lk_write_shape *self, lk_leaf *leaf, uint32_t file_minor, lk_page_out *out)
{
    lk_page_levels map;
    lk_values      rows = lk_values_of(leaf);
    lk_page_begin(leaf, file_minor, out, &map);
    if (self->kind == LK_SHAPE_BLOB_2_1) {
        blob_page(leaf, &map, out);
    } else if (lk_page_without_values(leaf, &map, out)) {
        return;
    } else if (self->kind == LK_SHAPE_DICTIONARY) {
        dictionary_page(self, leaf, &map, out);
    } else if (leaf->offset_bytes > 0) {
        lk_page_fullzip(leaf, &rows, self->encoding, &map, out);
    } else {
        lk_page_miniblock(leaf, &rows, false, NULL, &map, out);
        out->layout.values = self->encoding;
    }
}
