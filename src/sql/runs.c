/* runs.c - the running statements and the thread that interrupts them; see run_priv.h. */
#include "base/clock.h"
#include "base/limits.h"
#include "sql/run_priv.h"

#include <stdlib.h>

struct lk_runs {
    lk_mutex  mutex; /* rank SQL; guards all below */
    lk_cond   changed;
    lk_run   *first;
    uint64_t  last_id;
    bool      stopping;
    lk_thread watcher;
};

/* lk_cancel_check without an error to fill. */
static bool must_stop(lk_cancel *cancel)
{
    lk_err ignored = {0};
    return lk_cancel_check(cancel, &ignored) != LK_OK;
}

static void watch(void *context)
{
    lk_runs *runs = context;
    lk_mutex_lock(&runs->mutex);
    while (!runs->stopping) {
        for (const lk_run *run = runs->first; run != NULL; run = run->next) {
            if (must_stop(run->cancel)) {
                (void)duckdb_v2_connection_interrupt(run->connection, NULL); /* sets a flag */
            }
        }
        if (runs->first == NULL) {
            lk_cond_wait(&runs->changed, &runs->mutex);
        } else {
            uint64_t next = lk_clock_monotonic_ms(lk_clock_real()) + LK_SQL_WATCH_MS;
            (void)lk_cond_wait_until(&runs->changed, &runs->mutex, next);
        }
    }
    lk_mutex_unlock(&runs->mutex);
}

lk_rc lk_runs_open(lk_runs **out, lk_err *err)
{
    lk_runs *runs = calloc(1, sizeof *runs);
    LK_ASSERT(runs != NULL);
    lk_mutex_init(&runs->mutex, LK_RANK_SQL);
    lk_cond_init(&runs->changed);
    lk_rc rc = lk_thread_start(&runs->watcher, "sql-watch", watch, runs, err);
    if (rc != LK_OK) {
        lk_cond_deinit(&runs->changed);
        lk_mutex_deinit(&runs->mutex);
        free(runs);
        return rc;
    }
    *out = runs;
    return LK_OK;
}

void lk_runs_close(lk_runs *runs)
{
    if (runs == NULL) {
        return;
    }
    lk_mutex_lock(&runs->mutex);
    LK_ASSERT(runs->first == NULL);
    runs->stopping = true;
    lk_cond_signal(&runs->changed);
    lk_mutex_unlock(&runs->mutex);
    lk_thread_join(&runs->watcher);
    lk_cond_deinit(&runs->changed);
    lk_mutex_deinit(&runs->mutex);
    free(runs);
}

void lk_runs_add(lk_runs *runs, lk_run *run)
{
    lk_mutex_lock(&runs->mutex);
    run->id = ++runs->last_id;
    run->next = runs->first;
    runs->first = run;
    if (run->next == NULL) {
        lk_cond_signal(&runs->changed);
    }
    lk_mutex_unlock(&runs->mutex);
}

void lk_runs_remove(lk_runs *runs, lk_run *run)
{
    lk_mutex_lock(&runs->mutex);
    lk_run **at = &runs->first;
    while (*at != run) {
        at = &(*at)->next;
    }
    *at = run->next;
    lk_mutex_unlock(&runs->mutex);
}

lk_run *lk_runs_find(lk_runs *runs, uint64_t id)
{
    lk_mutex_lock(&runs->mutex);
    lk_run *run = runs->first;
    while (run != NULL && run->id != id) {
        run = run->next;
    }
    lk_mutex_unlock(&runs->mutex);
    return run;
}

lk_rc lk_run_error(lk_run *run, lk_duck_phase phase, DUCKDB_V2_ERROR code, duckdb_v2_error_info_handle *info,
    const char *doing, lk_err *err)
{
    lk_err stopped = {0};
    lk_rc  stop = lk_cancel_check(run->cancel, &stopped);
    lk_rc  rc = lk_duck_fail(err, phase, code, info, doing);
    if (rc == LK_E_INTERNAL) {
        atomic_store(&run->duck->suspect, true);
    }
    lk_mutex_lock(&run->mutex);
    bool ours = run->failed;
    if (ours) {
        *err = run->failure;
        rc = err->rc;
    }
    lk_mutex_unlock(&run->mutex);
    if (stop != LK_OK && (rc == LK_E_CANCELLED || ours)) {
        *err = stopped;
        rc = stop;
    }
    return rc;
}
