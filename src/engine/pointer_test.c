/* pointer_test.c - the states of the manifest pointer, its races and its deletion, over the memory KV. */
#include "engine/pointer.h"

#include "kv/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define BASE  LK_LITERAL("/d/t.lance")
#define GUARD LK_LITERAL("election/leader")

typedef struct fixture {
    lk_kv   *kv;
    lk_arena arena;
    lk_err   err;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->kv = lk_kv_mem_open(NULL);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    lk_kv_close(f->kv);
    lk_arena_close(&f->arena);
    free(f);
    return 0;
}

static void put(fixture *f, lk_bytes key, lk_bytes value)
{
    bool               applied = false;
    const lk_kv_change change = {.key = key, .value = &value, .any = true};
    assert_int_equal(
        lk_kv_put(f->kv, &(lk_kv_write){.changes = &change, .change_count = 1}, &applied, &f->err), LK_OK);
}

static lk_pointer load(fixture *f)
{
    lk_pointer p;
    assert_int_equal(lk_pointer_load(f->kv, BASE, &f->arena, &p, &f->err), LK_OK);
    return p;
}

static bool claim_on(
    fixture *f, const lk_pointer *on, const char *incarnation, uint64_t version, const char *path)
{
    bool                   applied = false;
    const lk_pointer_claim claim = {
        .base = BASE, .incarnation = lk_bytes_of(incarnation), .version = version, .path = lk_bytes_of(path)};
    assert_int_equal(lk_pointer_claim_next(f->kv, on, &claim, &applied, &f->err), LK_OK);
    return applied;
}

static bool claim(fixture *f, const char *incarnation, uint64_t version, const char *path)
{
    lk_pointer on = load(f);
    return claim_on(f, &on, incarnation, version, path);
}

static bool resolves_to(fixture *f, const char *incarnation, uint64_t version, const char *path)
{
    lk_bytes got = {0};
    bool     found = false;
    assert_int_equal(
        lk_pointer_resolve(f->kv, BASE, lk_bytes_of(incarnation), version, &f->arena, &got, &found, &f->err),
        LK_OK);
    return found && lk_bytes_equal(got, lk_bytes_of(path));
}

static void versions_follow_each_other_and_are_archived_under_their_final_names(void **state)
{
    fixture *f = *state;
    assert_true(claim(f, "a", 1, "_versions/.tmp-1"));
    assert_true(resolves_to(f, "a", 1, "_versions/.tmp-1"));
    assert_true(claim(f, "a", 2, "_versions/.tmp-2"));
    assert_true(resolves_to(f, "a", 2, "_versions/.tmp-2"));
    /* 2^64 - 1 - 1, by hand: Lance's V2 naming. */
    assert_true(resolves_to(f, "a", 1, "_versions/18446744073709551614.manifest"));
    assert_false(resolves_to(f, "a", 3, ""));
    assert_false(resolves_to(f, "b", 1, "_versions/18446744073709551614.manifest"));
}

static void of_two_claims_of_one_version_one_wins(void **state)
{
    fixture *f = *state;
    assert_true(claim(f, "a", 1, "one"));
    lk_pointer seen = load(f);
    assert_true(claim_on(f, &seen, "a", 2, "two"));
    assert_false(claim_on(f, &seen, "a", 2, "other"));
    assert_true(resolves_to(f, "a", 2, "two"));
}

static void a_claim_that_does_not_follow_is_refused(void **state)
{
    fixture *f = *state;
    bool     applied = true;
    assert_true(claim(f, "a", 1, "one"));
    lk_pointer     on = load(f);
    const uint64_t wrong[] = {0, 1, 3, UINT64_MAX};
    for (size_t i = 0; i < 4; i++) {
        const lk_pointer_claim c = {
            .base = BASE, .incarnation = LK_LITERAL("a"), .version = wrong[i], .path = LK_LITERAL("p")};
        f->err = (lk_err){0};
        assert_int_equal(lk_pointer_claim_next(f->kv, &on, &c, &applied, &f->err), LK_E_INVALID_REQUEST);
        assert_false(applied);
    }
}

