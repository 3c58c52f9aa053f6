#ifndef LK_META_PLACEMENT_H
#define LK_META_PLACEMENT_H
/*
 * placement.h - where a new table's data goes: <root>/<ns>/<table>/<incarnation>.lance.
 *
 * Invariant: a location comes from the server's root, checked names and a fresh UUIDv7 only; no two
 * incarnations share one, so removing an old table can never touch a new one.
 * Threads: stateless.
 */
#include "model/ids.h"

/* LK_E_INVALID_IDENTIFIER before anything else is touched. */
LK_MUST_CHECK lk_rc lk_place_table(lk_bytes root, lk_table_ref table, lk_bytes incarnation, lk_arena *arena,
    lk_bytes *location, lk_err *err);

#endif
