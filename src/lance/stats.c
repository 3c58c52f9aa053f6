/*
 * stats.c - see stats.h: reading.
 *
 *   "LAKESTAT" | u16 version = 1 | u16 0 | u32 zone rows | u64 rows | u32 columns
 *   then for each column: u8 kind (lk_value kind + 1; 0: none) | u8 width | zones x record
 *   record: u8 flags (1 min, 2 max, 4 NaN) | u16 nulls | min | max
 *   a bound is `width` bytes; of texts (width 0): u8 size and 16 bytes
 */
#include "lance/stats_priv.h"

#include <stdatomic.h>
#include <stdlib.h>

struct lk_stats {
    atomic_uint refs;
    uint8_t    *bytes; /* the buffer, kept as it was read */
    size_t      size;
    uint32_t    zone_rows;
    uint64_t    rows;
    size_t      zone_count, column_count;
    size_t      columns[]; /* where each column's kind byte is */
};

static lk_rc damaged(lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "zone statistics are damaged or of a newer form");
}

lk_stats *lk_stats_none(void)
{
    lk_stats *stats = calloc(1, sizeof *stats);
    LK_ASSERT(stats != NULL);
    atomic_init(&stats->refs, 1);
    return stats;
}

lk_stats *lk_stats_ref(lk_stats *stats)
{
    (void)atomic_fetch_add_explicit(&stats->refs, 1, memory_order_relaxed);
    return stats;
}

void lk_stats_unref(lk_stats *stats)
{
    if (stats != NULL && atomic_fetch_sub_explicit(&stats->refs, 1, memory_order_acq_rel) == 1) {
        free(stats->bytes);
        free(stats);
    }
}

size_t lk_stats_bytes(const lk_stats *stats)
{
    return sizeof *stats + stats->column_count * sizeof stats->columns[0] + stats->size;
}

uint32_t lk_stats_zone_rows(const lk_stats *stats)
{
    return stats->zone_rows;
}
size_t lk_stats_zone_count(const lk_stats *stats)
{
    return stats->zone_count;
}

static bool width_fits(uint8_t kind, uint8_t width)
{
    switch (kind) {
    case LK_STATS_I64:
    case LK_STATS_U64:
        return width == 1 || width == 2 || width == 4 || width == 8;
    case LK_STATS_F64:
        return width == 2 || width == 4 || width == 8;
    case LK_STATS_TEXT:
        return width == 0;
    case LK_STATS_DECIMAL:
        return width == 16;
    default:
        return false;
    }
}

/* Finds where every column begins. */
static bool find_columns(lk_stats *stats, lk_bytes buffer)
{
    size_t at = LK_STATS_HEADER_BYTES;
    for (size_t column = 0; column < stats->column_count; column++) {
        if (buffer.size - at < 2) {
            return false;
        }
        uint8_t kind = (uint8_t)buffer.data[at], width = (uint8_t)buffer.data[at + 1];
        stats->columns[column] = at;
        at += 2;
        if (kind == LK_STATS_NONE) {
            continue;
        }
        if (!width_fits(kind, width) ||
            (buffer.size - at) / lk_stats_record_bytes(width) < stats->zone_count) {
            return false;
        }
        at += lk_stats_record_bytes(width) * stats->zone_count;
    }
    return true;
}

lk_rc lk_stats_parse(lk_bytes buffer, lk_stats **out, lk_err *err)
{
    if (buffer.size < LK_STATS_HEADER_BYTES || memcmp(buffer.data, LK_STATS_MAGIC, 8) != 0 ||
        lk_load_u16(buffer.data + 8) != LK_STATS_VERSION) {
        return damaged(err);
    }
    uint32_t zone_rows = lk_load_u32(buffer.data + 12), columns = lk_load_u32(buffer.data + 24);
    uint64_t rows = lk_load_u64(buffer.data + 16);
    if (zone_rows == 0 || zone_rows > UINT16_MAX || rows > UINT64_MAX - zone_rows ||
        columns > buffer.size / 2) {
        return damaged(err);
    }
    lk_stats *stats = calloc(1, sizeof *stats + columns * sizeof stats->columns[0]);
    LK_ASSERT(stats != NULL);
    atomic_init(&stats->refs, 1);
    stats->zone_rows = zone_rows;
    stats->rows = rows;
    stats->zone_count = (size_t)((rows + zone_rows - 1) / zone_rows);
    stats->column_count = columns;
    if (!find_columns(stats, buffer)) {
        free(stats);
        return damaged(err);
    }
    stats->bytes = malloc(buffer.size);
    LK_ASSERT(stats->bytes != NULL);
    memcpy(stats->bytes, buffer.data, buffer.size);
    stats->size = buffer.size;
    *out = stats;
    return LK_OK;
}

static int64_t sign_extend(const uint8_t *at, uint8_t width)
{
    uint64_t word = 0;
    memcpy(&word, at, width);
    unsigned shift = 64 - 8U * width;
    return (int64_t)(word << shift) >> shift;
}

static double float_at(const uint8_t *at, uint8_t width)
{
    float  single = 0;
    double wide = 0;
    if (width == 2) {
        return (double)lk_float16_to_float(lk_load_u16(at));
    }
    if (width == 4) {
        memcpy(&single, at, 4);
        return (double)single;
    }
    memcpy(&wide, at, 8);
    return wide;
}

static lk_value value_at(uint8_t kind, uint8_t width, const uint8_t *at)
{
    lk_value value = {0};
    uint64_t word = 0;
    switch (kind) {
    case LK_STATS_I64:
        value.kind = LK_VALUE_I64;
        value.as.i64 = sign_extend(at, width);
        break;
    case LK_STATS_U64:
        memcpy(&word, at, width);
        value.kind = LK_VALUE_U64;
        value.as.u64 = word;
        break;
    case LK_STATS_F64:
        value.kind = LK_VALUE_F64;
        value.as.f64 = float_at(at, width);
        break;
    case LK_STATS_TEXT:
        value.kind = LK_VALUE_BYTES;
        value.as.bytes =
            (lk_bytes){(const char *)at + 1, at[0] < LK_STATS_TEXT_BYTES ? at[0] : LK_STATS_TEXT_BYTES};
        break;
    default:
        value.kind = LK_VALUE_DECIMAL128;
        value.as.decimal128.low = lk_load_u64(at);
        value.as.decimal128.high = (int64_t)lk_load_u64(at + 8);
        break;
    }
    return value;
}

bool lk_stats_zone(const lk_stats *stats, size_t column, size_t zone, lk_column_stats *out)
{
    if (column >= stats->column_count || zone >= stats->zone_count) {
        return false;
    }
    const uint8_t *at = stats->bytes + stats->columns[column];
    uint8_t        kind = at[0], width = at[1];
    if (kind == LK_STATS_NONE) {
        return false;
    }
    at += 2 + lk_stats_record_bytes(width) * zone;
    uint64_t before = (uint64_t)zone * stats->zone_rows;
    size_t   bound = lk_stats_bound_bytes(width);
    *out = (lk_column_stats){.has_min = (at[0] & LK_STATS_HAS_MIN) != 0,
        .has_max = (at[0] & LK_STATS_HAS_MAX) != 0,
        .has_nan = (at[0] & LK_STATS_HAS_NAN) != 0,
        .null_count = lk_load_u16(at + 1)};
    out->row_count = stats->rows - before < stats->zone_rows ? stats->rows - before : stats->zone_rows;
    out->min = value_at(kind, width, at + 3);
    out->max = value_at(kind, width, at + 3 + bound);
    return true;
}
