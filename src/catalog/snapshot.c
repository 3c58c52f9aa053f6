/* snapshot.c - see snapshot.h. One arena holds everything. */
#include "catalog/snapshot.h"

#include <stdatomic.h>
#include <stdlib.h>

struct lk_snapshot {
    atomic_uint      refs;
    lk_arena         arena;
    lk_bytes         generation;
    lk_registration *items;
    size_t           count;
};

lk_snapshot *lk_snapshot_new(lk_bytes generation, const lk_registration *items, size_t count)
{
    lk_snapshot *snapshot = calloc(1, sizeof *snapshot);
    LK_ASSERT(snapshot != NULL);
    atomic_init(&snapshot->refs, 1);
    lk_arena *arena = &snapshot->arena;
    snapshot->generation = lk_arena_copy(arena, generation);
    snapshot->items = lk_arena_take(arena, (count + 1) * sizeof *snapshot->items);
    snapshot->count = count;
    for (size_t i = 0; i < count; i++) {
        LK_ASSERT(i == 0 || lk_table_ref_compare(items[i - 1].table, items[i].table) < 0);
        snapshot->items[i] = (lk_registration){
            .table = {lk_arena_copy(arena, items[i].table.ns), lk_arena_copy(arena, items[i].table.name)},
            .location = lk_arena_copy(arena, items[i].location),
            .engine = lk_arena_copy(arena, items[i].engine),
            .incarnation = lk_arena_copy(arena, items[i].incarnation),
            .version = items[i].version,
            .schema_ipc = lk_arena_copy(arena, items[i].schema_ipc)};
    }
    return snapshot;
}

lk_snapshot *lk_snapshot_ref(lk_snapshot *snapshot)
{
    /* Relaxed: the caller holds a reference, so the object cannot be on its way out. */
    unsigned before = atomic_fetch_add_explicit(&snapshot->refs, 1, memory_order_relaxed);
    LK_ASSERT(before > 0);
    return snapshot;
}

void lk_snapshot_unref(lk_snapshot *snapshot)
{
    if (snapshot == NULL) {
        return;
    }
    /* Release what we did; the last one out acquires what everybody did before it frees. */
    unsigned before = atomic_fetch_sub_explicit(&snapshot->refs, 1, memory_order_acq_rel);
    LK_ASSERT(before > 0);
    if (before == 1) {
        lk_arena_close(&snapshot->arena);
        free(snapshot);
    }
}

lk_bytes lk_snapshot_generation(const lk_snapshot *snapshot)
{
    return snapshot->generation;
}

size_t lk_snapshot_count(const lk_snapshot *snapshot)
{
    return snapshot->count;
}

const lk_registration *lk_snapshot_at(const lk_snapshot *snapshot, size_t index)
{
    LK_ASSERT(index < snapshot->count);
    return &snapshot->items[index];
}

/* The first item that is not before the table. */
static size_t lower_bound(const lk_snapshot *snapshot, lk_table_ref table)
{
    size_t low = 0, high = snapshot->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lk_table_ref_compare(snapshot->items[middle].table, table) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const lk_registration *lk_snapshot_find(const lk_snapshot *snapshot, lk_table_ref table)
{
    size_t at = lower_bound(snapshot, table);
    bool   found = at < snapshot->count && lk_table_ref_compare(snapshot->items[at].table, table) == 0;
    return found ? &snapshot->items[at] : NULL;
}

size_t lk_snapshot_namespace(const lk_snapshot *snapshot, lk_bytes ns, size_t *first)
{
    size_t end = *first = lower_bound(snapshot, (lk_table_ref){.ns = ns});
    while (end < snapshot->count && lk_bytes_equal(snapshot->items[end].table.ns, ns)) {
        end++;
    }
    return end - *first;
}
