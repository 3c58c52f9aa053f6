/*
 * duck.c - see duck_priv.h. The order in which the sandbox is closed matters: external access goes off at run
 * time (as a create option it would refuse our own spill directory), and the lock comes last.
 */
#include "sql/duck_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- errors ---------------------------------------------------------------------------------------- */

static lk_rc code_of(lk_duck_phase phase, DUCKDB_V2_ERROR code, lk_bytes text)
{
    bool disk = memmem(text.data, text.size, "max_temp_directory_size", 23) != NULL ||
                memmem(text.data, text.size, "No space left", 13) != NULL;
    switch ((int)code) {
    case DUCKDB_V2_ERROR_RUNTIME_INTERRUPT:
        return LK_E_CANCELLED;
    case DUCKDB_V2_ERROR_RESOURCE_OUT_OF_MEMORY:
        return disk ? LK_E_QUERY_SPILL : LK_E_QUERY_MEMORY;
    case DUCKDB_V2_ERROR_RUNTIME_INTERNAL:
    case DUCKDB_V2_ERROR_RUNTIME_FATAL:
    case DUCKDB_V2_ERROR_RUNTIME_NULL_POINTER:
    case DUCKDB_V2_ERROR_API:
        return LK_E_INTERNAL;
    case DUCKDB_V2_ERROR_QUERY_PARSER:
    case DUCKDB_V2_ERROR_QUERY_SYNTAX:
        return LK_E_INVALID_SQL;
    case DUCKDB_V2_ERROR_TYPE_CONVERSION:
    case DUCKDB_V2_ERROR_TYPE_DIVIDE_BY_ZERO:
    case DUCKDB_V2_ERROR_INPUT_OUT_OF_RANGE:
        return LK_E_EXECUTION;
    default:
        break;
    }
    if (code >= DUCKDB_V2_ERROR_IO_FILE_NOT_FOUND && code < DUCKDB_V2_ERROR_INPUT_INVALID) {
        return disk ? LK_E_QUERY_SPILL : LK_E_IO;
    }
    return phase == LK_DUCK_STARTING   ? LK_E_INTERNAL
           : phase == LK_DUCK_PLANNING ? LK_E_PLANNING
                                       : LK_E_EXECUTION;
}

/* The first sentence of DuckDB's message; the excerpt of our rewritten text that follows it means nothing
 * to the caller. Only kinds of errors whose text is about the statement or its values are shown. */
static void add_reason(lk_err *err, lk_rc rc, lk_bytes text)
{
    if (rc != LK_E_PLANNING && rc != LK_E_EXECUTION && rc != LK_E_INVALID_SQL) {
        return;
    }
    const char *cut = memmem(text.data, text.size, "\n\nLINE ", 7);
    size_t      size = cut == NULL ? text.size : (size_t)(cut - text.data);
    char        shown[LK_ERR_DETAIL_BYTES];
    size_t      used = 0;
    for (size_t i = 0; i < size && used + 1 < sizeof shown; i++) {
        bool blank = (unsigned char)text.data[i] < ' ';
        shown[used++] = blank ? ' ' : text.data[i];
    }
    while (used > 0 && ((shown[used - 1] & 0xC0) == 0x80 || shown[used - 1] == ' ') &&
           used + 1 == sizeof shown) {
        used--; /* do not end inside a character */
    }
    shown[used] = '\0';
    (void)lk_detail(err, "%s", shown);
}

lk_rc lk_duck_fail(lk_err *err, lk_duck_phase phase, DUCKDB_V2_ERROR code, duckdb_v2_error_info_handle *info,
    const char *doing)
{
    duckdb_v2_str text = {0};
    if (*info != NULL) {
        (void)duckdb_v2_error_info_get_code(*info, &code);
        if (duckdb_v2_error_info_get_raw_text(*info, &text) != DUCKDB_V2_ERROR_NONE) {
            text = (duckdb_v2_str){0};
        }
    }
    lk_bytes shown = text.len == 0 ? LK_LITERAL("no reason given") : lk_duck_bytes(text);
    lk_rc    rc = code_of(phase, code, shown);
    lk_rc    failed = lk_fail(
           err, rc, "%s: [%d] %.*s", doing, (int)code, (int)(shown.size > 300 ? 300 : shown.size), shown.data);
    add_reason(err, rc, shown);
    if (*info != NULL) {
        (void)duckdb_v2_error_info_destroy(info);
    }
    return failed;
}

/* -- running our own statements -------------------------------------------------------------------- */

