/* placement_test.c - a location is made of checked names and a fresh id, and of nothing else. */
#include "meta/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static lk_rc place(const char *ns, const char *name, lk_arena *arena, lk_bytes *location)
{
    lk_err             err = {0};
    const lk_table_ref table = {lk_bytes_of(ns), lk_bytes_of(name)};
    return lk_place_table(table, LK_LITERAL("0197"), arena, location, &err);
}

static bool lies_at(const char *root, lk_bytes location, const char *expected, lk_arena *arena)
{
    return lk_bytes_equal(lk_place_below(lk_bytes_of(root), location, arena), lk_bytes_of(expected));
}

static void a_table_lies_under_its_names_and_incarnation(void **state)
{
    (void)state;
    lk_arena arena = {0};
    lk_bytes location = {0};
    assert_int_equal(place("ns", "t", &arena, &location), LK_OK);
    assert_true(lk_bytes_equal(location, LK_LITERAL("ns/t/0197.lance")));
    assert_true(lies_at("/data/tables", location, "/data/tables/ns/t/0197.lance", &arena));
    assert_true(lies_at("/data/tables///", location, "/data/tables/ns/t/0197.lance", &arena));
    assert_true(lies_at("s3://bucket/prefix/", location, "s3://bucket/prefix/ns/t/0197.lance", &arena));
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
        assert_int_equal(place(bad[i], "t", &arena, &location), LK_E_INVALID_IDENTIFIER);
        assert_int_equal(place("ns", bad[i], &arena, &location), LK_E_INVALID_IDENTIFIER);
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
