#ifndef LK_IO_LOCAL_PRIV_H
#define LK_IO_LOCAL_PRIV_H
/* local_priv.h - what the files of the local store share. Threads: as local.c says. */
#include "io/late.h"
#include "io/local.h"

enum { LOCAL_SYNCED_SLOTS = 256, LOCAL_WAITING_MAX = 64 };

struct local_store {
    lk_store base;
    char    *root;
    bool     durable;
    bool     puts_off; /* files and names are synced in local_sync only */
    bool     trickles; /* large files are sent to the disk as they are written */
    lk_late  late;
    lk_mutex mutex;
    char    *synced[LOCAL_SYNCED_SLOTS]; /* by hash of the path; a newer one replaces */
    uint64_t forgets;                    /* how often synced[] was emptied */
    char    *waiting[LOCAL_WAITING_MAX]; /* for the next sync, to be remembered then; guarded by mutex */
    size_t   waiting_count;
};

/* root/key, owned by the caller; an empty key is the root. */
char *lk_local_path(const struct local_store *self, lk_bytes key);

/* A removed directory may be made again under the same name: nothing is known any more. */
void lk_local_forget_synced(struct local_store *self);

/* As of lk_store_ops. */
lk_rc lk_local_list(
    lk_store *store, lk_bytes key, lk_arena *arena, lk_store_entry **entries, size_t *count, lk_err *err);
lk_rc lk_local_list_names(
    lk_store *store, lk_bytes key, lk_arena *arena, lk_store_entry **entries, size_t *count, lk_err *err);
lk_rc lk_local_remove(lk_store *store, lk_bytes key, lk_err *err);
lk_rc lk_local_remove_tree(lk_store *store, lk_bytes key, lk_err *err);

#endif
