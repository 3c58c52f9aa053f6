/* cmd_config.c - `lake config check`: every setting as it is now; a bad one has already ended the process with 2. */
#include "cli/cli.h"

static int config_check(lk_cli *cli, int argc, char **argv)
{
    bool         json = false;
    int          code = 0;
    const lk_arg args[] = {{"--json", LK_ARG_FLAG, &json, NULL, "one JSON object", false}};
    if (!lk_cli_parse(cli, lk_cli_config_commands, args, 1, argc, argv, &code)) {
        return code;
    }
    if (json) {
        lk_config_print_json(cli->config, stdout);
    } else {
        lk_config_print(cli->config, stdout);
    }
    return 0;
}

const lk_cli_command lk_cli_config_commands[] = {
    {{"config check", "check every setting and show its value",
         "Settings are environment variables, read once at start. A malformed or out-of-range one ends any "
         "command with "
         "exit code 2 and names the variable."},
        config_check},
    {{NULL, NULL, NULL}, NULL},
};
