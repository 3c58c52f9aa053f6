/*
 * validate.c - lk_array_validate (batch.h): what later code relies on, checked once at the door.
 *
 * After it: lengths and child lengths fit together, offsets grow from a value that is not negative, null
 * counts are -1 or plausible, dictionary indices name values, valid text is UTF-8. The C Data Interface does
 * not tell how long buffers are; whoever made the array from bytes has checked that (ipc_decode.c).
 */
#include "arrow/array_priv.h"
#include "arrow/bits.h"
#include "arrow/utf8.h"

static lk_rc bad(lk_err *err, const struct ArrowSchema *schema, const char *what, int64_t row)
{
    lk_rc       rc = lk_fail(err, LK_E_INVALID_IPC, "%s", what);
    const char *name = schema->name == NULL || schema->name[0] == '\0' ? "(unnamed)" : schema->name;
    if (row < 0) {
        return lk_detail(err, "column '%.100s': %s", name, what), rc;
    }
    return lk_detail(err, "column '%.100s', row %lld: %s", name, (long long)row, what), rc;
}

static inline int64_t offset_at(const void *offsets, bool wide, int64_t index)
{
    return wide ? ((const int64_t *)offsets)[index] : ((const int32_t *)offsets)[index];
}

/* Offsets [offset, offset + length] grow; *end is the last. Branch-free inside, so it runs at memory speed. */
static inline __attribute__((always_inline)) bool offsets_grow(
    const void *offsets, bool wide, int64_t offset, int64_t length, int64_t *end)
{
    int64_t before = offset_at(offsets, wide, offset);
    int64_t wrong = before; /* negative when any step is */
    for (int64_t i = offset + 1; i <= offset + length; i++) {
        int64_t now = offset_at(offsets, wide, i);
        wrong |= now < before ? -1 : 0;
        before = now;
    }
    *end = before;
    return wrong >= 0;
}

static lk_rc check_offsets(
    const struct ArrowSchema *schema, const struct ArrowArray *array, bool wide, int64_t *end, lk_err *err)
{
    *end = 0;
    if (array->length == 0) {
        return LK_OK;
    }
    const void *offsets = array->buffers[1];
    if (offsets == NULL) {
        return bad(err, schema, "offsets are missing", -1);
    }
    bool grow = wide ? offsets_grow(offsets, true, array->offset, array->length, end)
                     : offsets_grow(offsets, false, array->offset, array->length, end);
    return grow ? LK_OK : bad(err, schema, "offsets do not grow", -1);
}

/* -- text -------------------------------------------------------------------------------------------- */

static bool starts_inside_character(const uint8_t *data, int64_t position, int64_t end)
{
    return position < end && (data[position] & 0xC0) == 0x80;
}

static bool value_is_text(const struct ArrowArray *array, bool wide, int64_t row)
{
    int64_t at = array->offset + row;
    int64_t from = offset_at(array->buffers[1], wide, at), to = offset_at(array->buffers[1], wide, at + 1);
    return lk_utf8_valid((const uint8_t *)array->buffers[2] + from, (size_t)(to - from));
}

static lk_rc check_each_text(
    const struct ArrowSchema *schema, const struct ArrowArray *array, bool wide, lk_err *err)
{
    const uint8_t *validity = lk_array_validity(array);
    for (int64_t row = 0; row < array->length; row++) {
        if (lk_bit_or_one(validity, array->offset + row) && !value_is_text(array, wide, row)) {
            return bad(err, schema, "text is not UTF-8", row);
        }
    }
    return LK_OK;
}

/* All values at once when they are well-formed together and cut between characters; else one by one, since
 * what lies under a null is nobody's business. */
static lk_rc check_text(
    const struct ArrowSchema *schema, const struct ArrowArray *array, bool wide, int64_t end, lk_err *err)
{
    int64_t        start = offset_at(array->buffers[1], wide, array->offset);
    const uint8_t *data = array->buffers[2];
    if (end == start || lk_ascii_only(data + start, (size_t)(end - start))) {
        return LK_OK;
    }
    bool whole = lk_utf8_valid(data + start, (size_t)(end - start));
    for (int64_t i = 1; whole && i < array->length; i++) {
        whole = !starts_inside_character(data, offset_at(array->buffers[1], wide, array->offset + i), end);
    }
    return whole ? LK_OK : check_each_text(schema, array, wide, err);
}

static lk_rc check_bytes(
    const struct ArrowSchema *schema, const lk_type *type, const struct ArrowArray *array, lk_err *err)
{
    bool    wide = type->layout == LK_LAYOUT_BYTES64;
    int64_t end = 0;
    lk_rc   rc = check_offsets(schema, array, wide, &end, err);
    if (rc != LK_OK || array->length == 0) {
        return rc;
    }
    if (array->buffers[2] == NULL && end > 0) {
        return bad(err, schema, "data is missing", -1);
    }
    bool text = type->id == LK_TYPE_UTF8 || type->id == LK_TYPE_LARGE_UTF8;
    return text ? check_text(schema, array, wide, end, err) : LK_OK;
}

