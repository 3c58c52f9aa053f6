#ifndef LK_ARROW_CAST_PRIV_H
#define LK_ARROW_CAST_PRIV_H
/*
 * cast_priv.h - one value on its way from one type to another. Everything that counts something (integers,
 * decimals, dates, times, instants, durations, bool) travels as a 128-bit integer in the target's unit; the
 * rest as a double or as bytes. Threads: stateless.
 */
#include "arrow/array_priv.h"

__extension__ typedef __int128          lk_int128;
__extension__ typedef unsigned __int128 lk_uint128;

typedef enum lk_value_class {
    LK_CLASS_NONE,
    LK_CLASS_BOOL,
    LK_CLASS_INTEGER,
    LK_CLASS_FLOAT,
    LK_CLASS_DECIMAL,
    LK_CLASS_TEXT,
    LK_CLASS_BINARY,
    LK_CLASS_DATE,
    LK_CLASS_TIME,
    LK_CLASS_TIMESTAMP,
    LK_CLASS_DURATION
} lk_value_class;
lk_value_class lk_value_class_of(const lk_type *type);

/* Why a value does not pass; NULL: it does. Texts are for clients: "column 'x', row 3: <text>". */
typedef const char *lk_cast_fault;

/* Text to the target: the integer in its unit and scale, or the double. Blanks around it are ignored. */
lk_cast_fault lk_parse_integer(lk_bytes text, const lk_type *to, lk_int128 *out);
lk_cast_fault lk_parse_float(lk_bytes text, double *out);

/* 10 to the power; exponent 0 to 38. */
lk_int128 lk_power_of_ten(int exponent);
/* value * 10^shift when no digit is lost and it fits; shift may be negative. */
bool lk_rescale(lk_int128 value, int shift, lk_int128 *out);
/* Units of a day, and of a second, at a unit. */
int64_t lk_units_per_second(lk_unit unit);

/* Whether leaves of these types convert at all. */
bool lk_leaf_castable(const lk_type *from, const lk_type *to);

/* Converts array (offset and all) to a new one at offset 0; *fault_row is where a fault arose. */
LK_MUST_CHECK lk_rc lk_leaf_cast(const struct ArrowArray *array, const lk_type *from, const lk_type *to,
    struct ArrowArray *out, int64_t *fault_row, lk_cast_fault *fault, lk_err *err);

#endif
