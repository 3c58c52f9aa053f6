/*
 * local.c - see local.h and store.h.
 *
 * An object is written to ".tmp-<random>" beside its final name, synced, renamed to the final name (which
 * fails when that exists: one winner), and its directory is synced (local_sync.c). What is created in place has
 * its final name from the beginning.
 *
 * Threads: shared; a writer is confined.
 */
#include "io/local_priv.h"

#include "base/file.h"
#include "base/limits.h"
#include "base/rand.h"
#include "base/thread.h"
#include "io/trickle.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE_BUFFER_BYTES = 32 * 1024, DIRECTORY_MODE = 0755, FILE_MODE = 0644 };

struct local_reader {
    lk_store_reader base;
    int             fd;
    uint64_t        size;
    char            path[];
};

struct local_writer {
    lk_store_writer base;
    int             fd;
    bool            failed;   /* bytes are missing: it can only be abandoned */
    bool            in_place; /* it has its final name already: temporary is that */
    char           *temporary, *final;
    size_t          found;   /* size of the directory's path that was there already; 0: all of it */
    lk_trickle      trickle; /* where the store trickles */
    size_t          used;
    char           *buffer; /* of WRITE_BUFFER_BYTES; NULL: nothing small was written */
};

static void *take(size_t size)
{
    void *memory = calloc(1, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

char *lk_local_path(const struct local_store *self, lk_bytes key)
{
    lk_buf path = {0};
    lk_buf_format(&path, "%s%s%.*s", self->root, key.size == 0 ? "" : "/", LK_FMT(key));
    return path.data;
}

/* -- reading -- */

static lk_rc fail_open(lk_err *err, int failed, const char *path)
{
    return lk_fail_errno(err, failed == ENOTDIR ? ENOENT : failed, "open", path);
}

static lk_rc local_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    lk_rc rc = lk_store_key_check(key, err);
    if (rc != LK_OK) {
        return rc;
    }
    char       *path = lk_local_path((struct local_store *)store, key);
    struct stat status;
    int         fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) != 0) {
        rc = fail_open(err, errno, path);
    } else if (!S_ISREG(status.st_mode)) {
        rc = lk_fail(err, LK_E_NOT_FOUND, "%s is not a file", path);
    } else {
        size_t               path_size = strlen(path) + 1;
        struct local_reader *reader = take(sizeof *reader + path_size);
        *reader = (struct local_reader){.base = {store}, .fd = fd, .size = (uint64_t)status.st_size};
        memcpy(reader->path, path, path_size);
        *size = reader->size;
        *out = &reader->base;
    }
    if (rc != LK_OK && fd >= 0) {
        (void)close(fd);
    }
    free(path);
    return rc;
}

static lk_rc read_range(const struct local_reader *reader, const lk_store_range *range, lk_err *err)
{
    if (range->size > reader->size || range->offset > reader->size - range->size) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "%s: %zu bytes at %" PRIu64 " end after its %" PRIu64 " bytes",
            reader->path, range->size, range->offset, reader->size);
    }
    for (size_t done = 0; done < range->size;) {
        ssize_t n =
            pread(reader->fd, (char *)range->out + done, range->size - done, (off_t)(range->offset + done));
        if (n == 0) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "%s became shorter while it was read", reader->path);
        }
        if (n < 0 && errno != EINTR) {
            return lk_fail_errno(err, errno, "read", reader->path);
        }
        done += n < 0 ? 0 : (size_t)n;
    }
    return LK_OK;
}

static lk_rc local_read(lk_store_reader *reader, const lk_store_range *ranges, size_t count, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = read_range((const struct local_reader *)reader, &ranges[i], err);
    }
    return rc;
}

static void local_reader_close(lk_store_reader *reader)
{
    (void)close(((struct local_reader *)reader)->fd);
    free(reader);
}

/* -- writing -- */

