/* ids.c - see ids.h. */
#include "model/ids.h"

#include "base/limits.h"

enum { TENANT_BYTES_MAX = 64, DIGEST_DIGITS = 64 };

static bool alphanumeric(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool name_is(lk_bytes name, size_t size_max)
{
    for (size_t i = 0; i < name.size; i++) {
        if (!alphanumeric(name.data[i]) && name.data[i] != '_' && name.data[i] != '-') {
            return false;
        }
    }
    return name.size >= 1 && name.size <= size_max;
}

static lk_rc check_name(lk_bytes name, size_t size_max, const char *what, lk_err *err)
{
    if (name_is(name, size_max)) {
        return LK_OK;
    }
    return lk_refuse(err, LK_E_INVALID_IDENTIFIER, "a %s is 1 to %zu of A-Z a-z 0-9 _ -", what, size_max);
}

lk_rc lk_namespace_check(lk_bytes ns, lk_err *err)
{
    return check_name(ns, LK_NAMESPACE_BYTES_MAX, "namespace", err);
}

lk_rc lk_table_name_check(lk_bytes name, lk_err *err)
{
    return check_name(name, LK_TABLE_NAME_BYTES_MAX, "table name", err);
}

lk_rc lk_tenant_check(lk_bytes tenant, lk_err *err)
{
    if (name_is(tenant, TENANT_BYTES_MAX) && alphanumeric(tenant.data[0]) &&
        alphanumeric(tenant.data[tenant.size - 1])) {
        return LK_OK;
    }
    return lk_refuse(err, LK_E_INVALID_IDENTIFIER,
        "a tenant is 1 to %d of A-Z a-z 0-9 _ -, and begins and ends with a letter or digit",
        TENANT_BYTES_MAX);
}

lk_rc lk_table_ref_check(lk_table_ref table, lk_err *err)
{
    lk_rc rc = lk_namespace_check(table.ns, err);
    return rc == LK_OK ? lk_table_name_check(table.name, err) : rc;
}

lk_rc lk_table_ref_parse(lk_bytes text, lk_table_ref *out, lk_err *err)
{
    const char *dot = text.size == 0 ? NULL : memchr(text.data, '.', text.size);
    if (dot == NULL) {
        return lk_refuse(err, LK_E_INVALID_IDENTIFIER, "a table is written namespace.table");
    }
    size_t       ns_size = (size_t)(dot - text.data);
    lk_table_ref table = {{text.data, ns_size}, {dot + 1, text.size - ns_size - 1}};
    lk_rc        rc = lk_table_ref_check(table, err);
    if (rc == LK_OK) {
        *out = table;
    }
    return rc;
}

int lk_table_ref_compare(lk_table_ref a, lk_table_ref b)
{
    int order = lk_bytes_compare(a.ns, b.ns);
    return order != 0 ? order : lk_bytes_compare(a.name, b.name);
}

lk_rc lk_operation_id_parse(lk_bytes text, lk_arena *arena, lk_bytes *out, lk_err *err)
{
    lk_uuid uuid;
    char    canonical[LK_UUID_TEXT_SIZE + 1];
    if (!lk_uuid_parse(text, &uuid) || lk_uuid_version(uuid) != 7 || (uuid.bytes[8] & 0xC0) != 0x80) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "an operation id is a version 7 UUID");
    }
    lk_uuid_format(uuid, canonical);
    *out = lk_arena_copy(arena, lk_bytes_of(canonical));
    return LK_OK;
}

lk_rc lk_payload_digest_check(lk_bytes text, lk_err *err)
{
    bool good = text.size == DIGEST_DIGITS;
    for (size_t i = 0; good && i < text.size; i++) {
        char c = text.data[i];
        good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    }
    return good ? LK_OK
                : lk_refuse(err, LK_E_INVALID_REQUEST, "a payload digest is %d lower-case hex digits",
                      DIGEST_DIGITS);
}
