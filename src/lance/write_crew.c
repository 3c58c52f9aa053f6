/*
 * write_crew.c - see write_crew.h.
 *
 *   idle --start--> queued --claim--> running --> done --release--> idle
 *
 * Whoever claims a queued page, a task or the writer, encodes it. A task that comes too late finds another page to
 * claim, or none. Tasks hold a reference each: the last one to leave frees the crew.
 */
#include "lance/write_crew.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { IDLE, QUEUED, RUNNING, DONE };
enum {
    JOBS_MAX = 4,
    SMALL_BYTES = 64 * 1024 /* pages below are encoded at once: another thread would take longer to wake */
};

struct lk_page_crew {
    lk_pool         *pool;
    lk_mutex         mutex;
    lk_cond          done; /* a page is */
    _Atomic unsigned refs;
    size_t           job_count, oldest, used; /* a ring */
    size_t           held[JOBS_MAX];          /* memory of a page when it was last released */
    lk_page_job      jobs[JOBS_MAX];
};

lk_page_crew *lk_page_crew_new(lk_pool *pool)
{
    lk_page_crew *crew = calloc(1, sizeof *crew);
    LK_ASSERT(crew != NULL);
    crew->pool = pool;
    crew->job_count = pool == NULL ? 1 : lk_pool_thread_count(pool) + 1;
    crew->job_count = crew->job_count > JOBS_MAX ? JOBS_MAX : crew->job_count;
    atomic_init(&crew->refs, 1);
    lk_mutex_init(&crew->mutex, LK_RANK_LEAF);
    lk_cond_init(&crew->done);
    return crew;
}

static void unref(lk_page_crew *crew)
{
    unsigned before = atomic_fetch_sub_explicit(&crew->refs, 1, memory_order_acq_rel);
    LK_ASSERT(before > 0);
    if (before > 1) {
        return;
    }
    for (size_t job = 0; job < JOBS_MAX; job++) {
        lk_leaf_deinit(&crew->jobs[job].leaf);
        lk_page_out_deinit(&crew->jobs[job].page);
    }
    lk_cond_deinit(&crew->done);
    lk_mutex_deinit(&crew->mutex);
    free(crew);
}

/* -- encoding ------------------------------------------------------------------------------------------- */
static bool claim(lk_page_job *job)
{
    int queued = QUEUED;
    return atomic_compare_exchange_strong(&job->state, &queued, RUNNING);
}

static void encode(lk_page_crew *crew, lk_page_job *job)
{
    lk_page_encode(&job->leaf, job->file_minor, &job->page);
    lk_mutex_lock(&crew->mutex);
    atomic_store(&job->state, DONE);
    lk_cond_broadcast(&crew->done);
    lk_mutex_unlock(&crew->mutex);
}

static void work(void *context)
{
    lk_page_crew *crew = context;
    for (size_t job = 0; job < crew->job_count; job++) {
        if (claim(&crew->jobs[job])) {
            encode(crew, &crew->jobs[job]);
            break;
        }
    }
    unref(crew);
}

static void wait_for(lk_page_crew *crew, lk_page_job *job)
{
    if (claim(job)) {
        encode(crew, job);
        return;
    }
    lk_mutex_lock(&crew->mutex);
    while (atomic_load(&job->state) == RUNNING) {
        lk_cond_wait(&crew->done, &crew->mutex);
    }
    lk_mutex_unlock(&crew->mutex);
}

/* -- the ring ------------------------------------------------------------------------------------------- */
bool lk_page_crew_full(const lk_page_crew *crew)
{
    return crew->used == crew->job_count;
}

bool lk_page_crew_shares(const lk_page_crew *crew, const lk_leaf *leaf)
{
    return crew->pool != NULL && lk_leaf_bytes(leaf) >= SMALL_BYTES;
}

void lk_page_crew_start(lk_page_crew *crew, lk_leaf *leaf, uint32_t file_minor, size_t column)
{
    LK_ASSERT(crew->used < crew->job_count);
    lk_page_job *job = &crew->jobs[(crew->oldest + crew->used++) % crew->job_count];
    lk_err       ignored = {0};
    bool         shared = lk_page_crew_shares(crew, leaf);
    lk_leaf_take(leaf, &job->leaf);
    lk_page_make_room(&job->leaf);
    job->file_minor = file_minor;
    job->column = column;
    atomic_store(&job->state, QUEUED);
    if (!shared) {
        wait_for(crew, job);
        return;
    }
    atomic_fetch_add(&crew->refs, 1);
    if (lk_pool_submit(crew->pool, work, crew, &ignored) != LK_OK) {
        unref(crew); /* it waits for the writer */
    }
}

lk_page_job *lk_page_crew_finish(lk_page_crew *crew)
{
    if (crew->used == 0) {
        return NULL;
    }
    lk_page_job *job = &crew->jobs[crew->oldest];
    wait_for(crew, job);
    return job;
}

void lk_page_crew_release(lk_page_crew *crew, lk_page_job *job, lk_leaf *back)
{
    LK_ASSERT(job == &crew->jobs[crew->oldest] && crew->used > 0);
    lk_leaf_clear(&job->leaf);
    if (lk_leaf_rows(back) == 0 && lk_leaf_capacity(back) < lk_leaf_capacity(&job->leaf)) {
        lk_leaf_take(&job->leaf, back);
    }
    crew->held[crew->oldest] = lk_leaf_capacity(&job->leaf) + lk_page_out_capacity(&job->page);
    atomic_store(&job->state, IDLE);
    crew->oldest = (crew->oldest + 1) % crew->job_count;
    crew->used--;
}

size_t lk_page_crew_capacity(const lk_page_crew *crew)
{
    size_t capacity = 0;
    for (size_t job = 0; job < crew->job_count; job++) {
        size_t leaf = lk_leaf_capacity(&crew->jobs[job].leaf); /* which no task changes */
        capacity += crew->held[job] > 2 * leaf ? crew->held[job] : 2 * leaf;
    }
    return capacity;
}

void lk_page_crew_clear(lk_page_crew *crew)
{
    for (size_t at = 0; at < crew->job_count; at++) {
        lk_page_job *job = &crew->jobs[at];
        int          queued = QUEUED;
        if (!atomic_compare_exchange_strong(&job->state, &queued, IDLE)) {
            wait_for(crew, job);
            atomic_store(&job->state, IDLE);
        }
    }
    crew->used = crew->oldest = 0; /* so files of the same columns find the same memory */
}

void lk_page_crew_close(lk_page_crew *crew)
{
    if (crew != NULL) {
        lk_page_crew_clear(crew);
        unref(crew);
    }
}
