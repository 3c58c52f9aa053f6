/*
 * thread_pthread.c - the body of thread.h that runs: POSIX threads. A link that brings its own body
 * (the simulator's) leaves this file out.
 *
 * Invariant: held[0 .. held_count) are the ranks this thread holds, strictly increasing.
 */
#include "base/thread.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { HELD_MAX = 16, NAME_SIZE = 16 /* of the kernel */ };

static _Thread_local lk_rank  held[HELD_MAX];
static _Thread_local unsigned held_count;

static void *small(size_t size)
{
    void *memory = calloc(1, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static void note_lock(lk_rank rank)
{
    LK_ASSERT(held_count == 0 || held[held_count - 1] < rank);
    LK_ASSERT(held_count < HELD_MAX);
    held[held_count++] = rank;
}

static void note_unlock(lk_rank rank)
{
    unsigned at = held_count;
    while (at > 0 && held[at - 1] != rank) {
        at--;
    }
    LK_ASSERT(at > 0);
    memmove(&held[at - 1], &held[at], (held_count - at) * sizeof held[0]);
    held_count--;
}

void lk_mutex_init(lk_mutex *mutex, lk_rank rank)
{
    mutex->body = small(sizeof(pthread_mutex_t));
    mutex->rank = rank;
    LK_ASSERT(pthread_mutex_init(mutex->body, NULL) == 0);
}

void lk_mutex_deinit(lk_mutex *mutex)
{
    if (mutex->body != NULL) {
        LK_ASSERT(pthread_mutex_destroy(mutex->body) == 0);
        free(mutex->body);
        mutex->body = NULL;
    }
}

void lk_mutex_lock(lk_mutex *mutex)
{
    note_lock(mutex->rank); /* before blocking: an order violation is told, not hung on */
    LK_ASSERT(pthread_mutex_lock(mutex->body) == 0);
}

void lk_mutex_unlock(lk_mutex *mutex)
{
    note_unlock(mutex->rank);
    LK_ASSERT(pthread_mutex_unlock(mutex->body) == 0);
}

void lk_assert_no_mutex(void)
{
    LK_ASSERT(held_count == 0);
}

void lk_cond_init(lk_cond *cond)
{
    pthread_condattr_t attributes;
    cond->body = small(sizeof(pthread_cond_t));
    LK_ASSERT(pthread_condattr_init(&attributes) == 0);
    LK_ASSERT(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    LK_ASSERT(pthread_cond_init(cond->body, &attributes) == 0);
    (void)pthread_condattr_destroy(&attributes);
}

void lk_cond_deinit(lk_cond *cond)
{
    if (cond->body != NULL) {
        LK_ASSERT(pthread_cond_destroy(cond->body) == 0);
        free(cond->body);
        cond->body = NULL;
    }
}

/* The rank stays noted while waiting: this thread takes nothing meanwhile, and holds it again after. */
void lk_cond_wait(lk_cond *cond, lk_mutex *mutex)
{
    LK_ASSERT(held_count > 0 && held[held_count - 1] == mutex->rank);
    LK_ASSERT(pthread_cond_wait(cond->body, mutex->body) == 0);
}

bool lk_cond_wait_until(lk_cond *cond, lk_mutex *mutex, uint64_t deadline_ms)
{
    LK_ASSERT(held_count > 0 && held[held_count - 1] == mutex->rank);
    struct timespec until = {(time_t)(deadline_ms / 1000u), (long)(deadline_ms % 1000u) * 1000000L};
    int             failed = pthread_cond_timedwait(cond->body, mutex->body, &until);
    LK_ASSERT(failed == 0 || failed == ETIMEDOUT);
    return failed == 0;
}

void lk_cond_signal(lk_cond *cond)
{
    LK_ASSERT(pthread_cond_signal(cond->body) == 0);
}

void lk_cond_broadcast(lk_cond *cond)
{
    LK_ASSERT(pthread_cond_broadcast(cond->body) == 0);
}

struct started {
    pthread_t id;
    void (*run)(void *context);
    void *context;
    char  name[NAME_SIZE];
};

static void *main_of(void *argument)
{
    struct started *self = argument;
    (void)pthread_setname_np(pthread_self(), self->name);
    self->run(self->context);
    lk_assert_no_mutex();
    return NULL;
}

lk_rc lk_thread_start(
    lk_thread *thread, const char *name, void (*run)(void *context), void *context, lk_err *err)
{
    struct started *self = small(sizeof *self);
    self->run = run;
    self->context = context;
    (void)snprintf(self->name, sizeof self->name, "%s", name);
    int failed = pthread_create(&self->id, NULL, main_of, self);
    if (failed != 0) {
        free(self);
        return lk_fail(err, LK_E_LIMIT, "start thread %s: error %d", name, failed);
    }
    thread->body = self;
    return LK_OK;
}

void lk_thread_join(lk_thread *thread)
{
    struct started *self = thread->body;
    if (self != NULL) {
        LK_ASSERT(pthread_join(self->id, NULL) == 0);
        free(self);
        thread->body = NULL;
    }
}

void lk_thread_lower(void)
{
    enum { NICE = 10 };
    id_t self = (id_t)gettid(); /* priorities are of threads, on Linux */
    if (getpriority(PRIO_PROCESS, self) < NICE) {
        (void)setpriority(PRIO_PROCESS, self, NICE);
    }
}

uint64_t lk_thread_now_ms(void)
{
    return lk_clock_monotonic_ms(lk_clock_real());
}
