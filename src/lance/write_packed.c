/* write_packed.c - packed structs (packed.h reads them): which can be stored, and their rows as bytes. */
#include "arrow/bits.h"
#include "arrow/schema.h"
#include "lance/decode_priv.h"
#include "lance/write_shape.h"

enum {
    NESTING_MAX = 8,
    ROW_BYTES_MAX = 256 /* of a fixed row: the reference does not store wider ones */
};

/* -- encodings ---------------------------------------------------------------------------------------- */
static lk_rc refuse(const struct ArrowSchema *field, const char *what, const char *advice, lk_err *err)
{
    const char *name = field->name == NULL ? "" : field->name;
    lk_rc       rc = lk_fail(err, LK_E_INVALID_SCHEMA, "column %s: packed struct with %s", name, what);
    lk_detail(err, "column %s: a packed struct cannot be stored with %s; %s", name, what, advice);
    return rc;
}

static const char unpack[] = "leave lance-encoding:packed out of its metadata";

static lk_encoding *node(lk_arena *arena, lk_encoding_kind kind, uint32_t bits)
{
    lk_encoding *made = lk_arena_take(arena, sizeof *made);
    *made = (lk_encoding){.kind = kind, .bits = bits};
    return made;
}

static lk_rc fixed_encoding(
    const struct ArrowSchema *field, uint32_t row_bits, lk_arena *arena, const lk_encoding **out, lk_err *err)
{
    size_t           count = (size_t)field->n_children;
    lk_packed_field *fields = lk_arena_take(arena, count * sizeof *fields);
    for (size_t index = 0; index < count; index++) {
        lk_type type;
        (void)lk_type_of(field->children[index], &type);
        fields[index] = (lk_packed_field){.bits = type.width * 8};
    }
    if (row_bits / 8 >= ROW_BYTES_MAX) {
        return refuse(field, "members of fixed width of 256 bytes and more together", unpack, err);
    }
    lk_encoding *made = node(arena, LK_ENCODING_PACKED_STRUCT, 0);
    made->fields = fields;
    made->field_count = count;
    made->values = node(arena, LK_ENCODING_FLAT, row_bits);
    *out = made;
    return LK_OK;
}

static lk_rc variable_encoding(
    const struct ArrowSchema *field, unsigned depth, lk_arena *arena, const lk_encoding **out, lk_err *err);

static lk_rc list_encoding(
    const struct ArrowSchema *field, lk_arena *arena, lk_packed_field *out, lk_err *err)
{
    lk_type  type;
    uint64_t items = 1;
    size_t   levels = 0;
    uint32_t sizes[LK_LIST_LEVELS_MAX];
    while (lk_type_of(field, &type) && type.layout == LK_LAYOUT_FIXED_LIST && levels < LK_LIST_LEVELS_MAX &&
           type.list_size > 0 && type.list_size < UINT32_MAX / 64 / (int64_t)items) {
        sizes[levels++] = (uint32_t)type.list_size;
        items *= (uint64_t)type.list_size;
        field = field->children[0];
    }
    if (!lk_type_of(field, &type) || type.layout != LK_LAYOUT_FIXED || type.dictionary ||
        type.width * 8 * items > UINT32_MAX / 64) {
        return refuse(field, "lists of this type", unpack, err);
    }
    lk_encoding *inner = node(arena, LK_ENCODING_FLAT, type.width * 8);
    for (; levels > 0; levels--) {
        lk_encoding *list = node(arena, LK_ENCODING_FIXED_SIZE_LIST, 0);
        list->items_per_value = sizes[levels - 1];
        list->values = inner;
        inner = list;
    }
    *out = (lk_packed_field){.values = inner, .bits = (uint32_t)(type.width * 8 * items)};
    return LK_OK;
}

