#ifndef LK_LANCE_LOGICAL_TYPE_H
#define LK_LANCE_LOGICAL_TYPE_H
/*
 * logical_type.h - Lance's names for types ("string", "decimal:128:10:2", "fixed_size_list:float:768") and
 * Arrow's format strings. Threads: stateless.
 */
#include "arrow/type.h"
#include "base/arena.h"
#include "base/err.h"

/*
 * Sets out's format, and the parts that the name spells inside itself: the item of a fixed-size list of plain
 * values, the value of a dictionary. Children that are fields of their own are left to the caller
 * (*has_fields). out is initialised, without a format. LK_E_UNSUPPORTED_FORMAT for a name we do not know.
 */
LK_MUST_CHECK lk_rc lk_logical_type_parse(
    lk_bytes name, struct ArrowSchema *out, bool *has_fields, lk_err *err);

/* The name for a field's type, in the arena; *has_fields as above. False when Lance cannot hold the type. */
bool lk_logical_type_of(const struct ArrowSchema *field, lk_arena *arena, lk_bytes *name, bool *has_fields);

#endif
