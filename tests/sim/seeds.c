/* seeds.c - see seeds.h. */
#include "seeds.h"

#include "base/log.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNK = 20, WORKERS_MAX = 8 };

static volatile uint64_t running_seed; /* of a child */

/* Says whose it was; the next one is the end. */
static void die(int signal_number)
{
    (void)signal(signal_number, SIG_DFL);
    (void)dprintf(
        STDOUT_FILENO, "seed %llu dies of signal %d\n", (unsigned long long)running_seed, signal_number);
    (void)raise(signal_number);
}

/* On a stack of its own: a fiber's may be what is full. */
static void watch_signals(void)
{
    static char            room[64 * 1024];
    const stack_t          stack = {.ss_sp = room, .ss_size = sizeof room};
    const struct sigaction action = {.sa_handler = die, .sa_flags = SA_ONSTACK};
    (void)sigaltstack(&stack, NULL);
    (void)sigaction(SIGSEGV, &action, NULL);
    (void)sigaction(SIGABRT, &action, NULL);
}

/* What killed fibers held is given back by the end of the child. */
static pid_t start_chunk(const sim_program *program, uint64_t first, uint64_t count, int rule)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool held = true;
        if (rule == 0) {
            watch_signals();
        }
        for (uint64_t seed = first; held && seed < first + count; seed++) {
            running_seed = seed;
            held = program->simulate(seed, rule, false);
        }
        _exit(held ? 0 : 1);
    }
    return child;
}

/* True when every seed held. */
static bool run_seeds(const sim_program *program, uint64_t first, uint64_t count, int rule)
{
    long     cores = sysconf(_SC_NPROCESSORS_ONLN);
    int      workers = cores < 1 ? 1 : cores > WORKERS_MAX ? WORKERS_MAX : (int)cores, running = 0;
    bool     held = true;
    uint64_t next = first;
    while (running > 0 || (held && next < first + count)) {
        if (held && running < workers && next < first + count) {
            uint64_t left = first + count - next, size = left < CHUNK ? left : CHUNK;
            if (start_chunk(program, next, size, rule) < 0) {
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
    }
    return held;
}

static int bite(const sim_program *program)
{
    int blind = 0;
    for (int rule = 1; rule < program->rule_count; rule++) {
        bool bitten = !run_seeds(program, 1, program->bite_seeds, rule);
        printf("without the rule '%s': %s\n", program->rules[rule], bitten ? "caught" : "NOT CAUGHT");
        blind += !bitten;
    }
    return blind > 0;
}

static int known(const sim_program *program)
{
    char  line[512];
    bool  held = true;
    FILE *file = fopen(program->seeds_file, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char    *end = NULL;
        uint64_t seed = strtoull(line, &end, 10);
        if (end != line) {
            held = run_seeds(program, seed, 1, 0) && held;
        }
    }
    if (file == NULL || fclose(file) != 0) {
        printf("no %s\n", program->seeds_file);
        return 1;
    }
    return held ? 0 : 1;
}

static int rule_named(const sim_program *program, const char *name)
{
    for (int rule = 0; rule < program->rule_count; rule++) {
        if (strcmp(program->rules[rule], name) == 0) {
            return rule;
        }
    }
    return 0;
}

int sim_main(const sim_program *program, int argc, char **argv)
{
    lk_log_init(LK_LOG_OFF, false);
    if (argc == 2 && strcmp(argv[1], "bite") == 0) {
        return bite(program);
    }
    if (argc == 2 && strcmp(argv[1], "known") == 0) {
        return known(program);
    }
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
    if (argc > 3 && strcmp(argv[3], "trace") == 0) {
        bool held = program->simulate(first, argc > 4 ? rule_named(program, argv[4]) : 0, true);
        fflush(stdout);
        _exit(held ? 0 : 1);
    }
    bool held = run_seeds(program, first, count, 0);
    printf("%llu seeds from %llu: %s\n", (unsigned long long)count, (unsigned long long)first,
        held ? "passed" : "FAILED");
    return held ? 0 : 1;
}
