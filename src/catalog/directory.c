/* directory.c - see directory.h. */
#include "catalog/directory.h"

#include "base/hash.h"
#include "base/limits.h"

#include <stdlib.h>

static const char no_generation[] = "00000000-0000-0000-0000-000000000000";

lk_rc lk_directory_generation(lk_kv *kv, lk_arena *arena, lk_bytes *generation, lk_err *err)
{
    bool  found = false;
    lk_rc rc = lk_kv_get(kv, LK_REGISTRY_GENERATION, arena, generation, &found, err);
    if (rc == LK_OK && !found) {
        *generation = LK_LITERAL(no_generation);
    }
    return rc;
}

/* -- the whole ------------------------------------------------------------------------------------- */
typedef struct listing {
    lk_arena        *arena;
    lk_registration *items;
    size_t           count, capacity;
    size_t           versioned; /* items whose version was found */
} listing;

static lk_registration *add(listing *l)
{
    if (l->count == l->capacity) {
        size_t           capacity = l->capacity == 0 ? LK_REGISTRY_PAGE_ITEMS : l->capacity * 2;
        lk_registration *items = lk_arena_take(l->arena, capacity * sizeof *items);
        if (l->count > 0) {
            memcpy(items, l->items, l->count * sizeof *items);
        }
        l->items = items;
        l->capacity = capacity;
    }
    return &l->items[l->count++];
}

static lk_rc take_descriptor(listing *l, const lk_kv_item *item, lk_err *err)
{
    if (l->count == LK_CATALOG_ENTRIES_MAX) {
        return lk_fail(err, LK_E_LIMIT, "more than %d tables", LK_CATALOG_ENTRIES_MAX);
    }
    return lk_registry_decode_descriptor(item->key, item->value, l->arena, add(l), err);
}

/* Both families list tables in the same order, so versions meet their descriptors in step. */
static lk_rc take_version(listing *l, const lk_kv_item *item, lk_err *err)
{
    lk_bytes incarnation = {0};
    uint64_t version = 0;
    lk_rc    rc = lk_registry_decode_version(item->key, item->value, l->arena, &incarnation, &version, err);
    if (rc != LK_OK || l->versioned == l->count) {
        return rc;
    }
    lk_registration *to = &l->items[l->versioned];
    if (lk_bytes_equal(to->incarnation, incarnation)) {
        to->version = version;
        l->versioned++;
    }
    return LK_OK;
}

static lk_rc scan_family(lk_kv *kv, lk_bytes family, listing *l,
    lk_rc (*take)(listing *l, const lk_kv_item *item, lk_err *err), lk_err *err)
{
    lk_bytes cursor = {0};
    lk_rc    rc = LK_OK;
    do {
        lk_kv_item *items = NULL;
        size_t      count = 0;
        lk_bytes    next = {0};
        rc = lk_kv_scan(kv, family, cursor, LK_REGISTRY_PAGE_ITEMS, l->arena, &items, &count, &next, err);
        for (size_t i = 0; rc == LK_OK && i < count; i++) {
            rc = take(l, &items[i], err);
        }
        cursor = next;
    } while (rc == LK_OK && cursor.size > 0);
    return rc;
}

static int by_table(const void *a, const void *b)
{
    return lk_table_ref_compare(((const lk_registration *)a)->table, ((const lk_registration *)b)->table);
}

static lk_rc scan_all(lk_kv *kv, listing *l, lk_err *err)
{
    lk_rc rc = scan_family(kv, LK_REGISTRY_DESCRIPTORS, l, take_descriptor, err);
    if (rc == LK_OK) {
        rc = scan_family(kv, LK_REGISTRY_VERSIONS, l, take_version, err);
    }
    return rc;
}