/* Makes directory and what lacks above it; *found: the size of the path that was there. */
static lk_rc make_directories(const struct local_store *self, char *directory, size_t *found, lk_err *err)
{
    bool        durable = self->durable && !self->puts_off;
    const char *last = strrchr(directory, '/');
    if (!durable && last != NULL && last != directory) { /* as always, but for a store's first objects */
        bool made = mkdir(directory, DIRECTORY_MODE) == 0;
        if (made || errno == EEXIST) {
            *found = made ? (size_t)(last - directory) : 0;
            return LK_OK;
        }
    }
    for (*found = strlen(directory);;) {
        char end = directory[*found];
        directory[*found] = '\0';
        bool exists = access(directory, F_OK) == 0;
        directory[*found] = end;
        const char *slash = exists ? NULL : memrchr(directory, '/', *found);
        if (slash == NULL || slash == directory) {
            break;
        }
        *found = (size_t)(slash - directory);
    }
    return durable ? lk_directory_make(directory, DIRECTORY_MODE, err)
                   : lk_directory_make_volatile(directory, DIRECTORY_MODE, err);
}

static lk_rc open_new(struct local_writer *writer, lk_err *err)
{
    const struct local_store *self = (const struct local_store *)writer->base.store;
    char                     *directory = lk_local_parent_of(writer->final);
    lk_buf                    name = {0};
    lk_rc                     rc = LK_OK;
    int                       flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    if (writer->in_place) {
        lk_buf_append_bytes(&name, lk_bytes_of(writer->final));
    } else {
        lk_buf_format(&name, "%s/.tmp-%016" PRIx64, directory, lk_random_u64(lk_random_os()));
    }
    /* The directory of what is written in place is new mostly: that is tried first. */
    writer->fd = writer->in_place ? -1 : open(name.data, flags, FILE_MODE);
    if (writer->fd < 0 && (writer->in_place || errno == ENOENT)) {
        rc = make_directories(self, directory, &writer->found, err);
        writer->fd = rc == LK_OK ? open(name.data, flags, FILE_MODE) : -1;
    }
    if (rc == LK_OK && writer->fd < 0) {
        rc = writer->in_place && errno == EEXIST ? lk_fail(err, LK_E_CONFLICT, "%s exists", writer->final)
                                                 : lk_fail_errno(err, errno, "create", name.data);
    }
    if (rc == LK_OK) {
        writer->temporary = name.data;
    } else {
        lk_buf_deinit(&name);
    }
    free(directory);
    return rc;
}

static void writer_free(struct local_writer *writer)
{
    if (writer->fd >= 0) {
        (void)close(writer->fd);
    }
    free(writer->temporary);
    free(writer->final);
    free(writer->buffer);
    free(writer);
}

static void local_abandon(lk_store_writer *base)
{
    struct local_writer *writer = (struct local_writer *)base;
    if (writer->temporary != NULL) {
        (void)unlink(writer->temporary);
    }
    writer_free(writer);
}

static lk_rc create(lk_store *store, lk_bytes key, bool in_place, lk_store_writer **out, lk_err *err)
{
    struct local_store *self = (struct local_store *)store;
    lk_rc               rc = lk_store_key_check(key, err);
    if (rc != LK_OK) {
        return rc;
    }
    struct local_writer *writer = take(sizeof *writer);
    writer->base.store = store;
    writer->fd = -1;
    writer->in_place = in_place;
    writer->final = lk_local_path(self, key);
    rc = open_new(writer, err);
    if (rc != LK_OK) {
        writer_free(writer);
        return rc;
    }
    *out = &writer->base;
    return LK_OK;
}

static lk_rc local_create(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    return create(store, key, false, out, err);
}

static lk_rc local_create_in_place(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    return create(store, key, true, out, err);
}

static lk_rc write_through(struct local_writer *writer, lk_bytes bytes, lk_err *err)
{
    const struct local_store *self = (const struct local_store *)writer->base.store;
    lk_rc                     rc = LK_OK;
    if (writer->failed) {
        rc = lk_fail(err, LK_E_IO, "%s: an earlier write failed", writer->final);
    } else if (self->durable && self->trickles) {
        rc = lk_trickle_write(&writer->trickle, writer->fd, writer->temporary, bytes, err);
    } else if (self->puts_off) {
        rc = lk_trickle_send(&writer->trickle, writer->fd, writer->temporary, bytes, err);
    } else {
        rc = lk_file_write_all(writer->fd, writer->temporary, bytes, err);
    }
    writer->failed = rc != LK_OK;
    return rc;
}

