#ifndef LK_QUERY_FORWARD_H
#define LK_QUERY_FORWARD_H
/*
 * forward.h - writes and DDL through the query tier: checked here, decided by the authority, and seen by the next
 * statement on this replica.
 *
 * Threads: shared; each call is confined to its caller.
 */
#include "query/query.h"

/* The authority as this tier's callers see it: names checked and authorised first, registrations from the cache,
 * the cache told of every change. Borrowed; lives as long as the query tier (its close does nothing). */
lk_authority *lk_query_authority(lk_query *query);

#endif
