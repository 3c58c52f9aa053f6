/*
 * gate.c - the gate: walks DuckDB's own tree of a text and lets through what is listed here and nothing
 * else; tables are renamed to "lake:N" on the way (gate_names.c), so that no name of the text is ever
 * looked up in DuckDB's catalog.
 *
 * Rules:
 *   1. Every object of the tree is a query node, a table reference or an expression of a listed kind, or
 *      one of the few kinds of plain parts; anything else is refused.
 *   2. Functions pass by an allow-list; those whose result's size is an argument only with small literals
 *      there.
 *   3. Every BASE_TABLE that the walk meets was named before it.
 * Threads: confined.
 */
#include "sql/functions.h"
#include "sql/gate_priv.h"

#include <stdlib.h>
#include <strings.h>

static lk_rc walk(lk_gate *g, json_t *value, lk_gate_scope *s);
static lk_rc walk_query(lk_gate *g, json_t *node, const lk_gate_scope *parent);

/* -- refusing -------------------------------------------------------------------------------------- */

static lk_rc refuse(lk_gate *g, const char *what, const char *name)
{
    lk_rc rc = lk_fail(g->err, LK_E_PLANNING, "%s %s", what, name);
    (void)lk_detail(g->err, "%s %.128s is not allowed", what, name);
    return rc;
}