static lk_rc member_encoding(
    const struct ArrowSchema *field, unsigned depth, lk_arena *arena, lk_packed_field *out, lk_err *err)
{
    lk_type type;
    if (!lk_type_of(field, &type) || type.dictionary) {
        return refuse(field, "dictionaries", unpack, err);
    }
    if (type.layout == LK_LAYOUT_FIXED) {
        *out = (lk_packed_field){
            .values = node(arena, LK_ENCODING_FLAT, type.width * 8), .bits = type.width * 8};
        return LK_OK;
    }
    if (type.layout == LK_LAYOUT_FIXED_LIST) {
        return list_encoding(field, arena, out, err);
    }
    if (type.layout == LK_LAYOUT_BYTES32 || type.layout == LK_LAYOUT_BYTES64) {
        uint32_t     bits = type.layout == LK_LAYOUT_BYTES32 ? 32 : 64;
        lk_encoding *text = node(arena, LK_ENCODING_VARIABLE, 0);
        text->lengths = node(arena, LK_ENCODING_FLAT, bits);
        *out = (lk_packed_field){.values = text, .length_bits = bits};
        return LK_OK;
    }
    if (type.layout == LK_LAYOUT_STRUCT && lk_packed_row_bits(field, false) == 0) {
        *out = (lk_packed_field){.length_bits = 32};
        return variable_encoding(field, depth + 1, arena, &out->values, err);
    }
    return refuse(field,
        type.layout == LK_LAYOUT_BITS     ? "booleans"
        : type.layout == LK_LAYOUT_STRUCT ? "structs of members of fixed width"
                                          : "members of this type",
        unpack, err);
}

static lk_rc variable_encoding(
    const struct ArrowSchema *field, unsigned depth, lk_arena *arena, const lk_encoding **out, lk_err *err)
{
    size_t           count = (size_t)field->n_children;
    lk_packed_field *fields = lk_arena_take(arena, (count + 1) * sizeof *fields);
    lk_encoding     *made = node(arena, LK_ENCODING_VARIABLE_PACKED_STRUCT, 0);
    lk_rc            rc = depth > NESTING_MAX || count == 0
                              ? refuse(field, "structs nested so deep, or empty", unpack, err)
                              : LK_OK;
    for (size_t index = 0; rc == LK_OK && index < count; index++) {
        rc = member_encoding(field->children[index], depth, arena, &fields[index], err);
    }
    made->fields = fields;
    made->field_count = count;
    *out = made;
    return rc;
}

/* A struct of nothing but structs of fixed width is none of either kind. */
lk_rc lk_packed_encoding(const struct ArrowSchema *field, uint32_t file_minor, lk_arena *arena,
    const lk_encoding **out, lk_err *err)
{
    uint32_t row_bits = lk_packed_row_bits(field, false);
    if (row_bits > 0) {
        return fixed_encoding(field, row_bits, arena, out, err);
    }
    lk_rc rc = variable_encoding(field, 0, arena, out, err);
    if (rc == LK_OK && file_minor < 2) {
        rc = refuse(field, "members of variable width in a file before version 2.2",
            "create the table with file version 2.2, or leave lance-encoding:packed out of its metadata",
            err);
    }
    return rc;
}

/* -- rows ------------------------------------------------------------------------------------------- */
static bool is_null(const struct ArrowArray *array, int64_t row)
{
    return array->n_buffers > 0 && array->null_count != 0 && array->buffers[0] != NULL &&
           !lk_bit(array->buffers[0], row);
}

static lk_rc refuse_null(const struct ArrowSchema *field, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_SCHEMA_MISMATCH, "a null in a packed struct");
    lk_detail(err, "column '%s' lies in a packed struct, whose members cannot be null",
        field->name == NULL ? "" : field->name);
    return rc;
}

static lk_rc put_member(
    const struct ArrowSchema *field, const struct ArrowArray *array, int64_t row, lk_buf *bytes, lk_err *err);

static lk_rc put_members(
    const struct ArrowSchema *field, const struct ArrowArray *array, int64_t row, lk_buf *bytes, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (int64_t child = 0; rc == LK_OK && child < field->n_children; child++) {
        rc = put_member(
            field->children[child], array->children[child], row + array->children[child]->offset, bytes, err);
    }
    return rc;
}

