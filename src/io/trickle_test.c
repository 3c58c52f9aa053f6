/*
 * trickle_test.c - in which steps a large file goes to the disk, and what becomes of errors that it tells meanwhile.
 * sync_file_range is defined here, before the C library's, to watch and to fail.
 */
#include "io/trickle.h"

#include "base/file.h"
#include "io/local.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { CALLS_MAX = 256, STEP = 64 * 1024, SIZE = 5 * STEP + 1234 };

static struct {
    off_t    offset, size;
    unsigned how;
} calls[CALLS_MAX];
static size_t call_count;
static int    fails_at = -1, fails_with;

int sync_file_range(int fd, off_t offset, off_t size, unsigned how)
{
    (void)fd;
    assert_true(call_count < CALLS_MAX);
    calls[call_count].offset = offset;
    calls[call_count].size = size;
    calls[call_count].how = how;
    if ((int)call_count++ == fails_at) {
        errno = fails_with;
        return -1;
    }
    return 0;
}

static char root[64];

static int set_up(void **state)
{
    (void)snprintf(root, sizeof root, "%s/lake-trickle-XXXXXX", P_tmpdir);
    call_count = 0;
    fails_at = -1;
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    lk_err err = {0};
    return lk_directory_remove(root, &err) == LK_OK ? 0 : -1;
}

static char *pattern(void)
{
    char *bytes = malloc(SIZE);
    assert_non_null(bytes);
    for (size_t i = 0; i < SIZE; i++) {
        bytes[i] = (char)(i * 7 + i / 251);
    }
    return bytes;
}

/* In pieces of `piece` bytes. */
static lk_rc write_all(int fd, const char *bytes, size_t piece, lk_err *err)
{
    lk_trickle t = {0};
    lk_rc      rc = LK_OK;
    for (size_t at = 0; rc == LK_OK && at < SIZE; at += piece) {
        size_t size = SIZE - at < piece ? SIZE - at : piece;
        rc = lk_trickle_write(&t, fd, "a file", (lk_bytes){bytes + at, size}, err);
    }
    return rc;
}

static int open_file(void)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/f", root);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void every_step_is_sent_once_and_the_one_before_it_awaited(void **state)
{
    static const size_t pieces[] = {1000, STEP - 1, STEP, 3 * STEP + 5, SIZE};
    char               *bytes = pattern(), *read = malloc(SIZE);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        lk_err err = {0};
        int    fd = open_file();
        off_t  sent = 0, awaited = 0;
        call_count = 0;
        assert_int_equal(write_all(fd, bytes, pieces[i], &err), LK_OK);
        for (size_t call = 0; call < call_count; call++) {
            bool waits = (calls[call].how & SYNC_FILE_RANGE_WAIT_AFTER) != 0;
            assert_int_equal(calls[call].size, STEP);
            assert_int_equal(calls[call].offset, waits ? awaited : sent);
            sent += waits ? 0 : STEP;
            awaited += waits ? STEP : 0;
            assert_true(sent - awaited <= 2 * STEP);
        }
        assert_int_equal(sent, 5 * STEP);
        assert_int_equal(awaited, 4 * STEP);
        assert_int_equal(pread(fd, read, SIZE, 0), SIZE);
        assert_memory_equal(read, bytes, SIZE);
        (void)close(fd);
    }
    free(bytes);
    free(read);
}

static void what_the_disk_says_of_a_step_fails_the_write(void **state)
{
    char *bytes = pattern();
    for (fails_at = 0; fails_at < 9; fails_at++) {
        static const int ignored[] = {EINVAL, ENOSYS, ESPIPE}; /* the file system cannot */
        lk_err           err = {0};
        int              fd = open_file();
        call_count = 0;
        fails_with = EIO;
        assert_int_equal(write_all(fd, bytes, 100000, &err), LK_E_IO);
        for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
            err = (lk_err){0};
            call_count = 0;
            fails_with = ignored[i];
            assert_int_equal(write_all(fd, bytes, 100000, &err), LK_OK);
        }
        (void)close(fd);
    }
    free(bytes);
}

static void a_store_that_trickles_puts_whole_objects_or_none(void **state)
{
    lk_err    err = {0};
    lk_store *store = NULL;
    char     *bytes = pattern();
    bool      created = false;
    assert_int_equal(lk_local_store_open(&store, lk_bytes_of(root), true, &err), LK_OK);
    lk_local_store_trickle(store);
    fails_at = 3;
    fails_with = EIO;
    assert_int_equal(
        lk_store_put_if_absent(store, LK_LITERAL("o"), (lk_bytes){bytes, SIZE}, &created, &err), LK_E_IO);
    lk_arena        arena = {0};
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    err = (lk_err){0};
    assert_int_equal(lk_store_list(store, (lk_bytes){0}, &arena, &entries, &count, &err), LK_OK);
    assert_int_equal(count, 0);
    fails_at = -1;
    assert_int_equal(
        lk_store_put_if_absent(store, LK_LITERAL("o"), (lk_bytes){bytes, SIZE}, &created, &err), LK_OK);
    assert_true(created);
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    char            *read = malloc(SIZE);
    assert_int_equal(lk_store_open_object(store, LK_LITERAL("o"), &reader, &size, &err), LK_OK);
    assert_int_equal(size, SIZE);
    const lk_store_range all = {.size = SIZE, .out = read};
    assert_int_equal(lk_store_read(reader, &all, 1, &err), LK_OK);
    assert_memory_equal(read, bytes, SIZE);
    lk_store_reader_close(reader);
    lk_arena_close(&arena);
    lk_store_close(store);
    free(read);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            every_step_is_sent_once_and_the_one_before_it_awaited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_disk_says_of_a_step_fails_the_write, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_store_that_trickles_puts_whole_objects_or_none, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("trickle", tests, NULL, NULL);
}
