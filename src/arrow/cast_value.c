/*
 * cast_value.c - leaves from one type to another, value by value (cast_priv.h).
 *
 * A plan is made from the two types once: how to read, by what to multiply and divide, what must hold, how to
 * write. Values under nulls are not looked at. Threads: stateless.
 */
#include "arrow/bits.h"
#include "arrow/cast_priv.h"
#include "arrow/utf8.h"

#include <math.h>
#include <stdlib.h>

static const char *const out_of_range = "the value does not fit the column's type";
static const char *const lossy = "digits would be lost";

enum { SECONDS_PER_DAY = 86400 };

lk_value_class lk_value_class_of(const lk_type *type)
{
    static const lk_value_class classes[] = {
        [LK_TYPE_BOOL] = LK_CLASS_BOOL,
        [LK_TYPE_INT8] = LK_CLASS_INTEGER,
        [LK_TYPE_INT16] = LK_CLASS_INTEGER,
        [LK_TYPE_INT32] = LK_CLASS_INTEGER,
        [LK_TYPE_INT64] = LK_CLASS_INTEGER,
        [LK_TYPE_UINT8] = LK_CLASS_INTEGER,
        [LK_TYPE_UINT16] = LK_CLASS_INTEGER,
        [LK_TYPE_UINT32] = LK_CLASS_INTEGER,
        [LK_TYPE_UINT64] = LK_CLASS_INTEGER,
        [LK_TYPE_FLOAT16] = LK_CLASS_FLOAT,
        [LK_TYPE_FLOAT32] = LK_CLASS_FLOAT,
        [LK_TYPE_FLOAT64] = LK_CLASS_FLOAT,
        [LK_TYPE_DECIMAL32] = LK_CLASS_DECIMAL,
        [LK_TYPE_DECIMAL64] = LK_CLASS_DECIMAL,
        [LK_TYPE_DECIMAL128] = LK_CLASS_DECIMAL,
        [LK_TYPE_DECIMAL256] = LK_CLASS_DECIMAL,
        [LK_TYPE_UTF8] = LK_CLASS_TEXT,
        [LK_TYPE_LARGE_UTF8] = LK_CLASS_TEXT,
        [LK_TYPE_BINARY] = LK_CLASS_BINARY,
        [LK_TYPE_LARGE_BINARY] = LK_CLASS_BINARY,
        [LK_TYPE_FIXED_BINARY] = LK_CLASS_BINARY,
        [LK_TYPE_DATE32] = LK_CLASS_DATE,
        [LK_TYPE_DATE64] = LK_CLASS_DATE,
        [LK_TYPE_TIME32] = LK_CLASS_TIME,
        [LK_TYPE_TIME64] = LK_CLASS_TIME,
        [LK_TYPE_TIMESTAMP] = LK_CLASS_TIMESTAMP,
        [LK_TYPE_DURATION] = LK_CLASS_DURATION,
        [LK_TYPE_MAP] = LK_CLASS_NONE,
    };
    return type->dictionary ? LK_CLASS_NONE : classes[type->id];
}

/* Which class a class converts to, one bit each. */
static unsigned targets_of(lk_value_class from)
{
#define TO(name) (1U << LK_CLASS_##name)
    switch (from) {
    case LK_CLASS_BOOL:
        return TO(BOOL) | TO(INTEGER);
    case LK_CLASS_INTEGER:
        return TO(BOOL) | TO(INTEGER) | TO(FLOAT) | TO(DECIMAL) | TO(DURATION);
    case LK_CLASS_FLOAT:
        return TO(INTEGER) | TO(FLOAT) | TO(DECIMAL);
    case LK_CLASS_DECIMAL:
        return TO(INTEGER) | TO(FLOAT) | TO(DECIMAL);
    case LK_CLASS_TEXT:
        return ~TO(NONE);
    case LK_CLASS_BINARY:
        return TO(TEXT) | TO(BINARY);
    case LK_CLASS_DATE:
        return TO(DATE) | TO(TIMESTAMP);
    case LK_CLASS_TIMESTAMP:
        return TO(DATE) | TO(TIMESTAMP);
    case LK_CLASS_TIME:
        return TO(TIME);
    case LK_CLASS_DURATION:
        return TO(DURATION) | TO(INTEGER);
    case LK_CLASS_NONE:
        break;
    }
    return 0;
#undef TO
}