/* The items of one value of a fixed-size list. */
static lk_rc put_items(const struct ArrowSchema *field, const struct ArrowArray *array, int64_t row,
    int64_t size, lk_buf *bytes, lk_err *err)
{
    const struct ArrowArray *items = array->children[0];
    lk_rc                    rc = LK_OK;
    for (int64_t item = 0; rc == LK_OK && item < size; item++) {
        rc = put_member(field->children[0], items, row * size + item + items->offset, bytes, err);
    }
    return rc;
}

/* row: absolute in array. */
static lk_rc put_member(
    const struct ArrowSchema *field, const struct ArrowArray *array, int64_t row, lk_buf *bytes, lk_err *err)
{
    lk_type type;
    (void)lk_type_of(field, &type);
    if (is_null(array, row)) {
        return refuse_null(field, err);
    }
    if (type.layout == LK_LAYOUT_FIXED) {
        lk_buf_append(bytes, (const uint8_t *)array->buffers[1] + (size_t)row * type.width, type.width);
        return LK_OK;
    }
    if (type.layout == LK_LAYOUT_FIXED_LIST) {
        return put_items(field, array, row, type.list_size, bytes, err);
    }
    size_t at = bytes->size, width = type.layout == LK_LAYOUT_BYTES64 ? 8 : 4;
    lk_buf_append_zeros(bytes, width);
    if (type.layout == LK_LAYOUT_STRUCT) {
        lk_rc    rc = put_members(field, array, row, bytes, err);
        uint64_t size = bytes->size - at - width;
        memcpy(bytes->data + at, &size, width);
        return rc;
    }
    uint64_t start = 0, end = 0;
    memcpy(&start, (const uint8_t *)array->buffers[1] + (size_t)row * width, width);
    memcpy(&end, (const uint8_t *)array->buffers[1] + (size_t)(row + 1) * width, width);
    uint64_t size = end - start;
    memcpy(bytes->data + at, &size, width);
    lk_buf_append(bytes, (const char *)array->buffers[2] + start, (size_t)size);
    return LK_OK;
}

/* Rows of fixed width, member by member. */
static lk_rc put_fixed(const struct ArrowSchema *field, const lk_shape_rows *rows, const uint8_t *validity,
    uint32_t row_bytes, lk_buf *bytes, lk_err *err)
{
    size_t at = bytes->size;
    lk_buf_append_zeros(bytes, (size_t)rows->count * row_bytes);
    for (int64_t child = 0; child < field->n_children; child++) {
        const struct ArrowArray *member = rows->array->children[child];
        int64_t                  first = rows->start + member->offset;
        const uint8_t           *from = member->buffers[1];
        lk_type                  type;
        (void)lk_type_of(field->children[child], &type);
        for (int64_t row = 0; row < rows->count; row++) {
            if (!lk_bit(validity, row)) {
                continue;
            }
            if (is_null(member, first + row)) {
                return refuse_null(field->children[child], err);
            }
            memcpy(bytes->data + at + (size_t)row * row_bytes, from + (size_t)(first + row) * type.width,
                type.width);
        }
        at += type.width;
    }
    return LK_OK;
}

lk_rc lk_packed_rows(const struct ArrowSchema *field, const lk_shape_rows *rows, const uint8_t *validity,
    uint32_t row_bytes, lk_buf *bytes, lk_buf *offsets, lk_err *err)
{
    if (row_bytes > 0) {
        return put_fixed(field, rows, validity, row_bytes, bytes, err);
    }
    uint32_t end = 0;
    lk_rc    rc = LK_OK;
    lk_buf_append(offsets, &end, 4);
    for (int64_t row = 0; rc == LK_OK && row < rows->count; row++) {
        if (lk_bit(validity, row)) {
            rc = put_members(field, rows->array, rows->start + row, bytes, err);
        }
        if (rc == LK_OK && bytes->size > INT32_MAX) {
            rc = lk_fail(err, LK_E_LIMIT, "more than 2 GiB of packed structs in one batch");
        }
        end = (uint32_t)bytes->size;
        lk_buf_append(offsets, &end, 4);
    }
    return rc;
}
