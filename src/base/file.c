/* file.c - see file.h. */
#include "base/file.h"

#include "base/limits.h"
#include "base/rand.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

lk_rc lk_fail_errno(lk_err *err, int error_number, const char *doing, const char *path)
{
    const char *reason = strerrordesc_np(error_number);
    lk_rc       rc = error_number == ENOENT                             ? LK_E_NOT_FOUND
                     : error_number == ENOSPC || error_number == EDQUOT ? LK_E_STORE_FULL
                                                                        : LK_E_IO;
    reason = reason == NULL ? "unknown error" : reason;
    rc = lk_fail(err, rc, "%s %s: %s", doing, path, reason);
    return rc == LK_E_IO ? lk_detail(err, "%s", reason) : rc;
}

lk_rc lk_file_read_all(int fd, const char *path, size_t size_max, lk_buf *out, lk_err *err)
{
    size_t start = out->size;
    for (;;) {
        lk_buf_reserve(out, 64 * 1024);
        ssize_t n = read(fd, out->data + out->size, out->capacity - out->size - 1);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return lk_fail_errno(err, errno, "read", path);
        }
        out->size += (size_t)n;
        out->data[out->size] = '\0';
        if (out->size - start > size_max) {
            return lk_fail(err, LK_E_LIMIT, "%s is larger than %zu bytes", path, size_max);
        }
        if (n == 0) {
            return LK_OK;
        }
    }
}

lk_rc lk_file_read(const char *path, size_t size_max, lk_buf *out, lk_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return lk_fail_errno(err, errno, "open", path);
    }
    lk_rc rc = lk_file_read_all(fd, path, size_max, out, err);
    (void)close(fd);
    return rc;
}

static lk_rc check_secret(int fd, const char *path, size_t size_max, lk_err *err)
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return lk_fail_errno(err, errno, "inspect", path);
    }
    if (!S_ISREG(status.st_mode)) {
        return lk_refuse(err, LK_E_INVALID_CONFIG, "%s is not a regular file", path);
    }
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return lk_refuse(err, LK_E_INVALID_CONFIG, "%s can be used by others; make it mode 0600", path);
    }
    if ((uint64_t)status.st_size > size_max) {
        return lk_refuse(err, LK_E_INVALID_CONFIG, "%s is larger than %zu bytes", path, size_max);
    }
    return LK_OK;
}

/* What is checked is the very file that is read. */
lk_rc lk_file_read_secret(const char *path, bool follow_link, size_t size_max, lk_buf *out, lk_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow_link ? 0 : O_NOFOLLOW));
    if (fd < 0 && errno == ELOOP) {
        return lk_refuse(err, LK_E_INVALID_CONFIG, "%s is a symbolic link", path);
    }
    if (fd < 0) {
        lk_err cause = {0};
        lk_rc  ignored = lk_fail_errno(&cause, errno, "open", path);
        (void)ignored;
        return lk_refuse(err, LK_E_INVALID_CONFIG, "%s", cause.context);
    }
    lk_rc rc = check_secret(fd, path, size_max, err);
    rc = rc == LK_OK ? lk_file_read_all(fd, path, size_max, out, err) : rc;
    (void)close(fd);
    return rc;
}

lk_rc lk_file_write_all(int fd, const char *path, lk_bytes bytes, lk_err *err)
{
    while (bytes.size > 0) {
        ssize_t n = write(fd, bytes.data, bytes.size);
        if (n < 0 && errno != EINTR) {
            return lk_fail_errno(err, errno, "write", path);
        }
        bytes.data += n < 0 ? 0 : n;
        bytes.size -= n < 0 ? 0 : (size_t)n;
    }
    return LK_OK;
}

/* "dir/name" -> "dir", "name" -> ".", "/name" -> "/". */
static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t      size = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    char       *parent = strndup(slash == NULL ? "." : path, size);
    if (parent == NULL) {
        abort();
    }
    return parent;
}

/* So that the name path is durable. A parent that may be used but not read cannot be synced by us. */
static lk_rc sync_parent(const char *path, lk_err *err)
{
    char *parent = parent_of(path);
    bool  allowed = access(parent, R_OK) == 0;
    lk_rc rc = allowed ? lk_directory_sync(parent, err) : LK_OK;
    free(parent);
    return rc;
}

static lk_rc write_new(const char *path, lk_bytes bytes, unsigned mode, lk_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) {
        return lk_fail_errno(err, errno, "create", path);
    }
    lk_rc rc = lk_file_write_all(fd, path, bytes, err);
    if (rc == LK_OK && fsync(fd) != 0) {
        rc = lk_fail_errno(err, errno, "sync", path);
    }
    if (close(fd) != 0 && rc == LK_OK) {
        rc = lk_fail_errno(err, errno, "close", path);
    }
    if (rc != LK_OK) {
        (void)unlink(path);
    }
    return rc;
}

