/*
 * shape.c - recognises, on a checked tree, the statements of the straight path: one table, plain columns or
 * count(*), filters of lk_predicate's kinds over literals, LIMIT n. Column types decide later (straight.c).
 * Whatever is not listed here makes the statement not straight. Threads: stateless.
 */
#include "sql/statement_priv.h"

#include <stdlib.h>
#include <strings.h>

static const lk_filter *filter_of(lk_arena *arena, const json_t *e, const char *alias);

static bool is(const json_t *object, const char *key, const char *text)
{
    return strcmp(lk_tree_text(object, key), text) == 0;
}

static bool absent(const json_t *object, const char *key)
{
    const json_t *member = json_object_get(object, key);
    return member == NULL || json_is_null(member) || json_is_false(member) ||
           (json_is_array(member) && json_array_size(member) == 0) ||
           (json_is_string(member) && json_string_length(member) == 0);
}

static bool all_absent(const json_t *object, const char *const *keys)
{
    for (size_t i = 0; keys[i] != NULL; i++) {
        if (!absent(object, keys[i])) {
            return false;
        }
    }
    return true;
}

static lk_bytes text_of(lk_arena *arena, const json_t *text)
{
    return lk_arena_copy(arena, (lk_bytes){json_string_value(text), json_string_length(text)});
}

/* `x` or `alias.x`; the other forms (struct fields, outer queries) are not plain. */
static bool column_of(lk_arena *arena, const json_t *e, const char *alias, lk_bytes *out)
{
    const json_t *names = json_object_get(e, "column_names");
    size_t        count = json_array_size(names);
    if (!is(e, "class", "COLUMN_REF") || count == 0 || count > 2 ||
        (count == 2 && strcasecmp(json_string_value(json_array_get(names, 0)), alias) != 0)) {
        return false;
    }
    *out = text_of(arena, json_array_get(names, count - 1));
    return true;
}

static bool literal_of(lk_arena *arena, const json_t *e, lk_literal *out)
{
    const json_t *literal = json_object_get(e, "literal");
    if (!is(e, "class", "CONSTANT") || literal == NULL) {
        return false;
    }
    const json_t *text = json_object_get(literal, "text");
    out->text = text == NULL ? (lk_bytes){"", 0} : text_of(arena, text);
    if (is(literal, "kind", "INTEGER")) {
        out->kind = LK_LITERAL_INTEGER;
    } else if (is(literal, "kind", "NUMERIC")) {
        out->kind = LK_LITERAL_NUMERIC;
    } else if (is(literal, "kind", "STRING")) {
        out->kind = LK_LITERAL_STRING;
    } else if (is(literal, "kind", "BOOLEAN")) {
        out->kind = LK_LITERAL_BOOLEAN;
    } else {
        return false;
    }
    return true;
}

/* -- filters --------------------------------------------------------------------------------------- */

static lk_filter *new_filter(lk_arena *arena, lk_predicate_kind kind)
{
    lk_filter *filter = lk_arena_take(arena, sizeof *filter);
    filter->kind = kind;
    return filter;
}

static lk_filter *with_children(
    lk_arena *arena, lk_predicate_kind kind, const lk_filter *a, const lk_filter *b)
{
    lk_filter *filter = new_filter(arena, kind);
    filter->children = lk_arena_take(arena, 2 * sizeof *filter->children);
    filter->children[0] = a;
    filter->children[1] = b;
    filter->child_count = b == NULL ? 1 : 2;
    return filter;
}

static lk_filter *compare(lk_arena *arena, lk_bytes column, lk_compare op, lk_literal literal)
{
    lk_filter  *filter = new_filter(arena, LK_PREDICATE_COMPARE);
    lk_literal *copy = lk_arena_take(arena, sizeof *copy);
    *copy = literal;
    filter->column = column;
    filter->compare = op;
    filter->literals = copy;
    filter->literal_count = 1;
    return filter;
}

static const lk_filter *comparison(lk_arena *arena, const json_t *e, const char *alias)
{
    static const struct {
        const char *type;
        lk_compare  op, mirrored;
    } rows[] = {
        {"COMPARE_EQUAL", LK_EQ, LK_EQ},
        {"COMPARE_NOTEQUAL", LK_NE, LK_NE},
        {"COMPARE_LESSTHAN", LK_LT, LK_GT},
        {"COMPARE_GREATERTHAN", LK_GT, LK_LT},
        {"COMPARE_LESSTHANOREQUALTO", LK_LE, LK_GE},
        {"COMPARE_GREATERTHANOREQUALTO", LK_GE, LK_LE},
    };
    const json_t *left = json_object_get(e, "left"), *right = json_object_get(e, "right");
    lk_bytes      column = {0};
    lk_literal    literal = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!is(e, "type", rows[i].type)) {
            continue;
        }
        if (column_of(arena, left, alias, &column) && literal_of(arena, right, &literal)) {
            return compare(arena, column, rows[i].op, literal);
        }
        if (column_of(arena, right, alias, &column) && literal_of(arena, left, &literal)) {
            return compare(arena, column, rows[i].mirrored, literal);
        }
    }
    return NULL;
}

