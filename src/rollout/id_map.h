#ifndef LK_ROLLOUT_ID_MAP_H
#define LK_ROLLOUT_ID_MAP_H
/*
 * id_map.h - where an id is: the first place that was added for it. Ids are borrowed and must outlive the map.
 * Threads: confined while it is filled, then immutable.
 */
#include "base/bytes.h"

typedef struct lk_id_place {
    uint32_t source, row;
} lk_id_place;

typedef struct lk_id_map lk_id_map;

lk_id_map *lk_id_map_new(size_t count);    /* room for so many without growing */
void       lk_id_map_free(lk_id_map *map); /* accepts NULL */

/* false when the id is there already: its place stays what it was. */
bool lk_id_map_add(lk_id_map *map, lk_bytes id, lk_id_place place);
bool lk_id_map_find(const lk_id_map *map, lk_bytes id, lk_id_place *place);

uint64_t lk_id_hash(lk_bytes id); /* of this process only */

#endif