lk_rc lk_file_replace(const char *path, lk_bytes bytes, unsigned mode, lk_err *err)
{
    lk_buf temporary = {0};
    lk_buf_format(&temporary, "%s.tmp-%016" PRIx64, path, lk_random_u64(lk_random_os()));
    lk_rc rc = write_new(temporary.data, bytes, mode, err);
    if (rc == LK_OK && rename(temporary.data, path) != 0) {
        rc = lk_fail_errno(err, errno, "replace", path);
        (void)unlink(temporary.data);
    } else if (rc == LK_OK) {
        rc = sync_parent(path, err);
        err->maybe_applied = rc != LK_OK ? true : err->maybe_applied;
    }
    lk_buf_deinit(&temporary);
    return rc;
}

static bool is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Makes one directory whose parent exists; whoever made it first may not have synced its name. */
static lk_rc make_one(const char *path, unsigned mode, bool durable, lk_err *err)
{
    if (mkdir(path, mode) != 0 && (errno != EEXIST || !is_directory(path))) {
        return lk_fail_errno(err, errno == EEXIST ? ENOTDIR : errno, "make directory", path);
    }
    return durable ? sync_parent(path, err) : LK_OK;
}

static lk_rc make(const char *path, unsigned mode, bool durable, lk_err *err)
{
    lk_buf copy = {0};
    lk_rc  rc = LK_OK;
    lk_buf_append_text(&copy, path);
    while (copy.size > 1 && copy.data[copy.size - 1] == '/') {
        copy.data[--copy.size] = '\0';
    }
    bool exists = is_directory(copy.data);
    for (size_t at = 1; rc == LK_OK && !exists && at < copy.size; at++) {
        if (copy.data[at] == '/') {
            copy.data[at] = '\0';
            rc = is_directory(copy.data) ? LK_OK : make_one(copy.data, mode, durable, err);
            copy.data[at] = '/';
        }
    }
    rc = rc == LK_OK ? make_one(copy.data, mode, durable, err) : rc;
    lk_buf_deinit(&copy);
    return rc;
}

lk_rc lk_directory_make(const char *path, unsigned mode, lk_err *err)
{
    return make(path, mode, true, err);
}

lk_rc lk_directory_make_volatile(const char *path, unsigned mode, lk_err *err)
{
    return make(path, mode, false, err);
}

lk_rc lk_directory_sync(const char *path, lk_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return lk_fail_errno(err, errno, "open directory", path);
    }
    bool  done = fsync(fd) == 0 || errno == EINVAL; /* this file system has nothing to sync */
    lk_rc rc = done ? LK_OK : lk_fail_errno(err, errno, "sync directory", path);
    (void)close(fd);
    return rc;
}

static lk_rc remove_inside(int fd, const char *path, int depth, lk_err *err);

/* One entry of the directory fd: a link is removed, not followed. */
static lk_rc remove_entry(int fd, const char *name, const char *path, int depth, lk_err *err)
{
    if (unlinkat(fd, name, 0) == 0 || errno == ENOENT) {
        return LK_OK;
    }
    if (errno != EISDIR && errno != EPERM) {
        return lk_fail_errno(err, errno, "remove in", path);
    }
    int inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0) {
        return lk_fail_errno(err, errno, "open directory in", path);
    }
    lk_rc rc = remove_inside(inner, path, depth + 1, err); /* closes inner */
    if (rc == LK_OK && unlinkat(fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        rc = lk_fail_errno(err, errno, "remove directory in", path);
    }
    return rc;
}

static lk_rc remove_inside(int fd, const char *path, int depth, lk_err *err)
{
    DIR *directory = depth > LK_DIRECTORY_DEPTH_MAX ? NULL : fdopendir(fd);
    if (directory == NULL) {
        (void)close(fd);
        return lk_fail(err, LK_E_LIMIT, "%s is nested deeper than %d", path, LK_DIRECTORY_DEPTH_MAX);
    }
    lk_rc rc = LK_OK;
    errno = 0;
    for (struct dirent *entry = readdir(directory); rc == LK_OK && entry != NULL;
         entry = readdir(directory)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            rc = remove_entry(dirfd(directory), entry->d_name, path, depth, err);
        }
    }
    (void)closedir(directory);
    return rc;
}

lk_rc lk_directory_remove(const char *path, lk_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? LK_OK : lk_fail_errno(err, errno, "open directory", path);
    }
    lk_rc rc = remove_inside(fd, path, 0, err);
    if (rc == LK_OK && rmdir(path) != 0 && errno != ENOENT) {
        rc = lk_fail_errno(err, errno, "remove directory", path);
    }
    return rc;
}

size_t lk_file_limit_raise(void)
{
    struct rlimit limit = {0};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 0;
    }
    struct rlimit raised = {limit.rlim_max, limit.rlim_max};
    return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}
