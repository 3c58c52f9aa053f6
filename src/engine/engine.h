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
 *
 * Threads: shared. Calls block and do I/O: no lock may be held.
 */
#include "arrow/batch.h"
#include "arrow/predicate.h"
#include "base/thread.h"
#include "lance/dataset.h"

typedef struct lk_engine lk_engine;
typedef struct lk_table_snapshot lk_table_snapshot; /* one pinned version; refcounted, immutable */

typedef struct lk_table_at {
    lk_bytes location, incarnation;
    uint64_t version; /* ignored by create */
} lk_table_at;

typedef struct lk_append_request {
    lk_table_at at;        /* version = the base to commit on */
    lk_bytes    tenant, operation_id, payload_sha256;
    lk_bytes    guard_key, guard_value; /* leader evidence for the pointer; empty: unguarded */
    lk_batches *rows;      /* borrowed; consumed */
} lk_append_request;

typedef enum lk_reconciled { LK_RECONCILED_ABSENT, LK_RECONCILED_COMMITTED, LK_RECONCILED_UNKNOWN } lk_reconciled;

struct lk_engine_ops {
    lk_rc (*create)(lk_engine *engine, lk_table_at at, const struct ArrowSchema *schema, lk_bytes guard_key,
        lk_bytes guard_value, uint64_t *version, lk_err *err);
    lk_rc (*append)(lk_engine *engine, const lk_append_request *request, uint64_t *version, lk_err *err);
    /* Looks for the operation's commit above base (newest head included). COMMITTED fills *version. */
    lk_rc (*reconcile)(lk_engine *engine, lk_table_at base, lk_bytes tenant, lk_bytes operation_id,
        lk_bytes payload_sha256, lk_reconciled *out, uint64_t *version, lk_err *err);
    lk_rc (*head)(lk_engine *engine, lk_table_at at, uint64_t *version, lk_err *err); /* newest committed */
    /* Removes data and history of the incarnation; idempotent; a recreated table at another location is safe. */
    lk_rc (*remove)(lk_engine *engine, lk_table_at at, lk_bytes guard_key, lk_bytes guard_value, lk_err *err);
    /* Opens one exact version. LK_E_SNAPSHOT_GONE when it was reclaimed. Read-only: never writes. */
    lk_rc (*open)(lk_engine *engine, lk_table_at at, lk_table_snapshot **out, lk_err *err);
    void (*close)(lk_engine *engine);
};

struct lk_engine {
    const struct lk_engine_ops *ops;
    lk_bytes                    kind; /* "lance" */
};

/* A snapshot is scanned through its Lance dataset; the mem engine gives its own body. */
struct lk_table_snapshot_ops {
    const struct ArrowSchema *(*schema)(const lk_table_snapshot *snapshot);
    uint64_t (*row_count)(const lk_table_snapshot *snapshot);
    lk_rc (*scan)(lk_table_snapshot *snapshot, const lk_scan_options *options, lk_batches **out, lk_err *err);
    lk_rc (*morsels)(lk_table_snapshot *snapshot, const lk_scan_options *options, lk_morsel_scan **out, lk_err *err);
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
