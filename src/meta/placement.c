/* placement.c - see placement.h. */
#include "meta/placement.h"

lk_rc lk_place_table(
    lk_table_ref table, lk_bytes incarnation, lk_arena *arena, lk_bytes *location, lk_err *err)
{
    lk_rc rc = lk_table_ref_check(table, err);
    if (rc == LK_OK) {
        *location = lk_arena_format(
            arena, "%.*s/%.*s/%.*s.lance", LK_FMT(table.ns), LK_FMT(table.name), LK_FMT(incarnation));
    }
    return rc;
}

lk_bytes lk_place_below(lk_bytes root, lk_bytes location, lk_arena *arena)
{
    while (root.size > 1 && root.data[root.size - 1] == '/') {
        root.size--;
    }
    return lk_arena_format(arena, "%.*s/%.*s", LK_FMT(root), LK_FMT(location));
}
