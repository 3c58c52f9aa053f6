/* ids_test.c - the alphabets and sizes of names, and the canonical form of ids. */
#include "model/ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static lk_bytes repeat(lk_arena *arena, char c, size_t size)
{
    char *text = lk_arena_take(arena, size + 1);
    memset(text, c, size);
    return (lk_bytes){text, size};
}

static void namespaces_have_one_alphabet_and_128_bytes(void **state)
{
    lk_arena       arena = {0};
    lk_err         err = {0};
    const lk_bytes good[] = {LK_LITERAL("a"), LK_LITERAL("-_0Z"), repeat(&arena, 'n', 128)};
    const lk_bytes bad[] = {LK_LITERAL(""), LK_LITERAL("a.b"), LK_LITERAL("a b"), LK_LITERAL("a/b"),
        LK_LITERAL("\xC3\xA9"), LK_LITERAL("a\0"), LK_LITERAL("a\""), repeat(&arena, 'n', 129)};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(lk_namespace_check(good[i], &err), LK_OK);
        assert_int_equal(lk_table_name_check(good[i], &err), LK_OK);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(lk_namespace_check(bad[i], &err), LK_E_INVALID_IDENTIFIER);
        assert_string_equal(err.detail, "a namespace is 1 to 128 of A-Z a-z 0-9 _ -");
    }
    lk_arena_close(&arena);
}

static void table_names_may_have_255_bytes(void **state)
{
    lk_arena arena = {0};
    lk_err   err = {0};
    assert_int_equal(lk_table_name_check(repeat(&arena, 't', 255), &err), LK_OK);
    assert_int_equal(lk_table_name_check(repeat(&arena, 't', 256), &err), LK_E_INVALID_IDENTIFIER);
    assert_string_equal(err.detail, "a table name is 1 to 255 of A-Z a-z 0-9 _ -");
    lk_arena_close(&arena);
}

static void tenants_begin_and_end_with_a_letter_or_digit(void **state)
{
    lk_arena       arena = {0};
    lk_err         err = {0};
    const lk_bytes good[] = {LK_LITERAL("a-b_1"), LK_LITERAL("a"), repeat(&arena, 'a', 64)};
    const lk_bytes bad[] = {LK_LITERAL("-a"), LK_LITERAL("a-"), LK_LITERAL("a.b"), LK_LITERAL(""),
        LK_LITERAL("_"), repeat(&arena, 'a', 65)};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(lk_tenant_check(good[i], &err), LK_OK);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(lk_tenant_check(bad[i], &err), LK_E_INVALID_IDENTIFIER);
    }
    lk_arena_close(&arena);
}

static void a_table_is_split_at_its_only_dot(void **state)
{
    lk_err       err = {0};
    lk_table_ref table = {0};
    assert_int_equal(lk_table_ref_parse(LK_LITERAL("robots.arm-1"), &table, &err), LK_OK);
    assert_true(lk_bytes_equal(table.ns, LK_LITERAL("robots")));
    assert_true(lk_bytes_equal(table.name, LK_LITERAL("arm-1")));
    static const char *const bad[] = {"", "robots", ".arm", "robots.", "a.b.c", "."};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(lk_table_ref_parse(lk_bytes_of(bad[i]), &table, &err), LK_E_INVALID_IDENTIFIER);
        assert_true(lk_bytes_equal(table.ns, LK_LITERAL("robots"))); /* untouched */
    }
}

static void tables_are_ordered_by_namespace_then_name(void **state)
{
    lk_table_ref a = {LK_LITERAL("a"), LK_LITERAL("z")}, b = {LK_LITERAL("b"), LK_LITERAL("a")};
    lk_table_ref c = {LK_LITERAL("b"), LK_LITERAL("b")};
    assert_true(lk_table_ref_compare(a, b) < 0);
    assert_true(lk_table_ref_compare(c, b) > 0);
    assert_int_equal(lk_table_ref_compare(b, b), 0);
}

static void operation_ids_are_v7_and_become_lower_case(void **state)
{
    lk_arena arena = {0};
    lk_err   err = {0};
    lk_bytes id = {0};
    assert_int_equal(
        lk_operation_id_parse(LK_LITERAL("0197F0F4-7B2A-7000-8000-0000000000AB"), &arena, &id, &err), LK_OK);
    assert_string_equal(id.data, "0197f0f4-7b2a-7000-8000-0000000000ab");
    static const char *const bad[] = {
        "919108f7-52d1-4320-9bac-f847db4148a8", /* v4, RFC 9562 A.3 */
        "0197F0F4-7B2A-7000-C000-0000000000AB", /* another variant */
        "0197F0F47B2A700080000000000000AB",
        "",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(lk_operation_id_parse(lk_bytes_of(bad[i]), &arena, &id, &err), LK_E_INVALID_REQUEST);
    }
    lk_arena_close(&arena);
}

static void digests_are_64_lower_case_hex_digits(void **state)
{
    lk_arena arena = {0};
    lk_err   err = {0};
    lk_bytes digest = repeat(&arena, 'a', 64);
    assert_int_equal(lk_payload_digest_check(digest, &err), LK_OK);
    assert_int_equal(lk_payload_digest_check((lk_bytes){digest.data, 63}, &err), LK_E_INVALID_REQUEST);
    assert_int_equal(lk_payload_digest_check(repeat(&arena, 'A', 64), &err), LK_E_INVALID_REQUEST);
    assert_int_equal(lk_payload_digest_check(repeat(&arena, 'g', 64), &err), LK_E_INVALID_REQUEST);
    lk_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(namespaces_have_one_alphabet_and_128_bytes),
        cmocka_unit_test(table_names_may_have_255_bytes),
        cmocka_unit_test(tenants_begin_and_end_with_a_letter_or_digit),
        cmocka_unit_test(a_table_is_split_at_its_only_dot),
        cmocka_unit_test(tables_are_ordered_by_namespace_then_name),
        cmocka_unit_test(operation_ids_are_v7_and_become_lower_case),
        cmocka_unit_test(digests_are_64_lower_case_hex_digits),
    };
    return cmocka_run_group_tests_name("ids", tests, NULL, NULL);
}
