/* lease_test.c - who may write, round by round, on clocks that are moved by hand. */
#include "meta/lease.h"

#include "base/limits.h"
#include "kv/mem.h"
#include "meta/elect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct fixture {
    lk_kv          *kv;
    lk_manual_clock clock;
    lk_arena        arena;
    lk_err          err;
    lk_fault_plan   plan;
} fixture;

static void open_fixture(fixture *f)
{
    *f = (fixture){0};
    lk_fault_plan_init(&f->plan);
    f->kv = lk_kv_mem_open(&f->plan);
    lk_manual_clock_init(&f->clock, 1764500000000);
    f->clock.monotonic_ms = 5000;
}

static void close_fixture(fixture *f)
{
    lk_kv_close(f->kv);
    lk_fault_plan_deinit(&f->plan);
    lk_arena_close(&f->arena);
}

static void advance(fixture *f, uint64_t ms)
{
    f->clock.wall_ms += ms;
    f->clock.monotonic_ms += ms;
}

static lk_lease_role round_of(fixture *f, lk_lease *lease)
{
    f->err = (lk_err){0};
    assert_int_equal(lk_lease_round(lease, &f->err), LK_OK);
    return lease->role;
}

static lk_bytes stored(fixture *f, lk_bytes key)
{
    lk_bytes value = {0};
    bool     found = false;
    assert_int_equal(lk_kv_get(f->kv, key, &f->arena, &value, &found, &f->err), LK_OK);
    return found ? value : (lk_bytes){0};
}

static void store(fixture *f, lk_bytes key, const char *text)
{
    bool               applied = false;
    lk_bytes           value = lk_bytes_of(text);
    const lk_kv_change change = {.key = key, .value = &value, .any = true};
    const lk_kv_write  write = {.changes = &change, .change_count = 1};
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_OK);
}

static void the_first_installs_and_a_renewal_leaves_the_leader_record_alone(void **state)
{
    (void)state;
    fixture  f;
    lk_lease a;
    open_fixture(&f);
    lk_lease_init(&a, f.kv, &f.clock.base, LK_LITERAL("a"), false);
    assert_int_equal(round_of(&f, &a), LK_LEASE_LEADER);
    assert_int_equal(a.epoch, 1);
    assert_int_equal(a.deadline_ms, 5000 + LK_LEASE_TTL_MS);
    lk_bytes leader = stored(&f, LK_LEASE_KEY), beat = stored(&f, LK_LEASE_HEARTBEAT_KEY);
    assert_true(lk_bytes_equal(leader, LK_LITERAL("{\"holder\":\"a\",\"epoch\":1}")));
    assert_true(lk_bytes_equal(leader, lk_buf_view(&a.guard)));
    advance(&f, LK_LEASE_RENEW_MS);
    assert_int_equal(round_of(&f, &a), LK_LEASE_LEADER);
    assert_true(lk_bytes_equal(leader, stored(&f, LK_LEASE_KEY)));
    assert_false(lk_bytes_equal(beat, stored(&f, LK_LEASE_HEARTBEAT_KEY)));
    advance(&f, 100 * LK_LEASE_TTL_MS); /* expired, and nobody took it: still ours, same epoch */
    assert_int_equal(round_of(&f, &a), LK_LEASE_LEADER);
    assert_int_equal(a.epoch, 1);
    lk_lease_deinit(&a);
    close_fixture(&f);
}

static void a_follower_steals_after_watching_one_heartbeat_for_a_whole_ttl(void **state)
{
    (void)state;
    fixture  f;
    lk_lease a, b;
    open_fixture(&f);
    lk_lease_init(&a, f.kv, &f.clock.base, LK_LITERAL("a"), false);
    lk_lease_init(&b, f.kv, &f.clock.base, LK_LITERAL("b"), false);
    assert_int_equal(round_of(&f, &a), LK_LEASE_LEADER);
    assert_int_equal(round_of(&f, &b), LK_LEASE_FOLLOWER);
    for (int i = 0; i < 5; i++) { /* as long as it renews, nobody steals */
        advance(&f, LK_LEASE_TTL_MS - 1);
        assert_int_equal(round_of(&f, &a), LK_LEASE_LEADER);
        assert_int_equal(round_of(&f, &b), LK_LEASE_FOLLOWER);
    }
    advance(&f, LK_LEASE_TTL_MS - 1);
    assert_int_equal(round_of(&f, &b), LK_LEASE_FOLLOWER);
    advance(&f, 1);
    assert_int_equal(round_of(&f, &b), LK_LEASE_LEADER);
    assert_int_equal(b.epoch, 2);
    assert_true(f.clock.monotonic_ms >= a.deadline_ms); /* the old authority had ended */
    assert_int_equal(round_of(&f, &a), LK_LEASE_FOLLOWER);
    lk_lease_deinit(&a);
    lk_lease_deinit(&b);
    close_fixture(&f);
}

