/*
 * gate.c - the gate: walks DuckDB's own tree of a text, lets through what is listed here and nothing else, collects
 * the tables, and renames them to "lake:N" so that no name of the text is ever looked up in DuckDB's catalog.
 *
 * Rules:
 *   1. Every object of the tree is a query node, a table reference or an expression of a listed kind, or one of the
 *      few kinds of plain parts; anything else is refused.
 *   2. Every BASE_TABLE is a CTE in scope, a table ns.t or lake.ns.t, or a listing of information_schema.
 *   3. A FROM item without an alias gets one, so that `t.x` and `ns.t.x` still find it.
 * Threads: confined.
 */
#include "base/limits.h"
#include "sql/functions.h"
#include "sql/statement_priv.h"

#include <stdlib.h>
#include <strings.h>

typedef struct base {                 /* one FROM item that names a table */
    const char  *catalog, *ns, *name; /* as written */
    json_t      *node;
    bool         aliased;
    struct base *next;
} base;

typedef struct label {
    const char   *text;
    struct label *next;
} label;

typedef struct scope {
    const struct scope *parent;
    label              *ctes;
    label              *shown; /* what FROM items that are no unaliased tables are called */
    base               *bases;
} scope;

typedef struct gate {
    lk_sql_statement *statement;
    lk_arena          scratch;
    lk_sql_table      tables[LK_STATEMENT_TABLES_MAX];
    lk_sql_source     sources[LK_STATEMENT_TABLES_MAX + 8];
    size_t            nodes, named, seen; /* BASE_TABLE nodes renamed, and met again on the second pass */
    uint64_t          growth;             /* the product of large sizes */
    lk_err           *err;
} gate;

static lk_rc walk(gate *g, json_t *value, scope *s);
static lk_rc walk_query(gate *g, json_t *node, const scope *parent);

/* -- refusing -------------------------------------------------------------------------------------- */

static lk_rc refuse(gate *g, const char *what, const char *name)
{
    lk_rc rc = lk_fail(g->err, LK_E_PLANNING, "%s %s", what, name);
    (void)lk_detail(g->err, "%s %.128s is not allowed", what, name);
    return rc;
}

