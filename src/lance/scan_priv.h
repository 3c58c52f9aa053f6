#ifndef LK_LANCE_SCAN_PRIV_H
#define LK_LANCE_SCAN_PRIV_H
/*
 * scan_priv.h - a scan cut into morsels: scan_plan.c makes the plan, scan_morsel.c decodes one morsel, scan.c
 * puts the batches in order.
 *
 * Invariant: a plan does not change after open, but for its counters. Threads: shared.
 */
#include "lance/buffer_pool.h"
#include "lance/dataset_priv.h"

/* Rows that are read, filtered and delivered together: neighbouring ranges of one fragment. */
typedef struct lk_morsel {
    size_t   fragment;
    size_t   first_range, range_count; /* in lk_morsel_scan.ranges */
    uint64_t rows;
} lk_morsel;

struct lk_morsel_scan {
    lk_dataset               *dataset;
    lk_arena                  arena;
    struct ArrowSchema        schema; /* of the batches */
    const struct ArrowSchema *view;   /* of the whole table, as it is handed out */
    const struct ArrowSchema
                      *plain; /* the same as predicates see it: no dictionaries, blobs as descriptors */
    struct ArrowSchema own_view, own_plain; /* what these point to where they are not the table's */
    bool               reads_blobs;         /* their bytes */
    const size_t      *columns;             /* top-level fields that are returned */
    size_t             column_count;
    unsigned           meta; /* lk_meta_column */
    bool               no_columns, unordered, alone;
    const uint64_t *live_before; /* of each fragment: the table's live rows before it; NULL: not asked for */
    bool            live;        /* no planned row is deleted */
    const lk_predicate *predicate;
    size_t             *tested; /* fields that the predicate reads, ascending */
    size_t              tested_count;
    lk_cancel          *cancel;
    lk_buffer_pool     *pool;
    bool                owns_pool;
    lk_morsel          *morsels;
    size_t              morsel_count;
    lk_row_range       *ranges;
    size_t              range_count;
    lk_scan_stats       stats; /* but for rows_decoded */
    atomic_size_t       next;  /* the first morsel nobody took */
    _Atomic uint64_t    left;  /* rows that the limit still allows */
    _Atomic uint64_t    rows_decoded;
};

/* Rows [start, start + count) of a fragment more: into its open morsel, or into new ones of at most `target` rows.
 * Ascending inside a fragment. */
typedef struct lk_plan {
    lk_morsel_scan *scan;
    size_t          morsel_room, range_room;
} lk_plan;
void lk_plan_rows(lk_plan *plan, size_t fragment, uint64_t start, uint64_t count, uint64_t target);

/* A scan of this projection, predicate and cancel flag, yet without any morsel. */
LK_MUST_CHECK lk_rc lk_morsel_scan_new(
    lk_dataset *dataset, const lk_scan_options *options, lk_morsel_scan **out, lk_err *err);

/* Its morsels decoded ahead by the pool, as a stream in their order. Takes the scan, also when it fails. */
LK_MUST_CHECK lk_rc lk_morsel_scan_stream(
    lk_morsel_scan *scan, uint64_t limit, lk_batches **out, lk_err *err);

/* Rows of a morsel that are delivered. */
typedef struct lk_kept_rows {
    size_t              fragment;
    const lk_row_range *ranges;
    size_t              range_count;
    const uint8_t      *selection; /* a byte a row of the ranges; NULL: all */
    uint64_t            count;
} lk_kept_rows;

/* scan_meta.c: adds the meta columns to a schema; what they need of the version; one of them for these rows. */
LK_MUST_CHECK lk_rc lk_meta_schema(unsigned meta, struct ArrowSchema **children, lk_err *err);
void                lk_meta_prepare(lk_morsel_scan *scan);
size_t              lk_meta_count(unsigned meta);
/* `children` has one for each meta column. */
LK_MUST_CHECK lk_rc lk_meta_columns(
    lk_morsel_scan *scan, const lk_kept_rows *rows, struct ArrowArray **children, lk_err *err);

/* Decodes rows of a top-level column as `view` has it. */
LK_MUST_CHECK lk_rc lk_morsel_decode(const lk_morsel_scan *scan, size_t fragment, size_t column,
    const struct ArrowSchema *view, const lk_row_range *ranges, size_t count, struct ArrowArray *out,
    lk_err *err);

/* Cuts the morsels of a scan that hands out bytes of blobs so that none has more than 16 MiB of them, or one
 * row. Reads the descriptors of all planned rows. */
LK_MUST_CHECK lk_rc lk_plan_cut_blobs(lk_morsel_scan *scan, lk_err *err);

/* Decodes morsel `index`. *out: a batch; one of length 0 has no columns. */
LK_MUST_CHECK lk_rc lk_morsel_run(lk_morsel_scan *scan, size_t index, struct ArrowArray *out, lk_err *err);

/* Leaves the first `rows` rows of a batch. */
void lk_batch_truncate(struct ArrowArray *batch, int64_t rows);

#endif
