/* lease.c - see lease.h for the states and invariants. */
#include "meta/lease.h"

#include "base/json.h"
#include "base/limits.h"

#include <inttypes.h>

typedef struct records { /* as stored, in the round's arena */
    bool     found;
    lk_bytes leader, heartbeat; /* exact bytes */
    lk_bytes holder;
    uint64_t epoch, expires_ms;
} records;

void lk_lease_init(lk_lease *lease, lk_kv *kv, lk_clock *clock, lk_bytes node_id, bool sole_owner)
{
    *lease = (lk_lease){.kv = kv, .clock = clock, .node_id = node_id, .sole_owner = sole_owner};
}

void lk_lease_deinit(lk_lease *lease)
{
    lk_buf_deinit(&lease->guard);
    lk_buf_deinit(&lease->watched);
}

static lk_bytes encode(lk_arena *arena, lk_bytes holder, uint64_t epoch, const uint64_t *expires_ms)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    lk_json_key(&w, "holder");
    lk_json_text(&w, holder);
    lk_json_key(&w, "epoch");
    lk_json_u64(&w, epoch);
    if (expires_ms != NULL) {
        lk_json_key(&w, "expires_at_ms");
        lk_json_u64(&w, *expires_ms);
    }
    lk_json_object_end(&w);
    lk_bytes copy = lk_arena_copy(arena, lk_buf_view(&text));
    lk_buf_deinit(&text);
    return copy;
}

static lk_rc decode(records *r, lk_arena *arena, lk_err *err)
{
    lk_bytes            holder = {0};
    uint64_t            epoch = 0;
    const lk_json_field leader[] = {
        {"holder", LK_JSON_TEXT, &r->holder, false, NULL}, {"epoch", LK_JSON_U64, &r->epoch, false, NULL}};
    const lk_json_field heartbeat[] = {{"holder", LK_JSON_TEXT, &holder, false, NULL},
        {"epoch", LK_JSON_U64, &epoch, false, NULL},
        {"expires_at_ms", LK_JSON_U64, &r->expires_ms, false, NULL}};
    lk_err              cause = {0};
    if (lk_json_read(r->leader, leader, 2, arena, &cause) != LK_OK ||
        lk_json_read(r->heartbeat, heartbeat, 3, arena, &cause) != LK_OK) {
        return lk_fail(err, LK_E_CORRUPT_RECORD, "election: %s", cause.context);
    }
    return LK_OK;
}

/* Both records of one moment: read around each other until they belong together. */
static lk_rc look(lk_lease *lease, lk_arena *arena, records *r, lk_err *err)
{
    bool has_leader = false, has_heartbeat = false;
    *r = (records){0};
    lk_rc rc = lk_kv_get(lease->kv, LK_LEASE_KEY, arena, &r->leader, &has_leader, err);
    if (rc == LK_OK) {
        rc = lk_kv_get(lease->kv, LK_LEASE_HEARTBEAT_KEY, arena, &r->heartbeat, &has_heartbeat, err);
    }
    if (rc != LK_OK || (!has_leader && !has_heartbeat)) {
        return rc;
    }
    if (!has_leader) {
        return LK_OK; /* installed between the two reads: a conditional write will tell */
    }
    if (!has_heartbeat) {
        return lk_fail(err, LK_E_CORRUPT_RECORD, "election: a leader without heartbeat");
    }
    r->found = true;
    return decode(r, arena, err);
}

static bool may_steal(lk_lease *lease, const records *r)
{
    uint64_t now = lk_clock_monotonic_ms(lease->clock);
    if (!lk_bytes_equal(lk_buf_view(&lease->watched), r->heartbeat)) {
        lk_buf_clear(&lease->watched);
        lk_buf_append_bytes(&lease->watched, r->heartbeat);
        lease->watched_since_ms = now;
    }
    return r->expires_ms == 0 || lease->sole_owner || now - lease->watched_since_ms >= LK_LEASE_TTL_MS;
}

