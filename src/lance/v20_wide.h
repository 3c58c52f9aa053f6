#ifndef LK_LANCE_V20_WIDE_H
#define LK_LANCE_V20_WIDE_H
/*
 * v20_wide.h - columns of a 2.0 file whose rows are something else than values, on their way to a page:
 *
 *   packed struct  the members' bytes side by side. No member is null or a boolean, nor is the struct null
 *   blob           position and size of bytes that are in the file already; (0, 0) empty, (1, 0) null
 *   dictionary     a number among the values seen since the last page; every page has a dictionary of its own
 *
 * Threads: confined.
 */
#include "lance/distinct.h"
#include "lance/v20_page.h"

/* Where buffers go: appends them to the file at a multiple of 64 bytes. */
typedef struct lk_page_sink {
    lk_rc (*put)(void *context, lk_bytes bytes, uint64_t *offset, lk_err *err);
    void *context;
} lk_page_sink;

typedef enum lk_v20_wide_kind {
    LK_V20_WIDE_PACKED,
    LK_V20_WIDE_BLOB,
    LK_V20_WIDE_DICTIONARY
} lk_v20_wide_kind;

typedef struct lk_v20_wide {
    lk_v20_wide_kind          kind;
    const struct ArrowSchema *field;
    uint64_t                  rows;
    uint32_t                  row_bytes;  /* of rows: what a row takes in the page */
    lk_buf                    bytes;      /* the rows; of a dictionary, 64-bit numbers */
    lk_distinct               values;     /* DICTIONARY */
    uint64_t                  values_max; /* DICTIONARY: of a page, so that its index type numbers them */
    uint64_t                  nulls;      /* DICTIONARY */
    lk_leaf                   items;      /* DICTIONARY: reused */
} lk_v20_wide;

/* Whether the field is such a column. */
bool lk_v20_is_wide(const struct ArrowSchema *field);

/* LK_E_INVALID_SCHEMA names what is not stored. */
LK_MUST_CHECK lk_rc lk_v20_wide_open(lk_v20_wide *wide, const struct ArrowSchema *field, lk_err *err);
void                lk_v20_wide_close(lk_v20_wide *wide); /* idempotent */

/* How many of the next `count` rows the page has room for (0: it must end first). */
int64_t lk_v20_wide_room(const lk_v20_wide *wide, int64_t count, size_t page_bytes);

/* Appends `count` rows from absolute row `start` of array, but of a dictionary no more than the page can number:
 * *done of them. */
LK_MUST_CHECK lk_rc lk_v20_wide_append(lk_v20_wide *wide, const struct ArrowArray *array, int64_t start,
    int64_t count, const lk_page_sink *sink, int64_t *done, lk_err *err);

/* The waiting rows as a page; there are some. */
void lk_v20_wide_page(lk_v20_wide *wide, lk_v20_page_out *out);
void lk_v20_wide_clear(lk_v20_wide *wide); /* no rows, memory kept */

size_t lk_v20_wide_capacity(const lk_v20_wide *wide); /* memory held */

#endif
