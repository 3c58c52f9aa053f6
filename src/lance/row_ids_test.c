/*
 * row_ids_test.c - sequences of row ids and versions: those of the reference (pylance 14: tables from which rows were
 * deleted, moved and compacted), one of every kind of segment made with the reference's own message definitions,
 * damaged ones, and new ones read again.
 */
#include "lance/row_ids.h"

#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- of the reference ------------------------------------------------------------------------------------- */

static const uint64_t ids_0[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
static const uint64_t ids_1[] = {0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22,
    23, 24, 25, 26, 27, 28, 29, 31, 32, 33, 34, 35, 36, 37, 38, 39};
static const uint64_t ids_2[] = {7, 107, 207, 307, 407, 507, 607, 707, 807, 907, 1007, 1107, 1207, 1307, 1407,
    1507, 1607, 1707, 1807, 1907, 2007, 2107, 2207, 2307, 2407, 2507, 2607, 2707, 2807, 2907};
static const uint64_t ids_3[] = {0, 2, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 23, 24, 25,
    26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52,
    53, 54, 55, 56, 57, 58, 59, 1, 3, 8, 17, 22, 40};
static const uint64_t ids_4[] = {1, 3, 8, 17, 22, 40};
static const uint64_t ids_5[] = {102, 103, 104, 106, 107, 108, 109, 110, 70000, 7, 9, 8, 400000,
    9223372036854775808U, 1099511627776U, 1, 1125899906842624U, 1125899906842625U, 1125899906842626U, 3000,
    3002, 9000};

#define BYTES(text)              \
    {                            \
        (text), sizeof(text) - 1 \
    }

static const struct known {
    const char     *kinds;
    lk_bytes        message;
    const uint64_t *ids;
    size_t          count;
} known[] = {
    {"range", BYTES("\x0a\x04\x0a\x02\x10\x14"), ids_0, sizeof ids_0 / sizeof ids_0[0]},
    {"range_with_bitmap", BYTES("\x0a\x0b\x1a\x09\x10\x28\x1a\x05\xf7\xff\xfd\xbf\xff"), ids_1,
        sizeof ids_1 / sizeof ids_1[0]},
    {"sorted_array",
        BYTES("\x0a\x44\x22\x42\x0a\x40\x08\x07\x12\x3c\x00\x00\x64\x00\xc8\x00\x2c\x01\x90\x01\xf4\x01"
              "\x58\x02\xbc\x02\x20\x03\x84\x03\xe8\x03\x4c\x04\xb0\x04\x14\x05\x78\x05\xdc\x05\x40\x06"
              "\xa4\x06\x08\x07\x6c\x07\xd0\x07\x34\x08\x98\x08\xfc\x08\x60\x09\xc4\x09\x28\x0a\x8c\x0a"
              "\xf0\x0a\x54\x0b"),
        ids_2, sizeof ids_2 / sizeof ids_2[0]},
    {"range_with_bitmap range_with_bitmap",
        BYTES("\x0a\x0e\x1a\x0c\x10\x3c\x1a\x08\xf5\xfe\xbd\xff\xff\xfe\xff\x0f\x0a\x0d\x1a\x0b\x08\x01"
              "\x10\x29\x1a\x05\x85\x00\x21\x00\x80"),
        ids_3, sizeof ids_3 / sizeof ids_3[0]},
    {"range range range range range range",
        BYTES("\x0a\x06\x0a\x04\x08\x01\x10\x02\x0a\x06\x0a\x04\x08\x03\x10\x04\x0a\x06\x0a\x04\x08\x08"
              "\x10\x09\x0a\x06\x0a\x04\x08\x11\x10\x12\x0a\x06\x0a\x04\x08\x16\x10\x17\x0a\x06\x0a\x04"
              "\x08\x28\x10\x29"),
        ids_4, sizeof ids_4 / sizeof ids_4[0]},
    {"all",
        BYTES("\x0a\x16\x12\x14\x08\x64\x10\x70\x1a\x0e\x0a\x0c\x08\x64\x12\x08\x00\x00\x01\x00\x05\x00"
              "\x0b\x00\x0a\x1c\x2a\x1a\x12\x18\x08\x07\x12\x14\x69\x11\x01\x00\x00\x00\x00\x00\x02\x00"
              "\x00\x00\x01\x00\x00\x00\x79\x1a\x06\x00\x0a\x1e\x2a\x1c\x1a\x1a\x12\x18\x00\x00\x00\x00"
              "\x00\x00\x00\x80\x00\x00\x00\x00\x00\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x0a\x14"
              "\x0a\x12\x08\x80\x80\x80\x80\x80\x80\x80\x02\x10\x83\x80\x80\x80\x80\x80\x80\x02\x0a\x06"
              "\x0a\x04\x08\x05\x10\x05\x0a\x0f\x22\x0d\x0a\x0b\x08\xb8\x17\x12\x06\x00\x00\x02\x00\x70"
              "\x17"),
        ids_5, sizeof ids_5 / sizeof ids_5[0]},
};

enum { KNOWN = sizeof known / sizeof known[0] };

static lk_row_ids must_parse(lk_bytes message, uint64_t rows, lk_arena *arena)
{
    lk_row_ids ids = {0};
    lk_err     err = {0};
    if (lk_row_ids_parse(message, rows, arena, &ids, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    assert_int_equal(ids.count, rows);
    return ids;
}

static void sequences_of_the_reference_are_read_as_it_reads_them(void **state)
{
    for (size_t i = 0; i < KNOWN; i++) {
        lk_arena   arena = {0};
        uint64_t   all[128];
        lk_row_ids ids = must_parse(known[i].message, known[i].count, &arena);
        lk_row_ids_read(&ids, 0, ids.count, all);
        assert_memory_equal(all, known[i].ids, known[i].count * sizeof *all);
        for (size_t row = 0; row < known[i].count; row++) {
            assert_int_equal(lk_row_ids_at(&ids, row), known[i].ids[row]);
        }
        lk_arena_close(&arena);
    }
}

static void any_part_of_a_sequence_is_read_as_a_part_of_the_whole(void **state)
{
    for (size_t i = 0; i < KNOWN; i++) {
        lk_arena   arena = {0};
        uint64_t   part[128];
        lk_row_ids ids = must_parse(known[i].message, known[i].count, &arena);
        for (size_t first = 0; first <= known[i].count; first++) {
            for (size_t count = 0; first + count <= known[i].count; count++) {
                lk_row_ids_read(&ids, first, count, part);
                assert_memory_equal(part, known[i].ids + first, count * sizeof *part);
            }
        }
        lk_arena_close(&arena);
    }
}

/* -- damage ----------------------------------------------------------------------------------------------- */

static void expect_damage(lk_bytes message, uint64_t rows, const char *why)
{
    lk_arena   arena = {0};
    lk_row_ids ids = {0};
    lk_err     err = {0};
    assert_int_equal(lk_row_ids_parse(message, rows, &arena, &ids, &err), LK_E_CORRUPT_FILE);
    if (strstr(err.context, why) == NULL) {
        fail_msg("'%s' is not in '%s'", why, err.context);
    }
    lk_arena_close(&arena);
}

static void sequences_that_cannot_be_are_refused(void **state)
{
    expect_damage(LK_LITERAL("\x0a\x04\x0a\x02\x10\x14"), 19, "more row ids than rows");
    expect_damage(LK_LITERAL("\x0a\x04\x0a\x02\x10\x14"), 21, "20 row ids for 21 rows");
    expect_damage(LK_LITERAL(""), 1, "0 row ids for 1 rows");
    expect_damage(LK_LITERAL("\x0a\x06\x0a\x04\x08\x05\x10\x04"), 1, "ends before it starts");
    expect_damage(LK_LITERAL("\x0a\x00"), 0, "no kind that is known");
    expect_damage(LK_LITERAL("\x0a\x02\x32\x00"), 0, "no kind that is known");
    expect_damage(LK_LITERAL("\x0a\x05\x0a\x02\x10\x14"), 20, "malformed");
    expect_damage(LK_LITERAL("\x0a\x04\x12\x02\x10\x05"), 5, "lacks its holes");
    /* holes 3, 3 and 5 of [0, 5) */
    expect_damage(
        LK_LITERAL("\x0a\x0e\x12\x0c\x10\x05\x1a\x08\x0a\x06\x12\x04\x03\x00\x03\x00"), 3, "do not");
    expect_damage(
        LK_LITERAL("\x0a\x0c\x12\x0a\x10\x05\x1a\x06\x0a\x04\x12\x02\x05\x00"), 4, "outside its range");
    expect_damage(LK_LITERAL("\x0a\x0b\x12\x09\x10\x05\x1a\x05\x0a\x03\x12\x01\x03"), 4, "cut short");
    /* a bitmap of 1 byte for 9 ids; bit 5 of a range of 5 */
    expect_damage(LK_LITERAL("\x0a\x07\x1a\x05\x10\x09\x1a\x01\xff"), 8, "size of its range");
    expect_damage(LK_LITERAL("\x0a\x07\x1a\x05\x10\x05\x1a\x01\x2f"), 5, "behind its range");
    /* ids 2, 1 as a sorted array; base 2^64 - 1 and 2^64 - 1 itself */
    expect_damage(LK_LITERAL("\x0a\x0a\x22\x08\x0a\x06\x12\x04\x02\x00\x01\x00"), 2, "do not");
    expect_damage(
        LK_LITERAL("\x0a\x13\x2a\x11\x0a\x0f\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x02\x01\x00"), 1,
        "does not fit");
    expect_damage(
        LK_LITERAL("\x0a\x0e\x2a\x0c\x1a\x0a\x12\x08\xff\xff\xff\xff\xff\xff\xff\xff"), 1, "does not fit");
    expect_damage(LK_LITERAL("\x0a\x02\x2a\x00"), 0, "no kind that is known");
}

/* -- new ones --------------------------------------------------------------------------------------------- */

/* What a list of these ids becomes, read again. */
static size_t check_list(const uint64_t *ids, size_t count)
{
    lk_id_list list = {0};
    lk_buf     message = {0};
    lk_arena   arena = {0};
    uint64_t  *back = malloc((count + 1) * sizeof *back);
    assert_non_null(back);
    lk_id_list_add(&list, ids, count);
    assert_int_equal(list.count, count);
    lk_id_list_encode(&list, &message);
    lk_row_ids parsed = must_parse(lk_buf_view(&message), count, &arena);
    lk_row_ids_read(&parsed, 0, count, back);
    assert_memory_equal(back, ids, count * sizeof *back);
    size_t size = message.size;
    lk_id_list_deinit(&list);
    lk_buf_deinit(&message);
    lk_arena_close(&arena);
    free(back);
    return size;
}

static void ids_in_any_order_are_written_and_read(void **state)
{
    enum { MOST = 3000 };
    static uint64_t ids[MOST];
    lk_random      *random = lk_random_os();
    for (int round = 0; round < 200; round++) {
        size_t   count = lk_random_below(random, MOST);
        uint64_t at = lk_random_below(random, 1 << 20), wide = 1 + lk_random_below(random, 1 << (round % 30));
        for (size_t i = 0; i < count; i++) {
            at = lk_random_below(random, 50) == 0 ? lk_random_below(random, UINT64_C(1) << 40)
                                                  : at + 1 + lk_random_below(random, wide);
            ids[i] = at;
        }
        (void)check_list(ids, count);
    }
    (void)check_list((uint64_t[]){UINT64_MAX - 1, 0, UINT64_MAX - 2}, 3);
    (void)check_list(NULL, 0);
}

static void every_shape_of_ids_takes_few_bytes(void **state)
{
    enum { MANY = 100000 };
    static uint64_t ids[MANY];
    for (size_t i = 0; i < MANY; i++) {
        ids[i] = 1000000 + i;
    }
    assert_true(check_list(ids, MANY) <= 16); /* one range */
    for (size_t i = 0; i < MANY; i++) {
        ids[i] += i / 1000;
    }
    assert_true(check_list(ids, MANY) <= 500); /* a hole in a thousand */
    for (size_t i = 0; i < MANY; i++) {
        ids[i] = 7 + 3 * i;
    }
    assert_true(check_list(ids, MANY) <= 3 * MANY / 8 + 64); /* one in three: a bitmap */
    for (size_t i = 0; i < MANY; i++) {
        ids[i] = 7 + 1000 * i;
    }
    assert_true(check_list(ids, MANY) <= 4 * MANY + 64); /* far between: offsets of 32 bits */
    for (size_t i = 0; i < MANY; i++) {
        ids[i] = (i * 7919) % MANY;
    }
    assert_true(check_list(ids, MANY) <= 4 * MANY + 1024); /* shuffled: an array */
}

static void slices_leave_deleted_rows_out(void **state)
{
    lk_arena   arena = {0};
    uint64_t   deleted[2] = {0x20a, 0}, back[64], ranges[3] = {102, 104, 107}; /* rows 1, 3 and 9 */
    lk_row_ids ids = must_parse(known[KNOWN - 1].message, known[KNOWN - 1].count, &arena);
    lk_id_list list = {0};
    lk_buf     message = {0};
    lk_id_list_add_slice(&list, &ids, 0, 5, deleted);
    lk_id_list_add_slice(&list, &ids, 8, 3, NULL);
    lk_id_list_add_slice(&list, &ids, 8, 3, deleted);
    lk_id_list_encode(&list, &message);
    lk_row_ids parsed = must_parse(lk_buf_view(&message), 8, &arena);
    lk_row_ids_read(&parsed, 0, 8, back);
    assert_memory_equal(back, ranges, sizeof ranges);
    assert_memory_equal(back + 3, ((uint64_t[]){70000, 7, 9, 70000, 9}), 5 * sizeof *back);
    lk_id_list_deinit(&list);
    lk_buf_deinit(&message);
    lk_arena_close(&arena);
}

/* -- versions --------------------------------------------------------------------------------------------- */

static const struct known_versions {
    lk_bytes message;
    uint64_t rows;
} known_versions[] = {
    {BYTES("\x0a\x08\x0a\x04\x0a\x02\x10\x14\x10\x01"), 20},
    {BYTES("\x0a\x0f\x0a\x0b\x1a\x09\x10\x28\x1a\x05\xf7\xff\xfd\xbf\xff\x10\x01"), 37},
    {BYTES("\x0a\x48\x0a\x44\x22\x42\x0a\x40\x08\x07\x12\x3c\x00\x00\x64\x00\xc8\x00\x2c\x01\x90\x01"
           "\xf4\x01\x58\x02\xbc\x02\x20\x03\x84\x03\xe8\x03\x4c\x04\xb0\x04\x14\x05\x78\x05\xdc\x05"
           "\x40\x06\xa4\x06\x08\x07\x6c\x07\xd0\x07\x34\x08\x98\x08\xfc\x08\x60\x09\xc4\x09\x28\x0a"
           "\x8c\x0a\xf0\x0a\x54\x0b\x10\x01"),
        30},
    {BYTES("\x0a\x12\x0a\x0e\x1a\x0c\x10\x3c\x1a\x08\xf5\xfe\xbd\xff\xff\xfe\xff\x0f\x10\x01\x0a\x08"
           "\x0a\x04\x0a\x02\x10\x06\x10\x02"),
        60},
    {BYTES("\x0a\x08\x0a\x04\x0a\x02\x10\x06\x10\x02"), 6},
};

static lk_row_versions must_parse_versions(lk_bytes message, uint64_t rows, lk_arena *arena)
{
    lk_row_versions versions = {0};
    lk_err          err = {0};
    if (lk_row_versions_parse(message, rows, arena, &versions, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    return versions;
}

static void versions_of_the_reference_are_read(void **state)
{
    for (size_t i = 0; i < sizeof known_versions / sizeof known_versions[0]; i++) {
        lk_arena        arena = {0};
        uint64_t        rows = known_versions[i].rows, all[128];
        lk_row_versions versions = must_parse_versions(known_versions[i].message, rows, &arena);
        lk_row_versions_read(&versions, 0, rows, all);
        for (uint64_t row = 0; row < rows; row++) {
            uint64_t expected = rows == 6 || (rows == 60 && row >= 54) ? 2 : 1; /* six rows were updated */
            assert_int_equal(all[row], expected);
            assert_int_equal(lk_row_versions_at(&versions, row), expected);
        }
        lk_arena_close(&arena);
    }
}

static void without_a_word_every_row_is_of_version_1(void **state)
{
    lk_arena        arena = {0};
    lk_row_versions versions = must_parse_versions(LK_LITERAL(""), 3, &arena);
    assert_int_equal(lk_row_versions_at(&versions, 0), 1);
    assert_int_equal(lk_row_versions_at(&versions, 2), 1);
    lk_arena_close(&arena);
}

static void versions_are_put_together_from_slices(void **state)
{
    lk_arena        arena = {0};
    lk_version_list list = {0}, again = {0};
    lk_buf          message = {0}, next = {0};
    uint64_t        all[8], deleted = 0x12; /* rows 1 and 4 */
    lk_version_list_add(&list, 4, 3);
    lk_version_list_add(&list, 4, 1);
    lk_version_list_add(&list, 9, 2);
    lk_version_list_encode(&list, &message);
    lk_row_versions versions = must_parse_versions(lk_buf_view(&message), 6, &arena);
    assert_int_equal(versions.run_count, 2);
    lk_version_list_add_slice(&again, &versions, 3, 3, &deleted);
    lk_version_list_add_slice(&again, &versions, 0, 6, &deleted);
    lk_version_list_encode(&again, &next);
    versions = must_parse_versions(lk_buf_view(&next), 6, &arena);
    lk_row_versions_read(&versions, 0, 6, all);
    assert_memory_equal(all, ((uint64_t[]){4, 9, 4, 4, 4, 9}), 6 * sizeof *all);
    lk_version_list_deinit(&list);
    lk_version_list_deinit(&again);
    lk_buf_deinit(&message);
    lk_buf_deinit(&next);
    lk_arena_close(&arena);
}

static void versions_that_cannot_be_are_refused(void **state)
{
    lk_arena              arena = {0};
    lk_row_versions       versions = {0};
    static const lk_bytes damaged[] = {
        {"\x0a\x08\x0a\x04\x0a\x02\x10\x14\x10\x01", 10}, /* 20 rows */
        {"\x0a\x08\x0a\x04\x0a\x02\x10\x02\x10\x01", 10}, /* 2 rows */
        {"\x0a\x02\x10\x01", 4},                          /* a run without rows */
        {"\x0a\x7f", 2},
    };
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        lk_err err = {0};
        assert_int_equal(lk_row_versions_parse(damaged[i], 3, &arena, &versions, &err), LK_E_CORRUPT_FILE);
    }
    lk_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_of_the_reference_are_read_as_it_reads_them),
        cmocka_unit_test(any_part_of_a_sequence_is_read_as_a_part_of_the_whole),
        cmocka_unit_test(sequences_that_cannot_be_are_refused),
        cmocka_unit_test(ids_in_any_order_are_written_and_read),
        cmocka_unit_test(every_shape_of_ids_takes_few_bytes),
        cmocka_unit_test(slices_leave_deleted_rows_out),
        cmocka_unit_test(versions_of_the_reference_are_read),
        cmocka_unit_test(without_a_word_every_row_is_of_version_1),
        cmocka_unit_test(versions_are_put_together_from_slices),
        cmocka_unit_test(versions_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