bool lk_leaf_castable(const lk_type *from, const lk_type *to)
{
    lk_value_class source = lk_value_class_of(from), target = lk_value_class_of(to);
    return source != LK_CLASS_NONE && target != LK_CLASS_NONE && (targets_of(source) >> target & 1) != 0;
}

/* -- plans ------------------------------------------------------------------------------------------- */

typedef struct plan {
    lk_type        from, to;
    lk_value_class source, target;
    lk_int128      multiply, divide; /* counting values: units of from to units of to */
    int            shift;            /* decimals: power of ten instead */
    lk_int128      min, max;         /* what the target holds */
} plan;

/* How many of a temporal type's units make a day. */
static lk_int128 units_per_day(const lk_type *type)
{
    return type->id == LK_TYPE_DATE32 ? 1 : (lk_int128)SECONDS_PER_DAY * lk_units_per_second(type->unit);
}

static void set_limits(plan *p)
{
    unsigned bits = p->to.width * 8;
    if (p->target == LK_CLASS_BOOL) {
        p->max = 1;
    } else if (p->target == LK_CLASS_DECIMAL) {
        p->max = lk_power_of_ten(p->to.precision > 38 ? 38 : p->to.precision) - 1;
        p->min = -p->max;
        if (p->to.precision > 38) { /* whatever travels here fits */
            p->max = (lk_int128)((lk_uint128)-1 >> 1);
            p->min = -p->max - 1;
        }
    } else if (p->target == LK_CLASS_TIME) {
        p->max = units_per_day(&p->to) - 1;
    } else if (lk_type_is_unsigned(p->to.id)) {
        p->max = ((lk_int128)1 << bits) - 1;
    } else if (bits > 0 && bits <= 64) {
        p->max = ((lk_int128)1 << (bits - 1)) - 1;
        p->min = -p->max - 1;
    }
}

static void plan_make(const lk_type *from, const lk_type *to, plan *p)
{
    *p = (plan){.from = *from,
        .to = *to,
        .source = lk_value_class_of(from),
        .target = lk_value_class_of(to),
        .multiply = 1,
        .divide = 1};
    bool temporal = p->source >= LK_CLASS_DATE && p->target >= LK_CLASS_DATE;
    if (temporal) {
        p->multiply = units_per_day(to);
        p->divide = units_per_day(from);
        if (p->multiply % p->divide == 0) {
            p->multiply /= p->divide;
            p->divide = 1;
        } else {
            p->divide /= p->multiply;
            p->multiply = 1;
        }
    }
    p->shift =
        (p->target == LK_CLASS_DECIMAL ? to->scale : 0) - (p->source == LK_CLASS_DECIMAL ? from->scale : 0);
    set_limits(p);
}

/* -- reading ----------------------------------------------------------------------------------------- */

static bool counts(lk_value_class class)
{
    return class != LK_CLASS_FLOAT && class != LK_CLASS_TEXT && class != LK_CLASS_BINARY;
}

static lk_cast_fault read_wide(const uint8_t *at, lk_int128 *out)
{
    uint64_t words[4];
    memcpy(words, at, 32);
    *out = (lk_int128)((lk_uint128)words[1] << 64 | words[0]);
    uint64_t sign = *out < 0 ? UINT64_MAX : 0;
    return words[2] == sign && words[3] == sign ? NULL : out_of_range;
}

