#ifndef LK_ENGINE_ENGINE_H
#define LK_ENGINE_ENGINE_H
/*
 * engine.h - what the authority and the query tier need from a storage engine, and nothing more.
 *
 * A table is named by its location (URI or path that placement made), its incarnation (UUIDv7 text) and a
 * version. Bodies: lance_engine (files plus the manifest pointer in the KV), mem_engine (tests).
 *
 * Invariants (engine_contract_test.c):
 *   1. A version, once committed, has the same rows for ever.
 *   2. One operation id commits at most one version of an incarnation; a repeat returns that version.
 *   3. An append on a stale base commits nothing (LK_E_CONFLICT).
 *   4. reconcile never says "absent" unless the operation cannot have been committed.
 *   5. A version is committed by one atomic write of the KV, and the caller's own changes (`with`) are in
 *      it: either the version exists and they are made, or neither. The version is always base + 1 (1 for
 *      create), so they can name it beforehand.
 *
 * What create and append answer: LK_OK; LK_E_CONFLICT when the base, the guard or a condition of `with` did
 * not hold (nothing happened; the caller reads its keys to learn which); LK_E_FOREIGN_COMMIT; or another
 * error, whose maybe_applied says that the atomic write itself is unknown (the caller reads its keys too).
 *
 * Threads: shared. Calls block and do I/O: no lock may be held.
 */
#include "arrow/batch.h"
#include "arrow/predicate.h"
#include "base/thread.h"
#include "kv/kv.h"
#include "lance/take.h"

typedef struct lk_engine         lk_engine;
typedef struct lk_table_snapshot lk_table_snapshot; /* one pinned version; refcounted, immutable */

typedef struct lk_table_at {
    lk_bytes location, incarnation;
    uint64_t version;
} lk_table_at;

/* What the atomic write of a commit carries besides the version. Zero: nothing, unguarded. */
typedef struct lk_commit_terms {
    lk_bytes            guard_key, guard_value; /* leader evidence; empty: unguarded */
    const lk_kv_change *with; /* keys that are not the engine's; at most LK_ENGINE_WITH_MAX */
    size_t              with_count;
} lk_commit_terms;

enum { LK_ENGINE_WITH_MAX = LK_KV_CHANGES_MAX - 2 }; /* the pointer and one history record are ours */

typedef struct lk_create_request {
    lk_bytes                  location, incarnation;
    const struct ArrowSchema *schema; /* borrowed */
    lk_commit_terms           terms;
} lk_create_request;

typedef struct lk_append_request {
    lk_table_at     at; /* version = the base to commit on */
    lk_bytes        tenant, operation_id, payload_sha256;
    lk_batches     *rows; /* borrowed; consumed */
    lk_commit_terms terms;
} lk_append_request;

typedef enum lk_reconciled {
    LK_RECONCILED_ABSENT,
    LK_RECONCILED_COMMITTED,
    LK_RECONCILED_UNKNOWN
} lk_reconciled;

struct lk_engine_ops {
    /* An empty table as version 1. LK_E_TABLE_EXISTS when the location has one; LK_E_INVALID_SCHEMA. */
    lk_rc (*create)(lk_engine *engine, const lk_create_request *request, uint64_t *version, lk_err *err);
    lk_rc (*append)(lk_engine *engine, const lk_append_request *request, uint64_t *version, lk_err *err);
    /* Looks for the operation's commit above base (newest head included). COMMITTED fills *version. */
    lk_rc (*reconcile)(lk_engine *engine, lk_table_at base, lk_bytes tenant, lk_bytes operation_id,
        lk_bytes payload_sha256, lk_reconciled *out, uint64_t *version, lk_err *err);
    lk_rc (*head)(lk_engine *engine, lk_table_at at, uint64_t *version, lk_err *err); /* newest committed */
    /* Removes data and history of the incarnation, also what a create left that never committed; idempotent;
     * a recreated table at another location is safe. Only the guard of terms is used. */
    lk_rc (*remove)(lk_engine *engine, lk_table_at at, lk_commit_terms terms, lk_err *err);
    /* Finishes, for every table, what a dead process left between a commit and its final name. Run once by
     * whoever takes the lead; stops early when cancel is set. Only the guard of terms is used. */
    lk_rc (*recover)(lk_engine *engine, lk_commit_terms terms, lk_cancel *cancel, lk_err *err);
    /* Opens one exact version. LK_E_SNAPSHOT_GONE when it was reclaimed. Read-only: never writes. */
    lk_rc (*open)(lk_engine *engine, lk_table_at at, lk_table_snapshot **out, lk_err *err);
    void (*close)(lk_engine *engine);
};

struct lk_engine {
    const struct lk_engine_ops *ops;
    lk_bytes                    kind; /* "lance" */
};

/* A snapshot outlives its scans. Lance's reads its dataset; the mem engine gives its own body, without take. */
struct lk_table_snapshot_ops {
    const struct ArrowSchema *(*schema)(const lk_table_snapshot *snapshot);
    uint64_t (*row_count)(const lk_table_snapshot *snapshot);
    lk_rc (*scan)(lk_table_snapshot *snapshot, const lk_scan_options *options, lk_batches **out, lk_err *err);
    lk_rc (*morsels)(
        lk_table_snapshot *snapshot, const lk_scan_options *options, lk_morsel_scan **out, lk_err *err);
    /* Rows by address (lance/take.h). NULL: its rows have no addresses, and scans know no meta columns. */
    lk_rc (*take)(lk_table_snapshot *snapshot, const lk_take_rows *rows, const lk_scan_options *options,
        lk_batches **out, lk_err *err);
    size_t (*bytes)(const lk_table_snapshot *snapshot);
    void (*free)(lk_table_snapshot *snapshot);
};
struct lk_table_snapshot {
    const struct lk_table_snapshot_ops *ops;
    atomic_uint                         refs;
};

lk_table_snapshot *lk_table_snapshot_ref(lk_table_snapshot *snapshot);
void               lk_table_snapshot_unref(lk_table_snapshot *snapshot); /* accepts NULL */

#endif
