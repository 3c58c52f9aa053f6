/* maintain.c - see maintain.h. */
#include "rollout/maintain.h"

#include "base/log.h"
#include "lance/alter.h"
#include "rollout/store_priv.h"

#include <stdlib.h>

enum { THREADS = 2 };
enum { GRACE_MS = 60000, FOLD_WAIT_MS = 200, BUSY_WAIT_MS = 50, BACKOFF_MS = 1000, BACKOFF_MS_MAX = 60000 };

#define NEVER UINT64_MAX

/* Versions are looked through a few times in the time that they stay. */
enum { CLEAN_MS_MIN = 1000, CLEAN_MS_MAX = 3600000, CLEANS = 4 };

typedef enum step { MERGE, FOLD, COLLECT, CLEAN, STEPS } step;

typedef struct job {
    struct job       *next;
    lk_rollout_store *store;
    lk_cancel         cancel;
    /* Of whoever works on it. */
    uint64_t mark, grace_end_ms; /* the shard's manifest when the time of grace began; 0: it has not begun */
    /* Guarded by the maintainer's mutex. */
    uint64_t at_ms[STEPS]; /* monotonic */
    unsigned failures;     /* one after another */
    bool     working;
    bool     merged; /* since the time of grace began */
} job;

struct lk_rollout_maintainer {
    lk_rollout_maintenance options;
    lk_clock              *clock;
    lk_random             *random;
    lk_thread              threads[THREADS];
    size_t                 thread_count;

    lk_mutex                     mutex;
    lk_cond                      changed;
    job                         *jobs; /* guarded by mutex, as are the following */
    bool                         stopping;
    lk_rollout_maintenance_stats stats;
};

/* -- when ---------------------------------------------------------------------------------------------------------- */

static uint64_t now_of(const lk_rollout_maintainer *m)
{
    return lk_clock_monotonic_ms(m->clock);
}

static uint64_t or_default(uint64_t value, uint64_t otherwise)
{
    return value == 0 ? otherwise : value;
}

static uint64_t next_tick(const lk_rollout_maintainer *m)
{
    return m->options.interval_ms == 0 ? NEVER : now_of(m) + m->options.interval_ms;
}

/* Doubles with each failure, more or less, so that instances do not try at the same moments. */
static uint64_t after_failure(const lk_rollout_maintainer *m, unsigned failures)
{
    uint64_t wait_ms = failures > 6 ? BACKOFF_MS_MAX : (uint64_t)BACKOFF_MS << (failures - 1);
    wait_ms = wait_ms > BACKOFF_MS_MAX ? BACKOFF_MS_MAX : wait_ms;
    return now_of(m) + wait_ms / 2 + lk_random_below(m->random, wait_ms);
}

/* Called with the mutex. */
static job *find_job(const lk_rollout_maintainer *m, const lk_rollout_store *store)
{
    job *j = m->jobs;
    while (j != NULL && j->store != store) {
        j = j->next;
    }
    return j;
}

/* Makes a step due no later than that. */
static void bring_forward(lk_rollout_maintainer *m, job *j, step what, uint64_t at_ms)
{
    if (at_ms < j->at_ms[what]) {
        j->at_ms[what] = at_ms;
        lk_cond_broadcast(&m->changed);
    }
}

/* -- steps --------------------------------------------------------------------------------------------------------- */

/* How many generations make a merge due. */
static uint64_t threshold(const lk_rollout_maintainer *m, const job *j)
{
    uint64_t by_adds = m->options.background ? j->store->options.merge_after : 0;
    uint64_t by_clock = m->options.interval_ms == 0 ? 0 : or_default(m->options.generations_min, 1);
    return by_adds == 0 || (by_clock != 0 && by_clock < by_adds) ? by_clock : by_adds;
}

/* As storage has it: before its first flush a writer does not know what an earlier process left. */
static lk_rc count_pending(const job *j, uint64_t *pending, uint64_t *version, lk_err *err)
{
    lk_arena          arena = {0};
    lk_shard_manifest latest = {0};
    bool              found = false;
    lk_rc rc = lk_shard_latest(j->store->env.store, j->store->shard, 0, &arena, &latest, &found, err);
    *pending = found ? latest.generation_count : 0;
    *version = found ? latest.version : 0;
    lk_arena_close(&arena);
    return rc;
}

