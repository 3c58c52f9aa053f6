/* clock.c - see clock.h. */
#include "base/clock.h"

#include "base/err.h"

#include <errno.h>
#include <time.h>

static uint64_t read_us(clockid_t id)
{
    struct timespec now;
    LK_ASSERT(clock_gettime(id, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static uint64_t real_wall_ms(lk_clock *clock)
{
    (void)clock;
    return read_us(CLOCK_REALTIME) / 1000u;
}

static uint64_t real_monotonic_ms(lk_clock *clock)
{
    (void)clock;
    return read_us(CLOCK_MONOTONIC) / 1000u;
}

static void real_sleep_ms(lk_clock *clock, uint64_t ms)
{
    (void)clock;
    struct timespec left = {(time_t)(ms / 1000u), (long)(ms % 1000u) * 1000000L};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {}
}

static const struct lk_clock_ops real_ops = {real_wall_ms, real_monotonic_ms, real_sleep_ms};

lk_clock *lk_clock_real(void)
{
    static lk_clock real = {&real_ops};
    return &real;
}

uint64_t lk_clock_now_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

static uint64_t manual_wall_ms(lk_clock *clock)
{
    return ((lk_manual_clock *)clock)->wall_ms;
}

static uint64_t manual_monotonic_ms(lk_clock *clock)
{
    return ((lk_manual_clock *)clock)->monotonic_ms;
}

static void manual_sleep_ms(lk_clock *clock, uint64_t ms)
{
    lk_manual_clock *self = (lk_manual_clock *)clock;
    self->wall_ms += ms;
    self->monotonic_ms += ms;
}

static const struct lk_clock_ops manual_ops = {manual_wall_ms, manual_monotonic_ms, manual_sleep_ms};

void lk_manual_clock_init(lk_manual_clock *clock, uint64_t wall_ms)
{
    *clock = (lk_manual_clock){.base = {&manual_ops}, .wall_ms = wall_ms, .monotonic_ms = 1};
}
