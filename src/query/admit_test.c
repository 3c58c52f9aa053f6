/* admit_test.c - slots are never exceeded, never lost, and one tenant cannot starve another. LK_TSAN */
#include "query/admit.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void a_full_gate_refuses_after_the_wait_and_takes_again_when_freed(void **state)
{
    (void)state;
    lk_err        err = {0};
    lk_admission *a = lk_admission_open(1, 1, 20);
    lk_permit    *first = NULL, *second = NULL;
    assert_int_equal(lk_admission_take(a, LK_LITERAL("t"), NULL, &first, &err), LK_OK);
    assert_int_equal(lk_admission_take(a, LK_LITERAL("u"), NULL, &second, &err), LK_E_QUERY_SLOTS);
    lk_permit_give(first);
    assert_int_equal(lk_admission_take(a, LK_LITERAL("u"), NULL, &second, &err), LK_OK);
    lk_permit_give(second);
    lk_admission_close(a);
}

static void a_full_tenant_does_not_stop_another(void **state)
{
    (void)state;
    lk_err        err = {0};
    lk_admission *a = lk_admission_open(3, 1, 20);
    lk_permit    *first = NULL, *second = NULL, *third = NULL;
    assert_int_equal(lk_admission_take(a, LK_LITERAL("t"), NULL, &first, &err), LK_OK);
    assert_int_equal(lk_admission_take(a, LK_LITERAL("t"), NULL, &second, &err), LK_E_TENANT_SLOTS);
    assert_int_equal(lk_admission_take(a, LK_LITERAL("u"), NULL, &third, &err), LK_OK);
    lk_permit_give(first);
    lk_permit_give(third);
    lk_admission_close(a);
}

static void a_cancelled_waiter_leaves(void **state)
{
    (void)state;
    lk_err        err = {0};
    lk_cancel     cancel = {.set = true};
    lk_admission *a = lk_admission_open(1, 1, 60000);
    lk_permit    *first = NULL, *second = NULL;
    assert_int_equal(lk_admission_take(a, LK_LITERAL("t"), NULL, &first, &err), LK_OK);
    assert_int_equal(lk_admission_take(a, LK_LITERAL("t"), &cancel, &second, &err), LK_E_CANCELLED);
    lk_permit_give(first);
    assert_int_equal(lk_admission_running(a), 0);
    lk_admission_close(a);
}

static void a_stopped_gate_takes_nobody(void **state)
{
    (void)state;
    lk_err        err = {0};
    lk_admission *a = lk_admission_open(1, 1, 20);
    lk_permit    *permit = NULL;
    lk_admission_stop(a);
    assert_int_equal(lk_admission_take(a, LK_LITERAL("t"), NULL, &permit, &err), LK_E_SHUTTING_DOWN);
    lk_admission_close(a);
}

enum { CROWD = 8, ROUNDS = 200, SLOTS = 3 };

typedef struct crowd {
    lk_admission *admission;
    _Atomic int   inside, most, done;
} crowd;

static void visit(void *context)
{
    crowd *c = context;
    for (int i = 0; i < ROUNDS; i++) {
        lk_err     err = {0};
        lk_permit *permit = NULL;
        lk_bytes   who = i % 2 == 0 ? LK_LITERAL("even") : LK_LITERAL("odd");
        if (lk_admission_take(c->admission, who, NULL, &permit, &err) == LK_OK) {
            int now = ++c->inside, most = c->most;
            while (now > most && !__atomic_compare_exchange_n((int *)&c->most, &most, now, false,
                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
            c->inside--;
            c->done++;
            lk_permit_give(permit);
        }
    }
}

static void a_crowd_is_all_served_and_never_too_many_at_once(void **state)
{
    (void)state;
    lk_err    err = {0};
    crowd     c = {.admission = lk_admission_open(SLOTS, 2, 60000)};
    lk_thread threads[CROWD] = {0};
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(lk_thread_start(&threads[i], "visit", visit, &c, &err), LK_OK);
    }
    for (int i = 0; i < CROWD; i++) {
        lk_thread_join(&threads[i]);
    }
    assert_int_equal(c.done, CROWD * ROUNDS);
    assert_in_range(c.most, 1, SLOTS);
    assert_int_equal(lk_admission_running(c.admission), 0);
    lk_admission_close(c.admission);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_gate_refuses_after_the_wait_and_takes_again_when_freed),
        cmocka_unit_test(a_full_tenant_does_not_stop_another),
        cmocka_unit_test(a_cancelled_waiter_leaves),
        cmocka_unit_test(a_stopped_gate_takes_nobody),
        cmocka_unit_test(a_crowd_is_all_served_and_never_too_many_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
