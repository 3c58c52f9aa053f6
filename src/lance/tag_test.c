/* tag_test.c - tags that are made, moved and deleted, and faults at every step. */
#include "base/fault.h"
#include "io/faulty.h"
#include "lance/refs.h"
#include "lance/table_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NOW_MS = 1000 };

/* A table with the versions 1 to 3. */
static lk_store *table(fixture_scratch *scratch)
{
    lk_store    *store = fixture_scratch_open(scratch);
    lk_lance_env env = fixture_env(store);
    fixture_table(&env, 0, 10, 2);
    return store;
}

static size_t tags(lk_store *store, lk_arena *arena, lk_ref **list)
{
    lk_err err = {0};
    size_t count = 0;
    assert_int_equal(lk_refs_list(store, arena, list, &count, &err), LK_OK);
    return count;
}

static void a_tag_is_made_moved_and_deleted(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = table(&scratch);
    lk_arena        arena = {0};
    lk_err          err = {0};
    lk_ref         *list = NULL;
    lk_manual_clock clock;
    lk_manual_clock_init(&clock, NOW_MS);
    assert_int_equal(lk_tag_create(store, &clock.base, LK_LITERAL("v1.0"), 2, &err), LK_OK);
    assert_int_equal(tags(store, &arena, &list), 1);
    assert_true(lk_bytes_equal(list[0].name, LK_LITERAL("v1.0")));
    assert_int_equal(list[0].version, 2);
    clock.wall_ms += 1500;
    assert_int_equal(lk_tag_move(store, &clock.base, LK_LITERAL("v1.0"), 3, &err), LK_OK);
    assert_int_equal(tags(store, &arena, &list), 1);
    assert_int_equal(list[0].version, 3);
    lk_buf text = fixture_object(store, "_refs/tags/v1.0.json");
    lk_buf_append(&text, "", 1);
    assert_non_null(strstr(text.data, "\"createdAt\":\"1970-01-01T00:00:01.000Z\"")); /* kept */
    assert_non_null(strstr(text.data, "\"updatedAt\":\"1970-01-01T00:00:02.500Z\""));
    lk_buf_deinit(&text);
    assert_int_equal(lk_tag_delete(store, LK_LITERAL("v1.0"), &err), LK_OK);
    assert_int_equal(tags(store, &arena, &list), 0);
    lk_arena_close(&arena);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void a_tag_is_made_once_and_only_of_a_version_that_is_there(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = table(&scratch);
    lk_arena        arena = {0};
    lk_ref         *list = NULL;
    lk_clock       *clock = lk_clock_real();
    lk_bytes        name = LK_LITERAL("keep");
    lk_err          made = {0}, taken = {0}, no_version = {0}, no_move = {0}, no_tag = {0}, no_delete = {0};
    assert_int_equal(lk_tag_create(store, clock, name, 2, &made), LK_OK);
    assert_int_equal(lk_tag_create(store, clock, name, 3, &taken), LK_E_PRECONDITION);
    assert_int_equal(lk_tag_create(store, clock, LK_LITERAL("other"), 4, &no_version), LK_E_NOT_FOUND);
    assert_string_equal(no_version.detail, "there is no version 4");
    assert_int_equal(lk_tag_move(store, clock, name, 9, &no_move), LK_E_NOT_FOUND);
    assert_int_equal(lk_tag_move(store, clock, LK_LITERAL("other"), 1, &no_tag), LK_E_NOT_FOUND);
    assert_string_equal(no_tag.detail, "there is no tag other");
    assert_int_equal(lk_tag_delete(store, LK_LITERAL("other"), &no_delete), LK_E_NOT_FOUND);
    assert_int_equal(tags(store, &arena, &list), 1);
    assert_int_equal(list[0].version, 2);
    lk_arena_close(&arena);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* As the reference answers them (pylance 14), but for letters beyond ASCII, which it takes and we do not. */
static void names_follow_the_rules(void **state)
{
    static const char *const good[] = {"a", "v1.0", "A-b_c.9", "a.lock.b", "-x", "lock"};
    static const char *const bad[] = {
        "", ".a", "a.", "a..b", "a.lock", ".lock", "a/b", "a b", "..", "\xc3\xa9", "a%2Fb"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        lk_err err = {0};
        assert_int_equal(lk_tag_check_name(lk_bytes_of(good[i]), &err), LK_OK);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lk_err err = {0};
        assert_int_equal(lk_tag_check_name(lk_bytes_of(bad[i]), &err), LK_E_INVALID_REQUEST);
        assert_non_null(strstr(err.detail, "a tag's name"));
    }
}

/* Makes v2 or moves it to version 3, with one fault; the tag is then as before or as wanted, and a retry ends it. */
static bool round_with_fault(bool move, lk_fault kind, int64_t calls_until)
{
    fixture_scratch scratch;
    lk_fault_plan   plan;
    lk_store       *plain = table(&scratch);
    lk_arena        arena = {0};
    lk_ref         *list = NULL;
    lk_err          err = {0}, again = {0};
    lk_bytes        name = LK_LITERAL("v2");
    if (move) {
        assert_int_equal(lk_tag_create(plain, lk_clock_real(), name, 2, &err), LK_OK);
    }
    lk_fault_plan_init(&plan);
    lk_store *faulty = lk_faulty_store_new(fixture_scratch_reopen(&scratch), &plan);
    lk_fault_plan_arm(&plan, kind, calls_until);
    lk_rc rc = (move ? lk_tag_move : lk_tag_create)(faulty, lk_clock_real(), name, 3, &err);
    bool  fired = lk_fault_plan_fired(&plan);
    assert_int_equal(rc == LK_OK, !fired);
    lk_fault_plan_arm(&plan, kind, -1);

    size_t count = tags(plain, &arena, &list);
    bool   done = count == 1 && list[0].version == 3;
    assert_true(done || (rc != LK_OK && (move ? count == 1 && list[0].version == 2 : count == 0)));
    assert_false(rc != LK_OK && done && !err.maybe_applied);
    if (!done) {
        assert_int_equal(
            (move ? lk_tag_move : lk_tag_create)(faulty, lk_clock_real(), name, 3, &again), LK_OK);
        assert_int_equal(tags(plain, &arena, &list), 1);
        assert_int_equal(list[0].version, 3);
    }
    lk_arena_close(&arena);
    lk_store_close(faulty);
    lk_fault_plan_deinit(&plan);
    lk_store_close(plain);
    fixture_scratch_remove(&scratch);
    return fired;
}

static void a_tag_survives_a_fault_at_every_store_call(void **state)
{
    for (int kind = LK_FAULT_LOST; kind < LK_FAULT_COUNT; kind++) {
        int64_t made = 0, moved = 0;
        while (round_with_fault(false, (lk_fault)kind, made)) {
            made++;
        }
        while (round_with_fault(true, (lk_fault)kind, moved)) {
            moved++;
        }
        assert_true(made >= 5 && moved >= 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tag_is_made_moved_and_deleted),
        cmocka_unit_test(a_tag_is_made_once_and_only_of_a_version_that_is_there),
        cmocka_unit_test(names_follow_the_rules),
        cmocka_unit_test(a_tag_survives_a_fault_at_every_store_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
