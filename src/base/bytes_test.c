/* bytes_test.c - views, growth, and which bytes are UTF-8. */
#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void order_is_by_byte_and_the_shorter_is_first(void **state)
{
    assert_true(lk_bytes_compare(LK_LITERAL("a"), LK_LITERAL("b")) < 0);
    assert_true(lk_bytes_compare(LK_LITERAL("a"), LK_LITERAL("ab")) < 0);
    assert_true(lk_bytes_compare(LK_LITERAL("\xFF"), LK_LITERAL("a")) > 0);
    assert_int_equal(lk_bytes_compare(LK_LITERAL("a\0b"), LK_LITERAL("a\0b")), 0);
    assert_true(lk_bytes_compare((lk_bytes){0}, LK_LITERAL("a")) < 0);
    assert_int_equal(lk_bytes_compare((lk_bytes){0}, (lk_bytes){0}), 0);
}

static void every_text_starts_with_nothing(void **state)
{
    assert_true(lk_bytes_starts(LK_LITERAL("abc"), LK_LITERAL("ab")));
    assert_false(lk_bytes_starts(LK_LITERAL("ab"), LK_LITERAL("abc")));
    assert_true(lk_bytes_starts((lk_bytes){0}, (lk_bytes){0}));
}

/* The rows of the Unicode Standard's table of well-formed UTF-8, and their neighbours outside. */
static void only_well_formed_utf8_is_accepted(void **state)
{
    const lk_bytes good[] = {
        LK_LITERAL(""),
        LK_LITERAL("abc"),
        LK_LITERAL("\0"),
        LK_LITERAL("\xC2\x80"),
        LK_LITERAL("\xDF\xBF"),
        LK_LITERAL("\xE0\xA0\x80"),
        LK_LITERAL("\xED\x9F\xBF"),
        LK_LITERAL("\xEE\x80\x80"),
        LK_LITERAL("\xF0\x90\x80\x80"),
        LK_LITERAL("\xF4\x8F\xBF\xBF"),
    };
    const lk_bytes bad[] = {
        LK_LITERAL("\x80"),
        LK_LITERAL("\xC0\xAF"),
        LK_LITERAL("\xC1\xBF"),
        LK_LITERAL("\xC2"),
        LK_LITERAL("\xE0\x9F\xBF"),
        LK_LITERAL("\xED\xA0\x80"),
        LK_LITERAL("\xED\xBF\xBF"),
        LK_LITERAL("\xE2\x82"),
        LK_LITERAL("\xF0\x8F\xBF\xBF"),
        LK_LITERAL("\xF4\x90\x80\x80"),
        LK_LITERAL("\xF5\x80\x80\x80"),
        LK_LITERAL("\xFF"),
        LK_LITERAL("a\xE2\x28\xA1"),
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(lk_bytes_are_utf8(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(lk_bytes_are_utf8(bad[i]));
    }
}

static void a_buffer_keeps_what_was_appended_and_a_nul_after_it(void **state)
{
    lk_buf buf = {0};
    for (int i = 0; i < 1000; i++) {
        lk_buf_format(&buf, "%03d", i);
    }
    assert_int_equal(buf.size, 3000);
    assert_memory_equal(buf.data + 2997, "999", 4);
    lk_buf_append_zeros(&buf, 5);
    lk_buf_append_bytes(&buf, LK_LITERAL("x"));
    lk_buf_append(&buf, NULL, 0);
    assert_memory_equal(buf.data + 3000, "\0\0\0\0\0x", 7);
    lk_buf_clear(&buf);
    assert_string_equal(buf.data, "");
    lk_buf_append_text(&buf, "again");
    assert_true(lk_bytes_equal(lk_buf_view(&buf), LK_LITERAL("again")));
    lk_buf_deinit(&buf);
    lk_buf_deinit(&buf);
    assert_null(buf.data);
}

static void fields_are_little_endian_at_any_alignment(void **state)
{
    uint8_t bytes[9] = {0};
    lk_store_u64(bytes + 1, 0x0807060504030201u);
    assert_memory_equal(bytes, "\0\1\2\3\4\5\6\7\10", 9);
    assert_int_equal(lk_load_u16(bytes + 1), 0x0201);
    assert_int_equal(lk_load_u32(bytes + 3), 0x06050403);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_by_byte_and_the_shorter_is_first),
        cmocka_unit_test(every_text_starts_with_nothing),
        cmocka_unit_test(only_well_formed_utf8_is_accepted),
        cmocka_unit_test(a_buffer_keeps_what_was_appended_and_a_nul_after_it),
        cmocka_unit_test(fields_are_little_endian_at_any_alignment),
    };
    return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
