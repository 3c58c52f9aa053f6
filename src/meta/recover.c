/* recover.c - see recover.h. */
#include "meta/recover.h"

#include "base/limits.h"
#include "base/log.h"
#include "meta/create.h"
#include "meta/drop.h"
#include "meta/operation.h"

enum { HOUR_SECS = 3600 };

typedef struct pass {
    const lk_meta_env *env;
    lk_cancel         *cancel;
    lk_recovered      *out;
    bool               enough; /* a visitor has seen all it needs */
} pass;

typedef lk_rc (*visitor)(pass *p, const lk_kv_item *item, lk_arena *arena, lk_err *err);

static bool ends_pass(lk_rc rc)
{
    return rc == LK_E_NOT_LEADER || rc == LK_E_CANCELLED || rc == LK_E_KV_UNAVAILABLE;
}

/* Gives every item to visit. An error that is about the item is logged and counted; others end the pass. */
static lk_rc each(pass *p, lk_bytes prefix, visitor visit, lk_err *err)
{
    lk_buf cursor = {0};
    lk_rc  rc = LK_OK;
    p->enough = false;
    do {
        lk_arena    arena = {0};
        lk_kv_item *items = NULL;
        size_t      count = 0;
        lk_bytes    next = {0};
        rc = lk_kv_scan(p->env->kv, prefix, lk_buf_view(&cursor), LK_RECOVERY_PAGE_ITEMS, &arena, &items,
            &count, &next, err);
        for (size_t i = 0; rc == LK_OK && !p->enough && i < count; i++) {
            lk_err failure = {0};
            rc = lk_cancel_check(p->cancel, err);
            if (rc != LK_OK || visit(p, &items[i], &arena, &failure) == LK_OK) {
                continue;
            }
            if (ends_pass(failure.rc)) {
                *err = failure;
                rc = failure.rc;
            } else {
                p->out->failed++;
                lk_log_error(LK_LOG_RECOVERY_FAILED, &failure);
            }
        }
        lk_buf_clear(&cursor);
        lk_buf_append_bytes(&cursor, next);
        lk_arena_close(&arena);
    } while (rc == LK_OK && !p->enough && cursor.size > 0);
    lk_buf_deinit(&cursor);
    return rc;
}

/* Holding the table's lock and still finding the intent means that its create is dead (create.h); a lock that
 * is held means that it may be alive. */
static lk_rc abandon(pass *p, const lk_kv_item *item, lk_arena *arena, lk_err *err)
{
    lk_remains     remains;
    lk_table_lock *lock = NULL;
    lk_err         busy = {0};
    lk_rc          rc = lk_remains_decode(LK_CREATE_PREFIX, item->key, item->value, arena, &remains, err);
    if (rc == LK_OK && lk_table_locks_take(p->env->locks, remains.table, 0, NULL, &lock, &busy) != LK_OK) {
        return LK_OK;
    }
    if (rc == LK_OK) {
        rc = lk_create_abandon(p->env, arena, &remains, item->value, err);
        p->out->abandoned += rc == LK_OK;
    }
    lk_table_locks_release(p->env->locks, lock);
    return rc;
}

static lk_rc finish_drop(pass *p, const lk_kv_item *item, lk_arena *arena, lk_err *err)
{
    lk_remains remains;
    lk_rc      rc = lk_remains_decode(LK_DROP_PREFIX, item->key, item->value, arena, &remains, err);
    rc = rc == LK_OK ? lk_drop_finish(p->env, arena, &remains, item->value, err) : rc;
    if (rc == LK_OK) {
        p->out->finished++;
        lk_log(LK_LOG_DROP_RESUMED, LK_LOG_T("location", remains.location));
    }
    return rc;
}

/* Record and expiry go together; a record that cannot be read is kept, with its expiry. */
static lk_rc forget(pass *p, const lk_kv_item *item, lk_arena *arena, lk_err *err)
{
    uint64_t     hour = 0;
    lk_bytes     key = {0}, raw = {0};
    lk_operation record;
    bool         found = false, applied = false;
    lk_rc        rc = lk_operation_expiry_parse(item->key, &hour, &key, err);
    if (rc == LK_OK && hour > lk_now_secs(p->env) / HOUR_SECS) {
        p->enough = true;
        return LK_OK;
    }
    rc = rc == LK_OK ? lk_operation_load(p->env->kv, key, arena, &record, &raw, &found, err) : rc;
    if (rc == LK_OK) {
        const lk_kv_change changes[] = {
            {.key = item->key, .expected = &item->value}, {.key = key, .expected = &raw}};
        rc = lk_fence_write(&p->env->fence, changes, found ? 2 : 1, &applied, err);
        p->out->forgotten += rc == LK_OK && applied;
    }
    return rc;
}

