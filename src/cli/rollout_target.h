#ifndef LK_CLI_ROLLOUT_TARGET_H
#define LK_CLI_ROLLOUT_TARGET_H
/*
 * rollout_target.h - the rollout stores that a client command works on: behind a server's URL, or in place in a data directory,
 * which is opened as an instance of its own.
 *
 * In place a command writes to the shard of --instance-id, or of "cli": never to that of a server that runs on the same
 * machine, which it would fence. Threads: confined.
 */
#include "cli/rollout_plan.h"
#include "cli/rollout_remote.h"

typedef struct lk_rollout_target_args { /* the options that every verb has */
    const char *url, *data_dir, *token_file, *ca_file, *instance_id;
    uint64_t    retry_secs;
    bool        make; /* a data directory that is not there is made, not refused */
} lk_rollout_target_args;

typedef struct lk_rollout_target {
    lk_rollout_remote *remote; /* or */
    lk_rollouts       *stores;
    lk_config          config;
    lk_rollout_plan    plan;
} lk_rollout_target;

enum { LK_ROLLOUT_RETRY_SECS = 60 };

/* clang-format off */
#define LK_ROLLOUT_DIR_ARG(args) \
    {"--data-dir", LK_ARG_TEXT, &(args).data_dir, "DIR|s3://..", \
        "work on the stores that lie there, without a server", false}
#define LK_ROLLOUT_PLACE_ARGS(args) \
    LK_ROLLOUT_DIR_ARG(args), \
    {"--instance-id", LK_ARG_TEXT, &(args).instance_id, "ID", \
        "with --data-dir: the shard to write; of no server that runs (cli)", false}
#define LK_ROLLOUT_SERVER_ARGS(args) \
    {"--url", LK_ARG_TEXT, &(args).url, "URL", \
        "the server, http[s]://HOST:PORT (ROLLOUT_URL, else http://127.0.0.1:3000)", false}, \
    {"--token-file", LK_ARG_TEXT, &(args).token_file, "FILE", \
        "file with the bearer token to send (else ROLLOUT_TOKEN, else LAKE_TOKEN_FILE)", false}, \
    {"--ca", LK_ARG_TEXT, &(args).ca_file, "FILE", "PEM certificates to trust, for https", false}, \
    {"--retry-secs", LK_ARG_U64, &(args).retry_secs, "N", \
        "how long to try again while the server is busy or away (60)", false}
/* Of verbs that write, and of those that only read: they see every shard, and write none. */
#define LK_ROLLOUT_TARGET_ARGS(args) LK_ROLLOUT_SERVER_ARGS(args), LK_ROLLOUT_PLACE_ARGS(args)
#define LK_ROLLOUT_READ_ARGS(args) LK_ROLLOUT_SERVER_ARGS(args), LK_ROLLOUT_DIR_ARG(args)
/* clang-format on */

/* LK_E_USAGE when both places are named, LK_E_NOT_FOUND for a directory that is not there. *out must stay where it is; close it also after a failure. */
LK_MUST_CHECK lk_rc lk_rollout_target_open(
    lk_rollout_target *out, const lk_cli *cli, const lk_rollout_target_args *args, lk_err *err);
void lk_rollout_target_close(lk_rollout_target *target); /* accepts zero */

/* A store in place: a reference, or LK_E_NOT_FOUND that says where it was looked for. */
LK_MUST_CHECK lk_rc lk_rollout_target_store(
    lk_rollout_target *target, const char *name, lk_rollout_store **out, lk_err *err);

/* "/rollouts/NAME" and what follows, escaped, in the arena. */
const char *lk_rollout_target_path(lk_arena *arena, const char *name, const char *rest);

#endif
