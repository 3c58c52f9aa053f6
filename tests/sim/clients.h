#ifndef LK_SIM_CLIENTS_H
#define LK_SIM_CLIENTS_H
/*
 * clients.h - who asks: appenders that repeat one operation until they are told its version, one that creates
 * and drops a table, and chaos that kills processes. All live outside the nodes and survive them.
 */
#include "world.h"

void clients_start(world *w);
bool clients_done(const world *w);

#endif
