/* fault_test.c - the armed call, the seeded chance, and the hook. */
#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void only_the_armed_call_meets_its_fault(void **state)
{
    lk_fault_plan plan;
    lk_fault_plan_init(&plan);
    assert_int_equal(lk_fault_plan_next(&plan, "get"), LK_FAULT_NONE);
    lk_fault_plan_arm(&plan, LK_FAULT_LOST, 2);
    assert_int_equal(lk_fault_plan_next(&plan, "get"), LK_FAULT_NONE);
    assert_int_equal(lk_fault_plan_next(&plan, "get"), LK_FAULT_NONE);
    assert_false(lk_fault_plan_fired(&plan));
    assert_int_equal(lk_fault_plan_next(&plan, "get"), LK_FAULT_LOST);
    assert_true(lk_fault_plan_fired(&plan));
    assert_int_equal(lk_fault_plan_next(&plan, "get"), LK_FAULT_NONE);
    assert_int_equal(lk_fault_plan_calls(&plan), 5);
    lk_fault_plan_arm(&plan, LK_FAULT_LOST, -1);
    assert_false(lk_fault_plan_fired(&plan));
    assert_int_equal(lk_fault_plan_next(&plan, "get"), LK_FAULT_NONE);
    assert_int_equal(lk_fault_plan_next(NULL, "get"), LK_FAULT_NONE);
    lk_fault_plan_deinit(&plan);
}

static void one_seed_gives_one_sequence_of_the_kinds_asked_for(void **state)
{
    unsigned      seen[LK_FAULT_COUNT] = {0};
    uint32_t      kinds = 1u << LK_FAULT_LOST | 1u << LK_FAULT_REPLY_LOST;
    lk_fault_plan a, b;
    lk_fault_plan_init(&a);
    lk_fault_plan_init(&b);
    lk_fault_plan_chance(&a, 200, kinds, 9);
    lk_fault_plan_chance(&b, 200, kinds, 9);
    for (int i = 0; i < 10000; i++) {
        lk_fault kind = lk_fault_plan_next(&a, "put");
        assert_int_equal(kind, lk_fault_plan_next(&b, "put"));
        seen[kind]++;
    }
    assert_in_range(seen[LK_FAULT_LOST], 850, 1150); /* 1000, five standard deviations of 30 */
    assert_in_range(seen[LK_FAULT_REPLY_LOST], 850, 1150);
    assert_int_equal(seen[LK_FAULT_NONE] + seen[LK_FAULT_LOST] + seen[LK_FAULT_REPLY_LOST], 10000);
    lk_fault_plan_deinit(&a);
    lk_fault_plan_deinit(&b);
}

static void note(void *context, const char *call)
{
    lk_assert_no_mutex();
    *(const char **)context = call;
}

static void the_hook_sees_each_call(void **state)
{
    const char   *last = NULL;
    lk_fault_plan plan;
    lk_fault_plan_init(&plan);
    lk_fault_plan_hook(&plan, note, &last);
    assert_int_equal(lk_fault_plan_next(&plan, "scan"), LK_FAULT_NONE);
    assert_string_equal(last, "scan");
    lk_fault_plan_deinit(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_armed_call_meets_its_fault),
        cmocka_unit_test(one_seed_gives_one_sequence_of_the_kinds_asked_for),
        cmocka_unit_test(the_hook_sees_each_call),
    };
    return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