static void a_jump_of_the_wall_clock_steals_nothing(void **state)
{
    (void)state;
    fixture  f;
    lk_lease a, b;
    open_fixture(&f);
    lk_lease_init(&a, f.kv, &f.clock.base, LK_LITERAL("a"), false);
    lk_lease_init(&b, f.kv, &f.clock.base, LK_LITERAL("b"), false);
    assert_int_equal(round_of(&f, &a), LK_LEASE_LEADER);
    assert_int_equal(round_of(&f, &b), LK_LEASE_FOLLOWER);
    f.clock.wall_ms += 3600 * 1000;
    assert_int_equal(round_of(&f, &b), LK_LEASE_FOLLOWER);
    lk_lease_deinit(&a);
    lk_lease_deinit(&b);
    close_fixture(&f);
}

static void a_resigned_lease_is_taken_at_once(void **state)
{
    (void)state;
    fixture  f;
    lk_lease a, b;
    open_fixture(&f);
    lk_lease_init(&a, f.kv, &f.clock.base, LK_LITERAL("a"), false);
    lk_lease_init(&b, f.kv, &f.clock.base, LK_LITERAL("b"), false);
    assert_int_equal(round_of(&f, &a), LK_LEASE_LEADER);
    assert_int_equal(lk_lease_resign(&b, &f.err), LK_OK); /* not b's to give */
    assert_int_equal(round_of(&f, &b), LK_LEASE_FOLLOWER);
    assert_int_equal(lk_lease_resign(&a, &f.err), LK_OK);
    assert_int_equal(round_of(&f, &b), LK_LEASE_LEADER);
    assert_int_equal(b.epoch, 2);
    lk_lease_deinit(&a);
    lk_lease_deinit(&b);
    close_fixture(&f);
}

static void the_owner_of_the_store_takes_over_from_its_dead_predecessor_at_once(void **state)
{
    (void)state;
    fixture  f;
    lk_lease a, b;
    open_fixture(&f);
    lk_lease_init(&a, f.kv, &f.clock.base, LK_LITERAL("a"), true);
    lk_lease_init(&b, f.kv, &f.clock.base, LK_LITERAL("b"), true);
    assert_int_equal(round_of(&f, &a), LK_LEASE_LEADER);
    assert_int_equal(round_of(&f, &b), LK_LEASE_LEADER);
    assert_int_equal(b.epoch, 2);
    lk_lease_deinit(&a);
    lk_lease_deinit(&b);
    close_fixture(&f);
}

static void records_that_cannot_be_read_and_spent_epochs_are_never_overwritten(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"{\"holder\":\"x\"}", "{\"holder\":\"x\",\"epoch\":1,\"expires_at_ms\":0}"},
        {"{\"holder\":\"x\",\"epoch\":1}", "garbage"},
        {"{\"holder\":\"x\",\"epoch\":1,\"new\":1}", "{\"holder\":\"x\",\"epoch\":1,\"expires_at_ms\":0}"},
        {"{\"holder\":\"x\",\"epoch\":18446744073709551615}",
            "{\"holder\":\"x\",\"epoch\":18446744073709551615,\"expires_at_ms\":0}"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fixture  f;
        lk_lease a;
        open_fixture(&f);
        store(&f, LK_LEASE_KEY, bad[i][0]);
        store(&f, LK_LEASE_HEARTBEAT_KEY, bad[i][1]);
        lk_lease_init(&a, f.kv, &f.clock.base, LK_LITERAL("a"), true);
        assert_int_equal(lk_lease_round(&a, &f.err), LK_E_CORRUPT_RECORD);
        assert_int_equal(a.role, LK_LEASE_UNKNOWN);
        assert_true(lk_bytes_equal(stored(&f, LK_LEASE_KEY), lk_bytes_of(bad[i][0])));
        lk_lease_deinit(&a);
        close_fixture(&f);
    }
}