static lk_rc settle_engine(pass *p, lk_err *err)
{
    lk_arena        arena = {0};
    lk_commit_terms terms;
    lk_err          failure = {0};
    lk_rc           rc = lk_fence_terms(&p->env->fence, &arena, &terms, err);
    if (rc == LK_OK && p->env->engine->ops->recover(p->env->engine, terms, p->cancel, &failure) != LK_OK) {
        p->out->failed++;
        lk_log_error(LK_LOG_RECOVERY_FAILED, &failure);
    }
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_recover_pass(const lk_meta_env *env, bool first, lk_cancel *cancel, lk_recovered *out, lk_err *err)
{
    pass p = {.env = env, .cancel = cancel, .out = out};
    *out = (lk_recovered){0};
    lk_rc rc = first ? settle_engine(&p, err) : LK_OK;
    rc = rc == LK_OK ? each(&p, LK_CREATE_PREFIX, abandon, err) : rc;
    rc = rc == LK_OK ? each(&p, LK_DROP_PREFIX, finish_drop, err) : rc;
    rc = rc == LK_OK ? each(&p, LK_OPERATION_EXPIRY_PREFIX, forget, err) : rc;
    return rc;
}

/* -- the thread ------------------------------------------------------------------------------------ */
static void pass_once(lk_recovery *recovery, const lk_elect_view *view)
{
    lk_recovered done;
    lk_err       err = {0};
    lk_mutex_lock(&recovery->mutex);
    bool first = recovery->recovered_epoch != view->epoch;
    lk_mutex_unlock(&recovery->mutex);
    lk_rc rc = lk_recover_pass(recovery->env, first, &recovery->cancel, &done, &err);
    if (rc != LK_OK && rc != LK_E_CANCELLED) {
        lk_log_error(LK_LOG_RECOVERY_FAILED, &err);
    }
    lk_mutex_lock(&recovery->mutex);
    if (rc == LK_OK) {
        recovery->recovered_epoch = view->epoch;
    }
    lk_cond_broadcast(&recovery->wake);
    lk_mutex_unlock(&recovery->mutex);
}

static void run(void *context)
{
    lk_recovery *recovery = context;
    lk_clock    *clock = recovery->env->clock;
    uint64_t     next_ms = 0, passed_epoch = 0;
    lk_mutex_lock(&recovery->mutex);
    while (!recovery->stop) {
        lk_elect_view view;
        recovery->kicked = false;
        lk_mutex_unlock(&recovery->mutex);
        lk_elect_view_get(recovery->elect, &view);
        if (view.leader) {
            pass_once(recovery, &view);
            passed_epoch = view.epoch;
        }
        next_ms = lk_clock_monotonic_ms(clock) + LK_RECOVERY_INTERVAL_MS;
        lk_mutex_lock(&recovery->mutex);
        if (view.leader && recovery->recovered_epoch != passed_epoch) {
            next_ms = lk_clock_monotonic_ms(clock) + LK_LEASE_RETRY_MS; /* the pass was cut short */
        }
        while (!recovery->stop && !recovery->kicked && lk_clock_monotonic_ms(clock) < next_ms) {
            (void)lk_cond_wait_until(&recovery->wake, &recovery->mutex, next_ms);
        }
    }
    lk_mutex_unlock(&recovery->mutex);
}

lk_rc lk_recovery_start(lk_recovery *recovery, const lk_meta_env *env, lk_elect *elect, lk_err *err)
{
    *recovery = (lk_recovery){.env = env, .elect = elect};
    lk_mutex_init(&recovery->mutex, LK_RANK_META);
    lk_cond_init(&recovery->wake);
    recovery->started = true;
    lk_rc rc = lk_thread_start(&recovery->thread, "recover", run, recovery, err);
    if (rc != LK_OK) {
        lk_recovery_stop(recovery);
    }
    return rc;
}

void lk_recovery_stop(lk_recovery *recovery)
{
    if (!recovery->started) {
        return;
    }
    recovery->cancel.set = true;
    lk_mutex_lock(&recovery->mutex);
    recovery->stop = true;
    lk_cond_broadcast(&recovery->wake);
    lk_mutex_unlock(&recovery->mutex);
    lk_thread_join(&recovery->thread);
    lk_cond_deinit(&recovery->wake);
    lk_mutex_deinit(&recovery->mutex);
    recovery->started = false;
}

void lk_recovery_kick(lk_recovery *recovery)
{
    lk_mutex_lock(&recovery->mutex);
    recovery->kicked = true;
    lk_cond_broadcast(&recovery->wake);
    lk_mutex_unlock(&recovery->mutex);
}

uint64_t lk_recovery_epoch(lk_recovery *recovery)
{
    lk_mutex_lock(&recovery->mutex);
    uint64_t epoch = recovery->recovered_epoch;
    lk_mutex_unlock(&recovery->mutex);
    return epoch;
}

void lk_recovery_wait(lk_recovery *recovery, uint64_t deadline_ms)
{
    lk_mutex_lock(&recovery->mutex);
    (void)lk_cond_wait_until(&recovery->wake, &recovery->mutex, deadline_ms);
    lk_mutex_unlock(&recovery->mutex);
}
