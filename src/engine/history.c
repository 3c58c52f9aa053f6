/* history.c - see history.h. */
#include "engine/history.h"

#include "base/limits.h"
#include "engine/pointer.h"

static const char latest_prefix[] = "lance-manifest-latest/";

static lk_rc look_at(lk_kv *kv, lk_table_at at, const lk_commit_identity *wanted, lk_history_reader reader,
    lk_reconciled *out, uint64_t *version, lk_err *err)
{
    lk_arena           arena = {0};
    lk_bytes           path = {0};
    lk_commit_identity seen = {0};
    bool               found = false;
    lk_rc rc = lk_pointer_resolve(kv, at.location, at.incarnation, at.version, &arena, &path, &found, err);
    if (rc == LK_OK && found) {
        rc = reader.identity(reader.context, path, &arena, &seen, &found, err);
    }
    if (rc == LK_OK && !found) {
        *out = LK_RECONCILED_UNKNOWN;
    } else if (rc == LK_OK && lk_bytes_equal(seen.operation_id, wanted->operation_id) &&
               lk_bytes_equal(seen.tenant, wanted->tenant)) {
        *out = LK_RECONCILED_COMMITTED;
        *version = at.version;
        if (!lk_bytes_equal(seen.payload_sha256, wanted->payload_sha256)) {
            rc = lk_fail(err, LK_E_OPERATION_CONFLICT, "committed with another payload");
        }
    }
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_history_reconcile(lk_kv *kv, lk_table_at base, const lk_commit_identity *wanted,
    lk_history_reader reader, lk_reconciled *out, uint64_t *version, lk_err *err)
{
    lk_arena   arena = {0};
    lk_pointer head;
    LK_ASSERT(wanted->operation_id.size > 0);
    *out = LK_RECONCILED_ABSENT;
    lk_rc rc = lk_pointer_load(kv, base.location, &arena, &head, err);
    bool  ours =
        rc == LK_OK && head.state == LK_POINTER_LIVE && lk_bytes_equal(head.incarnation, base.incarnation);
    if (rc == LK_OK && (!ours || head.version < base.version)) {
        *out = LK_RECONCILED_UNKNOWN;
    }
    lk_table_at at = base;
    for (at.version = head.version;
         ours && rc == LK_OK && *out == LK_RECONCILED_ABSENT && at.version > base.version; at.version--) {
        rc = look_at(kv, at, wanted, reader, out, version, err);
    }
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_history_each_base(lk_kv *kv, lk_cancel                     *cancel,
    lk_rc (*visit)(void *context, lk_bytes base, lk_err *err), void *context, lk_err *err)
{
    lk_buf   cursor = {0};
    lk_bytes prefix = LK_LITERAL(latest_prefix);
    lk_rc    rc = LK_OK;
    do {
        lk_arena    page = {0};
        lk_kv_item *items = NULL;
        size_t      count = 0;
        lk_bytes    next = {0};
        rc = lk_kv_scan(
            kv, prefix, lk_buf_view(&cursor), LK_RECOVERY_PAGE_ITEMS, &page, &items, &count, &next, err);
        for (size_t i = 0; rc == LK_OK && i < count; i++) {
            lk_bytes base = {items[i].key.data + prefix.size, items[i].key.size - prefix.size};
            rc = lk_cancel_check(cancel, err);
            rc = rc == LK_OK ? visit(context, base, err) : rc;
        }
        lk_buf_clear(&cursor);
        lk_buf_append_bytes(&cursor, next);
        lk_arena_close(&page);
    } while (rc == LK_OK && cursor.size > 0);
    lk_buf_deinit(&cursor);
    return rc;
}