static void a_fault_in_a_round_is_not_leadership_and_the_next_round_mends_it(void **state)
{
    (void)state;
    const lk_fault kinds[] = {LK_FAULT_LOST, LK_FAULT_REPLY_LOST};
    for (size_t k = 0; k < 2; k++) {
        bool fired = true;
        for (int n = 0; fired; n++) {
            fixture  f;
            lk_lease a;
            open_fixture(&f);
            lk_lease_init(&a, f.kv, &f.clock.base, LK_LITERAL("a"), false);
            lk_fault_plan_arm(&f.plan, kinds[k], n);
            lk_rc rc = lk_lease_round(&a, &f.err);
            fired = lk_fault_plan_fired(&f.plan);
            assert_int_equal(rc == LK_OK, !fired);
            assert_int_equal(a.role == LK_LEASE_LEADER, !fired);
            lk_fault_plan_arm(&f.plan, LK_FAULT_NONE, -1);
            advance(&f, 1);
            assert_int_equal(round_of(&f, &a), LK_LEASE_LEADER);
            assert_int_equal(a.epoch, 1);
            lk_lease_deinit(&a);
            close_fixture(&f);
        }
    }
}

/* A store that hangs: the round itself takes longer than a campaign may. */
static void hang(void *context, const char *call)
{
    (void)call;
    ((fixture *)context)->clock.monotonic_ms += LK_LEASE_CAMPAIGN_TIMEOUT_MS;
}

static void a_round_that_took_too_long_gives_no_authority(void **state)
{
    (void)state;
    fixture  f;
    lk_lease a;
    open_fixture(&f);
    lk_lease_init(&a, f.kv, &f.clock.base, LK_LITERAL("a"), false);
    lk_fault_plan_hook(&f.plan, hang, &f);
    assert_int_equal(lk_lease_round(&a, &f.err), LK_E_KV_UNAVAILABLE);
    assert_int_equal(a.role, LK_LEASE_UNKNOWN);
    lk_lease_deinit(&a);
    close_fixture(&f);
}

static void evidence_ends_at_the_deadline_by_itself(void **state)
{
    (void)state;
    fixture  f;
    lk_elect a;
    lk_bytes guard = {0};
    uint64_t epoch = 0;
    open_fixture(&f);
    lk_elect_init(&a, f.kv, &f.clock.base, LK_LITERAL("a"), false, NULL, NULL);
    assert_false(lk_elect_evidence(&a, &f.arena, &guard, &epoch));
    lk_elect_round(&a);
    assert_true(lk_elect_evidence(&a, &f.arena, &guard, &epoch));
    assert_int_equal(epoch, 1);
    advance(&f, LK_LEASE_TTL_MS - 1);
    assert_true(lk_elect_evidence(&a, &f.arena, &guard, &epoch));
    advance(&f, 1); /* the thread is stuck: no round comes */
    assert_false(lk_elect_evidence(&a, &f.arena, &guard, &epoch));
    lk_elect_round(&a);
    assert_true(lk_elect_evidence(&a, &f.arena, &guard, &epoch));
    lk_elect_deposed(&a, 7); /* of another epoch: nothing */
    assert_true(lk_elect_evidence(&a, &f.arena, &guard, &epoch));
    lk_elect_deposed(&a, 1);
    assert_false(lk_elect_evidence(&a, &f.arena, &guard, &epoch));
    lk_elect_deinit(&a);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_installs_and_a_renewal_leaves_the_leader_record_alone),
        cmocka_unit_test(a_follower_steals_after_watching_one_heartbeat_for_a_whole_ttl),
        cmocka_unit_test(a_jump_of_the_wall_clock_steals_nothing),
        cmocka_unit_test(a_resigned_lease_is_taken_at_once),
        cmocka_unit_test(the_owner_of_the_store_takes_over_from_its_dead_predecessor_at_once),
        cmocka_unit_test(records_that_cannot_be_read_and_spent_epochs_are_never_overwritten),
        cmocka_unit_test(a_fault_in_a_round_is_not_leadership_and_the_next_round_mends_it),
        cmocka_unit_test(a_round_that_took_too_long_gives_no_authority),
        cmocka_unit_test(evidence_ends_at_the_deadline_by_itself),
    };
    return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
