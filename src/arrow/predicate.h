#ifndef LK_ARROW_PREDICATE_H
#define LK_ARROW_PREDICATE_H
/*
 * predicate.h - filters as one tree, with DuckDB's comparison rules: three-valued null logic; NaN equals
 * itself and is greater than every number; -0.0 equals 0.0; text and binary compare by bytes.
 *
 * sql/ translates into it; lance/ prunes with lk_predicate_may_match and filters with
 * lk_predicate_evaluate. A node is exact: a caller that gets a tree may rely on it alone.
 * Ownership: nodes live in the arena they were built in. Threads: immutable once built.
 */
#include "arrow/batch.h"

typedef enum lk_predicate_kind {
    LK_PREDICATE_COMPARE, /* column op value */
    LK_PREDICATE_IN,      /* column IN (values), no null among them */
    LK_PREDICATE_IS_NULL,
    LK_PREDICATE_IS_NOT_NULL,
    LK_PREDICATE_PREFIX, /* text column starts with value */
    LK_PREDICATE_AND,
    LK_PREDICATE_OR,
    LK_PREDICATE_NOT
} lk_predicate_kind;

typedef enum lk_compare { LK_EQ, LK_NE, LK_LT, LK_LE, LK_GT, LK_GE } lk_compare;

/* A constant in the column's own type: the physical form its Arrow array stores. */
typedef struct lk_value {
    enum { LK_VALUE_I64, LK_VALUE_U64, LK_VALUE_F64, LK_VALUE_BYTES, LK_VALUE_DECIMAL128 } kind;
    union {
        int64_t  i64; /* every signed integer, date, time, timestamp, duration; bool as 0 or 1 */
        uint64_t u64;
        double   f64;   /* float16, float32, float64 */
        lk_bytes bytes; /* utf8, binary, fixed-size binary */
        struct {
            uint64_t low;
            int64_t  high;
        } decimal128;
    } as;
} lk_value;

/* The value of row `row` of an array of this field's type (its offset is added). False: null, or a type that does not
 * compare. Bytes borrow from the array. */
bool lk_value_read(
    const struct ArrowSchema *field, const struct ArrowArray *array, int64_t row, lk_value *out);

typedef struct lk_predicate lk_predicate;
struct lk_predicate {
    lk_predicate_kind kind;
    size_t            column; /* index into the schema the tree was built for (top-level fields) */
    const size_t     *path; /* below it: the member of a struct, and so on inwards; null where a struct is */
    size_t            path_count;
    lk_compare        compare;
    const lk_value   *values; /* one, or the IN list */
    size_t            value_count;
    const lk_predicate **children; /* AND, OR: any number; NOT: one */
    size_t               child_count;
};

/* What is known of a column over a range of rows. A bound that is absent is unknown. */
typedef struct lk_column_stats {
    bool has_min, has_max; /* over non-null, non-NaN values; bytes bounds may be truncated (still bounds) */
    bool has_nan;          /* unknown counts as true */
    lk_value min, max;
    uint64_t null_count, row_count; /* null_count = UINT64_MAX: unknown */
} lk_column_stats;

/* False only when no row can match. stats(column, context) returns NULL for unknown. */
bool lk_predicate_may_match(const lk_predicate *predicate,
    const lk_column_stats *(*stats)(size_t column, void *context), void *context);

/*
 * Evaluates over a batch whose children are the columns listed in columns[] (batch child i holds schema
 * column columns[i]). selection: row_count bytes, 1 = keep (null counts as drop).
 * LK_E_UNSUPPORTED_FORMAT for a column type it cannot compare (callers ask lk_predicate_supports first).
 */
LK_MUST_CHECK lk_rc lk_predicate_evaluate(const lk_predicate *predicate, const struct ArrowSchema *schema,
    const struct ArrowArray *batch, const size_t *columns, size_t column_count, uint8_t *selection,
    lk_err *err);

/* Whether comparisons on this field are exact here. */
bool lk_predicate_supports(const struct ArrowSchema *field);

/* The set of columns the tree reads, ascending, each once; in the arena. */
size_t lk_predicate_columns(const lk_predicate *predicate, lk_arena *arena, size_t **columns);

#endif
