/* packed.c - see packed.h. */
#include "lance/packed.h"

#include "arrow/bits.h"
#include "lance/decode_priv.h"

#include <stdlib.h>

enum { NESTING_MAX = 8 };

static lk_rc damaged(const char *what, lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "packed struct: %s", what);
}

static lk_rc unsupported(const char *what, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "packed struct with %s", what);
    lk_detail(err, "a Lance packed struct with %s", what);
    return rc;
}

/* -- fixed rows in mini-blocks ------------------------------------------------------------------------ */
lk_rc lk_packed_codec(const lk_encoding *encoding, lk_arena *arena, const lk_codec **out, lk_err *err)
{
    uint64_t bits = 0;
    for (size_t field = 0; field < encoding->field_count; field++) {
        bits += encoding->fields[field].bits;
        if (encoding->fields[field].bits % 8 != 0 || encoding->fields[field].bits == 0) {
            return unsupported("members that are not whole bytes", err);
        }
    }
    if (encoding->values->kind == LK_ENCODING_PACKED_STRUCT) {
        return unsupported("a packed struct inside", err);
    }
    lk_rc rc = lk_codec_new(encoding->values, arena, out, err);
    return rc != LK_OK || (*out)->bits == bits ? rc : damaged("rows as wide as their members are not", err);
}

/* -- variable rows ------------------------------------------------------------------------------------ */
typedef enum member_kind {
    MEMBER_FIXED,
    MEMBER_PLAIN,
    MEMBER_FSST,
    MEMBER_GENERAL,
    MEMBER_STRUCT
} member_kind;

typedef struct member {
    member_kind      kind;
    size_t           bytes;        /* fixed */
    size_t           length_bytes; /* the others */
    lk_scheme        scheme;
    lk_fsst         *fsst;
    const lk_packed *inner;
} member;

struct lk_packed {
    size_t count;
    member members[];
};

static bool is_fixed(const lk_encoding *values)
{
    while (values->kind == LK_ENCODING_FIXED_SIZE_LIST && !values->has_validity) {
        values = values->values;
    }
    return values->kind == LK_ENCODING_FLAT;
}

static lk_rc prepare(const lk_packed_field *field, lk_arena *arena, member *out, lk_err *err)
{
    const lk_encoding *values = field->values;
    *out = (member){.kind = MEMBER_FIXED, .bytes = field->bits / 8, .length_bytes = field->length_bits / 8};
    if (field->bits > 0) {
        return field->bits % 8 == 0 && is_fixed(values)
                   ? LK_OK
                   : unsupported("members that are not plain bytes", err);
    }
    if (values->kind == LK_ENCODING_VARIABLE_PACKED_STRUCT) {
        out->kind = MEMBER_STRUCT;
        return lk_packed_new(values, arena, &out->inner, err);
    }
    if (values->kind == LK_ENCODING_FSST && values->values->kind == LK_ENCODING_VARIABLE) {
        out->kind = MEMBER_FSST;
        out->fsst = lk_arena_take(arena, sizeof *out->fsst);
        return lk_fsst_read_table(values->symbol_table, out->fsst, err);
    }
    if (values->kind == LK_ENCODING_GENERAL && values->values->kind == LK_ENCODING_VARIABLE) {
        out->kind = MEMBER_GENERAL;
        out->scheme = values->scheme;
        return LK_OK;
    }
    out->kind = MEMBER_PLAIN;
    return values->kind == LK_ENCODING_VARIABLE ? LK_OK : unsupported("members of this encoding", err);
}

lk_rc lk_packed_new(const lk_encoding *encoding, lk_arena *arena, const lk_packed **out, lk_err *err)
{
    lk_packed *made = lk_arena_take(arena, sizeof *made + encoding->field_count * sizeof made->members[0]);
    lk_rc      rc = LK_OK;
    made->count = encoding->field_count;
    for (size_t index = 0; rc == LK_OK && index < made->count; index++) {
        rc = prepare(&encoding->fields[index], arena, &made->members[index], err);
    }
    *out = made;
    return rc;
}

static bool take(lk_bytes *from, uint64_t size, lk_bytes *out)
{
    if (size > from->size) {
        return false;
    }
    *out = (lk_bytes){from->data, (size_t)size};
    *from = (lk_bytes){from->data + size, from->size - (size_t)size};
    return true;
}

static lk_rc put(lk_column *column, lk_bytes bytes, lk_err *err)
{
    lk_rc rc = lk_column_reserve(column, bytes.size, err);
    if (rc == LK_OK && bytes.size > 0) {
        memcpy(column->data.data + column->data_size, bytes.data, bytes.size);
        column->data_size += bytes.size;
    }
    return rc;
}

static lk_rc put_coded(const member *self, lk_bytes value, lk_column *column, lk_err *err)
{
    lk_rc rc =
        lk_column_reserve(column, (uint64_t)value.size * LK_FSST_SYMBOL_BYTES + LK_FSST_SYMBOL_BYTES, err);
    if (rc != LK_OK) {
        return rc;
    }
    uint8_t *to = column->data.data + column->data_size;
    uint8_t *end = lk_fsst_decode(self->fsst, (const uint8_t *)value.data, value.size, to);
    if (end == NULL) {
        return damaged("an FSST code without a symbol", err);
    }
    column->data_size += (uint64_t)(end - to);
    return LK_OK;
}

