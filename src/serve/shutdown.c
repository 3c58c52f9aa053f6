/*
 * shutdown.c - see shutdown.h. One thread takes the signals with sigtimedwait and wakes whoever waits.
 *
 * Threads: state is guarded by the mutex; the signal thread ends the process by itself only with _exit, which
 * loses nothing: every acknowledged write is durable already.
 */
#include "serve/shutdown.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { TICK_MS = 100, SIGNAL_EXIT = 128 };

struct lk_shutdown {
    uint64_t  grace_ms;
    lk_thread thread;
    lk_mutex  mutex;
    lk_cond   changed;
    int       signals;     /* guarded: how many came */
    uint64_t  deadline_ms; /* guarded: from the first on */
    bool      closing;     /* guarded, as are the following */
    bool      reloading;
    void (*reload)(void *context);
    void *reload_context;
};

static uint64_t now_ms(void)
{
    return lk_clock_monotonic_ms(lk_clock_real());
}

static sigset_t our_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return set;
}

static void end_process(int code)
{
    lk_log(LK_LOG_DRAIN_OVERRUN, LK_LOG_N("exit_code", (uint64_t)code));
    _exit(code);
}

/* The first signal starts the deadline; the second ends the process. */
static void take_signal(lk_shutdown *shutdown, int number)
{
    lk_mutex_lock(&shutdown->mutex);
    bool second = shutdown->signals++ > 0;
    if (!second) {
        shutdown->deadline_ms = now_ms() + shutdown->grace_ms;
        lk_cond_broadcast(&shutdown->changed);
    }
    lk_mutex_unlock(&shutdown->mutex);
    if (second) {
        end_process(SIGNAL_EXIT + number);
    }
    lk_log(LK_LOG_STOPPING, LK_LOG_N("grace_ms", shutdown->grace_ms));
}

static void take_reload(lk_shutdown *shutdown)
{
    lk_mutex_lock(&shutdown->mutex);
    void (*reload)(void *context) = shutdown->deadline_ms == 0 ? shutdown->reload : NULL;
    shutdown->reloading = reload != NULL;
    lk_mutex_unlock(&shutdown->mutex);
    if (reload == NULL) {
        return;
    }
    reload(shutdown->reload_context);
    lk_mutex_lock(&shutdown->mutex);
    shutdown->reloading = false;
    lk_cond_broadcast(&shutdown->changed);
    lk_mutex_unlock(&shutdown->mutex);
}

void lk_shutdown_on_reload(lk_shutdown *shutdown, void (*reload)(void *context), void *context)
{
    lk_mutex_lock(&shutdown->mutex);
    while (shutdown->reloading) {
        lk_cond_wait(&shutdown->changed, &shutdown->mutex);
    }
    shutdown->reload = reload;
    shutdown->reload_context = context;
    lk_mutex_unlock(&shutdown->mutex);
}

static void watch(void *context)
{
    lk_shutdown *shutdown = context;
    sigset_t     set = our_signals();
    bool         closing = false;
    while (!closing) {
        int number = sigtimedwait(&set, NULL, &(struct timespec){.tv_nsec = TICK_MS * 1000000L});
        if (number == SIGHUP) {
            take_reload(shutdown);
        } else if (number > 0) {
            take_signal(shutdown, number);
        }
        lk_mutex_lock(&shutdown->mutex);
        closing = shutdown->closing;
        bool late = shutdown->deadline_ms != 0 && now_ms() > shutdown->deadline_ms + LK_SHUTDOWN_MARGIN_MS;
        lk_mutex_unlock(&shutdown->mutex);
        if (late && !closing) {
            end_process(EXIT_FAILURE);
        }
    }
}

lk_rc lk_shutdown_open(lk_shutdown **out, uint64_t grace_ms, lk_err *err)
{
    sigset_t     set = our_signals();
    lk_shutdown *shutdown = calloc(1, sizeof *shutdown);
    LK_ASSERT(shutdown != NULL && grace_ms > 0);
    *out = NULL;
    shutdown->grace_ms = grace_ms;
    lk_mutex_init(&shutdown->mutex, LK_RANK_SERVER);
    lk_cond_init(&shutdown->changed);
    LK_ASSERT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    LK_ASSERT(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    lk_rc rc = lk_thread_start(&shutdown->thread, "lk-signals", watch, shutdown, err);
    if (rc != LK_OK) {
        lk_cond_deinit(&shutdown->changed);
        lk_mutex_deinit(&shutdown->mutex);
        free(shutdown);
        return rc;
    }
    *out = shutdown;
    return LK_OK;
}

uint64_t lk_shutdown_wait(lk_shutdown *shutdown)
{
    lk_mutex_lock(&shutdown->mutex);
    while (shutdown->deadline_ms == 0) {
        lk_cond_wait(&shutdown->changed, &shutdown->mutex);
    }
    uint64_t deadline_ms = shutdown->deadline_ms;
    lk_mutex_unlock(&shutdown->mutex);
    return deadline_ms;
}

lk_rc lk_shutdown_serve(lk_shutdown *shutdown, lk_grpc_server *server, lk_health *health, lk_err *err)
{
    uint64_t deadline_ms = lk_shutdown_wait(shutdown);
    if (health != NULL) {
        lk_health_stop(health);
    }
    return lk_grpc_server_drain(server, deadline_ms, err);
}

uint64_t lk_shutdown_deadline_ms(const lk_shutdown *shutdown)
{
    lk_mutex *mutex = (lk_mutex *)(uintptr_t)&shutdown->mutex;
    lk_mutex_lock(mutex);
    uint64_t deadline_ms = shutdown->deadline_ms;
    lk_mutex_unlock(mutex);
    return deadline_ms;
}

void lk_shutdown_request(lk_shutdown *shutdown)
{
    take_signal(shutdown, 0);
}

void lk_shutdown_close(lk_shutdown *shutdown)
{
    if (shutdown == NULL) {
        return;
    }
    lk_mutex_lock(&shutdown->mutex);
    shutdown->closing = true;
    lk_mutex_unlock(&shutdown->mutex);
    lk_thread_join(&shutdown->thread);
    lk_cond_deinit(&shutdown->changed);
    lk_mutex_deinit(&shutdown->mutex);
    free(shutdown);
}
