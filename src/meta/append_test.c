/*
 * append_test.c - one append, with every outside call (KV or store) failing once, in each way, and with the
 * process dying at every call; then it is run again, here or by a successor, and must end in one version.
 */
#include "meta/node_fixture.h"

#include "base/limits.h"

/*
 * The outside calls of one append here: 7 reads of the KV (2 by the fixture) and ONE write; of the store, a
 * read of the base manifest and the schema (4), the fragment, settling the head that another process may have left (5), a
 * look ahead, the staging manifest, the final name and sweeping the old staging name.
 */
enum { CALLS = 22, ROWS = 10, SUM = 45 };

static void check_operation(node *n, lk_bytes id, uint64_t version)
{
    lk_operation record;
    lk_bytes     raw = {0};
    bool         found = false;
    lk_bytes     key = lk_operation_key(&n->arena, LK_LITERAL("acme"), the_table, id);
    assert_int_equal(lk_operation_load(n->world->kv, key, &n->arena, &record, &raw, &found, &n->err), LK_OK);
    assert_true(found);
    assert_int_equal(record.result_version, version);
    assert_int_equal(record.base_version, version - 1);
}

/* The call after n others fails. Afterwards the client repeats, and a second operation follows. */
static bool one_fault(lk_fault kind, int n)
{
    world    w;
    node     a;
    uint64_t version = 0;
    world_init(&w);
    node_init(&a, &w, "a");
    assert_int_equal(make_table(&a), LK_OK);
    lk_bytes id = operation_id(&a, 0, 1), next = operation_id(&a, 0, 2);

    arm(&w, kind, n, false);
    lk_rc rc = append_rows(&a, id, digest_a, 0, ROWS, &version);
    bool  fired = disarm(&w);
    if (rc == LK_OK) {
        assert_int_equal(version, 2);
        check_published(&a, 2, ROWS, SUM); /* what was told is so */
    } else {
        assert_true(fired); /* never invented */
    }
    assert_int_equal(append_rows(&a, id, digest_a, 0, ROWS, &version), LK_OK);
    assert_int_equal(version, 2);
    check_published(&a, 2, ROWS, SUM);
    check_operation(&a, id, 2);
    assert_int_equal(append_rows(&a, next, digest_b, ROWS, 1, &version), LK_OK);
    check_published(&a, 3, ROWS + 1, SUM + ROWS);

    node_deinit(&a);
    world_deinit(&w);
    return fired;
}

static void any_single_fault_is_survivable(void **state)
{
    (void)state;
    int rounds = 0;
    for (int n = 0; one_fault(LK_FAULT_LOST, n); n++, rounds++) {}
    for (int n = 0; one_fault(LK_FAULT_REPLY_LOST, n); n++, rounds++) {}
    for (int n = 0; one_fault(LK_FAULT_FULL, n); n++, rounds++) {}
    /* One more outside call per append is a decision: it shows up here. */
    assert_int_equal(rounds, 3 * CALLS);
}

/* K1..K12: the process dies at its n-th call (before or after it had effect); a successor takes over, may
 * recover first, and is asked the same. */
static bool one_death(lk_fault kind, int n, bool recovers, bool other_first)
{
    world        w;
    node         a, b;
    lk_recovered done;
    uint64_t     version = 0, expected = 2;
    world_init(&w);
    node_init(&a, &w, "a");
    assert_int_equal(make_table(&a), LK_OK);
    lk_bytes id = operation_id(&a, 0, 1), other = operation_id(&a, 0, 2);

    arm(&w, kind, n, true);
    bool told = append_rows(&a, id, digest_a, 0, ROWS, &version) == LK_OK;
    bool fired = disarm(&w);
    node_init(&b, &w, "b");
    if (recovers) {
        assert_int_equal(lk_recover_pass(&b.env, true, NULL, &done, &b.err), LK_OK);
        assert_int_equal(done.failed, 0);
    }
    bool committed = published(&b) == 2;
    assert_true(committed || !told);
    if (other_first) { /* somebody else's append must neither wait nor be mixed up */
        assert_int_equal(append_rows(&b, other, digest_b, 1000, 1, &version), LK_OK);
        assert_int_equal(version, committed ? 3 : 2);
        expected = committed ? 2 : 3;
    }
    assert_int_equal(append_rows(&b, id, digest_a, 0, ROWS, &version), LK_OK);
    assert_int_equal(version, expected);
    check_operation(&b, id, expected);
    check_published(&b, other_first ? 3 : 2, other_first ? ROWS + 1 : ROWS, other_first ? SUM + 1000 : SUM);
    assert_int_not_equal(append_rows(&a, id, digest_b, 0, ROWS, &version), LK_OK); /* the dead one, late */

    node_deinit(&b);
    node_deinit(&a);
    world_deinit(&w);
    return fired;
}

static void whatever_call_a_leader_dies_at_its_successor_ends_in_one_version(void **state)
{
    (void)state;
    const lk_fault kinds[] = {LK_FAULT_LOST, LK_FAULT_REPLY_LOST};
    for (unsigned variant = 0; variant < 8; variant++) {
        int n = 0;
        while (one_death(kinds[variant & 1], n, (variant & 2) != 0, (variant & 4) != 0)) {
            n++;
        }
        assert_int_equal(n, CALLS);
    }
}

