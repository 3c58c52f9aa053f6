/* view_snapshot.c - see view.h: the life of a snapshot, and the ids of its sources. */
#include "rollout/view.h"

#include <stdlib.h>

lk_rollout_snapshot *lk_rollout_snapshot_ref(lk_rollout_snapshot *snapshot)
{
    atomic_fetch_add(&snapshot->refs, 1);
    return snapshot;
}

void lk_rollout_snapshot_unref(lk_rollout_snapshot *snapshot)
{
    if (snapshot == NULL || atomic_fetch_sub(&snapshot->refs, 1) > 1) {
        return;
    }
    for (size_t i = 0; i < snapshot->source_count; i++) {
        lk_rollout_rows_unref(snapshot->sources[i]);
    }
    lk_id_tree_free(snapshot->ids);
    lk_base_ids_unref(snapshot->base_ids);
    lk_dataset_unref(snapshot->base);
    lk_rollout_form_unref(snapshot->form);
    free(snapshot->sources);
    free(snapshot->pins);
    free(snapshot);
}

lk_rollout_snapshot *lk_rollout_snapshot_new(
    lk_rollout_form *form, lk_dataset *base, size_t source_room, size_t pin_room)
{
    lk_rollout_snapshot *snapshot = calloc(1, sizeof *snapshot);
    LK_ASSERT(snapshot != NULL);
    atomic_init(&snapshot->refs, 1);
    snapshot->base = lk_dataset_ref(base);
    snapshot->form = lk_rollout_form_ref(form);
    snapshot->sources = calloc(source_room + 1, sizeof(lk_rollout_rows *));
    snapshot->pins = calloc(pin_room + 1, sizeof *snapshot->pins);
    LK_ASSERT(snapshot->sources != NULL && snapshot->pins != NULL);
    return snapshot;
}

static void count_rows(lk_rollout_snapshot *snapshot)
{
    snapshot->row_count = 0;
    for (size_t i = 0; i < snapshot->source_count; i++) {
        snapshot->row_count += snapshot->sources[i]->count;
    }
}

void lk_rollout_snapshot_seal(lk_rollout_snapshot *snapshot)
{
    count_rows(snapshot);
    snapshot->ids = lk_id_tree_new(NULL);
    for (size_t i = 0; i < snapshot->source_count; i++) {
        lk_id_tree_add(snapshot->ids, snapshot->sources[i]);
    }
}

/* Whether every source of the last one is one of the next. */
static bool all_stay(const lk_rollout_snapshot *next, const lk_rollout_snapshot *last)
{
    size_t old = 0;
    for (size_t i = 0; i < next->source_count && old < last->source_count; i++) {
        old += next->sources[i] == last->sources[old];
    }
    return old == last->source_count;
}

/* A source that goes may have hidden another's copy of an id: then the tree is made anew. */
void lk_rollout_snapshot_seal_after(lk_rollout_snapshot *next, const lk_rollout_snapshot *last)
{
    size_t old = 0;
    if (last == NULL || (lk_id_tree_count(last->ids) != last->row_count && !all_stay(next, last))) {
        lk_rollout_snapshot_seal(next);
        return;
    }
    count_rows(next);
    next->ids = lk_id_tree_new(last->ids);
    for (size_t i = 0; i < next->source_count; i++) {
        lk_rollout_rows *rows = next->sources[i];
        while (old < last->source_count && last->sources[old] != rows &&
               lk_rollout_rows_order(last->sources[old], rows) <= 0) {
            lk_id_tree_remove(next->ids, last->sources[old++]);
        }
        if (old < last->source_count && last->sources[old] == rows) {
            old++;
        } else {
            lk_id_tree_add(next->ids, rows);
        }
    }
    while (old < last->source_count) {
        lk_id_tree_remove(next->ids, last->sources[old++]);
    }
}

bool lk_rollout_snapshot_place(const lk_rollout_snapshot *snapshot, lk_bytes id, lk_rollout_place *out)
{
    return lk_id_tree_find(snapshot->ids, id, out);
}
