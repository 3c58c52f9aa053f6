/* arena_test.c - alignment, zeros, and that big and small takes do not disturb each other. */
#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void takes_are_aligned_zeroed_and_apart(void **state)
{
    lk_arena arena = {0};
    uint8_t *taken[500];
    for (size_t i = 0; i < 500; i++) {
        size_t size = i * 37 % 3000;
        taken[i] = lk_arena_take(&arena, size);
        assert_int_equal((uintptr_t)taken[i] % _Alignof(max_align_t), 0);
        for (size_t at = 0; at < size; at++) {
            assert_int_equal(taken[i][at], 0);
        }
        memset(taken[i], (int)(i % 255 + 1), size);
    }
    for (size_t i = 0; i < 500; i++) {
        for (size_t at = 0; at < i * 37 % 3000; at++) {
            assert_int_equal(taken[i][at], i % 255 + 1);
        }
    }
    lk_arena_close(&arena);
    lk_arena_close(&arena);
    assert_int_equal(arena.used_bytes, 0);
}

static void copies_and_formats_end_with_a_nul(void **state)
{
    lk_arena arena = {0};
    lk_bytes copy = lk_arena_copy(&arena, LK_LITERAL("a\0b"));
    assert_int_equal(copy.size, 3);
    assert_memory_equal(copy.data, "a\0b", 4);
    assert_string_equal(lk_arena_format(&arena, "%s-%d", "x", 7).data, "x-7");
    assert_string_equal(lk_arena_text(&arena, (lk_bytes){0}), "");
    assert_non_null(lk_arena_take(&arena, 0));
    lk_arena_close_wiped(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_are_aligned_zeroed_and_apart),
        cmocka_unit_test(copies_and_formats_end_with_a_nul),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