static void a_repeat_returns_the_version_and_another_payload_is_refused(void **state)
{
    (void)state;
    world    w;
    node     a;
    uint64_t version = 0;
    world_init(&w);
    node_init(&a, &w, "a");
    assert_int_equal(make_table(&a), LK_OK);
    lk_bytes id = operation_id(&a, 0, 1);
    assert_int_equal(append_rows(&a, id, digest_a, 0, ROWS, &version), LK_OK);
    assert_int_equal(append_rows(&a, operation_id(&a, 0, 2), digest_a, 0, 1, &version), LK_OK);
    size_t objects = lk_mem_disk_object_count(w.disk);
    assert_int_equal(append_rows(&a, id, digest_a, 0, ROWS, &version), LK_OK);
    assert_int_equal(version, 2);
    assert_int_equal(append_rows(&a, id, digest_b, 5, ROWS, &version), LK_E_OPERATION_CONFLICT);
    assert_int_equal(lk_mem_disk_object_count(w.disk), objects); /* no engine work for either */
    check_published(&a, 3, ROWS + 1, SUM);
    node_deinit(&a);
    world_deinit(&w);
}

static void an_id_is_admitted_from_retention_ago_to_the_allowed_skew_ahead(void **state)
{
    (void)state;
    world    w;
    node     a;
    uint64_t version = 0;
    world_init(&w);
    node_init(&a, &w, "a");
    assert_int_equal(make_table(&a), LK_OK);
    assert_int_equal(
        append_rows(&a, operation_id(&a, 301, 1), digest_a, 0, 1, &version), LK_E_OPERATION_FUTURE);
    assert_int_equal(
        append_rows(&a, operation_id(&a, -604801, 2), digest_a, 0, 1, &version), LK_E_OPERATION_EXPIRED);
    assert_int_equal(published(&a), 1);
    assert_int_equal(append_rows(&a, operation_id(&a, 300, 3), digest_a, 0, 1, &version), LK_OK);
    assert_int_equal(append_rows(&a, operation_id(&a, -604800, 4), digest_a, 0, 1, &version), LK_OK);
    node_deinit(&a);
    world_deinit(&w);
}

/* At every second around the moment its record is forgotten, a replay gets the version or a refusal. */
static void a_forgotten_operation_is_never_committed_again(void **state)
{
    (void)state;
    world        w;
    node         a;
    lk_recovered done;
    uint64_t     version = 0, forgotten = 0;
    world_init(&w);
    node_init(&a, &w, "a");
    assert_int_equal(make_table(&a), LK_OK);
    lk_bytes id = operation_id(&a, 299, 1);
    assert_int_equal(append_rows(&a, id, digest_a, 0, 1, &version), LK_OK);
    w.clock.wall_ms += (604800u - 600) * 1000;
    for (int second = 0; second < 10000; second++) {
        w.clock.wall_ms += 1000;
        if (second % 100 == 0) {
            assert_int_equal(lk_recover_pass(&a.env, false, NULL, &done, &a.err), LK_OK);
            forgotten += done.forgotten;
            lk_rc rc = append_rows(&a, id, digest_a, 0, 1, &version);
            assert_true(rc == LK_OK ? version == 2 && forgotten == 0 : rc == LK_E_OPERATION_EXPIRED);
        }
    }
    assert_int_equal(forgotten, 1);
    assert_int_equal(count_keys(&w, LK_LITERAL("append-")), 0);
    check_published(&a, 2, 1, 0);
    node_deinit(&a);
    world_deinit(&w);
}

static void a_replay_after_the_table_was_recreated_is_refused(void **state)
{
    (void)state;
    world    w;
    node     a;
    uint64_t version = 0;
    bool     dropped = false;
    world_init(&w);
    node_init(&a, &w, "a");
    assert_int_equal(make_table(&a), LK_OK);
    lk_bytes id = operation_id(&a, 0, 1);
    assert_int_equal(append_rows(&a, id, digest_a, 0, 1, &version), LK_OK);
    assert_int_equal(drop_the_table(&a, &dropped), LK_OK);
    assert_int_equal(append_rows(&a, id, digest_a, 0, 1, &version), LK_E_TABLE_NOT_FOUND);
    assert_int_equal(make_table(&a), LK_OK);
    assert_int_equal(append_rows(&a, id, digest_a, 0, 1, &version), LK_E_OPERATION_RECREATED);
    check_published(&a, 1, 0, 0);
    node_deinit(&a);
    world_deinit(&w);
}

