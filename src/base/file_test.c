/* file_test.c - whole reads, replacing, making and removing directories, and how failures are told.
 * fsync is defined here, before the C library's, to see what is synced. */
#include "base/file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];
static char synced[8][128];
static int  sync_count;

int fsync(int fd)
{
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    assert_in_range(sync_count, 0, 7);
    ssize_t size = readlink(link, synced[sync_count], sizeof synced[0] - 1);
    synced[sync_count++][size < 0 ? 0 : size] = '\0';
    return 0;
}

static const char *at(lk_arena *arena, const char *name)
{
    return lk_arena_format(arena, "%s/%s", root, name).data;
}

static int set_up(void **state)
{
    (void)snprintf(root, sizeof root, "/tmp/lk-file-XXXXXX");
    sync_count = 0;
    return mkdtemp(root) == NULL;
}

static int tear_down(void **state)
{
    lk_err err = {0};
    return lk_directory_remove(root, &err) != LK_OK;
}

static void a_replaced_file_reads_back_whole_and_leaves_no_temporary(void **state)
{
    lk_arena    arena = {0};
    lk_err      err = {0};
    lk_buf      text = {0};
    struct stat status;
    const char *path = at(&arena, "f");
    assert_int_equal(lk_file_replace(path, LK_LITERAL("old"), 0600, &err), LK_OK);
    assert_int_equal(lk_file_replace(path, LK_LITERAL("new\0text"), 0600, &err), LK_OK);
    assert_int_equal(lk_file_read(path, 8, &text, &err), LK_OK);
    assert_true(lk_bytes_equal(lk_buf_view(&text), LK_LITERAL("new\0text")));
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(root), 0); /* so it was empty */
    lk_buf_deinit(&text);
    lk_arena_close(&arena);
}

static void a_read_beyond_the_limit_or_of_nothing_is_refused(void **state)
{
    lk_arena arena = {0};
    lk_err   err = {0};
    lk_buf   text = {0};
    assert_int_equal(lk_file_replace(at(&arena, "f"), LK_LITERAL("12345"), 0600, &err), LK_OK);
    assert_int_equal(lk_file_read(at(&arena, "f"), 4, &text, &err), LK_E_LIMIT);
    assert_int_equal(lk_file_read(at(&arena, "absent"), 4, &text, &err), LK_E_NOT_FOUND);
    assert_int_equal(lk_file_read(root, 4, &text, &err), LK_E_IO);
    assert_string_equal(err.detail, "Is a directory");
    lk_buf_deinit(&text);
    lk_arena_close(&arena);
}

static void errno_decides_the_error(void **state)
{
    lk_err err = {0};
    assert_int_equal(lk_fail_errno(&err, ENOSPC, "write", "x"), LK_E_STORE_FULL);
    assert_int_equal(lk_fail_errno(&err, EDQUOT, "write", "x"), LK_E_STORE_FULL);
    assert_int_equal(lk_fail_errno(&err, ENOENT, "open", "x"), LK_E_NOT_FOUND);
    assert_int_equal(lk_fail_errno(&err, EROFS, "open", "/secret/path"), LK_E_IO);
    assert_string_equal(err.context, "open /secret/path: Read-only file system");
    assert_string_equal(err.detail, "Read-only file system");
}

static void directories_are_made_with_their_parents(void **state)
{
    lk_arena    arena = {0};
    lk_err      err = {0};
    struct stat status;
    assert_int_equal(lk_directory_make(at(&arena, "a/b//c/"), 0700, &err), LK_OK);
    assert_int_equal(lk_directory_make(at(&arena, "a/b/c"), 0700, &err), LK_OK);
    assert_int_equal(stat(at(&arena, "a/b/c"), &status), 0);
    assert_true(S_ISDIR(status.st_mode));
    assert_int_equal(lk_file_replace(at(&arena, "a/f"), LK_LITERAL(""), 0600, &err), LK_OK);
    assert_int_equal(lk_directory_make(at(&arena, "a/f/g"), 0700, &err), LK_E_IO);
    assert_int_equal(lk_directory_make_volatile(at(&arena, "x/y"), 0700, &err), LK_OK);
    assert_int_equal(lk_directory_sync(at(&arena, "x/y"), &err), LK_OK);
    lk_arena_close(&arena);
}

static void the_name_of_a_made_directory_is_synced(void **state)
{
    lk_arena arena = {0};
    lk_err   err = {0};
    assert_int_equal(lk_directory_make(at(&arena, "a/b"), 0700, &err), LK_OK);
    assert_int_equal(sync_count, 2);
    assert_string_equal(synced[0], root);
    assert_string_equal(synced[1], at(&arena, "a"));
    assert_int_equal(lk_directory_make(at(&arena, "a/b/"), 0700, &err), LK_OK); /* its maker may have died */
    assert_int_equal(sync_count, 3);
    assert_string_equal(synced[2], at(&arena, "a"));
    assert_int_equal(lk_directory_make_volatile(at(&arena, "c/d"), 0700, &err), LK_OK);
    assert_int_equal(sync_count, 3);
    lk_arena_close(&arena);
}

static void a_file_is_replaced_durably(void **state)
{
    lk_arena arena = {0};
    lk_err   err = {0};
    assert_int_equal(lk_file_replace(at(&arena, "f"), LK_LITERAL("x"), 0600, &err), LK_OK);
    assert_int_equal(sync_count, 2);
    assert_non_null(strstr(synced[0], "/f.tmp-")); /* the bytes, before they have the name */
    assert_string_equal(synced[1], root);
    lk_arena_close(&arena);
}

static void removing_a_tree_does_not_follow_links(void **state)
{
    lk_arena arena = {0};
    lk_err   err = {0};
    lk_buf   text = {0};
    assert_int_equal(lk_directory_make(at(&arena, "outside"), 0700, &err), LK_OK);
    assert_int_equal(lk_file_replace(at(&arena, "outside/kept"), LK_LITERAL("k"), 0600, &err), LK_OK);
    assert_int_equal(lk_directory_make(at(&arena, "tree/deep/er"), 0700, &err), LK_OK);
    assert_int_equal(lk_file_replace(at(&arena, "tree/deep/f"), LK_LITERAL("f"), 0600, &err), LK_OK);
    assert_int_equal(symlink(at(&arena, "outside"), at(&arena, "tree/deep/link")), 0);
    assert_int_equal(lk_directory_remove(at(&arena, "tree"), &err), LK_OK);
    assert_int_equal(access(at(&arena, "tree"), F_OK), -1);
    assert_int_equal(lk_file_read(at(&arena, "outside/kept"), 1, &text, &err), LK_OK);
    assert_int_equal(lk_directory_remove(at(&arena, "tree"), &err), LK_OK); /* absent */
    assert_int_equal(symlink(at(&arena, "outside"), at(&arena, "top")), 0);
    assert_int_equal(lk_directory_remove(at(&arena, "top"), &err), LK_E_IO);
    lk_buf_deinit(&text);
    lk_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_replaced_file_reads_back_whole_and_leaves_no_temporary, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_read_beyond_the_limit_or_of_nothing_is_refused, set_up, tear_down),
        cmocka_unit_test(errno_decides_the_error),
        cmocka_unit_test_setup_teardown(directories_are_made_with_their_parents, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_name_of_a_made_directory_is_synced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_is_replaced_durably, set_up, tear_down),
        cmocka_unit_test_setup_teardown(removing_a_tree_does_not_follow_links, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
