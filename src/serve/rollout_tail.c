/*
 * rollout_tail.c - GET .../tail?cursor=: what was added since the cursor, as soon as there is something, and the next cursor. Every
 * row comes at least once, merged or not. A learner that waits has no thread: one thread looks after all of them, woken by
 * adds of this instance and by the clock for those of others, and gives who can be answered to a few workers.
 *
 *   asked --rows, or no time--> answered
 *     '--nothing new--> waiting --something moved, time is up, peer gone, drain--> looked at again
 *
 * Threads: shared; mutex guards the list of those who wait.
 */
#include "serve/rollout_tail.h"

#include "base/clock.h"
#include "serve/rollout_list.h"

#include <stdlib.h>

enum {
    WAIT_MS = 30000, /* unless ?timeout_ms= says otherwise */
    WAIT_MS_MAX = 300000,
    REST_MS = 5, /* between two looks, however many adds come */
    WORKERS = 4,
    QUEUE = 16384
};

typedef struct waiter { /* in its exchange's arena */
    struct waiter        *next;
    rollout_call         *call;
    lk_rollout_store     *store;
    lk_rollout_snapshot  *seen; /* what there was when it was looked at last */
    lk_rollout_list_query query;
    lk_buf                cursor;
    uint64_t              deadline_ms;
} waiter;

struct rollout_tails {
    lk_rollout_service *service;
    lk_pool            *workers;
    lk_thread           thread;
    lk_mutex            mutex;
    lk_cond             changed;
    waiter             *first; /* guarded by mutex, as are the following */
    bool                stirred, stopping;
};

static uint64_t now_ms(void)
{
    return lk_clock_monotonic_ms(lk_clock_real());
}

/* -- one that waits --------------------------------------------------------------------------------------------------- */

static void release(waiter *w)
{
    lk_rollout_snapshot_unref(w->seen);
    lk_rollout_store_unref(w->store);
    lk_buf_deinit(&w->cursor);
    w->seen = NULL;
    w->store = NULL;
}

static bool is_out_of_time(const waiter *w, uint64_t at_ms)
{
    return at_ms >= w->deadline_ms || atomic_load(&w->call->service->draining) ||
           atomic_load(&lk_http_cancel(w->call->exchange)->set);
}

