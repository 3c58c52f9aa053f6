#ifndef LK_ROLLOUT_QUERY_PRIV_H
#define LK_ROLLOUT_QUERY_PRIV_H
/*
 * query_priv.h - what the files behind query.h share: query.c sorts keys and cuts pages, query_any.c streams rows in the
 * snapshot's own order, query_rows.c has conditions and fetches columns.
 * Threads: confined.
 */
#include "rollout/query.h"

#define LK_QUERY_BASE UINT32_MAX

enum { LK_QUERY_FIRST_ROWS = 256, LK_QUERY_BATCH_ROWS = 1024, LK_QUERY_BATCH_BYTES = 8 * 1024 * 1024 };

/* Where a row is: in a source, or at an address of the base table. */
typedef struct lk_query_place {
    uint64_t row;
    uint32_t source;
} lk_query_place;

/* The columns of a query's batches. */
typedef struct lk_query_columns {
    lk_rollout_snapshot *snapshot; /* borrowed */
    lk_cancel           *cancel;
    struct ArrowSchema   schema;     /* of the batches */
    struct ArrowSchema   plain;      /* the same without the payload */
    size_t              *of_rows;    /* of the plain ones: in a source's batch */
    size_t               count;      /* of them */
    size_t               payload_at; /* SIZE_MAX: not asked for */
} lk_query_columns;

LK_MUST_CHECK lk_rc lk_query_columns_choose(
    lk_rollout_snapshot *snapshot, const lk_rollout_query *query, lk_query_columns *out, lk_err *err);
void lk_query_columns_deinit(lk_query_columns *columns);

/* Rows from wherever they are, in this order. */
LK_MUST_CHECK lk_rc lk_query_fetch(const lk_query_columns *columns, const lk_query_place *places,
    size_t count, struct ArrowArray *out, lk_err *err);

/* How many rows are fetched together at first, and from what the last ones took: a batch has about LK_QUERY_BATCH_BYTES at most. */
size_t lk_query_first_rows(const lk_query_columns *columns);
size_t lk_query_next_rows(const lk_query_columns *columns, size_t batch_rows, const struct ArrowArray *last);

/* All filters over the columns of a schema, in the arena; NULL: none. *never when one is over a column that it lacks. */
const lk_predicate *lk_query_condition(
    const struct ArrowSchema *schema, const lk_rollout_query *query, lk_arena *arena, bool *never);

/* Which rows of a source count and pass: a byte a row. */
LK_MUST_CHECK lk_rc lk_query_select(const lk_rollout_snapshot *snapshot, size_t source,
    const lk_rollout_query *query, uint8_t *selection, lk_err *err);

/* query_any.c: the stream of LK_ROLLOUT_ANY. */
LK_MUST_CHECK lk_rc lk_query_any_open(
    lk_rollout_snapshot *snapshot, const lk_rollout_query *query, lk_batches **out, lk_err *err);
uint64_t lk_query_any_count(const lk_batches *stream);

#endif
