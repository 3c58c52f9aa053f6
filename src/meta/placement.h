#ifndef LK_META_PLACEMENT_H
#define LK_META_PLACEMENT_H
/*
 * placement.h - where a new table's data goes: <root>/<ns>/<table>/<incarnation>.lance.
 *
 * Invariants:
 *   1. A location comes from checked names and a fresh UUIDv7 only; no two incarnations share one, so removing an
 *      old table can never touch a new one.
 *   2. Records hold the part below the root, so a data directory may be moved; callers are told the whole.
 *
 * Threads: stateless.
 */
#include "model/ids.h"

/* The location below the root. LK_E_INVALID_IDENTIFIER before anything else is touched. */
LK_MUST_CHECK lk_rc lk_place_table(
    lk_table_ref table, lk_bytes incarnation, lk_arena *arena, lk_bytes *location, lk_err *err);

/* root and a location below it, as one path or URI. */
lk_bytes lk_place_below(lk_bytes root, lk_bytes location, lk_arena *arena);

#endif