static lk_rc put_compressed(
    const member *self, lk_bytes value, lk_column *column, lk_scratch *scratch, lk_err *err)
{
    size_t size = 0;
    if (value.size == 0) {
        return LK_OK;
    }
    lk_rc rc = lk_decompressed_size(self->scheme, value, &size, err);
    if (rc == LK_OK) {
        rc = lk_column_reserve(column, size, err);
    }
    if (rc == LK_OK) {
        rc = lk_decompress(
            &scratch->zstd, self->scheme, value, column->data.data + column->data_size, size, err);
        column->data_size += size;
    }
    return rc;
}

/* A length, written when it is known, and the plain value. */
static lk_rc put_variable(
    const member *self, lk_bytes value, lk_column *column, lk_scratch *scratch, lk_err *err)
{
    uint64_t at = column->data_size;
    lk_rc    rc = put(column, (lk_bytes){"\0\0\0\0\0\0\0", 8}, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (self->kind == MEMBER_STRUCT) {
        rc = lk_packed_append(self->inner, value, column, scratch, err);
    } else if (self->kind == MEMBER_FSST && !self->fsst->plain) {
        rc = put_coded(self, value, column, err);
    } else if (self->kind == MEMBER_GENERAL) {
        rc = put_compressed(self, value, column, scratch, err);
    } else {
        rc = put(column, value, err);
    }
    if (rc == LK_OK) {
        lk_store_u64(column->data.data + at, column->data_size - at - 8);
    }
    return rc;
}

lk_rc lk_packed_append(
    const lk_packed *packed, lk_bytes row, lk_column *column, lk_scratch *scratch, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t index = 0; rc == LK_OK && index < packed->count; index++) {
        const member *one = &packed->members[index];
        lk_bytes      value = {0}, length = {0};
        uint64_t      size = one->bytes;
        if (one->kind != MEMBER_FIXED) {
            if (!take(&row, one->length_bytes, &length)) {
                return damaged("a row is cut off", err);
            }
            size = 0;
            memcpy(&size, length.data, one->length_bytes);
        }
        if (!take(&row, size, &value)) {
            return damaged("a row is cut off", err);
        }
        rc = one->kind == MEMBER_FIXED ? put(column, value, err)
                                       : put_variable(one, value, column, scratch, err);
    }
    return rc == LK_OK && row.size > 0 ? damaged("a row is longer than its members", err) : rc;
}

/* -- to arrays ---------------------------------------------------------------------------------------- */
/* A member being put together: a leaf, or a struct of parts. */
typedef struct part part;
struct part {
    const struct ArrowSchema *field;
    lk_column                 leaf;
    part                     *parts;
    size_t                    count;
};

static uint64_t member_bits(const struct ArrowSchema *field, bool lists)
{
    lk_type type;
    if (!lk_type_of(field, &type) || type.dictionary) {
        return 0;
    }
    if (lists && type.layout == LK_LAYOUT_FIXED_LIST && type.list_size > 0 &&
        type.list_size <= UINT32_MAX / 64) {
        uint64_t bits = member_bits(field->children[0], lists);
        return bits > UINT32_MAX ? 0 : bits * (uint64_t)type.list_size;
    }
    return type.layout == LK_LAYOUT_FIXED ? type.width * 8ULL : 0;
}

uint32_t lk_packed_row_bits(const struct ArrowSchema *field, bool lists)
{
    uint64_t sum = 0;
    for (int64_t child = 0; child < field->n_children; child++) {
        uint64_t bits = member_bits(field->children[child], lists);
        if (bits == 0 || bits > UINT32_MAX / 64) {
            return 0;
        }
        sum += bits;
    }
    return sum > UINT32_MAX / 64 ? 0 : (uint32_t)sum;
}

static void close_part(part *self)
{
    for (size_t index = 0; index < self->count; index++) {
        close_part(&self->parts[index]);
    }
    free(self->parts);
    lk_column_deinit(&self->leaf);
}

static lk_rc open_part(
    part *self, const struct ArrowSchema *field, const lk_column *rows, unsigned depth, lk_err *err)
{
    *self = (part){.field = field};
    if (!lk_is_struct(field)) {
        lk_rc rc = lk_column_init(&self->leaf, field, rows->rows, rows->pool, NULL, 0, err);
        bool  bits = rc == LK_OK && self->leaf.type.layout == LK_LAYOUT_BITS;
        return bits ? unsupported("booleans, which no release of the reference reads", err) : rc;
    }
    if (depth > NESTING_MAX || field->n_children == 0) {
        return unsupported("structs nested too deep, or empty ones", err);
    }
    self->parts = calloc((size_t)field->n_children, sizeof *self->parts);
    LK_ASSERT(self->parts != NULL);
    lk_rc rc = LK_OK;
    for (; rc == LK_OK && self->count < (size_t)field->n_children; self->count++) {
        rc = open_part(&self->parts[self->count], field->children[self->count], rows, depth + 1, err);
    }
    return rc;
}