/* What is new for it, as rows; *next is the cursor behind them. Notes what was seen. */
static lk_rc look(waiter *w, lk_batches **rows, lk_buf *next, lk_err *err)
{
    lk_rollout_snapshot *news = NULL;
    lk_rollout_snapshot_unref(w->seen);
    w->seen = NULL; /* taken before the look, so that what comes after it is another */
    lk_rc rc = lk_rollout_store_snapshot(w->store, 0, &w->seen, err);
    if (rc == LK_OK) {
        rc = lk_rollout_store_tail(
            w->store, lk_buf_view(&w->cursor), 0, lk_http_cancel(w->call->exchange), &news, next, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_query_open(news, &w->query.query, rows, err);
    }
    lk_rollout_snapshot_unref(news);
    return rc;
}

static void answer(waiter *w, lk_batches *rows, lk_buf *next)
{
    rollout_call *call = w->call;
    lk_bytes      cursor = lk_arena_copy(call->arena, lk_buf_view(next));
    lk_buf_deinit(next);
    rows = rollout_hold_store(rows, w->store);
    release(w);
    rollout_answer_rows(call, &w->query, rows, cursor);
}

static void fail(waiter *w, lk_err *err)
{
    rollout_call *call = w->call;
    release(w);
    rollout_fail(call, err);
}

static void wait_on(struct rollout_tails *tails, waiter *w)
{
    lk_mutex_lock(&tails->mutex);
    w->next = tails->first;
    tails->first = w;
    lk_cond_signal(&tails->changed);
    lk_mutex_unlock(&tails->mutex);
}

/* Answers it if there is something, or its time is up; else it waits on. */
static void serve(void *context)
{
    waiter     *w = context;
    lk_batches *rows = NULL;
    lk_buf      next = {0};
    lk_err      err = {0};
    bool        last = is_out_of_time(w, now_ms());
    bool        first = w->cursor.size == 0; /* from now on: the cursor is the answer */
    if (look(w, &rows, &next, &err) != LK_OK) {
        lk_buf_deinit(&next);
        fail(w, &err);
    } else if (last || first || lk_rollout_query_count(rows) > 0) {
        answer(w, rows, &next);
    } else {
        lk_batches_close(rows);
        lk_buf_deinit(&w->cursor); /* what was new was filtered out: not to be looked at again */
        w->cursor = next;
        wait_on(w->call->service->tails, w);
    }
}

/* -- those who wait ---------------------------------------------------------------------------------------------------- */

/* A store's present snapshot, asked for once a round. */
typedef struct present {
    lk_rollout_store    *store;
    lk_rollout_snapshot *snapshot; /* NULL: it failed, which whoever waits is told */
} present;

static lk_rollout_snapshot *present_of(lk_buf *presents, lk_rollout_store *store)
{
    present *list = (present *)(void *)presents->data;
    present  fresh = {.store = store};
    lk_err   ignored = {0};
    for (size_t i = 0; i < presents->size / sizeof *list; i++) {
        if (list[i].store == store) {
            return list[i].snapshot;
        }
    }
    if (lk_rollout_store_snapshot(store, 0, &fresh.snapshot, &ignored) != LK_OK) {
        fresh.snapshot = NULL;
    }
    lk_buf_append(presents, &fresh, sizeof fresh);
    return fresh.snapshot;
}

static void release_presents(lk_buf *presents)
{
    present *list = (present *)(void *)presents->data;
    for (size_t i = 0; i < presents->size / sizeof *list; i++) {
        lk_rollout_snapshot_unref(list[i].snapshot);
    }
    lk_buf_deinit(presents);
}

/* Gives those who can be answered to the workers; the others wait on. */
static void one_round(struct rollout_tails *tails, waiter *all)
{
    lk_buf   presents = {0};
    uint64_t at_ms = now_ms();
    for (waiter *w = all, *next; w != NULL; w = next) {
        lk_err err = {0};
        next = w->next;
        bool due = is_out_of_time(w, at_ms) || present_of(&presents, w->store) != w->seen;
        if (!due || lk_pool_submit(tails->workers, serve, w, &err) != LK_OK) {
            wait_on(tails, w);
        }
    }
    release_presents(&presents);
}

/* Waits for the next round; NULL when none will come. */
static waiter *take_round(struct rollout_tails *tails)
{
    lk_mutex_lock(&tails->mutex);
    while (tails->first == NULL && !tails->stopping) {
        lk_cond_wait(&tails->changed, &tails->mutex);
    }
    uint64_t until_ms = now_ms() + LK_ROLLOUT_POLL_MS;
    while (!tails->stirred && !tails->stopping && now_ms() < until_ms) {
        (void)lk_cond_wait_until(&tails->changed, &tails->mutex, until_ms);
    }
    tails->stirred = false;
    waiter *all = tails->first;
    tails->first = NULL;
    lk_mutex_unlock(&tails->mutex);
    return all;
}

static void watch(void *context)
{
    struct rollout_tails *tails = context;
    for (waiter *all = take_round(tails); all != NULL; all = take_round(tails)) {
        one_round(tails, all);
        lk_clock_sleep_ms(lk_clock_real(), REST_MS);
    }
}

void rollout_tails_stir(struct rollout_tails *tails)
{
    lk_mutex_lock(&tails->mutex);
    if (tails->first != NULL && !tails->stirred) {
        tails->stirred = true;
        lk_cond_signal(&tails->changed);
    }
    lk_mutex_unlock(&tails->mutex);
}

/* -- life --------------------------------------------------------------------------------------------------------------- */

lk_rc rollout_tails_open(lk_rollout_service *service, struct rollout_tails **out, lk_err *err)
{
    struct rollout_tails *tails = calloc(1, sizeof *tails);
    LK_ASSERT(tails != NULL);
    tails->service = service;
    lk_mutex_init(&tails->mutex, LK_RANK_ADMISSION);
    lk_cond_init(&tails->changed);
    lk_rc rc = lk_pool_open(&tails->workers, "tail-run", WORKERS, QUEUE, err);
    if (rc == LK_OK) {
        rc = lk_thread_start(&tails->thread, "tail", watch, tails, err);
    }
    *out = tails;
    return rc;
}

void rollout_tails_close(struct rollout_tails *tails)
{
    if (tails == NULL) {
        return;
    }
    lk_mutex_lock(&tails->mutex);
    LK_ASSERT(tails->first == NULL);
    tails->stopping = true;
    lk_cond_broadcast(&tails->changed);
    lk_mutex_unlock(&tails->mutex);
    lk_thread_join(&tails->thread);
    lk_pool_close(tails->workers);
    lk_cond_deinit(&tails->changed);
    lk_mutex_deinit(&tails->mutex);
    free(tails);
}

/* -- the request --------------------------------------------------------------------------------------------------------- */

static lk_rc read_wait(rollout_call *call, uint64_t *wait_ms, lk_err *err)
{
    lk_bytes value = {0};
    bool     found = false;
    lk_rc    rc = rollout_parameter(call, "timeout_ms", &value, &found, err);
    *wait_ms = WAIT_MS;
    if (rc == LK_OK && found && (!lk_rollout_number_read(value, wait_ms) || *wait_ms > WAIT_MS_MAX)) {
        rc = lk_refuse(err, LK_E_INVALID_REQUEST, "timeout_ms: expected 0 to %d", WAIT_MS_MAX);
    }
    return rc;
}

lk_rc rollout_tail(rollout_call *call, lk_err *err)
{
    waiter  *w = lk_arena_take(call->arena, sizeof *w);
    uint64_t wait_ms = 0;
    w->call = call;
    lk_rc rc = rollout_read_query(call, &w->query, err);
    rc = rc == LK_OK ? read_wait(call, &wait_ms, err) : rc;
    if (rc == LK_OK && (w->query.query.limit != UINT64_MAX || w->query.query.offset > 0)) {
        rc = lk_refuse(err, LK_E_INVALID_REQUEST, "a tail goes without limit and offset");
    }
    rc = rc == LK_OK ? rollout_open_store(call, &w->store, err) : rc;
    if (rc == LK_OK) {
        w->deadline_ms = now_ms() + wait_ms;
        lk_buf_append_bytes(&w->cursor, w->query.cursor);
        serve(w);
    }
    return rc;
}
