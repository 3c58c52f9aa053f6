/* name_set.c - see name_set.h. Open addressing, at most half full. */
#include "lance/name_set.h"

#include "base/err.h"

#include <stdlib.h>

static size_t hash(lk_bytes name)
{
    uint64_t value = 0xCBF29CE484222325u; /* FNV-1a */
    for (size_t i = 0; i < name.size; i++) {
        value = (value ^ (uint8_t)name.data[i]) * 0x100000001B3u;
    }
    return (size_t)(value ^ value >> 32);
}

/* Where the name is, or would be. */
static size_t slot_of(const lk_name_set *set, lk_bytes name)
{
    size_t at = hash(name) & (set->slot_count - 1);
    while (set->slots[at].data != NULL && !lk_bytes_equal(set->slots[at], name)) {
        at = (at + 1) & (set->slot_count - 1);
    }
    return at;
}

static void grow(lk_name_set *set)
{
    lk_name_set old = *set;
    set->slot_count = old.slot_count == 0 ? 64 : old.slot_count * 2;
    set->slots = calloc(set->slot_count, sizeof *set->slots);
    LK_ASSERT(set->slots != NULL);
    for (size_t i = 0; i < old.slot_count; i++) {
        if (old.slots[i].data != NULL) {
            set->slots[slot_of(set, old.slots[i])] = old.slots[i];
        }
    }
    free(old.slots);
}

void lk_name_set_add(lk_name_set *set, lk_bytes name)
{
    if (set->count * 2 >= set->slot_count) {
        grow(set);
    }
    size_t at = slot_of(set, name);
    if (set->slots[at].data == NULL) {
        set->slots[at] = lk_arena_copy(&set->arena, name);
        set->count++;
    }
}

bool lk_name_set_has(const lk_name_set *set, lk_bytes name)
{
    return set->slot_count > 0 && set->slots[slot_of(set, name)].data != NULL;
}

void lk_name_set_deinit(lk_name_set *set)
{
    free(set->slots);
    lk_arena_close(&set->arena);
    *set = (lk_name_set){0};
}
