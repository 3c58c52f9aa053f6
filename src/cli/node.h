#ifndef LK_CLI_NODE_H
#define LK_CLI_NODE_H
/*
 * node.h - one server process, wired: which KV, which engine, which tiers. The only place that knows.
 *
 *   serve: KV, engine, Metasrv and Query in one process    meta: KV, engine, Metasrv    query: engine, Query,
 *   and an authority over Flight
 *
 * Order: everything that can be wrong with settings, files and addresses is found before anything is written;
 * the listener opens last. lk_node_run returns after SIGTERM or SIGINT, drained. Threads: the main thread.
 */
#include "cli/cli.h"

typedef enum lk_node_tiers { LK_NODE_SERVE, LK_NODE_META, LK_NODE_QUERY } lk_node_tiers;

typedef struct lk_node_options {
    lk_node_tiers tiers;
    const char   *data_dir;
    const char   *address;
    const char   *metadata;   /* QUERY: endpoint of the Metasrv */
    const char   *ready_file; /* NULL: none */
    const char   *rollout;    /* SERVE: address of a rollout store below the data directory; NULL: none */
} lk_node_options;

LK_MUST_CHECK lk_rc lk_node_run(const lk_node_options *options, const lk_config *config, lk_err *err);

#endif
