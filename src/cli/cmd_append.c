/* cmd_append.c - `lake append`: a file's rows into a table, checked and cast, in idempotent operations. */
#include "arrow/ipc.h"
#include "base/clock.h"
#include "cli/casting.h"
#include "cli/progress.h"
#include "cli/remote.h"
#include "cli/source.h"
#include "query/ingest.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct job {
    const char       *name, *path, *operation_id;
    lk_source_options source;
    lk_ingest         ingest;
    lk_ingested       done;
} job;

static lk_rc run_ingest(job *j, lk_authority *authority, const struct ArrowSchema *schema, lk_err *err)
{
    lk_batches *source = NULL;
    lk_batches *cast = NULL;
    lk_rc       rc = lk_source_open(j->path, &j->source, &source, err);
    if (rc == LK_OK) {
        rc = lk_casting_open(source, schema, &cast, err);
    }
    if (rc == LK_OK) {
        lk_progress progress = {.what = "rows"};
        j->ingest.progress = lk_progress_show;
        j->ingest.progress_context = &progress;
        rc = lk_ingest_run(authority, NULL, &j->ingest, cast, &j->done, err);
        lk_progress_end(&progress);
    }
    lk_batches_close(cast);
    lk_batches_close(source);
    return rc;
}

static lk_rc append_to(lk_cli *cli, const lk_remote_args *where, job *j, lk_err *err)
{
    lk_remote          remote = {0};
    lk_registration    table = {0};
    struct ArrowSchema schema = {0};
    lk_rc              rc = lk_source_check(j->path, err);
    if (rc == LK_OK) {
        rc = lk_table_ref_parse(lk_bytes_of(j->name), &j->ingest.table, err);
    }
    if (rc == LK_OK) {
        rc = lk_remote_open(&remote, cli, where, err);
    }
    if (rc == LK_OK) {
        rc =
            remote.authority->ops->resolve(remote.authority, NULL, j->ingest.table, &cli->arena, &table, err);
        if (rc == LK_E_TABLE_NOT_FOUND) {
            lk_detail(err, "create it first: lake table create %.60s --schema %.100s", j->name, j->path);
        }
    }
    if (rc == LK_OK) {
        rc = lk_ipc_schema_decode(table.schema_ipc, &schema, err);
    }
    if (rc == LK_OK) {
        rc = run_ingest(j, remote.authority, &schema, err);
    }
    lk_schema_release(&schema);
    lk_remote_close(&remote);
    return rc;
}

static int append(lk_cli *cli, int argc, char **argv)
{
    lk_remote_args where = {0};
    job            j = {.source = {.text_only = true}, .ingest = {.if_exists = LK_IF_EXISTS_APPEND}};
    lk_err         err = {0};
    int            code = 0;
    const lk_arg   args[] = {
          {"NS.TABLE", LK_ARG_OPERAND, &j.name, NULL, "namespace and table name", false},
          {"FILE", LK_ARG_OPERAND, &j.path, NULL,
              "Arrow (.arrow, or - for a stream on stdin), Parquet, CSV or NDJSON", false},
          {"--operation-id", LK_ARG_TEXT, &j.operation_id, "UUIDV7",
              "name this append: a repeat with the same id adds nothing", false},
          {"--null", LK_ARG_TEXT, &j.source.null_text, "TEXT",
              "CSV: text that stands for null, besides nothing", false},
          LK_REMOTE_ARGS(where),
    };
    if (!lk_cli_parse(cli, lk_cli_append_commands, args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    j.ingest.operation_id = lk_bytes_of(j.operation_id);
    lk_rc rc = append_to(cli, &where, &j, &err);
    if (rc == LK_OK) {
        printf("appended %" PRIu64 " row%s to %s in %" PRIu64 " operation%s, operation id %s\n", j.done.rows,
            j.done.rows == 1 ? "" : "s", j.name, j.done.operations, j.done.operations == 1 ? "" : "s",
            j.done.operation_id);
    }
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

const lk_cli_command lk_cli_append_commands[] = {
    {{"append", "append a file's rows to a table",
         "Columns are matched by name and cast to the table's types; a value that does not fit ends the "
         "append and\n"
         "names column and row (the first is row 0). A quoted CSV field is text, never null; a text goes "
         "into a binary\n"
         "column as its bytes. Rows go in operations of at most 10,000; if it fails half-way, run it again "
         "with the\n"
         "operation id it printed: what is there already is not added twice. Examples:\n"
         "  lake append robots.steps steps.parquet\n"
         "  lake append flights.flights flights.csv --null NA"},
        append},
    {{NULL, NULL, NULL}, NULL},
};
