/* fence.c - see fence.h. */
#include "meta/fence.h"

static lk_rc evidence(
    const lk_fence *fence, lk_arena *arena, lk_commit_terms *terms, uint64_t *epoch, lk_err *err)
{
    *terms = (lk_commit_terms){.guard_key = LK_LEASE_KEY};
    if (!lk_elect_evidence(fence->elect, arena, &terms->guard_value, epoch)) {
        return lk_fail(err, LK_E_NOT_LEADER, "this node does not lead");
    }
    return LK_OK;
}

lk_rc lk_fence_terms(const lk_fence *fence, lk_arena *arena, lk_commit_terms *terms, lk_err *err)
{
    return evidence(fence, arena, terms, NULL, err);
}

lk_rc lk_fence_check(const lk_fence *fence, const lk_commit_terms *terms, lk_err *err)
{
    lk_arena        arena = {0};
    lk_commit_terms now;
    lk_bytes        stored = {0};
    uint64_t        epoch = 0;
    bool            found = false;
    lk_rc           rc = lk_kv_get(fence->kv, LK_LEASE_KEY, &arena, &stored, &found, err);
    if (rc == LK_OK && !(found && lk_bytes_equal(stored, terms->guard_value))) {
        lk_err ignored = {0};
        bool   same = evidence(fence, &arena, &now, &epoch, &ignored) == LK_OK &&
                    lk_bytes_equal(now.guard_value, terms->guard_value);
        if (same) {
            lk_elect_deposed(fence->elect, epoch);
        }
        rc = lk_fail(err, LK_E_NOT_LEADER, "another node took the lead");
    }
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_fence_write(
    const lk_fence *fence, const lk_kv_change *changes, size_t count, bool *applied, lk_err *err)
{
    lk_arena        arena = {0};
    lk_commit_terms terms;
    *applied = false;
    lk_rc rc = lk_fence_terms(fence, &arena, &terms, err);
    if (rc == LK_OK) {
        const lk_kv_write write = {.changes = changes,
            .change_count = count,
            .guard_key = terms.guard_key,
            .guard_value = terms.guard_value};
        rc = lk_kv_put(fence->kv, &write, applied, err);
    }
    if (rc == LK_OK && !*applied) {
        rc = lk_fence_check(fence, &terms, err);
    }
    lk_arena_close(&arena);
    return rc;
}