static void a_lost_guard_or_condition_changes_nothing(void **state)
{
    fixture *f = *state;
    bool     applied = true;
    lk_bytes value = LK_LITERAL("v"), absent = LK_LITERAL("x");
    put(f, GUARD, LK_LITERAL("me"));
    const lk_kv_change with = {.key = LK_LITERAL("k"), .value = &value};
    lk_pointer_claim   c = {.base = BASE,
          .incarnation = LK_LITERAL("a"),
          .version = 1,
          .path = LK_LITERAL("p"),
          .guard_key = GUARD,
          .guard_value = LK_LITERAL("other"),
          .with = &with,
          .with_count = 1};
    lk_pointer         on = load(f);
    assert_int_equal(lk_pointer_claim_next(f->kv, &on, &c, &applied, &f->err), LK_OK);
    assert_false(applied);
    c.guard_value = LK_LITERAL("me");
    const lk_kv_change failing = {.key = LK_LITERAL("k"), .expected = &absent, .value = &value};
    c.with = &failing;
    assert_int_equal(lk_pointer_claim_next(f->kv, &on, &c, &applied, &f->err), LK_OK);
    assert_false(applied);
    assert_int_equal(load(f).state, LK_POINTER_ABSENT);
    c.with = &with;
    assert_int_equal(lk_pointer_claim_next(f->kv, &on, &c, &applied, &f->err), LK_OK);
    assert_true(applied);
    bool     found = false;
    lk_bytes got = {0};
    assert_int_equal(lk_kv_get(f->kv, LK_LITERAL("k"), &f->arena, &got, &found, &f->err), LK_OK);
    assert_true(found);
}

static void finalize_moves_the_path_and_only_that(void **state)
{
    fixture *f = *state;
    bool     applied = false;
    assert_true(claim(f, "a", 1, "_versions/.tmp-1"));
    lk_pointer before = load(f);
    assert_int_equal(
        lk_pointer_finalize(f->kv, BASE, &before, (lk_bytes){0}, (lk_bytes){0}, &applied, &f->err), LK_OK);
    assert_true(applied);
    assert_true(resolves_to(f, "a", 1, "_versions/18446744073709551614.manifest"));
    assert_int_equal(
        lk_pointer_finalize(f->kv, BASE, &before, (lk_bytes){0}, (lk_bytes){0}, &applied, &f->err), LK_OK);
    assert_false(applied);
    assert_true(claim(f, "a", 2, "two"));
}

static lk_rc delete (fixture *f, const char *incarnation)
{
    f->err = (lk_err){0};
    return lk_pointer_delete(f->kv, BASE, lk_bytes_of(incarnation), (lk_bytes){0}, (lk_bytes){0}, &f->err);
}

static void delete_leaves_a_mark_and_no_history(void **state)
{
    fixture    *f = *state;
    lk_kv_item *items = NULL;
    size_t      count = 1;
    lk_bytes    next = {0};
    for (uint64_t v = 1; v <= 40; v++) {
        assert_true(claim(f, "a", v, "p"));
    }
    assert_int_equal(delete (f, "b"), LK_E_CONFLICT);
    assert_int_equal(delete (f, "a"), LK_OK);
    assert_int_equal(load(f).state, LK_POINTER_DELETED);
    assert_false(resolves_to(f, "a", 40, "p"));
    assert_int_equal(lk_kv_scan(f->kv, LK_LITERAL("lance-manifest/"), (lk_bytes){0}, 10, &f->arena, &items,
                         &count, &next, &f->err),
        LK_OK);
    assert_int_equal(count, 0);
    assert_int_equal(delete (f, "a"), LK_OK); /* again */
}