static lk_rc merge_step(lk_rollout_maintainer *m, job *j, uint64_t *again_ms, lk_err *err)
{
    const lk_rollout_merge_options options = {
        .generations_max = (size_t)or_default(m->options.generations_max, LK_ROLLOUT_MERGE_GENERATIONS),
        .bytes_max = or_default(m->options.bytes_max, LK_ROLLOUT_MERGE_BYTES),
        .cancel = &j->cancel,
        .gentle = true};
    lk_rollout_merge_report report = {0};
    uint64_t                pending = 0, version = 0, least = threshold(m, j);
    *again_ms = next_tick(m);
    lk_rc rc = count_pending(j, &pending, &version, err);
    if (rc != LK_OK || pending < least || pending == 0) {
        return rc;
    }
    lk_mutex_lock(&m->mutex);
    m->stats.rounds++;
    lk_mutex_unlock(&m->mutex);
    rc = lk_rollout_store_merge(j->store, &options, &report, err);
    if (rc == LK_OK && pending - report.generations >= least) {
        *again_ms = now_of(m);
    } else if (rc == LK_E_CONFLICT) { /* an add is merging */
        *again_ms = now_of(m) + BUSY_WAIT_MS;
        rc = LK_OK;
    }
    return rc;
}

static lk_rc fold_step(lk_rollout_maintainer *m, job *j, uint64_t *again_ms, lk_err *err)
{
    bool  folded = false;
    lk_rc rc = lk_rollout_store_fold(j->store, &folded, err);
    *again_ms = folded ? now_of(m) : NEVER;
    if (rc == LK_E_CONFLICT || rc == LK_E_COMPACTION_IN_PROGRESS) { /* another instance does it */
        *again_ms = now_of(m) + BACKOFF_MS + lk_random_below(m->random, 4 * BACKOFF_MS);
        rc = LK_OK;
    }
    lk_mutex_lock(&m->mutex);
    m->stats.folds += folded;
    lk_mutex_unlock(&m->mutex);
    return rc;
}

static void begin_grace(lk_rollout_maintainer *m, job *j)
{
    lk_mutex_lock(&m->mutex);
    j->merged = false;
    lk_mutex_unlock(&m->mutex);
    j->grace_end_ms = now_of(m) + or_default(m->options.grace_ms, GRACE_MS);
}

static lk_rc collect(lk_rollout_maintainer *m, job *j, uint64_t *again_ms, lk_err *err)
{
    lk_rollout_collect_report report = {0};
    lk_rollout_store         *s = j->store;
    lk_rc                     rc = lk_rollout_collect_since(&s->env, s->shard, j->mark, false, &report, err);
    if (rc == LK_OK && m->options.collect_log) {
        rc = lk_rollout_collect_log(&s->env, s->shard, false, &report, err);
    }
    j->mark = rc == LK_OK ? 0 : j->mark;
    lk_mutex_lock(&m->mutex);
    m->stats.directories_removed += report.directories;
    m->stats.log_entries_removed += report.log_entries;
    m->stats.manifests_emptied += report.manifests;
    *again_ms = j->merged ? now_of(m) : NEVER;
    lk_mutex_unlock(&m->mutex);
    return rc;
}

/* Twice: when the time of grace begins, and when it is over. */
static lk_rc collect_step(lk_rollout_maintainer *m, job *j, uint64_t *again_ms, lk_err *err)
{
    uint64_t pending = 0;
    lk_rc    rc = LK_OK;
    if (j->mark == 0) {
        begin_grace(m, j);
        rc = count_pending(j, &pending, &j->mark, err);
        *again_ms = j->mark == 0 ? NEVER : j->grace_end_ms;
    } else if (now_of(m) < j->grace_end_ms) {
        *again_ms = j->grace_end_ms;
    } else {
        rc = collect(m, j, again_ms, err);
    }
    return rc;
}