lk_rc lk_duck_parse(
    duckdb_v2_connection_handle connection, const char *sql, duckdb_v2_sql_statement_handle *out, lk_err *err)
{
    duckdb_v2_error_info_handle         info = NULL;
    duckdb_v2_statement_iterator_handle iterator = NULL;
    *out = NULL;
    DUCKDB_V2_ERROR code = duckdb_v2_parse_sql(connection, sql, &iterator, &info);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_statement_iterator_next(iterator, out, &info);
    }
    (void)duckdb_v2_statement_iterator_destroy(&iterator);
    if (code == DUCKDB_V2_ERROR_NONE && *out != NULL) {
        return LK_OK;
    }
    return lk_duck_fail(err, LK_DUCK_PLANNING, code, &info, "parse");
}

static lk_rc run(duckdb_v2_connection_handle connection, const char *sql, lk_err *err)
{
    duckdb_v2_sql_statement_handle statement = NULL;
    lk_rc                          rc = lk_duck_parse(connection, sql, &statement, err);
    if (rc != LK_OK) {
        return rc;
    }
    duckdb_v2_error_info_handle info = NULL;
    duckdb_v2_result_handle     result = NULL;
    DUCKDB_V2_ERROR code = duckdb_v2_statement_execute(connection, statement, NULL, NULL, 0, &result, &info);
    for (bool more = code == DUCKDB_V2_ERROR_NONE; more;) {
        duckdb_v2_data_chunk_handle chunk = NULL;
        code = duckdb_v2_result_fetch_chunk(result, &chunk, &info);
        more = code == DUCKDB_V2_ERROR_NONE && chunk != NULL;
        (void)duckdb_v2_data_chunk_destroy(&chunk);
    }
    (void)duckdb_v2_result_destroy(&result);
    (void)duckdb_v2_sql_statement_destroy(&statement);
    return code == DUCKDB_V2_ERROR_NONE ? LK_OK : lk_duck_fail(err, LK_DUCK_STARTING, code, &info, sql);
}

lk_rc lk_duck_connect(lk_duck *duck, duckdb_v2_connection_handle *out, lk_err *err)
{
    duckdb_v2_error_info_handle info = NULL;
    *out = NULL;
    DUCKDB_V2_ERROR code = duckdb_v2_connection_create(duck->instance, out, &info);
    return code == DUCKDB_V2_ERROR_NONE ? LK_OK : lk_duck_fail(err, LK_DUCK_STARTING, code, &info, "connect");
}

bool lk_duck_answers(lk_duck *duck)
{
    lk_err                      ignored = {0};
    duckdb_v2_connection_handle connection = NULL;
    atomic_store(&duck->suspect, false);
    bool answers = lk_duck_connect(duck, &connection, &ignored) == LK_OK &&
                   run(connection, "SELECT 1", &ignored) == LK_OK;
    (void)duckdb_v2_connection_destroy(&connection);
    return answers;
}

/* -- start and stop -------------------------------------------------------------------------------- */

static lk_rc create_instance(lk_duck *duck, const lk_duck_options *options, lk_arena *arena, lk_err *err)
{
    lk_bytes       memory = lk_arena_format(arena, "%" PRIu64 "KiB", options->memory_bytes / 1024);
    lk_bytes       threads = lk_arena_format(arena, "%" PRIu64, options->thread_count);
    const lk_bytes rows[][2] = {
        {LK_LITERAL("memory_limit"), memory},
        {LK_LITERAL("threads"), threads},
        {LK_LITERAL("temp_directory"), lk_bytes_of(options->spill_path)},
        {LK_LITERAL("autoinstall_known_extensions"), LK_LITERAL("false")},
        {LK_LITERAL("autoload_known_extensions"), LK_LITERAL("false")},
        {LK_LITERAL("allow_community_extensions"), LK_LITERAL("false")},
        {LK_LITERAL("allow_unsigned_extensions"), LK_LITERAL("false")},
        {LK_LITERAL("allow_persistent_secrets"), LK_LITERAL("false")},
    };
    enum { COUNT = sizeof rows / sizeof rows[0] };
    duckdb_v2_str names[COUNT], values[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        names[i] = lk_duck_str(rows[i][0]);
        values[i] = lk_duck_str(rows[i][1]);
    }
    duckdb_v2_error_info_handle info = NULL;
    DUCKDB_V2_ERROR             code = duckdb_v2_environment_create(&duck->environment, &info);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_instance_create_with_options(
            duck->environment, names, values, COUNT, &duck->instance, &info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) { /* there is no default database without this */
        duckdb_v2_str name = lk_duck_str(LK_LITERAL("memory")), path = lk_duck_str(LK_LITERAL(":memory:"));
        code = duckdb_v2_instance_attach(duck->instance, &name, &path, NULL, true, &info);
    }
    return code == DUCKDB_V2_ERROR_NONE ? LK_OK
                                        : lk_duck_fail(err, LK_DUCK_STARTING, code, &info, "start DuckDB");
}

