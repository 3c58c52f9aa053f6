#ifndef LK_QUERY_FORWARD_H
#define LK_QUERY_FORWARD_H
/*
 * forward.h - writes and DDL through the query tier: checked here, decided by the authority, and seen by the next
 * statement on this replica; and ingests of any length.
 *
 * An ingest is a stream of any length, cut into operations of at most LK_APPEND_ROWS_MAX rows and
 * LK_INGEST_OPERATION_BYTES. Operation 0 has the ingest's id, operation n an id derived from it (the same
 * time, the other bits from SHA-256 of id and n), so that a repeat with the same id and the same batches adds
 * nothing, however far the first try came.
 *
 * Threads: shared; each call is confined to its caller.
 */
#include "query/query.h"

enum { LK_INGEST_OPERATION_BYTES = 48 * 1024 * 1024 }; /* well below the append stream's limit of 64 MiB */

/* The authority as this tier's callers see it: names checked and authorised first, registrations from the cache,
 * the cache told of every change. Borrowed; lives as long as the query tier (its close does nothing). */
lk_authority *lk_query_authority(lk_query *query);

typedef enum lk_if_absent { LK_IF_ABSENT_FAIL, LK_IF_ABSENT_CREATE } lk_if_absent;
typedef enum lk_if_exists { LK_IF_EXISTS_FAIL, LK_IF_EXISTS_APPEND } lk_if_exists;

typedef struct lk_ingest {
    lk_table_ref table;
    lk_if_absent if_absent;
    lk_if_exists if_exists;
    lk_bytes     operation_id; /* UUIDv7 text; empty: one is minted */
} lk_ingest;

typedef struct lk_ingested {
    uint64_t rows, operations; /* committed, also when the ingest failed */
    char     operation_id[LK_UUID_TEXT_SIZE + 1];
} lk_ingested;

/* rows is borrowed and consumed. A failure's detail says how many rows are committed. LK_E_TABLE_EXISTS,
 * LK_E_TABLE_NOT_FOUND, LK_E_SCHEMA_MISMATCH, and what appends report. */
LK_MUST_CHECK lk_rc lk_forward_ingest(lk_query *query, const lk_principal *who, const lk_ingest *ingest,
    lk_batches *rows, lk_cancel *cancel, lk_ingested *out, lk_err *err);

#endif
