/*
 * origin.c - where each output column comes from, as far as names alone can tell: a plain reference,
 * through any number of subqueries, CTEs and joins, to a column of a source. Names are resolved when the
 * tables are known (lk_origin_resolve); whatever is not understood has no origin, which costs a type name
 * and never a value.
 * Threads: stateless.
 */
#include "sql/origin_priv.h"

#include <stdlib.h>
#include <strings.h>

typedef struct names { /* the CTEs in sight */
    const char             *name;
    const lk_origin_select *select;
    const lk_bytes         *columns;
    size_t                  column_count;
    const struct names     *next;
} names;

static const lk_origin_select *select_of(lk_arena *arena, const json_t *node, const names *ctes);

static bool is(const json_t *object, const char *key, const char *text)
{
    return strcmp(lk_tree_text(object, key), text) == 0;
}

static lk_bytes copy(lk_arena *arena, const char *text)
{
    return lk_arena_copy(arena, lk_bytes_of(text));
}

const lk_bytes *lk_tree_texts(lk_arena *arena, const json_t *array, size_t *count)
{
    *count = json_array_size(array);
    lk_bytes *out = lk_arena_take(arena, (*count + 1) * sizeof *out);
    for (size_t i = 0; i < *count; i++) {
        const json_t *text = json_array_get(array, i);
        out[i] = lk_arena_copy(arena, (lk_bytes){json_string_value(text), json_string_length(text)});
    }
    return out;
}

/* -- building -------------------------------------------------------------------------------------- */

static const lk_origin_from *from_of(lk_arena *arena, const json_t *ref, const names *ctes);

static void join_of(lk_arena *arena, const json_t *ref, const names *ctes, lk_origin_from *out)
{
    const char *type = lk_tree_text(ref, "join_type");
    out->kind = LK_ORIGIN_JOIN;
    out->left = from_of(arena, json_object_get(ref, "left"), ctes);
    out->right = from_of(arena, json_object_get(ref, "right"), ctes);
    out->left_only = strcmp(type, "SEMI") == 0 || strcmp(type, "ANTI") == 0;
    bool positional = is(ref, "ref_type", "POSITIONAL"); /* the shorter side is filled up */
    out->right_null = positional || strcmp(type, "LEFT") == 0 || strcmp(type, "OUTER") == 0;
    out->left_null = positional || strcmp(type, "RIGHT") == 0 || strcmp(type, "OUTER") == 0;
    out->merged =
        is(ref, "ref_type", "NATURAL") || json_array_size(json_object_get(ref, "using_columns")) > 0;
    bool known =
        out->left_only || out->left_null || out->right_null || *type == '\0' || strcmp(type, "INNER") == 0;
    if (!known) {
        out->kind = LK_ORIGIN_OPAQUE;
    }
}

static const lk_origin_from *from_of(lk_arena *arena, const json_t *ref, const names *ctes)
{
    lk_origin_from *out = lk_arena_take(arena, sizeof *out);
    const char     *name = lk_tree_text(ref, "table_name");
    out->alias = copy(arena, lk_tree_text(ref, "alias"));
    out->columns = lk_tree_texts(arena, json_object_get(ref, "column_name_alias"), &out->column_count);
    out->kind = LK_ORIGIN_OPAQUE;
    if (is(ref, "type", "JOIN")) {
        join_of(arena, ref, ctes, out);
    } else if (is(ref, "type", "SUBQUERY")) {
        out->select = select_of(arena, json_object_get(json_object_get(ref, "subquery"), "node"), ctes);
        out->kind = out->select == NULL ? LK_ORIGIN_OPAQUE : LK_ORIGIN_SELECT;
    } else if (is(ref, "type", "BASE_TABLE") && lk_source_index(name, &out->source)) {
        out->kind = LK_ORIGIN_TABLE;
    } else if (is(ref, "type", "BASE_TABLE")) {
        for (const names *c = ctes; c != NULL; c = c->next) {
            if (strcasecmp(c->name, name) == 0) {
                out->select = c->select;
                out->kind = c->select == NULL ? LK_ORIGIN_OPAQUE : LK_ORIGIN_SELECT;
                if (out->column_count == 0) {
                    out->columns = c->columns;
                    out->column_count = c->column_count;
                }
                break;
            }
        }
        out->alias = out->alias.size == 0 ? copy(arena, name) : out->alias;
    }
    return out;
}