/* The value of a counting type. */
static lk_cast_fault read_count(const plan *p, const struct ArrowArray *array, int64_t index, lk_int128 *out)
{
    const uint8_t *data = array->buffers[1];
    if (p->source == LK_CLASS_BOOL) {
        *out = lk_bit(data, index);
        return NULL;
    }
    const uint8_t *at = data + (size_t)index * p->from.width;
    if (p->from.width == 32) {
        return read_wide(at, out);
    }
    if (p->from.width == 16) {
        memcpy(out, at, 16);
        return NULL;
    }
    uint64_t raw = 0;
    unsigned spare = 64 - p->from.width * 8;
    memcpy(&raw, at, p->from.width);
    *out = lk_type_is_unsigned(p->from.id) ? (lk_int128)raw : (lk_int128)((int64_t)(raw << spare) >> spare);
    return NULL;
}

static double read_float(const plan *p, const struct ArrowArray *array, int64_t index)
{
    switch (p->from.width) {
    case 2:
        return (double)lk_float16_to_float(((const uint16_t *)array->buffers[1])[index]);
    case 4:
        return (double)((const float *)array->buffers[1])[index];
    default:
        return ((const double *)array->buffers[1])[index];
    }
}

static lk_bytes read_bytes(const plan *p, const struct ArrowArray *array, int64_t index)
{
    const char *data = array->buffers[2];
    if (p->from.layout == LK_LAYOUT_BYTES32) {
        const int32_t *offsets = array->buffers[1];
        return (lk_bytes){data + offsets[index], (size_t)(offsets[index + 1] - offsets[index])};
    }
    if (p->from.layout == LK_LAYOUT_BYTES64) {
        const int64_t *offsets = array->buffers[1];
        return (lk_bytes){data + offsets[index], (size_t)(offsets[index + 1] - offsets[index])};
    }
    return (lk_bytes){(const char *)array->buffers[1] + (size_t)index * p->from.width, p->from.width};
}

/* -- converting -------------------------------------------------------------------------------------- */

static lk_cast_fault float_to_count(const plan *p, double value, lk_int128 *out)
{
    int    places = p->shift > 0 ? p->shift : 0;
    double power = pow(10, places), scaled = places > 0 ? nearbyint(value * power) : value;
    if (!isfinite(value) || fabs(scaled) >= 0x1p126) {
        return out_of_range;
    }
    *out = (lk_int128)scaled;
    /* a decimal stands for a float when it reads back as that float */
    if ((double)*out / power != value) {
        return lossy;
    }
    return p->shift >= 0 || lk_rescale(*out, p->shift, out) ? NULL : lossy;
}

static lk_cast_fault scale_count(const plan *p, lk_int128 *value)
{
    if (p->shift != 0) {
        return lk_rescale(*value, p->shift, value) ? NULL : p->shift < 0 ? lossy : out_of_range;
    }
    if (*value % p->divide != 0) {
        return lossy;
    }
    return __builtin_mul_overflow(*value / p->divide, p->multiply, value) ? out_of_range : NULL;
}

/* A value of any class to the counting target. */
static lk_cast_fault to_count(const plan *p, const struct ArrowArray *array, int64_t index, lk_int128 *out)
{
    lk_cast_fault fault = NULL;
    if (p->source == LK_CLASS_TEXT) {
        fault = lk_parse_integer(read_bytes(p, array, index), &p->to, out);
    } else if (p->source == LK_CLASS_FLOAT) {
        fault = float_to_count(p, read_float(p, array, index), out);
    } else {
        fault = read_count(p, array, index, out);
        fault = fault == NULL ? scale_count(p, out) : fault;
    }
    if (fault == NULL && (*out < p->min || *out > p->max)) {
        return out_of_range;
    }
    bool part_of_day = p->to.id == LK_TYPE_DATE64 && *out % units_per_day(&p->to) != 0;
    return fault == NULL && part_of_day ? lossy : fault;
}

static lk_cast_fault count_to_float(const plan *p, lk_int128 value, double *out)
{
    if (p->source == LK_CLASS_DECIMAL) {
        double power = pow(10, abs(p->shift));
        *out = p->shift < 0 ? (double)value / power : (double)value * power;
        return NULL;
    }
    *out = (double)value;
    if (p->to.width < 8) {
        *out = (double)(p->to.width == 4 ? (float)value
                                         : lk_float16_to_float(lk_float16_of_float((float)value)));
    }
    return isfinite(*out) && (lk_int128)*out == value ? NULL : lossy;
}