static lk_rc deny(gate *g)
{
    return lk_fail(g->err, LK_E_DENIED, "name outside the caller's catalogs");
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

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static bool same_name(const char *a, const char *b)
{
    return strcasecmp(a, b) == 0;
}

/* -- sources --------------------------------------------------------------------------------------- */

bool lk_source_index(const char *name, size_t *out)
{
    size_t prefix = strlen(LK_SQL_SOURCE_PREFIX);
    if (strncmp(name, LK_SQL_SOURCE_PREFIX, prefix) != 0 || name[prefix] < '0' || name[prefix] > '9') {
        return false;
    }
    char *end = NULL;
    *out = strtoul(name + prefix, &end, 10);
    return *end == '\0';
}

static bool same_table(const lk_sql_table *a, const lk_sql_table *b)
{
    return a->when == b->when && a->version == b->version && lk_bytes_equal(a->table.ns, b->table.ns) &&
           lk_bytes_equal(a->table.name, b->table.name) && lk_bytes_equal(a->incarnation, b->incarnation);
}

static lk_rc add_source(gate *g, lk_sql_source source, size_t *out)
{
    lk_sql_statement *st = g->statement;
    for (size_t i = 0; i < st->source_count; i++) {
        const lk_sql_source *other = &g->sources[i];
        if (other->listing == source.listing && other->table == source.table &&
            lk_bytes_equal(other->ns, source.ns)) {
            *out = i;
            return LK_OK;
        }
    }
    if (st->source_count == sizeof g->sources / sizeof g->sources[0]) {
        return lk_fail(g->err, LK_E_TOO_MANY_TABLES, "listings");
    }
    st->lists = st->lists || source.listing != LK_LISTING_NONE;
    g->sources[st->source_count] = source;
    *out = st->source_count++;
    return LK_OK;
}

static lk_rc add_table(gate *g, lk_sql_table table, size_t *out)
{
    lk_sql_statement *st = g->statement;
    size_t            i = 0;
    while (i < st->table_count && !same_table(&g->tables[i], &table)) {
        i++;
    }
    if (i == LK_STATEMENT_TABLES_MAX) {
        return lk_fail(g->err, LK_E_TOO_MANY_TABLES, "more than %d", LK_STATEMENT_TABLES_MAX);
    }
    if (i == st->table_count) {
        table.table.ns = lk_arena_copy(&st->arena, table.table.ns);
        table.table.name = lk_arena_copy(&st->arena, table.table.name);
        table.incarnation = lk_arena_copy(&st->arena, table.incarnation);
        g->tables[st->table_count++] = table;
    }
    return add_source(g, (lk_sql_source){.table = i}, out);
}

/* -- time travel ----------------------------------------------------------------------------------- */

static bool read_version(lk_bytes text, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned digit = (unsigned)(text.data[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(value, 10U, &value) ||
            __builtin_add_overflow(value, digit, &value)) {
            return false;
        }
    }
    *out = value;
    return text.size > 0 && value > 0;
}

/* AT (VERSION => 5), or 'incarnation:5' where the text had REVISION. */
static lk_rc read_at(gate *g, const json_t *at, lk_sql_table *table)
{
    const json_t *literal = json_object_get(json_object_get(at, "expr"), "literal");
    lk_bytes      text = lk_bytes_of(lk_tree_text(literal, "text"));
    const char   *kind = lk_tree_text(literal, "kind");
    bool          good = strcmp(lk_tree_text(at, "unit"), "VERSION") == 0;
    if (good && strcmp(kind, "INTEGER") == 0) {
        table->when = LK_SQL_VERSION;
        good = read_version(text, &table->version);
    } else if (good && strcmp(kind, "STRING") == 0) {
        const char *colon = memchr(text.data, ':', text.size);
        table->when = LK_SQL_REVISION;
        good = colon != NULL && colon > text.data;
        if (good) {
            size_t before = (size_t)(colon - text.data);
            table->incarnation = (lk_bytes){text.data, before};
            good = read_version((lk_bytes){colon + 1, text.size - before - 1}, &table->version);
        }
    } else {
        good = false;
    }
    if (good) {
        return LK_OK;
    }
    lk_rc rc = lk_fail(g->err, LK_E_PLANNING, "time travel");
    (void)lk_detail(g->err, "time travel is AT (VERSION => n) or AT (REVISION => 'incarnation:n')");
    return rc;
}

/* -- FROM: first pass, names ----------------------------------------------------------------------- */

static bool has_name(const label *list, const char *text)
{
    while (list != NULL && !same_name(list->text, text)) {
        list = list->next;
    }
    return list != NULL;
}

static void add_name(gate *g, label **list, const char *text)
{
    label *n = lk_arena_take(&g->scratch, sizeof *n);
    n->text = lk_arena_text(&g->scratch, lk_bytes_of(text));
    n->next = *list;
    *list = n;
}

static bool is_cte(const scope *s, const char *text)
{
    while (s != NULL && !has_name(s->ctes, text)) {
        s = s->parent;
    }
    return s != NULL;
}

static lk_rc listing_source(gate *g, const char *name, size_t *out)
{
    static const struct {
        const char *name;
        lk_listing  listing;
    } rows[] = {
        {"schemata", LK_LISTING_SCHEMATA},
        {"tables", LK_LISTING_TABLES},
        {"columns", LK_LISTING_COLUMNS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (same_name(rows[i].name, name)) {
            return add_source(g, (lk_sql_source){.listing = rows[i].listing, .table = SIZE_MAX}, out);
        }
    }
    return deny(g);
}

/* Makes the node name source N, whatever it named before. */
static void rename_node(json_t *node, size_t source)
{
    char name[40];
    (void)snprintf(name, sizeof name, LK_SQL_SOURCE_PREFIX "%zu", source);
    (void)json_object_set_new(node, "table_name", json_string(name));
    (void)json_object_del(node, "schema_name");
    (void)json_object_del(node, "catalog_name");
    (void)json_object_del(node, "at_clause");
    (void)json_object_set_new(node, "qualified_name", json_pack("{s:[s]}", "path", name));
}

static lk_rc name_base(gate *g, json_t *node, scope *s)
{
    const char   *catalog = lk_tree_text(node, "catalog_name"), *ns = lk_tree_text(node, "schema_name");
    const char   *name = lk_tree_text(node, "table_name"), *alias = lk_tree_text(node, "alias");
    const json_t *at = json_object_get(node, "at_clause");
    g->named++;
    if (*catalog == '\0' && *ns == '\0' && at == NULL && is_cte(s, name)) {
        add_name(g, &s->shown, *alias != '\0' ? alias : name);
        return LK_OK;
    }
    if (*ns == '\0' || *name == '\0' || (*catalog != '\0' && !same_name(catalog, "lake"))) {
        return deny(g);
    }
    base *b = lk_arena_take(&g->scratch, sizeof *b);
    b->catalog = lk_arena_text(&g->scratch, lk_bytes_of(catalog));
    b->ns = lk_arena_text(&g->scratch, lk_bytes_of(ns));
    b->name = lk_arena_text(&g->scratch, lk_bytes_of(name));
    b->node = node;
    b->aliased = *alias != '\0';
    b->next = s->bases;
    s->bases = b;
    if (b->aliased) {
        add_name(g, &s->shown, alias);
    }

    size_t source = 0;
    lk_rc  rc = LK_OK;
    if (same_name(ns, "information_schema")) {
        rc = at == NULL ? listing_source(g, name, &source) : deny(g);
    } else {
        lk_sql_table table = {.table = {lk_bytes_of(b->ns), lk_bytes_of(b->name)}};
        rc = at == NULL ? LK_OK : read_at(g, at, &table);
        if (rc == LK_OK) {
            rc = add_table(g, table, &source);
        }
    }
    if (rc == LK_OK) {
        rename_node(node, source);
    }
    return rc;
}

static lk_rc name_bases(gate *g, json_t *from, scope *s)
{
    static const char *const inner[] = {"left", "right", "source"}; /* joins, pivots */
    if (from == NULL) {
        return LK_OK;
    }
    if (strcmp(lk_tree_text(from, "type"), "BASE_TABLE") == 0) {
        return name_base(g, from, s);
    }
    if (*lk_tree_text(from, "alias") != '\0') {
        add_name(g, &s->shown, lk_tree_text(from, "alias"));
    }
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < sizeof inner / sizeof inner[0]; i++) {
        json_t *child = json_object_get(from, inner[i]);
        if (json_is_object(child)) {
            rc = name_bases(g, child, s);
        }
    }
    return rc;
}

/* The alias of each unnamed item: its table's name; "ns.t" where two would share it, so that a bare `t.x` stays an
 * error as it is in SQL. */
static void give_aliases(gate *g, scope *s)
{
    for (base *b = s->bases; b != NULL; b = b->next) {
        bool shared = false;
        for (const base *other = s->bases; other != NULL; other = other->next) {
            shared = shared || (other != b && !other->aliased && same_name(other->name, b->name) &&
                                   !same_name(other->ns, b->ns));
        }
        if (!b->aliased) {
            lk_bytes alias =
                shared ? lk_arena_format(&g->scratch, "%s.%s", b->ns, b->name) : lk_bytes_of(b->name);
            (void)json_object_set_new(b->node, "alias", json_stringn(alias.data, alias.size));
        }
    }
}

/* -- expressions ----------------------------------------------------------------------------------- */

/* Which unaliased FROM item of this scope a path starts with; *skip parts of it are the item's own name. */
static const base *find_base(const scope *s, const json_t *names, size_t *skip)
{
    size_t      count = json_array_size(names);
    bool        full = count >= 4 && same_name(json_string_value(json_array_get(names, 0)), "lake");
    size_t      at = full ? 1 : 0;
    const base *b = s->bases;
    while (b != NULL && (b->aliased || !same_name(json_string_value(json_array_get(names, at)), b->ns) ||
                            !same_name(json_string_value(json_array_get(names, at + 1)), b->name))) {
        b = b->next;
    }
    *skip = at + 2;
    return b;
}

/* Whether something nearer is called like this, so that `alias.x` would mean that. */
static bool is_hidden(const scope *from, const scope *to, const base *item, const char *alias)
{
    bool hidden = false;
    for (const scope *s = from; !hidden; s = s->parent) {
        hidden = has_name(s->shown, alias);
        for (const base *b = s->bases; !hidden && b != NULL; b = b->next) {
            hidden = b != item && !b->aliased && same_name(lk_tree_text(b->node, "alias"), alias);
        }
        if (s == to) {
            break;
        }
    }
    return hidden;
}

/* `ns.t.x` and `lake.ns.t.x` become `alias.x` when an unaliased FROM item in scope is ns.t. */
static lk_rc shorten_column(gate *g, json_t *names, const scope *here)
{
    size_t       skip = 0;
    const base  *b = NULL;
    const scope *s = json_array_size(names) >= 3 ? here : NULL;
    while (s != NULL && (b = find_base(s, names, &skip)) == NULL) {
        s = s->parent;
    }
    if (b == NULL) {
        return LK_OK;
    }
    const char *alias = lk_tree_text(b->node, "alias");
    if (is_hidden(here, s, b, alias)) {
        lk_rc rc = lk_fail(g->err, LK_E_PLANNING, "hidden table");
        (void)lk_detail(g->err,
            "table \"%.60s\".\"%.60s\" is hidden by another one of that name; give them aliases", b->ns,
            b->name);
        return rc;
    }
    for (size_t i = 1; i < skip; i++) {
        (void)json_array_remove(names, 0);
    }
    (void)json_array_set(names, 0, json_object_get(b->node, "alias"));
    return LK_OK;
}

/* A size written as a small number; multiplied into the statement's product when it is not tiny. */
static bool is_small_literal(gate *g, const json_t *argument)
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
        (!read_version(text, &value) || value > LK_SQL_GROWTH_MAX)) {
        return false;
    }
    g->growth *= value > LK_SQL_GROWTH_SMALL ? value : 1;
    return g->growth <= LK_SQL_GROWTH_PRODUCT_MAX;
}