static const lk_filter *between(lk_arena *arena, const json_t *e, const char *alias)
{
    lk_bytes   column = {0};
    lk_literal lower = {0}, upper = {0};
    if (!column_of(arena, json_object_get(e, "input"), alias, &column) ||
        !literal_of(arena, json_object_get(e, "lower"), &lower) ||
        !literal_of(arena, json_object_get(e, "upper"), &upper) || lower.kind != upper.kind) {
        return NULL;
    }
    return with_children(
        arena, LK_PREDICATE_AND, compare(arena, column, LK_GE, lower), compare(arena, column, LK_LE, upper));
}

static const lk_filter *in_list(lk_arena *arena, const json_t *e, const char *alias)
{
    const json_t *children = json_object_get(e, "children");
    size_t        count = json_array_size(children);
    lk_filter    *filter = new_filter(arena, LK_PREDICATE_IN);
    if (count < 2 || !column_of(arena, json_array_get(children, 0), alias, &filter->column)) {
        return NULL;
    }
    lk_literal *literals = lk_arena_take(arena, (count - 1) * sizeof *literals);
    for (size_t i = 1; i < count; i++) {
        if (!literal_of(arena, json_array_get(children, i), &literals[i - 1]) ||
            literals[i - 1].kind != literals[0].kind) {
            return NULL;
        }
    }
    filter->literals = literals;
    filter->literal_count = count - 1;
    return filter;
}

static const lk_filter *operator_of(lk_arena *arena, const json_t *e, const char *alias)
{
    const json_t *children = json_object_get(e, "children"), *first = json_array_get(children, 0);
    if (is(e, "type", "COMPARE_IN")) {
        return in_list(arena, e, alias);
    }
    if (is(e, "type", "COMPARE_NOT_IN")) {
        const lk_filter *in = in_list(arena, e, alias);
        return in == NULL ? NULL : with_children(arena, LK_PREDICATE_NOT, in, NULL);
    }
    if (is(e, "type", "OPERATOR_NOT")) {
        const lk_filter *inner = filter_of(arena, first, alias);
        return inner == NULL ? NULL : with_children(arena, LK_PREDICATE_NOT, inner, NULL);
    }
    bool       is_null = is(e, "type", "OPERATOR_IS_NULL");
    lk_filter *filter = new_filter(arena, is_null ? LK_PREDICATE_IS_NULL : LK_PREDICATE_IS_NOT_NULL);
    bool       known = is_null || is(e, "type", "OPERATOR_IS_NOT_NULL");
    return known && column_of(arena, first, alias, &filter->column) ? filter : NULL;
}

/* x LIKE 'abc%': a pattern without wildcards but one % at its end. */
static const lk_filter *like(lk_arena *arena, const json_t *e, const char *alias)
{
    static const char *const others[] = {"filter", "distinct", "schema", "catalog", NULL};
    const json_t            *arguments = json_object_get(e, "arguments");
    bool                     negated = is(e, "function_name", "!~~");
    lk_filter               *filter = new_filter(arena, LK_PREDICATE_PREFIX);
    lk_literal              *literal = lk_arena_take(arena, sizeof *literal);
    if ((!negated && !is(e, "function_name", "~~")) || json_array_size(arguments) != 2 ||
        !all_absent(e, others) ||
        !column_of(
            arena, json_object_get(json_array_get(arguments, 0), "expression"), alias, &filter->column) ||
        !literal_of(arena, json_object_get(json_array_get(arguments, 1), "expression"), literal) ||
        literal->kind != LK_LITERAL_STRING || literal->text.size == 0 ||
        literal->text.data[literal->text.size - 1] != '%') {
        return NULL;
    }
    literal->text.size--;
    if (memchr(literal->text.data, '%', literal->text.size) != NULL ||
        memchr(literal->text.data, '_', literal->text.size) != NULL) {
        return NULL;
    }
    filter->literals = literal;
    filter->literal_count = 1;
    return negated ? with_children(arena, LK_PREDICATE_NOT, filter, NULL) : filter;
}

static const lk_filter *conjunction(lk_arena *arena, const json_t *e, const char *alias)
{
    const json_t *children = json_object_get(e, "children");
    bool          both = is(e, "type", "CONJUNCTION_AND");
    lk_filter    *filter = new_filter(arena, both ? LK_PREDICATE_AND : LK_PREDICATE_OR);
    filter->child_count = json_array_size(children);
    filter->children = lk_arena_take(arena, (filter->child_count + 1) * sizeof *filter->children);
    for (size_t i = 0; i < filter->child_count; i++) {
        filter->children[i] = filter_of(arena, json_array_get(children, i), alias);
        if (filter->children[i] == NULL) {
            return NULL;
        }
    }
    return (both || is(e, "type", "CONJUNCTION_OR")) && filter->child_count > 0 ? filter : NULL;
}

