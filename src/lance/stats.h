#ifndef LK_LANCE_STATS_H
#define LK_LANCE_STATS_H
/*
 * stats.h - zone statistics of a data file (global buffer 1, magic LAKESTAT): for every leaf column and every
 * LK_STATS_ZONE_ROWS rows the least and the greatest value and how many are null. Layout: docs/FORMATS.md.
 *
 * Invariants: a bound is a bound (texts may be cut, the upper one then rounded up); NaN is never a bound and is
 * flagged; what is missing is unknown, never "no match". Foreign readers skip the buffer.
 * Threads: lk_stats is immutable and shared; lk_stats_writer is confined.
 */
#include "arrow/predicate.h"
#include "arrow/type.h"
#include "base/arena.h"

enum {
    LK_STATS_ZONE_ROWS = 8192, /* eight packed blocks: what a point query decodes of its filter column */
    LK_STATS_TEXT_BYTES = 16   /* of a text bound */
};

typedef struct lk_stats lk_stats;

/* Parses the buffer. Damaged or newer statistics are LK_E_CORRUPT_FILE: the caller goes on without. */
LK_MUST_CHECK lk_rc lk_stats_parse(lk_bytes buffer, lk_stats **out, lk_err *err);
lk_stats           *lk_stats_none(void); /* without zones: nothing is known */
lk_stats           *lk_stats_ref(lk_stats *stats);
void                lk_stats_unref(lk_stats *stats); /* accepts NULL */
size_t              lk_stats_bytes(const lk_stats *stats);

uint32_t lk_stats_zone_rows(const lk_stats *stats);
size_t   lk_stats_zone_count(const lk_stats *stats);

/* What is known of a column in a zone, false: nothing. Texts borrow from stats. */
bool lk_stats_zone(const lk_stats *stats, size_t column, size_t zone, lk_column_stats *out);

/* -- writing --------------------------------------------------------------------------------------- */
typedef struct lk_stats_writer lk_stats_writer;

lk_stats_writer *lk_stats_writer_new(size_t column_count);
void             lk_stats_writer_free(lk_stats_writer *writer); /* accepts NULL */
/* Before the first row. Columns that are not told have no statistics, like types without an order. */
void lk_stats_writer_column(lk_stats_writer *writer, size_t column, const lk_type *type);

/* Counts the rows [start, start + count) of Arrow buffers: validity may be NULL (all valid), values are the
 * fixed values, bits or offsets, bytes the text. */
void lk_stats_writer_add(lk_stats_writer *writer, size_t column, const uint8_t *validity, const void *values,
    const uint8_t *bytes, uint64_t start, uint64_t count);

/* Appends the encoded buffer; every column had `rows` rows (those without statistics: any). */
void lk_stats_writer_encode(lk_stats_writer *writer, uint64_t rows, lk_buf *out);

#endif
