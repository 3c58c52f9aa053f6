/*
 * gate_names.c - tables and columns by name: which source a table is, under which alias, and what a column
 * reference that spells the table out becomes. See gate_priv.h.
 *
 * Rules:
 *   1. A BASE_TABLE is a CTE in scope, a table ns.t or lake.ns.t, or a listing of information_schema;
 *      nothing else.
 *   2. A FROM item without an alias gets one, so that `t.x` and `ns.t.x` still find it, and never another
 *      table.
 * Threads: confined.
 */
#include "sql/gate_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static lk_rc deny(lk_gate *g)
{
    return lk_fail(g->err, LK_E_DENIED, "name outside the caller's catalogs");
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

lk_rc lk_gate_add_source(lk_gate *g, lk_sql_source source, size_t *out)
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

static lk_rc add_table(lk_gate *g, lk_sql_table table, size_t *out)
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
    return lk_gate_add_source(g, (lk_sql_source){.table = i}, out);
}

/* -- time travel ----------------------------------------------------------------------------------- */

bool lk_gate_read_number(lk_bytes text, uint64_t *out)
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
static lk_rc read_at(lk_gate *g, const json_t *at, lk_sql_table *table)
{
    const json_t *literal = json_object_get(json_object_get(at, "expr"), "literal");
    lk_bytes      text = lk_bytes_of(lk_tree_text(literal, "text"));
    const char   *kind = lk_tree_text(literal, "kind");
    bool          good = strcmp(lk_tree_text(at, "unit"), "VERSION") == 0;
    if (good && strcmp(kind, "INTEGER") == 0) {
        table->when = LK_SQL_VERSION;
        good = lk_gate_read_number(text, &table->version);
    } else if (good && strcmp(kind, "STRING") == 0) {
        const char *colon = memchr(text.data, ':', text.size);
        table->when = LK_SQL_REVISION;
        good = colon != NULL && colon > text.data;
        if (good) {
            size_t before = (size_t)(colon - text.data);
            table->incarnation = (lk_bytes){text.data, before};
            good = lk_gate_read_number((lk_bytes){colon + 1, text.size - before - 1}, &table->version);
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

static bool has_name(const lk_gate_label *list, const char *text)
{
    while (list != NULL && !same_name(list->text, text)) {
        list = list->next;
    }
    return list != NULL;
}

static void add_name(lk_gate *g, lk_gate_label **list, const char *text)
{
    lk_gate_label *n = lk_arena_take(&g->scratch, sizeof *n);
    n->text = lk_arena_text(&g->scratch, lk_bytes_of(text));
    n->next = *list;
    *list = n;
}

static bool is_cte(const lk_gate_scope *s, const char *text)
{
    while (s != NULL && !has_name(s->ctes, text)) {
        s = s->parent;
    }
    return s != NULL;
}

static lk_rc listing_source(lk_gate *g, const char *name, size_t *out)
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
            return lk_gate_add_source(g, (lk_sql_source){.listing = rows[i].listing, .table = SIZE_MAX}, out);
        }
    }
    return deny(g);
}

/* Makes the node name source N, whatever it named before. */
void lk_gate_rename(json_t *node, size_t source)
{
    char name[40];
    (void)snprintf(name, sizeof name, LK_SQL_SOURCE_PREFIX "%zu", source);
    (void)json_object_set_new(node, "table_name", json_string(name));
    (void)json_object_del(node, "schema_name");
    (void)json_object_del(node, "catalog_name");
    (void)json_object_del(node, "at_clause");
    (void)json_object_set_new(node, "qualified_name", json_pack("{s:[s]}", "path", name));
}

static lk_rc name_base(lk_gate *g, json_t *node, lk_gate_scope *s)
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
    lk_gate_base *b = lk_arena_take(&g->scratch, sizeof *b);
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
        lk_gate_rename(node, source);
    }
    return rc;
}

lk_rc lk_gate_name_from(lk_gate *g, json_t *from, lk_gate_scope *s)
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
            rc = lk_gate_name_from(g, child, s);
        }
    }
    return rc;
}

/* The alias of each unnamed item: its table's name; "ns.t" where two would share it, so that a bare `t.x`
 * stays an error as it is in SQL. */
void lk_gate_give_aliases(lk_gate *g, lk_gate_scope *s)
{
    for (lk_gate_base *b = s->bases; b != NULL; b = b->next) {
        bool shared = false;
        for (const lk_gate_base *other = s->bases; other != NULL; other = other->next) {
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

/* -- columns --------------------------------------------------------------------------------------- */

/* Which unaliased FROM item of this scope a path starts with; *skip parts of it are the item's own name. */
static const lk_gate_base *find_base(const lk_gate_scope *s, const json_t *names, size_t *skip)
{
    size_t              count = json_array_size(names);
    bool                full = count >= 4 && same_name(json_string_value(json_array_get(names, 0)), "lake");
    size_t              at = full ? 1 : 0;
    const lk_gate_base *b = s->bases;
    while (b != NULL && (b->aliased || !same_name(json_string_value(json_array_get(names, at)), b->ns) ||
                            !same_name(json_string_value(json_array_get(names, at + 1)), b->name))) {
        b = b->next;
    }
    *skip = at + 2;
    return b;
}

/* Whether something nearer is called like this, so that `alias.x` would mean that. */
static bool is_hidden(
    const lk_gate_scope *from, const lk_gate_scope *to, const lk_gate_base *item, const char *alias)
{
    bool hidden = false;
    for (const lk_gate_scope *s = from; !hidden; s = s->parent) {
        hidden = has_name(s->shown, alias);
        for (const lk_gate_base *b = s->bases; !hidden && b != NULL; b = b->next) {
            hidden = b != item && !b->aliased && same_name(lk_tree_text(b->node, "alias"), alias);
        }
        if (s == to) {
            break;
        }
    }
    return hidden;
}

/* `ns.t.x` and `lake.ns.t.x` become `alias.x` when an unaliased FROM item in scope is ns.t. */
lk_rc lk_gate_shorten_column(lk_gate *g, json_t *names, const lk_gate_scope *here)
{
    size_t               skip = 0;
    const lk_gate_base  *b = NULL;
    const lk_gate_scope *s = json_array_size(names) >= 3 ? here : NULL;
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
void lk_gate_add_cte(lk_gate *g, lk_gate_scope *s, const char *name)
{
    add_name(g, &s->ctes, name);
}
