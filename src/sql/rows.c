/*
 * rows.c - what a statement may know of rows besides their columns, on a checked tree:
 *
 *   _rowid, _rowaddr   columns of every table of a statement that names one of them; a star does not show them
 *   top                ORDER BY plain columns LIMIT n of one table, of which plain columns are shown: which rows win
 *                      is asked first, by a narrow statement, and only theirs are fetched
 *
 * Threads: stateless.
 */
#include "sql/rows_priv.h"

#include <stdlib.h>
#include <strings.h>

static const char *const row_columns[] = {"_rowid", "_rowaddr"};
enum { ROW_COLUMNS = sizeof row_columns / sizeof row_columns[0] };

static bool is(const json_t *object, const char *key, const char *text)
{
    return strcmp(lk_tree_text(object, key), text) == 0;
}

/* -- row columns --------------------------------------------------------------------------------------- */
static bool names_row_column(const json_t *names)
{
    bool found = false;
    for (size_t i = 0; i < json_array_size(names); i++) {
        for (size_t j = 0; j < ROW_COLUMNS; j++) {
            found = found || strcasecmp(json_string_value(json_array_get(names, i)), row_columns[j]) == 0;
        }
    }
    return found;
}

static bool mentions(const json_t *value)
{
    bool        found = false;
    const char *key = NULL;
    json_t     *member = NULL;
    if (json_is_array(value)) {
        for (size_t i = 0; !found && i < json_array_size(value); i++) {
            found = mentions(json_array_get(value, i));
        }
        return found;
    }
    found = is(value, "class", "COLUMN_REF") && names_row_column(json_object_get(value, "column_names"));
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        found = found || ((json_is_object(member) || json_is_array(member)) && mentions(member));
    }
    return found;
}

/* Whether a FROM clause shows a table of ours by itself, called `alias` ("": any). */
static bool shows_table(const lk_sql_statement *statement, const json_t *from, const char *alias)
{
    size_t source = 0;
    if (is(from, "type", "JOIN")) {
        return shows_table(statement, json_object_get(from, "left"), alias) ||
               shows_table(statement, json_object_get(from, "right"), alias);
    }
    return is(from, "type", "BASE_TABLE") && lk_source_index(lk_tree_text(from, "table_name"), &source) &&
           statement->sources[source].listing == LK_LISTING_NONE &&
           (*alias == '\0' || strcasecmp(lk_tree_text(from, "alias"), alias) == 0);
}

static bool lists_name(const json_t *list, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        found = found || (text != NULL && strcasecmp(text, name) == 0);
    }
    return found;
}

static void exclude(json_t *star)
{
    json_t *list = json_object_get(star, "exclude_list");
    if (!json_is_array(list)) {
        (void)json_object_set_new(star, "exclude_list", json_array());
        list = json_object_get(star, "exclude_list");
    }
    for (size_t i = 0; i < ROW_COLUMNS; i++) {
        if (!lists_name(list, row_columns[i])) {
            (void)json_array_append_new(list, json_string(row_columns[i]));
        }
    }
}

/* Leaves the row columns out of every star; `from` is the clause that a star here speaks of. */
static void hide(const lk_sql_statement *statement, json_t *value, const json_t *from)
{
    const char *key = NULL;
    json_t     *member = NULL;
    size_t      i = 0;
    if (json_is_array(value)) {
        json_array_foreach(value, i, member)
        {
            hide(statement, member, from);
        }
        return;
    }
    if (is(value, "type", "SELECT_NODE")) {
        from = json_object_get(value, "from_table");
    }
    if (is(value, "class", "STAR") && from != NULL &&
        shows_table(statement, from, lk_tree_text(value, "relation_name"))) {
        exclude(value);
    }
    json_object_foreach(value, key, member)
    {
        if (json_is_object(member) || json_is_array(member)) {
            hide(statement, member, from);
        }
    }
}

void lk_rows_mark(lk_sql_statement *statement, json_t *node)
{
    statement->row_columns = mentions(node);
    if (statement->row_columns) {
        hide(statement, node, NULL);
    }
}

