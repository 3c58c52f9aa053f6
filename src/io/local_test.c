/*
 * local_test.c - what only a local directory does: what is synced and when, full and forbidden disks,
 * what is left behind. fsync and fdatasync are defined here, before the C library's, to watch and to fail.
 */
#include "io/local.h"

#include "base/file.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SYNCS_MAX = 64 };

static char   root[64];
static char   synced[SYNCS_MAX][128]; /* paths in the order of their syncs */
static bool   final_existed[SYNCS_MAX];
static size_t sync_count;
static int    sync_fails_at = -1; /* this one fails */
static char   final_path[128];

static int note_sync(int fd)
{
    char link[64];
    assert_true(sync_count < SYNCS_MAX);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, synced[sync_count], sizeof synced[0] - 1);
    synced[sync_count][size < 0 ? 0 : size] = '\0';
    final_existed[sync_count] = final_path[0] != '\0' && access(final_path, F_OK) == 0;
    if ((int)sync_count++ == sync_fails_at) {
        errno = EIO;
        return -1;
    }
    return 0;
}

int fsync(int fd)
{
    return note_sync(fd);
}

int fdatasync(int fd)
{
    return note_sync(fd);
}

static bool was_synced(const char *name, size_t *when)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s%s", root, name);
    for (size_t i = 0; i < sync_count; i++) {
        if (strcmp(synced[i], path) == 0) {
            *when = i;
            return true;
        }
    }
    return false;
}

static int set_up(void **state)
{
    (void)snprintf(root, sizeof root, "/tmp/lk-local-XXXXXX");
    sync_count = 0;
    sync_fails_at = -1;
    final_path[0] = '\0';
    return mkdtemp(root) == NULL;
}

static int tear_down(void **state)
{
    lk_err err = {0};
    return lk_directory_remove(root, &err) != LK_OK;
}

static lk_store *open_store(bool durable)
{
    lk_err    err = {0};
    lk_store *store = NULL;
    char      path[80];
    (void)snprintf(path, sizeof path, "%s/root", root);
    assert_int_equal(lk_local_store_open(&store, lk_bytes_of(path), durable, &err), LK_OK);
    assert_true(lk_bytes_equal(store->uri, lk_bytes_of(path)));
    return store;
}

static lk_rc put(lk_store *store, const char *key, lk_err *err)
{
    bool created = false;
    (void)snprintf(final_path, sizeof final_path, "%s/root/%s", root, key);
    lk_rc rc = lk_store_put_if_absent(store, lk_bytes_of(key), LK_LITERAL("bytes"), &created, err);
    assert_int_equal(rc == LK_OK, created);
    return rc;
}

static void bytes_are_synced_before_the_name_and_the_name_before_the_answer(void **state)
{
    lk_err    err = {0};
    size_t    above = 0;
    lk_store *store = open_store(true);
    assert_int_equal(put(store, "ns/t/f", &err), LK_OK);
    size_t last = sync_count - 1;
    assert_string_equal(synced[last] + strlen(root), "/root/ns/t");
    assert_true(final_existed[last]); /* the directory, once the name is in it */
    bool bytes_first = false;
    for (size_t i = 0; i < last; i++) {
        bytes_first = bytes_first || (strstr(synced[i], ".tmp-") != NULL && !final_existed[i]);
    }
    assert_true(bytes_first);
    static const char *const parents[] = {"/root/ns", "/root", ""};
    for (size_t i = 0; i < 3; i++) { /* every directory that was made has its name in a synced parent */
        assert_true(was_synced(parents[i], &above));
        assert_true(above < last);
    }
    lk_store_close(store);
}

static void parents_are_synced_once_and_again_after_a_removal(void **state)
{
    lk_err    err = {0};
    size_t    when = 0;
    lk_store *store = open_store(true);
    assert_int_equal(put(store, "ns/t/a", &err), LK_OK);
    sync_count = 0;
    assert_int_equal(put(store, "ns/t/b", &err), LK_OK);
    assert_int_equal(sync_count, 2); /* the bytes and the directory */
    assert_false(was_synced("/root/ns", &when));
    assert_int_equal(lk_store_remove_tree(store, LK_LITERAL("ns/t"), &err), LK_OK);
    sync_count = 0;
    assert_int_equal(put(store, "ns/t/a", &err), LK_OK);
    assert_true(was_synced("/root/ns", &when));
    lk_store_close(store);

    sync_count = 0; /* a new process: what an earlier one made may not be on disk */
    store = open_store(true);
    assert_int_equal(put(store, "ns/t/c", &err), LK_OK);
    assert_true(was_synced("/root/ns", &when));
    lk_store_close(store);
}

static void the_loser_of_a_race_syncs_what_it_will_rely_on(void **state)
{
    lk_err    err = {0};
    bool      created = true;
    size_t    when = 0;
    lk_store *store = open_store(true);
    assert_int_equal(put(store, "d/f", &err), LK_OK);
    sync_count = 0;
    assert_int_equal(
        lk_store_put_if_absent(store, LK_LITERAL("d/f"), LK_LITERAL("x"), &created, &err), LK_OK);
    assert_false(created);
    assert_true(was_synced("/root/d", &when));
    lk_store_close(store);
}

