/*
 * scan.c - lk_dataset_scan: morsels decoded ahead by the pool, handed out in row order, or as they are done.
 *
 * A slot a morsel, in a ring over [head, head + WINDOW_MAX):
 *
 *   EMPTY --claim--> RUNNING --done--> READY --taken, or no row in it--> EMPTY (for a later morsel)
 *     ^                 |
 *     +-- no memory ----+      (the head: FAILED if it was alone; else it is tried again when it is)
 *
 * Where order does not matter any READY slot is taken; it is DONE, and EMPTY only when all before it are.
 *
 * Invariants:
 *   1. Whoever asks for the head and finds it EMPTY decodes it itself: a scan makes progress without the pool. Where
 *      any result will do it rather waits for workers that are about to begin: what it decoded could be the slowest.
 *   2. At most `window` morsels are ahead of the reader; the window grows as the reader goes on, so a reader
 *      that stops early has caused little work.
 *   3. What has room alone has room: where the head finds no memory nothing is decoded ahead any more, batches that are
 *      ahead of it are given up or handed out, idle buffers go, and it runs once more; then the window grows again,
 *      half as far.
 *   4. The reader is woken for rows, an error or the end only: whoever finishes a head without rows passes it by.
 *   5. close waits for morsels that are being decoded, not for workers that the pool has yet to start: those
 *      find the scan stopped, and the last one frees it.
 * Threads: the stream is confined to its reader; workers share it under the mutex (rank SCAN), which is never
 * held while decoding.
 */
#include "lance/scan_priv.h"

#include <stdlib.h>

enum { WINDOW_MAX = 16, WINDOW_START = 2, PATIENCE_MS = 5 };

typedef enum slot_state { SLOT_EMPTY, SLOT_RUNNING, SLOT_READY, SLOT_FAILED, SLOT_DONE } slot_state;

typedef struct slot {
    slot_state        state;
    struct ArrowArray batch; /* READY */
    lk_err            err;   /* FAILED */
} slot;

typedef struct scan {
    lk_batches      base;
    lk_morsel_scan *morsels;
    lk_pool        *pool;
    size_t          workers_max, window_max;
    uint64_t        left; /* rows that may still be handed out; the reader's */
    bool            unordered;
    bool            alone; /* the head found no memory beside others; by mutex */
    bool            helps; /* memory for one more was there when it last tried; the reader's */
    lk_mutex        mutex;
    lk_cond         changed;
    slot            slots[WINDOW_MAX]; /* by mutex; morsel m is in slots[m % WINDOW_MAX] */
    size_t          head, window;      /* by mutex */
    size_t          workers;           /* by mutex: submitted and not yet gone */
    bool            stopped, closed;   /* by mutex */
} scan;

static void free_scan(scan *self)
{
    lk_cond_deinit(&self->changed);
    lk_mutex_deinit(&self->mutex);
    free(self);
}

/* Under the mutex: the first unclaimed morsel in the window, SIZE_MAX: none. */
static size_t claim(scan *self)
{
    if (self->stopped || self->alone) { /* stopped: morsels may be gone */
        return SIZE_MAX;
    }
    size_t end = self->head + self->window, count = lk_morsel_scan_count(self->morsels);
    end = end < count ? end : count;
    for (size_t morsel = self->head; morsel < end; morsel++) {
        if (self->slots[morsel % WINDOW_MAX].state == SLOT_EMPTY) {
            self->slots[morsel % WINDOW_MAX].state = SLOT_RUNNING;
            return morsel;
        }
    }
    return SIZE_MAX;
}

/* Under the mutex: empties the head's slot and goes to the next morsel. */
static void pass_head(scan *self)
{
    self->slots[self->head % WINDOW_MAX] = (slot){0};
    self->head++;
    self->alone = false;
    self->window = self->window * 2 < self->window_max ? self->window * 2 : self->window_max;
}

/* Under the mutex: goes to the first morsel whose rows were not handed out yet. */
static slot *pass_done(scan *self)
{
    slot *head = &self->slots[self->head % WINDOW_MAX];
    while (head->state == SLOT_DONE || (head->state == SLOT_READY && head->batch.length == 0)) {
        lk_array_release(&head->batch);
        pass_head(self);
        head = &self->slots[self->head % WINDOW_MAX];
    }
    return head;
}

/* Under the mutex: passes by morsels without rows, then wakes whom the new state concerns. */
static void publish(scan *self)
{
    const slot *head = pass_done(self);
    if (head->state != SLOT_RUNNING || self->unordered || self->stopped) {
        lk_cond_broadcast(&self->changed);
    }
}

