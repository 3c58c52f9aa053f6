/* id_map.c - see id_map.h: open addressing, at most three quarters full. */
#include "rollout/id_map.h"

#include "base/err.h"

#include <stdlib.h>

typedef struct slot {
    lk_bytes    id; /* data NULL: free */
    uint64_t    hash;
    lk_id_place place;
} slot;

struct lk_id_map {
    slot  *slots;
    size_t capacity, count; /* capacity: a power of two */
};

/* FNV-1a, eight bytes at a time; ids are not chosen by enemies who gain anything from slow reads of their own rows. */
uint64_t lk_id_hash(lk_bytes id)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ id.size;
    size_t   at = 0;
    for (; at + 8 <= id.size; at += 8) {
        hash = (hash ^ lk_load_u64(id.data + at)) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    for (; at < id.size; at++) {
        hash = (hash ^ (unsigned char)id.data[at]) * UINT64_C(0x100000001b3);
    }
    hash *= UINT64_C(0x9E3779B97F4A7C15); /* both ends are used */
    return hash ^ hash >> 29;
}

static size_t capacity_for(size_t count)
{
    size_t capacity = 16;
    while (capacity / 4 * 3 < count + 1) {
        capacity *= 2;
    }
    return capacity;
}

static slot *new_slots(size_t capacity)
{
    slot *slots = calloc(capacity, sizeof *slots);
    LK_ASSERT(slots != NULL);
    return slots;
}

lk_id_map *lk_id_map_new(size_t count)
{
    lk_id_map *map = calloc(1, sizeof *map);
    LK_ASSERT(map != NULL);
    map->capacity = capacity_for(count);
    map->slots = new_slots(map->capacity);
    return map;
}

void lk_id_map_free(lk_id_map *map)
{
    if (map != NULL) {
        free(map->slots);
        free(map);
    }
}

/* The id's slot, or the free one where it would stand. */
static slot *look(slot *slots, size_t capacity, lk_bytes id, uint64_t hash)
{
    size_t at = (size_t)hash & (capacity - 1);
    while (slots[at].id.data != NULL && (slots[at].hash != hash || !lk_bytes_equal(slots[at].id, id))) {
        at = (at + 1) & (capacity - 1);
    }
    return &slots[at];
}

static void grow(lk_id_map *map)
{
    size_t capacity = map->capacity * 2;
    slot  *slots = new_slots(capacity);
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].id.data != NULL) {
            *look(slots, capacity, map->slots[i].id, map->slots[i].hash) = map->slots[i];
        }
    }
    free(map->slots);
    map->slots = slots;
    map->capacity = capacity;
}

bool lk_id_map_add(lk_id_map *map, lk_bytes id, lk_id_place place)
{
    uint64_t hash = lk_id_hash(id);
    slot    *found = look(map->slots, map->capacity, id, hash);
    if (found->id.data != NULL) {
        return false;
    }
    *found = (slot){id.data == NULL ? LK_LITERAL("") : id, hash, place};
    if (++map->count > map->capacity / 4 * 3) {
        grow(map);
    }
    return true;
}

bool lk_id_map_find(const lk_id_map *map, lk_bytes id, lk_id_place *place)
{
    const slot *found = look(map->slots, map->capacity, id, lk_id_hash(id));
    if (found->id.data != NULL) {
        *place = found->place;
    }
    return found->id.data != NULL;
}
