/*
 * spill.c - see spill_priv.h. The owner holds an flock on its marker for as long as it lives; the kernel
 * drops it with the process, however that ends, so a lock that can be taken is the proof that the owner is
 * gone.
 */
#include "sql/spill_priv.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = "lake-spill-";
static const char marker[] = "owner";

static bool is_private_directory(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/* A directory of ours whose owner is dead: the marker is there and nobody holds its lock. */
static bool is_orphan(const char *path, lk_arena *arena)
{
    lk_bytes file = lk_arena_format(arena, "%s/%s", path, marker);
    int      fd = is_private_directory(path) ? open(file.data, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0) {
        return false;
    }
    bool free_now = flock(fd, LOCK_EX | LOCK_NB) == 0;
    (void)close(fd);
    return free_now;
}

static void remove_orphans(const char *parent, lk_arena *arena)
{
    DIR *directory = opendir(parent);
    for (struct dirent *entry = NULL; directory != NULL && (entry = readdir(directory)) != NULL;) {
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0) {
            continue;
        }
        lk_bytes path = lk_arena_format(arena, "%s/%s", parent, entry->d_name);
        lk_err   ignored = {0};
        if (is_orphan(path.data, arena) && lk_directory_remove(path.data, &ignored) == LK_OK) {
            lk_log(LK_LOG_SPILL_CLEANED, LK_LOG_T("path", path));
        }
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
}

/* Locked before it has its name, so that nobody can find it unlocked. */
static lk_rc mark(lk_spill *spill, lk_arena *arena, lk_err *err)
{
    lk_bytes file = lk_arena_format(arena, "%s/%s", spill->path, marker);
    lk_bytes fresh = lk_arena_format(arena, "%s.new", file.data);
    spill->lock = open(fresh.data, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (spill->lock < 0 || flock(spill->lock, LOCK_EX | LOCK_NB) != 0 || rename(fresh.data, file.data) != 0) {
        return lk_fail_errno(err, errno, "mark spill directory", file.data);
    }
    return LK_OK;
}

lk_rc lk_spill_open(lk_bytes parent, lk_spill *out, lk_err *err)
{
    lk_arena arena = {0};
    lk_spill spill = {.lock = -1};
    char    *root = lk_arena_text(&arena, parent);
    lk_rc    rc = lk_directory_make(root, 0700, err);
    if (rc == LK_OK) {
        remove_orphans(root, &arena);
        lk_bytes pattern = lk_arena_format(&arena, "%s/%sXXXXXX", root, prefix);
        char    *made = mkdtemp(lk_arena_text(&arena, pattern)); /* mode 0700 */
        spill.path = made == NULL ? NULL : strdup(made);
        rc = made == NULL ? lk_fail_errno(err, errno, "make spill directory in", root)
                          : mark(&spill, &arena, err);
    }
    lk_arena_close(&arena);
    if (rc != LK_OK) {
        lk_spill_close(&spill);
        return rc;
    }
    *out = spill;
    return LK_OK;
}

void lk_spill_close(lk_spill *spill)
{
    lk_err failure = {0};
    if (spill->path == NULL) {
        return;
    }
    if (lk_directory_remove(spill->path, &failure) != LK_OK) {
        lk_log_error(LK_LOG_REQUEST_FAILED, &failure);
    }
    if (spill->lock >= 0) {
        (void)close(spill->lock);
    }
    free(spill->path);
    *spill = (lk_spill){0};
}
