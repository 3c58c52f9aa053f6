#ifndef LK_SIM_SIM_H
#define LK_SIM_SIM_H
/*
 * sim.h - runs several nodes of the real code in one thread, on a fake clock, from one seed.
 *
 * Invariants:
 *   1. Between two yields a fiber runs alone, so a run is a pure function of (seed, code).
 *   2. A killed group is never resumed: that is what a crash is here. What its fibers held stays allocated;
 *      so seeds run in child processes that end with _exit (main.c).
 *
 * Threads: one simulation at a time per process.
 */
#include <stdbool.h>
#include <stdint.h>

enum { SIM_NO_GROUP = 0, SIM_GROUPS_MAX = 4096 };

void     sim_open(uint64_t seed);
void     sim_close(void);
uint64_t sim_seed(void);

/* A new fiber in the group (one process of the simulated world). */
void     sim_spawn(unsigned group, void (*run)(void *context), void *context);
unsigned sim_group(void);                        /* of the running fiber */
void     sim_kill(unsigned group);               /* its fibers never run again; not one's own */
void     sim_pause(unsigned group, uint64_t ms); /* a stopped process: none of its fibers runs so long */

void sim_sleep(uint64_t ms); /* from inside a fiber; 0 just yields */
/* Waits until sim_wake(object), or until_ms; false: the time came first. */
bool     sim_wait(const void *object, uint64_t until_ms);
void     sim_wake(const void *object); /* everybody who waits for it */
uint64_t sim_now_ms(void);

uint64_t sim_random(uint64_t below);
bool     sim_chance(uint64_t one_in);

/* Runs one fiber to its next yield; false when nobody can run before until_ms. */
bool sim_step(uint64_t until_ms);

/* The running fiber's count of held mutexes (thread_fiber.c). */
unsigned *sim_held(void);

#endif
