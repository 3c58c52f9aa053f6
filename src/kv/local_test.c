/*
 * local_test.c - what only the durable body does: survive kill -9 and failed syncs, own its directory,
 * refuse damage, and heal after a full disk. fdatasync is defined here, before the C library's, to count
 * and to fail. Other processes are this program again, with a role as its first argument.
 */
#include "kv/local.h"

#include "base/file.h"
#include "base/rand.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { NOT_ALLOWED = 77, LAST_ROUND = 6 };

static char       root[64];
static atomic_int syncs, sync_failures_left;

int fdatasync(int fd)
{
    atomic_fetch_add(&syncs, 1);
    if (atomic_load(&sync_failures_left) > 0) {
        atomic_fetch_sub(&sync_failures_left, 1);
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

static int set_up(void **state)
{
    (void)snprintf(root, sizeof root, "/tmp/lk-kv-local-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int tear_down(void **state)
{
    lk_err err = {0};
    return lk_directory_remove(root, &err) != LK_OK;
}

static lk_kv *open_kv(void)
{
    lk_err err = {0};
    lk_kv *kv = NULL;
    if (lk_kv_local_open(&kv, root, true, &err) != LK_OK) {
        print_error("%s\n", err.context);
    }
    return kv;
}

static lk_rc put(lk_kv *kv, const char *key, const char *value, lk_err *err)
{
    lk_bytes     to = lk_bytes_of(value);
    lk_kv_change change = {.key = lk_bytes_of(key), .value = &to, .any = true};
    lk_kv_write  write = {.changes = &change, .change_count = 1};
    bool         applied = false;
    lk_rc        rc = lk_kv_put(kv, &write, &applied, err);
    return rc == LK_OK && !applied ? LK_E_INTERNAL : rc;
}

static bool has(lk_kv *kv, const char *key, const char *value)
{
    lk_err   err = {0};
    lk_arena arena = {0};
    lk_bytes present = {0};
    bool     found = false;
    lk_rc    rc = lk_kv_get(kv, lk_bytes_of(key), &arena, &present, &found, &err);
    bool     same = rc == LK_OK && found && lk_bytes_equal(present, lk_bytes_of(value));
    lk_arena_close(&arena);
    return same;
}

/* This program in a role, with its output at *out when that is not NULL. */
static pid_t start(const char *role, int *out)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)execl("/proc/self/exe", "kv-local", role, root, (char *)NULL);
        _exit(99);
    }
    (void)close(ends[1]);
    if (out == NULL) {
        (void)close(ends[0]);
    } else {
        *out = ends[0];
    }
    return child;
}

static int result_of(const char *role)
{
    int status = 0;
    assert_int_equal(waitpid(start(role, NULL), &status, 0) > 0, 1);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void what_was_written_is_there_after_reopening(void **state)
{
    lk_err err = {0};
    lk_kv *kv = open_kv();
    assert_int_equal(put(kv, "a/1", "one", &err), LK_OK);
    assert_int_equal(put(kv, "a/2", "two", &err), LK_OK);
    lk_kv_close(kv);
    kv = open_kv();
    assert_true(has(kv, "a/1", "one"));
    assert_true(has(kv, "a/2", "two"));
    lk_kv_close(kv);
    lk_kv_close(NULL);
}

static void each_write_is_synced_unless_that_was_given_up(void **state)
{
    lk_err err = {0};
    lk_kv *kv = open_kv();
    for (int i = 0; i < 3; i++) {
        int before = atomic_load(&syncs);
        assert_int_equal(put(kv, "k", "v", &err), LK_OK);
        assert_true(atomic_load(&syncs) > before);
    }
    lk_kv_close(kv);
    assert_int_equal(lk_kv_local_open(&kv, root, false, &err), LK_OK);
    int before = atomic_load(&syncs);
    assert_int_equal(put(kv, "k", "w", &err), LK_OK);
    assert_int_equal(atomic_load(&syncs), before);
    lk_kv_close(kv);
}

static void one_process_owns_the_directory(void **state)
{
    lk_err err = {0};
    lk_kv *kv = open_kv(), *second = NULL;
    assert_int_equal(lk_kv_local_open(&second, root, true, &err), LK_E_LOCKED);
    assert_null(second);
    assert_int_equal(result_of("open"), LK_E_LOCKED);
    assert_int_equal(put(kv, "k", "v", &err), LK_OK);
    lk_kv_close(kv);
    assert_int_equal(result_of("open"), LK_OK);
}

/* Role: appends k<n> and last = n in one step, then says n. */
static int write_for_ever(void)
{
    lk_arena arena = {0};
    lk_err   err = {0};
    lk_bytes last = {0};
    bool     found = false;
    lk_kv   *kv = open_kv();
    if (kv == NULL || lk_kv_get(kv, LK_LITERAL("last"), &arena, &last, &found, &err) != LK_OK) {
        return 1;
    }
    for (long n = found ? strtol(last.data, NULL, 10) + 1 : 0;; n++) {
        lk_bytes     number = lk_arena_format(&arena, "%ld", n);
        lk_kv_change changes[] = {{.key = lk_arena_format(&arena, "k%ld", n), .value = &number},
            {.key = LK_LITERAL("last"), .value = &number, .any = true}};
        lk_kv_write  write = {.changes = changes, .change_count = 2};
        bool         applied = false;
        if (lk_kv_put(kv, &write, &applied, &err) != LK_OK || !applied) {
            return 1;
        }
        if (dprintf(STDOUT_FILENO, "%ld\n", n) < 0) {
            return 1;
        }
    }
}

/* The last number that a killed writer acknowledged; before + 1 at least, so it did write. */
static long write_and_kill(long before, unsigned more)
{
    int   out = -1, status = 0;
    char  line[32];
    long  acknowledged = before;
    pid_t child = start("write", &out);
    FILE *lines = fdopen(out, "r");
    for (unsigned i = 0; i <= more && fgets(line, sizeof line, lines) != NULL; i++) {
        acknowledged = strtol(line, NULL, 10);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    while (fgets(line, sizeof line, lines) != NULL && strchr(line, '\n') != NULL) {
        acknowledged = strtol(line, NULL, 10);
    }
    assert_int_equal(fclose(lines), 0);
    return acknowledged;
}

static void acknowledged_writes_survive_kill_9(void **state)
{
    lk_seeded_random random;
    long             acknowledged = -1;
    lk_seeded_random_init(&random, 7);
    for (int round = 0; round <= LAST_ROUND; round++) {
        long before = acknowledged;
        acknowledged = write_and_kill(before, (unsigned)lk_random_below(&random.base, 40));
        assert_true(acknowledged > before);
        lk_kv *kv = open_kv();
        char   key[32], number[32];
        for (long n = 0; n <= acknowledged; n++) {
            (void)snprintf(key, sizeof key, "k%ld", n);
            assert_true(has(kv, key, key + 1));
        }
        /* One more may have landed unheard; never half of it. */
        long last = acknowledged + 1;
        (void)snprintf(key, sizeof key, "k%ld", last);
        last -= has(kv, key, key + 1) ? 0 : 1;
        (void)snprintf(number, sizeof number, "%ld", last);
        assert_true(has(kv, "last", number));
        acknowledged = last;
        lk_kv_close(kv);
    }
}

static void a_failed_sync_is_a_maybe_and_the_next_write_starts_clean(void **state)
{
    lk_err err = {0};
    lk_kv *kv = open_kv();
    assert_int_equal(put(kv, "before", "1", &err), LK_OK);
    atomic_store(&sync_failures_left, 1);
    assert_int_equal(put(kv, "failed", "1", &err), LK_E_KV_UNAVAILABLE);
    assert_true(err.maybe_applied);
    assert_true(has(kv, "before", "1")); /* reads go on */
    assert_int_equal(put(kv, "after", "1", &err), LK_OK);
    bool maybe = has(kv, "failed", "1");
    lk_kv_close(kv);
    kv = open_kv();
    assert_true(has(kv, "before", "1"));
    assert_true(has(kv, "after", "1"));
    assert_int_equal(has(kv, "failed", "1"), maybe); /* what was seen after the failure stays so */
    lk_kv_close(kv);
}

static void a_disk_that_keeps_failing_keeps_being_told(void **state)
{
    lk_err err = {0};
    lk_kv *kv = open_kv();
    assert_int_equal(put(kv, "before", "1", &err), LK_OK);
    atomic_store(&sync_failures_left, 1000000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(put(kv, "k", "1", &err), LK_E_KV_UNAVAILABLE);
    }
    atomic_store(&sync_failures_left, 0);
    assert_true(has(kv, "before", "1")); /* a read opens it again, too */
    assert_int_equal(put(kv, "after", "1", &err), LK_OK);
    lk_kv_close(kv);
}

/* The newest write-ahead log of the directory. */
static lk_bytes log_path(lk_arena *arena)
{
    DIR     *directory = opendir(root);
    lk_bytes newest = {0};
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        lk_bytes name = lk_bytes_of(entry->d_name);
        bool     is_log = name.size == strlen("000004.log") && strcmp(entry->d_name + 6, ".log") == 0;
        lk_bytes path = lk_arena_format(arena, "%s/%s", root, entry->d_name);
        if (is_log && lk_bytes_compare(path, newest) > 0) {
            newest = path;
        }
    }
    assert_int_equal(closedir(directory), 0);
    assert_true(newest.size > 0);
    return newest;
}

static void write_ten(void)
{
    lk_err err = {0};
    lk_kv *kv = open_kv();
    for (int i = 0; i < 10; i++) {
        assert_int_equal(
            put(kv, (char[]){'k', (char)('0' + i), '\0'}, "a value of some length", &err), LK_OK);
    }
    lk_kv_close(kv);
}

static void damage_inside_the_log_is_refused_not_skipped(void **state)
{
    lk_arena arena = {0};
    lk_err   err = {0};
    lk_buf   bytes = {0};
    lk_kv   *kv = NULL;
    write_ten();
    lk_bytes path = log_path(&arena);
    assert_int_equal(lk_file_read(path.data, 1 << 20, &bytes, &err), LK_OK);
    bytes.data[bytes.size / 2] = (char)(bytes.data[bytes.size / 2] ^ 0x40);
    assert_int_equal(lk_file_replace(path.data, lk_buf_view(&bytes), 0600, &err), LK_OK);
    assert_int_equal(lk_kv_local_open(&kv, root, true, &err), LK_E_CORRUPT_RECORD);
    assert_null(kv);
    lk_buf_deinit(&bytes);
    lk_arena_close(&arena);
}

static void a_record_torn_at_the_end_was_never_acknowledged(void **state)
{
    lk_arena    arena = {0};
    struct stat status;
    write_ten();
    lk_bytes path = log_path(&arena);
    assert_int_equal(stat(path.data, &status), 0);
    assert_int_equal(truncate(path.data, status.st_size - 3), 0);
    lk_kv *kv = open_kv();
    assert_non_null(kv);
    assert_true(has(kv, "k8", "a value of some length"));
    assert_false(has(kv, "k9", "a value of some length"));
    lk_kv_close(kv);
    lk_arena_close(&arena);
}

static lk_rc write_file(const char *path, size_t size_max)
{
    static char zeros[64 * 1024];
    lk_err      err = {0};
    lk_rc       rc = LK_OK;
    int         fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (size_t size = 0; rc == LK_OK && size < size_max; size += sizeof zeros) {
        rc = lk_file_write_all(fd, path, (lk_bytes){zeros, sizeof zeros}, &err);
    }
    (void)close(fd);
    return rc;
}

#define CHECK(condition)                                        \
    do {                                                        \
        if (!(condition)) {                                     \
            print_error("line %d: %s\n", __LINE__, #condition); \
            return 1;                                           \
        }                                                       \
    } while (0)

/* Role: a disk of its own that fills up. Returns 0 when everything was told and nothing lost. */
static int fill_the_disk(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("small", root, "tmpfs", 0, "size=48m") != 0) {
        return NOT_ALLOWED;
    }
    char   key[16], filler[80];
    lk_err err = {0};
    int    written = 0;
    lk_kv *kv = open_kv();
    lk_buf value = {0};
    lk_buf_append_zeros(&value, 64 * 1024);
    memset(value.data, 'v', value.size);
    (void)snprintf(filler, sizeof filler, "%s/filler", root);
    CHECK(put(kv, "first", "1", &err) == LK_OK);
    CHECK(write_file(filler, 1u << 30) == LK_E_STORE_FULL);
    lk_rc rc = LK_OK;
    while (rc == LK_OK && written < 1000) {
        (void)snprintf(key, sizeof key, "k%d", written);
        rc = put(kv, key, value.data, &err);
        written += rc == LK_OK;
    }
    CHECK(rc == LK_E_STORE_FULL);
    CHECK(has(kv, "first", "1"));
    CHECK(put(kv, "second", "1", &err) == LK_E_STORE_FULL);
    CHECK(unlink(filler) == 0);
    CHECK(put(kv, "second", "1", &err) == LK_OK);
    lk_kv_close(kv);
    kv = open_kv();
    CHECK(has(kv, "first", "1") && has(kv, "second", "1"));
    for (int i = 0; i < written; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        CHECK(has(kv, key, value.data));
    }
    lk_kv_close(kv);
    lk_buf_deinit(&value);
    return 0;
}

static void a_full_disk_is_told_loses_nothing_and_heals(void **state)
{
    int result = result_of("full");
    if (result == NOT_ALLOWED) {
        skip();
    }
    assert_int_equal(result, 0);
}

/* Role: opens as somebody who may not write there. */
static int open_as_nobody(void)
{
    lk_err err = {0};
    lk_kv *kv = NULL;
    if (chmod(root, 0555) != 0 || setuid(65534) != 0) {
        return NOT_ALLOWED;
    }
    CHECK(lk_kv_local_open(&kv, root, true, &err) == LK_E_IO);
    CHECK(strcmp(err.detail, "Permission denied") == 0);
    return 0;
}

static void a_directory_that_may_not_be_written_is_told(void **state)
{
    int result = result_of("nobody");
    if (result == NOT_ALLOWED) {
        skip();
    }
    assert_int_equal(result, 0);
}

static void a_path_through_a_file_is_told(void **state)
{
    lk_err   err = {0};
    lk_arena arena = {0};
    lk_kv   *kv = NULL;
    lk_bytes file = lk_arena_format(&arena, "%s/file", root);
    assert_int_equal(lk_file_replace(file.data, LK_LITERAL("x"), 0600, &err), LK_OK);
    assert_int_equal(
        lk_kv_local_open(&kv, lk_arena_format(&arena, "%s/meta", file.data).data, true, &err), LK_E_IO);
    assert_string_equal(err.detail, "Not a directory");
    lk_arena_close(&arena);
}

static int play(const char *role)
{
    lk_err err = {0};
    lk_kv *kv = NULL;
    if (strcmp(role, "write") == 0) {
        return write_for_ever();
    }
    if (strcmp(role, "full") == 0) {
        return fill_the_disk();
    }
    if (strcmp(role, "nobody") == 0) {
        return open_as_nobody();
    }
    lk_rc rc = lk_kv_local_open(&kv, root, true, &err);
    lk_kv_close(kv);
    return (int)rc;
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        (void)snprintf(root, sizeof root, "%s", argv[2]);
        return play(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_there_after_reopening, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_write_is_synced_unless_that_was_given_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_process_owns_the_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(acknowledged_writes_survive_kill_9, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_failed_sync_is_a_maybe_and_the_next_write_starts_clean, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_disk_that_keeps_failing_keeps_being_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_inside_the_log_is_refused_not_skipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_torn_at_the_end_was_never_acknowledged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_is_told_loses_nothing_and_heals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_directory_that_may_not_be_written_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_path_through_a_file_is_told, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("local kv", tests, NULL, NULL);
}