/* range(..) and its kind: every argument a small literal; repeat(x, n) and its kind: the second. By position only. */
static lk_rc check_growth(gate *g, const json_t *call, const char *name)
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

static lk_rc check_call(gate *g, const json_t *call, bool in_from)
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

static lk_rc check_expression(gate *g, json_t *e, scope *s)
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
        return shorten_column(g, json_object_get(e, "column_names"), s);
    }
    if (strcmp(class, "FUNCTION") == 0 || strcmp(class, "WINDOW") == 0) {
        return check_call(g, e, false);
    }
    return one_of(class, plain) ? LK_OK : refuse(g, "expression", class);
}

/* -- FROM: second pass, everything else in it -------------------------------------------------------- */

/* SHOW TABLES and its kind become a listing; DESCRIBE and SUMMARIZE keep their query. */
static lk_rc check_show(gate *g, json_t *ref)
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
    lk_rc  rc = add_source(g, source, &index);
    if (rc == LK_OK) {
        (void)json_object_clear(ref);
        (void)json_object_set_new(ref, "type", json_string("BASE_TABLE"));
        rename_node(ref, index);
        g->named++;
        g->seen++;
    }
    return rc;
}

static lk_rc check_from(gate *g, json_t *ref)
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

static lk_rc check_plain(gate *g, const char *type)
{
    static const char *const known[] = {"ORDER_DEFAULT", "ASCENDING", "DESCENDING", "LIMIT_MODIFIER",
        "ORDER_MODIFIER", "DISTINCT_MODIFIER", "LIMIT_PERCENT_MODIFIER", NULL};
    return *type == '\0' || one_of(type, known) || ends_with(type, "_TYPE_INFO")
               ? LK_OK
               : refuse(g, "construct", type);
}