static void a_record_that_cannot_be_read_is_kept_and_told(void **state)
{
    (void)state;
    world        w;
    node         a;
    lk_recovered done;
    uint64_t     version = 0;
    world_init(&w);
    node_init(&a, &w, "a");
    assert_int_equal(make_table(&a), LK_OK);
    lk_bytes id = operation_id(&a, 0, 1);
    lk_bytes key = lk_operation_key(&a.arena, LK_LITERAL("acme"), the_table, id);
    assert_int_equal(append_rows(&a, id, digest_a, 0, 1, &version), LK_OK);
    put_value(&w, key, LK_LITERAL("{\"format_version\":2}"));
    assert_int_equal(append_rows(&a, id, digest_a, 0, 1, &version), LK_E_CORRUPT_RECORD);
    w.clock.wall_ms += 2ull * 604800 * 1000;
    assert_int_equal(lk_recover_pass(&a.env, false, NULL, &done, &a.err), LK_OK);
    assert_int_equal(done.failed, 1);
    assert_int_equal(value_of(&a, key).size, 20);
    node_deinit(&a);
    world_deinit(&w);
}

static void rows_are_checked_before_anything_is_written(void **state)
{
    (void)state;
    world    w;
    node     a;
    uint64_t version = 0;
    world_init(&w);
    node_init(&a, &w, "a");
    assert_int_equal(make_table(&a), LK_OK);
    size_t objects = lk_mem_disk_object_count(w.disk);
    assert_int_equal(append_rows(&a, operation_id(&a, 0, 1), digest_a, 0, 0, &version), LK_E_INVALID_APPEND);
    assert_int_equal(
        append_rows(&a, operation_id(&a, 0, 1), digest_a, 0, 10001, &version), LK_E_INVALID_APPEND);
    assert_int_equal(lk_mem_disk_object_count(w.disk), objects);
    assert_int_equal(append_rows(&a, operation_id(&a, 0, 1), digest_a, 0, 10000, &version), LK_OK);
    check_published(&a, 2, 10000, 49995000);
    node_deinit(&a);
    world_deinit(&w);
}

static void count_write(void *context, const char *call)
{
    *(int *)context += strcmp(call, "write") == 0; /* of the KV; stores name theirs otherwise */
}

static void an_append_makes_one_write_of_the_kv(void **state)
{
    (void)state;
    world    w;
    node     a;
    uint64_t version = 0;
    int      writes = 0;
    world_init(&w);
    node_init(&a, &w, "a");
    assert_int_equal(make_table(&a), LK_OK);
    lk_fault_plan_hook(&w.plan, count_write, &writes);
    assert_int_equal(append_rows(&a, operation_id(&a, 0, 1), digest_a, 0, ROWS, &version), LK_OK);
    lk_fault_plan_hook(&w.plan, NULL, NULL);
    assert_int_equal(writes, 1);
    node_deinit(&a);
    world_deinit(&w);
}

/* -- a deposed leader -------------------------------------------------------------------------------- */
typedef struct takeover {
    world      *w;
    const char *at;
    node        successor;
    lk_bytes    id;
    bool        happened;
} takeover;

/* Between two steps of the leader: another takes over and commits something else. */
static void take_over(const char *step, void *context)
{
    takeover *t = context;
    uint64_t  version = 0;
    if (t->happened || strcmp(step, t->at) != 0) {
        return;
    }
    t->happened = true;
    node_init(&t->successor, t->w, "b");
    assert_int_equal(append_rows(&t->successor, t->id, digest_b, 1000, 1, &version), LK_OK);
    assert_int_equal(version, 2);
}

static void a_deposed_leader_commits_nothing(void **state)
{
    (void)state;
    const char *const at[] = {"load", "replay", "commit"};
    for (size_t i = 0; i < 3; i++) {
        world    w;
        node     a;
        uint64_t version = 0;
        world_init(&w);
        node_init(&a, &w, "a");
        assert_int_equal(make_table(&a), LK_OK);
        takeover t = {.w = &w, .at = at[i], .id = operation_id(&a, 0, 2)};
        a.env.crash_point = take_over;
        a.env.crash_context = &t;
        assert_int_equal(
            append_rows(&a, operation_id(&a, 0, 1), digest_a, 0, ROWS, &version), LK_E_NOT_LEADER);
        assert_true(t.happened);
        check_published(&t.successor, 2, 1, 1000);
        lk_elect_view view;
        lk_elect_view_get(&a.elect, &view);
        assert_false(view.leader); /* it learned so from the refusal */
        node_deinit(&t.successor);
        node_deinit(&a);
        world_deinit(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_single_fault_is_survivable),
        cmocka_unit_test(whatever_call_a_leader_dies_at_its_successor_ends_in_one_version),
        cmocka_unit_test(a_repeat_returns_the_version_and_another_payload_is_refused),
        cmocka_unit_test(an_id_is_admitted_from_retention_ago_to_the_allowed_skew_ahead),
        cmocka_unit_test(a_forgotten_operation_is_never_committed_again),
        cmocka_unit_test(a_replay_after_the_table_was_recreated_is_refused),
        cmocka_unit_test(a_record_that_cannot_be_read_is_kept_and_told),
        cmocka_unit_test(rows_are_checked_before_anything_is_written),
        cmocka_unit_test(an_append_makes_one_write_of_the_kv),
        cmocka_unit_test(a_deposed_leader_commits_nothing),
    };
    return cmocka_run_group_tests_name("append", tests, NULL, NULL);
}