size_t lk_row_column_count(void)
{
    return ROW_COLUMNS;
}

const char *lk_row_column_name(size_t index)
{
    return row_columns[index];
}

/* -- top ------------------------------------------------------------------------------------------------ */
static bool read_count(const json_t *e, uint64_t *out)
{
    const json_t *literal = json_object_get(e, "literal");
    const char   *text = lk_tree_text(literal, "text");
    char         *end = NULL;
    if (!is(literal, "kind", "INTEGER") || strlen(text) > 9 || *text == '-') {
        return false;
    }
    *out = strtoull(text, &end, 10);
    return *end == '\0' && end != text;
}

/* Every key is a plain column of the table, not the new name of another one. */
static bool plain_keys(const json_t *orders, const lk_shape *shape, const char *alias)
{
    bool plain = json_array_size(orders) > 0;
    for (size_t i = 0; plain && i < json_array_size(orders); i++) {
        const json_t *e = json_object_get(json_array_get(orders, i), "expression");
        const json_t *names = json_object_get(e, "column_names");
        size_t        count = json_array_size(names);
        const char   *last = json_string_value(json_array_get(names, count - 1));
        plain = is(e, "class", "COLUMN_REF") && (count == 1 || count == 2) &&
                (count == 1 || strcasecmp(json_string_value(json_array_get(names, 0)), alias) == 0);
        for (size_t item = 0; plain && item < shape->item_count; item++) {
            const lk_bytes *given = &shape->items[item].alias;
            plain = given->size == 0 || !lk_same_name(*given, lk_bytes_of(last));
        }
    }
    return plain;
}

/* ORDER BY and LIMIT n, perhaps OFFSET m, of few rows. */
static const json_t *keys_of(const json_t *modifiers)
{
    const json_t *orders = NULL;
    bool          few = false;
    for (size_t i = 0; i < json_array_size(modifiers); i++) {
        const json_t *modifier = json_array_get(modifiers, i), *offset = json_object_get(modifier, "offset");
        uint64_t      limit = 0, skipped = 0;
        if (is(modifier, "type", "ORDER_MODIFIER")) {
            orders = json_object_get(modifier, "orders");
        } else if (is(modifier, "type", "LIMIT_MODIFIER")) {
            few = !is(modifier, "limit_type", "PERCENTAGE") &&
                  read_count(json_object_get(modifier, "limit"), &limit) && limit <= LK_TOP_ROWS_MAX &&
                  (!json_is_object(offset) || read_count(offset, &skipped));
        } else {
            return NULL;
        }
    }
    return few && json_array_size(modifiers) == 2 ? orders : NULL;
}

/* The same tree, but for one output column: the address of the row. Its node is made from a key's. */
static json_t *narrowed(const json_t *tree, const json_t *orders, const char *alias)
{
    json_t *copy = json_deep_copy(tree);
    json_t *node = json_object_get(json_array_get(json_object_get(copy, "statements"), 0), "node");
    json_t *address = json_deep_copy(json_object_get(json_array_get(orders, 0), "expression"));
    (void)json_object_set_new(address, "column_names", json_pack("[s,s]", alias, "_rowaddr"));
    (void)json_object_set_new(address, "alias", json_string(""));
    (void)json_object_set_new(node, "select_list", json_pack("[o]", address));
    return copy;
}

bool lk_rows_top(lk_arena *arena, const json_t *tree, lk_shape *shape, json_t **narrow)
{
    const json_t *node = json_object_get(json_array_get(json_object_get(tree, "statements"), 0), "node");
    const char   *alias = lk_tree_text(json_object_get(node, "from_table"), "alias");
    const json_t *orders = keys_of(json_object_get(node, "modifiers"));
    if (orders == NULL || !lk_shape_columns(arena, node, shape) || !plain_keys(orders, shape, alias)) {
        return false;
    }
    shape->limit = UINT64_MAX;
    *narrow = narrowed(tree, orders, alias);
    return true;
}