static lk_rc put_empty(part *self, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t index = 0; rc == LK_OK && index < self->count; index++) {
        rc = put_empty(&self->parts[index], err);
    }
    if (self->count > 0) {
        return rc;
    }
    lk_column_put_empty(&self->leaf, 1);
    return lk_column_valid(&self->leaf, 1, err);
}

static lk_rc put_members(part *self, lk_bytes row, lk_err *err);

static lk_rc put_member(part *self, lk_bytes *row, lk_err *err)
{
    lk_bytes value = {0}, length = {0};
    uint64_t size = self->leaf.row_bits / 8;
    if (self->count > 0 || self->leaf.offset_bytes > 0) {
        if (!take(row, 8, &length)) {
            return damaged("a row is cut off", err);
        }
        size = lk_load_u64(length.data);
    }
    if (!take(row, size, &value)) {
        return damaged("a row is cut off", err);
    }
    if (self->count > 0) {
        return put_members(self, value, err);
    }
    lk_rc rc = lk_column_put(&self->leaf, value, err);
    return rc == LK_OK ? lk_column_valid(&self->leaf, 1, err) : rc;
}

static lk_rc put_members(part *self, lk_bytes row, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t index = 0; rc == LK_OK && index < self->count; index++) {
        rc = put_member(&self->parts[index], &row, err);
    }
    return rc == LK_OK && row.size > 0 ? damaged("a row has other members than its type", err) : rc;
}

/* The rows of one fixed member, out of rows `stride` apart. */
static lk_rc put_strided(part *self, const uint8_t *from, size_t stride, uint64_t rows, lk_err *err)
{
    size_t   width = self->leaf.row_bits / 8;
    uint8_t *to = self->leaf.values.data;
    for (uint64_t row = 0; row < rows; row++) {
        memcpy(to + row * width, from + row * stride, width);
    }
    return lk_column_valid(&self->leaf, rows, err);
}

static lk_rc split_fixed(part *self, const lk_column *rows, lk_err *err)
{
    size_t stride = rows->row_bits / 8, at = 0;
    lk_rc  rc = LK_OK;
    for (size_t index = 0; rc == LK_OK && index < self->count; index++) {
        part  *one = &self->parts[index];
        size_t width = one->leaf.row_bits / 8;
        if (width == 0 || one->leaf.row_bits % 8 != 0 || stride - at < width) {
            return damaged("a row has other members than its type", err);
        }
        rc = put_strided(one, rows->values.data + at, stride, rows->rows, err);
        at += width;
    }
    return rc == LK_OK && at != stride ? damaged("a row has other members than its type", err) : rc;
}

static lk_rc split_variable(part *self, const lk_column *rows, lk_err *err)
{
    const uint8_t *bits = rows->validity.bits.data;
    lk_rc          rc = LK_OK;
    for (uint64_t row = 0; rc == LK_OK && row < rows->rows; row++) {
        uint64_t start = lk_load_u64(rows->values.data + row * 8),
                 end = lk_load_u64(rows->values.data + row * 8 + 8);
        lk_bytes value = {0}; /* there may be no bytes at all */
        if (end > start) {
            value = (lk_bytes){(const char *)rows->data.data + start, (size_t)(end - start)};
        }
        if (value.size == 0 && (bits == NULL || lk_bit(bits, (int64_t)row))) {
            return damaged("a row is cut off", err);
        }
        rc = value.size == 0 ? put_empty(self, err) : put_members(self, value, err);
    }
    return rc;
}

static lk_rc finish_part(part *self, uint64_t rows, struct ArrowArray *out, lk_err *err)
{
    if (self->count == 0) {
        lk_rc rc = lk_decode_check_text(&self->leaf, err);
        if (rc == LK_OK) {
            lk_column_finish(&self->leaf, out);
        }
        return rc;
    }
    lk_rc rc = LK_OK;
    lk_column_node(out, rows, 0, &(lk_buffer){0}, 1, self->count);
    for (size_t index = 0; rc == LK_OK && index < self->count; index++) {
        rc = finish_part(&self->parts[index], rows, out->children[index], err);
    }
    if (rc != LK_OK) {
        out->release(out);
    }
    return rc;
}

lk_rc lk_packed_split(const struct ArrowSchema *field, lk_column *rows, struct ArrowArray *out, lk_err *err)
{
    part  top;
    lk_rc rc = open_part(&top, field, rows, 0, err);
    if (rc == LK_OK) {
        rc = rows->offset_bytes > 0 ? split_variable(&top, rows, err) : split_fixed(&top, rows, err);
    }
    if (rc == LK_OK) {
        rc = finish_part(&top, rows->rows, out, err);
    }
    if (rc == LK_OK) {
        lk_column_set_validity(out, &rows->validity);
    }
    close_part(&top);
    return rc;
}
