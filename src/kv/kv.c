/* kv.c - see kv_priv.h. */
#include "base/hash.h"
#include "base/limits.h"
#include "kv/kv_priv.h"

enum { DIGEST_DIGITS = 16 };
static const char cursor_version[] = "1:";

lk_rc lk_kv_key_check(lk_bytes key, lk_err *err)
{
    if (key.size == 0 || key.size > LK_KV_KEY_BYTES_MAX || !lk_bytes_are_utf8(key)) {
        return lk_fail(
            err, LK_E_INVALID_REQUEST, "a key of %zu bytes is empty, too long or not UTF-8", key.size);
    }
    return LK_OK;
}

static void assert_distinct(const lk_kv_write *write)
{
    LK_ASSERT(write->change_count >= 1 && write->change_count <= LK_KV_CHANGES_MAX);
    for (size_t i = 0; i < write->change_count; i++) {
        LK_ASSERT(!lk_bytes_equal(write->changes[i].key, write->guard_key));
        for (size_t j = 0; j < i; j++) {
            LK_ASSERT(!lk_bytes_equal(write->changes[i].key, write->changes[j].key));
        }
    }
}

lk_rc lk_kv_write_check(const lk_kv_write *write, lk_err *err)
{
    assert_distinct(write);
    lk_rc rc = write->guard_key.size == 0 ? LK_OK : lk_kv_key_check(write->guard_key, err);
    for (size_t i = 0; rc == LK_OK && i < write->change_count; i++) {
        const lk_kv_change *change = &write->changes[i];
        rc = lk_kv_key_check(change->key, err);
        if (rc == LK_OK && change->value != NULL && change->value->size > LK_KV_VALUE_BYTES_MAX) {
            rc = lk_fail(
                err, LK_E_LIMIT, "a value of %zu bytes for %.*s", change->value->size, LK_FMT(change->key));
        }
    }
    return rc;
}

bool lk_kv_change_holds(const lk_kv_change *change, bool found, lk_bytes present)
{
    if (change->any) {
        return true;
    }
    return change->expected == NULL ? !found : found && lk_bytes_equal(*change->expected, present);
}

static void prefix_digest(lk_bytes prefix, char out[DIGEST_DIGITS + 1])
{
    uint8_t digest[LK_SHA256_SIZE];
    lk_sha256_of(prefix, digest);
    lk_hex(digest, DIGEST_DIGITS / 2, out);
}

lk_bytes lk_kv_cursor_make(lk_bytes prefix, lk_bytes last_key, lk_arena *arena)
{
    char digest[DIGEST_DIGITS + 1];
    prefix_digest(prefix, digest);
    return lk_arena_format(arena, "%s%s:%.*s", cursor_version, digest, LK_FMT(last_key));
}

static bool cursor_parse(lk_bytes prefix, lk_bytes cursor, lk_bytes *last)
{
    char digest[DIGEST_DIGITS + 2];
    prefix_digest(prefix, digest);
    memcpy(digest + DIGEST_DIGITS, ":", 2);
    lk_bytes parts[] = {lk_bytes_of(cursor_version), lk_bytes_of(digest)};
    for (size_t i = 0; i < 2; i++) {
        if (!lk_bytes_starts(cursor, parts[i])) {
            return false;
        }
        cursor = (lk_bytes){cursor.data + parts[i].size, cursor.size - parts[i].size};
    }
    *last = cursor;
    return cursor.size > 0 && lk_bytes_starts(cursor, prefix) && lk_bytes_are_utf8(cursor);
}

lk_rc lk_kv_scan_check(lk_bytes prefix, lk_bytes cursor, size_t limit, lk_bytes *last, lk_err *err)
{
    *last = (lk_bytes){0};
    if (limit < 1 || limit > LK_KV_PAGE_ITEMS_MAX) {
        return lk_fail(err, LK_E_INVALID_REQUEST, "a scan page of %zu items", limit);
    }
    if (!lk_bytes_are_utf8(prefix)) {
        return lk_fail(err, LK_E_INVALID_REQUEST, "a scan prefix is not UTF-8");
    }
    if (cursor.size > 0 && !cursor_parse(prefix, cursor, last)) {
        return lk_fail(
            err, LK_E_INVALID_REQUEST, "a scan cursor does not belong to prefix %.*s", LK_FMT(prefix));
    }
    return LK_OK;
}
