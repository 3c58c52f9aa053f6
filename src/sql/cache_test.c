/*
 * cache_test.c - parsed statements by text: found while they are kept, counted in bytes, dropped oldest
 * first, shared by threads. LK_TSAN: threads put, find and drop the same texts.
 */
#include "sql/cache_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static lk_sql_statement *made(const char *text, size_t bytes)
{
    lk_sql_statement *statement = calloc(1, sizeof *statement);
    LK_ASSERT(statement != NULL);
    atomic_init(&statement->refs, 1);
    statement->text = lk_arena_copy(&statement->arena, lk_bytes_of(text));
    statement->bytes = bytes;
    return statement;
}

static void put(lk_sql_cache *cache, const char *text, size_t bytes)
{
    lk_sql_statement *statement = made(text, bytes);
    lk_sql_cache_put(cache, statement);
    lk_sql_statement_unref(statement);
}

static bool holds(lk_sql_cache *cache, const char *text)
{
    lk_sql_statement *found = lk_sql_cache_find(cache, lk_bytes_of(text));
    bool              right = found != NULL && lk_bytes_equal(found->text, lk_bytes_of(text));
    lk_sql_statement_unref(found);
    return right;
}

static void the_least_recently_used_goes_first(void **state)
{
    (void)state;
    lk_sql_cache *cache = lk_sql_cache_open(1000);
    for (int i = 0; i < 10; i++) {
        char text[8];
        (void)snprintf(text, sizeof text, "q%d", i);
        put(cache, text, 100);
    }
    assert_true(holds(cache, "q0")); /* now the newest */
    put(cache, "q10", 100);
    assert_true(holds(cache, "q0"));
    assert_false(holds(cache, "q1"));
    assert_true(holds(cache, "q2"));
    assert_true(holds(cache, "q10"));
    lk_sql_cache_close(cache);
}

static void a_statement_outlives_its_place(void **state)
{
    (void)state;
    lk_sql_cache *cache = lk_sql_cache_open(100);
    put(cache, "a", 12);
    lk_sql_statement *kept = lk_sql_cache_find(cache, LK_LITERAL("a"));
    assert_non_null(kept);
    for (int i = 0; i < 20; i++) {
        char text[8];
        (void)snprintf(text, sizeof text, "q%d", i);
        put(cache, text, 12);
    }
    assert_false(holds(cache, "a"));
    lk_sql_cache_close(cache);
    assert_true(lk_bytes_equal(kept->text, LK_LITERAL("a")));
    lk_sql_statement_unref(kept);
}

static void one_large_statement_does_not_empty_it(void **state)
{
    (void)state;
    lk_sql_cache *cache = lk_sql_cache_open(1000);
    put(cache, "small", 100);
    put(cache, "large", 126);
    assert_true(holds(cache, "small"));
    assert_false(holds(cache, "large"));
    put(cache, "small", 100); /* again: nothing happens */
    assert_true(holds(cache, "small"));
    lk_sql_cache_close(cache);
}

static void use_at_random(void *context)
{
    lk_sql_cache *cache = context;
    for (int i = 0; i < 3000; i++) {
        char text[8];
        (void)snprintf(text, sizeof text, "q%d", i * 7 % 40);
        if (!holds(cache, text)) {
            put(cache, text, 50);
        }
    }
}

static void threads_share_it(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    lk_err        err = {0};
    lk_sql_cache *cache = lk_sql_cache_open(1000); /* 20 of the 40 texts fit */
    lk_thread     threads[THREADS] = {{0}};
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(lk_thread_start(&threads[i], "cache", use_at_random, cache, &err), LK_OK);
    }
    for (size_t i = 0; i < THREADS; i++) {
        lk_thread_join(&threads[i]);
    }
    lk_sql_cache_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_recently_used_goes_first),
        cmocka_unit_test(a_statement_outlives_its_place),
        cmocka_unit_test(one_large_statement_does_not_empty_it),
        cmocka_unit_test(threads_share_it),
    };
    return cmocka_run_group_tests_name("sql cache", tests, NULL, NULL);
}
