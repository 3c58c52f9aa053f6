/* cmd_sql.c - `lake sql`: one statement on a server, its rows on stdout. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/remote.h"
#include "sdk/client.h"

#include <inttypes.h>

static lk_rc print_result(lk_remote *remote, const char *sql, lk_output_format format, lk_err *err)
{
    lk_batches *rows = NULL;
    uint64_t    count = 0;
    lk_rc       rc = lk_client_query(remote->channel, lk_bytes_of(sql), NULL, &rows, err);
    if (rc == LK_OK) {
        rc = lk_output_write(rows, format, stdout, &count, err);
    }
    lk_batches_close(rows);
    if (rc == LK_OK && format == LK_OUTPUT_TABLE) {
        fprintf(stderr, "(%" PRIu64 " row%s)\n", count, count == 1 ? "" : "s");
    }
    return rc;
}

static int sql(lk_cli *cli, int argc, char **argv)
{
    lk_remote_args   where = {0};
    const char      *text = NULL, *format_name = NULL;
    lk_output_format format = LK_OUTPUT_TABLE;
    lk_remote        remote = {0};
    lk_err           err = {0};
    int              code = 0;
    const lk_arg     args[] = {
            {"QUERY", LK_ARG_OPERAND, &text, NULL, "one SELECT or EXPLAIN", false},
            {"--format", LK_ARG_TEXT, &format_name, "FORMAT", "table (default), json, ndjson, csv or arrow",
                false},
            LK_REMOTE_ARGS(where),
    };
    if (!lk_cli_parse(cli, lk_cli_sql_commands, args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    lk_rc rc = lk_output_format_parse(format_name, &format, &err);
    if (rc == LK_OK) {
        rc = lk_remote_open(&remote, cli, &where, &err);
    }
    if (rc == LK_OK) {
        rc = print_result(&remote, text, format, &err);
    }
    lk_remote_close(&remote);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

const lk_cli_command lk_cli_sql_commands[] = {
    {{"sql", "run a query on a server",
         "Tables are named namespace.table; any DuckDB SELECT works. Examples:\n"
         "  lake sql 'SELECT count(*) FROM robots.episodes'\n"
         "  lake sql --format json 'FROM robots.episodes LIMIT 3'\n"
         "  lake sql 'SELECT * FROM robots.episodes AT (VERSION => 7)'\n"
         "  lake sql 'SELECT * FROM information_schema.tables'"},
        sql},
    {{NULL, NULL, NULL}, NULL},
};