static lk_cast_fault to_float(const plan *p, const struct ArrowArray *array, int64_t index, double *out)
{
    lk_int128 count = 0;
    if (p->source == LK_CLASS_FLOAT) {
        *out = read_float(p, array, index);
        return NULL;
    }
    if (p->source == LK_CLASS_TEXT) {
        return lk_parse_float(read_bytes(p, array, index), out);
    }
    lk_cast_fault fault = read_count(p, array, index, &count);
    return fault == NULL ? count_to_float(p, count, out) : fault;
}

/* -- writing ----------------------------------------------------------------------------------------- */

static void write_count(const plan *p, lk_int128 value, uint8_t *data, int64_t row)
{
    if (p->target == LK_CLASS_BOOL) {
        if (value != 0) {
            lk_bit_set(data, row);
        }
        return;
    }
    uint8_t *at = data + (size_t)row * p->to.width;
    if (p->to.width == 32) {
        memset(at + 16, value < 0 ? 0xFF : 0, 16);
    }
    memcpy(at, &value, p->to.width < 16 ? p->to.width : 16);
}

/* Finite values must stay finite. */
static lk_cast_fault write_float(const plan *p, double value, uint8_t *data, int64_t row)
{
    float narrow = (float)value;
    bool  finite = true;
    if (p->to.width == 8) {
        ((double *)(void *)data)[row] = value;
    } else if (p->to.width == 4) {
        ((float *)(void *)data)[row] = narrow;
        finite = isfinite(narrow);
    } else {
        uint16_t half = lk_float16_of_float(narrow);
        ((uint16_t *)(void *)data)[row] = half;
        finite = isfinite(lk_float16_to_float(half));
    }
    return finite || !isfinite(value) ? NULL : out_of_range;
}

/* -- arrays ------------------------------------------------------------------------------------------ */

typedef struct conversion {
    plan                     plan;
    const struct ArrowArray *array;
    struct ArrowArray       *out;
    int64_t                 *fault_row;
    lk_cast_fault           *fault;
    lk_err                  *err;
} conversion;

/* Runs over the valid rows; stops at the first fault. */
static void convert_numbers(conversion *c, uint8_t *data)
{
    const uint8_t *validity = lk_array_validity(c->array);
    bool           to_counts = counts(c->plan.target);
    for (int64_t row = 0; *c->fault == NULL && row < c->array->length; row++) {
        int64_t index = c->array->offset + row;
        if (!lk_bit_or_one(validity, index)) {
            continue;
        }
        if (to_counts) {
            lk_int128 value = 0;
            *c->fault = to_count(&c->plan, c->array, index, &value);
            if (*c->fault == NULL) {
                write_count(&c->plan, value, data, row);
            }
        } else {
            double value = 0;
            *c->fault = to_float(&c->plan, c->array, index, &value);
            if (*c->fault == NULL) {
                *c->fault = write_float(&c->plan, value, data, row);
            }
        }
        *c->fault_row = row;
    }
}

static lk_rc cast_numbers(conversion *c)
{
    size_t rows = (size_t)c->array->length;
    void  *block = NULL;
    lk_rc  rc = lk_block_zero(
         c->plan.target == LK_CLASS_BOOL ? lk_bits_size(c->array->length) : rows * c->plan.to.width, &block,
        c->err);
    if (rc == LK_OK) {
        lk_array_own(c->out, 1, block);
        convert_numbers(c, block);
    }
    return rc;
}

static lk_cast_fault check_bytes(const plan *p, lk_bytes value)
{
    if (p->to.layout == LK_LAYOUT_FIXED && value.size != p->to.width) {
        return "the value has another size than the column";
    }
    bool must_be_text = p->target == LK_CLASS_TEXT && p->source == LK_CLASS_BINARY;
    return must_be_text && !lk_utf8_valid(value.data, value.size) ? "the bytes are not UTF-8 text" : NULL;
}

