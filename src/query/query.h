#ifndef LK_QUERY_QUERY_H
#define LK_QUERY_QUERY_H
/*
 * query.h - the stateless query tier: plan a statement into a sealed ticket, run a ticket, forward writes.
 * Knows nothing of the wire; serve/query_service translates.
 *
 * Invariants:
 *   1. Authorisation comes before any catalog or engine call; denied and absent namespaces look the same.
 *   2. What was planned is what runs: lk_query_run reads versions from the ticket, never from the catalog, and
 *      checks the caller's grants again.
 *   3. A permit of the admission is held from planning to its end, and from lk_query_run until its result is
 *      closed.
 *
 * Threads: shared. A result is confined to one thread at a time.
 */
#include "arrow/batch.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/rand.h"
#include "base/thread.h"
#include "catalog/cache.h"
#include "model/principal.h"
#include "query/ticket.h"
#include "sql/bind.h"

typedef struct lk_query lk_query;

typedef struct lk_query_options { /* all borrowed; outlive the query tier */
    lk_authority     *authority;  /* DDL and appends go here */
    lk_catalog_cache *cache;
    lk_bind          *bind;
    lk_sql           *sql;
    lk_ticket_keys   *keys;
    lk_clock         *clock;
    lk_random        *random;
    const lk_config  *config;
} lk_query_options;

lk_query *lk_query_open(const lk_query_options *options);
void      lk_query_stop(lk_query *query);  /* new statements get LK_E_SHUTTING_DOWN */
void      lk_query_close(lk_query *query); /* after every result is closed; accepts NULL */

/* -- statements ------------------------------------------------------------------------------------ */
typedef struct lk_planned {
    struct ArrowSchema schema; /* released by the caller */
    lk_buf             ticket; /* deinitialised by the caller */
} lk_planned;

/* Gate, authorise, pin, bind, seal. LK_E_* of lk_sql_parse, lk_bind_resolve, lk_sql_schema; LK_E_DENIED;
 * LK_E_QUERY_SLOTS and friends. */
LK_MUST_CHECK lk_rc lk_query_plan(
    lk_query *query, const lk_principal *who, lk_bytes sql, lk_cancel *cancel, lk_planned *out, lk_err *err);

/* Runs a sealed ticket. The result stops when cancel is set or the execution deadline passes; cancel must
 * outlive it. */
LK_MUST_CHECK lk_rc lk_query_run(lk_query *query, const lk_principal *who, lk_bytes ticket, lk_cancel *cancel,
    lk_batches **out, lk_err *err);

typedef struct lk_prepared {
    struct ArrowSchema dataset; /* of the result */
    lk_buf             handle;
} lk_prepared;

/* A prepared statement is its sealed text: any replica can run it, and each run pins versions anew. Parameters
 * are refused (LK_E_INVALID_REQUEST). */
LK_MUST_CHECK lk_rc lk_query_prepare(
    lk_query *query, const lk_principal *who, lk_bytes sql, lk_cancel *cancel, lk_prepared *out, lk_err *err);
/* Plans a prepared statement. LK_E_INVALID_PREPARED when the handle is not this caller's or expired. */
LK_MUST_CHECK lk_rc lk_query_plan_prepared(lk_query *query, const lk_principal *who, lk_bytes handle,
    lk_cancel *cancel, lk_planned *out, lk_err *err);

void lk_planned_deinit(lk_planned *planned);    /* idempotent */
void lk_prepared_deinit(lk_prepared *prepared); /* idempotent */

#endif