/* Writes both records (or, for a renewal, the heartbeat guarded by the leader record). */
static lk_rc take(
    lk_lease *lease, lk_arena *arena, const records *r, uint64_t epoch, bool *applied, lk_err *err)
{
    bool               renew = r->found && lk_bytes_equal(r->holder, lease->node_id) && r->epoch == epoch;
    uint64_t           expires_ms = lk_clock_wall_ms(lease->clock) + LK_LEASE_TTL_MS;
    lk_bytes           leader = encode(arena, lease->node_id, epoch, NULL);
    lk_bytes           heartbeat = encode(arena, lease->node_id, epoch, &expires_ms);
    const lk_kv_change changes[] = {
        {.key = LK_LEASE_HEARTBEAT_KEY, .expected = r->found ? &r->heartbeat : NULL, .value = &heartbeat},
        {.key = LK_LEASE_KEY, .expected = r->found ? &r->leader : NULL, .value = &leader}};
    const lk_kv_write write = {.changes = changes,
        .change_count = renew ? 1 : 2,
        .guard_key = renew ? LK_LEASE_KEY : (lk_bytes){0},
        .guard_value = renew ? r->leader : (lk_bytes){0}};
    if (renew && lk_bytes_equal(heartbeat, r->heartbeat)) {
        *applied = true; /* twice within a millisecond */
        return LK_OK;
    }
    lk_rc rc = lk_kv_put(lease->kv, &write, applied, err);
    if (rc == LK_OK && *applied) {
        lk_buf_clear(&lease->guard);
        lk_buf_append_bytes(&lease->guard, leader);
    }
    return rc;
}

static lk_rc run_round(lk_lease *lease, lk_arena *arena, lk_err *err)
{
    uint64_t start = lk_clock_monotonic_ms(lease->clock);
    records  r;
    bool     applied = false;
    lk_rc    rc = look(lease, arena, &r, err);
    if (rc != LK_OK) {
        return rc;
    }
    bool mine = r.found && lk_bytes_equal(r.holder, lease->node_id);
    lease->epoch = r.epoch;
    if (r.found && !mine && !may_steal(lease, &r)) {
        lease->role = LK_LEASE_FOLLOWER;
        return LK_OK;
    }
    if (!mine && r.epoch == UINT64_MAX) {
        return lk_fail(err, LK_E_CORRUPT_RECORD, "election: epochs are exhausted");
    }
    uint64_t epoch = mine ? r.epoch : r.epoch + 1;
    rc = take(lease, arena, &r, epoch, &applied, err);
    if (rc != LK_OK || !applied) {
        return rc; /* lost: who won is seen in the next round */
    }
    if (lk_clock_monotonic_ms(lease->clock) - start > LK_LEASE_CAMPAIGN_TIMEOUT_MS) {
        return lk_fail(err, LK_E_KV_UNAVAILABLE, "election: the round took too long");
    }
    lease->role = LK_LEASE_LEADER;
    lease->epoch = epoch;
    lease->deadline_ms = start + LK_LEASE_TTL_MS;
    return LK_OK;
}

lk_rc lk_lease_round(lk_lease *lease, lk_err *err)
{
    lk_arena arena = {0};
    lease->role = LK_LEASE_UNKNOWN;
    lk_rc rc = run_round(lease, &arena, err);
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_lease_resign(lk_lease *lease, lk_err *err)
{
    lk_arena       arena = {0};
    records        r;
    bool           applied = false;
    const uint64_t resigned = 0;
    lease->role = LK_LEASE_UNKNOWN;
    lk_rc rc = look(lease, &arena, &r, err);
    if (rc == LK_OK && r.found && lk_bytes_equal(r.holder, lease->node_id)) {
        lk_bytes           heartbeat = encode(&arena, lease->node_id, r.epoch, &resigned);
        const lk_kv_change change = {
            .key = LK_LEASE_HEARTBEAT_KEY, .expected = &r.heartbeat, .value = &heartbeat};
        const lk_kv_write write = {
            .changes = &change, .change_count = 1, .guard_key = LK_LEASE_KEY, .guard_value = r.leader};
        rc = lk_kv_put(lease->kv, &write, &applied, err);
    }
    lk_arena_close(&arena);
    return rc;
}
