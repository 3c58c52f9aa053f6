/* cmd_rollout.c - `lake rollout [serve]`: the rollout store as a server. Its other verbs: cmd_rollout_*.c. */
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/rollout_node.h"

#include <unistd.h>

enum { SERVE, ALONE };

typedef struct options {
    lk_rollout_flags flags;
    const char      *ready_file;
    bool             check, json;
} options;

/* {"rollout":"HOST:PORT","pid":N} */
static lk_rc announce(const lk_rollout_node *node, const char *ready_file, lk_err *err)
{
    lk_bytes address = lk_bytes_of(lk_rollout_node_address(node));
    lk_log(LK_LOG_SERVING, LK_LOG_T("rollout", address), LK_LOG_N("pid", (uint64_t)getpid()));
    if (ready_file == NULL) {
        return LK_OK;
    }
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    lk_json_key(&w, "rollout");
    lk_json_text(&w, address);
    lk_json_key(&w, "pid");
    lk_json_u64(&w, (uint64_t)getpid());
    lk_json_object_end(&w);
    lk_buf_append_text(&text, "\n");
    lk_rc rc = lk_file_replace(ready_file, lk_buf_view(&text), 0644, err);
    lk_buf_deinit(&text);
    return rc;
}

static void reload(void *context)
{
    lk_rollout_node_reload(context);
}

static lk_rc run(const lk_rollout_plan *plan, const char *ready_file, lk_err *err)
{
    lk_shutdown     *shutdown = NULL;
    lk_rollout_node *node = NULL;
    lk_rc            rc =
        lk_shutdown_open(&shutdown, plan->config->rollout_drain_secs * 1000, err); /* before any thread */
    if (rc == LK_OK) {
        rc = lk_rollout_node_open(&node, plan, err);
    }
    if (rc == LK_OK) {
        lk_shutdown_on_reload(shutdown, reload, node);
        rc = announce(node, ready_file, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_node_serve(node, shutdown, err);
        lk_log(LK_LOG_STOPPED, LK_LOG_N("pid", (uint64_t)getpid()));
    }
    if (shutdown != NULL) {
        lk_shutdown_on_reload(shutdown, NULL, NULL);
    }
    lk_rollout_node_close(node);
    lk_shutdown_close(shutdown);
    return rc;
}

/* What the server would be. */
static void report(const lk_rollout_flags *flags, const lk_rollout_plan *plan, lk_getenv get, bool json)
{
    char shard[LK_UUID_TEXT_SIZE + 1];
    lk_uuid_format(plan->shard, shard);
    if (!json) {
        lk_rollout_flags_print(flags, plan->config, plan->from_file, get, stdout);
        printf("\ninstance %s (from %s), shard %s\nlistens on %s, stores in %s\n", plan->instance_id,
            plan->instance_source, shard, plan->address, plan->data_dir);
        return;
    }
    const char *const members[][2] = {{"instance_id", plan->instance_id},
        {"instance_source", plan->instance_source}, {"shard", shard}, {"address", plan->address},
        {"data_dir", plan->data_dir}};
    lk_buf            text = {0};
    lk_json_writer    w = {.out = &text};
    lk_json_object(&w);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        lk_json_key(&w, members[i][0]);
        lk_json_text(&w, lk_bytes_of(members[i][1]));
    }
    lk_json_key(&w, "settings");
    lk_rollout_flags_json(flags, plan->config, plan->from_file, get, &w);
    lk_json_object_end(&w);
    printf("%.*s\n", LK_FMT(lk_buf_view(&text)));
    lk_buf_deinit(&text);
}

static lk_rc run_or_check(lk_cli *cli, const options *o, lk_err *err)
{
    lk_config       config = *cli->config;
    lk_rollout_plan plan = {0};
    if (o->json && !o->check) {
        return lk_refuse(err, LK_E_USAGE, "--json goes with --check-config");
    }
    lk_rc rc = lk_rollout_flags_apply(&o->flags, &config, err);
    if (rc == LK_OK) {
        rc = lk_rollout_plan_make(&plan, &config, &o->flags, NULL, NULL, err);
    }
    if (rc == LK_OK && o->check) {
        report(&o->flags, &plan, cli->get, o->json);
    } else if (rc == LK_OK) {
        rc = run(&plan, o->ready_file, err);
    }
    lk_rollout_plan_deinit(&plan);
    return rc;
}

