#ifndef LK_ROLLOUT_QUERY_H
#define LK_ROLLOUT_QUERY_H
/*
 * query.h - a snapshot's records: filtered, each id once, in a stated order, a page at a time.
 *
 * Filters judge the row that counts of an id: an older copy does not come back because the newer one was filtered out.
 * Of a page the keys of about twice its rows are held in memory, without a limit of all rows (charged to the budget); their
 * columns only for the batch at hand. Without an order nothing is held.
 *
 * Threads: a stream is confined.
 */
#include "rollout/view.h"

typedef enum lk_rollout_order {
    LK_ROLLOUT_BY_TIME, /* created_at, rollout_id, sequence_order, id */
    LK_ROLLOUT_BY_ID,
    LK_ROLLOUT_ANY /* the snapshot's own */
} lk_rollout_order;

/* One column's condition; null never meets it. */
typedef struct lk_rollout_filter {
    lk_record_column column;
    const lk_bytes  *texts; /* of a text column: one of these */
    size_t           text_count;
    bool             truth;    /* of a boolean column */
    int64_t          from, to; /* of created_at, microseconds: from <= value < to */
} lk_rollout_filter;

/* Where a page ended. */
typedef struct lk_rollout_key {
    int64_t  created_at;
    int32_t  sequence_order;
    lk_bytes rollout_id, id;
} lk_rollout_key;

typedef struct lk_rollout_query {
    const lk_rollout_filter *filters; /* all must hold */
    size_t                   filter_count;
    uint64_t
        columns; /* bits 1 << lk_record_column, the payload only when it is named; 0: all but the payload */
    lk_rollout_order      order;
    uint64_t              offset, limit; /* of the rows that are left; limit UINT64_MAX: all */
    const lk_rollout_key *after;  /* only rows behind it in the order (not LK_ROLLOUT_ANY); NULL: all */
    lk_budget            *budget; /* NULL: unlimited */
    lk_cancel            *cancel; /* NULL: never */
} lk_rollout_query;

/* Batches of the asked columns in the record's order, without dictionaries. References the snapshot; budget and cancel outlive
 * the stream. LK_E_LIMIT when the keys exceed the budget; LK_E_CORRUPT_FILE names the file. */
LK_MUST_CHECK lk_rc lk_rollout_query_open(
    lk_rollout_snapshot *snapshot, const lk_rollout_query *query, lk_batches **out, lk_err *err);

/* How many rows the page has that were not read yet (of LK_ROLLOUT_ANY: at least so many, and none only at the end); the key of
 * its last one (false: it has none, or no order), borrowed from the stream. */
uint64_t lk_rollout_query_count(const lk_batches *stream);
bool     lk_rollout_query_last(const lk_batches *stream, lk_rollout_key *key);

#endif
