/* faulty_test.c - what each fault does to a KV and tells the caller. */
#include "kv/faulty.h"

#include "kv/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static lk_kv        *under, *kv;
static lk_fault_plan plan;

/* kv fails by plan; under is what it really holds. */
static int set_up(void **state)
{
    lk_fault_plan_init(&plan);
    under = lk_kv_mem_open(NULL);
    kv = lk_kv_faulty_new(under, &plan);
    return 0;
}

static int tear_down(void **state)
{
    lk_kv_close(kv);
    lk_fault_plan_deinit(&plan);
    return 0;
}

static lk_rc create(const char *key, bool *applied, lk_err *err)
{
    lk_bytes     value = LK_LITERAL("v");
    lk_kv_change change = {.key = lk_bytes_of(key), .value = &value};
    lk_kv_write  write = {.changes = &change, .change_count = 1};
    return lk_kv_put(kv, &write, applied, err);
}

static bool exists(const char *key)
{
    lk_err   err = {0};
    lk_arena arena = {0};
    lk_bytes value = {0};
    bool     found = false;
    assert_int_equal(lk_kv_get(under, lk_bytes_of(key), &arena, &value, &found, &err), LK_OK);
    lk_arena_close(&arena);
    return found;
}

static void each_fault_has_its_error_and_its_effect_on_a_write(void **state)
{
    static const struct {
        const char *key;
        lk_fault    fault;
        lk_rc       rc;
        bool        maybe_applied, exists;
    } cases[] = {
        {"a", LK_FAULT_LOST, LK_E_KV_UNAVAILABLE, true, false},
        {"b", LK_FAULT_REPLY_LOST, LK_E_KV_UNAVAILABLE, true, true},
        {"c", LK_FAULT_TORN, LK_E_KV_UNAVAILABLE, true, false},
        {"d", LK_FAULT_FULL, LK_E_STORE_FULL, false, false},
        {"e", LK_FAULT_DENIED, LK_E_IO, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_err err = {0};
        bool   applied = false;
        lk_fault_plan_arm(&plan, cases[i].fault, 0);
        assert_int_equal(create(cases[i].key, &applied, &err), cases[i].rc);
        assert_false(applied); /* an error is never a yes or a no */
        assert_int_equal(err.maybe_applied, cases[i].maybe_applied);
        assert_int_equal(exists(cases[i].key), cases[i].exists);
        assert_int_equal(create(cases[i].key, &applied, &err), LK_OK);
        assert_int_equal(applied, !cases[i].exists);
    }
}

static void reads_fail_without_a_maybe(void **state)
{
    lk_err      err = {0};
    lk_arena    arena = {0};
    lk_bytes    value = {0}, next = {0};
    lk_kv_item *items = NULL;
    size_t      count = 0;
    bool        found = false;
    lk_fault_plan_arm(&plan, LK_FAULT_REPLY_LOST, 0);
    assert_int_equal(lk_kv_get(kv, LK_LITERAL("k"), &arena, &value, &found, &err), LK_E_KV_UNAVAILABLE);
    assert_false(err.maybe_applied);
    lk_fault_plan_arm(&plan, LK_FAULT_LOST, 0);
    assert_int_equal(lk_kv_scan(kv, LK_LITERAL("k"), (lk_bytes){0}, 1, &arena, &items, &count, &next, &err),
        LK_E_KV_UNAVAILABLE);
    assert_false(err.maybe_applied);
    lk_arena_close(&arena);
}

static void a_seed_decides_which_calls_fail(void **state)
{
    uint64_t failed[2] = {0};
    for (int run = 0; run < 2; run++) {
        lk_fault_plan_chance(&plan, 300, 1u << LK_FAULT_LOST, 2672);
        for (int i = 0; i < 64; i++) {
            lk_err err = {0};
            bool   applied = false;
            failed[run] |= (uint64_t)(create("k", &applied, &err) != LK_OK) << i;
        }
    }
    assert_int_equal(failed[0], failed[1]);
    assert_int_not_equal(failed[0], 0);
    assert_int_not_equal(failed[0], UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            each_fault_has_its_error_and_its_effect_on_a_write, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_fail_without_a_maybe, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_seed_decides_which_calls_fail, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("faulty kv", tests, NULL, NULL);
}
