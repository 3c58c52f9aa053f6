/* rollout_route_test.c - paths and what they name. */
#include "serve/rollout_route.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void expect(const char *path, lk_rollout_resource resource, const char *name, const char *id)
{
    lk_arena          arena = {0};
    lk_err            err = {0};
    lk_rollout_target target;
    assert_int_equal(lk_rollout_target_of(lk_bytes_of(path), &arena, &target, &err), LK_OK);
    assert_int_equal(target.resource, resource);
    assert_true(lk_bytes_equal(target.name, lk_bytes_of(name)));
    assert_true(lk_bytes_equal(target.id, lk_bytes_of(id)));
    lk_arena_close(&arena);
}

static void refuse(const char *path, lk_rc rc)
{
    lk_arena          arena = {0};
    lk_err            err = {0};
    lk_rollout_target target;
    assert_int_equal(lk_rollout_target_of(lk_bytes_of(path), &arena, &target, &err), rc);
    lk_arena_close(&arena);
}

static void every_route_has_its_path(void **state)
{
    expect("/metrics", LK_ROLLOUT_METRICS, "", "");
    expect("/api/v1/health", LK_ROLLOUT_HEALTH, "", "");
    expect("/api/v1/ready", LK_ROLLOUT_READY, "", "");
    expect("/api/v1/rollouts", LK_ROLLOUT_STORES, "", "");
    expect("/api/v1/rollouts/rl", LK_ROLLOUT_STORE, "rl", "");
    expect("/api/v1/rollouts/rl/records", LK_ROLLOUT_RECORDS, "rl", "");
    expect("/api/v1/rollouts/rl/records/a", LK_ROLLOUT_RECORD, "rl", "a");
    expect("/api/v1/rollouts/rl/records/a/blob", LK_ROLLOUT_BLOB, "rl", "a");
    expect("/api/v1/rollouts/rl/trajectories/r/1", LK_ROLLOUT_TRAJECTORY, "rl", "r/1");
    expect("/api/v1/rollouts/rl/tail", LK_ROLLOUT_TAIL, "rl", "");
    expect("/api/v1/rollouts/rl/stats", LK_ROLLOUT_STATS, "rl", "");
    expect("/api/v1/rollouts/rl/checkout", LK_ROLLOUT_CHECKOUT, "rl", "");
    expect("/api/v1/rollouts/rl/compact", LK_ROLLOUT_COMPACT, "rl", "");
    expect("/api/v1/rollouts/rl/compact/stats", LK_ROLLOUT_COMPACT_STATS, "rl", "");
    expect("/api/v1/rollouts/rl/merge", LK_ROLLOUT_MERGE, "rl", "");
}

static void an_id_is_all_that_follows_decoded_once(void **state)
{
    expect(
        "/api/v1/rollouts/rl/records/a/b%20c'%22;--%C3%A9", LK_ROLLOUT_RECORD, "rl", "a/b c'\";--\xC3\xA9");
    expect("/api/v1/rollouts/rl/records/a%2Fblob", LK_ROLLOUT_RECORD, "rl", "a/blob");
    expect("/api/v1/rollouts/rl/records/a%2Fblob/blob", LK_ROLLOUT_BLOB, "rl", "a/blob");
    expect("/api/v1/rollouts/rl/records/a/blob/blob", LK_ROLLOUT_BLOB, "rl", "a/blob");
    expect("/api/v1/rollouts/rl/records/blob", LK_ROLLOUT_RECORD, "rl", "blob");
    expect("/api/v1/rollouts/rl/records/%2525", LK_ROLLOUT_RECORD, "rl", "%25");
    expect("/api/v1/rollouts/rl/records//x", LK_ROLLOUT_RECORD, "rl", "/x");
    expect("/api/v1/rollouts/%2e%2e", LK_ROLLOUT_STORE, "..", "");
}

static void the_short_spelling_names_records_without_a_word(void **state)
{
    expect("/rollouts", LK_ROLLOUT_STORES, "", "");
    expect("/rollouts/rl", LK_ROLLOUT_STORE_SHORT, "rl", "");
    expect("/rollouts/rl/a", LK_ROLLOUT_RECORD, "rl", "a");
    expect("/rollouts/rl/a/b", LK_ROLLOUT_RECORD, "rl", "a/b");
    expect("/rollouts/rl/a/blob", LK_ROLLOUT_BLOB, "rl", "a");
    expect("/rollouts/rl/merge", LK_ROLLOUT_RECORD, "rl", "merge");
    expect("/rollouts/rl/records", LK_ROLLOUT_RECORDS, "rl", "");
    expect("/rollouts/rl/records/a", LK_ROLLOUT_RECORD, "rl", "a");
    expect("/rollouts/rl/checkout", LK_ROLLOUT_CHECKOUT, "rl", "");
    expect("/rollouts/rl/compact", LK_ROLLOUT_COMPACT, "rl", "");
}

static void other_paths_name_nothing(void **state)
{
    static const char *const paths[] = {"", "/", "/api/v1", "/api/v1/", "/api/v2/health", "/health",
        "/api/v1/rolloutsx", "/api/v1/rollouts/rl/nothing", "/api/v1/rollouts/rl/records/",
        "/api/v1/rollouts/rl/trajectories", "/api/v1/rollouts/rl/trajectories/", "/rollouts/rl/",
        "/api/v1/rollouts/rl/merge/x", "/api/v1/rollouts/rl/compact/other", "/metrics/"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        refuse(paths[i], LK_E_NOT_FOUND);
    }
    refuse("/api/v1/rollouts/rl/records/%zz", LK_E_INVALID_REQUEST);
    refuse("/api/v1/rollouts/%0", LK_E_INVALID_REQUEST);
    refuse("/api/v1/rollouts/rl/records/a%00", LK_E_INVALID_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_has_its_path),
        cmocka_unit_test(an_id_is_all_that_follows_decoded_once),
        cmocka_unit_test(the_short_spelling_names_records_without_a_word),
        cmocka_unit_test(other_paths_name_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
