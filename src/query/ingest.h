#ifndef LK_QUERY_INGEST_H
#define LK_QUERY_INGEST_H
/*
 * ingest.h - a stream of any length as append operations; the same on a server (CommandStatementIngest) and in a
 * client (`lake append`), over whatever authority they have.
 *
 * An ingest is a stream of any length, cut into operations of at most LK_APPEND_ROWS_MAX rows and
 * LK_INGEST_OPERATION_BYTES. Operation 0 has the ingest's id, operation n an id derived from it (the same
 * time, the other bits from SHA-256 of id and n), so that a repeat with the same id and the same batches adds
 * nothing, however far the first try came.
 *
 * Threads: confined to the caller.
 */
#include "arrow/batch.h"
#include "base/thread.h"
#include "base/uuid.h"
#include "catalog/authority.h"

enum { LK_INGEST_OPERATION_BYTES = 48 * 1024 * 1024 }; /* well below the append stream's limit of 64 MiB */

typedef enum lk_if_absent { LK_IF_ABSENT_FAIL, LK_IF_ABSENT_CREATE } lk_if_absent;
typedef enum lk_if_exists { LK_IF_EXISTS_FAIL, LK_IF_EXISTS_APPEND } lk_if_exists;

typedef struct lk_ingest {
    lk_table_ref table;
    lk_if_absent if_absent;
    lk_if_exists if_exists;
    lk_bytes     operation_id;                      /* UUIDv7 text; empty: one is minted */
    lk_cancel   *cancel;                            /* may be NULL */
    void (*progress)(void *context, uint64_t rows); /* after every operation; may be NULL */
    void *progress_context;
} lk_ingest;

typedef struct lk_ingested {
    uint64_t rows, operations; /* committed, also when the ingest failed */
    char     operation_id[LK_UUID_TEXT_SIZE + 1];
} lk_ingested;

/* rows is borrowed and consumed. A failure's detail says how many rows are committed. LK_E_TABLE_EXISTS,
 * LK_E_TABLE_NOT_FOUND, LK_E_SCHEMA_MISMATCH, and what appends report. */
LK_MUST_CHECK lk_rc lk_ingest_run(lk_authority *authority, const lk_principal *who, const lk_ingest *ingest,
    lk_batches *rows, lk_ingested *out, lk_err *err);

#endif
