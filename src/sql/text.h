#ifndef LK_SQL_TEXT_H
#define LK_SQL_TEXT_H
/*
 * text.h - the one look at a text before DuckDB's parser sees it: bounds, EXPLAIN, AT (REVISION => ...).
 *
 * It splits the text into tokens as SQL does (comments, '..', E'..', "..", $tag$..$tag$), decides nothing
 * about meaning, and can be wrong about a token without harm: what may run is decided on DuckDB's own tree.
 * Threads: stateless.
 */
#include "base/arena.h"
#include "base/err.h"

typedef enum lk_explain { LK_EXPLAIN_NONE, LK_EXPLAIN_PLAN, LK_EXPLAIN_ANALYZE } lk_explain;

typedef struct lk_sql_text {
    lk_explain explain;
    lk_bytes   body; /* without EXPLAIN [ANALYZE]; in the arena, NUL after it */
} lk_sql_text;

/* LK_E_INVALID_SQL: no UTF-8, a NUL byte, nested too deep, too many tokens, an identifier too long. */
LK_MUST_CHECK lk_rc lk_sql_text_read(lk_bytes text, lk_arena *arena, lk_sql_text *out, lk_err *err);

/* Whether the first word is this one (lower case). */
bool lk_sql_text_starts(lk_bytes text, const char *word);

#endif