/* Under the mutex: the head found no memory. False: nobody else had any. */
static bool stand_alone(scan *self)
{
    bool again = !self->alone;
    for (size_t ahead = 1; ahead < WINDOW_MAX; ahead++) {
        slot *at = &self->slots[(self->head + ahead) % WINDOW_MAX];
        again = again || at->state == SLOT_RUNNING || (at->state == SLOT_READY && at->batch.length > 0);
        if (at->state == SLOT_READY && !self->unordered) {
            lk_array_release(&at->batch);
            *at = (slot){0};
        }
    }
    lk_buffer_pool_trim(self->morsels->pool);
    if (again) {
        self->alone = true;
        self->window = 1;
        self->window_max = self->window_max > 1 ? self->window_max / 2 : 1;
    }
    return again;
}

/* Decodes a claimed morsel and fills its slot; false: it was put back for want of memory. */
static bool run(scan *self, size_t morsel)
{
    struct ArrowArray batch = {0};
    lk_err            err = {0};
    lk_rc             rc = lk_morsel_run(self->morsels, morsel, &batch, &err);
    lk_mutex_lock(&self->mutex);
    slot *mine = &self->slots[morsel % WINDOW_MAX];
    bool  back = rc == LK_E_LIMIT && (morsel != self->head || stand_alone(self));
    if (rc == LK_OK && self->alone && !self->unordered && morsel != self->head) {
        lk_array_release(&batch);
        mine->state = SLOT_EMPTY;
    } else if (rc == LK_OK) {
        mine->state = SLOT_READY;
        mine->batch = batch;
    } else if (back) {
        mine->state = SLOT_EMPTY;
    } else {
        mine->state = SLOT_FAILED;
        mine->err = err;
    }
    publish(self);
    lk_mutex_unlock(&self->mutex);
    return !back;
}

static void work(void *context);

/* How many more workers have something to do; where order matters the reader does the head. */
static size_t wanted_workers(scan *self)
{
    size_t end = self->head + self->window, count = lk_morsel_scan_count(self->morsels), empty = 0;
    end = end < count ? end : count;
    for (size_t morsel = self->head + !self->unordered; morsel < end; morsel++) {
        empty += self->slots[morsel % WINDOW_MAX].state == SLOT_EMPTY;
    }
    size_t room = self->workers_max - self->workers;
    size_t more = empty < room ? empty : room;
    self->workers += more;
    return more;
}

static void hire(scan *self)
{
    lk_err ignored = {0}; /* a full pool means that this reader does more by itself */
    lk_mutex_lock(&self->mutex);
    size_t more = self->stopped || self->pool == NULL ? 0 : wanted_workers(self);
    lk_mutex_unlock(&self->mutex);
    while (more > 0 && lk_pool_submit(self->pool, work, self, &ignored) == LK_OK) {
        more--;
    }
    if (more > 0) {
        lk_mutex_lock(&self->mutex);
        self->workers -= more;
        lk_mutex_unlock(&self->mutex);
    }
}

/* A worker goes; true when it was the last of a closed scan. */
static bool leave(scan *self)
{
    self->workers--;
    return self->closed && self->workers == 0;
}

static void work(void *context)
{
    scan *self = context;
    bool  more = true, last = false;
    while (more) {
        lk_mutex_lock(&self->mutex);
        size_t morsel = claim(self);
        last = morsel == SIZE_MAX && leave(self);
        lk_mutex_unlock(&self->mutex);
        if (morsel == SIZE_MAX) {
            break;
        }
        more = run(self, morsel);
        hire(self); /* the window may have grown past this worker */
    }
    if (!more) {
        lk_mutex_lock(&self->mutex);
        last = leave(self);
        lk_mutex_unlock(&self->mutex);
    }
    if (last) {
        free_scan(self);
    }
}

/* Decodes a claimed morsel on the reader's thread. */
static void run_unlocked(scan *self, size_t morsel)
{
    lk_mutex_unlock(&self->mutex);
    self->helps = run(self, morsel);
    lk_mutex_lock(&self->mutex);
}

/* Under the mutex: a result that is there and may be handed out now; NULL: none. */
static slot *find_result(scan *self)
{
    slot  *head = pass_done(self);
    size_t end = self->unordered ? self->head + WINDOW_MAX : self->head + 1; /* the window may have shrunk */
    if (head->state == SLOT_READY || head->state == SLOT_FAILED) {
        return head;
    }
    for (size_t morsel = self->head + 1; morsel < end; morsel++) {
        slot *at = &self->slots[morsel % WINDOW_MAX];
        if (at->state == SLOT_FAILED || (at->state == SLOT_READY && at->batch.length > 0)) {
            return at;
        }
    }
    return NULL;
}

static bool running(const scan *self)
{
    bool found = false;
    for (size_t index = 0; index < WINDOW_MAX; index++) {
        found = found || self->slots[index].state == SLOT_RUNNING;
    }
    return found;
}

