#ifndef LK_SIM_SEEDS_H
#define LK_SIM_SEEDS_H
/*
 * seeds.h - the command line that every simulator has, and its many seeds, run in child processes.
 *
 *   PROGRAM FIRST COUNT          runs seeds; names the first that fails; exit 1
 *   PROGRAM SEED 1 trace [RULE]  one seed, every event printed; RULE: with that safety rule left out
 *   PROGRAM bite                 leaves out each safety rule in turn: some seed must fail, or the checks are blind
 *   PROGRAM known                the seeds of the file, each of which once found something
 */
#include <stdbool.h>
#include <stdint.h>

typedef struct sim_program {
    /* One life of a world; true when all held. rule 0: nothing is left out. */
    bool (*simulate)(uint64_t seed, int rule, bool trace);
    const char *const *rules; /* names; [0]: of the whole */
    int                rule_count;
    uint64_t           bite_seeds; /* among so many, one must fail */
    const char        *seeds_file;
} sim_program;

int sim_main(const sim_program *program, int argc, char **argv);

#endif