static void a_writer_that_slept_through_a_delete_matches_nothing(void **state)
{
    fixture *f = *state;
    assert_true(claim(f, "a", 1, "p"));
    lk_pointer seen = load(f);
    assert_int_equal(delete (f, "a"), LK_OK);
    assert_false(claim_on(f, &seen, "a", 2, "q"));
    bool                   applied = true;
    lk_pointer             deleted = load(f);
    const lk_pointer_claim same = {
        .base = BASE, .incarnation = LK_LITERAL("a"), .version = 1, .path = LK_LITERAL("p")};
    assert_int_equal(lk_pointer_claim_next(f->kv, &deleted, &same, &applied, &f->err), LK_E_INVALID_REQUEST);
    assert_true(claim(f, "b", 1, "p")); /* identical bytes but for the incarnation */
    assert_false(claim_on(f, &seen, "a", 2, "q"));
    assert_int_equal(delete (f, "a"), LK_E_CONFLICT); /* of the old one, late */
    assert_true(resolves_to(f, "b", 1, "p"));
}

/* Every outside call of a delete fails once, in each way; running it again ends it. */
static void any_single_fault_of_a_delete_is_survivable(void **state)
{
    fixture       *f = *state;
    lk_fault_plan  plan;
    const lk_fault kinds[] = {LK_FAULT_LOST, LK_FAULT_REPLY_LOST};
    int            rounds = 0;
    for (size_t k = 0; k < 2; k++) {
        bool fired = true;
        for (int n = 0; fired; n++, rounds++) {
            lk_fault_plan_init(&plan);
            lk_kv_close(f->kv);
            f->kv = lk_kv_mem_open(&plan);
            for (uint64_t v = 1; v <= 20; v++) {
                assert_true(claim(f, "a", v, "p"));
            }
            lk_fault_plan_arm(&plan, kinds[k], n);
            lk_rc rc = delete (f, "a");
            fired = lk_fault_plan_fired(&plan);
            assert_int_equal(rc == LK_OK, !fired);
            lk_fault_plan_arm(&plan, LK_FAULT_NONE, -1);
            assert_int_equal(delete (f, "a"), LK_OK);
            assert_int_equal(load(f).state, LK_POINTER_DELETED);
            lk_kv_close(f->kv);
            lk_fault_plan_deinit(&plan);
            f->kv = lk_kv_mem_open(NULL);
        }
    }
    assert_int_equal(rounds, 2 * (7 + 1)); /* load, mark, two pages of scan and delete, mark; and none */
}

static void a_record_that_is_no_pointer_is_corrupt(void **state)
{
    fixture          *f = *state;
    const char *const bad[] = {"", "{}", "{\"incarnation\":\"a\"}", "{\"incarnation\":\"a\",\"version\":1}",
        "{\"state\":\"gone\",\"incarnation\":\"a\"}", "{\"incarnation\":\"a\",\"version\":-1,\"path\":\"p\"}",
        "{\"incarnation\":\"a\",\"version\":1,\"path\":\"p\",\"more\":1}",
        "{\"state\":\"deleted\",\"incarnation\":\"a\",\"version\":1,\"path\":\"p\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lk_pointer p;
        f->err = (lk_err){0};
        put(f, LK_LITERAL("lance-manifest-latest//d/t.lance"), lk_bytes_of(bad[i]));
        assert_int_equal(lk_pointer_load(f->kv, BASE, &f->arena, &p, &f->err), LK_E_CORRUPT_RECORD);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(versions_follow_each_other_and_are_archived_under_their_final_names),
        CASE(of_two_claims_of_one_version_one_wins),
        CASE(a_claim_that_does_not_follow_is_refused),
        CASE(a_lost_guard_or_condition_changes_nothing),
        CASE(finalize_moves_the_path_and_only_that),
        CASE(delete_leaves_a_mark_and_no_history),
        CASE(a_writer_that_slept_through_a_delete_matches_nothing),
        CASE(any_single_fault_of_a_delete_is_survivable),
        CASE(a_record_that_is_no_pointer_is_corrupt),
    };
    return cmocka_run_group_tests_name("pointer", tests, NULL, NULL);
}
