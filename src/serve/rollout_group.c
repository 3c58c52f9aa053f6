/*
 * rollout_group.c - adds that come for a store while others are being stored wait without a thread of their own, and are
 * stored together by the worker that stored those: thousands of clients post at once, and a flush takes whoever is there.
 *
 *   add --no group--> this worker stores it, then what came meanwhile, until nobody waits
 *    '--a group is at work--> waits in it
 *
 * Where storage is far, whoever is answered now and posts again would just miss the next flush, and clients would fall into two
 * halves that wait for each other. So there the next flush lets those come back first, for a small part of its own time.
 *
 * Threads: shared; mutex guards the groups and is not held while anything is stored.
 */
#include "base/clock.h"
#include "serve/rollout_add.h"
#include "serve/rollout_tail.h"

#include <stdlib.h>

enum {
    PATIENCE_PART = 8,
    PATIENCE_MS_MAX = 10
}; /* a flush waits for company so much of what the last one took */

typedef struct group {
    struct group     *next;
    lk_rollout_store *store; /* its adds hold references */
    bool              far;
    rollout_add_call *first, *last;
    size_t            waiting, wanted; /* wanted: `enough` is signalled when so many wait; 0: never */
    lk_cond           enough;
    /* Of the last flush and of whoever works on it: its adds and those that waited then, and how long it took. */
    size_t   company;
    uint64_t took_us;
} group;

struct rollout_groups {
    lk_mutex mutex;
    group   *first; /* guarded by mutex, with what they hold */
};

struct rollout_groups *rollout_groups_new(void)
{
    struct rollout_groups *groups = calloc(1, sizeof *groups);
    LK_ASSERT(groups != NULL);
    lk_mutex_init(&groups->mutex, LK_RANK_ADMISSION);
    return groups;
}

void rollout_groups_free(struct rollout_groups *groups)
{
    if (groups != NULL) {
        LK_ASSERT(groups->first == NULL);
        lk_mutex_deinit(&groups->mutex);
        free(groups);
    }
}

/* Puts the add into its store's group; NULL when somebody works on that, else the new group. */
static group *join(struct rollout_groups *groups, rollout_add_call *add)
{
    group *fresh = NULL;
    lk_mutex_lock(&groups->mutex);
    group *g = groups->first;
    while (g != NULL && g->store != add->store) {
        g = g->next;
    }
    if (g == NULL) {
        g = fresh = calloc(1, sizeof *g);
        LK_ASSERT(g != NULL);
        g->store = add->store;
        g->far = lk_rollout_store_is_far(add->store);
        lk_cond_init(&g->enough);
        g->next = groups->first;
        groups->first = g;
    }
    if (g->last == NULL) {
        g->first = add;
    } else {
        g->last->next = add;
    }
    g->last = add;
    g->waiting++;
    if (g->wanted > 0 && g->waiting >= g->wanted) {
        lk_cond_signal(&g->enough);
    }
    lk_mutex_unlock(&groups->mutex);
    return fresh;
}

/* Everything that waits in the group. When nothing does the group ends. */
static rollout_add_call *take_waiting(struct rollout_groups *groups, group *g)
{
    lk_mutex_lock(&groups->mutex);
    rollout_add_call *adds = g->first;
    g->first = g->last = NULL;
    g->waiting = 0;
    if (adds == NULL) {
        group **at = &groups->first;
        while (*at != g) {
            at = &(*at)->next;
        }
        *at = g->next;
        lk_cond_deinit(&g->enough);
        free(g);
    }
    lk_mutex_unlock(&groups->mutex);
    return adds;
}

/* Since *at, which becomes now. */
static void count_stage(lk_rollout_service *service, rollout_stage stage, uint64_t *at)
{
    uint64_t now = lk_clock_now_us();
    atomic_fetch_add(&service->stage_us[stage], now - *at);
    *at = now;
}

