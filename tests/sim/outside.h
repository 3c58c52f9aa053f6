#ifndef LK_SIM_OUTSIDE_H
#define LK_SIM_OUTSIDE_H
/*
 * outside.h - what every simulated world has: the first failure of a run, its trace, and clocks and randomness for its processes.
 * Threads: one simulation.
 */
#include "base/clock.h"
#include "base/rand.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct sim_report {
    bool trace;        /* whether to print what happens */
    char failure[900]; /* empty: none yet */
} sim_report;

/* Records the first failure; the run stops at the next step. */
void sim_fail(sim_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(const sim_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The time of one process: the simulation's, and a skew of its own. */
typedef struct sim_clock {
    lk_clock base; /* first: it is the clock */
    int64_t  skew_ms;
} sim_clock;

void      sim_clock_init(sim_clock *out);
lk_random sim_random_of_run(void); /* of this run's seed */
int64_t   sim_wall_ms(void);       /* without skew */

#endif
