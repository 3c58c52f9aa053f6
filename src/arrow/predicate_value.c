/*
 * predicate_value.c - one row of an array as a constant.
 */
#include "arrow/bits.h"
#include "arrow/predicate_priv.h"

static int64_t signed_at(const char *at, uint32_t width)
{
    switch (width) {
    case 1:
        return (int8_t)*at;
    case 2:
        return (int16_t)lk_load_u16(at);
    case 4:
        return (int32_t)lk_load_u32(at);
    default:
        return (int64_t)lk_load_u64(at);
    }
}

static uint64_t unsigned_at(const char *at, uint32_t width)
{
    switch (width) {
    case 1:
        return (uint8_t)*at;
    case 2:
        return lk_load_u16(at);
    case 4:
        return lk_load_u32(at);
    default:
        return lk_load_u64(at);
    }
}

static double float_at(const char *at, uint32_t width)
{
    float  narrow;
    double wide;
    if (width == 2) {
        return (double)lk_float16_to_float(lk_load_u16(at));
    }
    memcpy(&narrow, at, sizeof narrow);
    if (width == sizeof narrow) {
        return (double)narrow;
    }
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static lk_value decimal_at(const char *at, uint32_t width)
{
    lk_value value = {.kind = LK_VALUE_DECIMAL128};
    if (width == 16) {
        value.as.decimal128.low = lk_load_u64(at);
        value.as.decimal128.high = (int64_t)lk_load_u64(at + 8);
    } else {
        int64_t number = signed_at(at, width);
        value.as.decimal128.low = (uint64_t)number;
        value.as.decimal128.high = number < 0 ? -1 : 0;
    }
    return value;
}

static lk_bytes bytes_at(const lk_type *type, const struct ArrowArray *array, int64_t row)
{
    if (type->layout == LK_LAYOUT_BYTES64) {
        const int64_t *offsets = (const int64_t *)array->buffers[1] + row;
        return (lk_bytes){(const char *)array->buffers[2] + offsets[0], (size_t)(offsets[1] - offsets[0])};
    }
    const int32_t *offsets = (const int32_t *)array->buffers[1] + row;
    return (lk_bytes){(const char *)array->buffers[2] + offsets[0], (size_t)(offsets[1] - offsets[0])};
}

bool lk_value_read(
    const struct ArrowSchema *field, const struct ArrowArray *array, int64_t row, lk_value *out)
{
    lk_type type;
    int64_t at = array->offset + row;
    if (!lk_type_of(field, &type) || type.layout == LK_LAYOUT_NULL ||
        !lk_bit_or_one(lk_array_validity(array), at)) {
        return false;
    }
    const char *fixed = (const char *)array->buffers[1] + (size_t)at * type.width;
    switch (lk_comparable_of(&type)) {
    case LK_COMPARABLE_NONE:
        return false;
    case LK_COMPARABLE_BOOL:
        *out = (lk_value){.kind = LK_VALUE_I64, .as.i64 = lk_bit(array->buffers[1], at)};
        break;
    case LK_COMPARABLE_SIGNED:
        *out = (lk_value){.kind = LK_VALUE_I64, .as.i64 = signed_at(fixed, type.width)};
        break;
    case LK_COMPARABLE_UNSIGNED:
        *out = (lk_value){.kind = LK_VALUE_U64, .as.u64 = unsigned_at(fixed, type.width)};
        break;
    case LK_COMPARABLE_FLOAT:
        *out = (lk_value){.kind = LK_VALUE_F64, .as.f64 = float_at(fixed, type.width)};
        break;
    case LK_COMPARABLE_BYTES:
        *out = (lk_value){.kind = LK_VALUE_BYTES, .as.bytes = bytes_at(&type, array, at)};
        break;
    case LK_COMPARABLE_FIXED_BYTES:
        *out = (lk_value){.kind = LK_VALUE_BYTES, .as.bytes = {fixed, type.width}};
        break;
    case LK_COMPARABLE_DECIMAL128:
        *out = decimal_at(fixed, type.width);
        break;
    }
    return true;
}
