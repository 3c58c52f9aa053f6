/* placement_test.c - a location is made of the server's root, checked names and a fresh id, and of nothing else. */
#include "meta/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static lk_rc place(const char *root, const char *ns, const char *name, lk_arena *arena, lk_bytes *location)
{
    lk_err             err = {0};
    const lk_table_ref table = {lk_bytes_of(ns), lk_bytes_of(name)};
    return lk_place_table(lk_bytes_of(root), table, LK_LITERAL("0197"), arena, location, &err);
}

static void a_table_lies_under_its_names_and_incarnation(void **state)
{
    (void)state;
    lk_arena arena = {0};
    lk_bytes location = {0};
    assert_int_equal(place("/data/tables", "ns", "t", &arena, &location), LK_OK);
    assert_true(lk_bytes_equal(location, LK_LITERAL("/data/tables/ns/t/0197.lance")));
    assert_int_equal(place("/data/tables///", "ns", "t", &arena, &location), LK_OK);
    assert_true(lk_bytes_equal(location, LK_LITERAL("/data/tables/ns/t/0197.lance")));
    assert_int_equal(place("s3://bucket/prefix/", "ns", "t", &arena, &location), LK_OK);
    assert_true(lk_bytes_equal(location, LK_LITERAL("s3://bucket/prefix/ns/t/0197.lance")));
    lk_arena_close(&arena);
}

static void names_that_could_leave_the_root_are_refused(void **state)
{
    (void)state;
    char              long_name[257];
    lk_arena          arena = {0};
    lk_bytes          location = {0};
    const char *const bad[] = {
        "", ".", "..", "a/b", "a\\b", "x%2f", "a?b", "a#b", "a b", "a.b", "\x01", "ü", long_name};
    memset(long_name, 'a', 256);
    long_name[256] = '\0';
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(place("/d", bad[i], "t", &arena, &location), LK_E_INVALID_IDENTIFIER);
        assert_int_equal(place("/d", "ns", bad[i], &arena, &location), LK_E_INVALID_IDENTIFIER);
        assert_int_equal(location.size, 0);
    }
    lk_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_lies_under_its_names_and_incarnation),
        cmocka_unit_test(names_that_could_leave_the_root_are_refused),
    };
    return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
