/* v20_wide.c - see v20_wide.h. */
#include "lance/v20_wide.h"

#include "arrow/bits.h"
#include "lance/blob.h"

#include <string.h>

enum { BLOB_ROW_BYTES = 16, PACKED_ROW_BYTES_MAX = 8 * 1024 * 1024 - 1 };

static const uint64_t null_number = UINT64_MAX;

bool lk_v20_is_wide(const struct ArrowSchema *field)
{
    return field->dictionary != NULL || lk_is_packed(field) || lk_is_blob(field);
}

static lk_rc refuse(const struct ArrowSchema *field, const char *what, lk_rc code, lk_err *err)
{
    lk_rc rc = lk_fail(err, code, "%s in a 2.0 file", what);
    lk_detail(err, "column %s: data files of version 2.0 do not store %s",
        field->name == NULL ? "" : field->name, what);
    return rc;
}

/* -- open ------------------------------------------------------------------------------------------ */
/* Bytes of a member; 0: it has no fixed width of whole bytes. */
static uint32_t member_bytes(const struct ArrowSchema *field)
{
    lk_type  type;
    uint64_t items = 1;
    while (lk_type_of(field, &type) && type.layout == LK_LAYOUT_FIXED_LIST && !type.dictionary &&
           type.list_size > 0 && items <= PACKED_ROW_BYTES_MAX) {
        items *= (uint64_t)type.list_size;
        field = field->children[0];
    }
    bool fixed = lk_type_of(field, &type) && type.layout == LK_LAYOUT_FIXED && !type.dictionary;
    return fixed && items * type.width <= PACKED_ROW_BYTES_MAX ? (uint32_t)items * type.width : 0;
}

static lk_rc open_packed(lk_v20_wide *self, lk_err *err)
{
    for (int64_t child = 0; child < self->field->n_children; child++) {
        uint32_t bytes = member_bytes(self->field->children[child]);
        if (bytes == 0 || self->row_bytes + bytes > PACKED_ROW_BYTES_MAX) {
            return refuse(self->field, "packed structs with members that are not of a fixed width",
                LK_E_INVALID_SCHEMA, err);
        }
        self->row_bytes += bytes;
    }
    return self->field->n_children == 0
               ? refuse(self->field, "empty packed structs", LK_E_INVALID_SCHEMA, err)
               : LK_OK;
}

static lk_rc open_values(lk_v20_wide *self, lk_err *err)
{
    const struct ArrowSchema indices = {.format = self->field->format};
    lk_type                  index;
    if (!lk_type_of(&indices, &index) || !lk_type_is_integer(index.id) ||
        self->field->dictionary->dictionary != NULL || self->field->dictionary->n_children > 0 ||
        strcmp(self->field->dictionary->format, "n") == 0) {
        return refuse(self->field, "dictionaries of values that are not plain", LK_E_INVALID_SCHEMA, err);
    }
    unsigned bits = index.width * 8 - lk_type_is_signed(index.id);
    self->row_bytes = index.width;
    self->values_max = bits >= 31 ? INT32_MAX : ((uint64_t)1 << bits) - 1; /* and one for null */
    return lk_leaf_init(&self->items, self->field->dictionary, 1, err);
}

lk_rc lk_v20_wide_open(lk_v20_wide *self, const struct ArrowSchema *field, lk_err *err)
{
    *self = (lk_v20_wide){.field = field};
    if (field->dictionary != NULL) {
        self->kind = LK_V20_WIDE_DICTIONARY;
        return open_values(self, err);
    }
    if (lk_is_packed(field)) {
        self->kind = LK_V20_WIDE_PACKED;
        return open_packed(self, err);
    }
    self->kind = LK_V20_WIDE_BLOB;
    self->row_bytes = BLOB_ROW_BYTES;
    return strcmp(field->format, "Z") == 0
               ? LK_OK
               : refuse(field, "blobs that are not large binary", LK_E_INVALID_SCHEMA, err);
}

void lk_v20_wide_close(lk_v20_wide *self)
{
    lk_buf_deinit(&self->bytes);
    lk_distinct_deinit(&self->values);
    lk_leaf_deinit(&self->items);
}

void lk_v20_wide_clear(lk_v20_wide *self)
{
    lk_buf_clear(&self->bytes);
    lk_distinct_clear(&self->values);
    lk_leaf_clear(&self->items);
    self->rows = self->nulls = 0;
}

size_t lk_v20_wide_capacity(const lk_v20_wide *self)
{
    return self->bytes.capacity + lk_distinct_capacity(&self->values) + lk_leaf_capacity(&self->items);
}