lk_rc lk_directory_read(lk_kv *kv, lk_bytes known, lk_arena *arena, bool *modified, lk_bytes *generation,
    lk_registration **items, size_t *count, lk_err *err)
{
    lk_bytes before = {0};
    *modified = false;
    lk_rc rc = lk_directory_generation(kv, arena, &before, err);
    if (rc != LK_OK || lk_bytes_equal(before, known)) {
        *generation = before;
        return rc;
    }
    for (int attempt = 0; attempt < LK_DIRECTORY_ATTEMPTS; attempt++) {
        listing  l = {.arena = arena};
        lk_bytes after = {0};
        rc = scan_all(kv, &l, err);
        if (rc == LK_OK) {
            rc = lk_directory_generation(kv, arena, &after, err);
        }
        if (rc != LK_OK) {
            return rc;
        }
        if (lk_bytes_equal(before, after)) {
            if (l.versioned != l.count) {
                return lk_fail(err, LK_E_CORRUPT_RECORD, "a table of the directory has no version");
            }
            if (l.count > 0) {
                qsort(l.items, l.count, sizeof *l.items, by_table);
            }
            *modified = true;
            *generation = after;
            *items = l.items;
            *count = l.count;
            return LK_OK;
        }
        before = after;
    }
    return lk_fail(
        err, LK_E_AUTHORITY_UNAVAILABLE, "the directory changed during %d scans", LK_DIRECTORY_ATTEMPTS);
}

/* -- pages ----------------------------------------------------------------------------------------- */
lk_rc lk_directory_check_page(lk_bytes continuation, size_t limit, lk_err *err)
{
    if (limit < 1 || limit > LK_PAGE_ITEMS_MAX) {
        lk_rc refused = lk_fail(err, LK_E_INVALID_REQUEST, "page limit %zu", limit);
        return lk_detail(err, "limit must be 1 to %d", LK_PAGE_ITEMS_MAX), refused;
    }
    if (continuation.size > LK_CONTINUATION_BYTES_MAX) {
        lk_rc refused = lk_fail(err, LK_E_INVALID_REQUEST, "continuation of %zu bytes", continuation.size);
        return lk_detail(err, "continuation is longer than %d bytes", LK_CONTINUATION_BYTES_MAX), refused;
    }
    return LK_OK;
}

/* The store's cursor may be any bytes; the page's continuation is text. */
static lk_rc page(lk_kv *kv, lk_bytes prefix, lk_bytes continuation, size_t limit, lk_arena *arena,
    lk_name_page *out, lk_err *err)
{
    lk_buf      cursor = {0};
    lk_kv_item *items = NULL;
    size_t      count = 0;
    lk_bytes    next = {0};
    *out = (lk_name_page){0};
    lk_rc rc = lk_directory_check_page(continuation, limit, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (!lk_base64_decode(continuation, false, &cursor)) {
        lk_buf_deinit(&cursor);
        lk_rc refused = lk_fail(err, LK_E_INVALID_REQUEST, "continuation is not base64");
        return lk_detail(err, "continuation is not from an earlier page"), refused;
    }
    rc = lk_kv_scan(kv, prefix, lk_buf_view(&cursor), limit, arena, &items, &count, &next, err);
    lk_buf_deinit(&cursor);
    if (rc != LK_OK) {
        return rc;
    }
    out->names = lk_arena_take(arena, (count + 1) * sizeof *out->names);
    for (size_t i = 0; i < count; i++) {
        out->names[i] = (lk_bytes){items[i].key.data + prefix.size, items[i].key.size - prefix.size};
    }
    out->count = count;
    if (next.size > 0) {
        lk_buf text = {0};
        lk_base64_append(&text, next);
        out->continuation = lk_arena_copy(arena, lk_buf_view(&text));
        lk_buf_deinit(&text);
    }
    return LK_OK;
}

lk_rc lk_directory_tables(lk_kv *kv, lk_bytes ns, lk_bytes continuation, size_t limit, lk_arena *arena,
    lk_name_page *out, lk_err *err)
{
    lk_bytes prefix = lk_arena_format(arena, "tbl/%.*s/", LK_FMT(ns));
    lk_rc    rc = lk_namespace_check(ns, err);
    return rc != LK_OK ? rc : page(kv, prefix, continuation, limit, arena, out, err);
}

lk_rc lk_directory_namespaces(
    lk_kv *kv, lk_bytes continuation, size_t limit, lk_arena *arena, lk_name_page *out, lk_err *err)
{
    return page(kv, LK_REGISTRY_NAMESPACES, continuation, limit, arena, out, err);
}