/* Stores them and says what became of each in its submission. */
static void store_ready(rollout_add_call *adds, uint64_t *version, lk_rc *flushed, lk_err *err)
{
    lk_rollout_store *store = adds->store;
    bool              flush = false;
    for (rollout_add_call *add = adds; add != NULL; add = add->next) {
        add->submission.next = add->next == NULL ? NULL : &add->next->submission;
        flush = flush || add->flush;
    }
    lk_rollout_store_submit(store, &adds->submission, version);
    *flushed = flush ? lk_rollout_store_flush(store, err) : LK_OK;
}

static void answer_all(rollout_add_call *adds, uint64_t version, lk_rc flushed, const lk_err *flush_err)
{
    for (rollout_add_call *add = adds, *next; add != NULL; add = next) {
        next = add->next; /* an answered add is gone */
        lk_err err = add->submission.err;
        lk_rc  rc = add->submission.rc;
        if (rc == LK_OK && add->flush && flushed != LK_OK) {
            err = *flush_err;
            rc = flushed;
        }
        rollout_add_answer(add, rc, version, &err);
    }
}

/* Before any of them is answered: who comes back is counted once. */
static void count_company(struct rollout_groups *groups, group *g, const rollout_add_call *adds)
{
    lk_mutex_lock(&groups->mutex);
    g->company = g->waiting;
    lk_mutex_unlock(&groups->mutex);
    for (const rollout_add_call *add = adds; add != NULL; add = add->next) {
        g->company++;
    }
}

static void store_group(lk_rollout_service *service, group *g, rollout_add_call *adds)
{
    uint64_t at = lk_clock_now_us(), began = at, version = 0;
    lk_rc    flushed = LK_OK;
    lk_err   err = {0};
    g->company = 0;
    rollout_add_call *ready = rollout_read_together(adds);
    count_stage(service, ROLLOUT_STAGE_READ, &at);
    if (ready != NULL) {
        store_ready(ready, &version, &flushed, &err);
        count_stage(service, ROLLOUT_STAGE_STORE, &at);
        count_company(service->groups, g, ready);
        answer_all(ready, version, flushed, &err);
        count_stage(service, ROLLOUT_STAGE_ANSWER, &at);
    }
    g->took_us = lk_clock_now_us() - began;
}

/* Lets those that were just answered come back. */
static void await_company(struct rollout_groups *groups, group *g)
{
    uint64_t most_ms = g->took_us / 1000 / PATIENCE_PART;
    uint64_t until_ms = lk_thread_now_ms() + (most_ms < PATIENCE_MS_MAX ? most_ms : PATIENCE_MS_MAX);
    bool     in_time = true;
    lk_mutex_lock(&groups->mutex);
    g->wanted = g->company;
    while (in_time && g->waiting < g->wanted) {
        in_time = lk_cond_wait_until(&g->enough, &groups->mutex, until_ms);
    }
    g->wanted = 0;
    lk_mutex_unlock(&groups->mutex);
}

/* Lets others join, if that is asked for and anybody waits. */
static void gather(lk_rollout_service *service, group *g)
{
    uint64_t wait_us = atomic_load(&service->group_commit_us);
    if (g->far && g->company > 1) {
        await_company(service->groups, g);
    }
    lk_mutex_lock(&service->groups->mutex);
    bool waits = g->first != NULL;
    lk_mutex_unlock(&service->groups->mutex);
    if (waits && wait_us > 0) {
        lk_clock_sleep_ms(lk_clock_real(), (wait_us + 999) / 1000);
    }
}

void rollout_group_add(lk_rollout_service *service, rollout_add_call *add)
{
    group *g = join(service->groups, add);
    while (g != NULL) {
        gather(service, g);
        rollout_add_call *adds = take_waiting(service->groups, g);
        if (adds == NULL) {
            return;
        }
        store_group(service, g, adds);
        rollout_tails_stir(service->tails);
    }
}