/* Checks every value and adds up their sizes. */
static size_t measure_bytes(conversion *c)
{
    const uint8_t *validity = lk_array_validity(c->array);
    size_t         total = 0;
    for (int64_t row = 0; *c->fault == NULL && row < c->array->length; row++) {
        if (lk_bit_or_one(validity, c->array->offset + row)) {
            lk_bytes value = read_bytes(&c->plan, c->array, c->array->offset + row);
            *c->fault = check_bytes(&c->plan, value);
            total += value.size;
            if (*c->fault == NULL && c->plan.to.layout == LK_LAYOUT_BYTES32 && total > INT32_MAX) {
                *c->fault = "a batch holds more than 2 GiB of this column; use its large_ type";
            }
        }
        *c->fault_row = row;
    }
    return total;
}

static void copy_bytes(conversion *c, void *offsets, char *data)
{
    const uint8_t *validity = lk_array_validity(c->array);
    bool    fixed = c->plan.to.layout == LK_LAYOUT_FIXED, wide = c->plan.to.layout == LK_LAYOUT_BYTES64;
    int64_t position = 0;
    for (int64_t row = 0; row < c->array->length; row++) {
        lk_bytes value = {0};
        if (lk_bit_or_one(validity, c->array->offset + row)) {
            value = read_bytes(&c->plan, c->array, c->array->offset + row);
        }
        if (value.size > 0) {
            memcpy(data + position, value.data, value.size);
        }
        position += fixed ? (int64_t)c->plan.to.width : (int64_t)value.size;
        if (wide) {
            ((int64_t *)offsets)[row + 1] = position;
        } else if (!fixed) {
            ((int32_t *)offsets)[row + 1] = (int32_t)position;
        }
    }
}

static lk_rc cast_bytes(conversion *c)
{
    size_t rows = (size_t)c->array->length, total = measure_bytes(c);
    bool   fixed = c->plan.to.layout == LK_LAYOUT_FIXED;
    void  *offsets = NULL, *data = NULL;
    if (*c->fault != NULL) {
        return LK_OK;
    }
    lk_rc rc = lk_block_zero(fixed ? rows * c->plan.to.width : total, &data, c->err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_array_own(c->out, fixed ? 1 : 2, data);
    if (!fixed) {
        rc = lk_block_zero((rows + 1) * (c->plan.to.layout == LK_LAYOUT_BYTES64 ? 8 : 4), &offsets, c->err);
        if (rc != LK_OK) {
            return rc;
        }
        lk_array_own(c->out, 1, offsets);
    }
    copy_bytes(c, offsets, data);
    return LK_OK;
}

static lk_rc copy_validity(const struct ArrowArray *array, struct ArrowArray *out, lk_err *err)
{
    const uint8_t *bits = lk_array_validity(array);
    if (bits == NULL) {
        return LK_OK;
    }
    void *block = NULL;
    lk_rc rc = lk_block_zero(lk_bits_size(array->length), &block, err);
    if (rc == LK_OK) {
        lk_bits_copy(bits, array->offset, block, 0, array->length);
        out->null_count = array->length - lk_bits_count(block, 0, array->length);
        lk_array_own(out, 0, block);
    }
    return rc;
}

lk_rc lk_leaf_cast(const struct ArrowArray *array, const lk_type *from, const lk_type *to,
    struct ArrowArray *out, int64_t *fault_row, lk_cast_fault *fault, lk_err *err)
{
    conversion c = {.array = array, .out = out, .fault_row = fault_row, .fault = fault, .err = err};
    *fault = NULL;
    plan_make(from, to, &c.plan);
    lk_array_start(out, array->length, lk_layout_buffers(to->layout), 0, false);
    lk_rc rc = copy_validity(array, out, err);
    if (rc == LK_OK) {
        bool bytes = c.plan.target == LK_CLASS_TEXT || c.plan.target == LK_CLASS_BINARY;
        rc = bytes ? cast_bytes(&c) : cast_numbers(&c);
    }
    if (rc != LK_OK || *fault != NULL) {
        lk_array_release(out);
    }
    return rc;
}