static uint64_t next_clean(const lk_rollout_maintainer *m)
{
    uint64_t wait_ms = m->options.keep_ms / CLEANS;
    wait_ms = wait_ms < CLEAN_MS_MIN ? CLEAN_MS_MIN : wait_ms > CLEAN_MS_MAX ? CLEAN_MS_MAX : wait_ms;
    return m->options.keep_ms == 0 ? NEVER : now_of(m) + wait_ms / 2 + lk_random_below(m->random, wait_ms);
}

static lk_rc clean_step(lk_rollout_maintainer *m, job *j, uint64_t *again_ms, lk_err *err)
{
    const lk_cleanup_options options = {.older_than_ms = m->options.keep_ms, .retain = 1};
    lk_cleanup_report        report = {0};
    lk_rc                    rc = lk_dataset_cleanup(&j->store->env, &options, &report, err);
    *again_ms = next_clean(m);
    lk_mutex_lock(&m->mutex);
    m->stats.versions_removed += report.versions_removed;
    lk_mutex_unlock(&m->mutex);
    return rc;
}

static void work(lk_rollout_maintainer *m, job *j, step what)
{
    static lk_rc (*const steps[STEPS])(lk_rollout_maintainer *, job *, uint64_t *, lk_err *) = {
        merge_step, fold_step, collect_step, clean_step};
    lk_err   err = {0};
    uint64_t again_ms = NEVER;
    lk_rc    rc = steps[what](m, j, &again_ms, &err);
    /* It was removed, or is being forgotten. */
    bool over = rc == LK_E_TABLE_NOT_FOUND || rc == LK_E_NOT_FOUND || rc == LK_E_CANCELLED;
    lk_mutex_lock(&m->mutex);
    j->failures = rc == LK_OK || over ? 0 : j->failures + 1;
    bool tell = j->failures == 1;
    if (j->failures > 0) {
        m->stats.failures++;
        j->at_ms[what] = after_failure(m, j->failures);
    } else if (!over) {
        bring_forward(m, j, what, again_ms);
    }
    lk_mutex_unlock(&m->mutex);
    if (tell) {
        lk_log_error(LK_LOG_ROLLOUT_UPKEEP_FAILED, &err);
    }
}

/* -- threads ------------------------------------------------------------------------------------------------------- */

/* The job that is due, which goes to the end of the line; else when one will be. Called with the mutex. */
static job *next_job(lk_rollout_maintainer *m, step *what, uint64_t *wake_ms)
{
    uint64_t now_ms = now_of(m);
    *wake_ms = NEVER;
    for (job **at = &m->jobs; *at != NULL; at = &(*at)->next) {
        job *j = *at;
        for (step s = 0; s < STEPS && !j->working; s++) {
            if (j->at_ms[s] <= now_ms) {
                *what = s;
                *at = j->next;
                while (*at != NULL) {
                    at = &(*at)->next;
                }
                *at = j;
                j->next = NULL;
                return j;
            }
            *wake_ms = j->at_ms[s] < *wake_ms ? j->at_ms[s] : *wake_ms;
        }
    }
    return NULL;
}

static void run(void *context)
{
    lk_rollout_maintainer *m = context;
    lk_thread_lower();
    lk_mutex_lock(&m->mutex);
    while (!m->stopping) {
        step     what = MERGE;
        uint64_t wake_ms;
        job     *j = next_job(m, &what, &wake_ms);
        if (j != NULL) {
            j->working = true;
            j->at_ms[what] = NEVER;
            lk_mutex_unlock(&m->mutex);
            work(m, j, what);
            lk_mutex_lock(&m->mutex);
            j->working = false;
            lk_cond_broadcast(&m->changed);
        } else if (wake_ms == NEVER) {
            lk_cond_wait(&m->changed, &m->mutex);
        } else {
            (void)lk_cond_wait_until(&m->changed, &m->mutex, wake_ms);
        }
    }
    lk_mutex_unlock(&m->mutex);
}

/* -- stores --------------------------------------------------------------------------------------------------------- */

