/* literal.c - see literal_priv.h. */
#include "sql/literal_priv.h"

#include "arrow/type.h"

#include <math.h>
#include <stdlib.h>

__extension__ typedef __int128          wide;
__extension__ typedef unsigned __int128 unsigned_wide;

enum { TEXT_MAX = 64, DOUBLE_DIGITS_MAX = 15, DOUBLE_SCALE_MAX = 22, DECIMAL_DIGITS_MAX = 38 };

/* -- integers -------------------------------------------------------------------------------------- */

/* Sign and magnitude; false beyond 64 bits. */
static bool read_integer(lk_bytes text, bool *negative, uint64_t *magnitude)
{
    size_t i = text.size > 0 && (text.data[0] == '-' || text.data[0] == '+') ? 1 : 0;
    *negative = i == 1 && text.data[0] == '-';
    *magnitude = 0;
    if (i == text.size) {
        return false;
    }
    for (; i < text.size; i++) {
        unsigned digit = (unsigned)(text.data[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(*magnitude, 10U, magnitude) ||
            __builtin_add_overflow(*magnitude, digit, magnitude)) {
            return false;
        }
    }
    return true;
}

static bool to_signed(lk_bytes text, unsigned bits, lk_value *out)
{
    bool     negative = false;
    uint64_t magnitude = 0, top = UINT64_C(1) << (bits - 1);
    if (!read_integer(text, &negative, &magnitude) || magnitude > top || (!negative && magnitude == top)) {
        return false;
    }
    out->kind = LK_VALUE_I64;
    out->as.i64 = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

static bool to_unsigned(lk_bytes text, unsigned bits, lk_value *out)
{
    bool negative = false;
    out->kind = LK_VALUE_U64;
    return read_integer(text, &negative, &out->as.u64) && !negative &&
           (bits == 64 || out->as.u64 >> bits == 0);
}

/* -- floats ---------------------------------------------------------------------------------------- */

/* Digits and scale of a plain decimal; false for exponents. */
static bool is_short_decimal(lk_bytes text)
{
    size_t digits = 0, scale = 0;
    bool   point = false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c >= '0' && c <= '9') {
            digits++;
            scale += point ? 1U : 0U;
        } else if (c == '.' && !point) {
            point = true;
        } else if (i > 0 || (c != '-' && c != '+')) {
            return false;
        }
    }
    return digits > 0 && digits <= DOUBLE_DIGITS_MAX && scale <= DOUBLE_SCALE_MAX;
}

/* DuckDB compares a double with a decimal literal as doubles; with 15 digits both conversions round alike.
 * A float column may be compared as float or as double: only values that both hold exactly are taken. */
static bool to_double(const lk_literal *literal, bool narrow, lk_value *out)
{
    char text[TEXT_MAX];
    if (literal->text.size >= sizeof text || !is_short_decimal(literal->text)) {
        return false;
    }
    memcpy(text, literal->text.data, literal->text.size);
    text[literal->text.size] = '\0';
    char *end = NULL;
    out->kind = LK_VALUE_F64;
    out->as.f64 = strtod(text, &end);
    return *end == '\0' && end != text && isfinite(out->as.f64) &&
           (!narrow || (double)(float)out->as.f64 == out->as.f64);
}

/* -- decimals -------------------------------------------------------------------------------------- */

static bool to_decimal(lk_bytes text, int32_t precision, int32_t scale, lk_value *out)
{
    unsigned_wide magnitude = 0;
    int32_t       digits = 0, fraction = -1;
    bool          negative = false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c >= '0' && c <= '9') {
            magnitude = magnitude * 10 + (unsigned)(c - '0');
            digits += magnitude == 0 ? 0 : 1;
            fraction += fraction < 0 ? 0 : 1;
        } else if (c == '.' && fraction < 0) {
            fraction = 0;
        } else if (i == 0 && (c == '-' || c == '+')) {
            negative = c == '-';
        } else {
            return false;
        }
        if (digits > DECIMAL_DIGITS_MAX) {
            return false;
        }
    }
    fraction = fraction < 0 ? 0 : fraction;
    if (fraction > scale || digits + scale - fraction > precision) {
        return false;
    }
    for (int32_t i = fraction; i < scale; i++) {
        magnitude *= 10;
    }
    wide value = negative ? -(wide)magnitude : (wide)magnitude;
    out->kind = LK_VALUE_DECIMAL128;
    out->as.decimal128.low = (uint64_t)value;
    out->as.decimal128.high = (int64_t)(value >> 64);
    return true;
}

/* -------------------------------------------------------------------------------------------------- */

static bool number_value(const lk_literal *literal, const lk_type *type, lk_value *out)
{
    if (lk_type_is_float(type->id)) {
        return to_double(literal, type->id != LK_TYPE_FLOAT64, out);
    }
    if (type->id == LK_TYPE_DECIMAL128) {
        return to_decimal(literal->text, type->precision, type->scale, out);
    }
    if (literal->kind != LK_LITERAL_INTEGER || !lk_type_is_integer(type->id)) {
        return false;
    }
    unsigned bits = type->width * 8;
    return lk_type_is_signed(type->id) ? to_signed(literal->text, bits, out)
                                       : to_unsigned(literal->text, bits, out);
}

bool lk_literal_value(const lk_literal *literal, const struct ArrowSchema *field, lk_value *out)
{
    lk_type type;
    if (field->dictionary != NULL || !lk_predicate_supports(field) || !lk_type_of(field, &type)) {
        return false;
    }
    *out = (lk_value){0};
    switch (literal->kind) {
    case LK_LITERAL_STRING:
        out->kind = LK_VALUE_BYTES;
        out->as.bytes = literal->text;
        return type.id == LK_TYPE_UTF8 || type.id == LK_TYPE_LARGE_UTF8;
    case LK_LITERAL_BOOLEAN:
        out->kind = LK_VALUE_I64;
        out->as.i64 = lk_bytes_equal(literal->text, LK_LITERAL("true"));
        return type.id == LK_TYPE_BOOL;
    case LK_LITERAL_INTEGER:
    case LK_LITERAL_NUMERIC:
        return number_value(literal, &type, out);
    default:
        return false;
    }
}
