/*
 * tag.c - tags: names that are made, moved and deleted. See refs.h.
 *
 * A tag is made by put-if-absent and moved by replacing its file, so of two who make one name exactly one wins. A
 * version may be cleaned up while it gets its tag: it is looked for again once the tag stands.
 */
#include "lance/refs.h"

#include "base/json.h"
#include "base/limits.h"
#include "lance/manifest.h"

#include <inttypes.h>
#include <time.h>

/* -- names ------------------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

static const char *broken_rule(lk_bytes name)
{
    lk_bytes lock = LK_LITERAL(".lock");
    if (name.size == 0 || name.size > LK_TAG_NAME_BYTES_MAX) {
        return "has 1 to 200 characters";
    }
    for (size_t i = 0; i < name.size; i++) {
        if (!is_letter(name.data[i])) {
            return "is made of letters, digits, '.', '-' and '_'";
        }
        if (i > 0 && name.data[i] == '.' && name.data[i - 1] == '.') {
            return "has no two dots in a row";
        }
    }
    if (name.data[0] == '.' || name.data[name.size - 1] == '.') {
        return "neither begins nor ends with a dot";
    }
    bool locked =
        name.size >= lock.size && memcmp(name.data + name.size - lock.size, lock.data, lock.size) == 0;
    return locked ? "does not end in .lock" : NULL;
}

lk_rc lk_tag_check_name(lk_bytes name, lk_err *err)
{
    const char *rule = broken_rule(name);
    return rule == NULL ? LK_OK : lk_refuse(err, LK_E_INVALID_REQUEST, "a tag's name %s", rule);
}

/* -- what a tag's file says --------------------------------------------------------------------------- */

typedef struct tag_record {
    uint64_t version, manifest_size;
    lk_bytes created_at, metadata; /* as JSON; empty: none */
} tag_record;

static void put_time(lk_json_writer *w, const char *key, uint64_t wall_ms)
{
    enum { MS_PER_SECOND = 1000 };
    struct tm broken;
    char      text[40];
    time_t    seconds = (time_t)(wall_ms / MS_PER_SECOND);
    lk_buf    stamp = {0};
    LK_ASSERT(gmtime_r(&seconds, &broken) != NULL);
    size_t size = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &broken);
    lk_buf_format(&stamp, "%.*s.%03uZ", (int)size, text, (unsigned)(wall_ms % MS_PER_SECOND));
    lk_json_key(w, key);
    lk_json_text(w, lk_buf_view(&stamp));
    lk_buf_deinit(&stamp);
}

static void write_record(const tag_record *record, lk_clock *clock, lk_buf *out)
{
    lk_json_writer w = {.out = out};
    uint64_t       now_ms = lk_clock_wall_ms(clock);
    lk_json_object(&w);
    lk_json_key(&w, "branch");
    lk_json_null(&w);
    lk_json_key(&w, "version");
    lk_json_u64(&w, record->version);
    if (record->created_at.size > 0) {
        lk_json_key(&w, "createdAt");
        lk_json_raw(&w, record->created_at);
    } else {
        put_time(&w, "createdAt", now_ms);
    }
    put_time(&w, "updatedAt", now_ms);
    lk_json_key(&w, "manifestSize");
    lk_json_u64(&w, record->manifest_size);
    lk_json_key(&w, "metadata");
    lk_json_raw(&w, record->metadata.size > 0 ? record->metadata : LK_LITERAL("{}"));
    lk_json_object_end(&w);
}

/* What a moved tag keeps. */
static lk_rc read_kept(lk_bytes text, lk_arena *arena, tag_record *record, lk_err *err)
{
    lk_bytes            ignored = {0};
    const lk_json_field fields[] = {
        {"version", LK_JSON_RAW, &ignored, false, NULL},
        {"branch", LK_JSON_RAW, &ignored, true, NULL},
        {"createdAt", LK_JSON_RAW, &record->created_at, true, NULL},
        {"updatedAt", LK_JSON_RAW, &ignored, true, NULL},
        {"manifestSize", LK_JSON_RAW, &ignored, true, NULL},
        {"metadata", LK_JSON_RAW, &record->metadata, true, NULL},
    };
    lk_err json_err = {0};
    if (lk_json_read(text, fields, sizeof fields / sizeof fields[0], arena, &json_err) != LK_OK) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "%s", json_err.detail);
    }
    return LK_OK;
}

static lk_bytes tag_key(lk_bytes name, lk_arena *arena)
{
    return lk_arena_format(arena, "_refs/tags/%.*s.json", LK_FMT(name));
}

static lk_rc no_such_tag(lk_bytes name, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_NOT_FOUND, "tag %.*s", LK_FMT(name));
    lk_detail(err, "there is no tag %.*s", LK_FMT(name));
    return rc;
}

