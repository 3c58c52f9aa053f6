#ifndef LK_MODEL_IDS_H
#define LK_MODEL_IDS_H
/*
 * ids.h - names and ids with one rule each, checked at every door.
 *   namespace: 1..128 of [A-Za-z0-9_-]    table: 1..255 of the same    (no dots: `ns.table` splits at one)
 *   tenant:    1..64 of [A-Za-z0-9_-], first and last alphanumeric
 *   operation id: UUIDv7, kept in lower case          payload digest: 64 lower-case hex digits
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/uuid.h"

typedef struct lk_table_ref {
    lk_bytes ns, name; /* borrowed */
} lk_table_ref;

LK_MUST_CHECK lk_rc lk_namespace_check(
    lk_bytes ns, lk_err *err); /* LK_E_INVALID_IDENTIFIER, with the rule as detail */
LK_MUST_CHECK lk_rc lk_table_name_check(lk_bytes name, lk_err *err);
LK_MUST_CHECK lk_rc lk_tenant_check(lk_bytes tenant, lk_err *err);
LK_MUST_CHECK lk_rc lk_table_ref_check(lk_table_ref table, lk_err *err);
/* "ns.table" -> both parts, borrowed from text. */
LK_MUST_CHECK lk_rc lk_table_ref_parse(lk_bytes text, lk_table_ref *out, lk_err *err);
int                 lk_table_ref_compare(lk_table_ref a, lk_table_ref b);

/* Canonical lower-case text in the arena; LK_E_INVALID_REQUEST unless a v7 UUID. */
LK_MUST_CHECK lk_rc lk_operation_id_parse(lk_bytes text, lk_arena *arena, lk_bytes *out, lk_err *err);
LK_MUST_CHECK lk_rc lk_payload_digest_check(lk_bytes text, lk_err *err);

#endif
