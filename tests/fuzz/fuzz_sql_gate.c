/*
 * fuzz_sql_gate.c - any text through the gate. One that passes must come out as exactly one SELECT or EXPLAIN whose
 * text the parser accepts again, and name no more sources than it declares.
 */
#include "sql/parse_priv.h"
#include "sql/statement_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/tmp/lake-fuzz-sql-XXXXXX";

static void remove_directory(void)
{
    (void)rmdir(directory);
}

static lk_rc no_functions(duckdb_v2_connection_handle connection, void *context, lk_err *err)
{
    (void)connection;
    (void)context;
    (void)err;
    return LK_OK;
}

static lk_duck *engine(void)
{
    static lk_duck *duck = NULL;
    lk_err          err = {0};
    if (duck == NULL) {
        LK_ASSERT(mkdtemp(directory) != NULL);
        (void)atexit(remove_directory);
        const lk_duck_options options = {.spill_path = directory,
            .memory_bytes = 256 * 1024 * 1024,
            .spill_bytes = 64 * 1024 * 1024,
            .thread_count = 1};
        LK_ASSERT(lk_duck_open(&duck, &options, no_functions, NULL, &err) == LK_OK);
    }
    return duck;
}

static void check(lk_sql_statement *statement)
{
    lk_err                   err = {0};
    const char              *sql = NULL;
    DUCKDB_V2_STATEMENT_TYPE kinds[2] = {0};
    size_t                   count = 0;
    bool                     parsed = false;
    LK_ASSERT(statement->table_count <= 64 && statement->source_count <= 64 + 8);
    LK_ASSERT(lk_statement_engine_sql(engine(), statement, &sql, &err) == LK_OK);
    LK_ASSERT(lk_duck_kinds(engine(), sql, kinds, &count, &parsed, &err) == LK_OK);
    LK_ASSERT(parsed && count == 1);
    LK_ASSERT(kinds[0] == (statement->explain == LK_EXPLAIN_NONE ? DUCKDB_V2_STATEMENT_TYPE_SELECT
                                                                 : DUCKDB_V2_STATEMENT_TYPE_EXPLAIN));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_err            err = {0};
    lk_sql_statement *statement = NULL;
    if (lk_statement_parse(engine(), (lk_bytes){(const char *)data, size}, &statement, &err) == LK_OK) {
        check(statement);
        lk_sql_statement_unref(statement);
    } else {
        LK_ASSERT(err.rc != LK_OK && err.rc != LK_E_INTERNAL);
        LK_ASSERT(strstr(err.detail, directory) == NULL);
    }
    return 0;
}
