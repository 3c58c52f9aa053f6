/*
 * row_set.c - see row_set.h.
 */
#include "lance/row_set.h"

#include "base/bytes.h"
#include "base/err.h"

#include <roaring/roaring.h>
#include <stdlib.h>

struct lk_row_set {
    lk_buf fragments; /* of lk_fragment_rows, ascending */
    size_t last;      /* the one added to last: the next address is mostly there too */
};

static lk_fragment_rows *items(const lk_row_set *set)
{
    return (lk_fragment_rows *)(void *)set->fragments.data;
}

static size_t item_count(const lk_row_set *set)
{
    return set->fragments.size / sizeof(lk_fragment_rows);
}

lk_row_set *lk_row_set_new(void)
{
    lk_row_set *set = calloc(1, sizeof *set);
    LK_ASSERT(set != NULL);
    return set;
}

void lk_row_set_free(lk_row_set *set)
{
    if (set == NULL) {
        return;
    }
    for (size_t i = 0; i < item_count(set); i++) {
        roaring_bitmap_free(items(set)[i].rows);
    }
    lk_buf_deinit(&set->fragments);
    free(set);
}

/* The first item that is not before the fragment. */
static size_t lower_bound(const lk_row_set *set, uint32_t fragment_id)
{
    size_t low = 0, high = item_count(set);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (items(set)[middle].fragment_id < fragment_id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static roaring_bitmap_t *rows_of(lk_row_set *set, uint32_t fragment_id)
{
    if (set->last < item_count(set) && items(set)[set->last].fragment_id == fragment_id) {
        return items(set)[set->last].rows;
    }
    size_t at = set->last = lower_bound(set, fragment_id);
    if (at == item_count(set) || items(set)[at].fragment_id != fragment_id) {
        lk_fragment_rows added = {fragment_id, roaring_bitmap_create()};
        LK_ASSERT(added.rows != NULL);
        lk_buf_append_zeros(&set->fragments, sizeof added);
        memmove(items(set) + at + 1, items(set) + at, (item_count(set) - at - 1) * sizeof added);
        items(set)[at] = added;
    }
    return items(set)[at].rows;
}

void lk_row_set_add(lk_row_set *set, const uint64_t *addresses, size_t count)
{
    enum { RUN = 1024 };
    uint32_t offsets[RUN];
    for (size_t at = 0; at < count;) {
        uint32_t fragment_id = (uint32_t)(addresses[at] >> 32);
        size_t   size = 0;
        while (at < count && size < RUN && addresses[at] >> 32 == fragment_id) {
            offsets[size++] = (uint32_t)addresses[at++];
        }
        roaring_bitmap_add_many(rows_of(set, fragment_id), size, offsets);
    }
}

uint64_t lk_row_set_count(const lk_row_set *set)
{
    uint64_t count = 0;
    for (size_t i = 0; i < item_count(set); i++) {
        count += roaring_bitmap_get_cardinality(items(set)[i].rows);
    }
    return count;
}

void lk_row_set_intersect(lk_row_set *set, lk_row_set *other)
{
    for (size_t i = 0; i < item_count(set); i++) {
        lk_fragment_rows *mine = &items(set)[i];
        size_t            at = lower_bound(other, mine->fragment_id);
        if (at < item_count(other) && items(other)[at].fragment_id == mine->fragment_id) {
            roaring_bitmap_and_inplace(mine->rows, items(other)[at].rows);
        } else {
            roaring_bitmap_clear(mine->rows);
        }
    }
}

const lk_fragment_rows *lk_row_set_fragments(lk_row_set *set, size_t *count)
{
    *count = item_count(set);
    return items(set);
}
