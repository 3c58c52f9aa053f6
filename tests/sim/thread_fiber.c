/*
 * thread_fiber.c - the body of base/thread.h for simulations: threads are fibers, time is the simulation's.
 *
 * A mutex never blocks: no interface call is made under one (asserted there), so nothing yields while it is
 * held, and whoever comes finds it free. A killed fiber can hold none, for the same reason.
 * Threads: everything here runs in the one thread of the simulation.
 */
#include "base/thread.h"

#include "sim.h"

#include <stdlib.h>

void lk_mutex_init(lk_mutex *mutex, lk_rank rank)
{
    *mutex = (lk_mutex){.rank = rank};
}

void lk_mutex_deinit(lk_mutex *mutex)
{
    LK_ASSERT(mutex->body == NULL);
}

void lk_mutex_lock(lk_mutex *mutex)
{
    LK_ASSERT(mutex->body == NULL); /* held across a yield */
    mutex->body = mutex;
    ++*sim_held();
}

void lk_mutex_unlock(lk_mutex *mutex)
{
    LK_ASSERT(mutex->body == mutex && *sim_held() > 0);
    mutex->body = NULL;
    --*sim_held();
}

void lk_assert_no_mutex(void)
{
    LK_ASSERT(*sim_held() == 0);
}

void lk_cond_init(lk_cond *cond)
{
    cond->body = NULL;
}

void lk_cond_deinit(lk_cond *cond)
{
    (void)cond;
}

bool lk_cond_wait_until(lk_cond *cond, lk_mutex *mutex, uint64_t deadline_ms)
{
    lk_mutex_unlock(mutex);
    lk_assert_no_mutex(); /* the one that is waited under is the only one */
    bool woken = sim_wait(cond, deadline_ms);
    lk_mutex_lock(mutex);
    return woken;
}

void lk_cond_wait(lk_cond *cond, lk_mutex *mutex)
{
    (void)lk_cond_wait_until(cond, mutex, UINT64_MAX);
}

void lk_cond_signal(lk_cond *cond)
{
    sim_wake(cond); /* spurious wakes are allowed */
}

void lk_cond_broadcast(lk_cond *cond)
{
    sim_wake(cond);
}

typedef struct thread_body {
    void (*run)(void *context);
    void *context;
    bool  ended;
} thread_body;

static void run_thread(void *context)
{
    thread_body *body = context;
    body->run(body->context);
    body->ended = true;
    sim_wake(body);
}

lk_rc lk_thread_start(
    lk_thread *thread, const char *name, void (*run)(void *context), void *context, lk_err *err)
{
    (void)name, (void)err;
    thread_body *body = calloc(1, sizeof *body);
    LK_ASSERT(body != NULL);
    *body = (thread_body){.run = run, .context = context};
    thread->body = body;
    sim_spawn(sim_group(), run_thread, body);
    return LK_OK;
}

void lk_thread_join(lk_thread *thread)
{
    thread_body *body = thread->body;
    while (body != NULL && !body->ended) {
        (void)sim_wait(body, UINT64_MAX);
    }
    free(body);
    thread->body = NULL;
}

void lk_thread_lower(void) {}

uint64_t lk_thread_now_ms(void)
{
    return sim_now_ms();
}
