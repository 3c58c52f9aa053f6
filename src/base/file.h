#ifndef LK_BASE_FILE_H
#define LK_BASE_FILE_H
/*
 * file.h - local files: whole reads, durable writes, directories. For small things; table data goes
 * through io/store. Errors: LK_E_NOT_FOUND, LK_E_STORE_FULL (ENOSPC, EDQUOT), LK_E_IO with the path and
 * the system's reason as context, and the reason alone as detail. Threads: stateless.
 */
#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"

/* Maps errno to an error: ENOENT, ENOSPC/EDQUOT, else LK_E_IO. */
LK_MUST_CHECK lk_rc lk_fail_errno(lk_err *err, int error_number, const char *doing, const char *path);

LK_MUST_CHECK lk_rc lk_file_read(
    const char *path, size_t size_max, lk_buf *out, lk_err *err); /* LK_E_LIMIT above */
/* A file that holds secrets, checked before it is read: a regular file, this user's alone (no mode bits of group and
 * others), reached by a symbolic link only with follow_link. LK_E_INVALID_CONFIG says what is wrong with it. */
LK_MUST_CHECK lk_rc lk_file_read_secret(
    const char *path, bool follow_link, size_t size_max, lk_buf *out, lk_err *err);
/* Appends the rest of an open file to out. */
LK_MUST_CHECK lk_rc lk_file_read_all(int fd, const char *path, size_t size_max, lk_buf *out, lk_err *err);
/* All of bytes to an open file, from its present position. */
LK_MUST_CHECK lk_rc lk_file_write_all(int fd, const char *path, lk_bytes bytes, lk_err *err);
/* Temp file beside it, write, fsync, rename, fsync the directory. */
LK_MUST_CHECK lk_rc lk_file_replace(const char *path, lk_bytes bytes, unsigned mode, lk_err *err);
/* And its parents. The name of each that was made, and of path even when it existed, is synced. */
LK_MUST_CHECK lk_rc lk_directory_make(const char *path, unsigned mode, lk_err *err);
/* The same without a sync. */
LK_MUST_CHECK lk_rc lk_directory_make_volatile(const char *path, unsigned mode, lk_err *err);
LK_MUST_CHECK lk_rc lk_directory_sync(const char *path, lk_err *err);
/* Lets this process open as many files as it is allowed to, and tells how many that are. */
size_t lk_file_limit_raise(void);
/* With all in it; absent is LK_OK; no symbolic link is followed. */
LK_MUST_CHECK lk_rc lk_directory_remove(const char *path, lk_err *err);

#endif
