#ifndef LK_LANCE_STATS_PRIV_H
#define LK_LANCE_STATS_PRIV_H
/* stats_priv.h - the bytes of zone statistics, for stats.c (reads) and stats_write.c. Stateless. */
#include "lance/stats.h"

#define LK_STATS_MAGIC "LAKESTAT"
enum { LK_STATS_VERSION = 1, LK_STATS_HEADER_BYTES = 28 };
_Static_assert(LK_STATS_ZONE_ROWS <= UINT16_MAX, "a zone's null count is 16 bits");

enum { LK_STATS_NONE, LK_STATS_I64, LK_STATS_U64, LK_STATS_F64, LK_STATS_TEXT, LK_STATS_DECIMAL };
enum { LK_STATS_HAS_MIN = 1, LK_STATS_HAS_MAX = 2, LK_STATS_HAS_NAN = 4 };

static inline size_t lk_stats_bound_bytes(uint8_t width)
{
    return width == 0 ? 1 + LK_STATS_TEXT_BYTES : width;
}

static inline size_t lk_stats_record_bytes(uint8_t width)
{
    return 3 + 2 * lk_stats_bound_bytes(width);
}

#endif
