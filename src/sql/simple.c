/*
 * simple.c - point queries and plain projections read without DuckDB's parser (which takes a quarter of a
 * millisecond), in a few microseconds:
 *
 *   SELECT * | count(*) [AS name] | column [AS name], ...  FROM [lake.]ns.table
 *   [WHERE column op literal [AND column op literal]...] [LIMIT n] [;]
 *
 * with op one of = <> != < <= > >=, a literal an integer, a plain decimal or a string, a column optionally
 * qualified by the table's name, names bare (and no keyword of DuckDB's) or quoted. Anything else,
 * comments included, is left to the parser. What is accepted means exactly what the parser makes of it:
 * simple_test.c compares the two.
 * Threads: stateless.
 */
#include "sql/simple_priv.h"

#include "base/limits.h"

#include <stdlib.h>
#include <strings.h>

enum { ITEMS_MAX = 256, CONDITIONS_MAX = 32 };

/* Words that DuckDB's grammar keeps for itself somewhere (its keyword categories but `unreserved`).
 * Ascending. */
static const char *const keywords[] = {"all", "analyse", "analyze", "and", "anti", "any", "array", "as",
    "asc", "asof", "asymmetric", "at", "authorization", "between", "bigint", "binary", "bit", "boolean",
    "both", "by", "case", "cast", "char", "character", "check", "coalesce", "collate", "collation", "column",
    "columns", "concurrently", "constraint", "create", "cross", "dec", "decimal", "default", "deferrable",
    "desc", "describe", "distinct", "do", "else", "end", "except", "exists", "extract", "false", "fetch",
    "float", "for", "foreign", "freeze", "from", "full", "generated", "glob", "group", "grouping",
    "grouping_id", "having", "ilike", "in", "initially", "inner", "inout", "int", "integer", "intersect",
    "interval", "into", "is", "isnull", "join", "lambda", "lateral", "leading", "left", "like", "limit",
    "map", "national", "natural", "nchar", "none", "not", "notnull", "null", "nullif", "numeric", "offset",
    "on", "only", "or", "order", "out", "outer", "overlaps", "overlay", "pivot", "pivot_longer",
    "pivot_wider", "placing", "position", "positional", "precision", "primary", "qualify", "real",
    "references", "returning", "right", "row", "select", "semi", "setof", "show", "similar", "smallint",
    "some", "struct", "substring", "summarize", "symmetric", "table", "tablesample", "then", "time",
    "timestamp", "to", "trailing", "treat", "trim", "true", "try_cast", "tuple", "union", "unique", "unpack",
    "unpivot", "using", "values", "varchar", "variadic", "verbose", "when", "where", "window", "with",
    "xmlattributes", "xmlconcat", "xmlelement", "xmlexists", "xmlforest", "xmlnamespaces", "xmlparse",
    "xmlpi", "xmlroot", "xmlserialize", "xmltable"};

typedef struct reader {
    const char *at, *end;
} reader;

/* -- tokens ---------------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_blank(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) {
        r->at++;
    }
}

static lk_bytes peek_word(reader *r)
{
    skip_blank(r);
    const char *to = r->at;
    while (to < r->end && (is_letter(*to) || (to > r->at && is_digit(*to)))) {
        to++;
    }
    bool odd =
        to < r->end && ((unsigned char)*to >= 0x80 || *to == '$'); /* a longer word than we understand */
    return (lk_bytes){r->at, odd ? 0 : (size_t)(to - r->at)};
}

static bool take_word(reader *r, const char *word)
{
    lk_bytes found = peek_word(r);
    bool     same = found.size == strlen(word) && strncasecmp(found.data, word, found.size) == 0;
    r->at += same ? found.size : 0;
    return same;
}

static bool take_symbol(reader *r, char symbol)
{
    skip_blank(r);
    bool same = r->at < r->end && *r->at == symbol;
    r->at += same ? 1 : 0;
    return same;
}

static int by_word(const void *key, const void *row)
{
    const lk_bytes *word = key;
    const char     *keyword = *(const char *const *)row;
    int             order = strncasecmp(word->data, keyword, word->size);
    return order != 0 ? order : keyword[word->size] == '\0' ? 0 : -1;
}

static bool take_name(reader *r, lk_bytes *out)
{
    skip_blank(r);
    if (r->at < r->end && *r->at == '"') {
        const char *close = memchr(r->at + 1, '"', (size_t)(r->end - r->at - 1));
        if (close == NULL || close == r->at + 1 || (close + 1 < r->end && close[1] == '"')) {
            return false;
        }
        *out = (lk_bytes){r->at + 1, (size_t)(close - r->at - 1)};
        r->at = close + 1;
    } else {
        *out = peek_word(r);
        r->at += out->size;
        if (out->size == 0 || bsearch(out, keywords, sizeof keywords / sizeof keywords[0], sizeof keywords[0],
                                  by_word) != NULL) {
            return false;
        }
    }
    return out->size <= LK_SQL_IDENTIFIER_BYTES_MAX;
}

