/* held_test.c - objects in memory are read as others are, and nothing is written. */
#include "io/held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void what_is_held_is_opened_and_read_within_its_bytes(void **state)
{
    const lk_store_wanted objects[] = {
        {.key = LK_LITERAL("a/one"), .found = true, .whole = true, .bytes = LK_LITERAL("0123456789")},
        {.key = LK_LITERAL("a/large"), .found = true}, {.key = LK_LITERAL("a/absent")}};
    lk_store        *store = lk_held_store_new(LK_LITERAL("held"), objects, 3);
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    char             ends[4];
    lk_err           err = {0};
    (void)state;
    assert_int_equal(lk_store_open_object(store, LK_LITERAL("a/one"), &reader, &size, &err), LK_OK);
    assert_int_equal(size, 10);
    const lk_store_range good[] = {{8, 2, ends}, {0, 2, ends + 2}, {10, 0, NULL}}, past = {9, 2, ends},
                         far = {UINT64_MAX, 2, ends};
    assert_int_equal(lk_store_read(reader, good, 3, &err), LK_OK);
    assert_memory_equal(ends, "8901", 4);
    assert_int_equal(lk_store_read(reader, &past, 1, &err), LK_E_CORRUPT_FILE);
    assert_int_equal(lk_store_read(reader, &far, 1, &err), LK_E_CORRUPT_FILE);
    lk_store_reader_close(reader);
    assert_int_equal(
        lk_store_open_object(store, LK_LITERAL("a/large"), &reader, &size, &err), LK_E_NOT_FOUND);
    assert_int_equal(
        lk_store_open_object(store, LK_LITERAL("a/absent"), &reader, &size, &err), LK_E_NOT_FOUND);
    assert_int_equal(lk_store_open_object(store, LK_LITERAL("b"), &reader, &size, &err), LK_E_NOT_FOUND);
    lk_store_close(store);
}

static void nothing_is_written_or_removed(void **state)
{
    lk_store        *store = lk_held_store_new(LK_LITERAL("held"), NULL, 0);
    lk_store_writer *writer = NULL;
    lk_arena         arena = {0};
    lk_store_entry  *entries = NULL;
    size_t           count = 0;
    bool             created = false;
    lk_err           err = {0};
    (void)state;
    assert_int_equal(lk_store_create(store, LK_LITERAL("a"), &writer, &err), LK_E_UNIMPLEMENTED);
    assert_int_equal(
        lk_store_put_if_absent(store, LK_LITERAL("a"), LK_LITERAL("b"), &created, &err), LK_E_UNIMPLEMENTED);
    assert_int_equal(lk_store_remove(store, LK_LITERAL("a"), &err), LK_E_UNIMPLEMENTED);
    assert_int_equal(lk_store_remove_tree(store, LK_LITERAL("a"), &err), LK_E_UNIMPLEMENTED);
    assert_int_equal(
        lk_store_list(store, LK_LITERAL("a"), &arena, &entries, &count, &err), LK_E_UNIMPLEMENTED);
    lk_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_held_is_opened_and_read_within_its_bytes),
        cmocka_unit_test(nothing_is_written_or_removed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
