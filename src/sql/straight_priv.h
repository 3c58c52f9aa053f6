#ifndef LK_SQL_STRAIGHT_PRIV_H
#define LK_SQL_STRAIGHT_PRIV_H
/* straight_priv.h - the path around the SQL engine; see straight.c. Threads: a plan is confined to its
 * request. */
#include "sql/statement_priv.h"

typedef struct lk_straight {
    struct ArrowSchema  schema; /* of the result; owned */
    lk_arena            arena;  /* columns and predicate */
    size_t             *columns;
    size_t              column_count;
    const lk_predicate *predicate;
    bool                count;
    uint64_t            limit;
    lk_buf              addresses; /* u64 each, in order, when `taken`: just these rows */
    bool                taken;
} lk_straight;

/* Whether this shape over this schema goes straight; fills *out (close it) when it does. */
LK_MUST_CHECK lk_rc lk_straight_plan(
    const lk_shape *shape, const struct ArrowSchema *schema, lk_straight *out, bool *fits, lk_err *err);
void lk_straight_close(lk_straight *straight);

/* Takes *straight. */
LK_MUST_CHECK lk_rc lk_straight_run(
    lk_straight *straight, lk_table_snapshot *snapshot, lk_cancel *cancel, lk_batches **out, lk_err *err);
bool lk_straight_is(const lk_batches *batches);

#endif