static lk_rc load_kept(lk_store *store, lk_bytes name, lk_arena *arena, tag_record *record, lk_err *err)
{
    lk_bytes bytes = {0};
    bool     found = false;
    lk_rc    rc =
        lk_store_load_if_there(store, tag_key(name, arena), LK_REF_BYTES_MAX, arena, &bytes, &found, err);
    if (rc == LK_OK && !found) {
        return no_such_tag(name, err);
    }
    if (rc == LK_OK) {
        rc = read_kept(bytes, arena, record, err);
    }
    if (rc != LK_OK) {
        lk_context(err, "tag %.*s", LK_FMT(name));
    }
    return rc;
}

/* -- the version --------------------------------------------------------------------------------------- */

static lk_rc open_version(lk_store *store, uint64_t version, lk_arena *arena, lk_bytes *key,
    lk_store_reader **reader, uint64_t *size, lk_err *err)
{
    lk_err first = {0};
    *key = lk_manifest_key(version, LK_MANIFEST_V2, arena);
    lk_rc rc = lk_store_open_object(store, *key, reader, size, &first);
    if (rc == LK_E_NOT_FOUND) {
        *key = lk_manifest_key(version, LK_MANIFEST_V1, arena);
        return lk_store_open_object(store, *key, reader, size, err);
    }
    if (rc != LK_OK) {
        *err = first;
    }
    return rc;
}

/* LK_E_NOT_FOUND unless the version is there; *size is that of its manifest. */
static lk_rc find_version(lk_store *store, uint64_t version, uint64_t *size, lk_err *err)
{
    lk_arena         arena = {0};
    lk_bytes         key = {0};
    lk_store_reader *reader = NULL;
    lk_manifest     *manifest = NULL;
    lk_rc            rc = open_version(store, version, &arena, &key, &reader, size, err);
    lk_store_reader_close(reader);
    if (rc == LK_OK) {
        rc = lk_manifest_read(store, key, &manifest, err);
    }
    if (rc == LK_E_NOT_FOUND) {
        lk_detail(err, "there is no version %" PRIu64, version);
    }
    if (rc == LK_OK && manifest->branch.size > 0) {
        rc = lk_refuse(err, LK_E_PRECONDITION, "this is the branch %.*s; tags are kept in its main table",
            LK_FMT(manifest->branch));
    }
    lk_manifest_close(manifest);
    lk_arena_close(&arena);
    return rc;
}

/* -- changes ------------------------------------------------------------------------------------------- */

lk_rc lk_tag_create(lk_store *store, lk_clock *clock, lk_bytes name, uint64_t version, lk_err *err)
{
    lk_arena   arena = {0};
    lk_buf     text = {0};
    bool       created = false;
    tag_record record = {.version = version};
    lk_rc      rc = lk_tag_check_name(name, err);
    if (rc == LK_OK) {
        rc = find_version(store, version, &record.manifest_size, err);
    }
    if (rc == LK_OK) {
        write_record(&record, clock, &text);
        rc = lk_store_put_if_absent(store, tag_key(name, &arena), lk_buf_view(&text), &created, err);
        if (rc == LK_OK && !created) {
            rc = lk_refuse(err, LK_E_PRECONDITION, "a tag %.*s exists already", LK_FMT(name));
        }
    }
    if (rc == LK_OK) { /* a cleanup that did not see the tag may have been at work */
        rc = find_version(store, version, &record.manifest_size, err);
        err->maybe_applied = rc != LK_OK && rc != LK_E_NOT_FOUND;
        lk_err ignored = {0};
        if (rc == LK_E_NOT_FOUND && lk_store_remove(store, tag_key(name, &arena), &ignored) != LK_OK) {
            err->maybe_applied = true;
        }
    }
    lk_buf_deinit(&text);
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_tag_move(lk_store *store, lk_clock *clock, lk_bytes name, uint64_t version, lk_err *err)
{
    lk_arena   arena = {0};
    lk_buf     text = {0};
    tag_record record = {.version = version};
    lk_rc      rc = lk_tag_check_name(name, err);
    if (rc == LK_OK) {
        rc = load_kept(store, name, &arena, &record, err);
    }
    if (rc == LK_OK) {
        rc = find_version(store, version, &record.manifest_size, err);
    }
    if (rc == LK_OK) {
        write_record(&record, clock, &text);
        rc = lk_store_replace(store, tag_key(name, &arena), lk_buf_view(&text), err);
    }
    lk_buf_deinit(&text);
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_tag_delete(lk_store *store, lk_bytes name, lk_err *err)
{
    lk_arena   arena = {0};
    tag_record record = {0};
    lk_rc      rc = lk_tag_check_name(name, err);
    if (rc == LK_OK) {
        rc = load_kept(store, name, &arena, &record, err);
    }
    if (rc == LK_OK || rc == LK_E_CORRUPT_FILE) { /* a damaged tag may go as well */
        rc = lk_store_remove(store, tag_key(name, &arena), err);
    }
    lk_arena_close(&arena);
    return rc;
}
