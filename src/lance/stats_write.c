/*
 * stats_write.c - see stats.h: gathering statistics while a file is written.
 * Invariant: a zone that is open has seen rows % LK_STATS_ZONE_ROWS rows; closing it appends its record.
 */
#include "lance/cpu.h"
#include "lance/stats_priv.h"

#include "arrow/bits.h"

#include <math.h>
#include <stdlib.h>

/* Text bounds as numbers: the first 16 bytes, big endian, zero behind the end. */
typedef struct text {
    uint64_t high, low;
    size_t   size;
} text;

__extension__ typedef __int128 int128;

typedef struct zone {
    uint32_t rows, nulls;
    uint8_t  flags;
    union {
        int64_t  i64;
        uint64_t u64;
        double   f64;
        int128   decimal;
        text     bytes;
    } min, max;
} zone;

typedef struct column {
    uint8_t kind, width;
    lk_type type;
    zone    open;
    lk_buf  records;
} column;

struct lk_stats_writer {
    size_t column_count;
    column columns[];
};

lk_stats_writer *lk_stats_writer_new(size_t column_count)
{
    lk_stats_writer *writer = calloc(1, sizeof *writer + column_count * sizeof writer->columns[0]);
    LK_ASSERT(writer != NULL);
    writer->column_count = column_count;
    return writer;
}

void lk_stats_writer_free(lk_stats_writer *writer)
{
    for (size_t index = 0; writer != NULL && index < writer->column_count; index++) {
        lk_buf_deinit(&writer->columns[index].records);
    }
    free(writer);
}

static uint8_t kind_of(const lk_type *type)
{
    if (type->dictionary) {
        return LK_STATS_NONE;
    }
    if (type->id == LK_TYPE_BOOL || lk_type_is_signed(type->id) ||
        (type->id >= LK_TYPE_DATE32 && type->id <= LK_TYPE_DURATION)) {
        return LK_STATS_I64;
    }
    if (lk_type_is_unsigned(type->id)) {
        return LK_STATS_U64;
    }
    if (lk_type_is_float(type->id)) {
        return LK_STATS_F64;
    }
    if (lk_type_is_bytes(type->id) || type->id == LK_TYPE_FIXED_BINARY) {
        return LK_STATS_TEXT;
    }
    return type->id == LK_TYPE_DECIMAL128 ? LK_STATS_DECIMAL : LK_STATS_NONE;
}

void lk_stats_writer_column(lk_stats_writer *writer, size_t index, const lk_type *type)
{
    column *self = &writer->columns[index];
    self->kind = kind_of(type);
    self->type = *type;
    self->width = self->kind == LK_STATS_TEXT || self->kind == LK_STATS_NONE ? 0
                  : type->id == LK_TYPE_BOOL                                 ? 1
                                                                             : (uint8_t)type->width;
}

/* -- closing a zone -------------------------------------------------------------------------------- */
static void put_text(lk_buf *out, text bound)
{
    char bytes[1 + LK_STATS_TEXT_BYTES] = {(char)bound.size};
    for (size_t at = 0; at < bound.size; at++) {
        uint64_t half = at < 8 ? bound.high : bound.low;
        bytes[1 + at] = (char)(half >> (56 - at % 8 * 8));
    }
    lk_buf_append(out, bytes, sizeof bytes);
}

/* The least text above all that begin with these 16 bytes; false when there is none. */
static bool round_up(text *bound)
{
    for (size_t at = LK_STATS_TEXT_BYTES; at > 0; at--) {
        uint64_t *half = at > 8 ? &bound->low : &bound->high;
        unsigned  shift = (unsigned)(56 - (at - 1) % 8 * 8);
        if ((*half >> shift & 0xff) != 0xff) {
            *half += (uint64_t)1 << shift;
            bound->size = at;
            return true;
        }
        *half &= ~((uint64_t)0xff << shift);
    }
    return false;
}

static void close_text(column *self)
{
    zone *open = &self->open;
    text  min = open->min.bytes, max = open->max.bytes;
    if (min.size > LK_STATS_TEXT_BYTES) {
        min.size = LK_STATS_TEXT_BYTES;
    }
    if (max.size > LK_STATS_TEXT_BYTES && !round_up(&max)) {
        self->records.data[self->records.size - 3] = (char)(open->flags & ~LK_STATS_HAS_MAX);
        max = (text){0};
    }
    put_text(&self->records, min);
    put_text(&self->records, max);
}

