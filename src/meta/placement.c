/* placement.c - see placement.h. */
#include "meta/placement.h"

lk_rc lk_place_table(
    lk_bytes root, lk_table_ref table, lk_bytes incarnation, lk_arena *arena, lk_bytes *location, lk_err *err)
{
    lk_rc rc = lk_table_ref_check(table, err);
    while (root.size > 1 && root.data[root.size - 1] == '/') {
        root.size--;
    }
    if (rc == LK_OK) {
        *location = lk_arena_format(arena, "%.*s/%.*s/%.*s/%.*s.lance", LK_FMT(root), LK_FMT(table.ns),
            LK_FMT(table.name), LK_FMT(incarnation));
    }
    return rc;
}
