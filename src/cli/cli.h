#ifndef LK_CLI_CLI_H
#define LK_CLI_CLI_H
/*
 * cli.h - what every command gets, and how it ends.
 *
 * stdout carries data only; messages and progress go to stderr. Exit codes: 0 done, 1 failed, 2 usage or bad
 * setting, 3 authentication or permission, 4 not found, 5 unavailable (try again), 6 conflict.
 * Threads: confined to the main thread.
 */
#include "base/arena.h"
#include "base/config.h"
#include "base/err.h"
#include "cli/args.h"

typedef struct lk_cli {
    const lk_config *config;
    lk_getenv        get;   /* the environment that config is from, to tell where a value is from */
    lk_arena         arena; /* lives as long as the process */
} lk_cli;

typedef struct lk_cli_command {
    lk_command about; /* name, summary, details for --help */
    int (*run)(lk_cli *cli, int argc, char **argv);
} lk_cli_command;

/* One list per cmd_*.c, ended by a row without a name. */
extern const lk_cli_command lk_cli_serve_commands[];
extern const lk_cli_command lk_cli_rollout_commands[];
extern const lk_cli_command lk_cli_rollout_write_commands[];
extern const lk_cli_command lk_cli_rollout_read_commands[];
extern const lk_cli_command lk_cli_rollout_care_commands[];
extern const lk_cli_command lk_cli_table_commands[];
extern const lk_cli_command lk_cli_append_commands[];
extern const lk_cli_command lk_cli_sql_commands[];
extern const lk_cli_command lk_cli_lance_commands[];
extern const lk_cli_command lk_cli_lance_change_commands[];
extern const lk_cli_command lk_cli_lance_write_commands[];
extern const lk_cli_command lk_cli_lance_verify_commands[];
extern const lk_cli_command lk_cli_lance_rows_commands[];
extern const lk_cli_command lk_cli_lance_index_commands[];
extern const lk_cli_command lk_cli_lance_take_commands[];
extern const lk_cli_command lk_cli_lance_blob_commands[];
extern const lk_cli_command lk_cli_selftest_commands[];
extern const lk_cli_command lk_cli_config_commands[];

/* Parses a command line against its table. True: go on; false: return *exit_code (help was shown, or usage told). */
bool lk_cli_parse(lk_cli *cli, const lk_cli_command *command, const lk_arg *args, size_t count, int argc,
    char **argv, int *exit_code);

/* Says what failed and returns the exit code. */
int lk_cli_fail(const lk_err *err);

/* An LK_E_USAGE error with this text, for what a table of arguments cannot check. */
LK_MUST_CHECK lk_rc lk_cli_usage(lk_err *err, const char *format, ...) LK_PRINTF(2, 3);

#endif
