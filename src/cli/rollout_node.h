#ifndef LK_CLI_ROLLOUT_NODE_H
#define LK_CLI_ROLLOUT_NODE_H
/*
 * rollout_node.h - the rollout stores and their door in this process, wired by a plan; alone (`lake rollout serve`) or beside
 * the other servers (`lake serve --rollout-addr`). Threads: the main thread; the signal takes the door down on one of its own
 * when another server is taken down beside it.
 */
#include "cli/rollout_plan.h"
#include "serve/shutdown.h"

typedef struct lk_rollout_node lk_rollout_node;

/* Opens the stores, then listens; tells who it is in the log. The plan is borrowed. */
LK_MUST_CHECK lk_rc lk_rollout_node_open(lk_rollout_node **out, const lk_rollout_plan *plan, lk_err *err);
const char         *lk_rollout_node_address(const lk_rollout_node *node); /* with the real port */

/* Reads tokens, certificate, key and the limits file again and puts them in force, told in the log; on any failure, told there too,
 * nothing changes. On the signal thread. */
void lk_rollout_node_reload(lk_rollout_node *node);

/* Waits for the signal, then drains; what still runs at the end of it is cut, and told in the log. */
LK_MUST_CHECK lk_rc lk_rollout_node_serve(lk_rollout_node *node, lk_shutdown *shutdown, lk_err *err);
/* The same on a thread, which _close joins. The shutdown is asked for by then. */
LK_MUST_CHECK lk_rc lk_rollout_node_follow(lk_rollout_node *node, lk_shutdown *shutdown, lk_err *err);
void                lk_rollout_node_close(lk_rollout_node *node); /* accepts NULL */

#endif
