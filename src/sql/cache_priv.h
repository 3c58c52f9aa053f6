#ifndef LK_SQL_CACHE_PRIV_H
#define LK_SQL_CACHE_PRIV_H
/*
 * cache_priv.h - parsed statements by their exact text, least recently used out first.
 * Threads: shared; one mutex of rank SQL.
 */
#include "sql/statement_priv.h"

typedef struct lk_sql_cache lk_sql_cache;

lk_sql_cache *lk_sql_cache_open(size_t bytes_max);
void          lk_sql_cache_close(lk_sql_cache *cache); /* accepts NULL */

/* A reference to the statement of this text, or NULL. */
lk_sql_statement *lk_sql_cache_find(lk_sql_cache *cache, lk_bytes text);
/* Keeps a reference of its own; nothing when the text is there already or too large to be worth it. */
void lk_sql_cache_put(lk_sql_cache *cache, lk_sql_statement *statement);

#endif
