/* refs_test.c - tags that pylance 14 wrote, branches in its form, and damaged files. */
#include "lance/refs.h"

#include "lance/table_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void the_tags_of_a_table_are_listed_by_name(void **state)
{
    lk_store *store = fixture_golden("lifecycle_2.1");
    lk_arena  arena = {0};
    lk_err    err = {0};
    lk_ref   *refs = NULL;
    size_t    count = 0;
    assert_int_equal(lk_refs_list(store, &arena, &refs, &count, &err), LK_OK);
    assert_int_equal(count, 2);
    assert_true(lk_bytes_equal(refs[0].name, LK_LITERAL("latest-ok")));
    assert_int_equal(refs[0].version, 9);
    assert_int_equal(refs[0].kind, LK_REF_TAG);
    assert_int_equal(refs[0].branch.size, 0);
    assert_true(lk_bytes_equal(refs[1].name, LK_LITERAL("release-1")));
    assert_int_equal(refs[1].version, 2);
    lk_arena_close(&arena);
    lk_store_close(store);
}

static void put(lk_store *store, const char *key, const char *text)
{
    bool   created = false;
    lk_err err = {0};
    assert_int_equal(
        lk_store_put_if_absent(store, lk_bytes_of(key), lk_bytes_of(text), &created, &err), LK_OK);
}

static void a_branch_with_a_slash_and_its_parent_are_read(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_arena        arena = {0};
    lk_err          err = {0};
    lk_ref         *refs = NULL;
    size_t          count = 0;
    put(store, "_refs/branches/feat%2Fx.json",
        "{\"parentBranch\":\"exp\",\"identifier\":{\"version_mapping\":[[1,"
        "\"0123456789abcdef0123456789abcdef\"]]},"
        "\"parentVersion\":3,\"createAt\":1764489233,\"manifestSize\":584,\"metadata\":{}}");
    put(store, "_refs/tags/on-exp.json", "{\"branch\":\"exp\",\"version\":4,\"manifestSize\":1}");
    put(store, "_refs/tags/.tmp-1.json", "");
    assert_int_equal(lk_refs_list(store, &arena, &refs, &count, &err), LK_OK);
    assert_int_equal(count, 2);
    assert_true(lk_bytes_equal(refs[0].name, LK_LITERAL("on-exp")));
    assert_true(lk_bytes_equal(refs[0].branch, LK_LITERAL("exp")));
    assert_int_equal(refs[1].kind, LK_REF_BRANCH);
    assert_true(lk_bytes_equal(refs[1].name, LK_LITERAL("feat/x")));
    assert_true(lk_bytes_equal(refs[1].branch, LK_LITERAL("exp")));
    assert_int_equal(refs[1].version, 3);
    lk_arena_close(&arena);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void a_damaged_tag_is_an_error_that_names_it(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_arena        arena = {0};
    lk_err          err = {0};
    lk_ref         *refs = NULL;
    size_t          count = 0;
    put(store, "_refs/tags/bad.json", "{\"version\":\"two\"}");
    assert_int_equal(lk_refs_list(store, &arena, &refs, &count, &err), LK_E_CORRUPT_FILE);
    assert_non_null(strstr(err.context, "bad.json"));
    lk_arena_close(&arena);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tags_of_a_table_are_listed_by_name),
        cmocka_unit_test(a_branch_with_a_slash_and_its_parent_are_read),
        cmocka_unit_test(a_damaged_tag_is_an_error_that_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
