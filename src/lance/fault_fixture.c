/* fault_fixture.c - see fault_fixture.h. */
#include "lance/fault_fixture.h"

#include "io/faulty.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool run(void (*round)(fixture_faults *f), fixture_faults *f)
{
    f->plain = fixture_scratch_open(&f->scratch);
    f->env = fixture_env(f->plain);
    lk_fault_plan_init(&f->plan);
    f->faulty = lk_faulty_store_new(fixture_scratch_reopen(&f->scratch), &f->plan);
    f->faulty_env = fixture_env(f->faulty);
    round(f);
    lk_store_close(f->faulty);
    lk_fault_plan_deinit(&f->plan);
    lk_store_close(f->plain);
    fixture_scratch_remove(&f->scratch);
    return f->fired;
}

void fixture_every_call_fails(void (*round)(fixture_faults *f), const void *context, int64_t calls_min)
{
    for (int kind = LK_FAULT_LOST; kind < LK_FAULT_COUNT; kind++) {
        int64_t calls = 0;
        for (bool fired = true; fired; calls += fired) {
            fixture_faults f = {.kind = (lk_fault)kind, .calls_until = calls, .context = context};
            fired = run(round, &f);
        }
        assert_true(calls > calls_min);
    }
}

void fixture_arm(fixture_faults *f)
{
    lk_fault_plan_arm(&f->plan, f->kind, f->calls_until);
}

bool fixture_disarm(fixture_faults *f, lk_rc rc, const lk_err *err)
{
    f->fired = lk_fault_plan_fired(&f->plan);
    assert_int_equal(rc == LK_OK, !f->fired); /* never swallowed, never invented */
    lk_fault_plan_arm(&f->plan, f->kind, -1);
    return rc != LK_OK && !err->maybe_applied;
}