/* The last settings; after the lock nothing can be changed. */
static lk_rc close_sandbox(
    duckdb_v2_connection_handle connection, const lk_duck_options *options, lk_arena *arena, lk_err *err)
{
    const lk_bytes settings[] = {
        lk_arena_format(
            arena, "SET GLOBAL max_temp_directory_size='%" PRIu64 "KiB'", options->spill_bytes / 1024),
        LK_LITERAL("SET GLOBAL TimeZone='UTC'"),
        LK_LITERAL("SET GLOBAL enable_external_access=false"),
        LK_LITERAL("SET GLOBAL lock_configuration=true"),
    };
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < sizeof settings / sizeof settings[0]; i++) {
        rc = run(connection, settings[i].data, err);
    }
    return rc;
}

lk_rc lk_duck_open(lk_duck **out, const lk_duck_options *options,
    lk_rc (*register_functions)(duckdb_v2_connection_handle connection, void *context, lk_err *err),
    void *context, lk_err *err)
{
    lk_duck *duck = calloc(1, sizeof *duck);
    LK_ASSERT(duck != NULL);
    lk_mutex_init(&duck->mutex, LK_RANK_SQL);
    lk_arena                    arena = {0};
    duckdb_v2_connection_handle connection = NULL;

    lk_rc rc = create_instance(duck, options, &arena, err);
    if (rc == LK_OK) {
        rc = lk_duck_connect(duck, &connection, err);
    }
    if (rc == LK_OK) {
        rc = register_functions(connection, context, err);
    }
    if (rc == LK_OK) {
        rc = close_sandbox(connection, options, &arena, err);
    }
    (void)duckdb_v2_connection_destroy(&connection);
    lk_arena_close(&arena);
    if (rc != LK_OK) {
        lk_duck_close(duck);
        return rc;
    }
    *out = duck;
    return LK_OK;
}

static void close_parser(lk_duck_parser *parser)
{
    (void)duckdb_v2_prepared_statement_destroy(&parser->serialize);
    (void)duckdb_v2_prepared_statement_destroy(&parser->deserialize);
    (void)duckdb_v2_connection_destroy(&parser->connection);
}

void lk_duck_close(lk_duck *duck)
{
    if (duck == NULL) {
        return;
    }
    for (size_t i = 0; i < duck->parser_count; i++) {
        close_parser(&duck->parsers[i]);
    }
    if (duck->instance != NULL) {
        (void)duckdb_v2_instance_destroy(&duck->instance);
    }
    if (duck->environment != NULL) {
        (void)duckdb_v2_environment_destroy(&duck->environment);
    }
    lk_mutex_deinit(&duck->mutex);
    free(duck);
}

/* -- parsing --------------------------------------------------------------------------------------- */

static lk_rc prepare(duckdb_v2_connection_handle connection, const char *sql,
    duckdb_v2_prepared_statement_handle *out, lk_err *err)
{
    duckdb_v2_sql_statement_handle statement = NULL;
    lk_rc                          rc = lk_duck_parse(connection, sql, &statement, err);
    if (rc != LK_OK) {
        return rc;
    }
    duckdb_v2_error_info_handle info = NULL;
    DUCKDB_V2_ERROR code = duckdb_v2_prepared_statement_create(connection, statement, false, out, &info);
    (void)duckdb_v2_sql_statement_destroy(&statement);
    return code == DUCKDB_V2_ERROR_NONE ? LK_OK : lk_duck_fail(err, LK_DUCK_STARTING, code, &info, "prepare");
}

static lk_rc take_parser(lk_duck *duck, lk_duck_parser *out, lk_err *err)
{
    lk_mutex_lock(&duck->mutex);
    bool kept = duck->parser_count > 0;
    if (kept) {
        *out = duck->parsers[--duck->parser_count];
    }
    lk_mutex_unlock(&duck->mutex);
    if (kept) {
        return LK_OK;
    }
    *out = (lk_duck_parser){0};
    lk_rc rc = lk_duck_connect(duck, &out->connection, err);
    if (rc == LK_OK) {
        rc = prepare(out->connection,
            "SELECT json_serialize_sql($1::VARCHAR, skip_default := true, skip_null := true, "
            "skip_empty := true)::VARCHAR",
            &out->serialize, err);
    }
    if (rc == LK_OK) {
        rc = prepare(
            out->connection, "SELECT json_deserialize_sql($1::JSON)::VARCHAR", &out->deserialize, err);
    }
    if (rc != LK_OK) {
        close_parser(out);
    }
    return rc;
}