static bool same_name(lk_bytes a, lk_bytes b)
{
    return a.size == b.size && strncasecmp(a.data, b.data, a.size) == 0;
}

/* -- literals -------------------------------------------------------------------------------------- */

static bool take_number(reader *r, lk_literal *out)
{
    const char *from = r->at;
    r->at += *from == '-' ? 1 : 0;
    const char *digits = r->at;
    while (r->at < r->end && is_digit(*r->at)) {
        r->at++;
    }
    bool whole = r->at > digits && r->at - digits <= 18;
    out->kind = LK_LITERAL_INTEGER;
    if (whole && r->at < r->end && *r->at == '.') {
        const char *fraction = ++r->at;
        while (r->at < r->end && is_digit(*r->at)) {
            r->at++;
        }
        whole = r->at > fraction && r->at - fraction <= 18;
        out->kind = LK_LITERAL_NUMERIC;
    }
    out->text = (lk_bytes){from, (size_t)(r->at - from)};
    bool ends = r->at == r->end || (!is_letter(*r->at) && *r->at != '.' && (unsigned char)*r->at < 0x80);
    return whole && ends;
}

static bool take_string(reader *r, lk_literal *out)
{
    const char *close = memchr(r->at + 1, '\'', (size_t)(r->end - r->at - 1));
    if (close == NULL || (close + 1 < r->end && close[1] == '\'')) {
        return false; /* a quote inside: the parser's */
    }
    out->kind = LK_LITERAL_STRING;
    out->text = (lk_bytes){r->at + 1, (size_t)(close - r->at - 1)};
    r->at = close + 1;
    return true;
}

static bool take_literal(reader *r, lk_literal *out)
{
    skip_blank(r);
    if (r->at == r->end) {
        return false;
    }
    return *r->at == '\'' ? take_string(r, out) : take_number(r, out);
}

static bool take_operator(reader *r, lk_compare *out)
{
    static const struct {
        const char *text;
        lk_compare  op;
    } rows[] = {
        {"<>", LK_NE}, {"!=", LK_NE}, {"<=", LK_LE}, {">=", LK_GE}, {"=", LK_EQ}, {"<", LK_LT}, {">", LK_GT}};
    skip_blank(r);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t size = strlen(rows[i].text);
        if ((size_t)(r->end - r->at) > size && memcmp(r->at, rows[i].text, size) == 0) {
            char after = r->at[size]; /* not the start of a longer operator */
            *out = rows[i].op;
            r->at += size;
            return after == ' ' || after == '\'' || after == '-' || is_digit(after);
        }
    }
    return false;
}

/* -- the statement --------------------------------------------------------------------------------- */

typedef struct column_name {
    lk_bytes qualifier, name;
} column_name;

static bool take_column(reader *r, column_name *out)
{
    if (!take_name(r, &out->name)) {
        return false;
    }
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        out->qualifier = out->name;
        return take_name(r, &out->name) && (r->at == r->end || *r->at != '.');
    }
    return true;
}

typedef struct parts {
    lk_shape_item items[ITEMS_MAX];
    column_name   columns[ITEMS_MAX]; /* of the items */
    size_t        item_count;
    column_name   filtered[CONDITIONS_MAX];
    lk_compare    compares[CONDITIONS_MAX];
    lk_literal    literals[CONDITIONS_MAX];
    size_t        condition_count;
    bool          count;
    lk_bytes      count_name;
    lk_table_ref  table;
    uint64_t      limit;
} parts;

static bool take_count(reader *r, parts *p)
{
    p->count = true;
    p->count_name = LK_LITERAL("count_star()");
    return take_symbol(r, '(') && take_symbol(r, '*') && take_symbol(r, ')') &&
           (!take_word(r, "as") || take_name(r, &p->count_name));
}

static bool take_items(reader *r, parts *p)
{
    lk_bytes word = peek_word(r);
    if (take_symbol(r, '*')) {
        p->items[0].star = true;
        p->item_count = 1;
        return true;
    }
    if (same_name(word, LK_LITERAL("count")) && word.data + word.size < r->end &&
        word.data[word.size] == '(') {
        r->at += word.size;
        return take_count(r, p);
    }
    do {
        size_t i = p->item_count++;
        if (i == ITEMS_MAX || !take_column(r, &p->columns[i]) ||
            (take_word(r, "as") && !take_name(r, &p->items[i].alias))) {
            return false;
        }
        p->items[i].column = p->columns[i].name;
    } while (take_symbol(r, ','));
    return true;
}