int64_t lk_v20_wide_room(const lk_v20_wide *self, int64_t count, size_t page_bytes)
{
    uint64_t used = self->rows * self->row_bytes + self->values.bytes.size;
    uint64_t rows = used >= page_bytes ? 0 : (page_bytes - used) / self->row_bytes;
    rows = rows == 0 && self->rows == 0 ? 1 : rows;
    return rows < (uint64_t)count ? (int64_t)rows : count;
}

/* -- packed structs -------------------------------------------------------------------------------- */
static bool has_null(const struct ArrowArray *array, int64_t start, int64_t count)
{
    const uint8_t *bits = array->n_buffers > 0 && array->null_count != 0 ? array->buffers[0] : NULL;
    return bits != NULL && lk_bits_count(bits, start, count) != count;
}

/* A member's bytes into its place in every row. */
static lk_rc put_member(lk_v20_wide *self, const struct ArrowSchema *field, const struct ArrowArray *array,
    int64_t start, int64_t count, size_t at, lk_err *err)
{
    size_t  bytes = member_bytes(field);
    int64_t first = start, some = count;
    lk_type type;
    bool    null = has_null(array, first, some);
    while (lk_type_of(field, &type) && type.layout == LK_LAYOUT_FIXED_LIST) {
        array = array->children[0];
        field = field->children[0];
        first = first * type.list_size + array->offset;
        some *= type.list_size;
        if (first + some > array->length + array->offset) {
            return lk_fail(err, LK_E_INVALID_IPC, "a fixed-size list has fewer items than rows");
        }
        null = null || has_null(array, first, some);
    }
    if (null) {
        return refuse(self->field, "packed structs with nulls in them", LK_E_SCHEMA_MISMATCH, err);
    }
    const char *from = (const char *)array->buffers[1] + (size_t)first * type.width;
    char       *to = self->bytes.data + self->rows * self->row_bytes + at;
    for (int64_t row = 0; row < count; row++) {
        memcpy(to + (size_t)row * self->row_bytes, from + (size_t)row * bytes, bytes);
    }
    return LK_OK;
}

static lk_rc append_packed(
    lk_v20_wide *self, const struct ArrowArray *array, int64_t start, int64_t count, lk_err *err)
{
    size_t at = 0;
    lk_rc  rc = has_null(array, start, count) ? refuse(self->field, "null structs", LK_E_SCHEMA_MISMATCH, err)
                                              : LK_OK;
    lk_buf_append_zeros(&self->bytes, (size_t)count * self->row_bytes);
    for (int64_t child = 0; rc == LK_OK && child < self->field->n_children; child++) {
        const struct ArrowArray *member = array->children[child];
        rc = put_member(self, self->field->children[child], member, start + member->offset, count, at, err);
        at += member_bytes(self->field->children[child]);
    }
    return rc;
}

/* -- blobs ----------------------------------------------------------------------------------------- */
static lk_rc append_blobs(lk_v20_wide *self, const struct ArrowArray *array, int64_t start, int64_t count,
    const lk_page_sink *sink, lk_err *err)
{
    const uint8_t *bits = array->null_count != 0 ? array->buffers[0] : NULL;
    const int64_t *offsets = array->buffers[1];
    lk_rc          rc = LK_OK;
    for (int64_t row = start; rc == LK_OK && row < start + count; row++) {
        bool     valid = lk_bit_or_one(bits, row);
        lk_bytes blob = {0};
        uint64_t pair[2] = {!valid, 0};
        if (valid && offsets[row + 1] > offsets[row]) {
            blob.data = (const char *)array->buffers[2] + offsets[row];
            pair[1] = blob.size = (size_t)(offsets[row + 1] - offsets[row]);
            rc = sink->put(sink->context, blob, &pair[0], err);
        }
        lk_buf_append(&self->bytes, pair, sizeof pair);
    }
    return rc;
}