/* A star whose columns are the sources' own, but for names left out. */
static bool is_plain_star(const json_t *e)
{
    static const char *const others[] = {"replace_list", "qualified_exclude_list", "rename_list", "expr"};
    bool                     plain = !json_is_true(json_object_get(e, "columns"));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const json_t *other = json_object_get(e, others[i]);
        plain = plain && !json_is_object(other) && json_array_size(other) == 0;
    }
    return plain;
}

static void item_of(lk_arena *arena, const json_t *e, lk_origin_item *out)
{
    const json_t *path = json_object_get(e, "column_names");
    size_t        count = json_array_size(path);
    out->kind = LK_ORIGIN_OTHER;
    out->alias = copy(arena, lk_tree_text(e, "alias"));
    if (is(e, "class", "COLUMN_REF") && (count == 1 || count == 2)) {
        out->kind = LK_ORIGIN_COLUMN;
        out->qualifier = count == 2 ? copy(arena, json_string_value(json_array_get(path, 0))) : (lk_bytes){0};
        out->column = copy(arena, json_string_value(json_array_get(path, count - 1)));
    } else if (is(e, "class", "STAR")) {
        out->kind = is_plain_star(e) ? LK_ORIGIN_STAR : LK_ORIGIN_STARS;
        out->qualifier = copy(arena, lk_tree_text(e, "relation_name"));
        out->excluded = lk_tree_texts(arena, json_object_get(e, "exclude_list"), &out->excluded_count);
    }
}

static const names *ctes_of(lk_arena *arena, const json_t *node, const names *ctes)
{
    const json_t *map = json_object_get(json_object_get(node, "cte_map"), "map");
    for (size_t i = 0; i < json_array_size(map); i++) {
        const json_t *entry = json_array_get(map, i), *value = json_object_get(entry, "value");
        names        *next = lk_arena_take(arena, sizeof *next);
        next->name = lk_arena_text(arena, lk_bytes_of(lk_tree_text(entry, "key")));
        next->select = select_of(arena, json_object_get(value, "query_node"), ctes);
        next->columns = lk_tree_texts(arena, json_object_get(value, "aliases"), &next->column_count);
        next->next = ctes;
        ctes = next;
    }
    return ctes;
}

static const lk_origin_select *select_of(lk_arena *arena, const json_t *node, const names *ctes)
{
    if (!is(node, "type", "SELECT_NODE")) {
        return NULL; /* set operations unify types: no plain references */
    }
    ctes = ctes_of(arena, node, ctes);
    const json_t     *list = json_object_get(node, "select_list");
    lk_origin_select *out = lk_arena_take(arena, sizeof *out);
    out->item_count = json_array_size(list);
    lk_origin_item *items = lk_arena_take(arena, (out->item_count + 1) * sizeof *items);
    for (size_t i = 0; i < out->item_count; i++) {
        item_of(arena, json_array_get(list, i), &items[i]);
    }
    out->items = items;
    out->from = from_of(arena, json_object_get(node, "from_table"), ctes);
    out->nullable = json_array_size(json_object_get(node, "group_sets")) > 1;
    return out;
}

const lk_origin_select *lk_origin_of(lk_arena *arena, const json_t *node)
{
    return select_of(arena, node, NULL);
}

/* -- resolving ------------------------------------------------------------------------------------- */

typedef struct resolver {
    lk_arena                        *arena;
    const struct ArrowSchema *const *schemas; /* by source */
    size_t                           steps;   /* subqueries looked into; CTEs of CTEs multiply them */
} resolver;

enum { STEPS_MAX = 10000, COLUMNS_MAX = 100000 };

static bool expand(resolver *r, const lk_origin_from *from, lk_origin_columns *out);
static bool resolve_select(resolver *r, const lk_origin_select *select, lk_origin_columns *out);

static void push(resolver *r, lk_origin_columns *out, lk_origin_column column)
{
    if ((out->count & (out->count - 1)) == 0) { /* grows at powers of two */
        size_t            room = out->count == 0 ? 1 : out->count * 2;
        lk_origin_column *grown = lk_arena_take(r->arena, room * sizeof *grown);
        if (out->count > 0) {
            memcpy(grown, out->items, out->count * sizeof *grown);
        }
        out->items = grown;
    }
    out->items[out->count++] = column;
}

bool lk_same_name(lk_bytes a, lk_bytes b)
{
    return a.size == b.size && (a.size == 0 || strncasecmp(a.data, b.data, a.size) == 0);
}

