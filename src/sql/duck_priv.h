#ifndef LK_SQL_DUCK_PRIV_H
#define LK_SQL_DUCK_PRIV_H
/*
 * duck_priv.h - the one DuckDB instance of the process: made once, sandboxed before any text reaches it.
 *
 * Invariants:
 *   1. After lk_duck_open no file outside our spill directory can be opened and no setting can be changed.
 *   2. A statement runs on its own connection; parsing uses a few kept ones.
 * Threads: shared; the kept parsers are under mutex.
 */
#include "base/arena.h"
#include "base/thread.h"
#include "sql/sql.h"

#define DUCKDB_V2_API_ALLOW_UNSTABLE 1
#include <duckdb_v2.h>

enum { LK_DUCK_PARSERS_KEPT = 8 };

typedef struct lk_duck_parser { /* one connection with its two prepared statements */
    duckdb_v2_connection_handle         connection;
    duckdb_v2_prepared_statement_handle serialize, deserialize;
} lk_duck_parser;

typedef struct lk_duck {
    duckdb_v2_environment_handle environment;
    duckdb_v2_instance_handle    instance;
    lk_mutex                     mutex;                         /* rank SQL */
    lk_duck_parser               parsers[LK_DUCK_PARSERS_KEPT]; /* by mutex */
    size_t                       parser_count;                  /* by mutex */
    atomic_bool suspect; /* an internal error was seen: DuckDB may refuse everything from now on */
} lk_duck;

typedef struct lk_duck_options {
    const char *spill_path; /* our private directory */
    uint64_t    memory_bytes, spill_bytes, thread_count;
} lk_duck_options;

/* register_functions runs on a connection before the configuration is locked. */
LK_MUST_CHECK lk_rc lk_duck_open(lk_duck **out, const lk_duck_options *options,
    lk_rc (*register_functions)(duckdb_v2_connection_handle connection, void *context, lk_err *err),
    void *context, lk_err *err);
void                lk_duck_close(lk_duck *duck); /* accepts NULL; no connection may be left */

/* Whether it still answers; clears suspect. After an internal error DuckDB may have closed itself for
 * good. */
bool lk_duck_answers(lk_duck *duck);

LK_MUST_CHECK lk_rc lk_duck_connect(lk_duck *duck, duckdb_v2_connection_handle *out, lk_err *err);

/* The tree of a text as DuckDB writes it (JSON), and the text of a tree. Appended to out. */
LK_MUST_CHECK lk_rc lk_duck_serialize(lk_duck *duck, lk_bytes text, lk_buf *out, lk_err *err);
LK_MUST_CHECK lk_rc lk_duck_deserialize(lk_duck *duck, lk_bytes tree, lk_buf *out, lk_err *err);

/* The kinds of the statements in a text, for those that are no SELECT; at most 2 are looked at. *parsed is
 * false when the text has a syntax error. */
LK_MUST_CHECK lk_rc lk_duck_kinds(lk_duck *duck, const char *text, DUCKDB_V2_STATEMENT_TYPE kinds[2],
    size_t *count, bool *parsed, lk_err *err);

LK_MUST_CHECK lk_rc lk_duck_parse(duckdb_v2_connection_handle connection, const char *sql,
    duckdb_v2_sql_statement_handle *out, lk_err *err);

/* Where a failure happened decides what an unspecific one means. */
typedef enum lk_duck_phase { LK_DUCK_STARTING, LK_DUCK_PLANNING, LK_DUCK_RUNNING } lk_duck_phase;

/* Turns DuckDB's error into ours and destroys *info. Returns the code. */
lk_rc lk_duck_fail(lk_err *err, lk_duck_phase phase, DUCKDB_V2_ERROR code, duckdb_v2_error_info_handle *info,
    const char *doing);

static inline duckdb_v2_str lk_duck_str(lk_bytes bytes)
{
    return (duckdb_v2_str){bytes.data, bytes.size};
}
static inline lk_bytes lk_duck_bytes(duckdb_v2_str text)
{
    return (lk_bytes){text.ptr, text.len};
}

#endif
