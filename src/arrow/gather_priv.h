#ifndef LK_ARROW_GATHER_PRIV_H
#define LK_ARROW_GATHER_PRIV_H
/*
 * gather_priv.h - one kernel behind filter, take, concat and dictionary decoding: copy ranges of rows of
 * some arrays into one new array. Threads: stateless.
 */
#include "arrow/array_priv.h"

typedef struct lk_range {
    int64_t start, length; /* start -1: nulls */
} lk_range;

/*
 * Ranges of one source. A range stands for rows [start * scale + shift, + length * scale) of array, so that
 * children of structs and of fixed-size lists use their parent's ranges as they are.
 */
typedef struct lk_segment {
    const struct ArrowArray *array; /* may be NULL when every range is nulls */
    const lk_range          *ranges;
    size_t                   count;
    int64_t                  shift, scale; /* 0, 1 to begin with */
    int64_t                  rows;         /* sum of length * scale */
    bool                     nulls;        /* a range with start -1 is among them */
} lk_segment;

LK_MUST_CHECK lk_rc lk_gather(const struct ArrowSchema *schema, const lk_segment *segments, size_t count,
    struct ArrowArray *out, lk_err *err);

/* The largest number of rows any array of ours may have. */
#define LK_ARRAY_ROWS_MAX (INT64_MAX / 1024)

#endif
