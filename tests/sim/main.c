/*
 * main.c - the simulator's program. Three metadata nodes (the real meta, catalog, engine/pointer and
 * engine/commit), one KV, one disk, six clients; a minute of lost requests, lost replies, pauses longer than
 * a lease and kills; then everybody must be answered, and checks.h must hold.
 *
 *   sim FIRST COUNT          runs seeds, in child processes; names the first that fails; exit 1
 *   sim SEED 1 trace [RULE]  one seed, every event printed; RULE: with that safety rule left out
 *   sim bite                 leaves out each safety rule in turn: some seed must fail, or the checks are
 *   blind sim known                the seeds of seeds.txt, each of which once found something
 */
#include "base/log.h"
#include "checks.h"
#include "clients.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNK = 20, BITE_SEEDS = 400, WORKERS_MAX = 8 };

static const char *const rules[SIM_BROKEN_COUNT] = {"whole", "guard", "record", "atomic", "watch"};

static void finale(void *context)
{
    check_at_last(context);
    ((world *)context)->clients_done++; /* one more than there are: the end */
}

/* One life of a world; true when all held. */
static bool simulate(uint64_t seed, sim_broken broken, bool trace)
{
    world w;
    bool  finishing = false;
    sim_open(seed);
    world_open(&w, broken, trace);
    clients_start(&w);
    while (w.failure[0] == '\0' && w.clients_done <= CLIENTS) {
        if (!finishing && clients_done(&w)) {
            finishing = true;
            sim_spawn(SIM_NO_GROUP, finale, &w);
        }
        if (!sim_step(END_MS)) {
            world_fail(&w, "somebody is never answered");
        }
    }
    bool held = w.failure[0] == '\0';
    if (!held && broken == SIM_WHOLE) {
        printf("seed %llu: %s\n", (unsigned long long)seed, w.failure);
    } else if (trace) {
        printf("seed %llu: %s\n", (unsigned long long)seed, held ? "all held" : w.failure);
    }
    fflush(stdout);
    sim_close();
    world_close(&w);
    return held;
}

/* What killed fibers held is given back by the end of the child. */
static pid_t start_chunk(uint64_t first, uint64_t count, sim_broken broken)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool held = true;
        for (uint64_t seed = first; held && seed < first + count; seed++) {
            held = simulate(seed, broken, false);
        }
        _exit(held ? 0 : 1);
    }
    return child;
}

/* True when every seed held. */
static bool run_seeds(uint64_t first, uint64_t count, sim_broken broken)
{
    long     cores = sysconf(_SC_NPROCESSORS_ONLN);
    int      workers = cores < 1 ? 1 : cores > WORKERS_MAX ? WORKERS_MAX : (int)cores, running = 0;
    bool     held = true;
    uint64_t next = first;
    while (running > 0 || (held && next < first + count)) {
        if (held && running < workers && next < first + count) {
            uint64_t left = first + count - next, size = left < CHUNK ? left : CHUNK;
            if (start_chunk(next, size, broken) < 0) {
                return false;
            }
            next += size;
            running++;
            continue;
        }
        int status = 0;
        (void)wait(&status);
        running--;
        held = held && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (WIFSIGNALED(status)) {
            printf("a simulation died of signal %d\n", WTERMSIG(status));
        }
    }
    return held;
}

static int bite(void)
{
    int blind = 0;
    for (sim_broken broken = SIM_WHOLE + 1; broken < SIM_BROKEN_COUNT; broken++) {
        bool bitten = !run_seeds(1, BITE_SEEDS, broken);
        printf("without the rule '%s': %s\n", rules[broken], bitten ? "caught" : "NOT CAUGHT");
        blind += !bitten;
    }
    return blind > 0;
}

static int known(void)
{
    char  line[512];
    bool  held = true;
    FILE *file = fopen(SIM_SEEDS_FILE, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char    *end = NULL;
        uint64_t seed = strtoull(line, &end, 10);
        if (end != line) {
            held = run_seeds(seed, 1, SIM_WHOLE) && held;
        }
    }
    if (file == NULL || fclose(file) != 0) {
        printf("no %s\n", SIM_SEEDS_FILE);
        return 1;
    }
    return held ? 0 : 1;
}

static sim_broken rule_named(const char *name)
{
    for (sim_broken broken = SIM_WHOLE; broken < SIM_BROKEN_COUNT; broken++) {
        if (strcmp(rules[broken], name) == 0) {
            return broken;
        }
    }
    return SIM_WHOLE;
}

int main(int argc, char **argv)
{
    lk_log_init(LK_LOG_OFF, false);
    if (argc == 2 && strcmp(argv[1], "bite") == 0) {
        return bite();
    }
    if (argc == 2 && strcmp(argv[1], "known") == 0) {
        return known();
    }
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
    if (argc > 3 && strcmp(argv[3], "trace") == 0) {
        bool held = simulate(first, argc > 4 ? rule_named(argv[4]) : SIM_WHOLE, true);
        fflush(stdout);
        _exit(held ? 0 : 1);
    }
    bool held = run_seeds(first, count, SIM_WHOLE);
    printf("%llu seeds from %llu: %s\n", (unsigned long long)count, (unsigned long long)first,
        held ? "passed" : "FAILED");
    return held ? 0 : 1;
}
