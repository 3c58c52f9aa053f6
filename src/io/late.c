/* late.c - see late.h. */
#include "io/late.h"

#include "base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void lk_late_init(lk_late *late, lk_pool *pool)
{
    *late = (lk_late){.pool = pool};
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

bool lk_late_has(lk_late *late, const char *directory)
{
    bool found = false;
    lk_mutex_lock(&late->mutex);
    for (size_t i = 0; !found && i < late->count; i++) {
        const char *waits = late->files[i].directory;
        found = waits != NULL && strcmp(waits, directory) == 0;
    }
    lk_mutex_unlock(&late->mutex);
    return found;
}

static bool lies_in(const char *path, const char *directory)
{
    size_t size = strlen(directory);
    return path != NULL && strncmp(path, directory, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

void lk_late_forget(lk_late *late, const char *directory)
{
    size_t left = 0;
    lk_mutex_lock(&late->mutex);
    for (size_t i = 0; i < late->count; i++) {
        if (lies_in(late->files[i].directory, directory)) {
            let_go(&late->files[i], 1);
        } else {
            late->files[left++] = late->files[i];
        }
    }
    late->count = left;
    lk_mutex_unlock(&late->mutex);
}

/* -- one turn: every file and every distinct directory is a job
 * ---------------------------------------------- */
typedef struct turn {
    lk_rc (*directory)(void *context, const char *path, lk_err *err);
    void    *context;
    lk_mutex mutex;
    lk_cond  ended;
    size_t   running; /* guarded by mutex */
    lk_err   failure; /* the first one; guarded by mutex */
} turn;

typedef struct job {
    turn       *turn;
    int         fd; /* -1: the directory */
    const char *directory;
} job;

static void run_job(void *context)
{
    const job *j = context;
    turn      *t = j->turn;
    lk_err     err = {0};
    lk_rc      rc = LK_OK;
    if (j->fd < 0) {
        rc = t->directory(t->context, j->directory, &err);
    } else if (fdatasync(j->fd) != 0) {
        rc = lk_fail_errno(&err, errno, "sync", j->directory);
    }
    lk_mutex_lock(&t->mutex);
    if (rc != LK_OK && t->failure.rc == LK_OK) {
        t->failure = err;
    }
    if (--t->running == 0) {
        lk_cond_signal(&t->ended);
    }
    lk_mutex_unlock(&t->mutex);
}

static size_t list_jobs(turn *t, const lk_late_file *files, size_t count, job *jobs)
{
    size_t listed = 0;
    for (size_t i = 0; i < count; i++) {
        const char *name = files[i].directory;
        size_t      first = 0;
        while (
            name != NULL && (files[first].directory == NULL || strcmp(files[first].directory, name) != 0)) {
            first++;
        }
        if (files[i].fd >= 0) {
            jobs[listed++] = (job){t, files[i].fd, name == NULL ? "a file" : name};
        }
        if (name != NULL && first == i) {
            jobs[listed++] = (job){t, -1, files[i].directory};
        }
    }
    return listed;
}

/* The last job runs here; so do those that the pool has no room for. */
static lk_rc run_turn(lk_pool *pool, turn *t, const lk_late_file *files, size_t count, lk_err *err)
{
    job    jobs[2 * LK_LATE_FILES_MAX];
    size_t listed = list_jobs(t, files, count, jobs);
    t->running = listed;
    lk_mutex_init(&t->mutex, LK_RANK_IO);
    lk_cond_init(&t->ended);
    for (size_t i = 0; i < listed; i++) {
        lk_err full = {0};
        bool   mine = pool == NULL || i + 1 == listed;
        if (mine || lk_pool_submit(pool, run_job, &jobs[i], &full) != LK_OK) {
            run_job(&jobs[i]);
        }
    }
    lk_mutex_lock(&t->mutex);
    while (t->running > 0) {
        lk_cond_wait(&t->ended, &t->mutex);
    }
    lk_mutex_unlock(&t->mutex);
    lk_cond_deinit(&t->ended);
    lk_mutex_deinit(&t->mutex);
    if (t->failure.rc != LK_OK) {
        *err = t->failure;
    }
    return t->failure.rc;
}

lk_rc lk_late_sync(lk_late *late, lk_rc (*directory)(void *context, const char *path, lk_err *err),
    void *context, lk_err *err)
{
    lk_late_file files[LK_LATE_FILES_MAX];
    lk_mutex_lock(&late->mutex);
    uint64_t before = late->failures;
    while (late->syncing) {
        lk_cond_wait(&late->done, &late->mutex);
    }
    if (late->failures != before) { /* it may have had the caller's files */
        *err = late->failure;
        lk_mutex_unlock(&late->mutex);
        return err->rc;
    }
    size_t count = late->count;
    memcpy(files, late->files, count * sizeof files[0]);
    late->count = 0;
    late->syncing = true;
    lk_mutex_unlock(&late->mutex);

    turn  t = {.directory = directory, .context = context};
    lk_rc rc = run_turn(late->pool, &t, files, count, err);
    let_go(files, count);

    lk_mutex_lock(&late->mutex);
    late->syncing = false;
    if (rc != LK_OK) {
        late->failures++;
        late->failure = *err;
    }
    lk_cond_broadcast(&late->done);
    lk_mutex_unlock(&late->mutex);
    return rc;
}