static lk_rc flush(struct local_writer *writer, lk_err *err)
{
    lk_bytes pending = {writer->buffer, writer->used};
    writer->used = 0;
    return write_through(writer, pending, err);
}

static lk_rc local_write(lk_store_writer *base, const void *data, size_t size, lk_err *err)
{
    struct local_writer *writer = (struct local_writer *)base;
    lk_rc                rc = LK_OK;
    if (size > WRITE_BUFFER_BYTES - writer->used) {
        rc = flush(writer, err);
    }
    if (rc == LK_OK && size >= WRITE_BUFFER_BYTES) {
        return write_through(writer, (lk_bytes){data, size}, err);
    }
    if (rc == LK_OK && size > 0) {
        if (writer->buffer == NULL) {
            writer->buffer = malloc(WRITE_BUFFER_BYTES);
            LK_ASSERT(writer->buffer != NULL);
        }
        memcpy(writer->buffer + writer->used, data, size);
        writer->used += size;
    }
    return rc;
}

/* Gives the temporary its final name unless that exists; the temporary's is gone afterwards. Some file systems cannot
 * rename without replacing, some have no links. */
static lk_rc publish(const struct local_writer *writer, bool *created, lk_err *err)
{
    if (writer->in_place) {
        *created = true;
        return LK_OK;
    }
    int failed =
        renameat2(AT_FDCWD, writer->temporary, AT_FDCWD, writer->final, RENAME_NOREPLACE) == 0 ? 0 : errno;
    if (failed == EINVAL || failed == ENOSYS || failed == ENOTSUP) {
        failed = link(writer->temporary, writer->final) == 0 ? 0 : errno;
        (void)unlink(writer->temporary);
    } else if (failed != 0) {
        (void)unlink(writer->temporary);
    }
    *created = failed == 0;
    return failed == 0 || failed == EEXIST ? LK_OK : lk_fail_errno(err, failed, "publish", writer->final);
}

/* The loser of a race syncs too: it will rely on the winner's object. */
static lk_rc publish_durably(
    struct local_store *self, struct local_writer *writer, bool *created, lk_err *err)
{
    char *directory = lk_local_parent_of(writer->final);
    lk_rc rc = lk_local_ensure_synced(self, directory, err);
    rc = rc == LK_OK ? publish(writer, created, err) : rc;
    if (rc != LK_OK) {
        (void)unlink(writer->temporary);
    }
    if (rc == LK_OK && self->durable) {
        rc = lk_directory_sync(directory, err);
        if (rc != LK_OK && *created) { /* seen for a moment: the caller must look */
            (void)unlink(writer->final);
            *created = false;
            err->maybe_applied = true;
        }
    }
    free(directory);
    return rc;
}

static lk_rc finish_late(struct local_writer *writer, bool *created, lk_err *err)
{
    struct local_store *self = (struct local_store *)writer->base.store;
    lk_rc               rc = publish(writer, created, err);
    int                 fd = writer->fd;
    if (rc == LK_OK && *created) {
        writer->fd = -1;
        rc = lk_local_put_off(self, fd, writer->final, writer->found, err);
    }
    return rc;
}

static lk_rc finish(struct local_writer *writer, bool *created, lk_err *err)
{
    struct local_store *self = (struct local_store *)writer->base.store;
    lk_rc               rc = flush(writer, err);
    if (rc == LK_OK && self->puts_off) {
        return finish_late(writer, created, err);
    }
    if (rc == LK_OK && self->durable && fdatasync(writer->fd) != 0) {
        rc = lk_fail_errno(err, errno, "sync", writer->temporary);
    }
    int fd = writer->fd;
    writer->fd = -1;
    if (close(fd) != 0 && rc == LK_OK) {
        rc = lk_fail_errno(err, errno, "close", writer->temporary);
    }
    if (rc == LK_OK) {
        rc = publish_durably(self, writer, created, err);
    } else {
        (void)unlink(writer->temporary);
    }
    return rc;
}

