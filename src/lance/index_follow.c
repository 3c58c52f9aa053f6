/*
 * index_follow.c - indices after fragments were rewritten: their rows have new addresses, and the commits left them
 * uncovered.
 */
#include "lance/index_priv.h"

/* Whether a fragment that was covered is gone. */
static bool lost_some(
    const lk_index *index, const lk_manifest *before, const lk_manifest *now, lk_arena *arena)
{
    const lk_fragment_number *numbers = lk_fragment_numbers(now, arena);
    bool                      lost = false;
    for (size_t i = 0; i < before->fragment_count && !lost; i++) {
        lost = index->covers[i] &&
               lk_fragment_number_of(numbers, now->fragment_count, before->fragments[i].id) == SIZE_MAX;
    }
    return lost;
}

/* Whether a segment before number `at` has the same name: that one was asked. */
static bool named_before(const lk_index *list, size_t at)
{
    bool found = false;
    for (size_t i = 0; i < at && !found; i++) {
        found = lk_bytes_equal(list[i].name, list[at].name);
    }
    return found;
}

static bool any_lost(const lk_index *list, size_t count, lk_bytes name, const lk_manifest *before,
    const lk_manifest *now, lk_arena *arena)
{
    bool lost = false;
    for (size_t i = 0; i < count && !lost; i++) {
        bool made_here = list[i].kind == LK_INDEX_BTREE || list[i].kind == LK_INDEX_ZONEMAP;
        lost = made_here && lk_bytes_equal(list[i].name, name) && lost_some(&list[i], before, now, arena);
    }
    return lost;
}

/* An index that others changed meanwhile, or of a kind that is not made here, is left as it is. */
static lk_rc update(lk_dataset **dataset, lk_committer *committer, lk_bytes name,
    const lk_write_options *options, uint64_t *versions, lk_err *err)
{
    lk_dataset *next = NULL;
    lk_rc       rc = lk_index_update(*dataset, committer, name, NULL, options, NULL, &next, err);
    if ((rc == LK_E_CONFLICT || rc == LK_E_UNSUPPORTED_FORMAT) && !err->maybe_applied) {
        *err = (lk_err){0};
        return LK_OK;
    }
    if (rc == LK_OK) {
        *versions += lk_dataset_version(next) != lk_dataset_version(*dataset);
        lk_dataset_unref(*dataset);
        *dataset = next;
    }
    return rc;
}

lk_rc lk_index_follow(lk_dataset *before, lk_dataset **dataset, lk_committer *committer,
    const lk_write_options *options, uint64_t *versions, lk_err *err)
{
    lk_arena        arena = {0};
    const lk_index *list = NULL;
    size_t          count = 0;
    lk_rc           rc = lk_index_list(before, &arena, &list, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        const lk_manifest *now = (*dataset)->manifest;
        if (!named_before(list, i) && any_lost(list, count, list[i].name, before->manifest, now, &arena)) {
            rc = update(dataset, committer, list[i].name, options, versions, err);
        }
    }
    lk_arena_close(&arena);
    return rc;
}
