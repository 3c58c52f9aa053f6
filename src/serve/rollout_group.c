/*
 * rollout_group.c - adds that come for a store while others are being stored wait without a thread of their own, and are
 * stored together by the worker that stored those: thousands of clients post at once, and a flush takes whoever is there.
 *
 *   add --no group--> this worker stores it, then what came meanwhile, until nobody waits
 *    '--a group is at work--> waits in it
 *
 * Threads: shared; mutex guards the groups and is not held while anything is stored.
 */
#include "serve/rollout_add.h"
#include "serve/rollout_tail.h"

#include <stdlib.h>

typedef struct group {
    struct group     *next;
    lk_rollout_store *store; /* its adds hold references */
    rollout_add_call *first, *last;
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
        g->next = groups->first;
        groups->first = g;
    }
    if (g->last == NULL) {
        g->first = add;
    } else {
        g->last->next = add;
    }
    g->last = add;
    lk_mutex_unlock(&groups->mutex);
    return fresh;
}

/* Everything that waits in the group. When nothing does the group ends. */
static rollout_add_call *take_waiting(struct rollout_groups *groups, group *g)
{
    lk_mutex_lock(&groups->mutex);
    rollout_add_call *adds = g->first;
    g->first = g->last = NULL;
    if (adds == NULL) {
        group **at = &groups->first;
        while (*at != g) {
            at = &(*at)->next;
        }
        *at = g->next;
        free(g);
    }
    lk_mutex_unlock(&groups->mutex);
    return adds;
}

static void store_ready(rollout_add_call *adds)
{
    lk_rollout_store *store = adds->store;
    uint64_t          version = 0;
    lk_err            flush_err = {0};
    bool              flush = false;
    for (rollout_add_call *add = adds; add != NULL; add = add->next) {
        add->submission.next = add->next == NULL ? NULL : &add->next->submission;
        flush = flush || add->flush;
    }
    lk_rollout_store_submit(store, &adds->submission, &version);
    lk_rc flushed = flush ? lk_rollout_store_flush(store, &flush_err) : LK_OK;
    for (rollout_add_call *add = adds, *next; add != NULL; add = next) {
        next = add->next; /* an answered add is gone */
        lk_err err = add->submission.err;
        lk_rc  rc = add->submission.rc;
        if (rc == LK_OK && add->flush && flushed != LK_OK) {
            err = flush_err;
            rc = flushed;
        }
        rollout_add_answer(add, rc, version, &err);
    }
}

static void store_group(rollout_add_call *adds)
{
    rollout_add_call *ready = rollout_read_together(adds);
    if (ready != NULL) {
        store_ready(ready);
    }
}

void rollout_group_add(lk_rollout_service *service, rollout_add_call *add)
{
    group *g = join(service->groups, add);
    while (g != NULL) {
        rollout_add_call *adds = take_waiting(service->groups, g);
        if (adds == NULL) {
            return;
        }
        store_group(adds);
        rollout_tails_stir(service->tails);
    }
}
