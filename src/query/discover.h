#ifndef LK_QUERY_DISCOVER_H
#define LK_QUERY_DISCOVER_H
/*
 * discover.h - catalogs, schemas, tables and their kin, as Flight SQL defines their columns.
 *
 * Everything is answered from one pinned generation of the directory, filtered by the caller's grants before
 * anything else; nothing asks the authority. Patterns: % any run, _ one character, \ escapes; case-sensitive.
 * An absent filter (data NULL) does not filter. Threads: shared; results are confined.
 */
#include "query/query.h"

typedef struct lk_discover_filter {
    lk_bytes        catalog, schema_pattern, table_pattern;
    const lk_bytes *table_types; /* none: every type */
    size_t          table_type_count;
    bool            include_schema; /* adds table_schema: an encapsulated IPC schema message */
} lk_discover_filter;

/* What a kind of answer looks like. */
typedef enum lk_discovery {
    LK_DISCOVER_CATALOGS,
    LK_DISCOVER_SCHEMAS,
    LK_DISCOVER_TABLES,
    LK_DISCOVER_TABLE_TYPES,
    LK_DISCOVER_TYPE_INFO,
    LK_DISCOVER_PRIMARY_KEYS, /* tables have none: no rows, as the next */
    LK_DISCOVER_FOREIGN_KEYS  /* imported, exported, cross reference */
} lk_discovery;

void lk_discover_schema(lk_discovery what, bool include_schema, struct ArrowSchema *out);

/* filter may be NULL. TYPE_INFO: use lk_discover_type_info. LK_E_DISCOVERY_ROWS comes after the rows allowed. */
LK_MUST_CHECK lk_rc lk_discover(lk_query *query, const lk_principal *who, lk_discovery what,
    const lk_discover_filter *filter, lk_batches **out, lk_err *err);

/* The types a column may have; data_type < INT64_MAX selects one XDBC code. */
lk_batches *lk_discover_type_info(int64_t data_type);

/* -- SqlInfo (sql_info.c) -- */
void        lk_sql_info_schema(struct ArrowSchema *out);
lk_batches *lk_sql_info_rows(const uint32_t *ids, size_t id_count); /* none: all; unknown ids give no row */

bool lk_pattern_matches(lk_bytes pattern, lk_bytes text);

#endif
