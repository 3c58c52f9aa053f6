#ifndef LK_SIM_ROLLOUT_DISK_H
#define LK_SIM_ROLLOUT_DISK_H
/*
 * disk.h - the objects of one simulated bucket: whole or absent, never changed but by replacement, listed as they are at
 * that moment. What travels to it and what gets lost on the way is world.c's.
 * Threads: one simulation.
 */
#include "base/arena.h"
#include "base/bytes.h"

typedef struct disk_object {
    char    *key;
    lk_bytes bytes;
    int64_t  modified_ms;
} disk_object;

typedef struct disk {
    disk_object *objects; /* by key */
    size_t       count, room;
} disk;

const disk_object *disk_find(const disk *d, lk_bytes key);
/* The first object whose key is not below; NULL: none. The next ones follow it in the array. */
size_t disk_from(const disk *d, lk_bytes key);
bool   disk_has_prefix(const disk_object *object, lk_bytes prefix);
void   disk_put(disk *d, lk_bytes key, lk_bytes bytes, int64_t now_ms); /* copies; replaces */
void   disk_remove(disk *d, lk_bytes key);
void   disk_free(disk *d);

#endif
