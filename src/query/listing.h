#ifndef LK_QUERY_LISTING_H
#define LK_QUERY_LISTING_H
/*
 * listing.h - the directory with its schemas decoded once a generation, for discovery, information_schema and
 * SHOW TABLES. Immutable and refcounted: whoever pinned one sees one generation.
 *
 * A schema that cannot be decoded is listed without columns. Threads: shared.
 */
#include "query/query_priv.h"

/* The newest generation. One _unref is owed. */
LK_MUST_CHECK lk_rc lk_listing_get(lk_query *query, lk_listing **out, lk_err *err);
lk_listing         *lk_listing_ref(lk_listing *listing);
void                lk_listing_unref(lk_listing *listing); /* accepts NULL */

size_t                    lk_listing_count(const lk_listing *listing);
const lk_registration    *lk_listing_at(const lk_listing *listing, size_t index);
const struct ArrowSchema *lk_listing_schema(
    const lk_listing *listing, size_t index); /* NULL: not decodable */

/* The directory callback of sql: what this principal may see of this listing. */
typedef struct lk_listing_view {
    lk_listing         *listing;
    const lk_principal *who;
} lk_listing_view;
LK_MUST_CHECK lk_rc lk_listing_list(
    void *view, lk_arena *arena, const lk_sql_listed **items, size_t *count, lk_err *err);

#endif
