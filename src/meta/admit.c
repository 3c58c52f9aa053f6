/* admit.c - see admit.h. */
#include "meta/admit.h"

#include <stdlib.h>

enum { CANCEL_POLL_MS = 50 }; /* a waiter looks at its cancel flag this often */

/* Waits on cond until deadline_ms, waking to look at cancel. False: the deadline passed. */
static bool wait_a_while(
    lk_cond *cond, lk_mutex *mutex, lk_clock *clock, uint64_t deadline_ms, lk_cancel *cancel)
{
    uint64_t now = lk_clock_monotonic_ms(clock);
    uint64_t until =
        cancel != NULL && now + CANCEL_POLL_MS < deadline_ms ? now + CANCEL_POLL_MS : deadline_ms;
    (void)lk_cond_wait_until(cond, mutex, until);
    return lk_clock_monotonic_ms(clock) < deadline_ms;
}

/* -- slots and bytes ------------------------------------------------------------------------------- */
void lk_admit_init(lk_admit *admit, lk_clock *clock, uint64_t slots_max, uint64_t bytes_max)
{
    *admit = (lk_admit){.clock = clock, .slots_max = slots_max, .bytes_max = bytes_max};
    lk_mutex_init(&admit->mutex, LK_RANK_ADMISSION);
    lk_cond_init(&admit->freed);
}

void lk_admit_deinit(lk_admit *admit)
{
    LK_ASSERT(admit->slots == 0);
    lk_cond_deinit(&admit->freed);
    lk_mutex_deinit(&admit->mutex);
}

static bool has_room(const lk_admit *admit, uint64_t bytes)
{
    bool fits = admit->bytes <= admit->bytes_max && bytes <= admit->bytes_max - admit->bytes;
    return admit->slots < admit->slots_max && (fits || admit->slots == 0);
}

lk_rc lk_admit_enter(lk_admit *admit, uint64_t bytes, uint64_t deadline_ms, lk_cancel *cancel, lk_err *err)
{
    lk_rc rc = LK_OK;
    bool  in_time = true;
    lk_mutex_lock(&admit->mutex);
    while (rc == LK_OK && !admit->closing && !has_room(admit, bytes)) {
        if (!in_time) {
            rc = lk_fail(err, LK_E_APPEND_SLOTS, "%llu appends run", (unsigned long long)admit->slots);
            break;
        }
        in_time = wait_a_while(&admit->freed, &admit->mutex, admit->clock, deadline_ms, cancel);
        rc = lk_cancel_check(cancel, err);
    }
    if (rc == LK_OK && admit->closing) {
        rc = lk_fail(err, LK_E_SHUTTING_DOWN, "this node is closing");
    }
    if (rc == LK_OK) {
        admit->slots++;
        admit->bytes += bytes;
    }
    lk_mutex_unlock(&admit->mutex);
    return rc;
}

void lk_admit_leave(lk_admit *admit, uint64_t bytes)
{
    lk_mutex_lock(&admit->mutex);
    LK_ASSERT(admit->slots > 0 && admit->bytes >= bytes);
    admit->slots--;
    admit->bytes -= bytes;
    lk_cond_broadcast(&admit->freed);
    lk_mutex_unlock(&admit->mutex);
}

void lk_admit_close(lk_admit *admit)
{
    lk_mutex_lock(&admit->mutex);
    admit->closing = true;
    lk_cond_broadcast(&admit->freed);
    while (admit->slots > 0) {
        lk_cond_wait(&admit->freed, &admit->mutex);
    }
    lk_mutex_unlock(&admit->mutex);
}

uint64_t lk_admit_running(lk_admit *admit)
{
    lk_mutex_lock(&admit->mutex);
    uint64_t running = admit->slots;
    lk_mutex_unlock(&admit->mutex);
    return running;
}

/* -- tables ---------------------------------------------------------------------------------------- */
struct lk_table_lock {
    lk_table_lock *next;
    lk_table_ref   table; /* in own */
    char          *own;
};

void lk_table_locks_init(lk_table_locks *locks, lk_clock *clock)
{
    *locks = (lk_table_locks){.clock = clock};
    lk_mutex_init(&locks->mutex, LK_RANK_ADMISSION);
    lk_cond_init(&locks->released);
}

void lk_table_locks_deinit(lk_table_locks *locks)
{
    LK_ASSERT(locks->held == NULL);
    lk_cond_deinit(&locks->released);
    lk_mutex_deinit(&locks->mutex);
}

static bool is_held(const lk_table_locks *locks, lk_table_ref table)
{
    const lk_table_lock *lock = locks->held;
    while (lock != NULL && lk_table_ref_compare(lock->table, table) != 0) {
        lock = lock->next;
    }
    return lock != NULL;
}

static lk_table_lock *make_lock(lk_table_ref table)
{
    lk_table_lock *lock = calloc(1, sizeof *lock);
    char          *own = malloc(table.ns.size + table.name.size + 1);
    LK_ASSERT(lock != NULL && own != NULL);
    memcpy(own, table.ns.data, table.ns.size);
    memcpy(own + table.ns.size, table.name.data, table.name.size);
    lock->own = own;
    lock->table = (lk_table_ref){{own, table.ns.size}, {own + table.ns.size, table.name.size}};
    return lock;
}

lk_rc lk_table_locks_take(lk_table_locks *locks, lk_table_ref table, uint64_t deadline_ms, lk_cancel *cancel,
    lk_table_lock **out, lk_err *err)
{
    lk_rc rc = LK_OK;
    bool  in_time = true;
    lk_mutex_lock(&locks->mutex);
    while (rc == LK_OK && is_held(locks, table)) {
        if (!in_time) {
            rc = lk_fail(
                err, LK_E_APPEND_IN_PROGRESS, "%.*s.%.*s is held", LK_FMT(table.ns), LK_FMT(table.name));
            break;
        }
        in_time = wait_a_while(&locks->released, &locks->mutex, locks->clock, deadline_ms, cancel);
        rc = lk_cancel_check(cancel, err);
    }
    if (rc == LK_OK) {
        *out = make_lock(table);
        (*out)->next = locks->held;
        locks->held = *out;
    }
    lk_mutex_unlock(&locks->mutex);
    return rc;
}

void lk_table_locks_release(lk_table_locks *locks, lk_table_lock *lock)
{
    if (lock == NULL) {
        return;
    }
    lk_mutex_lock(&locks->mutex);
    lk_table_lock **at = &locks->held;
    while (*at != lock) {
        at = &(*at)->next;
    }
    *at = lock->next;
    lk_cond_broadcast(&locks->released);
    lk_mutex_unlock(&locks->mutex);
    free(lock->own);
    free(lock);
}
