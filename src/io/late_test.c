/*
 * late_test.c - a store that syncs late: everything written is synced by the time lk_store_sync returns,
 * with and without helpers, and a failure reaches the caller (LK_TSAN). fsync and fdatasync are defined
 * here, before the C library's.
 */
#include "base/file.h"
#include "io/late.h"
#include "io/local.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static atomic_bool held; /* file syncs wait */
static atomic_int  file_syncs, directory_syncs,
    fails_at; /* fails_at: counts down to the file sync that fails */

int fsync(int fd)
{
    (void)fd;
    atomic_fetch_add(&directory_syncs, 1);
    return 0;
}

int fdatasync(int fd)
{
    (void)fd;
    atomic_fetch_add(&file_syncs, 1);
    while (atomic_load(&held)) {
        usleep(100);
    }
    if (atomic_fetch_sub(&fails_at, 1) == 1) {
        errno = EIO;
        return -1;
    }
    return 0;
}

typedef struct fixture {
    char      root[64];
    lk_pool  *pool;
    lk_store *store;
    lk_err    err;
} fixture;

static fixture *open_fixture(bool helpers)
{
    fixture *f = calloc(1, sizeof *f);
    snprintf(f->root, sizeof f->root, "/tmp/lake-late-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    if (helpers) {
        assert_int_equal(lk_pool_open(&f->pool, "sync", 4, 2, &f->err), LK_OK); /* a queue that overflows */
    }
    assert_int_equal(lk_local_store_open_late(&f->store, lk_bytes_of(f->root), f->pool, &f->err), LK_OK);
    return f;
}

static void close_fixture(fixture *f)
{
    lk_err err = {0};
    lk_store_close(f->store);
    lk_pool_close(f->pool);
    assert_int_equal(lk_directory_remove(f->root, &err), LK_OK);
    free(f);
}

static void put(fixture *f, const char *key)
{
    bool created = false;
    assert_int_equal(
        lk_store_put_if_absent(f->store, lk_bytes_of(key), LK_LITERAL("x"), &created, &f->err), LK_OK);
    assert_true(created);
}

static void reset(int fails)
{
    atomic_store(&file_syncs, 0);
    atomic_store(&directory_syncs, 0);
    atomic_store(&fails_at, fails);
}

static void nothing_is_synced_before_the_sync_and_everything_by_it(void **state)
{
    (void)state;
    for (int helpers = 0; helpers < 2; helpers++) {
        fixture *f = open_fixture(helpers == 1);
        put(f, "a/1");
        put(f, "b/1");
        assert_int_equal(lk_store_sync(f->store, &f->err), LK_OK); /* new directories were synced by now */
        reset(0);
        put(f, "a/2");
        put(f, "b/2");
        put(f, "a/3");
        assert_int_equal(file_syncs + directory_syncs, 0);
        assert_int_equal(lk_store_sync(f->store, &f->err), LK_OK);
        assert_int_equal(file_syncs, 3);
        assert_int_equal(directory_syncs, 2);
        assert_int_equal(lk_store_sync(f->store, &f->err), LK_OK); /* nothing left */
        assert_int_equal(file_syncs, 3);
        close_fixture(f);
    }
}

static void more_files_than_may_wait_are_synced_on_the_way(void **state)
{
    (void)state;
    char     key[16];
    fixture *f = open_fixture(true);
    reset(0);
    for (int i = 0; i < LK_LATE_FILES_MAX + 10; i++) {
        snprintf(key, sizeof key, "a/%d", i);
        put(f, key);
    }
    assert_in_range(file_syncs, LK_LATE_FILES_MAX - 3, LK_LATE_FILES_MAX); /* directories wait, too */
    assert_int_equal(lk_store_sync(f->store, &f->err), LK_OK);
    assert_int_equal(file_syncs, LK_LATE_FILES_MAX + 10);
    close_fixture(f);
}

static void a_sync_that_fails_is_told_and_not_repeated(void **state)
{
    (void)state;
    fixture *f = open_fixture(true);
    put(f, "a/1");
    put(f, "a/2");
    put(f, "a/3");
    reset(2);
    assert_int_equal(lk_store_sync(f->store, &f->err), LK_E_IO);
    f->err = (lk_err){0};
    assert_int_equal(lk_store_sync(f->store, &f->err), LK_OK);
    close_fixture(f);
}

static void a_directory_that_is_removed_waits_for_nothing(void **state)
{
    (void)state;
    char     path[128];
    fixture *f = open_fixture(true);
    put(f, "a/one/x");
    put(f, "a/one/deep/y");
    put(f, "a/onetwo/z");
    reset(0);
    assert_int_equal(lk_store_remove_tree(f->store, LK_LITERAL("a/one"), &f->err), LK_OK);
    assert_int_equal(lk_store_sync(f->store, &f->err), LK_OK); /* of what is left */
    assert_int_equal(atomic_load(&file_syncs), 1);
    put(f, "a/one/again");
    assert_int_equal(lk_store_sync(f->store, &f->err), LK_OK);
    assert_int_equal(atomic_load(&file_syncs), 2);
    put(f, "a/one/more");
    snprintf(path, sizeof path, "%s/a/one", f->root);
    assert_int_equal(lk_directory_remove(path, &f->err), LK_OK); /* by somebody else */
    assert_int_equal(lk_store_sync(f->store, &f->err), LK_E_IO);
    close_fixture(f);
}

