/* field_options_test.c - the reference's metadata keys mean what they mean there. */
#include "lance/field_options.h"

#include "arrow/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char metadata[256];

/* A field with one pair of metadata, in Arrow's own form. */
static struct ArrowSchema field_with(const char *key, const char *value)
{
    uint32_t numbers[3] = {1, (uint32_t)strlen(key), (uint32_t)strlen(value)};
    memcpy(metadata, numbers, 8);
    memcpy(metadata + 8, key, numbers[1]);
    memcpy(metadata + 8 + numbers[1], &numbers[2], 4);
    memcpy(metadata + 12 + numbers[1], value, numbers[2]);
    return (struct ArrowSchema){.format = "u", .name = "v", .metadata = metadata};
}

static lk_field_options read(const char *key, const char *value)
{
    lk_field_options   options = {0};
    lk_err             err = {0};
    struct ArrowSchema field = field_with(key, value);
    assert_int_equal(lk_field_options_read(&field, &field, &options, &err), LK_OK);
    return options;
}

static bool refused(const char *key, const char *value)
{
    lk_field_options   options = {0};
    lk_err             err = {0};
    struct ArrowSchema field = field_with(key, value);
    return lk_field_options_read(&field, &field, &options, &err) == LK_E_INVALID_SCHEMA &&
           strstr(err.detail, key) != NULL;
}

static void without_metadata_everything_is_chosen_by_looking(void **state)
{
    (void)state;
    lk_field_options options = read("other", "x");
    assert_int_equal(options.compression, LK_COMPRESSION_AUTO);
    assert_int_equal(options.structure, LK_STRUCTURE_AUTO);
    assert_int_equal(options.split, LK_SPLIT_AUTO);
    assert_int_equal(options.dictionary_compression, LK_COMPRESSION_LZ4);
    assert_int_equal(options.dictionary_divisor, 2);
    assert_int_equal(options.dictionary_bytes, 8 * 1024 * 1024);
    assert_true(options.dictionary_ratio == 0.8 && options.run_threshold == 0);
}

static void keys_are_read(void **state)
{
    (void)state;
    assert_int_equal(read("lance-encoding:compression", "zstd").compression, LK_COMPRESSION_ZSTD);
    assert_int_equal(read("lance-encoding:compression", "none").compression, LK_COMPRESSION_NONE);
    assert_int_equal(read("lance-encoding:compression", "fsst").compression, LK_COMPRESSION_FSST);
    assert_int_equal(read("lance-encoding:compression-level", "9").level, 9);
    assert_int_equal(read("lance-encoding:structural-encoding", "FullZip").structure, LK_STRUCTURE_FULLZIP);
    assert_int_equal(read("lance-encoding:bss", "on").split, LK_SPLIT_ON);
    assert_true(read("lance-encoding:rle-threshold", "0.25").run_threshold == 0.25);
    assert_int_equal(read("lance-encoding:dict-divisor", "10").dictionary_divisor, 10);
    assert_int_equal(read("lance-encoding:dict-max-size", "1000").dictionary_bytes, 1000);
    assert_int_equal(
        read("lance-encoding:dict-values-compression", "none").dictionary_compression, LK_COMPRESSION_NONE);
    assert_int_equal(read("lance-encoding:minichunk-size", "1024").chunk_bytes, 1024);
}

static void what_the_reference_ignores_is_ignored(void **state)
{
    (void)state;
    assert_int_equal(read("lance-encoding:compression-level", "much").level, 0);
    assert_true(read("lance-encoding:rle-threshold", "").run_threshold == 0);
    assert_int_equal(read("lance-encoding:bss", "perhaps").split, LK_SPLIT_AUTO);
    assert_int_equal(read("lance-encoding:dict-divisor", "0").dictionary_divisor, 2);
    assert_int_equal(read("lance-encoding:minichunk-size", "65536").chunk_bytes, 0);
}

static void what_the_reference_refuses_is_refused(void **state)
{
    (void)state;
    assert_true(refused("lance-encoding:compression", "snappy"));
    assert_true(refused("lance-encoding:structural-encoding", "sparse"));
    assert_true(refused("lance-encoding:dict-values-compression", "x"));
    assert_true(refused("lance-encoding:dict-size-ratio", "1.5"));
    assert_true(refused("lance-encoding:dict-size-ratio", "nan"));
    assert_true(refused("lance-encoding:dict-max-size", "8 MiB"));
}

static void the_structure_is_asked_of_the_column(void **state)
{
    (void)state;
    lk_field_options   options = {0};
    lk_err             err = {0};
    struct ArrowSchema column = field_with("lance-encoding:structural-encoding", "miniblock");
    struct ArrowSchema leaf = {.format = "u", .name = "item"};
    assert_int_equal(lk_field_options_read(&leaf, &column, &options, &err), LK_OK);
    assert_int_equal(options.structure, LK_STRUCTURE_MINIBLOCK);
    assert_int_equal(lk_field_options_read(&column, &leaf, &options, &err), LK_OK);
    assert_int_equal(options.structure, LK_STRUCTURE_AUTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_metadata_everything_is_chosen_by_looking),
        cmocka_unit_test(keys_are_read),
        cmocka_unit_test(what_the_reference_ignores_is_ignored),
        cmocka_unit_test(what_the_reference_refuses_is_refused),
        cmocka_unit_test(the_structure_is_asked_of_the_column),
    };
    return cmocka_run_group_tests_name("lance/field_options", tests, NULL, NULL);
}
