#ifndef LK_ENGINE_HISTORY_H
#define LK_ENGINE_HISTORY_H
/*
 * history.h - was this operation committed? Walks the versions above a base, newest first, by the pointer
 * and its archive, and compares the identity that each commit carries.
 *
 * Invariant: ABSENT only when every version from base + 1 to the head was looked at; a version that cannot be
 * found or read makes the answer UNKNOWN or an error, never ABSENT.
 * Threads: stateless.
 */
#include "engine/engine.h"

typedef struct lk_commit_identity { /* empty members: the commit carries none (create, maintenance) */
    lk_bytes tenant, operation_id, payload_sha256;
} lk_commit_identity;

/* Reads the identity of the manifest at path. *found = false when the manifest is gone. */
typedef struct lk_history_reader {
    lk_rc (*identity)(
        void *context, lk_bytes path, lk_arena *arena, lk_commit_identity *out, bool *found, lk_err *err);
    void *context;
} lk_history_reader;

/* As lk_engine_ops.reconcile; LK_E_OPERATION_CONFLICT when the operation committed another payload. */
LK_MUST_CHECK lk_rc lk_history_reconcile(lk_kv *kv, lk_table_at base, const lk_commit_identity *wanted,
    lk_history_reader reader, lk_reconciled *out, uint64_t *version, lk_err *err);

/* Every live pointer is given to visit, in pages; used to recover. Stops at the first error of the scan. */
LK_MUST_CHECK lk_rc lk_history_each_base(lk_kv *kv, lk_cancel       *cancel,
    lk_rc (*visit)(void *context, lk_bytes base, lk_err *err), void *context, lk_err *err);

#endif
