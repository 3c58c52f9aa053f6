#ifndef LK_LANCE_PACKED_H
#define LK_LANCE_PACKED_H
/*
 * packed.h - packed structs: one column whose values are whole rows of a struct.
 *
 *   fixed     the members' bytes side by side
 *   variable  member after member: its bytes, or a length and as many. Texts may be compressed, each by itself
 *
 * On the way to Arrow a row of the variable kind is held in one form, whatever page it came from: fixed bytes, or a
 * u64 length and plain bytes; a struct inside it is such a row again. A null row is empty.
 *
 * Invariant: nothing outside a row is read, whatever its lengths say. Threads: an lk_packed is immutable.
 */
#include "base/arena.h"
#include "lance/codec.h"
#include "lance/column.h"

typedef struct lk_packed lk_packed; /* how the rows of a page are taken apart */

/* Prepares a variable packed struct's encoding. LK_E_UNSUPPORTED_FORMAT by name for members we do not read. */
LK_MUST_CHECK lk_rc lk_packed_new(
    const lk_encoding *encoding, lk_arena *arena, const lk_packed **out, lk_err *err);

/* Appends a row to the column's bytes (offsets are the caller's), in the form above. */
LK_MUST_CHECK lk_rc lk_packed_append(
    const lk_packed *packed, lk_bytes row, lk_column *column, lk_scratch *scratch, lk_err *err);

/* Bits of a row when every member has a fixed width of whole bytes; 0: the variable kind. lists: fixed-size lists are
 * such members, as in files of version 2.0. */
uint32_t lk_packed_row_bits(const struct ArrowSchema *field, bool lists);

/* Takes rows apart into an array of the struct's type: a column of row_bits, or of the form above. The column's
 * validity becomes the struct's (moved out). */
LK_MUST_CHECK lk_rc lk_packed_split(
    const struct ArrowSchema *field, lk_column *rows, struct ArrowArray *out, lk_err *err);

#endif
