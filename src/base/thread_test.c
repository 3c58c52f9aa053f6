/* thread_test.c - ranks, waiting, pools and stop flags. LK_TSAN: run under the thread sanitizer. */
#include "base/thread.h"

#include "base/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Whether run aborts, tried in a child so that this process goes on. */
static bool aborts(void (*run)(void))
{
    pid_t child = fork();
    if (child == 0) {
        (void)freopen("/dev/null", "w", stderr);
        (void)signal(SIGABRT, SIG_DFL);
        run();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void lock_two(lk_rank first, lk_rank second)
{
    lk_mutex a, b;
    lk_mutex_init(&a, first);
    lk_mutex_init(&b, second);
    lk_mutex_lock(&a);
    lk_mutex_lock(&b);
    lk_mutex_unlock(&a);
    lk_mutex_unlock(&b);
    lk_mutex_deinit(&a);
    lk_mutex_deinit(&b);
}

static void in_order(void)
{
    lock_two(LK_RANK_META, LK_RANK_KV);
    lk_assert_no_mutex();
}

static void out_of_order(void)
{
    lock_two(LK_RANK_KV, LK_RANK_META);
}

static void twice_the_same_rank(void)
{
    lock_two(LK_RANK_KV, LK_RANK_KV);
}

static void calls_out_while_holding(void)
{
    lk_mutex mutex;
    lk_mutex_init(&mutex, LK_RANK_KV);
    lk_mutex_lock(&mutex);
    lk_assert_no_mutex();
}

static void mutexes_are_taken_in_rank_order_or_not_at_all(void **state)
{
    assert_false(aborts(in_order));
    assert_true(aborts(out_of_order));
    assert_true(aborts(twice_the_same_rank));
    assert_true(aborts(calls_out_while_holding));
}

struct counter {
    lk_mutex mutex;
    lk_cond  changed;
    int      value;
};

static void counter_init(struct counter *counter)
{
    *counter = (struct counter){0};
    lk_mutex_init(&counter->mutex, LK_RANK_META);
    lk_cond_init(&counter->changed);
}

static void counter_deinit(struct counter *counter)
{
    lk_cond_deinit(&counter->changed);
    lk_mutex_deinit(&counter->mutex);
}

static void increment(void *context)
{
    struct counter *counter = context;
    lk_mutex_lock(&counter->mutex);
    counter->value++;
    lk_cond_signal(&counter->changed);
    lk_mutex_unlock(&counter->mutex);
}

static void a_waiter_hears_a_signal_and_a_deadline(void **state)
{
    struct counter counter;
    lk_thread      thread = {0};
    lk_err         err = {0};
    counter_init(&counter);
    lk_mutex_lock(&counter.mutex);
    assert_false(lk_cond_wait_until(&counter.changed, &counter.mutex, lk_thread_now_ms() + 20));
    assert_int_equal(lk_thread_start(&thread, "a-name-that-is-too-long", increment, &counter, &err), LK_OK);
    while (counter.value == 0) {
        lk_cond_wait(&counter.changed, &counter.mutex);
    }
    lk_mutex_unlock(&counter.mutex);
    lk_thread_join(&thread);
    lk_thread_join(&thread); /* zero now */
    counter_deinit(&counter);
}

static void a_pool_runs_everything_it_accepted_before_it_closes(void **state)
{
    struct counter counter;
    lk_pool       *pool = NULL;
    lk_err         err = {0};
    counter_init(&counter);
    assert_int_equal(lk_pool_open(&pool, "test", 3, 1000, &err), LK_OK);
    assert_int_equal(lk_pool_thread_count(pool), 3);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(lk_pool_submit(pool, increment, &counter, &err), LK_OK);
    }
    lk_pool_close(pool);
    assert_int_equal(counter.value, 1000);
    counter_deinit(&counter);
}

struct gate {
    struct counter counter;
    bool           open;
    lk_pool       *pool;
    lk_rc          late;
};

static void wait_at(void *context)
{
    struct gate *gate = context;
    lk_mutex_lock(&gate->counter.mutex);
    gate->counter.value++;
    lk_cond_broadcast(&gate->counter.changed);
    while (!gate->open) {
        lk_cond_wait(&gate->counter.changed, &gate->counter.mutex);
    }
    lk_mutex_unlock(&gate->counter.mutex);
}

static void a_full_queue_says_no(void **state)
{
    struct gate gate = {0};
    lk_err      err = {0};
    counter_init(&gate.counter);
    assert_int_equal(lk_pool_open(&gate.pool, "test", 1, 2, &err), LK_OK);
    assert_int_equal(lk_pool_submit(gate.pool, wait_at, &gate, &err), LK_OK);
    lk_mutex_lock(&gate.counter.mutex);
    while (gate.counter.value == 0) { /* the thread is busy, the queue empty */
        lk_cond_wait(&gate.counter.changed, &gate.counter.mutex);
    }
    lk_mutex_unlock(&gate.counter.mutex);
    assert_int_equal(lk_pool_submit(gate.pool, wait_at, &gate, &err), LK_OK);
    assert_int_equal(lk_pool_submit(gate.pool, wait_at, &gate, &err), LK_OK);
    assert_int_equal(lk_pool_submit(gate.pool, wait_at, &gate, &err), LK_E_LIMIT);
    lk_mutex_lock(&gate.counter.mutex);
    gate.open = true;
    lk_cond_broadcast(&gate.counter.changed);
    lk_mutex_unlock(&gate.counter.mutex);
    lk_pool_close(gate.pool);
    assert_int_equal(gate.counter.value, 3);
    counter_deinit(&gate.counter);
}

static void submit_until_refused(void *context)
{
    struct gate *gate = context;
    lk_err       err = {0};
    do {
        lk_clock_sleep_ms(lk_clock_real(), 1);
        gate->late = lk_pool_submit(gate->pool, increment, &gate->counter, &err);
    } while (gate->late != LK_E_SHUTTING_DOWN);
}

static void a_closing_pool_takes_nothing_new(void **state)
{
    struct gate gate = {0};
    lk_err      err = {0};
    counter_init(&gate.counter);
    assert_int_equal(lk_pool_open(&gate.pool, "test", 1, 1000, &err), LK_OK);
    assert_int_equal(lk_pool_submit(gate.pool, submit_until_refused, &gate, &err), LK_OK);
    lk_pool_close(gate.pool);
    lk_pool_close(NULL);
    assert_int_equal(gate.late, LK_E_SHUTTING_DOWN);
    counter_deinit(&gate.counter);
}

static void a_stop_flag_or_a_deadline_stops(void **state)
{
    lk_cancel cancel = {0};
    lk_err    err = {0};
    assert_int_equal(lk_cancel_check(NULL, &err), LK_OK);
    assert_int_equal(lk_cancel_check(&cancel, &err), LK_OK);
    cancel.deadline_ms = lk_thread_now_ms() + 1000000;
    assert_int_equal(lk_cancel_check(&cancel, &err), LK_OK);
    cancel.deadline_ms = lk_thread_now_ms();
    assert_int_equal(lk_cancel_check(&cancel, &err), LK_E_DEADLINE);
    atomic_store(&cancel.set, true);
    assert_int_equal(lk_cancel_check(&cancel, &err), LK_E_CANCELLED);
}

static void lower(void *context)
{
    lk_thread_lower();
    *(int *)context = getpriority(PRIO_PROCESS, (id_t)gettid());
}

static void a_lowered_thread_is_lowered_alone(void **state)
{
    lk_err    err = {0};
    lk_thread thread = {0};
    int       before = getpriority(PRIO_PROCESS, (id_t)gettid()), lowered = 0;
    assert_int_equal(lk_thread_start(&thread, "low", lower, &lowered, &err), LK_OK);
    lk_thread_join(&thread);
    assert_int_equal(lowered, before > 10 ? before : 10);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)gettid()), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutexes_are_taken_in_rank_order_or_not_at_all),
        cmocka_unit_test(a_waiter_hears_a_signal_and_a_deadline),
        cmocka_unit_test(a_pool_runs_everything_it_accepted_before_it_closes),
        cmocka_unit_test(a_full_queue_says_no),
        cmocka_unit_test(a_closing_pool_takes_nothing_new),
        cmocka_unit_test(a_stop_flag_or_a_deadline_stops),
        cmocka_unit_test(a_lowered_thread_is_lowered_alone),
    };
    return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
