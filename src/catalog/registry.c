/* registry.c - see registry.h for the records and invariants. */
#include "catalog/registry.h"

#include "base/json.h"

#include <inttypes.h>

enum { LOAD_ATTEMPTS = 8 }; /* the two records are read apart; a drop and create may pass between */

static lk_bytes table_key(lk_arena *arena, lk_bytes family, lk_table_ref table)
{
    return lk_arena_format(arena, "%.*s%.*s/%.*s", LK_FMT(family), LK_FMT(table.ns), LK_FMT(table.name));
}

static lk_rc corrupt(lk_bytes key, const lk_err *cause, lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_RECORD, "%.*s: %s", LK_FMT(key), cause->context);
}

static bool split(lk_bytes key, size_t skip, lk_table_ref *out)
{
    lk_bytes    rest = {key.data + skip, key.size - skip};
    const char *slash = memchr(rest.data, '/', rest.size);
    if (slash == NULL) {
        return false;
    }
    out->ns = (lk_bytes){rest.data, (size_t)(slash - rest.data)};
    out->name = (lk_bytes){slash + 1, rest.size - out->ns.size - 1};
    return out->ns.size > 0 && out->name.size > 0;
}

/* -- records --------------------------------------------------------------------------------------- */
static lk_bytes finish(lk_arena *arena, lk_buf *text)
{
    lk_bytes copy = lk_arena_copy(arena, lk_buf_view(text));
    lk_buf_deinit(text);
    return copy;
}

static lk_bytes encode_descriptor(lk_arena *arena, const lk_registration *r)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    lk_json_key(&w, "location");
    lk_json_text(&w, r->location);
    lk_json_key(&w, "engine");
    lk_json_text(&w, r->engine);
    lk_json_key(&w, "incarnation_id");
    lk_json_text(&w, r->incarnation);
    lk_json_key(&w, "schema_ipc_base64");
    lk_json_base64(&w, r->schema_ipc);
    lk_json_object_end(&w);
    return finish(arena, &text);
}

static lk_bytes encode_version(lk_arena *arena, lk_bytes incarnation, uint64_t version)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    lk_json_key(&w, "incarnation_id");
    lk_json_text(&w, incarnation);
    lk_json_key(&w, "current_version");
    lk_json_u64(&w, version);
    lk_json_object_end(&w);
    return finish(arena, &text);
}

lk_rc lk_registry_decode_descriptor(
    lk_bytes key, lk_bytes raw, lk_arena *arena, lk_registration *out, lk_err *err)
{
    const lk_json_field fields[] = {
        {"location", LK_JSON_TEXT, &out->location, false, NULL},
        {"engine", LK_JSON_TEXT, &out->engine, false, NULL},
        {"incarnation_id", LK_JSON_TEXT, &out->incarnation, false, NULL},
        {"schema_ipc_base64", LK_JSON_BASE64, &out->schema_ipc, false, NULL},
    };
    lk_err cause = {0};
    if (lk_json_read(raw, fields, sizeof fields / sizeof fields[0], arena, &cause) != LK_OK) {
        return corrupt(key, &cause, err);
    }
    if (!split(key, LK_REGISTRY_DESCRIPTORS.size, &out->table)) {
        return lk_fail(err, LK_E_CORRUPT_RECORD, "%.*s: no table name", LK_FMT(key));
    }
    return LK_OK;
}

lk_rc lk_registry_decode_version(
    lk_bytes key, lk_bytes raw, lk_arena *arena, lk_bytes *incarnation, uint64_t *version, lk_err *err)
{
    const lk_json_field fields[] = {
        {"incarnation_id", LK_JSON_TEXT, incarnation, false, NULL},
        {"current_version", LK_JSON_U64, version, false, NULL},
    };
    lk_err cause = {0};
    if (lk_json_read(raw, fields, sizeof fields / sizeof fields[0], arena, &cause) != LK_OK) {
        return corrupt(key, &cause, err);
    }
    return LK_OK;
}

/* -- load ------------------------------------------------------------------------------------------ */
/* One look at both records. *whole = false: they are of different incarnations, or one is missing. */
static lk_rc look(lk_kv *kv, lk_table_ref table, lk_arena *arena, lk_table_record *out, bool *found,
    bool *whole, lk_err *err)
{
    lk_bytes key = table_key(arena, LK_REGISTRY_DESCRIPTORS, table);
    lk_bytes version_key = table_key(arena, LK_REGISTRY_VERSIONS, table);
    lk_bytes incarnation = {0};
    bool     has_version = false;
    lk_rc    rc = lk_kv_get(kv, key, arena, &out->descriptor_raw, found, err);
    if (rc == LK_OK) {
        rc = lk_kv_get(kv, version_key, arena, &out->version_raw, &has_version, err);
    }
    *whole = *found == has_version;
    if (rc != LK_OK || !*found || !has_version) {
        return rc;
    }
    rc = lk_registry_decode_descriptor(key, out->descriptor_raw, arena, &out->registration, err);
    if (rc == LK_OK) {
        rc = lk_registry_decode_version(
            version_key, out->version_raw, arena, &incarnation, &out->registration.version, err);
    }
    *whole = lk_bytes_equal(incarnation, out->registration.incarnation);
    return rc;
}

