/* operation.c - see operation.h. */
#include "meta/operation.h"

#include "base/json.h"
#include "base/limits.h"

#include <inttypes.h>

enum { FORMAT_VERSION = 1, HOUR_SECS = 3600, HOUR_DIGITS = 10 };

lk_bytes lk_operation_key(lk_arena *arena, lk_bytes tenant, lk_table_ref table, lk_bytes operation_id)
{
    return lk_arena_format(arena, "append-operation/v1/%.*s/%.*s/%.*s/%.*s", LK_FMT(tenant), LK_FMT(table.ns),
        LK_FMT(table.name), LK_FMT(operation_id));
}

lk_bytes lk_operation_encode(lk_arena *arena, const lk_operation *operation)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    lk_json_key(&w, "format_version");
    lk_json_u64(&w, FORMAT_VERSION);
    lk_json_key(&w, "tenant");
    lk_json_text(&w, operation->tenant);
    lk_json_key(&w, "namespace");
    lk_json_text(&w, operation->table.ns);
    lk_json_key(&w, "table");
    lk_json_text(&w, operation->table.name);
    lk_json_key(&w, "table_incarnation");
    lk_json_text(&w, operation->incarnation);
    lk_json_key(&w, "operation_id");
    lk_json_text(&w, operation->operation_id);
    lk_json_key(&w, "payload_sha256");
    lk_json_text(&w, operation->payload_sha256);
    lk_json_key(&w, "base_version");
    lk_json_u64(&w, operation->base_version);
    lk_json_key(&w, "result_version");
    lk_json_u64(&w, operation->result_version);
    lk_json_key(&w, "committed_at");
    lk_json_u64(&w, operation->committed_at);
    lk_json_object_end(&w);
    lk_bytes copy = lk_arena_copy(arena, lk_buf_view(&text));
    lk_buf_deinit(&text);
    return copy;
}

static lk_rc decode(lk_bytes key, lk_bytes raw, lk_arena *arena, lk_operation *out, lk_err *err)
{
    uint64_t            format = 0;
    const lk_json_field fields[] = {
        {"format_version", LK_JSON_U64, &format, false, NULL},
        {"tenant", LK_JSON_TEXT, &out->tenant, false, NULL},
        {"namespace", LK_JSON_TEXT, &out->table.ns, false, NULL},
        {"table", LK_JSON_TEXT, &out->table.name, false, NULL},
        {"table_incarnation", LK_JSON_TEXT, &out->incarnation, false, NULL},
        {"operation_id", LK_JSON_TEXT, &out->operation_id, false, NULL},
        {"payload_sha256", LK_JSON_TEXT, &out->payload_sha256, false, NULL},
        {"base_version", LK_JSON_U64, &out->base_version, false, NULL},
        {"result_version", LK_JSON_U64, &out->result_version, false, NULL},
        {"committed_at", LK_JSON_U64, &out->committed_at, false, NULL},
    };
    lk_err cause = {0};
    if (lk_json_read(raw, fields, sizeof fields / sizeof fields[0], arena, &cause) != LK_OK) {
        return lk_fail(err, LK_E_CORRUPT_RECORD, "%.*s: %s", LK_FMT(key), cause.context);
    }
    lk_bytes named = lk_operation_key(arena, out->tenant, out->table, out->operation_id);
    if (format != FORMAT_VERSION || !lk_bytes_equal(named, key) || out->result_version <= out->base_version) {
        return lk_fail(err, LK_E_CORRUPT_RECORD, "%.*s: not the record of its key", LK_FMT(key));
    }
    return LK_OK;
}

lk_rc lk_operation_load(
    lk_kv *kv, lk_bytes key, lk_arena *arena, lk_operation *out, lk_bytes *raw, bool *found, lk_err *err)
{
    *out = (lk_operation){0};
    lk_rc rc = lk_kv_get(kv, key, arena, raw, found, err);
    return rc != LK_OK || !*found ? rc : decode(key, *raw, arena, out, err);
}

static uint64_t id_secs(lk_bytes operation_id)
{
    lk_uuid id;
    LK_ASSERT(lk_uuid_parse(operation_id, &id)); /* checked at the door */
    return lk_uuid_v7_ms(id) / 1000;
}

lk_rc lk_operation_check_time(lk_bytes operation_id, uint64_t now_secs, uint64_t retention_secs, lk_err *err)
{
    uint64_t made = id_secs(operation_id);
    if (made > now_secs + LK_OPERATION_SKEW_SECS) {
        return lk_fail(err, LK_E_OPERATION_FUTURE, "%" PRIu64 " s ahead", made - now_secs);
    }
    if (now_secs > made && now_secs - made > retention_secs) {
        return lk_fail(err, LK_E_OPERATION_EXPIRED, "%" PRIu64 " s old", now_secs - made);
    }
    return LK_OK;
}

lk_bytes lk_operation_expiry_key(
    lk_arena *arena, const lk_operation *operation, lk_bytes key, uint64_t retention_secs)
{
    uint64_t made = id_secs(operation->operation_id);
    uint64_t newest = made > operation->committed_at ? made : operation->committed_at;
    uint64_t due = newest + retention_secs + 2 * LK_OPERATION_SKEW_SECS;
    return lk_arena_format(arena, "append-expiry/v1/%010" PRIu64 "/%.*s", due / HOUR_SECS + 1, LK_FMT(key));
}

lk_rc lk_operation_expiry_parse(lk_bytes expiry_key, uint64_t *hour, lk_bytes *key, lk_err *err)
{
    size_t skip = LK_OPERATION_EXPIRY_PREFIX.size;
    bool   whole = lk_bytes_starts(expiry_key, LK_OPERATION_EXPIRY_PREFIX) &&
                 expiry_key.size > skip + HOUR_DIGITS + 1 && expiry_key.data[skip + HOUR_DIGITS] == '/';
    *hour = 0;
    for (size_t i = skip; whole && i < skip + HOUR_DIGITS; i++) {
        whole = expiry_key.data[i] >= '0' && expiry_key.data[i] <= '9';
        *hour = *hour * 10 + (uint64_t)(expiry_key.data[i] - '0');
    }
    if (!whole) {
        return lk_fail(err, LK_E_CORRUPT_RECORD, "%.*s: not an expiry key", LK_FMT(expiry_key));
    }
    skip += HOUR_DIGITS + 1;
    *key = (lk_bytes){expiry_key.data + skip, expiry_key.size - skip};
    return LK_OK;
}
