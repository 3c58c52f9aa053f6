/*
 * nulls.c - lk_batch_check_nulls (cast.h): fields that are not nullable hold no null under valid parents.
 *
 * Almost always no suspicious bitmap exists and nothing is read. Else rows are walked one by one, down only
 * into children that may hold a forbidden null. Threads: stateless.
 */
#include "arrow/array_priv.h"
#include "arrow/bits.h"
#include "arrow/cast.h"

static bool is_nullable(const struct ArrowSchema *field)
{
    return (field->flags & ARROW_FLAG_NULLABLE) != 0;
}

/* Whether a forbidden null may be in this field or below it. */
static bool suspicious(const struct ArrowSchema *field, const struct ArrowArray *array)
{
    bool holds = lk_array_may_hold_nulls(array) || (array->n_buffers == 0 && array->length > 0);
    if (array->dictionary != NULL) { /* a dictionary field may come as its values */
        holds = holds || lk_array_may_hold_nulls(array->dictionary);
    }
    if (holds && !is_nullable(field)) {
        return true;
    }
    for (int64_t i = 0; i < field->n_children; i++) {
        if (suspicious(field->children[i], array->children[i])) {
            return true;
        }
    }
    return false;
}

static bool is_null(const lk_type *type, const struct ArrowArray *array, int64_t at)
{
    if (type->layout == LK_LAYOUT_NULL) {
        return true;
    }
    if (!lk_bit_or_one(lk_array_validity(array), at)) {
        return true;
    }
    if (array->dictionary == NULL || !lk_array_may_hold_nulls(array->dictionary)) {
        return false;
    }
    uint64_t index = 0; /* little-endian; indices are not negative */
    memcpy(&index, (const uint8_t *)array->buffers[1] + (size_t)at * type->width, type->width);
    return !lk_bit_or_one(lk_array_validity(array->dictionary), array->dictionary->offset + (int64_t)index);
}

static void items_of(
    const lk_type *type, const struct ArrowArray *array, int64_t at, int64_t *first, int64_t *end)
{
    switch (type->layout) {
    case LK_LAYOUT_LIST32:
        *first = ((const int32_t *)array->buffers[1])[at];
        *end = ((const int32_t *)array->buffers[1])[at + 1];
        return;
    case LK_LAYOUT_LIST64:
        *first = ((const int64_t *)array->buffers[1])[at];
        *end = ((const int64_t *)array->buffers[1])[at + 1];
        return;
    case LK_LAYOUT_FIXED_LIST:
        *first = at * type->list_size;
        *end = *first + type->list_size;
        return;
    case LK_LAYOUT_STRUCT:
    case LK_LAYOUT_NULL:
    case LK_LAYOUT_BITS:
    case LK_LAYOUT_FIXED:
    case LK_LAYOUT_BYTES32:
    case LK_LAYOUT_BYTES64:
        break;
    }
    *first = at;
    *end = at + 1;
}

/* The field, at any depth, whose forbidden null is in row (counted from array's own first row); or NULL. */
static const struct ArrowSchema *forbidden_at(
    const struct ArrowSchema *field, const struct ArrowArray *array, int64_t row)
{
    lk_type type;
    int64_t at = array->offset + row, first = 0, end = 0;
    if (!lk_type_of(field, &type)) {
        return NULL;
    }
    if (is_null(&type, array, at)) {
        return is_nullable(field) ? NULL : field;
    }
    items_of(&type, array, at, &first, &end);
    for (int64_t i = 0; i < field->n_children; i++) {
        if (!suspicious(field->children[i], array->children[i])) {
            continue;
        }
        for (int64_t item = first; item < end; item++) {
            const struct ArrowSchema *found = forbidden_at(field->children[i], array->children[i], item);
            if (found != NULL) {
                return found;
            }
        }
    }
    return NULL;
}

static lk_rc check_column(const struct ArrowSchema *column, const struct ArrowArray *array, int64_t start,
    int64_t count, int64_t row_base, lk_err *err)
{
    if (!suspicious(column, array)) {
        return LK_OK;
    }
    for (int64_t row = 0; row < count; row++) {
        const struct ArrowSchema *found = forbidden_at(column, array, start + row);
        if (found == NULL) {
            continue;
        }
        const char *inside = found == column ? "" : " inside it";
        lk_rc       rc = lk_fail(err, LK_E_SCHEMA_MISMATCH, "null in a field that is not nullable");
        return lk_detail(err, "column '%.100s', row %lld: null%s, but it is not nullable", column->name,
                   (long long)(row_base + row), inside),
               rc;
    }
    return LK_OK;
}

lk_rc lk_batch_check_nulls(
    const struct ArrowSchema *schema, const struct ArrowArray *batch, int64_t row_base, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (int64_t i = 0; rc == LK_OK && i < schema->n_children; i++) {
        rc = check_column(
            schema->children[i], batch->children[i], batch->offset, batch->length, row_base, err);
    }
    return rc;
}
