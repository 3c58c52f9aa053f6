/* engine.c - reference counts of table snapshots. */
#include "engine/engine.h"

lk_table_snapshot *lk_table_snapshot_ref(lk_table_snapshot *snapshot)
{
    /* Relaxed: the caller holds a reference, so the snapshot cannot be on its way out. */
    unsigned before = atomic_fetch_add_explicit(&snapshot->refs, 1, memory_order_relaxed);
    LK_ASSERT(before > 0);
    return snapshot;
}

void lk_table_snapshot_unref(lk_table_snapshot *snapshot)
{
    if (snapshot == NULL) {
        return;
    }
    /* Release what we did; the last one out acquires what everybody did before it frees. */
    unsigned before = atomic_fetch_sub_explicit(&snapshot->refs, 1, memory_order_acq_rel);
    LK_ASSERT(before > 0);
    if (before == 1) {
        snapshot->ops->free(snapshot);
    }
}
