/* disk.c - see disk.h: a sorted array. */
#include "disk.h"

#include "base/err.h"

#include <stdlib.h>

static int compare(const disk_object *object, lk_bytes key)
{
    size_t size = strlen(object->key), shorter = size < key.size ? size : key.size;
    int    order = memcmp(object->key, key.data, shorter);
    return order != 0 ? order : (size > key.size) - (size < key.size);
}

size_t disk_from(const disk *d, lk_bytes key)
{
    size_t low = 0, high = d->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(&d->objects[middle], key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const disk_object *disk_find(const disk *d, lk_bytes key)
{
    size_t at = disk_from(d, key);
    return at < d->count && compare(&d->objects[at], key) == 0 ? &d->objects[at] : NULL;
}

bool disk_has_prefix(const disk_object *object, lk_bytes prefix)
{
    return strncmp(object->key, prefix.data, prefix.size) == 0;
}

static char *copy_of(lk_bytes bytes)
{
    char *copy = malloc(bytes.size + 1);
    LK_ASSERT(copy != NULL);
    if (bytes.size > 0) {
        memcpy(copy, bytes.data, bytes.size);
    }
    copy[bytes.size] = '\0';
    return copy;
}

void disk_put(disk *d, lk_bytes key, lk_bytes bytes, int64_t now_ms)
{
    size_t at = disk_from(d, key);
    bool   there = at < d->count && compare(&d->objects[at], key) == 0;
    if (!there && d->count == d->room) {
        d->room = d->room == 0 ? 256 : 2 * d->room;
        d->objects = realloc(d->objects, d->room * sizeof *d->objects);
        LK_ASSERT(d->objects != NULL);
    }
    disk_object *object = &d->objects[at];
    if (there) {
        free((char *)(uintptr_t)object->bytes.data);
    } else {
        memmove(object + 1, object, (d->count - at) * sizeof *object);
        object->key = copy_of(key);
        d->count++;
    }
    object->bytes = (lk_bytes){copy_of(bytes), bytes.size};
    object->modified_ms = now_ms;
}

void disk_remove(disk *d, lk_bytes key)
{
    size_t at = disk_from(d, key);
    if (at < d->count && compare(&d->objects[at], key) == 0) {
        free(d->objects[at].key);
        free((char *)(uintptr_t)d->objects[at].bytes.data);
        memmove(&d->objects[at], &d->objects[at + 1], (d->count - at - 1) * sizeof *d->objects);
        d->count--;
    }
}

void disk_free(disk *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->objects[i].key);
        free((char *)(uintptr_t)d->objects[i].bytes.data);
    }
    free(d->objects);
    *d = (disk){0};
}