static void give_parser(lk_duck *duck, lk_duck_parser *parser)
{
    lk_mutex_lock(&duck->mutex);
    bool keep = duck->parser_count < LK_DUCK_PARSERS_KEPT;
    if (keep) {
        duck->parsers[duck->parser_count++] = *parser;
    }
    lk_mutex_unlock(&duck->mutex);
    if (!keep) {
        close_parser(parser);
    }
}

/* The one text in the one row of the result. */
static DUCKDB_V2_ERROR read_text(
    duckdb_v2_result_handle result, lk_buf *out, duckdb_v2_error_info_handle *info)
{
    duckdb_v2_data_chunk_handle chunk = NULL;
    duckdb_v2_vector_handle     vector = NULL;
    duckdb_v2_value_handle      value = NULL;
    duckdb_v2_str               text = {0};
    DUCKDB_V2_ERROR             code = duckdb_v2_result_fetch_chunk(result, &chunk, info);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_data_chunk_get_vector(chunk, 0, &vector, info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_vector_get_value(vector, 0, &value, info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_value_get_varchar(value, &text, info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        lk_buf_append(out, text.ptr, text.len);
    }
    (void)duckdb_v2_value_destroy(&value);
    (void)duckdb_v2_data_chunk_destroy(&chunk);
    return code;
}

static lk_rc run_prepared(lk_duck *duck, duckdb_v2_connection_handle connection,
    duckdb_v2_prepared_statement_handle prepared, lk_bytes argument, lk_buf *out, lk_err *err)
{
    duckdb_v2_error_info_handle info = NULL;
    duckdb_v2_factory_handle    factory = NULL;
    duckdb_v2_value_handle      value = NULL;
    duckdb_v2_result_handle     result = NULL;
    duckdb_v2_str               text = lk_duck_str(argument);
    DUCKDB_V2_ERROR             code = duckdb_v2_connection_get_factory(connection, &factory, &info);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_value_create_varchar(factory, &text, &value, &info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_prepared_statement_execute(prepared, NULL, &value, 1, &result, &info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = read_text(result, out, &info);
    }
    (void)duckdb_v2_result_destroy(&result);
    (void)duckdb_v2_value_destroy(&value);
    if (code == DUCKDB_V2_ERROR_NONE) {
        return LK_OK;
    }
    lk_rc rc = lk_duck_fail(err, LK_DUCK_PLANNING, code, &info, "statement tree");
    if (rc == LK_E_INTERNAL) {
        atomic_store(&duck->suspect, true);
    }
    return rc;
}

lk_rc lk_duck_serialize(lk_duck *duck, lk_bytes text, lk_buf *out, lk_err *err)
{
    lk_duck_parser parser = {0};
    lk_rc          rc = take_parser(duck, &parser, err);
    if (rc == LK_OK) {
        rc = run_prepared(duck, parser.connection, parser.serialize, text, out, err);
        give_parser(duck, &parser);
    }
    return rc;
}

lk_rc lk_duck_deserialize(lk_duck *duck, lk_bytes tree, lk_buf *out, lk_err *err)
{
    lk_duck_parser parser = {0};
    lk_rc          rc = take_parser(duck, &parser, err);
    if (rc == LK_OK) {
        rc = run_prepared(duck, parser.connection, parser.deserialize, tree, out, err);
        give_parser(duck, &parser);
    }
    return rc;
}

lk_rc lk_duck_kinds(lk_duck *duck, const char *text, DUCKDB_V2_STATEMENT_TYPE kinds[2], size_t *count,
    bool *parsed, lk_err *err)
{
    lk_duck_parser parser = {0};
    lk_rc          rc = take_parser(duck, &parser, err);
    if (rc != LK_OK) {
        return rc;
    }
    duckdb_v2_error_info_handle         info = NULL;
    duckdb_v2_statement_iterator_handle iterator = NULL;
    DUCKDB_V2_ERROR                     code = duckdb_v2_parse_sql(parser.connection, text, &iterator, &info);
    *count = 0;
    for (bool more = true; more && code == DUCKDB_V2_ERROR_NONE && *count < 2;) {
        duckdb_v2_sql_statement_handle statement = NULL;
        code = duckdb_v2_statement_iterator_next(iterator, &statement, &info);
        more = code == DUCKDB_V2_ERROR_NONE && statement != NULL;
        if (more) {
            code = duckdb_v2_sql_statement_get_type(statement, &kinds[(*count)++], &info);
        }
        (void)duckdb_v2_sql_statement_destroy(&statement);
    }
    *parsed = code == DUCKDB_V2_ERROR_NONE;
    if (info != NULL) {
        (void)duckdb_v2_error_info_destroy(&info);
    }
    (void)duckdb_v2_statement_iterator_destroy(&iterator);
    give_parser(duck, &parser);
    return LK_OK;
}
