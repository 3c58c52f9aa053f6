/* type.c - see type.h. The format strings are those of the Arrow C data interface. */
#include "arrow/type.h"

struct fixed_format {
    const char *format;
    lk_type_id  id;
    lk_layout   layout;
    uint32_t    width;
    lk_unit     unit;
};

static const struct fixed_format formats[] = {
    {"n", LK_TYPE_NULL, LK_LAYOUT_NULL, 0, 0},
    {"b", LK_TYPE_BOOL, LK_LAYOUT_BITS, 0, 0},
    {"c", LK_TYPE_INT8, LK_LAYOUT_FIXED, 1, 0},
    {"C", LK_TYPE_UINT8, LK_LAYOUT_FIXED, 1, 0},
    {"s", LK_TYPE_INT16, LK_LAYOUT_FIXED, 2, 0},
    {"S", LK_TYPE_UINT16, LK_LAYOUT_FIXED, 2, 0},
    {"i", LK_TYPE_INT32, LK_LAYOUT_FIXED, 4, 0},
    {"I", LK_TYPE_UINT32, LK_LAYOUT_FIXED, 4, 0},
    {"l", LK_TYPE_INT64, LK_LAYOUT_FIXED, 8, 0},
    {"L", LK_TYPE_UINT64, LK_LAYOUT_FIXED, 8, 0},
    {"e", LK_TYPE_FLOAT16, LK_LAYOUT_FIXED, 2, 0},
    {"f", LK_TYPE_FLOAT32, LK_LAYOUT_FIXED, 4, 0},
    {"g", LK_TYPE_FLOAT64, LK_LAYOUT_FIXED, 8, 0},
    {"z", LK_TYPE_BINARY, LK_LAYOUT_BYTES32, 0, 0},
    {"Z", LK_TYPE_LARGE_BINARY, LK_LAYOUT_BYTES64, 0, 0},
    {"u", LK_TYPE_UTF8, LK_LAYOUT_BYTES32, 0, 0},
    {"U", LK_TYPE_LARGE_UTF8, LK_LAYOUT_BYTES64, 0, 0},
    {"tdD", LK_TYPE_DATE32, LK_LAYOUT_FIXED, 4, 0},
    {"tdm", LK_TYPE_DATE64, LK_LAYOUT_FIXED, 8, LK_UNIT_MILLI},
    {"tts", LK_TYPE_TIME32, LK_LAYOUT_FIXED, 4, LK_UNIT_SECOND},
    {"ttm", LK_TYPE_TIME32, LK_LAYOUT_FIXED, 4, LK_UNIT_MILLI},
    {"ttu", LK_TYPE_TIME64, LK_LAYOUT_FIXED, 8, LK_UNIT_MICRO},
    {"ttn", LK_TYPE_TIME64, LK_LAYOUT_FIXED, 8, LK_UNIT_NANO},
    {"tDs", LK_TYPE_DURATION, LK_LAYOUT_FIXED, 8, LK_UNIT_SECOND},
    {"tDm", LK_TYPE_DURATION, LK_LAYOUT_FIXED, 8, LK_UNIT_MILLI},
    {"tDu", LK_TYPE_DURATION, LK_LAYOUT_FIXED, 8, LK_UNIT_MICRO},
    {"tDn", LK_TYPE_DURATION, LK_LAYOUT_FIXED, 8, LK_UNIT_NANO},
    {"tiM", LK_TYPE_INTERVAL_MONTH, LK_LAYOUT_FIXED, 4, 0},
    {"tiD", LK_TYPE_INTERVAL_DAY, LK_LAYOUT_FIXED, 8, 0},
    {"tin", LK_TYPE_INTERVAL_NANO, LK_LAYOUT_FIXED, 16, 0},
    {"+l", LK_TYPE_LIST, LK_LAYOUT_LIST32, 0, 0},
    {"+L", LK_TYPE_LARGE_LIST, LK_LAYOUT_LIST64, 0, 0},
    {"+m", LK_TYPE_MAP, LK_LAYOUT_LIST32, 0, 0},
    {"+s", LK_TYPE_STRUCT, LK_LAYOUT_STRUCT, 0, 0},
};

/* Reads decimal digits with an optional sign; the cursor stops after them. */
static bool read_number(const char **cursor, int64_t min, int64_t max, int64_t *out)
{
    const char *at = *cursor;
    bool        negative = *at == '-';
    at += negative;
    int64_t     value = 0;
    const char *first = at;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (value > INT32_MAX) {
            return false;
        }
        value = value * 10 + (*at - '0');
    }
    value = negative ? -value : value;
    if (at == first || value < min || value > max) {
        return false;
    }
    *cursor = at;
    *out = value;
    return true;
}

static bool decimal_of(const char *at, lk_type *out)
{
    static const struct {
        int64_t    bits;
        lk_type_id id;
        int32_t    digits;
    } widths[] = {
        {32, LK_TYPE_DECIMAL32, 9},
        {64, LK_TYPE_DECIMAL64, 18},
        {128, LK_TYPE_DECIMAL128, 38},
        {256, LK_TYPE_DECIMAL256, 76},
    };
    int64_t precision = 0, scale = 0, bits = 128;
    if (!read_number(&at, 1, 76, &precision) || *at++ != ',' || !read_number(&at, -76, 76, &scale)) {
        return false;
    }
    if (*at == ',' && (at++, !read_number(&at, 32, 256, &bits))) {
        return false;
    }
    for (size_t i = 0; i < 4 && *at == '\0'; i++) {
        if (widths[i].bits == bits && precision <= widths[i].digits) {
            out->id = widths[i].id;
            out->layout = LK_LAYOUT_FIXED;
            out->width = (uint32_t)bits / 8;
            out->precision = (int32_t)precision;
            out->scale = (int32_t)scale;
            return true;
        }
    }
    return false;
}

