/* elect.c - see elect.h. */
#include "meta/elect.h"

#include "base/limits.h"
#include "base/log.h"

static bool may_write(const lk_elect *elect, uint64_t now)
{
    bool stuck = elect->round_since_ms != 0 && now - elect->round_since_ms >= LK_LEASE_CAMPAIGN_TIMEOUT_MS;
    return elect->role == LK_LEASE_LEADER && now < elect->deadline_ms && !stuck;
}

/* Publishes what a round found; true when role or epoch changed. */
static bool publish(lk_elect *elect)
{
    lk_mutex_lock(&elect->mutex);
    bool changed = elect->role != elect->lease.role || elect->epoch != elect->lease.epoch;
    bool led = elect->role == LK_LEASE_LEADER;
    elect->role = elect->lease.role;
    elect->epoch = elect->lease.epoch;
    elect->deadline_ms = elect->lease.deadline_ms;
    elect->round_since_ms = 0;
    elect->heard_ms = elect->lease.watched_since_ms;
    lk_buf_clear(&elect->guard);
    lk_buf_append_bytes(&elect->guard, lk_buf_view(&elect->lease.guard));
    bool     leads = elect->role == LK_LEASE_LEADER;
    uint64_t epoch = elect->epoch;
    lk_mutex_unlock(&elect->mutex);
    if (changed && leads != led) {
        lk_log(leads ? LK_LOG_LEASE_ACQUIRED : LK_LOG_LEASE_LOST, LK_LOG_N("epoch", epoch));
    }
    return changed;
}

void lk_elect_round(lk_elect *elect)
{
    lk_err err = {0};
    lk_mutex_lock(&elect->mutex);
    elect->round_since_ms = lk_clock_monotonic_ms(elect->clock) | 1; /* never 0 */
    lk_mutex_unlock(&elect->mutex);
    if (lk_lease_round(&elect->lease, &err) != LK_OK) {
        lk_log_error(LK_LOG_CAMPAIGN_FAILED, &err);
    }
    if (publish(elect) && elect->changed != NULL) {
        elect->changed(elect->context);
    }
}

static uint64_t pause_ms(lk_lease_role role)
{
    switch (role) {
    case LK_LEASE_LEADER:
        return LK_LEASE_RENEW_MS;
    case LK_LEASE_FOLLOWER:
        return LK_LEASE_WATCH_MS;
    case LK_LEASE_UNKNOWN:
        break;
    }
    return LK_LEASE_RETRY_MS;
}

static void run(void *context)
{
    lk_elect *elect = context;
    lk_mutex_lock(&elect->mutex);
    while (!elect->stop) {
        lk_mutex_unlock(&elect->mutex);
        uint64_t start = lk_clock_monotonic_ms(elect->clock);
        lk_elect_round(elect);
        lk_mutex_lock(&elect->mutex);
        uint64_t next = start + pause_ms(elect->role);
        if (!elect->stop) {
            (void)lk_cond_wait_until(&elect->wake, &elect->mutex, next); /* woken early: a round early */
        }
    }
    lk_mutex_unlock(&elect->mutex);
}

void lk_elect_init(lk_elect *elect, lk_kv *kv, lk_clock *clock, lk_bytes node_id, bool sole_owner,
    void (*changed)(void *context), void *context)
{
    *elect = (lk_elect){.clock = clock, .changed = changed, .context = context, .made = true};
    lk_lease_init(&elect->lease, kv, clock, node_id, sole_owner);
    lk_mutex_init(&elect->mutex, LK_RANK_META);
    lk_cond_init(&elect->wake);
}

lk_rc lk_elect_start(lk_elect *elect, lk_err *err)
{
    lk_rc rc = lk_thread_start(&elect->thread, "elect", run, elect, err);
    elect->running = rc == LK_OK;
    return rc;
}

void lk_elect_halt(lk_elect *elect)
{
    if (!elect->running) {
        return;
    }
    lk_mutex_lock(&elect->mutex);
    elect->stop = true;
    lk_cond_broadcast(&elect->wake);
    lk_mutex_unlock(&elect->mutex);
    lk_thread_join(&elect->thread);
    elect->running = false;
}

void lk_elect_deinit(lk_elect *elect)
{
    if (!elect->made) {
        return;
    }
    bool campaigned = elect->running || elect->stop;
    lk_elect_halt(elect);
    lk_mutex_lock(&elect->mutex);
    elect->role = LK_LEASE_UNKNOWN;
    lk_mutex_unlock(&elect->mutex);
    lk_err err = {0};
    if (campaigned && lk_lease_resign(&elect->lease, &err) != LK_OK) {
        lk_log_error(LK_LOG_CAMPAIGN_FAILED, &err);
    }
    lk_lease_deinit(&elect->lease);
    lk_buf_deinit(&elect->guard);
    lk_cond_deinit(&elect->wake);
    lk_mutex_deinit(&elect->mutex);
    elect->made = false;
}

bool lk_elect_evidence(lk_elect *elect, lk_arena *arena, lk_bytes *guard, uint64_t *epoch)
{
    lk_mutex_lock(&elect->mutex);
    bool may = may_write(elect, lk_clock_monotonic_ms(elect->clock));
    if (may) {
        *guard = lk_arena_copy(arena, lk_buf_view(&elect->guard));
    }
    if (may && epoch != NULL) {
        *epoch = elect->epoch;
    }
    lk_mutex_unlock(&elect->mutex);
    return may;
}

void lk_elect_deposed(lk_elect *elect, uint64_t epoch)
{
    lk_mutex_lock(&elect->mutex);
    bool ours = elect->role == LK_LEASE_LEADER && elect->epoch == epoch;
    if (ours) {
        elect->role = LK_LEASE_UNKNOWN;
        lk_cond_broadcast(&elect->wake);
    }
    lk_mutex_unlock(&elect->mutex);
    if (ours) {
        lk_log(LK_LOG_LEASE_LOST, LK_LOG_N("epoch", epoch));
    }
}

void lk_elect_view_get(lk_elect *elect, lk_elect_view *out)
{
    lk_mutex_lock(&elect->mutex);
    uint64_t now = lk_clock_monotonic_ms(elect->clock);
    bool     leader = may_write(elect, now);
    bool     heard = elect->role == LK_LEASE_FOLLOWER && now - elect->heard_ms <= LK_LEASE_TTL_MS;
    *out = (lk_elect_view){.leader = leader, .leader_known = leader || heard, .epoch = elect->epoch};
    lk_mutex_unlock(&elect->mutex);
}