static lk_rc walk_members(gate *g, json_t *object, scope *s, const char *const *skip)
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

static lk_rc walk_object(gate *g, json_t *object, scope *s)
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

static lk_rc walk(gate *g, json_t *value, scope *s)
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

static lk_rc walk_ctes(gate *g, json_t *map, scope *s)
{
    lk_rc   rc = LK_OK;
    size_t  i = 0;
    json_t *entry = NULL;
    json_array_foreach(json_object_get(map, "map"), i, entry)
    {
        if (rc == LK_OK) {
            rc = walk(g, json_object_get(entry, "value"), s);
            add_name(g, &s->ctes, lk_tree_text(entry, "key"));
        }
    }
    return rc;
}

static lk_rc walk_query(gate *g, json_t *node, const scope *parent)
{
    static const char *const skip[] = {"cte_map", NULL};
    static const char *const known[] = {
        "SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE", NULL};
    const char *type = lk_tree_text(node, "type");
    scope       s = {.parent = parent};
    if (ends_with(type, "_QUERY_NODE")) {
        return lk_fail(g->err, LK_E_DML, "%s", type); /* WITH x AS (INSERT ...) */
    }
    if (!one_of(type, known)) {
        return refuse(g, "query", type);
    }
    if (strcmp(type, "RECURSIVE_CTE_NODE") == 0) {
        add_name(g, &s.ctes, lk_tree_text(node, "cte_name"));
    }
    lk_rc rc = walk_ctes(g, json_object_get(node, "cte_map"), &s);
    if (strcmp(type, "CTE_NODE") == 0) {
        add_name(g, &s.ctes, lk_tree_text(node, "cte_name"));
    }
    if (rc == LK_OK) {
        rc = name_bases(g, json_object_get(node, "from_table"), &s);
    }
    if (rc == LK_OK) {
        give_aliases(g, &s);
        rc = walk_members(g, node, &s, skip);
    }
    return rc;
}

static void keep(gate *g)
{
    lk_sql_statement *st = g->statement;
    st->tables = lk_arena_take(&st->arena, (st->table_count + 1) * sizeof *st->tables);
    st->sources = lk_arena_take(&st->arena, (st->source_count + 1) * sizeof *st->sources);
    memcpy(st->tables, g->tables, st->table_count * sizeof *st->tables);
    memcpy(st->sources, g->sources, st->source_count * sizeof *st->sources);
}

lk_rc lk_gate_check(lk_sql_statement *statement, json_t *tree, lk_err *err)
{
    gate    g = {.statement = statement, .growth = 1, .err = err};
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