/* One FROM item's columns under the names it shows. */
static bool expand_leaf(resolver *r, const lk_origin_from *from, lk_origin_columns *out)
{
    size_t start = out->count;
    if (++r->steps > STEPS_MAX || start > COLUMNS_MAX) {
        return false;
    }
    if (from->kind == LK_ORIGIN_TABLE) {
        const struct ArrowSchema *schema = r->schemas[from->source];
        for (int64_t i = 0; i < schema->n_children; i++) {
            push(r, out,
                (lk_origin_column){.known = true,
                    .source = from->source,
                    .column = (size_t)i,
                    .name = lk_bytes_of(schema->children[i]->name),
                    .nullable = (schema->children[i]->flags & ARROW_FLAG_NULLABLE) != 0});
        }
    } else if (from->kind != LK_ORIGIN_SELECT || !resolve_select(r, from->select, out)) {
        return false;
    }
    for (size_t i = 0; i < from->column_count && start + i < out->count; i++) {
        out->items[start + i].name = from->columns[i];
    }
    for (size_t i = start; i < out->count; i++) {
        out->items[i].qualifier = from->alias;
    }
    return true;
}

static bool expand(resolver *r, const lk_origin_from *from, lk_origin_columns *out)
{
    if (from->kind != LK_ORIGIN_JOIN) {
        return expand_leaf(r, from, out);
    }
    size_t start = out->count;
    if (!expand(r, from->left, out)) {
        return false;
    }
    size_t middle = out->count;
    if (!from->left_only && !expand(r, from->right, out)) {
        return false;
    }
    for (size_t i = start; i < out->count; i++) {
        bool left = i < middle;
        out->items[i].nullable = out->items[i].nullable || (left ? from->left_null : from->right_null);
    }
    out->merged = out->merged || from->merged;
    return true;
}

/* The one column a reference can mean; two candidates mean none (USING merges them, elsewhere it is an
 * error). */
static lk_origin_column find(const lk_origin_columns *all, const lk_origin_item *item)
{
    lk_origin_column found = {.nullable = true};
    size_t           count = 0;
    for (size_t i = 0; i < all->count; i++) {
        const lk_origin_column *c = &all->items[i];
        if (lk_same_name(c->name, item->column) &&
            (item->qualifier.size == 0 || lk_same_name(c->qualifier, item->qualifier)) && count++ == 0) {
            found = *c;
        }
    }
    if (count != 1) {
        found = (lk_origin_column){.nullable = true};
    }
    return found;
}

static void push_star(
    resolver *r, const lk_origin_columns *all, const lk_origin_item *item, lk_origin_columns *out)
{
    for (size_t i = 0; i < all->count; i++) {
        const lk_origin_column *column = &all->items[i];
        bool kept = item->qualifier.size == 0 || lk_same_name(column->qualifier, item->qualifier);
        for (size_t k = 0; kept && k < item->excluded_count; k++) {
            kept = !lk_same_name(column->name, item->excluded[k]);
        }
        if (kept) {
            push(r, out, *column);
        }
    }
}

static bool resolve_select(resolver *r, const lk_origin_select *select, lk_origin_columns *out)
{
    lk_origin_columns all = {0};
    bool              known = expand(r, select->from, &all);
    size_t            start = out->count;
    for (size_t i = 0; i < select->item_count; i++) {
        const lk_origin_item *item = &select->items[i];
        lk_origin_column      column = {.nullable = true};
        if (item->kind == LK_ORIGIN_STARS || (item->kind == LK_ORIGIN_STAR && (!known || all.merged))) {
            return false;
        }
        if (item->kind == LK_ORIGIN_STAR) {
            push_star(r, &all, item, out);
            continue;
        }
        if (known && item->kind == LK_ORIGIN_COLUMN) {
            column = find(&all, item);
        }
        column.name = item->alias.size > 0 ? item->alias : item->column;
        push(r, out, column);
    }
    for (size_t i = start; i < out->count; i++) {
        out->items[i].nullable = out->items[i].nullable || select->nullable;
    }
    return true;
}

bool lk_origin_resolve(const lk_origin_select *select, const struct ArrowSchema *const *schemas,
    lk_arena *arena, lk_origin_columns *out)
{
    resolver r = {.arena = arena, .schemas = schemas};
    *out = (lk_origin_columns){0};
    return select != NULL && resolve_select(&r, select, out);
}
