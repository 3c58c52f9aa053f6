/* listing.c - see listing.h. */
#include "query/listing.h"

#include "arrow/ipc.h"

#include <stdatomic.h>
#include <stdlib.h>

struct lk_listing {
    atomic_uint         refs;
    lk_snapshot        *snapshot;
    size_t              count;
    struct ArrowSchema *schemas; /* release NULL: not decodable */
};

lk_listing *lk_listing_ref(lk_listing *listing)
{
    atomic_fetch_add_explicit(&listing->refs, 1, memory_order_relaxed);
    return listing;
}

void lk_listing_unref(lk_listing *listing)
{
    if (listing == NULL) {
        return;
    }
    /* Release our reads; the last one out acquires everybody's before it frees. */
    if (atomic_fetch_sub_explicit(&listing->refs, 1, memory_order_release) == 1) {
        atomic_thread_fence(memory_order_acquire);
        for (size_t i = 0; i < listing->count; i++) {
            lk_schema_release(&listing->schemas[i]);
        }
        lk_snapshot_unref(listing->snapshot);
        free(listing->schemas);
        free(listing);
    }
}

/* Takes the snapshot's reference. */
static lk_listing *decode(lk_snapshot *snapshot)
{
    lk_listing *listing = calloc(1, sizeof *listing);
    LK_ASSERT(listing != NULL);
    atomic_init(&listing->refs, 1);
    listing->snapshot = snapshot;
    listing->count = lk_snapshot_count(snapshot);
    listing->schemas = calloc(listing->count + 1, sizeof *listing->schemas);
    LK_ASSERT(listing->schemas != NULL);
    for (size_t i = 0; i < listing->count; i++) {
        lk_err unreadable = {0};
        if (lk_ipc_schema_decode(
                lk_snapshot_at(snapshot, i)->schema_ipc, &listing->schemas[i], &unreadable) != LK_OK) {
            listing->schemas[i] = (struct ArrowSchema){0};
        }
    }
    return listing;
}

static lk_listing *current(lk_query *query, lk_bytes generation)
{
    lk_listing *found = NULL;
    lk_mutex_lock(&query->mutex);
    if (query->listing != NULL &&
        lk_bytes_equal(lk_snapshot_generation(query->listing->snapshot), generation)) {
        found = lk_listing_ref(query->listing);
    }
    lk_mutex_unlock(&query->mutex);
    return found;
}

lk_rc lk_listing_get(lk_query *query, lk_listing **out, lk_err *err)
{
    lk_snapshot *snapshot = NULL;
    lk_rc        rc = lk_catalog_cache_directory(query->options.cache, &snapshot, err);
    if (rc != LK_OK) {
        return rc;
    }
    *out = current(query, lk_snapshot_generation(snapshot));
    if (*out != NULL) {
        lk_snapshot_unref(snapshot);
        return LK_OK;
    }
    *out = decode(snapshot);
    lk_mutex_lock(&query->mutex);
    lk_listing *old = query->listing;
    query->listing = lk_listing_ref(*out);
    lk_mutex_unlock(&query->mutex);
    lk_listing_unref(old);
    return LK_OK;
}

size_t lk_listing_count(const lk_listing *listing)
{
    return listing->count;
}

const lk_registration *lk_listing_at(const lk_listing *listing, size_t index)
{
    return lk_snapshot_at(listing->snapshot, index);
}

const struct ArrowSchema *lk_listing_schema(const lk_listing *listing, size_t index)
{
    return listing->schemas[index].release != NULL ? &listing->schemas[index] : NULL;
}

lk_rc lk_listing_list(void *context, lk_arena *arena, const lk_sql_listed **items, size_t *count, lk_err *err)
{
    (void)err;
    const lk_listing_view *view = context;
    lk_sql_listed         *out = lk_arena_take(arena, (view->listing->count + 1) * sizeof *out);
    size_t                 visible = 0;
    for (size_t i = 0; i < view->listing->count; i++) {
        const lk_registration *item = lk_listing_at(view->listing, i);
        if (lk_principal_may_use(view->who, item->table.ns)) {
            out[visible++] = (lk_sql_listed){item->table, lk_listing_schema(view->listing, i)};
        }
    }
    *items = out;
    *count = visible;
    return LK_OK;
}