static void an_undurable_store_syncs_nothing(void **state)
{
    lk_err    err = {0};
    lk_store *store = open_store(false);
    assert_int_equal(put(store, "ns/t/f", &err), LK_OK);
    assert_int_equal(sync_count, 0);
    lk_store_close(store);
}

static size_t entries_of(lk_store *store, const char *directory)
{
    lk_err          err = {0};
    lk_arena        arena = {0};
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    assert_int_equal(lk_store_list(store, lk_bytes_of(directory), &arena, &entries, &count, &err), LK_OK);
    lk_arena_close(&arena);
    return count;
}

static void any_failed_sync_fails_the_put_and_leaves_nothing(void **state)
{
    lk_store *store = open_store(true);
    bool      failed = true;
    for (int n = 0; failed; n++) {
        lk_err err = {0};
        char   key[32];
        (void)snprintf(key, sizeof key, "d%d/f", n);
        sync_count = 0;
        sync_fails_at = n;
        lk_rc rc = put(store, key, &err);
        failed = (int)sync_count > n;
        assert_int_equal(rc, failed ? LK_E_IO : LK_OK);
        key[strlen(key) - 2] = '\0';
        assert_int_equal(entries_of(store, key), failed ? 0 : 1);
        if (err.maybe_applied) { /* only the last: the name had been given */
            assert_int_equal(n, sync_count - 1);
        }
        assert_in_range(n, 0, 8); /* it ends */
    }
    lk_store_close(store);
}

static int mount_small_disk(void)
{
    return unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
           mount("small", root, "tmpfs", 0, "size=256k") != 0;
}

/* In a child, because it changes what is mounted or who we are. 77: this system does not let us. */
static int in_child(int (*run)(void))
{
    pid_t child = fork();
    if (child == 0) {
        _exit(run());
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int fill_the_disk(void)
{
    if (mount_small_disk() != 0) {
        return 77;
    }
    lk_err    err = {0};
    bool      created = false;
    lk_store *store = open_store(true);
    lk_buf    big = {0};
    lk_buf_append_zeros(&big, 1024 * 1024);
    bool good = put(store, "d/before", &err) == LK_OK;
    good = good && lk_store_put_if_absent(store, LK_LITERAL("d/big"), lk_buf_view(&big), &created, &err) ==
                       LK_E_STORE_FULL;
    lk_store_writer *writer = NULL;
    good = good && lk_store_create(store, LK_LITERAL("d/big"), &writer, &err) == LK_OK;
    good = good && lk_store_write(writer, big.data, big.size, &err) == LK_E_STORE_FULL;
    good = good && lk_store_finish(writer, &err) == LK_E_IO; /* bytes are missing: it cannot succeed */
    good = good && entries_of(store, "d") == 1 && put(store, "d/after", &err) == LK_OK;
    lk_buf_deinit(&big);
    lk_store_close(store);
    return good ? 0 : 1;
}

static void a_full_disk_is_told_loses_nothing_and_heals(void **state)
{
    int result = in_child(fill_the_disk);
    if (result == 77) {
        skip();
    }
    assert_int_equal(result, 0);
}

static int write_as_nobody(void)
{
    lk_err    err = {0};
    lk_store *store = open_store(true);
    if (chmod(root, 0555) != 0 || setuid(65534) != 0) {
        return 77;
    }
    bool told = put(store, "d/f", &err) == LK_E_IO && strcmp(err.detail, "Permission denied") == 0;
    lk_store_close(store);
    return told ? 0 : 1;
}

static void a_forbidden_directory_is_told(void **state)
{
    int result = in_child(write_as_nobody);
    if (result == 77) {
        skip();
    }
    assert_int_equal(result, 0);
}

static void a_store_needs_a_root(void **state)
{
    lk_err    err = {0};
    lk_store *store = NULL;
    assert_int_equal(lk_local_store_open(&store, LK_LITERAL(""), true, &err), LK_E_INVALID_REQUEST);
    assert_int_equal(lk_local_store_open(&store, LK_LITERAL("a\0b"), true, &err), LK_E_INVALID_REQUEST);
}

static void a_relative_root_works_too(void **state)
{
    lk_err    err = {0};
    lk_store *store = NULL;
    bool      created = false;
    char      before[256];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(root), 0);
    assert_int_equal(lk_local_store_open(&store, LK_LITERAL("r/"), true, &err), LK_OK);
    assert_int_equal(lk_store_put_if_absent(store, LK_LITERAL("f"), LK_LITERAL("x"), &created, &err), LK_OK);
    assert_true(created);
    lk_store_close(store);
    assert_int_equal(access("r/f", F_OK), 0);
    assert_int_equal(chdir(before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            bytes_are_synced_before_the_name_and_the_name_before_the_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parents_are_synced_once_and_again_after_a_removal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_loser_of_a_race_syncs_what_it_will_rely_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_undurable_store_syncs_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_failed_sync_fails_the_put_and_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_is_told_loses_nothing_and_heals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_forbidden_directory_is_told, set_up, tear_down),
        cmocka_unit_test(a_store_needs_a_root),
        cmocka_unit_test_setup_teardown(a_relative_root_works_too, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("local store", tests, NULL, NULL);
}
