/* admit_test.c - slots, bytes and table locks: what fits, what waits, what is refused (LK_TSAN). */
#include "meta/admit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const lk_table_ref one = {{"ns", 2}, {"one", 3}}, two = {{"ns", 2}, {"two", 3}};

static uint64_t in_ms(uint64_t ms)
{
    return lk_clock_monotonic_ms(lk_clock_real()) + ms;
}

static void a_full_house_refuses_after_the_deadline_and_takes_in_after_a_leave(void **state)
{
    (void)state;
    lk_admit admit;
    lk_err   err = {0};
    lk_admit_init(&admit, lk_clock_real(), 2, 100);
    assert_int_equal(lk_admit_enter(&admit, 60, in_ms(20), NULL, &err), LK_OK);
    assert_int_equal(lk_admit_enter(&admit, 60, in_ms(20), NULL, &err), LK_E_APPEND_SLOTS); /* bytes */
    assert_int_equal(lk_admit_enter(&admit, 40, in_ms(20), NULL, &err), LK_OK);
    assert_int_equal(lk_admit_enter(&admit, 0, in_ms(20), NULL, &err), LK_E_APPEND_SLOTS); /* slots */
    lk_admit_leave(&admit, 60);
    assert_int_equal(lk_admit_running(&admit), 1);
    assert_int_equal(lk_admit_enter(&admit, 60, in_ms(20), NULL, &err), LK_OK);
    lk_admit_leave(&admit, 60);
    lk_admit_leave(&admit, 40);
    assert_int_equal(
        lk_admit_enter(&admit, 1000, in_ms(20), NULL, &err), LK_OK); /* alone, whatever its size */
    lk_admit_leave(&admit, 1000);
    lk_admit_deinit(&admit);
}

static void a_cancelled_caller_stops_waiting(void **state)
{
    (void)state;
    lk_admit       admit;
    lk_table_locks locks;
    lk_table_lock *held = NULL, *more = NULL;
    lk_cancel      cancel = {.set = true};
    lk_err         err = {0};
    lk_admit_init(&admit, lk_clock_real(), 1, 100);
    lk_table_locks_init(&locks, lk_clock_real());
    assert_int_equal(lk_admit_enter(&admit, 1, in_ms(20), NULL, &err), LK_OK);
    assert_int_equal(lk_admit_enter(&admit, 1, in_ms(60000), &cancel, &err), LK_E_CANCELLED);
    assert_int_equal(lk_table_locks_take(&locks, one, in_ms(20), NULL, &held, &err), LK_OK);
    assert_int_equal(lk_table_locks_take(&locks, one, in_ms(60000), &cancel, &more, &err), LK_E_CANCELLED);
    lk_table_locks_release(&locks, held);
    lk_admit_leave(&admit, 1);
    lk_table_locks_deinit(&locks);
    lk_admit_deinit(&admit);
}

static void tables_are_held_one_by_one(void **state)
{
    (void)state;
    lk_table_locks locks;
    lk_table_lock *a = NULL, *b = NULL, *c = NULL;
    lk_err         err = {0};
    lk_table_locks_init(&locks, lk_clock_real());
    assert_int_equal(lk_table_locks_take(&locks, one, in_ms(20), NULL, &a, &err), LK_OK);
    assert_int_equal(lk_table_locks_take(&locks, two, in_ms(20), NULL, &b, &err), LK_OK);
    assert_int_equal(lk_table_locks_take(&locks, one, in_ms(20), NULL, &c, &err), LK_E_APPEND_IN_PROGRESS);
    assert_int_equal(lk_table_locks_take(&locks, one, 0, NULL, &c, &err), LK_E_APPEND_IN_PROGRESS);
    lk_table_locks_release(&locks, a);
    assert_int_equal(lk_table_locks_take(&locks, one, in_ms(20), NULL, &c, &err), LK_OK);
    lk_table_locks_release(&locks, c);
    lk_table_locks_release(&locks, b);
    lk_table_locks_release(&locks, NULL);
    lk_table_locks_deinit(&locks);
}

enum { THREADS = 6, TURNS = 300 };

typedef struct shared {
    lk_admit       admit;
    lk_table_locks locks;
    int            unguarded; /* guarded by the table's lock alone: TSan sees if it does not guard */
    lk_rc          rc;
} shared;

static void take_turns(void *context)
{
    shared *s = context;
    for (int i = 0; i < TURNS; i++) {
        lk_err         err = {0};
        lk_table_lock *lock = NULL;
        if (lk_admit_enter(&s->admit, 10, in_ms(60000), NULL, &err) != LK_OK ||
            lk_table_locks_take(&s->locks, one, in_ms(60000), NULL, &lock, &err) != LK_OK) {
            lk_assert_failed("a turn in time", __FILE__, __LINE__);
        }
        s->unguarded++;
        lk_table_locks_release(&s->locks, lock);
        lk_admit_leave(&s->admit, 10);
    }
}

static void nobody_is_lost_among_many(void **state)
{
    (void)state;
    shared    s = {0};
    lk_thread threads[THREADS];
    lk_err    err = {0};
    lk_admit_init(&s.admit, lk_clock_real(), 3, 25);
    lk_table_locks_init(&s.locks, lk_clock_real());
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(lk_thread_start(&threads[i], "t", take_turns, &s, &err), LK_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        lk_thread_join(&threads[i]);
    }
    assert_int_equal(s.unguarded, THREADS * TURNS);
    lk_table_locks_deinit(&s.locks);
    lk_admit_deinit(&s.admit);
}

static void leave_later(void *context)
{
    lk_clock_sleep_ms(lk_clock_real(), 30);
    lk_admit_leave(context, 5);
}

static void closing_waits_for_those_inside_and_refuses_newcomers(void **state)
{
    (void)state;
    lk_admit  admit;
    lk_thread thread;
    lk_err    err = {0};
    lk_admit_init(&admit, lk_clock_real(), 2, 100);
    assert_int_equal(lk_admit_enter(&admit, 5, in_ms(20), NULL, &err), LK_OK);
    assert_int_equal(lk_thread_start(&thread, "leave", leave_later, &admit, &err), LK_OK);
    lk_admit_close(&admit);
    assert_int_equal(lk_admit_running(&admit), 0);
    assert_int_equal(lk_admit_enter(&admit, 5, in_ms(20), NULL, &err), LK_E_SHUTTING_DOWN);
    lk_thread_join(&thread);
    lk_admit_deinit(&admit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_house_refuses_after_the_deadline_and_takes_in_after_a_leave),
        cmocka_unit_test(a_cancelled_caller_stops_waiting),
        cmocka_unit_test(tables_are_held_one_by_one),
        cmocka_unit_test(nobody_is_lost_among_many),
        cmocka_unit_test(closing_waits_for_those_inside_and_refuses_newcomers),
    };
    return cmocka_run_group_tests_name("admit", tests, NULL, NULL);
}
