#ifndef LK_ENGINE_MEM_STORE_H
#define LK_ENGINE_MEM_STORE_H
/*
 * mem_store.h - lk_store in memory, for tests and the simulator: one tree of objects that many stores (each
 * rooted somewhere in it, each with its own fault hook) look into, as processes look into one disk.
 * Keeps the contract of io/store.h; durable is as durable as the lk_mem_disk.
 * Threads: shared; one mutex (IO) guards the tree; the hook is called without it.
 */
#include "io/store.h"

typedef struct lk_mem_disk lk_mem_disk;

lk_mem_disk *lk_mem_disk_new(void);
void         lk_mem_disk_free(lk_mem_disk *disk); /* accepts NULL; after every store of it */
size_t       lk_mem_disk_object_count(lk_mem_disk *disk);

/* Called before (after = false) and after every call that reads or writes; may sleep. Anything but LK_OK
 * fails the call: before, nothing happened; after, it did. */
typedef struct lk_mem_hook {
    lk_rc (*run)(void *context, const char *call, bool after, lk_err *err);
    void *context;
} lk_mem_hook;

/* root "" is the disk itself. hook.run NULL: no faults. */
LK_MUST_CHECK lk_rc lk_mem_store_open(
    lk_store **out, lk_mem_disk *disk, lk_bytes root, lk_mem_hook hook, lk_err *err);

#endif
