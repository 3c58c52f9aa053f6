#ifndef LK_IO_LATE_H
#define LK_IO_LATE_H
/*
 * late.h - written files that are not durable yet, to be synced together, at the same time: a file system
 * then needs one or two turns of its journal for what would have been one for each file and one for each
 * name.
 *
 * Invariant: when lk_late_sync returns LK_OK, every file and directory that was added before the call is durable,
 * whichever thread's call did it. After an error nobody may rely on what was added before: callers that waited for that
 * turn hear of it as well, later ones cannot, so a list belongs to one commit at a time.
 * Threads: shared; mutex guards the list; files are synced without it, by one caller at a time.
 */
#include "base/err.h"
#include "base/thread.h"

typedef struct lk_late_file {
    int   fd;        /* -1: only the directory */
    char *directory; /* owned; NULL: only the file */
} lk_late_file;

enum { LK_LATE_FILES_MAX = 64 }; /* open descriptors that wait */

typedef struct lk_late {
    lk_pool     *pool; /* borrowed; NULL: one after the other */
    lk_mutex     mutex;
    lk_cond      done;
    lk_late_file files[LK_LATE_FILES_MAX];
    size_t       count;
    bool         syncing;
    uint64_t     failures; /* turns that failed */
    lk_err       failure;  /* the last one */
} lk_late;

void lk_late_init(lk_late *late, lk_pool *pool);
void lk_late_deinit(lk_late *late); /* what was never synced is closed */

/* Takes fd and directory. False: the list is full and nothing was taken; sync, then add again. */
bool lk_late_add(lk_late *late, int fd, char *directory);

/* Whether this directory waits: its names, and with them it, will be durable with the next sync. */
bool lk_late_has(lk_late *late, const char *directory);

/* What waits in this directory, or below it, needs no sync any more: it is removed. */
void lk_late_forget(lk_late *late, const char *directory);

/* directory() makes one directory's names durable; each is asked for once, from any thread of the pool. */
LK_MUST_CHECK lk_rc lk_late_sync(lk_late *late,
    lk_rc (*directory)(void *context, const char *path, lk_err *err), void *context, lk_err *err);

#endif
