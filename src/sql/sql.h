#ifndef LK_SQL_SQL_H
#define LK_SQL_SQL_H
/*
 * sql.h - SQL text in, Arrow batches out; read-only, sandboxed, over snapshots that the caller pinned.
 *
 * One statement goes through three calls:
 *   lk_sql_parse   text -> statement: the gate. Says which tables it reads; touches no table.
 *   (the caller authorises every table, resolves it and pins a snapshot of it)
 *   lk_sql_schema  the result's schema, nothing is run (GetFlightInfo, prepare)
 *   lk_sql_run     the result, as a stream of batches (DoGet)
 *
 * Invariants:
 *   1. Nothing but the snapshots handed in can be read: no file, no setting, no other table, no engine
 *      catalog.
 *   2. No statement changes anything: only SELECT (VALUES, FROM-first, SHOW, DESCRIBE) and EXPLAIN
 *      [ANALYZE] of one pass the gate; functions pass by an allow-list, an unknown one is refused.
 *   3. A statement that is one table, plain columns, exact filters and LIMIT never enters the SQL engine: the
 *      snapshot's own batches go through, every Arrow type unchanged (the straight path).
 *   4. The same text gives the same result on both paths.
 *
 * Names: `ns.t`, `lake.ns.t`; names are compared as written. Time travel: `ns.t AT (VERSION => n)` and
 * `ns.t AT (REVISION => 'incarnation:n')`.
 *
 * Threads: lk_sql and lk_sql_statement are shared; a result is confined to one thread at a time.
 */
#include "arrow/batch.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "model/ids.h"

typedef struct lk_sql           lk_sql;           /* the process's SQL engine; open one */
typedef struct lk_sql_statement lk_sql_statement; /* a text that passed the gate; refcounted, immutable */

typedef struct lk_sql_options {
    lk_bytes spill_directory;  /* parent of our private child (0700, marker file); made when missing */
    uint64_t memory_bytes;     /* execution memory of all statements together */
    uint64_t spill_bytes;      /* disk that they may spill to together */
    uint64_t thread_count;     /* 0: one per core */
    uint64_t sql_bytes_max;    /* longest text */
    uint64_t cached_bytes_max; /* parsed statements kept by text; 0: 8 MiB */
} lk_sql_options;

/* Cheap: removes orphaned spill directories (dead owners only) and makes ours; the engine itself starts with
 * lk_sql_warm or the first statement that needs it. LK_E_IO, LK_E_INVALID_CONFIG. */
LK_MUST_CHECK lk_rc lk_sql_open(lk_sql **out, const lk_sql_options *options, lk_err *err);

/* Starts the engine now (tens of milliseconds), for a background thread after a server is ready.
 * Idempotent. */
LK_MUST_CHECK lk_rc lk_sql_warm(lk_sql *sql, lk_err *err);

/* Every result must be closed before. Removes the spill directory. Accepts NULL. */
void lk_sql_close(lk_sql *sql);

/* -- the gate -------------------------------------------------------------------------------------- */

/* Which state of the table the text asks for. */
typedef enum lk_sql_when { LK_SQL_CURRENT, LK_SQL_VERSION, LK_SQL_REVISION } lk_sql_when;

typedef struct lk_sql_table { /* borrowed from the statement */
    lk_table_ref table;       /* not yet checked against the rules of model/ids: absent if it breaks them */
    lk_sql_when  when;
    lk_bytes     incarnation; /* REVISION */
    uint64_t     version;     /* VERSION, REVISION */
} lk_sql_table;

/*
 * Parses and gates one statement; results are cached by text. Reads no table and no catalog.
 * LK_E_SQL_TOO_LARGE; LK_E_INVALID_SQL (syntax, several statements, too deep, identifier too long);
 * LK_E_DML, LK_E_DDL, LK_E_STATEMENT (kinds that are not SELECT or EXPLAIN); LK_E_DENIED (bare names, other
 * catalogs); LK_E_TOO_MANY_TABLES; LK_E_PLANNING (a function or construct that is not allowed, in the
 * detail).
 */
LK_MUST_CHECK lk_rc lk_sql_parse(lk_sql *sql, lk_bytes text, lk_sql_statement **out, lk_err *err);

lk_sql_statement *lk_sql_statement_ref(lk_sql_statement *statement);
void              lk_sql_statement_unref(lk_sql_statement *statement); /* accepts NULL */

/* Distinct tables in order of first appearance (each `when` counts as its own); snapshots are given in this
 * order to lk_sql_schema and lk_sql_run. */
const lk_sql_table *lk_sql_statement_tables(const lk_sql_statement *statement, size_t *count);
/* Reads information_schema or SHOW TABLES: the request needs a directory. */
bool   lk_sql_statement_lists(const lk_sql_statement *statement);
size_t lk_sql_statement_parameter_count(const lk_sql_statement *statement);

/* -- schema and execution -------------------------------------------------------------------------- */

typedef struct lk_sql_listed {
    lk_table_ref              table;
    const struct ArrowSchema *schema; /* NULL: not known; listed without columns */
} lk_sql_listed;

/* What information_schema and SHOW TABLES answer from: the tables this caller may see, ascending. The items
 * stay valid until the arena is closed. */
typedef struct lk_sql_directory {
    lk_rc (*list)(void *context, lk_arena *arena, const lk_sql_listed **items, size_t *count, lk_err *err);
    void *context;
} lk_sql_directory;

typedef struct lk_sql_request {
    lk_sql_statement         *statement;
    lk_table_snapshot *const *snapshots; /* one per lk_sql_statement_tables; a reference is taken as needed */
    lk_sql_directory          directory; /* list NULL: lists nothing */
    lk_cancel                *cancel;    /* outlives the result; stops it within 100 ms; NULL: never */
    bool                      engine_only;  /* tests: not the straight path */
    bool                      filters_stay; /* tests: DuckDB applies every filter itself */
} lk_sql_request;

/* The schema of the result, by binding only. LK_E_PLANNING with the reason as detail. Parameters that were
 * not given count as unknown: LK_E_PLANNING when the schema depends on them. */
LK_MUST_CHECK lk_rc lk_sql_schema(
    lk_sql *sql, const lk_sql_request *request, struct ArrowSchema *out, lk_err *err);

/*
 * Starts the statement. *out streams batches with the schema of lk_sql_schema, holds what it needs of the
 * request (snapshots, statement), and may be closed early. Errors here and from next: LK_E_PLANNING,
 * LK_E_EXECUTION (division, cast: reason as detail), LK_E_QUERY_MEMORY, LK_E_QUERY_SPILL, LK_E_CANCELLED,
 * LK_E_DEADLINE, and whatever the snapshot's scan reports.
 */
LK_MUST_CHECK lk_rc lk_sql_run(lk_sql *sql, const lk_sql_request *request, lk_batches **out, lk_err *err);

/* Whether a result of lk_sql_run came by the straight path. */
bool lk_sql_result_is_straight(const lk_batches *result);

#endif
