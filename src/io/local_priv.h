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

/* The path above, owned by the caller. */
char *lk_local_parent_of(const char *path);

/* Names in directory will be durable once it is synced: the directories above it are, of a durable store. */
lk_rc lk_local_ensure_synced(struct local_store *self, const char *directory, lk_err *err);

/* Takes fd (-1: none): it and the directory of path wait for the next sync, and the names of directories that are not known to
 * be durable: those from the one that was there (`found`: the size of its path; 0: all of it was) up, and the made ones. */
lk_rc lk_local_put_off(struct local_store *self, int fd, const char *path, size_t found, lk_err *err);

/* Takes fd (-1: none) and the directory's path (NULL: none): both wait for the next sync. */
lk_rc lk_local_add_late(struct local_store *self, int fd, char *directory, lk_err *err);

/* As of lk_store_ops. */
lk_rc lk_local_sync(lk_store *store, lk_err *err);
lk_rc lk_local_list(
    lk_store *store, lk_bytes key, lk_arena *arena, lk_store_entry **entries, size_t *count, lk_err *err);
lk_rc lk_local_list_names(
    lk_store *store, lk_bytes key, lk_arena *arena, lk_store_entry **entries, size_t *count, lk_err *err);
lk_rc lk_local_remove(lk_store *store, lk_bytes key, lk_err *err);
lk_rc lk_local_remove_tree(lk_store *store, lk_bytes key, lk_err *err);

#endif
