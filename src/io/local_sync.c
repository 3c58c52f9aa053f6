/*
 * local_sync.c - which names and bytes of a local store are durable, and what makes them so.
 *
 * A directory counts as durable only when this process has synced it and its parents up to the root's: a name that some
 * earlier process made may not have reached the disk.
 *
 * Invariant: synced[] holds only directories whose whole chain was synced after they were made.
 * Threads: shared; mutex guards synced[], forgets and waiting[].
 */
#include "base/file.h"
#include "io/local_priv.h"

#include <stdlib.h>
#include <unistd.h>

char *lk_local_parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    lk_bytes    parent =
        slash == NULL ? LK_LITERAL(".") : (lk_bytes){path, slash == path ? 1 : (size_t)(slash - path)};
    lk_buf copy = {0};
    lk_buf_append_bytes(&copy, parent);
    return copy.data;
}

/* -- durable directories -- */

static size_t slot_of(const char *path)
{
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
    for (const char *at = path; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * 0x100000001B3u;
    }
    return hash % LOCAL_SYNCED_SLOTS;
}

static bool is_synced(struct local_store *self, const char *path, uint64_t *forgets)
{
    lk_mutex_lock(&self->mutex);
    const char *known = self->synced[slot_of(path)];
    bool        found = known != NULL && strcmp(known, path) == 0;
    *forgets = self->forgets;
    lk_mutex_unlock(&self->mutex);
    return found;
}

static void remember_synced(struct local_store *self, const char *path, uint64_t forgets)
{
    size_t slot = slot_of(path);
    char  *copy = strdup(path);
    char  *old = copy;
    lk_mutex_lock(&self->mutex);
    if (self->forgets == forgets) {
        old = self->synced[slot];
        self->synced[slot] = copy;
    }
    lk_mutex_unlock(&self->mutex);
    free(old);
}

void lk_local_forget_synced(struct local_store *self)
{
    lk_mutex_lock(&self->mutex);
    self->forgets++;
    for (size_t i = 0; i < LOCAL_SYNCED_SLOTS; i++) {
        free(self->synced[i]);
        self->synced[i] = NULL;
    }
    lk_mutex_unlock(&self->mutex);
}

/* Syncs the directories above directory, the root's parent last; that one we may not be allowed to open. */
static lk_rc sync_above(struct local_store *self, const char *directory, lk_err *err)
{
    char *at = lk_local_parent_of(directory);
    bool  at_root = strcmp(directory, self->root) == 0;
    lk_rc rc = LK_OK;
    while (rc == LK_OK) {
        bool skip = at_root && access(at, R_OK) != 0;
        rc = skip ? LK_OK : lk_directory_sync(at, err);
        if (at_root) {
            break;
        }
        at_root = strcmp(at, self->root) == 0;
        char *up = lk_local_parent_of(at);
        free(at);
        at = up;
    }
    free(at);
    return rc;
}

lk_rc lk_local_ensure_synced(struct local_store *self, const char *directory, lk_err *err)
{
    uint64_t forgets = 0;
    if (!self->durable || is_synced(self, directory, &forgets)) {
        return LK_OK;
    }
    lk_rc rc = sync_above(self, directory, err);
    if (rc == LK_OK) {
        remember_synced(self, directory, forgets);
    }
    return rc;
}

/* -- what waits for the next sync -- */

static lk_rc sync_names(void *context, const char *directory, lk_err *err)
{
    (void)context;
    lk_rc rc = lk_directory_sync(directory, err);
    if (rc == LK_E_NOT_FOUND) { /* what was written is gone: that is no answer to what anybody looks for */
        err->rc = rc = LK_E_IO;
    }
    return rc;
}

