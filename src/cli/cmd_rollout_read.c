/*
 * cmd_rollout_read.c - `lake rollout list|get|blob|stats`: what is in rollout stores, behind a server or in place.
 *
 * A list comes as Arrow batches from either, so every format and file is written the same way; as JSON a record looks as the
 * server writes it.
 */
#include "cli/destination.h"
#include "cli/rollout_counts.h"
#include "cli/rollout_read.h"
#include "cli/rollout_target.h"
#include "rollout/records_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIST, GET, BLOB, STATS };

/* -- list ----------------------------------------------------------------------------------------------------------- */
static const char table_columns[] =
    "id,rollout_id,problem_id,sequence_order,role,created_at,policy_version,reward,num_output_tokens,content";

/* As the server writes records: nulls are left out, floats are shortest. */
static lk_rc write_records(
    lk_batches *rows, lk_output_format format, FILE *file, uint64_t *count, lk_err *err)
{
    bool   array = format == LK_OUTPUT_JSON;
    lk_buf text = {0};
    lk_rc  rc = LK_OK;
    if (!array && format != LK_OUTPUT_NDJSON) {
        return lk_output_write(rows, format, file, count, err);
    }
    *count = 0;
    for (bool more = true; more && rc == LK_OK;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        for (int64_t row = 0; more && row < batch.length; row++) {
            lk_buf_append_text(&text, !array ? "" : ++*count == 1 ? "[" : ",\n");
            lk_record_write_json(&rows->schema, &batch, row, &text);
            lk_buf_append_text(&text, array ? "" : "\n");
            *count += !array;
        }
        lk_array_release(&batch);
        bool written = text.size == 0 || fwrite(text.data, 1, text.size, file) == text.size;
        lk_buf_clear(&text);
        more = more && written; /* whoever reads has enough */
    }
    if (rc == LK_OK && array) {
        (void)fputs(*count == 0 ? "[]\n" : "]\n", file);
    }
    lk_buf_deinit(&text);
    return rc == LK_OK && (fflush(file) == 0 || file == stdout) ? LK_OK
           : rc != LK_OK                                        ? rc
                                                                : lk_fail(err, LK_E_IO, "write the records");
}

static void print_name(const lk_bytes *name, bool json, bool first)
{
    printf(json ? "%s\"%.*s\"" : "%s%.*s\n", !json ? "" : first ? "[" : ",", LK_FMT(*name));
}

static lk_rc list_stores(lk_rollout_target *target, bool json, lk_arena *arena, lk_err *err)
{
    lk_bytes *names = NULL;
    size_t    count = 0;
    lk_rc     rc = lk_rollout_read_names(target, arena, &names, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        print_name(&names[i], json, i == 0);
    }
    if (rc == LK_OK && json) {
        puts(count == 0 ? "[]" : "]");
    }
    return rc;
}

typedef struct list {
    lk_rollout_target_args where;
    lk_rollout_list_args   what;
    lk_destination         to;
    const char            *name;
} list;

static lk_rc list_records(lk_cli *cli, list *l, lk_rollout_target *target, lk_err *err)
{
    lk_batches *rows = NULL;
    lk_rc       rc = lk_rollout_read_list(target, l->name, &l->what, &cli->arena, &rows, err);
    if (rc == LK_OK) {
        rc = lk_destination_write(rows, &l->to, &cli->arena, err);
        lk_err end = {0};
        if (lk_rollout_read_close(rows, &end) != LK_OK && (rc == LK_OK || rc == LK_E_INVALID_IPC)) {
            *err = end; /* why the rows ended early */
            rc = end.rc;
        }
    }
    return rc;
}

