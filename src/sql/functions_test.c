/*
 * functions_test.c - the allow-list against the engine's own list of functions: every name was looked at
 * once.
 *
 * A new engine release with a name that is in neither list fails here; put it into functions.def when it
 * reads nothing but its arguments and changes nothing, else into `reviewed` below.
 */
#include "sql/functions.h"

#include "sql/duck_priv.h"
#include "sql/run_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* Looked at and left out: they read settings, catalogs, sessions or clocks of the process, change state,
 * block, take apart serialised or internal forms, or mean nothing here. */
static const char *const reviewed[] = {
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
    "__between",
    "__cast",
    "binom",
    "bitstring_byte_comparable",
    "can_cast_implicitly",
    "cast_to_type",
    "col_description",
    "combine",
    "combine_aggr",
    "constant_or_null",
    "create_sort_key",
    "current_catalog",
    "current_connection_id",
    "current_database",
    "current_query",
    "current_query_id",
    "current_role",
    "current_schema",
    "current_schemas",
    "current_setting",
    "current_transaction_id",
    "current_user",
    "currval",
    "finalize",
    "format_pg_type",
    "format_type",
    "generate_subscripts",
    "get_block_size",
    "get_type",
    "getvariable",
    "hive_partition_component",
    "icu_sort_key",
    "in_search_path",
    "index_key",
    "invoke",
    "is_histogram_other_bin",
    "json_deserialize_sql",
    "json_serialize_plan",
    "json_serialize_sql",
    "make_type",
    "map_to_pg_oid",
    "nextval",
    "obj_description",
    "parse_duckdb_log_message",
    "remap_struct",
    "replace_type",
    "reservoir_quantile",
    "session_user",
    "setseed",
    "setval",
    "shobj_description",
    "sleep_ms",
    "stats",
    "switch",
    "timetz_byte_comparable",
    "to_aggregate_state",
    "txid_current",
    "unpivot_list",
    "user",
    "variant_comparator",
    "variant_normalize",
    "vector_type",
    "vertex_extract",
    "write_log",
};

/* Families of the same kind: internal rewrites, collations as functions, PostgreSQL's catalog. */
static const char *const families[] = {"__internal_", "collate_", "icu_collate_", "pg_", "has_", "inet_",
    "st_", "json_copy_", "variant_bytes", "variant_to_parquet"};

static bool is_listed(lk_bytes name)
{
    for (size_t i = 0; i < sizeof reviewed / sizeof reviewed[0]; i++) {
        if (lk_bytes_equal(name, lk_bytes_of(reviewed[i]))) {
            return true;
        }
    }
    return false;
}

static bool is_of_a_family(lk_bytes name)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (lk_bytes_starts(name, lk_bytes_of(families[i]))) {
            return true;
        }
    }
    return false;
}

static lk_rc no_functions(duckdb_v2_connection_handle connection, void *context, lk_err *err)
{
    (void)connection;
    (void)context;
    (void)err;
    return LK_OK;
}