static bool take_table(reader *r, parts *p)
{
    lk_bytes first = {0}, second = {0};
    if (!take_name(r, &first) || r->at == r->end || *r->at++ != '.' || !take_name(r, &second)) {
        return false;
    }
    p->table = (lk_table_ref){first, second};
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        p->table.ns = second;
        if (!same_name(first, LK_LITERAL("lake")) || !take_name(r, &p->table.name)) {
            return false;
        }
    }
    return (r->at == r->end || *r->at != '.') && !same_name(p->table.ns, LK_LITERAL("information_schema"));
}

static bool take_conditions(reader *r, parts *p)
{
    do {
        size_t i = p->condition_count++;
        if (i == CONDITIONS_MAX || !take_column(r, &p->filtered[i]) || !take_operator(r, &p->compares[i]) ||
            !take_literal(r, &p->literals[i])) {
            return false;
        }
    } while (take_word(r, "and"));
    return true;
}

static bool take_limit(reader *r, parts *p)
{
    lk_literal literal = {0};
    if (!take_literal(r, &literal) || literal.kind != LK_LITERAL_INTEGER || literal.text.data[0] == '-') {
        return false;
    }
    for (size_t i = 0; i < literal.text.size; i++) {
        p->limit = p->limit * 10 + (uint64_t)(literal.text.data[i] - '0');
    }
    return true;
}

static bool take_statement(reader *r, parts *p)
{
    if (!take_word(r, "select") || !take_items(r, p) || !take_word(r, "from") || !take_table(r, p) ||
        (take_word(r, "where") && !take_conditions(r, p))) {
        return false;
    }
    if (take_word(r, "limit")) {
        if (!take_limit(r, p)) {
            return false;
        }
    } else {
        p->limit = UINT64_MAX;
    }
    (void)take_symbol(r, ';');
    skip_blank(r);
    return r->at == r->end;
}

static bool qualifies(column_name column, const parts *p)
{
    return column.qualifier.size == 0 || same_name(column.qualifier, p->table.name);
}

static const lk_filter *compare_of(lk_arena *arena, const parts *p, size_t i)
{
    lk_filter  *filter = lk_arena_take(arena, sizeof *filter);
    lk_literal *literal = lk_arena_take(arena, sizeof *literal);
    *literal = p->literals[i];
    filter->kind = LK_PREDICATE_COMPARE;
    filter->column = p->filtered[i].name;
    filter->compare = p->compares[i];
    filter->literals = literal;
    filter->literal_count = 1;
    return filter;
}

static const lk_filter *filter_of(lk_arena *arena, const parts *p)
{
    if (p->condition_count <= 1) {
        return p->condition_count == 0 ? NULL : compare_of(arena, p, 0);
    }
    lk_filter *all = lk_arena_take(arena, sizeof *all);
    all->kind = LK_PREDICATE_AND;
    all->child_count = p->condition_count;
    all->children = lk_arena_take(arena, p->condition_count * sizeof *all->children);
    for (size_t i = 0; i < p->condition_count; i++) {
        all->children[i] = compare_of(arena, p, i);
    }
    return all;
}

static void keep(lk_sql_statement *st, const parts *p)
{
    lk_arena      *arena = &st->arena;
    lk_shape      *shape = lk_arena_take(arena, sizeof *shape);
    lk_shape_item *items = lk_arena_take(arena, (p->item_count + 1) * sizeof *items);
    memcpy(items, p->items, p->item_count * sizeof *items);
    shape->count = p->count;
    shape->count_name = p->count_name;
    shape->items = p->count ? NULL : items;
    shape->item_count = p->item_count;
    shape->filter = filter_of(arena, p);
    shape->limit = p->limit;
    st->shape = shape;
    st->tables = lk_arena_take(arena, sizeof *st->tables);
    st->tables[0].table = p->table;
    st->table_count = 1;
    st->sources = lk_arena_take(arena, sizeof *st->sources);
    st->source_count = 1;
}

bool lk_simple_parse(lk_sql_statement *statement)
{
    enum { TEXT_MAX = 64 * 1024 };
    lk_bytes text = statement->text;
    if (text.size > TEXT_MAX || !lk_bytes_are_utf8(text) || memchr(text.data, '\0', text.size) != NULL) {
        return false;
    }
    parts *p = calloc(1, sizeof *p);
    LK_ASSERT(p != NULL);
    reader r = {.at = text.data, .end = text.data + text.size};
    bool   good = take_statement(&r, p);
    for (size_t i = 0; good && i < p->item_count; i++) {
        good = p->items[i].star || qualifies(p->columns[i], p);
    }
    for (size_t i = 0; good && i < p->condition_count; i++) {
        good = qualifies(p->filtered[i], p);
    }
    if (good) {
        keep(statement, p);
    }
    free(p);
    return good;
}
