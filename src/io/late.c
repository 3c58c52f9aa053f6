/* late.c - see late.h. */
#include "io/late.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void lk_late_init(lk_late *late)
{
    *late = (lk_late){0};
    lk_mutex_init(&late->mutex, LK_RANK_IO);
    lk_cond_init(&late->done);
}

static void let_go(lk_late_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (files[i].fd >= 0) {
            (void)close(files[i].fd);
        }
        free(files[i].directory);
    }
}

void lk_late_deinit(lk_late *late)
{
    let_go(late->files, late->count);
    lk_cond_deinit(&late->done);
    lk_mutex_deinit(&late->mutex);
}

bool lk_late_add(lk_late *late, int fd, char *directory)
{
    lk_mutex_lock(&late->mutex);
    bool room = late->count < LK_LATE_FILES_MAX;
    if (room) {
        late->files[late->count++] = (lk_late_file){fd, directory};
    }
    lk_mutex_unlock(&late->mutex);
    return room;
}

/* Starts the writing of all first, so that the journal's next turn, which the first sync waits for, takes
 * every file with it. */
static lk_rc sync_files(const lk_late_file *files, size_t count, lk_err *err)
{
    for (size_t i = 0; count > 1 && i < count; i++) {
        if (files[i].fd >= 0) {
            (void)sync_file_range(files[i].fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* only a hint */
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (files[i].fd >= 0 && fdatasync(files[i].fd) != 0) {
            return lk_fail_errno(err, errno, "sync", files[i].directory);
        }
    }
    return LK_OK;
}

static lk_rc sync_directories(const lk_late_file *files, size_t count,
    lk_rc (*directory)(void *context, const char *path, lk_err *err), void *context, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        size_t first = 0;
        while (strcmp(files[first].directory, files[i].directory) != 0) {
            first++;
        }
        rc = first == i ? directory(context, files[i].directory, err) : LK_OK;
    }
    return rc;
}

lk_rc lk_late_sync(
    lk_late *late, lk_rc (*directory)(void *context, const char *path, lk_err *err), void *context, lk_err *err)
{
    lk_late_file files[LK_LATE_FILES_MAX];
    lk_mutex_lock(&late->mutex);
    while (late->syncing) {
        lk_cond_wait(&late->done, &late->mutex);
    }
    size_t count = late->count;
    memcpy(files, late->files, count * sizeof files[0]);
    late->count = 0;
    late->syncing = true;
    lk_mutex_unlock(&late->mutex);

    lk_rc rc = sync_files(files, count, err);
    rc = rc == LK_OK ? sync_directories(files, count, directory, context, err) : rc;
    let_go(files, count);

    lk_mutex_lock(&late->mutex);
    late->syncing = false;
    lk_cond_broadcast(&late->done);
    lk_mutex_unlock(&late->mutex);
    return rc;
}