static void a_second_name_is_given_once_and_its_directory_waits_for_the_sync(void **state)
{
    (void)state;
    bool     created = false;
    fixture *f = open_fixture(false);
    put(f, "a/1");
    put(f, "b/1");
    assert_int_equal(lk_store_sync(f->store, &f->err), LK_OK);
    reset(0);
    assert_int_equal(lk_store_name_again(
                         f->store, LK_LITERAL("a/1"), LK_LITERAL("b/2"), LK_LITERAL("x"), &created, &f->err),
        LK_OK);
    assert_true(created);
    assert_int_equal(lk_store_name_again(
                         f->store, LK_LITERAL("a/1"), LK_LITERAL("b/2"), LK_LITERAL("x"), &created, &f->err),
        LK_OK);
    assert_false(created);
    assert_int_equal(lk_store_sync(f->store, &f->err), LK_OK);
    assert_int_equal(file_syncs, 0);
    assert_int_equal(directory_syncs, 1);
    assert_int_equal(lk_store_name_again(f->store, LK_LITERAL("a/none"), LK_LITERAL("b/3"), LK_LITERAL("x"),
                         &created, &f->err),
        LK_E_NOT_FOUND);
    close_fixture(f);
}

/* Whoever returns from a sync may rely on what it wrote, also when another's sync took its files. */
typedef struct writer {
    fixture *f;
    int      number;
    lk_rc    rc;
} writer;

static void write_and_sync(void *context)
{
    writer *w = context;
    char    key[16];
    lk_err  err = {0};
    bool    created = false;
    for (int i = 0; w->rc == LK_OK && i < 20; i++) {
        snprintf(key, sizeof key, "a/%d-%d", w->number, i);
        w->rc = lk_store_put_if_absent(w->f->store, lk_bytes_of(key), LK_LITERAL("x"), &created, &err);
        w->rc = w->rc == LK_OK ? lk_store_sync(w->f->store, &err) : w->rc;
    }
}

static void many_writers_may_share_a_store(void **state)
{
    (void)state;
    fixture  *f = open_fixture(true);
    writer    writers[4];
    lk_thread threads[4];
    reset(0);
    for (int i = 0; i < 4; i++) {
        writers[i] = (writer){f, i, LK_OK};
        assert_int_equal(lk_thread_start(&threads[i], "w", write_and_sync, &writers[i], &f->err), LK_OK);
    }
    for (int i = 0; i < 4; i++) {
        lk_thread_join(&threads[i]);
        assert_int_equal(writers[i].rc, LK_OK);
    }
    assert_int_equal(file_syncs, 80);
    close_fixture(f);
}

typedef struct sync_call {
    fixture    *f;
    atomic_bool begun;
    lk_rc       rc;
} sync_call;

static void sync_store(void *context)
{
    sync_call *call = context;
    lk_err     err = {0};
    atomic_store(&call->begun, true);
    call->rc = lk_store_sync(call->f->store, &err);
}

/* The second call comes while the first one's turn runs, with files of both: within so many tries it does. */
static void who_waited_for_a_sync_that_fails_hears_of_it(void **state)
{
    enum { TRIES_MAX = 200 };
    (void)state;
    fixture *f = open_fixture(true);
    bool     heard = false;
    for (int try = 0; try < TRIES_MAX && !heard; try++) {
        sync_call calls[2] = {{.f = f}, {.f = f}};
        lk_thread threads[2];
        char      key[16];
        snprintf(key, sizeof key, "a/%d", try);
        put(f, key);
        reset(1);
        atomic_store(&held, true);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(lk_thread_start(&threads[i], "s", sync_store, &calls[i], &f->err), LK_OK);
            while (!atomic_load(&calls[i].begun) || atomic_load(&file_syncs) == 0) {
                usleep(100);
            }
        }
        usleep(1000);
        atomic_store(&held, false);
        for (int i = 0; i < 2; i++) {
            lk_thread_join(&threads[i]);
        }
        assert_int_equal(calls[0].rc, LK_E_IO);
        heard = calls[1].rc == LK_E_IO;
    }
    assert_true(heard);
    close_fixture(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_synced_before_the_sync_and_everything_by_it),
        cmocka_unit_test(more_files_than_may_wait_are_synced_on_the_way),
        cmocka_unit_test(a_sync_that_fails_is_told_and_not_repeated),
        cmocka_unit_test(a_directory_that_is_removed_waits_for_nothing),
        cmocka_unit_test(a_second_name_is_given_once_and_its_directory_waits_for_the_sync),
        cmocka_unit_test(many_writers_may_share_a_store),
        cmocka_unit_test(who_waited_for_a_sync_that_fails_hears_of_it),
    };
    return cmocka_run_group_tests_name("late", tests, NULL, NULL);
}