static bool timestamp_of(const char *at, lk_type *out)
{
    const char *units = "smun", *unit = *at == '\0' ? NULL : strchr(units, *at);
    if (unit == NULL || at[1] != ':') {
        return false;
    }
    out->id = LK_TYPE_TIMESTAMP;
    out->layout = LK_LAYOUT_FIXED;
    out->width = 8;
    out->unit = (lk_unit)(unit - units);
    out->zone = lk_bytes_of(at + 2);
    return true;
}

static bool parameterised(const char *format, lk_type *out)
{
    int64_t number = 0;
    if (strncmp(format, "d:", 2) == 0) {
        return decimal_of(format + 2, out);
    }
    if (strncmp(format, "ts", 2) == 0) {
        return timestamp_of(format + 2, out);
    }
    if (strncmp(format, "w:", 2) == 0) {
        const char *at = format + 2;
        out->id = LK_TYPE_FIXED_BINARY;
        out->layout = LK_LAYOUT_FIXED;
        bool ok = read_number(&at, 0, INT32_MAX, &number) && *at == '\0';
        out->width = (uint32_t)number;
        return ok;
    }
    if (strncmp(format, "+w:", 3) == 0) {
        const char *at = format + 3;
        out->id = LK_TYPE_FIXED_LIST;
        out->layout = LK_LAYOUT_FIXED_LIST;
        bool ok = read_number(&at, 0, INT32_MAX, &number) && *at == '\0';
        out->list_size = number;
        return ok;
    }
    return false;
}

static bool format_of(const char *format, lk_type *out)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const struct fixed_format *f = &formats[i];
        if (f->format[0] == format[0] &&
            strcmp(f->format, format) == 0) { /* asked for every column of small batches */
            out->id = f->id;
            out->layout = f->layout;
            out->width = f->width;
            out->unit = f->unit;
            return true;
        }
    }
    return parameterised(format, out);
}

bool lk_type_of(const struct ArrowSchema *schema, lk_type *out)
{
    *out = (lk_type){0};
    if (schema->format == NULL || !format_of(schema->format, out)) {
        return false;
    }
    out->dictionary = schema->dictionary != NULL;
    if (out->dictionary) {
        return lk_type_is_integer(out->id) && schema->n_children == 0;
    }
    switch (out->layout) {
    case LK_LAYOUT_LIST32:
    case LK_LAYOUT_LIST64:
    case LK_LAYOUT_FIXED_LIST:
        return schema->n_children == 1 && (out->id != LK_TYPE_MAP || schema->children[0]->n_children == 2);
    case LK_LAYOUT_STRUCT:
        return true;
    case LK_LAYOUT_NULL:
    case LK_LAYOUT_BITS:
    case LK_LAYOUT_FIXED:
    case LK_LAYOUT_BYTES32:
    case LK_LAYOUT_BYTES64:
        break;
    }
    return schema->n_children == 0;
}

int64_t lk_layout_buffers(lk_layout layout)
{
    switch (layout) {
    case LK_LAYOUT_NULL:
        return 0;
    case LK_LAYOUT_STRUCT:
    case LK_LAYOUT_FIXED_LIST:
        return 1;
    case LK_LAYOUT_BYTES32:
    case LK_LAYOUT_BYTES64:
        return 3;
    case LK_LAYOUT_BITS:
    case LK_LAYOUT_FIXED:
    case LK_LAYOUT_LIST32:
    case LK_LAYOUT_LIST64:
        break;
    }
    return 2;
}

/* -- half precision ---------------------------------------------------------------------------------- */

float lk_float16_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = (bits >> 10) & 0x1F, fraction = bits & 0x3FF;
    uint32_t out = sign;
    if (exponent == 0x1F) {
        out |= 0x7F800000U | fraction << 13;
    } else if (exponent != 0) {
        out |= (exponent + 112) << 23 | fraction << 13;
    } else if (fraction != 0) { /* subnormal: value = fraction * 2^-24 */
        float value = (float)fraction * 0x1p-24F;
        memcpy(&out, &value, 4);
        out |= sign;
    }
    float result;
    memcpy(&result, &out, 4);
    return result;
}

uint16_t lk_float16_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) {
        return (uint16_t)(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF));
    }
    if (magnitude >= 0x477FF000) { /* rounds to infinity */
        return (uint16_t)(sign | 0x7C00);
    }
    if (magnitude <
        0x38800000) { /* below 2^-14: adding 0.5 leaves fraction * 2^24, rounded, in the low bits */
        float shifted, one_half = 0.5F;
        memcpy(&shifted, &magnitude, 4);
        shifted += one_half;
        uint32_t low;
        memcpy(&low, &shifted, 4);
        return (uint16_t)(sign | (low - 0x3F000000));
    }
    uint32_t odd = (magnitude >> 13) & 1;
    return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xFFF + odd) >> 13));
}