static bool one_of(const char *text, const char *const *list)
{
    for (size_t i = 0; list[i] != NULL; i++) {
        if (strcmp(text, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool same_name(const char *a, const char *b)
{
    return strcasecmp(a, b) == 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* A size written as a small number; multiplied into the statement's product when it is not tiny. */
static bool is_small_literal(lk_gate *g, const json_t *argument)
{
    const json_t *literal = json_object_get(json_object_get(argument, "expression"), "literal");
    lk_bytes      text = lk_bytes_of(lk_tree_text(literal, "text"));
    uint64_t      value = 0;
    if (strcmp(lk_tree_text(literal, "kind"), "INTEGER") != 0) {
        return false;
    }
    if (text.size > 1 && text.data[0] == '-') {
        text = (lk_bytes){text.data + 1, text.size - 1};
    }
    if (!lk_bytes_equal(text, LK_LITERAL("0")) &&
        (!lk_gate_read_number(text, &value) || value > LK_SQL_GROWTH_MAX)) {
        return false;
    }
    g->growth *= value > LK_SQL_GROWTH_SMALL ? value : 1;
    return g->growth <= LK_SQL_GROWTH_PRODUCT_MAX;
}

/* range(..) and its kind: every argument a small literal; repeat(x, n) and its kind: the second. By
 * position only. */
static lk_rc check_growth(lk_gate *g, const json_t *call, const char *name)
{
    const json_t *arguments = json_object_get(call, "arguments");
    bool          all = same_name(name, "range") || same_name(name, "generate_series");
    bool          last = same_name(name, "equi_width_bins");
    size_t        count = json_array_size(arguments);
    bool          good = count > 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *argument = json_array_get(arguments, i);
        bool          asked = all || (last ? i == 2 : i == 1);
        good = good && *lk_tree_text(argument, "name") == '\0' && (!asked || is_small_literal(g, argument));
    }
    if (good) {
        return LK_OK;
    }
    lk_rc rc = lk_fail(g->err, LK_E_PLANNING, "growth %s", name);
    (void)lk_detail(g->err,
        "%.64s() outside FROM needs integer literals of at most %d as its sizes, and not many large ones",
        name, LK_SQL_GROWTH_MAX);
    return rc;
}

static lk_rc check_call(lk_gate *g, const json_t *call, bool in_from)
{
    const char *name = lk_tree_text(call, "function_name");
    bool        qualified = *lk_tree_text(call, "schema") != '\0' || *lk_tree_text(call, "catalog") != '\0' ||
                     json_array_size(json_object_get(json_object_get(call, "qualified_name"), "path")) > 1;
    if (in_from) {
        return !qualified && lk_function_is_table(lk_bytes_of(name)) ? LK_OK
                                                                     : refuse(g, "table function", name);
    }
    lk_function_class class = qualified ? LK_FUNCTION_DENIED : lk_function_classify(lk_bytes_of(name));
    if (class == LK_FUNCTION_GROWTH) {
        return check_growth(g, call, name);
    }
    return class == LK_FUNCTION_PURE ? LK_OK : refuse(g, "function", name);
}

static lk_rc check_expression(lk_gate *g, json_t *e, lk_gate_scope *s)
{
    static const char *const plain[] = {"BETWEEN", "CASE", "CAST", "COLLATE", "COMPARISON", "CONJUNCTION",
        "LAMBDA", "LAMBDA_REF", "OPERATOR", "PARAMETER", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE",
        NULL};
    const char *class = lk_tree_text(e, "class");
    if (strcmp(class, "CONSTANT") == 0) {
        return LK_OK;
    }
    if (++g->nodes > LK_SQL_NODES_MAX) {
        lk_rc rc = lk_fail(g->err, LK_E_INVALID_SQL, "too many expressions");
        (void)lk_detail(g->err, "more than %d expressions", LK_SQL_NODES_MAX);
        return rc;
    }
    if (strcmp(class, "COLUMN_REF") == 0) {
        return lk_gate_shorten_column(g, json_object_get(e, "column_names"), s);
    }
    if (strcmp(class, "FUNCTION") == 0 || strcmp(class, "WINDOW") == 0) {
        return check_call(g, e, false);
    }
    return one_of(class, plain) ? LK_OK : refuse(g, "expression", class);
}

/* -- FROM: second pass, everything else in it -------------------------------------------------------- */

/* SHOW TABLES and its kind become a listing; DESCRIBE and SUMMARIZE keep their query. */
static lk_rc check_show(lk_gate *g, json_t *ref)
{
    const char   *type = lk_tree_text(ref, "show_type"), *name = lk_tree_text(ref, "table_name");
    lk_sql_source source = {.table = SIZE_MAX};
    if (json_is_object(json_object_get(ref, "query")) && strcmp(type, "SUMMARY") != 0) {
        (void)json_object_set_new(ref, "show_type", json_string("DESCRIBE"));
    }
    if (json_is_object(json_object_get(ref, "query"))) {
        (void)json_object_del(ref, "table_name");
        (void)json_object_del(ref, "schema_name");
        (void)json_object_del(ref, "catalog_name");
        (void)json_object_set_new(ref, "qualified_name", json_pack("{s:[]}", "path"));
        return LK_OK;
    }
    if (strcmp(type, "SHOW_FROM") == 0 && *lk_tree_text(ref, "catalog_name") == '\0') {
        source.listing = LK_LISTING_SHOW_TABLES;
        source.ns = lk_arena_copy(&g->statement->arena, lk_bytes_of(lk_tree_text(ref, "schema_name")));
    } else if (strcmp(name, "\"tables\"") == 0) {
        source.listing = LK_LISTING_SHOW_TABLES;
    } else if (strcmp(name, "\"databases\"") == 0) {
        source.listing = LK_LISTING_SHOW_DATABASES;
    } else {
        return lk_fail(g->err, LK_E_STATEMENT, "SHOW %s", name);
    }
    size_t index = 0;
    lk_rc  rc = lk_gate_add_source(g, source, &index);
    if (rc == LK_OK) {
        (void)json_object_clear(ref);
        (void)json_object_set_new(ref, "type", json_string("BASE_TABLE"));
        lk_gate_rename(ref, index);
        g->named++;
        g->seen++;
    }
    return rc;
}

static lk_rc check_from(lk_gate *g, json_t *ref)
{
    static const char *const plain[] = {"EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SUBQUERY", NULL};
    const char              *type = lk_tree_text(ref, "type");
    if (strcmp(type, "BASE_TABLE") == 0) {
        g->seen++;
        return LK_OK;
    }
    if (strcmp(type, "TABLE_FUNCTION") == 0) {
        const json_t *call = json_object_get(ref, "function");
        return strcmp(lk_tree_text(call, "class"), "FUNCTION") == 0 ? check_call(g, call, true)
                                                                    : refuse(g, "table function", "");
    }
    if (strcmp(type, "SHOW_REF") == 0) {
        return check_show(g, ref);
    }
    return one_of(type, plain) ? LK_OK : refuse(g, "FROM item", type);
}

static bool is_from_type(const char *type)
{
    static const char *const types[] = {"BASE_TABLE", "TABLE_FUNCTION", "SHOW_REF", "EMPTY",
        "EXPRESSION_LIST", "JOIN", "PIVOT", "SUBQUERY", "COLUMN_DATA", "CTE", "DELIM_GET", "BOUND_TABLE_REF",
        "TABLE_MACRO", NULL};
    return one_of(type, types);
}

/* -- the walk -------------------------------------------------------------------------------------- */

static lk_rc check_plain(lk_gate *g, const char *type)
{
    static const char *const known[] = {"ORDER_DEFAULT", "ASCENDING", "DESCENDING", "LIMIT_MODIFIER",
        "ORDER_MODIFIER", "DISTINCT_MODIFIER", "LIMIT_PERCENT_MODIFIER", NULL};
    return *type == '\0' || one_of(type, known) || ends_with(type, "_TYPE_INFO")
               ? LK_OK
               : refuse(g, "construct", type);
}

static lk_rc walk_members(lk_gate *g, json_t *object, lk_gate_scope *s, const char *const *skip)
{
    const char *key = NULL;
    json_t     *member = NULL;
    lk_rc       rc = LK_OK;
    json_object_foreach(object, key, member)
    {
        if (rc == LK_OK && (skip == NULL || !one_of(key, skip))) {
            rc = walk(g, member, s);
        }
    }
    return rc;
}

static lk_rc walk_object(lk_gate *g, json_t *object, lk_gate_scope *s)
{
    static const char *const call[] = {"function", NULL};
    const char              *type = lk_tree_text(object, "type");
    if (json_object_get(object, "cte_map") != NULL || ends_with(type, "_NODE")) {
        return walk_query(g, object, s);
    }
    if (json_object_get(object, "class") != NULL) {
        lk_rc rc = check_expression(g, object, s);
        return rc == LK_OK ? walk_members(g, object, s, NULL) : rc;
    }
    if (is_from_type(type)) {
        bool  calls = strcmp(type, "TABLE_FUNCTION") == 0;
        lk_rc rc = check_from(g, object); /* may replace the object's members, type among them */
        if (rc == LK_OK && calls) {       /* its arguments, not its name again */
            rc = walk_members(g, json_object_get(object, "function"), s, NULL);
        }
        return rc == LK_OK ? walk_members(g, object, s, call) : rc;
    }
    lk_rc rc = check_plain(g, type);
    return rc == LK_OK ? walk_members(g, object, s, NULL) : rc;
}

static lk_rc walk(lk_gate *g, json_t *value, lk_gate_scope *s)
{
    if (json_is_object(value)) {
        return walk_object(g, value, s);
    }
    lk_rc   rc = LK_OK;
    size_t  i = 0;
    json_t *item = NULL;
    json_array_foreach(value, i, item)
    {
        if (rc == LK_OK) {
            rc = walk(g, item, s);
        }
    }
    return rc;
}

static lk_rc walk_ctes(lk_gate *g, json_t *map, lk_gate_scope *s)
{
    lk_rc   rc = LK_OK;
    size_t  i = 0;
    json_t *entry = NULL;
    json_array_foreach(json_object_get(map, "map"), i, entry)
    {
        if (rc == LK_OK) {
            rc = walk(g, json_object_get(entry, "value"), s);
            lk_gate_add_cte(g, s, lk_tree_text(entry, "key"));
        }
    }
    return rc;
}

static lk_rc walk_query(lk_gate *g, json_t *node, const lk_gate_scope *parent)
{
    static const char *const skip[] = {"cte_map", NULL};
    static const char *const known[] = {
        "SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE", NULL};
    const char   *type = lk_tree_text(node, "type");
    lk_gate_scope s = {.parent = parent};
    if (ends_with(type, "_QUERY_NODE")) {
        return lk_fail(g->err, LK_E_DML, "%s", type); /* WITH x AS (INSERT ...) */
    }
    if (!one_of(type, known)) {
        return refuse(g, "query", type);
    }
    if (strcmp(type, "RECURSIVE_CTE_NODE") == 0) {
        lk_gate_add_cte(g, &s, lk_tree_text(node, "cte_name"));
    }
    lk_rc rc = walk_ctes(g, json_object_get(node, "cte_map"), &s);
    if (strcmp(type, "CTE_NODE") == 0) {
        lk_gate_add_cte(g, &s, lk_tree_text(node, "cte_name"));
    }
    if (rc == LK_OK) {
        rc = lk_gate_name_from(g, json_object_get(node, "from_table"), &s);
    }
    if (rc == LK_OK) {
        lk_gate_give_aliases(g, &s);
        rc = walk_members(g, node, &s, skip);
    }
    return rc;
}

static void keep(lk_gate *g)
{
    lk_sql_statement *st = g->statement;
    st->tables = lk_arena_take(&st->arena, (st->table_count + 1) * sizeof *st->tables);
    st->sources = lk_arena_take(&st->arena, (st->source_count + 1) * sizeof *st->sources);
    memcpy(st->tables, g->tables, st->table_count * sizeof *st->tables);
    memcpy(st->sources, g->sources, st->source_count * sizeof *st->sources);
}

lk_rc lk_gate_check(lk_sql_statement *statement, json_t *tree, lk_err *err)
{
    lk_gate g = {.statement = statement, .growth = 1, .err = err};
    json_t *first = json_array_get(json_object_get(tree, "statements"), 0);
    json_t *node = json_object_get(first, "node");
    lk_rc   rc = walk_query(&g, node, NULL);
    if (rc == LK_OK && g.named != g.seen) { /* a table where no pass of ours named it */
        rc = refuse(&g, "construct", "");
    }
    if (rc == LK_OK) {
        keep(&g);
        statement->parameter_count = json_array_size(json_object_get(first, "named_param_map"));
    }
    lk_arena_close(&g.scratch);
    return rc;
}
