/*
 * main.c - the simulator's program (seeds.h). Three metadata nodes (the real meta, catalog, engine/pointer and
 * engine/commit), one KV, one disk, six clients; a minute of lost requests, lost replies, pauses longer than
 * a lease and kills; then everybody must be answered, and checks.h must hold.
 */
#include "checks.h"
#include "clients.h"
#include "seeds.h"
#include "sim.h"

#include <stdio.h>

static const char *const rules[SIM_BROKEN_COUNT] = {"whole", "guard", "record", "atomic", "watch"};

static void finale(void *context)
{
    check_at_last(context);
    ((world *)context)->clients_done++; /* one more than there are: the end */
}

static bool simulate(uint64_t seed, int rule, bool trace)
{
    world      w;
    bool       finishing = false;
    sim_broken broken = (sim_broken)rule;
    sim_open(seed);
    world_open(&w, broken, trace);
    clients_start(&w);
    while (w.report.failure[0] == '\0' && w.clients_done <= CLIENTS) {
        if (!finishing && clients_done(&w)) {
            finishing = true;
            sim_spawn(SIM_NO_GROUP, finale, &w);
        }
        if (!sim_step(END_MS)) {
            sim_fail(&w.report, "somebody is never answered");
        }
    }
    bool held = w.report.failure[0] == '\0';
    if (!held && broken == SIM_WHOLE) {
        printf("seed %llu: %s\n", (unsigned long long)seed, w.report.failure);
    } else if (trace) {
        printf("seed %llu: %s\n", (unsigned long long)seed, held ? "all held" : w.report.failure);
    }
    fflush(stdout);
    sim_close();
    world_close(&w);
    return held;
}

int main(int argc, char **argv)
{
    const sim_program program = {simulate, rules, SIM_BROKEN_COUNT, 400, SIM_SEEDS_FILE};
    return sim_main(&program, argc, argv);
}
