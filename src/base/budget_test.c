/* budget_test.c - limits, parents and undo. LK_TSAN: two threads charge one budget. */
#include "base/budget.h"

#include "base/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_take_beyond_the_limit_is_refused_and_charges_nothing(void **state)
{
    lk_budget root, child;
    lk_err    err = {0};
    lk_budget_init(&root, "root", 100, NULL);
    lk_budget_init(&child, "child", SIZE_MAX, &root);
    assert_int_equal(lk_budget_take(&child, 100, &err), LK_OK);
    assert_int_equal(lk_budget_take(&child, 1, &err), LK_E_LIMIT);
    assert_string_equal(err.context, "budget root: 1 bytes beside 100 of 100");
    assert_int_equal(child.used_bytes, 100);
    assert_int_equal(lk_budget_take(&child, SIZE_MAX, &err), LK_E_LIMIT);
    lk_budget_give(&child, 100);
    assert_int_equal(root.used_bytes, 0);
    assert_int_equal(root.peak_bytes, 100);
    assert_int_equal(child.used_bytes, 0);
}

static void churn(void *context)
{
    lk_err err = {0};
    for (int i = 0; i < 10000; i++) {
        if (lk_budget_take(context, 60, &err) == LK_OK) {
            lk_budget_give(context, 60);
        }
    }
}

static void threads_never_pass_the_limit_together(void **state)
{
    lk_budget budget;
    lk_thread threads[2] = {0};
    lk_err    err = {0};
    lk_budget_init(&budget, "shared", 100, NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lk_thread_start(&threads[i], "churn", churn, &budget, &err), LK_OK);
    }
    for (int i = 0; i < 2; i++) {
        lk_thread_join(&threads[i]);
    }
    assert_int_equal(budget.used_bytes, 0);
    assert_int_equal(budget.peak_bytes, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_take_beyond_the_limit_is_refused_and_charges_nothing),
        cmocka_unit_test(threads_never_pass_the_limit_together),
    };
    return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
