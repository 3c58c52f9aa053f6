/* outside.c - see outside.h. */
#include "outside.h"

#include "sim.h"

#include <stdarg.h>
#include <stdio.h>

void sim_fail(sim_report *report, const char *format, ...)
{
    va_list arguments;
    if (report->failure[0] != '\0') {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(report->failure, sizeof report->failure, format, arguments);
    va_end(arguments);
    sim_trace(report, "FAILURE: %s", report->failure);
}

void sim_trace(const sim_report *report, const char *format, ...)
{
    va_list arguments;
    if (!report->trace) {
        return;
    }
    printf("%9.3f g%-3u ", (double)sim_now_ms() / 1000, sim_group());
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

/* -- clocks and randomness ------------------------------------------------------------------------------------------- */

int64_t sim_wall_ms(void)
{
    return (int64_t)(1764500000000 + sim_now_ms());
}

static uint64_t wall_ms(lk_clock *clock)
{
    return (uint64_t)(sim_wall_ms() + ((const sim_clock *)clock)->skew_ms);
}

static uint64_t monotonic_ms(lk_clock *clock)
{
    (void)clock;
    return sim_now_ms();
}

static void sleep_ms(lk_clock *clock, uint64_t ms)
{
    (void)clock;
    sim_sleep(ms);
}

void sim_clock_init(sim_clock *out)
{
    static const struct lk_clock_ops ops = {wall_ms, monotonic_ms, sleep_ms};
    *out = (sim_clock){.base = {&ops}};
}

static void fill(lk_random *random, void *out, size_t size)
{
    (void)random;
    for (size_t i = 0; i < size; i++) {
        ((uint8_t *)out)[i] = (uint8_t)sim_random(256);
    }
}

lk_random sim_random_of_run(void)
{
    return (lk_random){fill};
}