/* -- dictionaries ------------------------------------------------------------------------------------ */
/* The bytes of a value; of a boolean, one. Its array's width is that of the items. */
static lk_bytes value_at(const lk_v20_wide *self, const struct ArrowArray *values, int64_t index, char *flag)
{
    int64_t at = index + values->offset;
    if (self->items.type.layout == LK_LAYOUT_BITS) {
        *flag = lk_bit(values->buffers[1], at);
        return (lk_bytes){flag, 1};
    }
    if (self->items.offset_bytes == 0) {
        size_t width = self->items.type.width;
        return (lk_bytes){(const char *)values->buffers[1] + (size_t)at * width, width};
    }
    uint64_t ends[2] = {0, 0};
    for (size_t end = 0; end < 2; end++) {
        const char *offsets = values->buffers[1];
        memcpy(&ends[end], offsets + (size_t)(at + (int64_t)end) * self->items.offset_bytes,
            self->items.offset_bytes);
    }
    const char *text = values->buffers[2];
    return (lk_bytes){ends[1] > ends[0] ? text + ends[0] : "", (size_t)(ends[1] - ends[0])};
}

static lk_rc append_numbers(lk_v20_wide *self, const struct ArrowArray *array, int64_t start, int64_t count,
    int64_t *done, lk_err *err)
{
    const struct ArrowArray *values = array->dictionary;
    const uint8_t           *bits = array->null_count != 0 ? array->buffers[0] : NULL;
    const uint8_t           *valid_values =
        values->n_buffers > 0 && values->null_count != 0 ? values->buffers[0] : NULL;
    for (*done = 0; *done < count && self->values.count < self->values_max; (*done)++) {
        int64_t  row = start + *done;
        uint64_t index = 0, number = null_number;
        char     flag = 0;
        memcpy(&index, (const char *)array->buffers[1] + (size_t)row * self->row_bytes, self->row_bytes);
        if (lk_bit_or_one(bits, row)) {
            if (index >= (uint64_t)values->length) {
                return lk_fail(err, LK_E_INVALID_IPC, "an index beyond its dictionary");
            }
            if (lk_bit_or_one(valid_values, (int64_t)index + values->offset)) {
                number = lk_distinct_add(&self->values, value_at(self, values, (int64_t)index, &flag));
            }
        }
        self->nulls += number == null_number;
        lk_buf_append(&self->bytes, &number, sizeof number);
    }
    return LK_OK;
}

lk_rc lk_v20_wide_append(lk_v20_wide *self, const struct ArrowArray *array, int64_t start, int64_t count,
    const lk_page_sink *sink, int64_t *done, lk_err *err)
{
    lk_rc rc = LK_OK;
    *done = count;
    switch (self->kind) {
    case LK_V20_WIDE_PACKED:
        rc = append_packed(self, array, start, count, err);
        break;
    case LK_V20_WIDE_BLOB:
        rc = append_blobs(self, array, start, count, sink, err);
        break;
    case LK_V20_WIDE_DICTIONARY:
    default:
        rc = append_numbers(self, array, start, count, done, err);
        break;
    }
    self->rows += (uint64_t)*done;
    return rc;
}

/* -- pages ----------------------------------------------------------------------------------------- */
/* The items as rows of a leaf, behind them a null if there are any. */
static void fill_items(lk_v20_wide *self)
{
    lk_leaf *items = &self->items;
    uint32_t count = self->values.count;
    bool     bits = items->type.layout == LK_LAYOUT_BITS;
    for (uint32_t number = 0; number < count; number++) {
        lk_bytes value = lk_distinct_get(&self->values, number);
        if (bits && number % 8 == 0) {
            lk_buf_append_zeros(&items->values, 1);
        }
        if (bits) {
            unsigned kept = (uint8_t)items->values.data[number / 8];
            items->values.data[number / 8] = (char)(kept | (unsigned)value.data[0] << (number % 8));
            continue;
        }
        lk_buf_append_bytes(&items->values, value);
        uint64_t end = items->values.size;
        if (items->offset_bytes > 0) {
            lk_buf_append(&items->ends, &end, sizeof end);
        }
    }
    items->rows = count;
    if (self->nulls > 0) {
        lk_leaf_append_null(items);
    }
}

static void put_indices(const lk_v20_wide *self, lk_buf *out)
{
    for (uint64_t row = 0; row < self->rows; row++) {
        uint64_t number = lk_load_u64(self->bytes.data + row * 8);
        number = number == null_number ? self->values.count : number;
        lk_buf_append(out, &number, self->row_bytes);
    }
}

void lk_v20_wide_page(lk_v20_wide *self, lk_v20_page_out *out)
{
    if (self->kind == LK_V20_WIDE_DICTIONARY) {
        fill_items(self);
        put_indices(self, lk_v20_page_indices(out));
        lk_v20_page_dictionary(&self->items, self->row_bytes * 8, out);
    } else {
        lk_v20_page_packed(self->kind == LK_V20_WIDE_BLOB ? NULL : self->field, &self->bytes, out);
    }
}
