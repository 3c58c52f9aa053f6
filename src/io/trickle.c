/* trickle.c - see trickle.h. */
#include "io/trickle.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>

enum {
    STEP_BYTES =
        64 *
        1024, /* an eighth of a millisecond of a disk; four times as much was felt by those who sync meanwhile */
    LARGE_BYTES = 64 * 1024 /* below, the call takes as long as what it saves */
};
enum { SEND = SYNC_FILE_RANGE_WRITE };
enum { WAIT = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER };

/* Some file systems cannot: the sync at the end does all of it then. */
static lk_rc sync_range(int fd, const char *path, uint64_t offset, size_t size, unsigned how, lk_err *err)
{
    int failed = sync_file_range(fd, (off_t)offset, (off_t)size, how) == 0 ? 0 : errno;
    return failed == 0 || failed == EINVAL || failed == ENOSYS || failed == ESPIPE
               ? LK_OK
               : lk_fail_errno(err, failed, "write", path);
}

static lk_rc sync_step(int fd, const char *path, uint64_t offset, unsigned how, lk_err *err)
{
    return sync_range(fd, path, offset, STEP_BYTES, how, err);
}

/* The next step is sent; the one before it must have arrived. */
static lk_rc send_on(lk_trickle *t, int fd, const char *path, lk_err *err)
{
    lk_rc rc = LK_OK;
    while (rc == LK_OK && t->written - t->sent >= STEP_BYTES) {
        rc = sync_step(fd, path, t->sent, SEND, err);
        if (rc == LK_OK && t->sent >= STEP_BYTES) {
            rc = sync_step(fd, path, t->sent - STEP_BYTES, WAIT, err);
        }
        t->sent += STEP_BYTES;
    }
    return rc;
}

lk_rc lk_trickle_write(lk_trickle *t, int fd, const char *path, lk_bytes bytes, lk_err *err)
{
    lk_rc rc = LK_OK;
    while (rc == LK_OK && bytes.size > 0) {
        size_t size = bytes.size < STEP_BYTES ? bytes.size : STEP_BYTES;
        rc = lk_file_write_all(fd, path, (lk_bytes){bytes.data, size}, err);
        bytes = (lk_bytes){bytes.data + size, bytes.size - size};
        t->written += size;
        rc = rc == LK_OK ? send_on(t, fd, path, err) : rc;
    }
    return rc;
}

lk_rc lk_trickle_send(lk_trickle *t, int fd, const char *path, lk_bytes bytes, lk_err *err)
{
    lk_rc rc = lk_file_write_all(fd, path, bytes, err);
    t->written += bytes.size;
    if (rc == LK_OK && t->written - t->sent >= LARGE_BYTES) {
        rc = sync_range(fd, path, t->sent, (size_t)(t->written - t->sent), SEND, err);
        t->sent = t->written;
    }
    return rc;
}
