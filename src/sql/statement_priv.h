#ifndef LK_SQL_STATEMENT_PRIV_H
#define LK_SQL_STATEMENT_PRIV_H
/*
 * statement_priv.h - what the gate made of a text: sources, the straight shape, the origin of output
 * columns, and the tree in which every table is called "lake:N", N an index into sources.
 *
 * Everything lies in the statement's arena and never changes, but engine_sql and parsed, which are filled
 * once.
 * Threads: shared.
 */
#include "sql/sql.h"
#include "sql/text.h"

#include <jansson.h>

#define LK_SQL_SOURCE_PREFIX "lake:"

/* -- where rows come from -------------------------------------------------------------------------- */
typedef enum lk_listing {
    LK_LISTING_NONE, /* a table: sources[i].table */
    LK_LISTING_SCHEMATA,
    LK_LISTING_TABLES,
    LK_LISTING_COLUMNS,
    LK_LISTING_SHOW_TABLES, /* of sources[i].ns, or of all namespaces when empty */
    LK_LISTING_SHOW_DATABASES
} lk_listing;

typedef struct lk_sql_source {
    lk_listing listing;
    size_t     table; /* index into tables */
    lk_bytes   ns;
} lk_sql_source;

/* -- the straight shape ---------------------------------------------------------------------------- */
typedef struct lk_literal {
    enum { LK_LITERAL_INTEGER, LK_LITERAL_NUMERIC, LK_LITERAL_STRING, LK_LITERAL_BOOLEAN } kind;
    lk_bytes text; /* as written; strings without quotes */
} lk_literal;

typedef struct lk_filter lk_filter;
struct lk_filter { /* lk_predicate before the column types are known */
    lk_predicate_kind kind;
    lk_bytes          column;
    lk_compare        compare;
    const lk_literal *literals;
    size_t            literal_count;
    const lk_filter **children;
    size_t            child_count;
};

typedef struct lk_shape_item {
    bool            star;
    lk_bytes        column, alias; /* alias empty: the table's own name */
    const lk_bytes *excluded;      /* of a star */
    size_t          excluded_count;
} lk_shape_item;

typedef struct lk_shape {
    size_t               source;
    bool                 count; /* SELECT count(*): items is empty, alias names the column */
    lk_bytes             count_name;
    const lk_shape_item *items;
    size_t               item_count;
    const lk_filter     *filter; /* NULL: every row */
    uint64_t             limit;  /* UINT64_MAX: none */
} lk_shape;

/* -- the origin of output columns ------------------------------------------------------------------ */
typedef struct lk_origin_select lk_origin_select;
typedef struct lk_origin_from   lk_origin_from;

typedef struct lk_origin_item {
    enum {
        LK_ORIGIN_OTHER,
        LK_ORIGIN_COLUMN,
        LK_ORIGIN_STAR,
        LK_ORIGIN_STARS
    } kind; /* STARS: of unknown width */
    lk_bytes        qualifier, column, alias;
    const lk_bytes *excluded; /* of a star */
    size_t          excluded_count;
} lk_origin_item;

struct lk_origin_from {
    enum { LK_ORIGIN_TABLE, LK_ORIGIN_SELECT, LK_ORIGIN_JOIN, LK_ORIGIN_OPAQUE } kind;
    lk_bytes                alias;
    size_t                  source;  /* TABLE */
    const lk_origin_select *select;  /* SELECT */
    const lk_bytes         *columns; /* alias(a, b, ...) on TABLE and SELECT */
    size_t                  column_count;
    const lk_origin_from   *left, *right;          /* JOIN */
    bool                    left_null, right_null; /* rows of that side may be made of nulls */
    bool                    left_only;             /* semi and anti joins */
    bool                    merged;                /* USING, NATURAL: a star is not left then right */
};

struct lk_origin_select {
    const lk_origin_item *items;
    size_t                item_count;
    const lk_origin_from *from;
    bool                  nullable; /* grouping sets put nulls where there are none */
};

/* -- the statement --------------------------------------------------------------------------------- */
struct lk_sql_statement {
    atomic_uint                 refs;
    lk_arena                    arena;
    lk_bytes                    text; /* the cache's key */
    lk_explain                  explain;
    lk_sql_table               *tables;
    size_t                      table_count;
    lk_sql_source              *sources;
    size_t                      source_count;
    size_t                      parameter_count;
    bool                        lists;
    bool                        row_columns; /* its tables show _rowid and _rowaddr */
    const lk_shape             *shape;       /* NULL: not straight */
    const lk_shape             *top;    /* what is shown of the first rows by an order; NULL: no such text */
    lk_sql_statement           *narrow; /* with top: asks for those rows' addresses; owned */
    const lk_origin_select     *origin; /* NULL: nothing known */
    lk_bytes                    tree;   /* JSON for lk_duck_deserialize; empty: read by lk_simple_parse */
    _Atomic(lk_sql_statement *) parsed; /* the same text with its tree, once it was needed; owned */
    _Atomic(char *)             engine_sql; /* NUL-terminated; NULL until first needed */
    size_t                      bytes;      /* what the cache counts */
};

/* Fills everything that depends on the tree alone. tree is DuckDB's JSON, changed in place. */
LK_MUST_CHECK lk_rc lk_gate_check(lk_sql_statement *statement, json_t *tree, lk_err *err);

/* The straight shape of a checked tree, or NULL; the origins of its output columns, or NULL. */
const lk_shape *lk_shape_of(lk_arena *arena, const json_t *node);
/* The part of it that is about one table and its columns; fills source and items, or count. */
bool                    lk_shape_columns(lk_arena *arena, const json_t *node, lk_shape *shape);
const lk_origin_select *lk_origin_of(lk_arena *arena, const json_t *node);

/* Reads "lake:N"; false when the name is another. */
bool lk_source_index(const char *name, size_t *out);

/* An array of texts, copied into the arena. */
const lk_bytes *lk_tree_texts(lk_arena *arena, const json_t *array, size_t *count);
/* Names without regard to ASCII letter case, as SQL compares them. */
bool lk_same_name(lk_bytes a, lk_bytes b);

/* The member's text, "" when absent. */
static inline const char *lk_tree_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? "" : text;
}

#endif
