/* cmd_selftest.c - `lake selftest`: makes a table of its own on a server, appends, reads back, drops. */
#include "arrow/schema.h"
#include "cli/output.h"
#include "cli/remote.h"
#include "cli/value.h"
#include "query/ingest.h"
#include "sdk/client.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ROWS = 25000 }; /* three operations */

typedef struct numbers { /* 0 .. ROWS-1, and half of each */
    lk_batches base;
    int64_t    at;
} numbers;

static lk_rc numbers_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    (void)err;
    enum { BATCH = 4096 };
    numbers *self = (numbers *)batches;
    *out = (struct ArrowArray){0};
    if (self->at == ROWS) {
        return LK_OK;
    }
    LK_ASSERT(ArrowArrayInitFromSchema(out, &self->base.schema, NULL) == NANOARROW_OK);
    LK_ASSERT(ArrowArrayStartAppending(out) == NANOARROW_OK);
    for (int i = 0; i < BATCH && self->at < ROWS; i++, self->at++) {
        LK_ASSERT(ArrowArrayAppendInt(out->children[0], self->at) == NANOARROW_OK);
        LK_ASSERT(ArrowArrayAppendDouble(out->children[1], (double)self->at / 2) == NANOARROW_OK);
        LK_ASSERT(ArrowArrayFinishElement(out) == NANOARROW_OK);
    }
    LK_ASSERT(ArrowArrayFinishBuildingDefault(out, NULL) == NANOARROW_OK);
    return LK_OK;
}

static lk_rc numbers_init(numbers *out, lk_err *err)
{
    struct ArrowSchema columns[2] = {0};
    *out = (numbers){.base = {.next = numbers_next}};
    lk_rc rc = lk_column_parse(LK_LITERAL("n:int64"), &columns[0], err);
    if (rc == LK_OK) {
        rc = lk_column_parse(LK_LITERAL("half:float64"), &columns[1], err);
    }
    if (rc == LK_OK) {
        lk_schema_of_columns(columns, 2, &out->base.schema);
    }
    return rc;
}

/* Runs a query of one row and compares its CSV form. */
static lk_rc expect(lk_remote *remote, lk_bytes sql, const char *wanted, lk_err *err)
{
    lk_batches *rows = NULL;
    char       *text = NULL;
    size_t      size = 0;
    uint64_t    count = 0;
    FILE       *file = open_memstream(&text, &size);
    LK_ASSERT(file != NULL);
    lk_rc rc = lk_client_query(remote->channel, sql, NULL, &rows, err);
    if (rc == LK_OK) {
        rc = lk_output_write(rows, LK_OUTPUT_CSV, file, &count, err);
    }
    lk_batches_close(rows);
    (void)fclose(file);
    if (rc == LK_OK && strcmp(text, wanted) != 0) {
        rc = lk_fail(err, LK_E_INTERNAL, "%.*s gave %.100s", LK_FMT(sql), text);
        lk_detail(err, "the server's answer is wrong");
    }
    free(text);
    return rc;
}

static lk_rc exercise(lk_remote *remote, lk_table_ref table, lk_arena *arena, lk_err *err)
{
    numbers         source = {0};
    lk_ingested     done = {0};
    const lk_ingest ingest = {
        .table = table, .if_absent = LK_IF_ABSENT_CREATE, .if_exists = LK_IF_EXISTS_FAIL};
    lk_rc rc = numbers_init(&source, err);
    if (rc == LK_OK) {
        rc = lk_ingest_run(remote->authority, NULL, &ingest, &source.base, &done, err);
    }
    lk_schema_release(&source.base.schema);
    if (rc == LK_OK) {
        printf("created %.*s.%.*s and appended %" PRIu64 " rows in %" PRIu64 " operations\n",
            LK_FMT(table.ns), LK_FMT(table.name), done.rows, done.operations);
        lk_bytes sums =
            lk_arena_format(arena, "SELECT count(*) AS c, sum(n)::BIGINT AS s, max(half) AS m FROM %.*s.%.*s",
                LK_FMT(table.ns), LK_FMT(table.name));
        rc = expect(remote, sums, "c,s,m\r\n25000,312487500,12499.5\r\n", err);
    }
    if (rc == LK_OK) {
        lk_bytes point = lk_arena_format(
            arena, "SELECT half FROM %.*s.%.*s WHERE n = 12345", LK_FMT(table.ns), LK_FMT(table.name));
        rc = expect(remote, point, "half\r\n6172.5\r\n", err);
    }
    return rc;
}

static int selftest(lk_cli *cli, int argc, char **argv)
{
    lk_remote_args where = {0};
    lk_remote      remote = {0};
    lk_err         err = {0}, drop_err = {0};
    int            code = 0;
    const lk_arg   args[] = {LK_REMOTE_ARGS(where)};
    if (!lk_cli_parse(cli, lk_cli_selftest_commands, args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    uint64_t     unique = lk_random_u64(lk_random_os());
    lk_table_ref table = {
        lk_arena_format(&cli->arena, "lake_selftest_%016" PRIx64, unique), lk_bytes_of("numbers")};
    lk_rc rc = lk_remote_open(&remote, cli, &where, &err);
    if (rc == LK_OK) {
        rc = exercise(&remote, table, &cli->arena, &err);
        lk_rc dropped = remote.authority->ops->drop_table(remote.authority, NULL, table, &drop_err);
        if (rc == LK_OK && dropped != LK_OK) {
            err = drop_err;
            rc = dropped;
        }
    }
    lk_remote_close(&remote);
    if (rc == LK_OK) {
        puts("answers are right; dropped the table\nself-check ok");
    }
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

const lk_cli_command lk_cli_selftest_commands[] = {
    {{"selftest", "check a running server: create, append, query, drop",
         "Uses a namespace of its own with a random name and removes it; safe to repeat."},
        selftest},
    {{NULL, NULL, NULL}, NULL},
};
