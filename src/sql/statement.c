/* statement.c - from a text to a checked statement; see sql.h and statement_priv.h. */
#include "base/limits.h"
#include "sql/duck_priv.h"
#include "sql/parse_priv.h"
#include "sql/rows_priv.h"
#include "sql/simple_priv.h"

#include <stdlib.h>

/* -- kinds that are not SELECT --------------------------------------------------------------------- */

static lk_rc kind_code(DUCKDB_V2_STATEMENT_TYPE kind)
{
    switch ((int)kind) {
    case DUCKDB_V2_STATEMENT_TYPE_INSERT:
    case DUCKDB_V2_STATEMENT_TYPE_UPDATE:
    case DUCKDB_V2_STATEMENT_TYPE_DELETE:
    case DUCKDB_V2_STATEMENT_TYPE_MERGE_INTO:
    case DUCKDB_V2_STATEMENT_TYPE_COPY:
        return LK_E_DML;
    case DUCKDB_V2_STATEMENT_TYPE_CREATE:
    case DUCKDB_V2_STATEMENT_TYPE_CREATE_FUNC:
    case DUCKDB_V2_STATEMENT_TYPE_ALTER:
    case DUCKDB_V2_STATEMENT_TYPE_DROP:
        return LK_E_DDL;
    default:
        return LK_E_STATEMENT;
    }
}

