/*
 * sql_run.c - SQL over Lance directories, as tpch_bench.py measures it: lake's own path from text to Arrow batches,
 * without servers.
 *
 *   sql_run DIR       tables are DIR/NAME.lance, called t.NAME; for each line on standard input, the path of a file
 *                     with one statement and perhaps the path of an Arrow stream to write: prints
 *                     "SECONDS ROWS BYTES", the bytes that were read from files meanwhile
 *
 * Exit 0; or 1 and the error on stderr. Threads: DuckDB's, one a core.
 */
#include "arrow/ipc.h"
#include "base/file.h"
#include "engine/lance_engine.h"
#include "io/local.h"
#include "lance/versions.h"
#include "sql/sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLES_MAX = 16, LINE_BYTES = 4096, TEXT_BYTES = 65536 };

typedef struct runner {
    const char *directory;
    lk_engine  *engine;
    lk_sql     *sql;
} runner;

/* -- snapshots ---------------------------------------------------------------------------------------- */
static lk_rc open_table(runner *self, const lk_sql_table *table, lk_table_snapshot **out, lk_err *err)
{
    lk_arena   arena = {0};
    lk_store  *store = NULL;
    lk_version latest = {0};
    bool       found = false;
    lk_bytes   path = lk_arena_format(&arena, "%s/%.*s.lance", self->directory, LK_FMT(table->table.name));
    lk_rc      rc = lk_local_store_open(&store, path, true, err);
    if (rc == LK_OK) {
        rc = lk_versions_latest(store, &latest, &found, err);
    }
    if (rc == LK_OK) {
        lk_table_at at = {path, LK_LITERAL(""), latest.number};
        rc = self->engine->ops->open(self->engine, at, out, err);
    }
    lk_store_close(store);
    lk_arena_close(&arena);
    return rc;
}

/* -- results ------------------------------------------------------------------------------------------ */
typedef struct file_sink {
    lk_ipc_sink base;
    FILE       *file;
} file_sink;

static lk_rc drain(lk_batches *rows, lk_ipc_writer *writer, uint64_t *count, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (bool more = true; rc == LK_OK && more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        *count += more ? (uint64_t)batch.length : 0;
        if (more && writer != NULL) {
            lk_shared_array *shared = lk_array_share(&batch);
            rc = lk_ipc_writer_write(writer, shared, err);
            lk_shared_array_unref(shared);
        }
        lk_array_release(&batch);
    }
    return rc;
}

static lk_rc sink_write(lk_ipc_sink *sink, const void *data, size_t size, lk_err *err)
{
    bool written = fwrite(data, 1, size, ((file_sink *)sink)->file) == size;
    return written ? LK_OK : lk_fail(err, LK_E_IO, "cannot write the result");
}

static lk_rc take_result(lk_batches *rows, const char *path, uint64_t *count, lk_err *err)
{
    file_sink      sink = {.base = {sink_write}};
    lk_ipc_writer *writer = NULL;
    if (*path == '\0') {
        return drain(rows, NULL, count, err);
    }
    sink.file = fopen(path, "wb");
    lk_rc rc = sink.file == NULL ? lk_fail(err, LK_E_IO, "cannot write %s", path)
                                 : lk_ipc_writer_open(&rows->schema, LK_IPC_STREAM, &sink.base, &writer, err);
    if (rc == LK_OK) {
        rc = drain(rows, writer, count, err);
    }
    if (rc == LK_OK) {
        rc = lk_ipc_writer_finish(writer, err);
    }
    lk_ipc_writer_close(writer);
    if (sink.file != NULL) {
        fclose(sink.file);
    }
    return rc;
}

