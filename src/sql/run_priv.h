#ifndef LK_SQL_RUN_PRIV_H
#define LK_SQL_RUN_PRIV_H
/*
 * run_priv.h - one statement inside DuckDB: its connection, what its table names stand for, and the first
 * failure that one of our callbacks met (DuckDB only carries a text; the cause stays here).
 *
 * Invariants:
 *   1. A run is registered before its connection sees any text, and leaves only when that connection is gone.
 *   2. The watcher interrupts a registered run whose cancel flag is set or whose deadline passed, again
 *      and again until it leaves.
 * Threads: sources do not change after registration; failure is under mutex; callbacks come from DuckDB's
 * threads.
 */
#include "sql/duck_priv.h"
#include "sql/statement_priv.h"

typedef struct lk_run_source {
    lk_table_snapshot *snapshot; /* owned reference; NULL for a listing */
    struct ArrowSchema listing_schema;
    struct ArrowSchema with_rows; /* the snapshot's, and the row columns (rows_priv.h); released: without */
    lk_shared_array   *listing;
    struct ArrowSchema carrier; /* lk_carrier_schema of the schema */
} lk_run_source;

/* One table reference of the plan. A copy of a scan is bound again under the same number, and would know
 * nothing of the filters that the first one has taken over. */
typedef struct lk_run_reference {
    bool filtered; /* some scan of it has taken filters over */
} lk_run_reference;

typedef struct lk_runs lk_runs;

typedef struct lk_run {
    lk_duck                    *duck;
    lk_runs                    *runs;
    struct lk_run              *next; /* by runs */
    uint64_t                    id;
    lk_sql_statement           *statement; /* owned reference */
    lk_cancel                  *cancel;
    duckdb_v2_connection_handle connection;
    lk_run_source              *sources; /* statement->source_count */
    /* The planning thread's: */
    lk_run_reference *references; /* by reference number */
    size_t            reference_count, reference_room;
    bool              keeps_filters; /* this plan's scans take no filter over, they only prune */
    bool              copied;        /* a scan that had taken filters over was to be bound again */
    lk_mutex          mutex;         /* rank SCAN */
    bool              failed;        /* by mutex */
    lk_err            failure;       /* by mutex */
} lk_run;

const struct ArrowSchema *lk_run_source_schema(const lk_run_source *source);

/* Keeps the first failure; sets DuckDB's error slot so that the statement ends. */
void lk_run_fail(lk_run *run, const lk_err *failure, duckdb_v2_error_info_handle slot);
/* What a DuckDB failure means for this run: our own cause if there is one, a cancellation by name. */
lk_rc lk_run_error(lk_run *run, lk_duck_phase phase, DUCKDB_V2_ERROR code, duckdb_v2_error_info_handle *info,
    const char *doing, lk_err *err);

/* -- the registry and its watcher ------------------------------------------------------------------ */
LK_MUST_CHECK lk_rc lk_runs_open(lk_runs **out, lk_err *err);
void                lk_runs_close(lk_runs *runs);            /* no run may be left; accepts NULL */
void                lk_runs_add(lk_runs *runs, lk_run *run); /* gives it its id */
void                lk_runs_remove(lk_runs *runs, lk_run *run);
lk_run *lk_runs_find(lk_runs *runs, uint64_t id); /* borrowed: valid in callbacks of that run's connection */

/* -- the table function (scan.c) ------------------------------------------------------------------- */
/* Registers lake_scan(run, source, reference) for all connections. */
LK_MUST_CHECK lk_rc lk_scan_register(duckdb_v2_connection_handle connection, lk_runs *runs, lk_err *err);
/* Makes "lake:N" on this run's connection mean lake_scan(run, N, reference), and every other name nothing. */
LK_MUST_CHECK lk_rc lk_scan_bind_names(lk_run *run, lk_err *err);

/* -- filters (filter.c) ---------------------------------------------------------------------------- */
typedef struct lk_scan_filters {
    lk_arena             arena;
    const lk_predicate **exact; /* accepted: DuckDB no longer applies them */
    size_t               exact_count, exact_room;
    const lk_predicate **wider; /* let through more rows; DuckDB applies the original too */
    size_t               wider_count, wider_room;
} lk_scan_filters;

/* Takes what the optimiser offers and we can apply; exact ones leave DuckDB unless it keeps them. Returns
 * whether any did. */
bool lk_scan_filters_offer(lk_scan_filters *filters, const struct ArrowSchema *schema, bool keeps,
    duckdb_v2_table_function_filter_pushdown_info_handle info);
/* All of them in one tree, in the arena; NULL when there are none. */
const lk_predicate *lk_scan_filters_all(lk_scan_filters *filters);

#endif