/* The functions of the engine, one a line. */
static char *engine_functions(void)
{
    char directory[] = "/tmp/lake-functions-XXXXXX";
    assert_non_null(mkdtemp(directory));
    const lk_duck_options options = {
        .spill_path = directory, .memory_bytes = 256 << 20, .spill_bytes = 256 << 20, .thread_count = 1};
    lk_err   err = {0};
    lk_duck *duck = NULL;
    assert_int_equal(lk_duck_open(&duck, &options, no_functions, NULL, &err), LK_OK);
    duckdb_v2_connection_handle    connection = NULL;
    duckdb_v2_sql_statement_handle statement = NULL;
    duckdb_v2_result_handle        result = NULL;
    duckdb_v2_data_chunk_handle    chunk = NULL;
    duckdb_v2_vector_handle        vector = NULL;
    duckdb_v2_value_handle         value = NULL;
    duckdb_v2_str                  text = {0};
    assert_int_equal(lk_duck_connect(duck, &connection, &err), LK_OK);
    assert_int_equal(lk_duck_parse(connection,
                         "SELECT string_agg(DISTINCT function_name, chr(10)) FROM duckdb_functions() "
                         "WHERE function_type IN ('scalar', 'macro', 'aggregate', 'window')",
                         &statement, &err),
        LK_OK);
    assert_int_equal(duckdb_v2_statement_execute(connection, statement, NULL, NULL, 0, &result, NULL), 0);
    assert_int_equal(duckdb_v2_result_fetch_chunk(result, &chunk, NULL), 0);
    assert_int_equal(duckdb_v2_data_chunk_get_vector(chunk, 0, &vector, NULL), 0);
    assert_int_equal(duckdb_v2_vector_get_value(vector, 0, &value, NULL), 0);
    assert_int_equal(duckdb_v2_value_get_varchar(value, &text, NULL), 0);
    lk_buf out = {0};
    lk_buf_append(&out, text.ptr, text.len);
    (void)duckdb_v2_value_destroy(&value);
    (void)duckdb_v2_data_chunk_destroy(&chunk);
    (void)duckdb_v2_result_destroy(&result);
    (void)duckdb_v2_sql_statement_destroy(&statement);
    (void)duckdb_v2_connection_destroy(&connection);
    lk_duck_close(duck);
    (void)rmdir(directory);
    return out.data;
}

static void every_function_of_the_engine_was_reviewed(void **state)
{
    (void)state;
    char  *all = engine_functions();
    size_t count = 0, unknown = 0;
    for (char *line = all; line != NULL && *line != '\0'; count++) {
        char    *end = strchr(line, '\n');
        lk_bytes name = {line, end == NULL ? strlen(line) : (size_t)(end - line)};
        bool     allowed = lk_function_classify(name) != LK_FUNCTION_DENIED;
        bool     listed = is_listed(name);
        if (allowed ? listed
                    : !listed && !is_of_a_family(name)) { /* pg_typeof is allowed, its family is not */
            print_message("%s: %.*s\n", allowed ? "in both lists" : "in neither list", LK_FMT(name));
            unknown++;
        }
        line = end == NULL ? NULL : end + 1;
    }
    free(all);
    assert_true(count > 900);
    assert_int_equal(unknown, 0);
}

static void the_lists_are_in_order(void **state)
{
    (void)state;
#define F(name) name,
#define G(name)
#define T(name)
    static const char *const pure[] = {
#include "sql/functions.def"
    };
    for (size_t i = 1; i < sizeof pure / sizeof pure[0]; i++) {
        if (strcmp(pure[i - 1], pure[i]) >= 0) {
            fail_msg("%s before %s", pure[i - 1], pure[i]);
        }
    }
}

static void names_are_found_in_any_case(void **state)
{
    (void)state;
    assert_int_equal(lk_function_classify(LK_LITERAL("Abs")), LK_FUNCTION_PURE);
    assert_int_equal(lk_function_classify(LK_LITERAL("REPEAT")), LK_FUNCTION_GROWTH);
    assert_int_equal(lk_function_classify(LK_LITERAL("read_csv")), LK_FUNCTION_DENIED);
    assert_int_equal(lk_function_classify(LK_LITERAL("")), LK_FUNCTION_DENIED);
    assert_int_equal(lk_function_classify(LK_LITERAL("abs\0x")), LK_FUNCTION_DENIED);
    assert_true(lk_function_is_table(LK_LITERAL("Range")));
    assert_false(lk_function_is_table(LK_LITERAL("read_csv")));
    assert_false(lk_function_is_table(LK_LITERAL("abs")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_of_the_engine_was_reviewed),
        cmocka_unit_test(the_lists_are_in_order),
        cmocka_unit_test(names_are_found_in_any_case),
    };
    return cmocka_run_group_tests_name("sql functions", tests, NULL, NULL);
}