/* Why DuckDB would not serialise the text: another kind, several statements, or a syntax error. */
static lk_rc explain_refusal(lk_duck *duck, const lk_sql_text *text, const json_t *tree, lk_err *err)
{
    DUCKDB_V2_STATEMENT_TYPE kinds[2] = {DUCKDB_V2_STATEMENT_TYPE_INVALID, DUCKDB_V2_STATEMENT_TYPE_INVALID};
    size_t                   count = 0;
    bool                     parsed = false;
    lk_rc                    rc = lk_duck_kinds(duck, text->body.data, kinds, &count, &parsed, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (parsed && count == 1 && kinds[0] != DUCKDB_V2_STATEMENT_TYPE_SELECT) {
        return lk_fail(err, kind_code(kinds[0]), "statement kind %d", (int)kinds[0]);
    }
    if (!parsed && lk_sql_text_starts(text->body, "create")) { /* other engines' CREATE, too */
        return lk_fail(err, LK_E_DDL, "unknown form of CREATE");
    }
    const char *reason = lk_tree_text(tree, "error_message");
    rc = lk_fail(err, LK_E_INVALID_SQL, "%.200s", reason);
    if (parsed && count != 1) {
        (void)lk_detail(
            err, count == 0 ? "the text holds no statement" : "the text holds more than one statement");
    } else if (!parsed && *reason != '\0') {
        (void)lk_detail(err, "%.200s", reason);
    }
    return rc;
}

/* -- building -------------------------------------------------------------------------------------- */

static lk_rc read_tree(lk_duck *duck, const lk_sql_text *text, json_t **out, lk_err *err)
{
    lk_buf json = {0};
    lk_rc  rc = lk_duck_serialize(duck, text->body, &json, err);
    if (rc == LK_OK) {
        *out = json_loadb(json.data, json.size, 0, NULL);
        if (*out == NULL) {
            rc = lk_fail(err, LK_E_INVALID_SQL, "tree too deep");
            (void)lk_detail(err, "the statement is nested too deep");
        }
    }
    lk_buf_deinit(&json);
    if (rc == LK_OK && (json_is_true(json_object_get(*out, "error")) ||
                           json_array_size(json_object_get(*out, "statements")) != 1)) {
        rc = explain_refusal(duck, text, *out, err);
    }
    return rc;
}

static lk_rc keep_tree(lk_sql_statement *statement, const json_t *tree, lk_err *err)
{
    char *dumped = json_dumps(tree, JSON_COMPACT);
    if (dumped == NULL) {
        return lk_fail(err, LK_E_INTERNAL, "dump tree");
    }
    statement->tree = lk_arena_copy(&statement->arena, lk_bytes_of(dumped));
    free(dumped);
    return LK_OK;
}

static lk_sql_statement *new_statement(lk_bytes text)
{
    lk_sql_statement *statement = calloc(1, sizeof *statement);
    LK_ASSERT(statement != NULL);
    atomic_init(&statement->refs, 1);
    statement->text = lk_arena_copy(&statement->arena, text);
    return statement;
}

static void count_bytes(lk_sql_statement *statement)
{
    statement->bytes = sizeof *statement + statement->arena.used_bytes + statement->tree.size +
                       (statement->narrow == NULL ? 0 : statement->narrow->bytes);
}

lk_sql_statement *lk_statement_simple(lk_bytes text)
{
    lk_sql_statement *statement = new_statement(text);
    if (!lk_simple_parse(statement)) {
        lk_sql_statement_unref(statement);
        return NULL;
    }
    count_bytes(statement);
    return statement;
}

lk_rc lk_statement_parsed(lk_duck *duck, lk_sql_statement *statement, lk_sql_statement **out, lk_err *err)
{
    lk_sql_statement *parsed =
        statement->tree.size > 0 ? statement : atomic_load_explicit(&statement->parsed, memory_order_acquire);
    if (parsed == NULL) {
        lk_sql_statement *made = NULL;
        lk_rc             rc = lk_statement_parse(duck, statement->text, &made, err);
        if (rc != LK_OK) {
            return rc;
        }
        if (atomic_compare_exchange_strong(&statement->parsed, &parsed, made)) {
            parsed = made;
        } else {
            lk_sql_statement_unref(made); /* another thread was first */
        }
    }
    *out = parsed;
    return LK_OK;
}

/* The statement that only asks which rows are the first ones; beside its owner, whose sources it shares. */
static lk_rc find_top(lk_sql_statement *statement, const json_t *tree, lk_err *err)
{
    lk_shape *shape = lk_arena_take(&statement->arena, sizeof *shape);
    json_t   *narrow = NULL;
    if (statement->parameter_count > 0 || !lk_rows_top(&statement->arena, tree, shape, &narrow) ||
        shape->count) {
        json_decref(narrow);
        return LK_OK;
    }
    lk_sql_statement *made = new_statement((lk_bytes){"", 0});
    made->tables = statement->tables;
    made->table_count = statement->table_count;
    made->sources = statement->sources;
    made->source_count = statement->source_count;
    made->row_columns = true;
    statement->top = shape;
    statement->narrow = made;
    lk_rc rc = keep_tree(made, narrow, err);
    json_decref(narrow);
    count_bytes(made);
    return rc;
}

lk_rc lk_statement_parse(lk_duck *duck, lk_bytes text, lk_sql_statement **out, lk_err *err)
{
    lk_sql_statement *statement = new_statement(text);
    lk_arena          scratch = {0};
    lk_sql_text       parts = {0};
    json_t           *tree = NULL;

    lk_rc rc = lk_sql_text_read(text, &scratch, &parts, err);
    if (rc == LK_OK) {
        statement->explain = parts.explain;
        rc = read_tree(duck, &parts, &tree, err);
    }
    if (rc == LK_OK) {
        rc = lk_gate_check(statement, tree, err);
    }
    if (rc == LK_OK) {
        json_t *node = json_object_get(json_array_get(json_object_get(tree, "statements"), 0), "node");
        lk_rows_mark(statement, node);
        rc = keep_tree(statement, tree, err);
        if (rc == LK_OK && statement->explain == LK_EXPLAIN_NONE) {
            statement->shape = lk_shape_of(&statement->arena, node);
            statement->origin = lk_origin_of(&statement->arena, node);
            rc = find_top(statement, tree, err);
        }
    }
    json_decref(tree);
    lk_arena_close(&scratch);
    count_bytes(statement);
    if (rc != LK_OK) {
        lk_sql_statement_unref(statement);
        return rc;
    }
    *out = statement;
    return LK_OK;
}

/* -- the rewritten text ---------------------------------------------------------------------------- */

lk_rc lk_statement_engine_sql(lk_duck *duck, lk_sql_statement *statement, const char **out, lk_err *err)
{
    static const char *const before[] = {
        [LK_EXPLAIN_NONE] = "", [LK_EXPLAIN_PLAN] = "EXPLAIN ", [LK_EXPLAIN_ANALYZE] = "EXPLAIN ANALYZE "};
    char *known = atomic_load_explicit(&statement->engine_sql, memory_order_acquire);
    if (known == NULL) {
        lk_buf sql = {0};
        lk_buf_append_text(&sql, before[statement->explain]);
        lk_rc rc = lk_duck_deserialize(duck, statement->tree, &sql, err);
        if (rc != LK_OK) {
            lk_buf_deinit(&sql);
            return rc;
        }
        if (atomic_compare_exchange_strong(&statement->engine_sql, &known, sql.data)) {
            known = sql.data;
        } else {
            lk_buf_deinit(&sql); /* another thread was first */
        }
    }
    *out = known;
    return LK_OK;
}

/* -- the handle ------------------------------------------------------------------------------------ */

lk_sql_statement *lk_sql_statement_ref(lk_sql_statement *statement)
{
    (void)atomic_fetch_add_explicit(&statement->refs, 1, memory_order_relaxed);
    return statement;
}

void lk_sql_statement_unref(lk_sql_statement *statement)
{
    if (statement == NULL) {
        return;
    }
    unsigned before = atomic_fetch_sub_explicit(&statement->refs, 1, memory_order_release);
    LK_ASSERT(before > 0);
    if (before == 1) {
        atomic_thread_fence(memory_order_acquire);
        free(atomic_load_explicit(&statement->engine_sql, memory_order_relaxed));
        lk_sql_statement_unref(atomic_load_explicit(&statement->parsed, memory_order_relaxed));
        lk_sql_statement_unref(statement->narrow);
        lk_arena_close(&statement->arena);
        free(statement);
    }
}

const lk_sql_table *lk_sql_statement_tables(const lk_sql_statement *statement, size_t *count)
{
    *count = statement->table_count;
    return statement->tables;
}

bool lk_sql_statement_lists(const lk_sql_statement *statement)
{
    return statement->lists;
}

size_t lk_sql_statement_parameter_count(const lk_sql_statement *statement)
{
    return statement->parameter_count;
}
