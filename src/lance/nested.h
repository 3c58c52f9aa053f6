#ifndef LK_LANCE_NESTED_H
#define LK_LANCE_NESTED_H
/*
 * nested.h - what a field's nodes are to a data file: lists, structs, fixed-size lists of structs ("vectors"), and what
 * is one column. Threads: pure.
 */
#include "base/err.h"

#include <nanoarrow/nanoarrow.h>

bool lk_is_list(const struct ArrowSchema *field); /* list, large list or map */
bool lk_is_struct(const struct ArrowSchema *field);
bool lk_is_vector(const struct ArrowSchema *field); /* fixed-size list of structs */

/* One column, whatever it looks like: packed structs and blobs too. */
bool lk_is_column(const struct ArrowSchema *field);

/* A struct without members: nothing but a number of rows. */
bool lk_is_empty_struct(const struct ArrowSchema *field);

/* How many items a vector has. LK_E_LIMIT where `rows` of them have too many, LK_E_UNSUPPORTED_FORMAT for none. */
LK_MUST_CHECK lk_rc lk_vector_size(
    const struct ArrowSchema *field, uint64_t rows, uint64_t *size, lk_err *err);

#endif
