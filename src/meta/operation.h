#ifndef LK_META_OPERATION_H
#define LK_META_OPERATION_H
/*
 * operation.h - the durable memory of one append, and when it may be forgotten.
 *
 *   append-operation/v1/<tenant>/<ns>/<table>/<operation id>      the record
 *   append-expiry/v1/<10-digit hour>/<the record's key>           empty; the order in which records fall due
 *
 * Invariants:
 *   1. A record exists exactly when the operation's version exists: both come with one atomic write
 *      (append.h).
 *   2. It is due only when no clock that we allow for would still admit its id: it outlives every replay.
 *
 * Threads: stateless.
 */
#include "base/arena.h"
#include "base/err.h"
#include "kv/kv.h"
#include "model/ids.h"

typedef struct lk_operation {
    lk_bytes     tenant;
    lk_table_ref table;
    lk_bytes     incarnation, operation_id, payload_sha256;
    uint64_t     base_version, result_version, committed_at; /* seconds */
} lk_operation;

lk_bytes lk_operation_key(lk_arena *arena, lk_bytes tenant, lk_table_ref table, lk_bytes operation_id);
lk_bytes lk_operation_encode(lk_arena *arena, const lk_operation *operation);

/* LK_E_CORRUPT_RECORD when unreadable or not the record that its key names. */
LK_MUST_CHECK lk_rc lk_operation_load(
    lk_kv *kv, lk_bytes key, lk_arena *arena, lk_operation *out, lk_bytes *raw, bool *found, lk_err *err);

/* LK_E_OPERATION_FUTURE beyond LK_OPERATION_SKEW_SECS ahead, LK_E_OPERATION_EXPIRED beyond retention. */
LK_MUST_CHECK lk_rc lk_operation_check_time(
    lk_bytes operation_id, uint64_t now_secs, uint64_t retention_secs, lk_err *err);

#define LK_OPERATION_EXPIRY_PREFIX LK_LITERAL("append-expiry/v1/")
lk_bytes lk_operation_expiry_key(
    lk_arena *arena, const lk_operation *operation, lk_bytes key, uint64_t retention_secs);
/* Takes an expiry key apart: the hour (since 1970) at whose start it is due, and the record's key in it. */
LK_MUST_CHECK lk_rc lk_operation_expiry_parse(
    lk_bytes expiry_key, uint64_t *hour, lk_bytes *key, lk_err *err);

#endif
