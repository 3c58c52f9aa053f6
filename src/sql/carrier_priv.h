#ifndef LK_SQL_CARRIER_PRIV_H
#define LK_SQL_CARRIER_PRIV_H
/*
 * carrier_priv.h - table types that DuckDB lacks travel through it in a carrier, and come back where an
 * output column is a plain reference:
 *   float16 -> float      duration -> bigint       fixed-size binary -> blob      large_* -> the small type
 *   date64 -> date        time32 -> time           zoned timestamps -> UTC, micro- or nanoseconds
 * decimal256 and decimals whose scale lies outside 0 .. precision have no carrier: a column of them can be declared
 * but not read. Nested types go member by member.
 * Threads: stateless.
 */
#include "arrow/batch.h"

/* The schema as DuckDB's importer shall see it: formats replaced, metadata dropped, every field nullable. */
LK_MUST_CHECK lk_rc lk_carrier_schema(const struct ArrowSchema *schema, struct ArrowSchema *out, lk_err *err);

/* False for those decimals and the types that lake does not carry, at any depth. */
bool lk_carrier_exists(const struct ArrowSchema *field);

/* Brings one column into its carrier, in place; carrier is its field of lk_carrier_schema. */
LK_MUST_CHECK lk_rc lk_carrier_import(const struct ArrowSchema *field, const struct ArrowSchema *carrier,
    struct ArrowArray *array, lk_err *err);

/* Whether a column that DuckDB exports as `exported` can be given the table type of `field` back. */
bool lk_carrier_fits(const struct ArrowSchema *exported, const struct ArrowSchema *field);

/* Gives it back, in place. */
LK_MUST_CHECK lk_rc lk_carrier_restore(const struct ArrowSchema *exported, const struct ArrowSchema *field,
    struct ArrowArray *array, lk_err *err);

#endif
