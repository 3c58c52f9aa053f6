/*
 * versions.c - see versions.h.
 */
#include "lance/versions.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const lk_version *left = a, *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

static lk_rc collect(lk_store *store, lk_arena *arena, lk_version **versions, size_t *count, lk_err *err)
{
    lk_store_entry *entries = NULL;
    size_t          entry_count = 0;
    lk_rc rc = lk_store_list_names(store, LK_LITERAL("_versions"), arena, &entries, &entry_count, err);
    if (rc != LK_OK) {
        return rc;
    }
    *count = 0;
    *versions = lk_arena_take(arena, entry_count * sizeof **versions);
    for (size_t i = 0; i < entry_count; i++) {
        lk_version *version = &(*versions)[*count];
        *count += lk_manifest_parse_name(entries[i].name, &version->number, &version->naming);
    }
    return LK_OK;
}

lk_rc lk_versions_list(lk_store *store, lk_arena *arena, lk_version **versions, size_t *count, lk_err *err)
{
    lk_rc rc = collect(store, arena, versions, count, err);
    if (rc == LK_OK) {
        qsort(*versions, *count, sizeof **versions, compare);
    }
    return rc;
}

/* The names of V2 manifests count down, so where names come in order the first one is the latest: one request on an
 * object store, however many versions there are. Not decided here: it may still be among the rest. */
static lk_rc first_in_order(lk_store *store, lk_version *latest, bool *found, bool *decided, lk_err *err)
{
    enum { AHEAD_OF_VERSIONS_MAX = 8 }; /* temporaries and other names that may sort first */
    lk_arena        arena = {0};
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    lk_rc           rc = lk_store_list_first(
                  store, LK_LITERAL("_versions"), AHEAD_OF_VERSIONS_MAX, &arena, &entries, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        if (lk_manifest_parse_name(entries[i].name, &latest->number, &latest->naming)) {
            *found = latest->naming == LK_MANIFEST_V2;
            break;
        }
    }
    *decided = *found || count == 0;
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_versions_latest(lk_store *store, lk_version *latest, bool *found, lk_err *err)
{
    lk_arena    arena = {0};
    lk_version *versions = NULL;
    size_t      count = 0;
    *found = false;
    bool  decided = false;
    lk_rc rc = lk_store_lists_in_order(store) ? first_in_order(store, latest, found, &decided, err) : LK_OK;
    if (rc != LK_OK || decided) {
        return rc;
    }
    rc = collect(store, &arena, &versions, &count, err);
    *found = rc == LK_OK && count > 0;
    for (size_t i = 0; *found && i < count; i++) {
        *latest = i == 0 || versions[i].number > latest->number ? versions[i] : *latest;
    }
    lk_arena_close(&arena);
    return rc;
}