/* -- dictionaries ------------------------------------------------------------------------------------ */

static uint64_t index_of(const lk_type *type, const void *indices, int64_t at)
{
    bool is_signed = lk_type_is_signed(type->id);
    switch (type->width) {
    case 1:
        return is_signed ? (uint64_t)((const int8_t *)indices)[at] : ((const uint8_t *)indices)[at];
    case 2:
        return is_signed ? (uint64_t)((const int16_t *)indices)[at] : ((const uint16_t *)indices)[at];
    case 4:
        return is_signed ? (uint64_t)((const int32_t *)indices)[at] : ((const uint32_t *)indices)[at];
    default:
        return ((const uint64_t *)indices)[at];
    }
}

static lk_rc check_indices(
    const struct ArrowSchema *schema, const lk_type *type, const struct ArrowArray *array, lk_err *err)
{
    if (array->dictionary == NULL || array->dictionary->release == NULL) {
        return bad(err, schema, "the dictionary is missing", -1);
    }
    uint64_t       values = (uint64_t)array->dictionary->length;
    const uint8_t *validity = lk_array_validity(array);
    for (int64_t row = 0; row < array->length; row++) {
        int64_t at = array->offset + row;
        if (lk_bit_or_one(validity, at) && index_of(type, array->buffers[1], at) >= values) {
            return bad(err, schema, "index outside the dictionary", row);
        }
    }
    return lk_array_validate(schema->dictionary, array->dictionary, err);
}

/* -- nested ------------------------------------------------------------------------------------------ */

static lk_rc check_child(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t child,
    int64_t rows_needed, lk_err *err)
{
    if (array->children[child]->length < rows_needed) {
        return bad(err, schema->children[child], "has fewer rows than its parent needs", -1);
    }
    return lk_array_validate(schema->children[child], array->children[child], err);
}

static lk_rc check_nested(
    const struct ArrowSchema *schema, const lk_type *type, const struct ArrowArray *array, lk_err *err)
{
    int64_t end = array->offset + array->length, needed = end;
    lk_rc   rc = LK_OK;
    if (type->layout == LK_LAYOUT_FIXED_LIST) {
        if (__builtin_mul_overflow(end, type->list_size, &needed)) {
            return bad(err, schema, "length is out of range", -1);
        }
    } else if (type->layout != LK_LAYOUT_STRUCT) {
        rc = check_offsets(schema, array, type->layout == LK_LAYOUT_LIST64, &needed, err);
    }
    for (int64_t i = 0; rc == LK_OK && i < schema->n_children; i++) {
        rc = check_child(schema, array, i, needed, err);
    }
    return rc;
}

/* -- all --------------------------------------------------------------------------------------------- */

static lk_rc check_shape(
    const struct ArrowSchema *schema, const lk_type *type, const struct ArrowArray *array, lk_err *err)
{
    int64_t children = type->dictionary ? 0 : schema->n_children;
    int64_t end = 0;
    if (array->release == NULL) {
        return bad(err, schema, "the array is missing", -1);
    }
    if (array->length < 0 || array->offset < 0 ||
        __builtin_add_overflow(array->length, array->offset, &end) || end == INT64_MAX ||
        array->null_count < -1 || array->null_count > array->length) {
        return bad(err, schema, "length, offset or null count is out of range", -1);
    }
    if (array->n_buffers != lk_layout_buffers(type->layout) || array->n_children != children) {
        return bad(err, schema, "has a wrong number of buffers or children", -1);
    }
    return LK_OK;
}

lk_rc lk_array_validate(const struct ArrowSchema *schema, const struct ArrowArray *array, lk_err *err)
{
    lk_type type;
    if (!lk_type_of(schema, &type)) {
        return bad(err, schema, "has a type that is not supported", -1);
    }
    lk_rc rc = check_shape(schema, &type, array, err);
    if (rc != LK_OK) {
        return rc;
    }
    switch (type.layout) {
    case LK_LAYOUT_NULL:
        return LK_OK;
    case LK_LAYOUT_BITS:
    case LK_LAYOUT_FIXED:
        if (array->length > 0 && array->buffers[1] == NULL &&
            (type.layout == LK_LAYOUT_BITS || type.width > 0)) {
            return bad(err, schema, "values are missing", -1);
        }
        return type.dictionary ? check_indices(schema, &type, array, err) : LK_OK;
    case LK_LAYOUT_BYTES32:
    case LK_LAYOUT_BYTES64:
        return check_bytes(schema, &type, array, err);
    case LK_LAYOUT_LIST32:
    case LK_LAYOUT_LIST64:
    case LK_LAYOUT_FIXED_LIST:
    case LK_LAYOUT_STRUCT:
        return check_nested(schema, &type, array, err);
    }
    return LK_OK;
}
