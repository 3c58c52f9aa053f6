/*
 * refs.c - see refs.h. One small JSON object per file; a '/' in a branch's name is %2F in its file's.
 */
#include "lance/refs.h"

#include "base/json.h"
#include "base/limits.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct kind {
    const char *directory, *version_field, *branch_field;
} kinds[] = {
    [LK_REF_TAG] = {"_refs/tags", "version", "branch"},
    [LK_REF_BRANCH] = {"_refs/branches", "parentVersion", "parentBranch"},
};

static lk_rc parse(lk_bytes text, lk_arena *arena, lk_ref *ref, lk_err *err)
{
    lk_bytes            ignored = {0};
    const struct kind  *kind = &kinds[ref->kind];
    const lk_json_field fields[] = {
        {kind->version_field, LK_JSON_U64, &ref->version, false, NULL},
        {kind->branch_field, LK_JSON_TEXT, &ref->branch, true, NULL},
        {"createdAt", LK_JSON_RAW, &ignored, true, NULL},
        {"updatedAt", LK_JSON_RAW, &ignored, true, NULL},
        {"createAt", LK_JSON_RAW, &ignored, true, NULL},
        {"manifestSize", LK_JSON_RAW, &ignored, true, NULL},
        {"metadata", LK_JSON_RAW, &ignored, true, NULL},
        {"identifier", LK_JSON_RAW, &ignored, true, NULL},
    };
    lk_err json_err = {0};
    if (lk_json_read(text, fields, sizeof fields / sizeof fields[0], arena, &json_err) != LK_OK) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "%s", json_err.detail);
    }
    return LK_OK;
}

/* "feat%2Fx" is the branch feat/x. */
static lk_bytes decode_name(lk_bytes stem, lk_arena *arena)
{
    char  *out = lk_arena_take(arena, stem.size + 1);
    size_t size = 0;
    for (size_t at = 0; at < stem.size; at++) {
        bool slash = stem.size - at >= 3 && memcmp(stem.data + at, "%2F", 3) == 0;
        out[size++] = slash ? '/' : stem.data[at];
        at += slash ? 2 : 0;
    }
    return (lk_bytes){out, size};
}

static int compare_refs(const void *a, const void *b)
{
    const lk_ref *left = a, *right = b;
    return left->kind != right->kind ? (int)left->kind - (int)right->kind
                                     : lk_bytes_compare(left->name, right->name);
}

static lk_rc add_kind(lk_store *store, lk_ref_kind kind, lk_arena *arena, lk_buf *refs, lk_err *err)
{
    lk_bytes        suffix = LK_LITERAL(".json");
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    lk_rc rc = lk_store_list(store, lk_bytes_of(kinds[kind].directory), arena, &entries, &count, err);
    for (size_t i = 0; i < count && rc == LK_OK; i++) {
        lk_bytes name = entries[i].name, text = {0};
        if (name.size <= suffix.size || name.data[0] == '.' ||
            memcmp(name.data + name.size - suffix.size, suffix.data, suffix.size) != 0) {
            continue;
        }
        lk_ref   ref = {.kind = kind, .branch = {"", 0}};
        lk_bytes key = lk_arena_format(arena, "%s/%.*s", kinds[kind].directory, LK_FMT(name));
        ref.name = decode_name((lk_bytes){name.data, name.size - suffix.size}, arena);
        rc = lk_store_load(store, key, LK_REF_BYTES_MAX, arena, &text, err);
        if (rc == LK_OK) {
            rc = parse(text, arena, &ref, err);
        }
        if (rc != LK_OK) {
            lk_context(err, "%.*s", LK_FMT(key));
        }
        lk_buf_append(refs, &ref, sizeof ref);
    }
    return rc;
}

lk_rc lk_refs_list(lk_store *store, lk_arena *arena, lk_ref **refs, size_t *count, lk_err *err)
{
    lk_buf found = {0};
    lk_rc  rc = add_kind(store, LK_REF_TAG, arena, &found, err);
    if (rc == LK_OK) {
        rc = add_kind(store, LK_REF_BRANCH, arena, &found, err);
    }
    if (rc == LK_OK) {
        *count = found.size / sizeof **refs;
        *refs = lk_arena_take(arena, found.size);
        if (*count > 0) {
            memcpy(*refs, found.data, found.size);
            qsort(*refs, *count, sizeof **refs, compare_refs);
        }
    }
    lk_buf_deinit(&found);
    return rc;
}