/* Directories that are durable once what waits is synced. */
lk_rc lk_local_sync(lk_store *store, lk_err *err)
{
    struct local_store *self = (struct local_store *)store;
    char               *waiting[LOCAL_WAITING_MAX];
    if (!self->puts_off) {
        return LK_OK;
    }
    lk_mutex_lock(&self->mutex);
    size_t   count = self->waiting_count;
    uint64_t forgets = self->forgets;
    memcpy(waiting, self->waiting, count * sizeof(char *));
    self->waiting_count = 0;
    lk_mutex_unlock(&self->mutex);
    lk_rc rc = lk_late_sync(&self->late, sync_names, NULL, err);
    for (size_t i = 0; i < count; i++) {
        if (rc == LK_OK) {
            remember_synced(self, waiting[i], forgets);
        }
        free(waiting[i]);
    }
    if (rc != LK_OK) {
        lk_local_forget_synced(self); /* nor what another's call remembers now */
    }
    return rc;
}

/* To be remembered after the next sync; what finds no room is only synced once more. */
static void remember_later(struct local_store *self, const char *directory)
{
    char *copy = strdup(directory);
    lk_mutex_lock(&self->mutex);
    if (self->waiting_count < LOCAL_WAITING_MAX) {
        self->waiting[self->waiting_count++] = copy;
        copy = NULL;
    }
    lk_mutex_unlock(&self->mutex);
    free(copy);
}

/* Takes fd (-1: none) and the directory's path: both wait for the next sync. */
lk_rc lk_local_add_late(struct local_store *self, int fd, char *directory, lk_err *err)
{
    lk_rc rc = LK_OK;
    while (rc == LK_OK && !lk_late_add(&self->late, fd, directory)) {
        rc = lk_local_sync(&self->base, err);
    }
    if (rc != LK_OK) {
        free(directory);
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    return rc;
}

static lk_rc add_directory(struct local_store *self, const char *directory, size_t size, lk_err *err)
{
    char *copy = strndup(directory, size);
    if (lk_late_has(&self->late, copy)) {
        free(copy);
        return LK_OK;
    }
    return lk_local_add_late(self, -1, copy, err);
}

/* The directory's own name and those above it, where they are not known to be durable. The highest first: what is above a
 * directory that waits waits, too. */
static lk_rc put_off_above(struct local_store *self, const char *directory, lk_err *err)
{
    uint64_t    forgets = 0;
    const char *at = directory;
    lk_buf      above = {0}; /* of char * */
    lk_rc       rc = LK_OK;
    while (!is_synced(self, at, &forgets) && !lk_late_has(&self->late, at)) {
        bool  at_root = strlen(at) <= strlen(self->root); /* above it when the root itself was made */
        char *up = lk_local_parent_of(at);
        lk_buf_append(&above, &up, sizeof up);
        at = up;
        if (at_root) {
            break;
        }
    }
    for (size_t i = above.size / sizeof(char *); i > 0; i--) {
        char *up = ((char **)(void *)above.data)[i - 1];
        if (rc == LK_OK && access(up, R_OK) == 0) { /* the root's parent may not be ours to open */
            rc = add_directory(self, up, strlen(up), err);
        }
        free(up);
    }
    lk_buf_deinit(&above);
    return rc;
}

/* Takes fd (-1: none): it and the directory of path wait for the next sync, and the names of directories that are not
 * known to be durable: from the one that was there (`found`: as of a writer) up, and the made ones below it. */
lk_rc lk_local_put_off(struct local_store *self, int fd, const char *path, size_t found, lk_err *err)
{
    char  *directory = lk_local_parent_of(path);
    size_t size = strlen(directory);
    char  *there = strndup(directory, found > 0 ? found : size);
    lk_rc  rc = put_off_above(self, there, err);
    for (size_t at = found; found > 0 && rc == LK_OK && at < size;) {
        rc = add_directory(self, directory, at, err);
        const char *slash = memchr(directory + at + 1, '/', size - at - 1);
        at = slash == NULL ? size : (size_t)(slash - directory);
    }
    if (rc == LK_OK) {
        remember_later(self, directory);
    }
    if (rc == LK_OK && found > 0) {
        remember_later(self, there);
    }
    free(there);
    if (rc == LK_OK) {
        return lk_local_add_late(self, fd, directory, err);
    }
    free(directory);
    if (fd >= 0) {
        (void)close(fd);
    }
    return rc;
}