static const lk_filter *filter_of(lk_arena *arena, const json_t *e, const char *alias)
{
    const char *class = lk_tree_text(e, "class");
    lk_bytes column = {0};
    if (strcmp(class, "COMPARISON") == 0) {
        return comparison(arena, e, alias);
    }
    if (strcmp(class, "CONJUNCTION") == 0) {
        return conjunction(arena, e, alias);
    }
    if (strcmp(class, "BETWEEN") == 0) {
        return between(arena, e, alias);
    }
    if (strcmp(class, "OPERATOR") == 0) {
        return operator_of(arena, e, alias);
    }
    if (strcmp(class, "FUNCTION") == 0) {
        return like(arena, e, alias);
    }
    if (column_of(arena, e, alias, &column)) { /* WHERE flag */
        return compare(arena, column, LK_EQ, (lk_literal){LK_LITERAL_BOOLEAN, LK_LITERAL("true")});
    }
    return NULL;
}

/* -- the rest of the statement --------------------------------------------------------------------- */

static bool read_limit(const json_t *modifiers, uint64_t *out)
{
    const json_t *modifier = json_array_get(modifiers, 0), *limit = json_object_get(modifier, "limit");
    *out = UINT64_MAX;
    if (modifier == NULL) {
        return true;
    }
    const json_t *literal = json_object_get(limit, "literal");
    const char   *text = lk_tree_text(literal, "text");
    char         *end = NULL;
    if (json_array_size(modifiers) != 1 || !is(modifier, "type", "LIMIT_MODIFIER") ||
        !absent(modifier, "offset") || is(modifier, "limit_type", "PERCENTAGE") ||
        !is(literal, "kind", "INTEGER") || strlen(text) > 18 || *text == '-') {
        return false;
    }
    *out = strtoull(text, &end, 10);
    return *end == '\0' && end != text;
}

static bool is_count_star(const json_t *e)
{
    static const char *const others[] = {"filter", "distinct", "arguments", "schema", "catalog", NULL};
    return is(e, "class", "FUNCTION") && is(e, "function_name", "count_star") && all_absent(e, others) &&
           absent(json_object_get(e, "order_bys"), "orders");
}

static bool read_items(lk_arena *arena, const json_t *list, const char *alias, lk_shape *shape)
{
    static const char *const others[] = {
        "replace_list", "qualified_exclude_list", "rename_list", "columns", "expr", NULL};
    size_t         count = json_array_size(list);
    lk_shape_item *items = lk_arena_take(arena, (count + 1) * sizeof *items);
    const json_t  *only = json_array_get(list, 0);
    if (count == 1 && is_count_star(only)) {
        const char *name = lk_tree_text(only, "alias");
        shape->count = true;
        shape->count_name = lk_arena_copy(arena, lk_bytes_of(*name == '\0' ? "count_star()" : name));
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *e = json_array_get(list, i);
        items[i].alias = lk_arena_copy(arena, lk_bytes_of(lk_tree_text(e, "alias")));
        if (is(e, "class", "STAR")) {
            const char *relation = lk_tree_text(e, "relation_name");
            items[i].star = true;
            items[i].excluded =
                lk_tree_texts(arena, json_object_get(e, "exclude_list"), &items[i].excluded_count);
            if (!all_absent(e, others) || (*relation != '\0' && strcasecmp(relation, alias) != 0)) {
                return false;
            }
        } else if (!column_of(arena, e, alias, &items[i].column)) {
            return false;
        }
    }
    shape->items = items;
    shape->item_count = count;
    return count > 0;
}

/* One table, and what is shown of it. */
bool lk_shape_columns(lk_arena *arena, const json_t *node, lk_shape *shape)
{
    static const char *const others[] = {
        "group_expressions", "group_sets", "having", "sample", "qualify", NULL};
    const json_t *from = json_object_get(node, "from_table");
    const char   *alias = lk_tree_text(from, "alias"), *handling = lk_tree_text(node, "aggregate_handling");
    return is(node, "type", "SELECT_NODE") && all_absent(node, others) &&
           absent(json_object_get(node, "cte_map"), "map") &&
           (*handling == '\0' || strcmp(handling, "STANDARD_HANDLING") == 0) &&
           is(from, "type", "BASE_TABLE") && absent(from, "sample") && absent(from, "column_name_alias") &&
           lk_source_index(lk_tree_text(from, "table_name"), &shape->source) &&
           read_items(arena, json_object_get(node, "select_list"), alias, shape);
}

const lk_shape *lk_shape_of(lk_arena *arena, const json_t *node)
{
    const json_t *where = json_object_get(node, "where_clause");
    const char   *alias = lk_tree_text(json_object_get(node, "from_table"), "alias");
    lk_shape     *shape = lk_arena_take(arena, sizeof *shape);
    if (!lk_shape_columns(arena, node, shape) ||
        !read_limit(json_object_get(node, "modifiers"), &shape->limit)) {
        return NULL;
    }
    if (where != NULL && !json_is_null(where)) {
        shape->filter = filter_of(arena, where, alias);
        if (shape->filter == NULL) {
            return NULL;
        }
    }
    return shape;
}
