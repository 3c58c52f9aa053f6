/* local_list.c - the local store's listings and removals: see local.h and store.h. */
#include "base/file.h"
#include "base/limits.h"
#include "io/local_priv.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct listing {
    DIR        *directory;
    const char *path;
    lk_arena   *arena;
    bool        names_only;
    lk_buf      entries; /* of lk_store_entry */
} listing;

static lk_rc inspect(const listing *self, lk_store_entry *entry, bool *gone, lk_err *err)
{
    struct stat status;
    if (fstatat(dirfd(self->directory), entry->name.data, &status, 0) != 0) {
        *gone = errno == ENOENT;
        return *gone ? LK_OK : lk_fail_errno(err, errno, "inspect", entry->name.data);
    }
    entry->is_directory = S_ISDIR(status.st_mode);
    entry->size = (uint64_t)status.st_size;
    entry->modified_ms = (int64_t)status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1000000;
    return LK_OK;
}

static lk_rc add_entry(listing *self, const char *name, lk_err *err)
{
    bool           gone = false;
    lk_store_entry entry = {.name = lk_arena_copy(self->arena, lk_bytes_of(name))};
    lk_rc          rc = self->names_only ? LK_OK : inspect(self, &entry, &gone, err);
    if (rc != LK_OK || gone) {
        return rc;
    }
    if (self->entries.size / sizeof entry >= LK_DIRECTORY_ENTRIES_MAX) {
        return lk_fail(err, LK_E_LIMIT, "a directory has more than %d entries", LK_DIRECTORY_ENTRIES_MAX);
    }
    lk_buf_append(&self->entries, &entry, sizeof entry);
    return LK_OK;
}

static lk_rc read_entries(listing *self, lk_err *err)
{
    lk_rc rc = LK_OK;
    while (rc == LK_OK) {
        errno = 0;
        struct dirent *entry = readdir(self->directory);
        if (entry == NULL) {
            return errno == 0 ? LK_OK : lk_fail_errno(err, errno, "list", self->path);
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            rc = add_entry(self, entry->d_name, err);
        }
    }
    return rc;
}

static lk_rc list_into(lk_store *store, lk_bytes key, bool names_only, lk_arena *arena,
    lk_store_entry **entries, size_t *count, lk_err *err)
{
    lk_rc rc = key.size == 0 ? LK_OK : lk_store_key_check(key, err);
    if (rc != LK_OK) {
        return rc;
    }
    char   *path = lk_local_path((struct local_store *)store, key);
    listing found = {.directory = opendir(path), .path = path, .arena = arena, .names_only = names_only};
    if (found.directory != NULL) {
        rc = read_entries(&found, err);
        (void)closedir(found.directory);
    } else if (errno != ENOENT && errno != ENOTDIR) {
        rc = lk_fail_errno(err, errno, "list", path);
    }
    if (rc == LK_OK) {
        *count = found.entries.size / sizeof **entries;
        *entries = (lk_store_entry *)lk_arena_take(arena, found.entries.size);
        if (*count > 0) {
            memcpy(*entries, found.entries.data, found.entries.size);
        }
    }
    lk_buf_deinit(&found.entries);
    free(path);
    return rc;
}

lk_rc lk_local_list(
    lk_store *store, lk_bytes key, lk_arena *arena, lk_store_entry **entries, size_t *count, lk_err *err)
{
    return list_into(store, key, false, arena, entries, count, err);
}

lk_rc lk_local_list_names(
    lk_store *store, lk_bytes key, lk_arena *arena, lk_store_entry **entries, size_t *count, lk_err *err)
{
    return list_into(store, key, true, arena, entries, count, err);
}

lk_rc lk_local_remove(lk_store *store, lk_bytes key, lk_err *err)
{
    lk_rc rc = lk_store_key_check(key, err);
    if (rc != LK_OK) {
        return rc;
    }
    char *path = lk_local_path((struct local_store *)store, key);
    if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR) {
        rc = lk_fail_errno(err, errno, "remove", path);
    }
    free(path);
    return rc;
}

lk_rc lk_local_remove_tree(lk_store *store, lk_bytes key, lk_err *err)
{
    struct local_store *self = (struct local_store *)store;
    lk_rc               rc = lk_store_key_check(key, err);
    if (rc != LK_OK) {
        return rc;
    }
    char *path = lk_local_path(self, key);
    lk_local_forget_synced(self);
    lk_late_forget(&self->late, path);
    rc = lk_directory_remove(path, err);
    lk_local_forget_synced(self);
    free(path);
    return rc;
}