static lk_rc local_finish(lk_store_writer *base, lk_err *err)
{
    struct local_writer *writer = (struct local_writer *)base;
    bool                 created = false;
    lk_rc                rc = finish(writer, &created, err);
    if (rc == LK_OK && !created) {
        rc = lk_fail(err, LK_E_CONFLICT, "%s exists", writer->final);
    }
    writer_free(writer);
    return rc;
}

static lk_rc local_put_if_absent(lk_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    lk_store_writer *writer = NULL;
    *created = false;
    lk_rc rc = local_create(store, key, &writer, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = write_through((struct local_writer *)writer, bytes, err);
    if (rc != LK_OK) {
        local_abandon(writer);
        return rc;
    }
    rc = finish((struct local_writer *)writer, created, err);
    writer_free((struct local_writer *)writer);
    return rc;
}

/* -- objects whose name comes later -- */

typedef struct local_staged {
    lk_store_staged      base;
    struct local_writer *writer;
} local_staged;

static lk_rc staged_publish(lk_store_staged *staged, bool *created, lk_err *err)
{
    local_staged *self = (local_staged *)staged;
    lk_rc rc = publish_durably((struct local_store *)self->writer->base.store, self->writer, created, err);
    writer_free(self->writer);
    free(self);
    return rc;
}

/* The bytes were synced before, so whoever sees the name finds them. */
static lk_rc staged_show(lk_store_staged *staged, bool *created, lk_err *err)
{
    local_staged *self = (local_staged *)staged;
    lk_rc         rc = publish(self->writer, created, err);
    writer_free(self->writer);
    free(self);
    return rc;
}

static void staged_discard(lk_store_staged *staged)
{
    local_abandon(&((local_staged *)staged)->writer->base);
    free(staged);
}

static lk_rc local_stage(lk_store *store, lk_bytes key, lk_bytes bytes, lk_store_staged **out, lk_err *err)
{
    struct local_store *self = (struct local_store *)store;
    lk_store_writer    *base = NULL;
    if (!self->puts_off) {
        return lk_store_stage_later(store, key, bytes, out);
    }
    lk_rc                rc = local_create(store, key, &base, err);
    struct local_writer *writer = (struct local_writer *)base;
    if (rc != LK_OK) {
        return rc;
    }
    rc = write_through(writer, bytes, err);
    if (rc == LK_OK) {
        int fd = writer->fd;
        writer->fd = -1;
        rc = lk_local_add_late(self, fd, NULL, err);
    }
    if (rc != LK_OK) {
        local_abandon(base);
        return rc;
    }
    local_staged *staged = take(sizeof *staged);
    *staged = (local_staged){{staged_publish, staged_discard, staged_show}, writer};
    *out = &staged->base;
    return LK_OK;
}

/* Synced at once, also where others are put off: there is no older object to fall back to. */
static lk_rc rename_over(struct local_store *self, struct local_writer *writer, bool durable, lk_err *err)
{
    char *directory = lk_local_parent_of(writer->final);
    lk_rc rc = durable ? lk_local_ensure_synced(self, directory, err) : LK_OK;
    if (rc == LK_OK && durable && fdatasync(writer->fd) != 0) {
        rc = lk_fail_errno(err, errno, "sync", writer->temporary);
    }
    if (rc == LK_OK && rename(writer->temporary, writer->final) != 0) {
        rc = lk_fail_errno(err, errno, "replace", writer->final);
    }
    if (rc != LK_OK) {
        (void)unlink(writer->temporary);
    } else if (durable && (rc = lk_directory_sync(directory, err)) != LK_OK) {
        err->maybe_applied = true;
    }
    free(directory);
    return rc;
}

static lk_rc replace(lk_store *store, lk_bytes key, lk_bytes bytes, bool durable, lk_err *err)
{
    lk_store_writer *base = NULL;
    lk_rc            rc = local_create(store, key, &base, err);
    if (rc != LK_OK) {
        return rc;
    }
    struct local_writer *writer = (struct local_writer *)base;
    rc = write_through(writer, bytes, err);
    if (rc != LK_OK) {
        local_abandon(base);
        return rc;
    }
    rc = rename_over((struct local_store *)store, writer, durable, err);
    writer_free(writer);
    return rc;
}

static lk_rc local_replace(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    return replace(store, key, bytes, ((struct local_store *)store)->durable, err);
}

static lk_rc local_hint(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    return replace(store, key, bytes, false, err);
}

static lk_rc local_alias(lk_store *store, lk_bytes from, lk_bytes to, bool *created, lk_err *err)
{
    struct local_store *self = (struct local_store *)store;
    lk_rc               rc = lk_store_key_check(from, err);
    rc = rc == LK_OK ? lk_store_key_check(to, err) : rc;
    if (rc != LK_OK) {
        return rc;
    }
    char *old = lk_local_path(self, from), *new = lk_local_path(self, to);
    int   failed = link(old, new) == 0 ? 0 : errno;
    *created = failed == 0;
    if (failed == EPERM || failed == ENOTSUP || failed == ENOSYS || failed == EMLINK) {
        rc = lk_fail(err, LK_E_UNIMPLEMENTED, "no links at %s", new);
    } else if (failed != 0 && failed != EEXIST) {
        rc = lk_fail_errno(err, failed, "link", new);
    } else if (*created && self->puts_off) {
        rc = lk_local_put_off(self, -1, new, 0, err);
    }
    free(old);
    free(new);
    return rc;
}

static void local_close(lk_store *store)
{
    struct local_store *self = (struct local_store *)store;
    lk_local_forget_synced(self);
    for (size_t i = 0; i < self->waiting_count; i++) {
        free(self->waiting[i]);
    }
    lk_late_deinit(&self->late);
    lk_mutex_deinit(&self->mutex);
    free(self->root);
    free(self);
}

static const struct lk_store_ops local_ops = {
    .open = local_open,
    .read = local_read,
    .reader_close = local_reader_close,
    .create = local_create,
    .create_in_place = local_create_in_place,
    .write = local_write,
    .finish = local_finish,
    .abandon = local_abandon,
    .put_if_absent = local_put_if_absent,
    .list = lk_local_list,
    .list_names = lk_local_list_names,
    .sync = lk_local_sync,
    .alias = local_alias,
    .replace = local_replace,
    .hint = local_hint,
    .stage = local_stage,
    .remove = lk_local_remove,
    .remove_tree = lk_local_remove_tree,
    .close = local_close,
};

lk_rc lk_local_store_open(lk_store **out, lk_bytes root, bool durable, lk_err *err)
{
    while (root.size > 1 && root.data[root.size - 1] == '/') {
        root.size--;
    }
    if (root.size == 0 || memchr(root.data, '\0', root.size) != NULL) {
        return lk_fail(err, LK_E_INVALID_REQUEST, "a local store needs a root directory");
    }
    struct local_store *self = take(sizeof *self);
    lk_buf              copy = {0};
    lk_buf_append_bytes(&copy, root);
    self->root = copy.data;
    self->durable = durable;
    self->base = (lk_store){.ops = &local_ops, .uri = lk_buf_view(&copy)};
    lk_mutex_init(&self->mutex, LK_RANK_IO);
    lk_late_init(&self->late, NULL);
    *out = &self->base;
    return LK_OK;
}

void lk_local_store_trickle(lk_store *store)
{
    ((struct local_store *)store)->trickles = true;
}

lk_rc lk_local_store_open_late(lk_store **out, lk_bytes root, lk_pool *pool, lk_err *err)
{
    lk_rc rc = lk_local_store_open(out, root, true, err);
    if (rc == LK_OK) {
        struct local_store *self = (struct local_store *)*out;
        self->puts_off = true;
        self->late.pool = pool;
    }
    return rc;
}
