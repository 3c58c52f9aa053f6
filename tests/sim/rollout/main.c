/*
 * main.c - the rollout store's simulator (../seeds.h): three instances (the real rollout, lance and arrow) and one that only
 * reads, one bucket, five clients; two minutes of lost, late and unanswered writes, stopped, killed and doubled processes and
 * stepping clocks; then everybody must be answered, everything is merged and collected, and checks.h must hold.
 */
#include "clients.h"
#include "seeds.h"
#include "sim.h"

#include <stdio.h>

static const char *const rules[RULE_COUNT] = {
    "whole", "order", "drain", "fence", "absent", "unknown", "files", "names"};

static bool simulate(uint64_t seed, int rule, bool trace)
{
    world w;
    bool  finishing = false;
    sim_open(seed);
    world_open(&w, (sim_rule)rule, trace);
    clients_start(&w);
    while (w.report.failure[0] == '\0' && !w.over) {
        if (!finishing && clients_done(&w)) {
            finishing = true;
            sim_spawn(SIM_NO_GROUP, clients_end, &w);
        }
        if (!sim_step(END_MS)) {
            sim_fail(&w.report, "somebody is never answered");
        } else if (sim_now_ms() > END_MS) {
            sim_fail(&w.report, "there is no end");
        }
    }
    bool held = w.report.failure[0] == '\0';
    if (!held && rule == RULE_NONE) {
        printf("seed %llu: %s\n", (unsigned long long)seed, w.report.failure);
    } else if (trace) {
        printf("seed %llu: %s; %u reads, %u merges, %u collected, %u emptied, %u compacted, %u late\n",
            (unsigned long long)seed, held ? "all held" : w.report.failure, w.reads, w.merges, w.collected,
            w.emptied, w.compacted, w.late);
    }
    fflush(stdout);
    sim_close();
    world_close(&w);
    return held;
}

int main(int argc, char **argv)
{
    const sim_program program = {simulate, rules, RULE_COUNT, 400, SIM_SEEDS_FILE};
    return sim_main(&program, argc, argv);
}