/* Under the mutex: whether workers do it, for whom it has waited. */
static bool leave_to_workers(scan *self)
{
    if (!self->unordered || self->workers == 0) {
        return false;
    }
    return lk_cond_wait_until(&self->changed, &self->mutex, lk_thread_now_ms() + PATIENCE_MS) ||
           running(self);
}

/* Under the mutex: the morsel that the reader had better decode itself; SIZE_MAX: none. */
static size_t own_share(scan *self)
{
    if (leave_to_workers(self)) {
        return SIZE_MAX;
    }
    slot *head = &self->slots[self->head % WINDOW_MAX];
    if (head->state == SLOT_EMPTY && !(self->alone && running(self))) {
        head->state = SLOT_RUNNING;
        return self->head;
    }
    return self->helps && self->window > WINDOW_START ? claim(self) : SIZE_MAX;
}

/* Under the mutex: waits for a result, or makes one; NULL: no morsel is left. A reader that has seen rows and goes
 * on would rather decode the next morsel than sleep: where morsels are small, waking it costs more. */
static slot *await_result(scan *self)
{
    slot *found = find_result(self);
    while (found == NULL && self->head < lk_morsel_scan_count(self->morsels)) {
        size_t morsel = own_share(self);
        if (morsel != SIZE_MAX) {
            run_unlocked(self, morsel);
        } else if (!self->unordered) {
            lk_cond_wait(&self->changed, &self->mutex);
        }
        found = find_result(self);
    }
    return found;
}

/* Takes the next result that has rows. At the end *out stays released. */
static lk_rc take_result(scan *self, struct ArrowArray *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    lk_mutex_lock(&self->mutex);
    slot *result = await_result(self);
    if (result != NULL && result->state == SLOT_READY) {
        *out = result->batch;
        *result = (slot){.state = SLOT_DONE};
        (void)pass_done(self);
        self->helps = true;
    } else if (result != NULL) {
        LK_ASSERT(result->state == SLOT_FAILED);
        *err = result->err;
        rc = result->err.rc;
        self->stopped = true;
    }
    lk_mutex_unlock(&self->mutex);
    return rc;
}

static lk_rc next_batch(lk_batches *base, struct ArrowArray *out, lk_err *err)
{
    scan *self = (scan *)base;
    *out = (struct ArrowArray){0};
    if (self->left == 0) {
        return LK_OK;
    }
    hire(self);
    lk_rc rc = take_result(self, out, err);
    if (rc == LK_OK && out->release != NULL) {
        lk_batch_truncate(out, self->left < (uint64_t)out->length ? (int64_t)self->left : out->length);
        self->left -= (uint64_t)out->length;
    }
    return rc;
}

static void close_scan(lk_batches *base)
{
    scan *self = (scan *)base;
    lk_mutex_lock(&self->mutex);
    self->stopped = true;
    while (running(self)) {
        lk_cond_wait(&self->changed, &self->mutex);
    }
    lk_mutex_unlock(&self->mutex); /* from here on workers only leave */
    for (size_t index = 0; index < WINDOW_MAX; index++) {
        lk_array_release(&self->slots[index].batch);
    }
    lk_morsel_scan_close(self->morsels);
    lk_schema_release(&base->schema);
    lk_mutex_lock(&self->mutex);
    self->closed = true;
    bool last = self->workers == 0;
    lk_mutex_unlock(&self->mutex);
    if (last) {
        free_scan(self);
    }
}

lk_rc lk_morsel_scan_stream(lk_morsel_scan *morsels, uint64_t limit, lk_batches **out, lk_err *err)
{
    scan *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    lk_rc rc = lk_schema_copy(lk_morsel_scan_schema(morsels), &self->base.schema, err);
    if (rc != LK_OK) {
        lk_morsel_scan_close(morsels);
        free(self);
        return rc;
    }
    self->morsels = morsels;
    self->unordered = morsels->unordered && lk_morsel_scan_count(morsels) > 1;
    lk_mutex_init(&self->mutex, LK_RANK_SCAN);
    lk_cond_init(&self->changed);
    self->base.next = next_batch;
    self->base.close = close_scan;
    self->pool = morsels->alone ? NULL : morsels->dataset->env.pool;
    self->workers_max = self->pool == NULL ? 0 : lk_pool_thread_count(self->pool);
    self->window_max = 2 * self->workers_max + 2 < WINDOW_MAX ? 2 * self->workers_max + 2 : WINDOW_MAX;
    self->window = WINDOW_START < self->window_max ? WINDOW_START : self->window_max;
    self->left = limit;
    *out = &self->base;
    return LK_OK;
}

lk_rc lk_dataset_scan(lk_dataset *dataset, const lk_scan_options *options, lk_batches **out, lk_err *err)
{
    lk_morsel_scan *morsels = NULL;
    lk_rc           rc = lk_dataset_morsel_scan(dataset, options, &morsels, err);
    return rc == LK_OK ? lk_morsel_scan_stream(morsels, options->limit, out, err) : rc;
}
