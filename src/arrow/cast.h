#ifndef LK_ARROW_CAST_H
#define LK_ARROW_CAST_H
/*
 * cast.h - checked conversions: a value either means the same in the new type or the cast fails.
 *
 * Integers to any integer or decimal that holds them, to floats when exact, to bool when 0 or 1, to durations
 * as counts of their unit; floats to integers when whole, to decimals that read back as the same float; floats
 * widen, and narrow by rounding; decimals rescale without loss, and to the nearest float; utf8, large_utf8 and
 * binary into each other (UTF-8 checked; fixed-size binary by its size); time, timestamp and duration units
 * without loss of digits; dates and timestamps into each other at midnight; zones are relabelled (an instant
 * stays one, a zoneless value is taken as UTC); text to bool, numbers, decimals, dates, times, timestamps
 * (RFC 3339, blank or T between, zone or none); dictionaries to their values; lists, maps and structs member by
 * member (structs by name: an absent member becomes null); null to anything. The rest is refused by type.
 *
 * Errors: LK_E_SCHEMA_MISMATCH, whose detail names column, row and what was wrong; LK_E_LIMIT when memory
 * is out. Threads: stateless.
 */
#include "arrow/batch.h"

/* One array from `from` to `to` (names do not matter). Buffers are shared with *array where nothing
 * changes, so the input must be shared. Errors name to->name; row_base is added to the rows they name. */
LK_MUST_CHECK lk_rc lk_array_cast(const struct ArrowSchema *from, lk_shared_array *array,
    const struct ArrowSchema *to, int64_t row_base, struct ArrowArray *out, lk_err *err);

/* A batch to a table's schema: columns are found by name, in any order; one that the source lacks becomes
 * null where the table allows it; one that the table lacks is an error. Nulls are checked as by
 * lk_batch_check_nulls. */
LK_MUST_CHECK lk_rc lk_batch_cast(const struct ArrowSchema *from, lk_shared_array *batch,
    const struct ArrowSchema *to, int64_t row_base, struct ArrowArray *out, lk_err *err);

/* LK_OK unless lk_batch_cast would refuse the pair by its types alone, before any row is read. */
LK_MUST_CHECK lk_rc lk_schema_castable(
    const struct ArrowSchema *from, const struct ArrowSchema *to, lk_err *err);

/* A field that is not nullable, at any depth under valid parents, holds no null by value.
 * LK_E_SCHEMA_MISMATCH names column and row (row_base added). */
LK_MUST_CHECK lk_rc lk_batch_check_nulls(
    const struct ArrowSchema *schema, const struct ArrowArray *batch, int64_t row_base, lk_err *err);

#endif
