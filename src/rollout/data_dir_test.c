/*
 * data_dir_test.c - by which way files of a store go to the disk: sync_file_range is defined here, before the C library's, to
 * count its calls.
 */
#include "rollout/data_dir.h"

#include "base/file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static unsigned waits, sends; /* calls that wait for the disk; that only begin */

int sync_file_range(int fd, off_t offset, off_t size, unsigned how)
{
    (void)fd;
    (void)offset;
    (void)size;
    bool wait = (how & SYNC_FILE_RANGE_WAIT_AFTER) != 0;
    waits += wait;
    sends += !wait;
    return 0;
}

static char root[64];

static int set_up(void **state)
{
    (void)snprintf(root, sizeof root, "%s/lake-data-dir-XXXXXX", P_tmpdir);
    waits = sends = 0;
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    lk_err err = {0};
    return lk_directory_remove(root, &err) == LK_OK ? 0 : -1;
}

enum { SIZE = 4 * 1024 * 1024 };

static void put(lk_store *store, const char *key, lk_err *err)
{
    char *bytes = calloc(1, SIZE);
    bool  created = false;
    assert_int_equal(
        lk_store_put_if_absent(store, lk_bytes_of(key), (lk_bytes){bytes, SIZE}, &created, err), LK_OK);
    assert_true(created);
    free(bytes);
}

static lk_data_dir *open_place(bool durable, lk_data_place *place)
{
    lk_err       err = {0};
    lk_data_dir *dir = NULL;
    assert_int_equal(lk_data_dir_open(&dir, lk_bytes_of(root), NULL, durable, &err), LK_OK);
    assert_int_equal(lk_data_dir_place(dir, LK_LITERAL("s"), place, &err), LK_OK);
    return dir;
}

/* What merges in the background write trickles: its sync at the end would be a second in which nobody else's ends. */
static void a_stores_own_files_trickle_and_those_of_adds_are_sent(void **state)
{
    lk_err        err = {0};
    lk_data_place place;
    lk_data_dir  *dir = open_place(true, &place);
    put(place.store, "data/merged", &err);
    assert_true(waits > SIZE / (1024 * 1024));
    waits = sends = 0;
    put(place.late, "data/added", &err);
    put(place.merge_late, "data/inline", &err);
    assert_int_equal(waits, 0);
    assert_true(sends >= 2);
    assert_int_equal(lk_store_sync(place.late, &err), LK_OK);
    assert_int_equal(lk_store_sync(place.merge_late, &err), LK_OK);
    lk_data_place_close(&place);
    lk_data_dir_close(dir);
}

/* Where durability was switched off by name nothing is sent to the disk. */
static void nothing_is_sent_without_durability(void **state)
{
    lk_err        err = {0};
    lk_data_place place;
    lk_data_dir  *dir = open_place(false, &place);
    put(place.store, "data/merged", &err);
    put(place.late, "data/added", &err);
    assert_int_equal(waits + sends, 0);
    lk_data_place_close(&place);
    lk_data_dir_close(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_stores_own_files_trickle_and_those_of_adds_are_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_sent_without_durability, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("data_dir", tests, NULL, NULL);
}