static int serve_as(const lk_cli_command *command, lk_cli *cli, int argc, char **argv)
{
    options o = {0};
    lk_err  err = {0};
    int     code = 0;
    lk_arg  args[LK_ROLLOUT_FLAGS_MAX + 3];
    size_t  count = lk_rollout_flags_args(&o.flags, &cli->arena, args);
    args[count++] = (lk_arg){"--ready-file", LK_ARG_TEXT, &o.ready_file, "FILE",
        "written when serving: {\"rollout\":\"HOST:PORT\",\"pid\":N}", false};
    args[count++] = (lk_arg){"--check-config", LK_ARG_FLAG, &o.check, NULL,
        "check every setting, show value and source, and exit: 0, or 2 and what is wrong", false};
    args[count++] = (lk_arg){"--json", LK_ARG_FLAG, &o.json, NULL, "with --check-config: as JSON", false};
    if (!lk_cli_parse(cli, command, args, count, argc, argv, &code)) {
        return code;
    }
    return run_or_check(cli, &o, &err) == LK_OK ? 0 : lk_cli_fail(&err);
}

static int serve(lk_cli *cli, int argc, char **argv)
{
    return serve_as(&lk_cli_rollout_commands[SERVE], cli, argc, argv);
}

static int alone(lk_cli *cli, int argc, char **argv)
{
    if (argc > 0 && argv[0][0] != '-') {
        fprintf(stderr, "lake: there is no 'lake rollout %.40s'; `lake rollout --help` names the verbs\n",
            argv[0]);
        return 2;
    }
    return serve_as(&lk_cli_rollout_commands[ALONE], cli, argc, argv);
}

/* clang-format off */
#define DETAILS \
    "Workers POST trajectories through any load balancer; every instance writes a shard of its own below the shared data\n" \
    "directory and reads all of them. An add is answered when it is durable and visible to every instance. A flag goes\n" \
    "before its variable [in brackets], which goes before the default. SIGTERM drains and exits 0; SIGHUP reads tokens,\n" \
    "certificate, key and --limits-file again.\n\n" \
    "Instances that share a data directory need different ids, and each the same one after a restart: in a StatefulSet\n" \
    "the pod's name as INSTANCE_ID. Off loopback a listener needs --tls-cert, --tls-key and --auth-token-file, or\n" \
    "LAKE_ALLOW_INSECURE=1. The token file (mode 0600) has a line a token, its role before it:\n" \
    "  read  6f1c…      lists, gets, blobs, stats\n" \
    "  write 9b2e…      and adds, creates stores\n" \
    "  admin 17aa…      and merges, compacts, deletes (a token alone on its line is an admin's)\n\n" \
    "Keys and region of s3:// are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_REGION.\n" \
    "Examples:\n" \
    "  lake rollout --data-dir ./rollouts --rollout-merge-after-generations 64\n" \
    "  lake rollout --host 0.0.0.0 --data-dir s3://bucket/rollouts --instance-id rollout-0 --tls-cert c.pem --tls-key k.pem \\\n" \
    "      --auth-token-file tokens\n" \
    "  lake rollout --check-config --data-dir s3://bucket/rollouts\n\n" \
    "Other verbs, `lake rollout VERB --help`: put, list, get, blob, stats, merge are a client's; fsck, adopt, gc an\n" \
    "operator's. docs/ROLLOUT.md is the API, docs/OPERATIONS.md how to run it."
/* clang-format on */

const lk_cli_command lk_cli_rollout_commands[] = {
    [SERVE] = {{"rollout serve", "run a server of rollout stores (HTTP)", DETAILS}, serve},
    [ALONE] = {{"rollout", "the same as rollout serve", DETAILS}, alone},
    {{NULL, NULL, NULL}, NULL},
};
