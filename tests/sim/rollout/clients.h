#ifndef LK_SIM_ROLLOUT_CLIENTS_H
#define LK_SIM_ROLLOUT_CLIENTS_H
/* clients.h - who adds records, reads, merges and collects. Threads: fibers of one simulation. */
#include "world.h"

void clients_start(world *w);   /* those that add */
void clients_serve(process *p); /* in the process: it reads, merges and collects, from now on */
bool clients_done(const world *w);
void clients_end(
    void *context); /* a fiber, after clients_done: merges and collects everything, checks, ends */

#endif
