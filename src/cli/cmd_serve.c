/* cmd_serve.c - `lake serve|meta|query`: the servers. */
#include "cli/node.h"

enum { SERVE, META, QUERY };

static int run_node(const lk_cli *cli, const lk_node_options *options)
{
    lk_err err = {0};
    lk_rc  rc = lk_node_run(options, cli->config, &err);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

static int serve(lk_cli *cli, int argc, char **argv)
{
    lk_node_options o = {.tiers = LK_NODE_SERVE, .data_dir = "./data", .address = "127.0.0.1:50051"};
    int             code = 0;
    const lk_arg    args[] = {
           {"--data-dir", LK_ARG_TEXT, &o.data_dir, "DIR",
               "where tables and metadata live; made if absent (./data)", false},
           {"--addr", LK_ARG_TEXT, &o.address, "HOST:PORT",
               "where to listen (127.0.0.1:50051); port 0 picks one", false},
           {"--rollout-addr", LK_ARG_TEXT, &o.rollout, "HOST:PORT",
               "also run a rollout store, its data in DIR/rollouts; settings: ROLLOUT_… (off)", false},
           {"--ready-file", LK_ARG_TEXT, &o.ready_file, "FILE",
               "written when serving: {\"query\":\"HOST:PORT\",\"pid\":N}", false},
    };
    const lk_cli_command *command = &lk_cli_serve_commands[SERVE];
    return lk_cli_parse(cli, command, args, sizeof args / sizeof args[0], argc, argv, &code)
               ? run_node(cli, &o)
               : code;
}

static int meta(lk_cli *cli, int argc, char **argv)
{
    lk_node_options o = {.tiers = LK_NODE_META, .data_dir = "./data", .address = "127.0.0.1:50052"};
    int             code = 0;
    const lk_arg    args[] = {
           {"--data-dir", LK_ARG_TEXT, &o.data_dir, "DIR",
               "where tables and metadata live; made if absent (./data)", false},
           {"--addr", LK_ARG_TEXT, &o.address, "HOST:PORT",
               "where to listen (127.0.0.1:50052); port 0 picks one", false},
           {"--ready-file", LK_ARG_TEXT, &o.ready_file, "FILE",
               "written when serving: {\"meta\":\"HOST:PORT\",\"pid\":N}", false},
    };
    const lk_cli_command *command = &lk_cli_serve_commands[META];
    return lk_cli_parse(cli, command, args, sizeof args / sizeof args[0], argc, argv, &code)
               ? run_node(cli, &o)
               : code;
}

static int query(lk_cli *cli, int argc, char **argv)
{
    lk_node_options o = {.tiers = LK_NODE_QUERY,
        .data_dir = "./data",
        .address = "127.0.0.1:50051",
        .metadata = "grpc://127.0.0.1:50052"};
    int             code = 0;
    const lk_arg    args[] = {
           {"--metadata-addr", LK_ARG_TEXT, &o.metadata, "URI", "the Metasrv (grpc://127.0.0.1:50052)", false},
           {"--data-dir", LK_ARG_TEXT, &o.data_dir, "DIR",
               "only for spilling; tables are read where the Metasrv placed them", false},
           {"--addr", LK_ARG_TEXT, &o.address, "HOST:PORT",
               "where to listen (127.0.0.1:50051); port 0 picks one", false},
           {"--ready-file", LK_ARG_TEXT, &o.ready_file, "FILE",
               "written when serving: {\"query\":\"HOST:PORT\",\"pid\":N}", false},
    };
    const lk_cli_command *command = &lk_cli_serve_commands[QUERY];
    return lk_cli_parse(cli, command, args, sizeof args / sizeof args[0], argc, argv, &code)
               ? run_node(cli, &o)
               : code;
}

const lk_cli_command lk_cli_serve_commands[] = {
    [SERVE] = {{"serve", "run everything in one process",
                   "Metasrv and Query on RocksDB and a local directory. One process owns a data directory. "
                   "SIGTERM drains and\n"
                   "exits 0. A listener off loopback needs TLS and credentials (see `lake config check`).\n"
                   "  lake serve --data-dir ./data\n  lake serve --data-dir ./data --addr 127.0.0.1:0 "
                   "--ready-file ready.json\n"
                   "  lake serve --data-dir ./data --rollout-addr 127.0.0.1:3000"},
        serve},
    [META] = {{"meta", "run the metadata server alone", NULL}, meta},
    [QUERY] = {{"query", "run a query server alone, against a Metasrv",
                   "Stateless: run as many as you like. Each must see the table directory at the place the "
                   "Metasrv uses."},
        query},
    {{NULL, NULL, NULL}, NULL},
};