static void put_float(column *self, double value)
{
    float       single = (float)value;
    uint16_t    half = self->width == 2 ? lk_float16_of_float(single) : 0; /* exact: it was one */
    const void *from = self->width == 2   ? (const void *)&half
                       : self->width == 4 ? (const void *)&single
                                          : &value;
    lk_buf_append(&self->records, from, self->width);
}

static void close_zone(column *self)
{
    zone *open = &self->open;
    char  head[3] = {(char)open->flags};
    lk_store_u16(head + 1, (uint16_t)open->nulls);
    lk_buf_append(&self->records, head, sizeof head);
    if (self->kind == LK_STATS_TEXT) {
        close_text(self);
    } else if (self->kind == LK_STATS_F64) {
        put_float(self, open->min.f64);
        put_float(self, open->max.f64);
    } else { /* little endian: the low bytes come first */
        lk_buf_append(&self->records, &open->min, self->width);
        lk_buf_append(&self->records, &open->max, self->width);
    }
    *open = (zone){0};
}

/* -- counting -------------------------------------------------------------------------------------- */
/* The extremes of values[0 .. count); first: nothing is known yet. */
#define EXTREMES(name, type, wide)                                                                           \
    LK_VECTOR static void name##_dense(const type *values, uint64_t count, type *least, type *most)          \
    {                                                                                                        \
        type low = *least, high = *most;                                                                     \
        for (uint64_t at = 0; at < count; at++) {                                                            \
            low = values[at] < low ? values[at] : low;                                                       \
            high = values[at] > high ? values[at] : high;                                                    \
        }                                                                                                    \
        *least = low;                                                                                        \
        *most = high;                                                                                        \
    }                                                                                                        \
    static void name##_sparse(                                                                               \
        const type *values, const uint8_t *validity, int64_t start, uint64_t count, type *least, type *most) \
    {                                                                                                        \
        for (uint64_t at = 0; at < count; at++) {                                                            \
            if (lk_bit(validity, start + (int64_t)at)) {                                                     \
                *least = values[at] < *least ? values[at] : *least;                                          \
                *most = values[at] > *most ? values[at] : *most;                                             \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void name##_add(zone *open, const uint8_t *validity, const type *values, int64_t start,           \
        uint64_t count, type floor, type ceiling)                                                            \
    {                                                                                                        \
        bool known = (open->flags & LK_STATS_HAS_MIN) != 0;                                                  \
        type least = known ? (type)open->min.wide : ceiling, most = known ? (type)open->max.wide : floor;    \
        if (validity == NULL) {                                                                              \
            name##_dense(values + start, count, &least, &most);                                              \
        } else {                                                                                             \
            name##_sparse(values + start, validity, start, count, &least, &most);                            \
        }                                                                                                    \
        if (least <= most) {                                                                                 \
            open->min.wide = least;                                                                          \
            open->max.wide = most;                                                                           \
            open->flags |= LK_STATS_HAS_MIN | LK_STATS_HAS_MAX;                                              \
        }                                                                                                    \
    }

EXTREMES(i8, int8_t, i64)
EXTREMES(i16, int16_t, i64)
EXTREMES(i32, int32_t, i64)
EXTREMES(i64, int64_t, i64)
EXTREMES(u8, uint8_t, u64)
EXTREMES(u16, uint16_t, u64)
EXTREMES(u32, uint32_t, u64)
EXTREMES(u64, uint64_t, u64)

static void add_signed(
    zone *open, uint8_t width, const uint8_t *validity, const void *values, int64_t start, uint64_t count)
{
    switch (width) {
    case 1:
        i8_add(open, validity, values, start, count, INT8_MIN, INT8_MAX);
        break;
    case 2:
        i16_add(open, validity, values, start, count, INT16_MIN, INT16_MAX);
        break;
    case 4:
        i32_add(open, validity, values, start, count, INT32_MIN, INT32_MAX);
        break;
    default:
        i64_add(open, validity, values, start, count, INT64_MIN, INT64_MAX);
        break;
    }
}

static void add_unsigned(
    zone *open, uint8_t width, const uint8_t *validity, const void *values, int64_t start, uint64_t count)
{
    switch (width) {
    case 1:
        u8_add(open, validity, values, start, count, 0, UINT8_MAX);
        break;
    case 2:
        u16_add(open, validity, values, start, count, 0, UINT16_MAX);
        break;
    case 4:
        u32_add(open, validity, values, start, count, 0, UINT32_MAX);
        break;
    default:
        u64_add(open, validity, values, start, count, 0, UINT64_MAX);
        break;
    }
}

static double float_at(uint8_t width, const void *values, uint64_t at)
{
    const uint8_t *bytes = (const uint8_t *)values + at * width;
    float          single = 0;
    double         wide = 0;
    if (width == 2) {
        return (double)lk_float16_to_float(lk_load_u16(bytes));
    }
    if (width == 4) {
        memcpy(&single, bytes, 4);
        return (double)single;
    }
    memcpy(&wide, bytes, 8);
    return wide;
}

static void extend_float(zone *open, double value)
{
    if (value != value) {
        open->flags |= LK_STATS_HAS_NAN;
        return;
    }
    bool known = (open->flags & LK_STATS_HAS_MIN) != 0;
    open->min.f64 = !known || value < open->min.f64 ? value : open->min.f64;
    open->max.f64 = !known || value > open->max.f64 ? value : open->max.f64;
    open->flags |= LK_STATS_HAS_MIN | LK_STATS_HAS_MAX;
}

/* Values without a null among them. NaN is below and above nothing. */
#define FLOATS(name, type)                                                                          \
    LK_VECTOR static bool name##_dense(const type *values, uint64_t count, type *least, type *most) \
    {                                                                                               \
        type     low = *least, high = *most;                                                        \
        unsigned nan = 0;                                                                           \
        for (uint64_t at = 0; at < count; at++) {                                                   \
            low = values[at] < low ? values[at] : low;                                              \
            high = values[at] > high ? values[at] : high;                                           \
            nan |= values[at] != values[at];                                                        \
        }                                                                                           \
        *least = low;                                                                               \
        *most = high;                                                                               \
        return nan != 0;                                                                            \
    }                                                                                               \
    static void name##_add(zone *open, const type *values, uint64_t count)                          \
    {                                                                                               \
        type least = (type)INFINITY, most = (type)-INFINITY;                                        \
        if (name##_dense(values, count, &least, &most)) {                                           \
            open->flags |= LK_STATS_HAS_NAN;                                                        \
        }                                                                                           \
        if (least <= most) { /* else: nothing but NaN */                                            \
            extend_float(open, (double)least);                                                      \
            extend_float(open, (double)most);                                                       \
        }                                                                                           \
    }
FLOATS(f32, float)
FLOATS(f64, double)

static void extend_decimal(zone *open, const uint8_t *bytes)
{
    int128 value = 0;
    memcpy(&value, bytes, sizeof value);
    bool known = (open->flags & LK_STATS_HAS_MIN) != 0;
    open->min.decimal = !known || value < open->min.decimal ? value : open->min.decimal;
    open->max.decimal = !known || value > open->max.decimal ? value : open->max.decimal;
    open->flags |= LK_STATS_HAS_MIN | LK_STATS_HAS_MAX;
}

static text text_of(const uint8_t *bytes, size_t size)
{
    uint8_t padded[LK_STATS_TEXT_BYTES] = {0};
    if (size > 0) {
        memcpy(padded, bytes, size < sizeof padded ? size : sizeof padded);
    }
    return (text){__builtin_bswap64(lk_load_u64(padded)), __builtin_bswap64(lk_load_u64(padded + 8)), size};
}

static bool below(text a, text b)
{
    return a.high != b.high ? a.high < b.high : a.low != b.low ? a.low < b.low : a.size < b.size;
}

static void extend_text(zone *open, text value)
{
    bool known = (open->flags & LK_STATS_HAS_MIN) != 0;
    if (!known || below(value, open->min.bytes)) {
        open->min.bytes = value;
    }
    if (!known || below(open->max.bytes, value)) {
        open->max.bytes = value;
    }
    open->flags |= LK_STATS_HAS_MIN | LK_STATS_HAS_MAX;
}

static void extend_bool(zone *open, bool value)
{
    bool known = (open->flags & LK_STATS_HAS_MIN) != 0;
    open->min.i64 = !known || value < open->min.i64 ? value : open->min.i64;
    open->max.i64 = !known || value > open->max.i64 ? value : open->max.i64;
    open->flags |= LK_STATS_HAS_MIN | LK_STATS_HAS_MAX;
}

static text text_at(const column *self, const void *values, const uint8_t *bytes, uint64_t at)
{
    uint64_t first = 0, last = 0;
    uint32_t width = self->type.layout == LK_LAYOUT_BYTES32 ? 4 : 8;
    if (self->type.layout == LK_LAYOUT_FIXED) {
        return text_of((const uint8_t *)values + at * self->type.width, self->type.width);
    }
    memcpy(&first, (const uint8_t *)values + at * width, width);
    memcpy(&last, (const uint8_t *)values + (at + 1) * width, width);
    return text_of(bytes + first, (size_t)(last - first));
}

/* Types that are looked at value by value. */
static void extend(column *self, const void *values, uint64_t at)
{
    if (self->kind == LK_STATS_F64) {
        extend_float(&self->open, float_at(self->width, values, at));
    } else if (self->kind == LK_STATS_DECIMAL) {
        extend_decimal(&self->open, (const uint8_t *)values + at * 16);
    } else {
        extend_bool(&self->open, lk_bit(values, (int64_t)at));
    }
}

/* Text that begins between the bounds changes neither; most does. */
static bool inside(const column *self, const void *values, const uint8_t *bytes, uint64_t at)
{
    const uint32_t *offsets = values;
    const zone     *open = &self->open;
    if (self->type.layout != LK_LAYOUT_BYTES32 || offsets[at + 1] - offsets[at] < 8 ||
        (open->flags & LK_STATS_HAS_MIN) == 0) {
        return false;
    }
    uint64_t begins = __builtin_bswap64(lk_load_u64(bytes + offsets[at]));
    return begins > open->min.bytes.high && begins < open->max.bytes.high;
}

static void add_texts(column *self, const uint8_t *validity, const void *values, const uint8_t *bytes,
    uint64_t start, uint64_t count)
{
    for (uint64_t at = start; at < start + count; at++) {
        if (lk_bit_or_one(validity, (int64_t)at) && !inside(self, values, bytes, at)) {
            extend_text(&self->open, text_at(self, values, bytes, at));
        }
    }
}

static void add_one_by_one(
    column *self, const uint8_t *validity, const void *values, uint64_t start, uint64_t count)
{
    for (uint64_t at = start; at < start + count; at++) {
        if (lk_bit_or_one(validity, (int64_t)at)) {
            extend(self, values, at);
        }
    }
}

/* Rows that all lie in the open zone. */
static void add_rows(column *self, const uint8_t *validity, const void *values, const uint8_t *bytes,
    uint64_t start, uint64_t count)
{
    uint64_t valid =
        validity == NULL ? count : (uint64_t)lk_bits_count(validity, (int64_t)start, (int64_t)count);
    self->open.rows += (uint32_t)count;
    self->open.nulls += (uint32_t)(count - valid);
    if (valid == 0) {
        return;
    }
    const uint8_t *some = valid == count ? NULL : validity;
    if (self->kind == LK_STATS_I64 && self->type.id != LK_TYPE_BOOL) {
        add_signed(&self->open, self->width, some, values, (int64_t)start, count);
    } else if (self->kind == LK_STATS_U64) {
        add_unsigned(&self->open, self->width, some, values, (int64_t)start, count);
    } else if (self->kind == LK_STATS_F64 && some == NULL && self->width == 8) {
        f64_add(&self->open, (const double *)values + start, count);
    } else if (self->kind == LK_STATS_F64 && some == NULL && self->width == 4) {
        f32_add(&self->open, (const float *)values + start, count);
    } else if (self->kind == LK_STATS_TEXT) {
        add_texts(self, some, values, bytes, start, count);
    } else {
        add_one_by_one(self, some, values, start, count);
    }
}

void lk_stats_writer_add(lk_stats_writer *writer, size_t index, const uint8_t *validity, const void *values,
    const uint8_t *bytes, uint64_t start, uint64_t count)
{
    column *self = &writer->columns[index];
    while (self->kind != LK_STATS_NONE && count > 0) {
        uint64_t left = LK_STATS_ZONE_ROWS - self->open.rows, some = count < left ? count : left;
        add_rows(self, validity, values, bytes, start, some);
        if (self->open.rows == LK_STATS_ZONE_ROWS) {
            close_zone(self);
        }
        start += some;
        count -= some;
    }
}

void lk_stats_writer_encode(lk_stats_writer *writer, uint64_t rows, lk_buf *out)
{
    char header[LK_STATS_HEADER_BYTES] = LK_STATS_MAGIC;
    lk_store_u16(header + 8, LK_STATS_VERSION);
    lk_store_u32(header + 12, LK_STATS_ZONE_ROWS);
    lk_store_u64(header + 16, rows);
    lk_store_u32(header + 24, (uint32_t)writer->column_count);
    lk_buf_append(out, header, sizeof header);
    for (size_t index = 0; index < writer->column_count; index++) {
        column *self = &writer->columns[index];
        if (self->open.rows > 0) {
            close_zone(self);
        }
        char head[2] = {(char)self->kind, (char)self->width};
        lk_buf_append(out, head, sizeof head);
        lk_buf_append(out, self->records.data, self->records.size);
    }
}
