/* write_forms_test.c - the bytes of a chunk's values and levels are those that the format's description gives. */
#include "lance/write_page_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lk_values words_of(const uint32_t *words, size_t count)
{
    return (lk_values){.count = count, .bits = 32, .bytes = (const char *)words};
}

static void check(lk_form form, const lk_values *values, size_t index, const void *bytes, size_t size)
{
    lk_buf data = {0};
    lk_form_put(form, values, index, 0, values->count, &data);
    assert_int_equal(data.size, size);
    assert_memory_equal(data.data, bytes, size);
    lk_buf_deinit(&data);
}

static void a_run_is_a_value_and_its_length_in_a_byte(void **state)
{
    (void)state;
    uint32_t words[260];
    for (size_t at = 0; at < 260; at++) {
        words[at] = at < 257 ? 7 : 9; /* one run is too long for a byte */
    }
    lk_values values = words_of(words, 260);
    check(LK_FORM_RUNS, &values, 0, (const uint32_t[]){7, 7, 9}, 12);
    check(LK_FORM_RUNS, &values, 1, (const uint8_t[]){255, 2, 3}, 3);
}

static void planes_hold_a_byte_of_every_value(void **state)
{
    (void)state;
    const uint32_t words[] = {0x04030201, 0x14131211};
    lk_values      values = words_of(words, 2);
    check(LK_FORM_SPLIT, &values, 0, "\x01\x11\x02\x12\x03\x13\x04\x14", 8);
}

static void text_lies_behind_offsets_from_the_start_of_the_buffer(void **state)
{
    (void)state;
    const uint64_t ends[] = {2, 2, 5};
    lk_values      values = {.count = 3, .offset_bytes = 4, .bytes = "abcde", .ends = (const char *)ends};
    check(LK_FORM_TEXT, &values, 0,
        "\x10\0\0\0\x12\0\0\0\x12\0\0\0\x15\0\0\0"
        "abcdeHHH",
        24);
}

static void a_packed_chunk_begins_with_its_width(void **state)
{
    (void)state;
    uint32_t  words[] = {0, 5, 2}; /* three bits */
    lk_buf    data = {0};
    lk_values values = words_of(words, 3);
    lk_form_put(LK_FORM_PACKED, &values, 0, 0, 3, &data);
    assert_int_equal(data.size, 4 + 3 * 128); /* one block of 1,024, padded */
    assert_int_equal(lk_load_u32(data.data), 3);
    /* Rows 0, 1 and 2 of FastLanes are lanes 0, 1 and 2 of the first word. */
    assert_int_equal(lk_load_u32(data.data + 4), 0);
    assert_int_equal(lk_load_u32(data.data + 8), 5);
    assert_int_equal(lk_load_u32(data.data + 12), 2);
    lk_buf_deinit(&data);
}

static lk_form form_of(const uint32_t *words, size_t count, lk_field_options options)
{
    lk_leaf   leaf = {.options = options, .values.data = (char *)(uintptr_t)words};
    lk_values values = words_of(words, count);
    uint64_t  bytes = 0;
    return lk_form_of(&leaf, &values, &bytes);
}

static void the_smallest_form_is_chosen_unless_the_field_asks(void **state)
{
    (void)state;
    uint32_t runs[2048], small[2048], large[2048];
    for (uint32_t at = 0; at < 2048; at++) {
        runs[at] = at / 400 * 0x12345678;
        small[at] = at * 2654435761U % 100;
        large[at] = at * 2654435761U;
    }
    assert_int_equal(form_of(runs, 2048, (lk_field_options){0}), LK_FORM_RUNS);
    assert_int_equal(form_of(runs, 2048, (lk_field_options){.run_threshold = 0.001}), LK_FORM_FLAT);
    assert_int_equal(form_of(small, 2048, (lk_field_options){0}), LK_FORM_PACKED);
    assert_int_equal(form_of(large, 2048, (lk_field_options){0}), LK_FORM_FLAT);
    lk_field_options none = {.compression = LK_COMPRESSION_NONE};
    assert_int_equal(form_of(small, 2048, none), LK_FORM_FLAT);
    lk_field_options split = {.compression = LK_COMPRESSION_LZ4, .split = LK_SPLIT_ON};
    assert_int_equal(form_of(large, 2048, split), LK_FORM_SPLIT);
    split.split = LK_SPLIT_OFF;
    assert_int_equal(form_of(large, 2048, split), LK_FORM_FLAT);
}

static void chunks_hold_powers_of_two_but_for_the_last(void **state)
{
    (void)state;
    uint32_t  words[5000] = {0};
    lk_values values = words_of(words, 5000);
    assert_int_equal(lk_form_chunk(LK_FORM_PACKED, &values, 0, 0), 1024);
    assert_int_equal(lk_form_chunk(LK_FORM_PACKED, &values, 4096, 0), 904);
    assert_int_equal(lk_form_chunk(LK_FORM_FLAT, &values, 0, 0), 2048); /* of 8 KiB */
    assert_int_equal(lk_form_chunk(LK_FORM_RUNS, &values, 0, 0), 4096);
    assert_int_equal(lk_form_chunk(LK_FORM_RUNS, &values, 4096, 0), 904);
}

/* -- levels ---------------------------------------------------------------------------------------------- */
static void levels_as_runs_say_how_many_bytes_the_values_take(void **state)
{
    (void)state;
    const uint16_t levels[] = {0, 0, 0, 1, 1, 2};
    lk_level_plan  plan = {.form = LK_LEVELS_RUNS};
    lk_buf         data = {0};
    lk_put_levels(&plan, levels, 6, &data);
    assert_int_equal(data.size, 17);
    assert_memory_equal(data.data, "\6\0\0\0\0\0\0\0\0\0\1\0\2\0\3\2\1", 17);
    lk_buf_deinit(&data);
}

static void levels_are_runs_in_files_of_2_2_only(void **state)
{
    (void)state;
    lk_page_layout old = {0}, large = {.large_chunk = true};
    assert_int_equal(lk_level_plan_of(10000, 5, 1, &old).form, LK_LEVELS_PACKED);
    assert_int_equal(lk_level_plan_of(10000, 5, 1, &large).form, LK_LEVELS_RUNS);
    assert_int_equal(lk_level_plan_of(10000, 5000, 1, &large).form, LK_LEVELS_PACKED);
    assert_int_equal(lk_level_plan_of(100, 50, 1, &large).form, LK_LEVELS_PLAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_a_value_and_its_length_in_a_byte),
        cmocka_unit_test(planes_hold_a_byte_of_every_value),
        cmocka_unit_test(text_lies_behind_offsets_from_the_start_of_the_buffer),
        cmocka_unit_test(a_packed_chunk_begins_with_its_width),
        cmocka_unit_test(the_smallest_form_is_chosen_unless_the_field_asks),
        cmocka_unit_test(chunks_hold_powers_of_two_but_for_the_last),
        cmocka_unit_test(levels_as_runs_say_how_many_bytes_the_values_take),
        cmocka_unit_test(levels_are_runs_in_files_of_2_2_only),
    };
    return cmocka_run_group_tests_name("lance/write_forms", tests, NULL, NULL);
}
