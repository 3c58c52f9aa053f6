#ifndef LK_SQL_GATE_PRIV_H
#define LK_SQL_GATE_PRIV_H
/*
 * gate_priv.h - what the two halves of the gate share: gate.c walks the tree and decides what may stand in
 * it, gate_names.c gives every table its source and every column reference a name that still finds it.
 * Threads: confined to one parse.
 */
#include "base/limits.h"
#include "sql/statement_priv.h"

typedef struct lk_gate_base {       /* one FROM item that names a table */
    const char          *ns, *name; /* as written */
    json_t              *node;
    bool                 aliased;
    struct lk_gate_base *next;
} lk_gate_base;

typedef struct lk_gate_label {
    const char           *text;
    struct lk_gate_label *next;
} lk_gate_label;

typedef struct lk_gate_scope { /* one query node */
    const struct lk_gate_scope *parent;
    lk_gate_label              *ctes;
    lk_gate_label              *shown; /* what FROM items that are no unaliased tables are called */
    lk_gate_base               *bases;
} lk_gate_scope;

typedef struct lk_gate {
    lk_sql_statement *statement;
    lk_arena          scratch;
    lk_sql_table      tables[LK_STATEMENT_TABLES_MAX];
    lk_sql_source     sources[LK_STATEMENT_TABLES_MAX + 8];
    size_t            nodes, named, seen; /* BASE_TABLE nodes named, and met again by the walk */
    uint64_t          growth;             /* the product of large sizes */
    lk_err           *err;
} lk_gate;

/* Names every table of a FROM clause (not of its subqueries); LK_E_DENIED, LK_E_TOO_MANY_TABLES,
 * LK_E_PLANNING. */
LK_MUST_CHECK lk_rc lk_gate_name_from(lk_gate *g, json_t *from, lk_gate_scope *s);
/* Gives unaliased tables their aliases, once the whole clause is named. */
void lk_gate_give_aliases(lk_gate *g, lk_gate_scope *s);
/* `ns.t.x` and `lake.ns.t.x` become `alias.x` when an unaliased FROM item in scope is ns.t. */
LK_MUST_CHECK lk_rc lk_gate_shorten_column(lk_gate *g, json_t *names, const lk_gate_scope *here);

void lk_gate_add_cte(lk_gate *g, lk_gate_scope *s, const char *name);
/* The number of a source, a new one if there is none like it yet. */
LK_MUST_CHECK lk_rc lk_gate_add_source(lk_gate *g, lk_sql_source source, size_t *out);
/* Makes a BASE_TABLE node name source N, whatever it named before. */
void lk_gate_rename(json_t *node, size_t source);
/* A whole number above zero; false for anything else. */
bool lk_gate_read_number(lk_bytes text, uint64_t *out);

#endif