lk_rc lk_registry_load(
    lk_kv *kv, lk_table_ref table, lk_arena *arena, lk_table_record *out, bool *found, lk_err *err)
{
    bool  whole = false;
    lk_rc rc = LK_OK;
    for (int attempt = 0; rc == LK_OK && !whole && attempt < LOAD_ATTEMPTS; attempt++) {
        *out = (lk_table_record){0};
        rc = look(kv, table, arena, out, found, &whole, err);
    }
    if (rc == LK_OK && !whole) {
        rc = lk_fail(err, LK_E_CORRUPT_RECORD, "descriptor and version disagree");
    }
    if (rc != LK_OK) {
        lk_context(err, "load table %.*s.%.*s", LK_FMT(table.ns), LK_FMT(table.name));
    }
    return rc;
}

/* -- changes --------------------------------------------------------------------------------------- */
static const lk_bytes *keep(lk_arena *arena, lk_bytes bytes)
{
    lk_bytes *kept = lk_arena_take(arena, sizeof *kept);
    *kept = bytes;
    return kept;
}

/* The namespace's counter moved by one, up or down. */
static lk_rc count_namespace(
    lk_kv *kv, lk_bytes ns, bool up, lk_arena *arena, lk_kv_change *change, lk_err *err)
{
    lk_bytes            key = lk_arena_format(arena, "ns/%.*s", LK_FMT(ns)), raw = {0};
    uint64_t            tables = 0;
    bool                found = false;
    const lk_json_field fields[] = {{"tables", LK_JSON_U64, &tables, false, NULL}};
    lk_err              cause = {0};
    lk_rc               rc = lk_kv_get(kv, key, arena, &raw, &found, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (found && lk_json_read(raw, fields, 1, arena, &cause) != LK_OK) {
        return corrupt(key, &cause, err);
    }
    if (found == (tables == 0) || (!found && !up) || tables == UINT64_MAX) {
        return lk_fail(err, LK_E_CORRUPT_RECORD, "%.*s: does not count its tables", LK_FMT(key));
    }
    tables = up ? tables + 1 : tables - 1;
    *change = (lk_kv_change){.key = key,
        .expected = found ? keep(arena, raw) : NULL,
        .value =
            tables == 0 ? NULL : keep(arena, lk_arena_format(arena, "{\"tables\":%" PRIu64 "}", tables))};
    return LK_OK;
}

lk_rc lk_registry_insert(lk_kv *kv, const lk_registration *registration, lk_bytes generation, lk_arena *arena,
    lk_kv_change *changes, size_t *count, lk_err *err)
{
    lk_kv_change counter = {0};
    lk_rc        rc = count_namespace(kv, registration->table.ns, true, arena, &counter, err);
    if (rc != LK_OK) {
        return rc;
    }
    changes[(*count)++] =
        (lk_kv_change){.key = table_key(arena, LK_REGISTRY_DESCRIPTORS, registration->table),
            .value = keep(arena, encode_descriptor(arena, registration))};
    changes[(*count)++] = (lk_kv_change){.key = table_key(arena, LK_REGISTRY_VERSIONS, registration->table),
        .value = keep(arena, encode_version(arena, registration->incarnation, registration->version))};
    changes[(*count)++] = counter;
    changes[(*count)++] =
        (lk_kv_change){.key = LK_REGISTRY_GENERATION, .value = keep(arena, generation), .any = true};
    return LK_OK;
}

lk_rc lk_registry_erase(lk_kv *kv, const lk_table_record *record, lk_bytes generation, lk_arena *arena,
    lk_kv_change *changes, size_t *count, lk_err *err)
{
    lk_kv_change counter = {0};
    lk_table_ref table = record->registration.table;
    lk_rc        rc = count_namespace(kv, table.ns, false, arena, &counter, err);
    if (rc != LK_OK) {
        return rc;
    }
    changes[(*count)++] = (lk_kv_change){.key = table_key(arena, LK_REGISTRY_DESCRIPTORS, table),
        .expected = keep(arena, record->descriptor_raw)};
    changes[(*count)++] = (lk_kv_change){
        .key = table_key(arena, LK_REGISTRY_VERSIONS, table), .expected = keep(arena, record->version_raw)};
    changes[(*count)++] = counter;
    changes[(*count)++] =
        (lk_kv_change){.key = LK_REGISTRY_GENERATION, .value = keep(arena, generation), .any = true};
    return LK_OK;
}

lk_kv_change lk_registry_advance(const lk_table_record *record, uint64_t version, lk_arena *arena)
{
    LK_ASSERT(version > record->registration.version);
    return (lk_kv_change){.key = table_key(arena, LK_REGISTRY_VERSIONS, record->registration.table),
        .expected = keep(arena, record->version_raw),
        .value = keep(arena, encode_version(arena, record->registration.incarnation, version))};
}
