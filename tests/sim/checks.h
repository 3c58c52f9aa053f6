#ifndef LK_SIM_CHECKS_H
#define LK_SIM_CHECKS_H
/*
 * checks.h - what must be so, seen by somebody who looks at the KV and the disk directly. They decide, not
 * examples.
 *
 *   always     what is published is exactly what the engine has; versions of a table only grow; at most one
 *              node believes that it may write; nobody writes as a leader who is not (world.c)
 *   when told  the version that a client heard exists, and is that operation's
 *   at last    every operation has one version, every row is there once; after a restart no dead create, no
 *              tombstone, no unnamed head, no directory of a dropped table is left
 */
#include "world.h"

void check_always(world *w, const lk_kv_write *made); /* after every write that changed something */
void check_told(world *w, const operation *op);
void check_at_last(world *w); /* as a fiber of its own; chaos is over and everybody was answered */

#endif
