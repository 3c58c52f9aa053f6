/*
 * deletion_test.c - deletion files that pylance 14 wrote, bitmaps made by CRoaring, and damaged ones.
 */
#include "lance/deletion.h"

#include "lance/dataset_priv.h"
#include "lance/table_fixture.h"

#include <roaring/roaring.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lk_dataset *open_version(lk_store *store, uint64_t version)
{
    lk_lance_env env = fixture_env(store);
    lk_err       err = {0};
    lk_dataset  *dataset = NULL;
    if (lk_dataset_open(&env, version, &dataset, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    return dataset;
}

static const lk_deletion *deletion_of(lk_dataset *dataset, size_t fragment)
{
    const lk_deletion *deletion = NULL;
    lk_err             err = {0};
    if (lk_dataset_deletion(dataset, fragment, &deletion, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    return deletion;
}

/* The reference deleted "id % 10 = 3"; fragments hold ids 0..39, 40..79, 80..99, 100..149 in order. */
static void an_arrow_file_marks_the_rows_that_pylance_deleted(void **state)
{
    static const int64_t first_id[] = {0, 40, 80, 100};
    lk_store            *store = fixture_golden("lifecycle_2.1");
    lk_dataset          *dataset = open_version(store, 3);
    assert_int_equal(dataset->manifest->fragment_count, 4);
    for (size_t f = 0; f < 4; f++) {
        const lk_deletion *deletion = deletion_of(dataset, f);
        uint64_t           rows = dataset->manifest->fragments[f].physical_rows;
        uint8_t            live[64];
        memset(live, 1, sizeof live);
        assert_ptr_equal(deletion, deletion_of(dataset, f));
        assert_int_equal(lk_deletion_clear(deletion, 0, rows, live), lk_deletion_count(deletion));
        for (uint64_t i = 0; i < rows; i++) {
            assert_int_equal(live[i], (first_id[f] + (int64_t)i) % 10 != 3);
        }
    }
    lk_dataset_unref(dataset);
    lk_store_close(store);
}

/* "id % 2 = 0", then "id < 15000" of 20,000 rows in one fragment. */
static void a_bitmap_marks_the_rows_that_pylance_deleted(void **state)
{
    static uint8_t live[20000];
    lk_store      *store = fixture_golden("dense_delete");
    for (uint64_t version = 2; version <= 3; version++) {
        lk_dataset        *dataset = open_version(store, version);
        const lk_deletion *deletion = deletion_of(dataset, 0);
        memset(live, 1, sizeof live);
        assert_int_equal(dataset->manifest->fragments[0].deletion.kind, LK_DELETION_BITMAP);
        assert_int_equal(lk_deletion_clear(deletion, 0, 20000, live), version == 2 ? 10000 : 17500);
        for (size_t i = 0; i < 20000; i++) {
            assert_int_equal(live[i], i % 2 != 0 && (version == 2 || i >= 15000));
        }
        lk_dataset_unref(dataset);
    }
    lk_store_close(store);
}

static lk_buf serialize(const roaring_bitmap_t *bitmap)
{
    lk_buf out = {0};
    lk_buf_append_zeros(&out, roaring_bitmap_portable_size_in_bytes(bitmap));
    (void)roaring_bitmap_portable_serialize(bitmap, out.data);
    return out;
}

enum { ROWS = 300000 };

static roaring_bitmap_t *mixed_bitmap(void)
{
    roaring_bitmap_t *bitmap = roaring_bitmap_create();
    roaring_bitmap_add_range(bitmap, 10, 5000);     /* runs */
    roaring_bitmap_add_range(bitmap, 60000, 70000); /* over the edge of a container */
    for (uint32_t row = 131072; row < 196608; row += 2) {
        roaring_bitmap_add(bitmap, row); /* a bitset */
    }
    for (uint32_t row = 196608; row < ROWS; row += 977) {
        roaring_bitmap_add(bitmap, row); /* arrays */
    }
    return bitmap;
}

static void expect_equal(const roaring_bitmap_t *bitmap)
{
    lk_buf       file = serialize(bitmap);
    lk_deletion *deletion = NULL;
    lk_err       err = {0};
    uint64_t     count = roaring_bitmap_get_cardinality(bitmap);
    uint8_t     *live = malloc(ROWS);
    assert_non_null(live);
    memset(live, 1, ROWS);
    if (lk_deletion_parse(LK_DELETION_BITMAP, lk_buf_view(&file), ROWS, count, &deletion, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    assert_int_equal(lk_deletion_clear(deletion, 0, ROWS, live), count);
    for (uint32_t row = 0; row < ROWS; row++) {
        assert_int_equal(live[row], !roaring_bitmap_contains(bitmap, row));
    }
    static const uint64_t ranges[][2] = {
        {0, 0}, {0, 1}, {5, 64}, {63, 66}, {59990, 20000}, {299999, 1}, {64, 64}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        assert_int_equal(lk_deletion_count_range(deletion, ranges[i][0], ranges[i][1]),
            roaring_bitmap_range_cardinality(bitmap, ranges[i][0], ranges[i][0] + ranges[i][1]));
    }
    lk_deletion_close(deletion);
    lk_buf_deinit(&file);
    free(live);
}

static void every_kind_of_container_is_read(void **state)
{
    roaring_bitmap_t *bitmap = mixed_bitmap();
    expect_equal(bitmap);
    assert_true(roaring_bitmap_run_optimize(bitmap)); /* now with run containers and the other cookie */
    expect_equal(bitmap);
    roaring_bitmap_free(bitmap);
    bitmap = roaring_bitmap_from_range(100, 200, 1);
    (void)roaring_bitmap_run_optimize(bitmap); /* one container: no table of offsets */
    expect_equal(bitmap);
    roaring_bitmap_free(bitmap);
}

static lk_rc parse(lk_bytes file, uint64_t rows, uint64_t count)
{
    lk_deletion *deletion = NULL;
    lk_err       err = {0};
    lk_rc        rc = lk_deletion_parse(LK_DELETION_BITMAP, file, rows, count, &deletion, &err);
    if (rc == LK_OK) {
        lk_deletion_close(deletion);
    }
    return rc;
}

static void a_bitmap_that_contradicts_the_manifest_is_corrupt(void **state)
{
    roaring_bitmap_t *bitmap = mixed_bitmap();
    lk_buf            file = serialize(bitmap);
    uint64_t          count = roaring_bitmap_get_cardinality(bitmap);
    assert_int_equal(parse(lk_buf_view(&file), ROWS, count), LK_OK);
    assert_int_equal(parse(lk_buf_view(&file), ROWS, count - 1), LK_E_CORRUPT_FILE);
    assert_int_equal(parse(lk_buf_view(&file), 200000, count), LK_E_CORRUPT_FILE);
    lk_buf_deinit(&file);
    roaring_bitmap_free(bitmap);
}

static void a_damaged_bitmap_is_an_error_or_other_rows_but_no_crash(void **state)
{
    roaring_bitmap_t *bitmap = mixed_bitmap();
    (void)roaring_bitmap_run_optimize(bitmap);
    lk_buf   file = serialize(bitmap);
    uint64_t count = roaring_bitmap_get_cardinality(bitmap);
    for (size_t size = 0; size < file.size; size += 1 + size / 64) {
        assert_int_equal(parse((lk_bytes){file.data, size}, ROWS, count), LK_E_CORRUPT_FILE);
    }
    for (size_t i = 0; i < 512 && i < file.size; i++) {
        file.data[i] = (char)(file.data[i] ^ 0x41);
        lk_rc rc = parse(lk_buf_view(&file), ROWS, count);
        assert_true(rc == LK_OK || rc == LK_E_CORRUPT_FILE);
        file.data[i] = (char)(file.data[i] ^ 0x41);
    }
    lk_buf_deinit(&file);
    roaring_bitmap_free(bitmap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arrow_file_marks_the_rows_that_pylance_deleted),
        cmocka_unit_test(a_bitmap_marks_the_rows_that_pylance_deleted),
        cmocka_unit_test(every_kind_of_container_is_read),
        cmocka_unit_test(a_bitmap_that_contradicts_the_manifest_is_corrupt),
        cmocka_unit_test(a_damaged_bitmap_is_an_error_or_other_rows_but_no_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
