/* each_test.c - parts done side by side. LK_TSAN: run under the thread sanitizer. */
#include "base/each.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { PARTS = 200 };

typedef struct work {
    atomic_int done[PARTS];
    size_t     fails_from;
    atomic_int begun;
    int        await; /* parts that wait until so many have begun */
    lk_pool   *pool;
} work;

static lk_rc part(void *context, size_t index, lk_err *err)
{
    work *self = context;
    atomic_fetch_add(&self->begun, 1);
    for (uint64_t end = lk_thread_now_ms() + 5000; atomic_load(&self->begun) < self->await;) {
        assert_true(lk_thread_now_ms() < end);
    }
    atomic_fetch_add(&self->done[index], 1);
    return index < self->fails_from ? LK_OK : lk_fail(err, LK_E_IO, "part %zu", index);
}

static lk_rc nested(void *context, size_t index, lk_err *err)
{
    work *self = context;
    (void)index;
    return lk_each(self->pool, PARTS, part, self, err);
}

static lk_pool *open_pool(size_t threads, size_t queue)
{
    lk_pool *pool = NULL;
    lk_err   err = {0};
    assert_int_equal(lk_pool_open(&pool, "each", threads, queue, &err), LK_OK);
    return pool;
}

static void every_part_is_done_once(void **state)
{
    (void)state;
    lk_pool *pools[] = {NULL, open_pool(3, 2), open_pool(8, 100)};
    for (size_t i = 0; i < 3; i++) {
        work   self = {.fails_from = PARTS};
        lk_err err = {0};
        assert_int_equal(lk_each(pools[i], PARTS, part, &self, &err), LK_OK);
        for (size_t index = 0; index < PARTS; index++) {
            assert_int_equal(self.done[index], 1);
        }
        assert_int_equal(lk_each(pools[i], 0, part, &self, &err), LK_OK);
        assert_int_equal(self.begun, PARTS);
        lk_pool_close(pools[i]);
    }
}

static void parts_wait_side_by_side(void **state)
{
    (void)state;
    lk_pool *pool = open_pool(4, 16);
    work     self = {.fails_from = PARTS, .await = 5}; /* nobody gets on before all five are there */
    lk_err   err = {0};
    assert_int_equal(lk_each(pool, 5, part, &self, &err), LK_OK);
    lk_pool_close(pool);
}

static void after_an_error_none_is_begun_and_the_first_is_told(void **state)
{
    (void)state;
    lk_pool *pool = open_pool(3, 8);
    work     self = {.fails_from = 5}, alone = {.fails_from = 5};
    lk_err   err = {0}, again = {0};
    assert_int_equal(lk_each(pool, PARTS, part, &self, &err), LK_E_IO);
    assert_string_equal(err.context, "part 5");
    assert_true(self.begun < PARTS);
    assert_int_equal(lk_each(NULL, PARTS, part, &alone, &again), LK_E_IO);
    assert_int_equal(alone.begun, 6);
    lk_pool_close(pool);
}

static void threads_of_the_pool_may_ask_too(void **state)
{
    (void)state;
    work   self = {.fails_from = PARTS, .pool = open_pool(2, 4)};
    lk_err err = {0};
    assert_int_equal(lk_each(self.pool, 10, nested, &self, &err), LK_OK);
    assert_int_equal(self.begun, 10 * PARTS);
    lk_pool_close(self.pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_is_done_once),
        cmocka_unit_test(parts_wait_side_by_side),
        cmocka_unit_test(after_an_error_none_is_begun_and_the_first_is_told),
        cmocka_unit_test(threads_of_the_pool_may_ask_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