/* -- statements --------------------------------------------------------------------------------------- */
static lk_rc run_statement(runner *self, lk_bytes text, const char *path, uint64_t *count, lk_err *err)
{
    lk_sql_statement   *statement = NULL;
    lk_table_snapshot  *snapshots[TABLES_MAX] = {0};
    lk_batches         *rows = NULL;
    size_t              tables = 0;
    lk_rc               rc = lk_sql_parse(self->sql, text, &statement, err);
    const lk_sql_table *named = rc == LK_OK ? lk_sql_statement_tables(statement, &tables) : NULL;
    for (size_t i = 0; rc == LK_OK && i < tables && i < TABLES_MAX; i++) {
        rc = open_table(self, &named[i], &snapshots[i], err);
    }
    if (rc == LK_OK) {
        const lk_sql_request request = {.statement = statement, .snapshots = snapshots};
        rc = lk_sql_run(self->sql, &request, &rows, err);
    }
    if (rc == LK_OK) {
        rc = take_result(rows, path, count, err);
    }
    lk_batches_close(rows);
    for (size_t i = 0; i < tables && i < TABLES_MAX; i++) {
        lk_table_snapshot_unref(snapshots[i]);
    }
    lk_sql_statement_unref(statement);
    return rc;
}

/* What this process has read by system calls so far. */
static uint64_t bytes_read(void)
{
    char     line[64];
    uint64_t bytes = 0;
    FILE    *file = fopen("/proc/self/io", "r");
    if (file != NULL && fgets(line, sizeof line, file) != NULL && strncmp(line, "rchar: ", 7) == 0) {
        bytes = strtoull(line + 7, NULL, 10);
    }
    if (file != NULL) {
        fclose(file);
    }
    return bytes;
}

static lk_rc serve(runner *self, lk_err *err)
{
    char  line[LINE_BYTES];
    char *text = malloc(TEXT_BYTES);
    lk_rc rc = LK_OK;
    LK_ASSERT(text != NULL);
    while (rc == LK_OK && fgets(line, sizeof line, stdin) != NULL) {
        char       *rest = line;
        const char *input = strtok_r(NULL, " \n", &rest), *output = strtok_r(NULL, " \n", &rest);
        FILE       *file = input == NULL ? NULL : fopen(input, "rb");
        if (file == NULL) {
            rc = lk_fail(err, LK_E_IO, "cannot read the statement");
            break;
        }
        lk_bytes statement = {text, fread(text, 1, TEXT_BYTES, file)};
        uint64_t count = 0, before = bytes_read(), start = lk_clock_now_us();
        fclose(file);
        rc = run_statement(self, statement, output == NULL ? "" : output, &count, err);
        double spent = (double)(lk_clock_now_us() - start) / 1e6;
        printf("%.6f %" PRIu64 " %" PRIu64 "\n", spent, count, bytes_read() - before);
        fflush(stdout);
    }
    free(text);
    return rc;
}

int main(int argc, char **argv)
{
    lk_err err = {0};
    runner self = {.directory = argc > 1 ? argv[1] : "."};
    char   spill[] = "/tmp/lake-sql-run-XXXXXX";
    if (argc != 2 || mkdtemp(spill) == NULL) {
        fprintf(stderr, "usage: sql_run DIR\n");
        return 2;
    }
    const lk_lance_engine_options lance = {.clock = lk_clock_real(), .random = lk_random_os()};
    const lk_sql_options          options = {.spill_directory = lk_bytes_of(spill),
                 .memory_bytes = UINT64_C(8) << 30,
                 .spill_bytes = UINT64_C(8) << 30,
                 .sql_bytes_max = TEXT_BYTES};
    lk_rc                         rc = lk_lance_engine_open(&self.engine, &lance, &err);
    if (rc == LK_OK) {
        rc = lk_sql_open(&self.sql, &options, &err);
    }
    if (rc == LK_OK) {
        rc = serve(&self, &err);
    }
    lk_sql_close(self.sql);
    if (self.engine != NULL) {
        self.engine->ops->close(self.engine);
    }
    lk_err ignored = {0};
    if (lk_directory_remove(spill, &ignored) != LK_OK) {
        fprintf(stderr, "sql_run: %s is left behind\n", spill);
    }
    if (rc != LK_OK) {
        fprintf(
            stderr, "sql_run: %s: %s (%.*s)\n", lk_rc_name(err.rc), err.detail, (int)err.len, err.context);
    }
    return rc == LK_OK ? 0 : 1;
}