static int list_command(lk_cli *cli, int argc, char **argv)
{
    list              l = {.where = {.retry_secs = LK_ROLLOUT_RETRY_SECS},
                     .what = {.limit = UINT64_MAX},
                     .to = {.write = write_records}};
    lk_rollout_target target = {0};
    lk_err            err = {0};
    int               code = 0;
    const lk_arg      args[] = {
             {"NAME", LK_ARG_OPTIONAL_OPERAND, &l.name, NULL, "the store; without it the stores are listed",
                 false},
             {"--filter", LK_ARG_TEXT, &l.what.filters, "JSON",
                 "only records that match: {\"policy_version\":\"v7\",\"role\":{\"in\":[\"tool\",\"grade\"]}}",
                 false},
             {"--columns", LK_ARG_TEXT, &l.what.columns, "A,B", "these columns only; others are not read", false},
             {"--order", LK_ARG_TEXT, &l.what.order, "time|id|none",
                 "time (default): created_at, rollout_id, sequence_order, id; none is cheapest", false},
             {"--limit", LK_ARG_U64, &l.what.limit, "N", "at most so many records", false},
             {"--offset", LK_ARG_U64, &l.what.offset, "N", "skip so many", false},
             {"--version", LK_ARG_U64, &l.what.version, "V", "the base table at this version, nothing else",
                 false},
             LK_DESTINATION_ARGS(l.to),
             LK_ROLLOUT_READ_ARGS(l.where),
    };
    if (!lk_cli_parse(cli, &lk_cli_rollout_read_commands[LIST], args, sizeof args / sizeof args[0], argc,
            argv, &code)) {
        return code;
    }
    lk_rc rc = lk_destination_check(&l.to, &err);
    bool  table = l.to.path == NULL && l.to.format == LK_OUTPUT_TABLE;
    l.what.columns = l.what.columns == NULL && table ? table_columns : l.what.columns;
    if (rc == LK_OK) {
        rc = lk_rollout_target_open(&target, cli, &l.where, &err);
    }
    if (rc == LK_OK) {
        rc = l.name == NULL ? list_stores(&target, l.to.format == LK_OUTPUT_JSON, &cli->arena, &err)
                            : list_records(cli, &l, &target, &err);
    }
    lk_rollout_target_close(&target);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

/* -- get ------------------------------------------------------------------------------------------------------------ */
static int get_command(lk_cli *cli, int argc, char **argv)
{
    lk_rollout_target_args where = {.retry_secs = LK_ROLLOUT_RETRY_SECS};
    lk_rollout_target      target = {0};
    const char            *name = NULL, *id = NULL;
    lk_buf                 record = {0};
    lk_err                 err = {0};
    int                    code = 0;
    const lk_arg           args[] = {
                  {"NAME", LK_ARG_OPERAND, &name, NULL, "the store", false},
                  {"ID", LK_ARG_OPERAND, &id, NULL, "the record", false},
                  LK_ROLLOUT_READ_ARGS(where),
    };
    if (!lk_cli_parse(
            cli, &lk_cli_rollout_read_commands[GET], args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    lk_rc rc = lk_rollout_target_open(&target, cli, &where, &err);
    if (rc == LK_OK) {
        rc = lk_rollout_read_get(&target, name, lk_bytes_of(id), &cli->arena, &record, &err);
    }
    lk_rollout_target_close(&target);
    if (rc == LK_OK) {
        printf("%.*s\n", LK_FMT(lk_buf_view(&record)));
    }
    lk_buf_deinit(&record);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

/* -- blob ------------------------------------------------------------------------------------------------------------ */

/* Writes to a temporary beside the target and renames it, so that a failure leaves no half file. */
static lk_rc blob_to(lk_rollout_target *target, const char *name, const char *id, const char *path,
    lk_arena *arena, uint64_t *size, lk_err *err)
{
    if (strcmp(path, "-") == 0) {
        return lk_rollout_read_blob(target, name, lk_bytes_of(id), stdout, size, err);
    }
    const char *temporary = lk_arena_format(arena, "%s.tmp%ld", path, (long)getpid()).data;
    FILE       *file = fopen(temporary, "wb");
    if (file == NULL) {
        return lk_fail(err, LK_E_IO, "cannot write %s", path);
    }
    lk_rc rc = lk_rollout_read_blob(target, name, lk_bytes_of(id), file, size, err);
    if (fclose(file) != 0 && rc == LK_OK) {
        rc = lk_fail(err, LK_E_IO, "cannot finish %s", path);
    }
    if (rc == LK_OK && rename(temporary, path) != 0) {
        rc = lk_fail(err, LK_E_IO, "cannot rename to %s", path);
    }
    if (rc != LK_OK) {
        (void)unlink(temporary);
    }
    return rc;
}

static int blob_command(lk_cli *cli, int argc, char **argv)
{
    lk_rollout_target_args where = {.retry_secs = LK_ROLLOUT_RETRY_SECS};
    lk_rollout_target      target = {0};
    const char            *name = NULL, *id = NULL, *output = NULL;
    uint64_t               size = 0;
    lk_err                 err = {0};
    int                    code = 0;
    const lk_arg           args[] = {
                  {"NAME", LK_ARG_OPERAND, &name, NULL, "the store", false},
                  {"ID", LK_ARG_OPERAND, &id, NULL, "the record", false},
                  {"--output", LK_ARG_TEXT, &output, "FILE", "file to write (-o FILE), or - for stdout", true},
                  LK_ROLLOUT_READ_ARGS(where),
    };
    if (!lk_cli_parse(cli, &lk_cli_rollout_read_commands[BLOB], args, sizeof args / sizeof args[0], argc,
            argv, &code)) {
        return code;
    }
    lk_rc rc = lk_rollout_target_open(&target, cli, &where, &err);
    if (rc == LK_OK) {
        rc = blob_to(&target, name, id, output, &cli->arena, &size, &err);
    }
    lk_rollout_target_close(&target);
    if (rc == LK_OK) {
        fprintf(stderr, "%" PRIu64 " bytes\n", size);
    }
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

/* -- stats ----------------------------------------------------------------------------------------------------------- */
static int stats_command(lk_cli *cli, int argc, char **argv)
{
    lk_rollout_target_args where = {.retry_secs = LK_ROLLOUT_RETRY_SECS};
    lk_rollout_target      target = {0};
    const char            *name = NULL, *by = "policy_version", *filters = NULL;
    lk_destination         to = {0};
    lk_batches            *groups = NULL;
    lk_err                 err = {0};
    int                    code = 0;
    const lk_arg           args[] = {
                  {"NAME", LK_ARG_OPERAND, &name, NULL, "the store", false},
                  {"--by", LK_ARG_TEXT, &by, "COLUMN", "a text column to count by (policy_version)", false},
                  {"--filter", LK_ARG_TEXT, &filters, "JSON", "only records that match, as of `lake rollout list`",
                      false},
                  LK_DESTINATION_ARGS(to),
                  LK_ROLLOUT_READ_ARGS(where),
    };
    if (!lk_cli_parse(cli, &lk_cli_rollout_read_commands[STATS], args, sizeof args / sizeof args[0], argc,
            argv, &code)) {
        return code;
    }
    lk_rc rc = lk_destination_check(&to, &err);
    if (rc == LK_OK) {
        rc = lk_rollout_target_open(&target, cli, &where, &err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_counts(&target, name, by, filters, &cli->arena, &groups, &err);
    }
    if (rc == LK_OK) {
        rc = lk_destination_write(groups, &to, &cli->arena, &err);
    }
    lk_batches_close(groups);
    lk_rollout_target_close(&target);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

const lk_cli_command lk_cli_rollout_read_commands[] = {
    [LIST] =
        {{"rollout list", "show a rollout store's records, or the stores there are",
             "Every record that was acknowledged before the command began is there once, whichever instance "
             "took "
             "it. Payloads\nare not: lake rollout blob. Examples:\n"
             "  lake rollout list\n  lake rollout list rl --limit 20\n"
             "  lake rollout list rl --filter '{\"policy_version\":\"v7\",\"include_in_training\":true}' "
             "--format ndjson\n"
             "  lake rollout list rl --columns id,output_tokens,output_logprobs,advantage -o batch.arrow\n"
             "  lake rollout list rl --data-dir s3://bucket/rollouts -o rows.parquet     (without a server)"},
            list_command},
    [GET] = {{"rollout get", "show one record as JSON", "Exit code 4 when there is no such record."},
        get_command},
    [BLOB] = {{"rollout blob", "write one record's payload to a file",
                  "It is never held in memory, whatever its size; a lost connection goes on where it broke.\n"
                  "Example:\n  lake rollout blob rl take-7 -o take7.mp4"},
        blob_command},
    [STATS] = {{"rollout stats", "count records by policy version, or by another text column",
                   "Examples:\n  lake rollout stats rl\n  lake rollout stats rl --by role --format json"},
        stats_command},
    {{NULL, NULL, NULL}, NULL},
};