void lk_rollout_maintainer_watch(lk_rollout_maintainer *m, lk_rollout_store *store)
{
    if (m->options.off) {
        return;
    }
    job *j = calloc(1, sizeof *j);
    LK_ASSERT(j != NULL);
    j->store = store;
    j->at_ms[MERGE] = next_tick(m);
    j->at_ms[FOLD] = now_of(m) + FOLD_WAIT_MS;
    j->at_ms[COLLECT] = now_of(m);
    j->at_ms[CLEAN] = next_clean(m);
    lk_mutex_lock(&m->mutex);
    j->next = m->jobs;
    m->jobs = j;
    lk_cond_broadcast(&m->changed);
    lk_mutex_unlock(&m->mutex);
}

void lk_rollout_maintainer_forget(lk_rollout_maintainer *m, lk_rollout_store *store)
{
    lk_mutex_lock(&m->mutex);
    job *j = find_job(m, store);
    if (j != NULL) {
        j->cancel.set = true;
        for (step s = 0; s < STEPS; s++) {
            j->at_ms[s] = NEVER;
        }
        while (j->working) {
            lk_cond_wait(&m->changed, &m->mutex);
        }
        job **at = &m->jobs;
        while (*at != j) {
            at = &(*at)->next;
        }
        *at = j->next;
        free(j);
    }
    lk_mutex_unlock(&m->mutex);
}

void lk_rollout_maintainer_merge_due(lk_rollout_maintainer *m, lk_rollout_store *store)
{
    lk_mutex_lock(&m->mutex);
    job *j = find_job(m, store);
    if (j != NULL && j->failures == 0) {
        bring_forward(m, j, MERGE, now_of(m));
    }
    lk_mutex_unlock(&m->mutex);
}

void lk_rollout_maintainer_merged(lk_rollout_maintainer *m, lk_rollout_store *store)
{
    lk_mutex_lock(&m->mutex);
    job *j = find_job(m, store);
    if (j != NULL) {
        bring_forward(m, j, FOLD, now_of(m) + FOLD_WAIT_MS);
        j->merged = true;
        if (j->at_ms[COLLECT] == NEVER) {
            bring_forward(m, j, COLLECT, now_of(m));
        }
    }
    lk_mutex_unlock(&m->mutex);
}

void lk_rollout_maintainer_read_stats(lk_rollout_maintainer *m, lk_rollout_maintenance_stats *out)
{
    lk_mutex_lock(&m->mutex);
    *out = m->stats;
    lk_mutex_unlock(&m->mutex);
}

/* -- life ----------------------------------------------------------------------------------------------------------- */

lk_rc lk_rollout_maintainer_open(const lk_rollout_maintenance *options, lk_clock *clock, lk_random *random,
    lk_rollout_maintainer **out, lk_err *err)
{
    lk_rollout_maintainer *m = calloc(1, sizeof *m);
    lk_rc                  rc = LK_OK;
    LK_ASSERT(m != NULL);
    m->options = *options;
    m->clock = clock;
    m->random = random;
    lk_mutex_init(&m->mutex, LK_RANK_ENGINE);
    lk_cond_init(&m->changed);
    while (rc == LK_OK && m->thread_count < THREADS) {
        rc = lk_thread_start(&m->threads[m->thread_count], "rollout-upkeep", run, m, err);
        m->thread_count += rc == LK_OK;
    }
    if (rc == LK_OK) {
        *out = m;
    } else {
        lk_rollout_maintainer_close(m);
    }
    return rc;
}

void lk_rollout_maintainer_close(lk_rollout_maintainer *m)
{
    if (m == NULL) {
        return;
    }
    lk_mutex_lock(&m->mutex);
    LK_ASSERT(m->jobs == NULL);
    m->stopping = true;
    lk_cond_broadcast(&m->changed);
    lk_mutex_unlock(&m->mutex);
    for (size_t i = 0; i < m->thread_count; i++) {
        lk_thread_join(&m->threads[i]);
    }
    lk_cond_deinit(&m->changed);
    lk_mutex_deinit(&m->mutex);
    free(m);
}
