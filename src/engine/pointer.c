/* pointer.c - see pointer.h for the states and invariants. */
#include "engine/pointer.h"

#include "base/json.h"

#include <inttypes.h>

enum { DELETE_PAGE = LK_KV_CHANGES_MAX };

static lk_bytes latest_key(lk_arena *arena, lk_bytes base)
{
    return lk_arena_format(arena, "lance-manifest-latest/%.*s", LK_FMT(base));
}

static lk_bytes history_prefix(lk_arena *arena, lk_bytes base)
{
    return lk_arena_format(arena, "lance-manifest/%.*s/", LK_FMT(base));
}

static lk_bytes history_key(lk_arena *arena, lk_bytes base, uint64_t version)
{
    return lk_arena_format(arena, "lance-manifest/%.*s/%020" PRIu64, LK_FMT(base), version);
}

lk_bytes lk_pointer_final_path(lk_arena *arena, uint64_t version)
{
    return lk_arena_format(arena, "_versions/%020" PRIu64 ".manifest", UINT64_MAX - version);
}

/* -- records -------------------------------------------------------------------------------------- */
static lk_bytes finish(lk_arena *arena, lk_buf *text)
{
    lk_bytes copy = lk_arena_copy(arena, lk_buf_view(text));
    lk_buf_deinit(text);
    return copy;
}

static lk_bytes encode_live(lk_arena *arena, lk_bytes incarnation, uint64_t version, lk_bytes path)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    lk_json_key(&w, "incarnation");
    lk_json_text(&w, incarnation);
    lk_json_key(&w, "version");
    lk_json_u64(&w, version);
    lk_json_key(&w, "path");
    lk_json_text(&w, path);
    lk_json_object_end(&w);
    return finish(arena, &text);
}

static lk_bytes encode_mark(lk_arena *arena, const char *state, lk_bytes incarnation)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    lk_json_key(&w, "state");
    lk_json_text(&w, lk_bytes_of(state));
    lk_json_key(&w, "incarnation");
    lk_json_text(&w, incarnation);
    lk_json_object_end(&w);
    return finish(arena, &text);
}

static lk_bytes encode_history(lk_arena *arena, lk_bytes incarnation, lk_bytes path)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    lk_json_key(&w, "incarnation");
    lk_json_text(&w, incarnation);
    lk_json_key(&w, "path");
    lk_json_text(&w, path);
    lk_json_object_end(&w);
    return finish(arena, &text);
}

static lk_rc corrupt(lk_bytes key, const lk_err *cause, lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_RECORD, "%.*s: %s", LK_FMT(key), cause->context);
}

static lk_rc decode(lk_bytes key, lk_bytes raw, lk_arena *arena, lk_pointer *out, lk_err *err)
{
    lk_bytes            state = {0};
    bool                has_state = false, has_version = false, has_path = false;
    const lk_json_field fields[] = {
        {"state", LK_JSON_TEXT, &state, true, &has_state},
        {"incarnation", LK_JSON_TEXT, &out->incarnation, false, NULL},
        {"version", LK_JSON_U64, &out->version, true, &has_version},
        {"path", LK_JSON_TEXT, &out->path, true, &has_path},
    };
    lk_err cause = {0};
    if (lk_json_read(raw, fields, sizeof fields / sizeof fields[0], arena, &cause) != LK_OK) {
        return corrupt(key, &cause, err);
    }
    out->raw = raw;
    if (!has_state && has_version && has_path) {
        out->state = LK_POINTER_LIVE;
        return LK_OK;
    }
    bool deleting = lk_bytes_equal(state, LK_LITERAL("deleting"));
    if (has_state && !has_version && !has_path &&
        (deleting || lk_bytes_equal(state, LK_LITERAL("deleted")))) {
        out->state = deleting ? LK_POINTER_DELETING : LK_POINTER_DELETED;
        return LK_OK;
    }
    return lk_fail(err, LK_E_CORRUPT_RECORD, "%.*s: neither live nor a delete mark", LK_FMT(key));
}

lk_rc lk_pointer_load(lk_kv *kv, lk_bytes base, lk_arena *arena, lk_pointer *out, lk_err *err)
{
    lk_bytes key = latest_key(arena, base), raw = {0};
    bool     found = false;
    *out = (lk_pointer){.state = LK_POINTER_ABSENT};
    lk_rc rc = lk_kv_get(kv, key, arena, &raw, &found, err);
    return rc != LK_OK || !found ? rc : decode(key, raw, arena, out, err);
}

/* -- claim ---------------------------------------------------------------------------------------- */
static bool follows(const lk_pointer *current, const lk_pointer_claim *claim)
{
    switch (current->state) {
    case LK_POINTER_ABSENT:
        return claim->version == 1;
    case LK_POINTER_LIVE:
        return claim->version == current->version + 1 &&
               lk_bytes_equal(claim->incarnation, current->incarnation);
    case LK_POINTER_DELETED:
        return claim->version == 1 && !lk_bytes_equal(claim->incarnation, current->incarnation);
    case LK_POINTER_DELETING:
        break;
    }
    return false;
}

lk_rc lk_pointer_claim_next(
    lk_kv *kv, const lk_pointer *current, const lk_pointer_claim *claim, bool *applied, lk_err *err)
{
    LK_ASSERT(claim->with_count + 2 <= LK_KV_CHANGES_MAX);
    *applied = false;
    if (!follows(current, claim)) {
        return lk_fail(err, LK_E_INVALID_REQUEST, "version %" PRIu64 " of %.*s does not follow what is there",
            claim->version, LK_FMT(claim->base));
    }
    lk_arena     arena = {0};
    lk_kv_change changes[LK_KV_CHANGES_MAX];
    size_t       count = 0;
    lk_bytes     next = encode_live(&arena, claim->incarnation, claim->version, claim->path);
    lk_bytes     archived = {0};
    changes[count++] = (lk_kv_change){.key = latest_key(&arena, claim->base),
        .expected = current->state == LK_POINTER_ABSENT ? NULL : &current->raw,
        .value = &next};
    if (current->state == LK_POINTER_LIVE) {
        archived =
            encode_history(&arena, current->incarnation, lk_pointer_final_path(&arena, current->version));
        changes[count++] =
            (lk_kv_change){.key = history_key(&arena, claim->base, current->version), .value = &archived};
    }
    for (size_t i = 0; i < claim->with_count; i++) {
        changes[count++] = claim->with[i];
    }
    const lk_kv_write write = {.changes = changes,
        .change_count = count,
        .guard_key = claim->guard_key,
        .guard_value = claim->guard_value};
    lk_rc             rc = lk_kv_put(kv, &write, applied, err);
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_pointer_finalize(lk_kv *kv, lk_bytes base, const lk_pointer *current, lk_bytes guard_key,
    lk_bytes guard_value, bool *applied, lk_err *err)
{
    LK_ASSERT(current->state == LK_POINTER_LIVE);
    lk_arena arena = {0};
    lk_bytes value = encode_live(
        &arena, current->incarnation, current->version, lk_pointer_final_path(&arena, current->version));
    const lk_kv_change change = {.key = latest_key(&arena, base), .expected = &current->raw, .value = &value};
    const lk_kv_write  write = {
         .changes = &change, .change_count = 1, .guard_key = guard_key, .guard_value = guard_value};
    *applied = false;
    lk_rc rc = lk_kv_put(kv, &write, applied, err);
    lk_arena_close(&arena);
    return rc;
}

/* -- resolve -------------------------------------------------------------------------------------- */
lk_rc lk_pointer_resolve(lk_kv *kv, lk_bytes base, lk_bytes incarnation, uint64_t version, lk_arena *arena,
    lk_bytes *path, bool *found, lk_err *err)
{
    lk_pointer current;
    lk_bytes   key = history_key(arena, base, version), raw = {0}, owner = {0};
    bool       archived = false;
    *found = false;
    lk_rc rc = lk_pointer_load(kv, base, arena, &current, err);
    if (rc != LK_OK || current.state != LK_POINTER_LIVE ||
        !lk_bytes_equal(current.incarnation, incarnation) || version > current.version) {
        return rc;
    }
    if (version == current.version) {
        *path = current.path;
        *found = true;
        return LK_OK;
    }
    rc = lk_kv_get(kv, key, arena, &raw, &archived, err);
    if (rc != LK_OK || !archived) {
        return rc;
    }
    const lk_json_field fields[] = {
        {"incarnation", LK_JSON_TEXT, &owner, false, NULL},
        {"path", LK_JSON_TEXT, path, false, NULL},
    };
    lk_err cause = {0};
    if (lk_json_read(raw, fields, 2, arena, &cause) != LK_OK) {
        return corrupt(key, &cause, err);
    }
    *found = lk_bytes_equal(owner, incarnation);
    return LK_OK;
}

/* -- delete --------------------------------------------------------------------------------------- */
typedef struct deletion {
    lk_kv   *kv;
    lk_bytes base, incarnation, guard_key, guard_value;
    lk_arena arena;
} deletion;

static lk_rc move_mark(deletion *d, lk_bytes expected, lk_bytes value, lk_err *err)
{
    const lk_kv_change change = {
        .key = latest_key(&d->arena, d->base), .expected = &expected, .value = &value};
    const lk_kv_write write = {
        .changes = &change, .change_count = 1, .guard_key = d->guard_key, .guard_value = d->guard_value};
    bool  applied = false;
    lk_rc rc = lk_kv_put(d->kv, &write, &applied, err);
    if (rc == LK_OK && !applied) {
        return lk_fail(err, LK_E_CONFLICT, "delete mark of %.*s lost its condition", LK_FMT(d->base));
    }
    return rc;
}

/* One page of history after *cursor goes, as long as the delete mark is in place: a dataset made anew under
 * the same name loses nothing. */
static lk_rc drop_history_page(deletion *d, lk_bytes mark, lk_buf *cursor, lk_err *err)
{
    lk_arena     page = {0};
    lk_kv_item  *items = NULL;
    lk_kv_change changes[DELETE_PAGE];
    size_t       count = 0;
    lk_bytes     next = {0};
    bool         applied = true;
    lk_rc rc = lk_kv_scan(d->kv, history_prefix(&page, d->base), lk_buf_view(cursor), DELETE_PAGE, &page,
        &items, &count, &next, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        changes[i] = (lk_kv_change){.key = items[i].key, .expected = &items[i].value};
    }
    if (rc == LK_OK && count > 0) {
        const lk_kv_write write = {.changes = changes,
            .change_count = count,
            .guard_key = latest_key(&page, d->base),
            .guard_value = mark};
        rc = lk_kv_put(d->kv, &write, &applied, err);
    }
    if (rc == LK_OK && !applied) {
        rc = lk_fail(err, LK_E_CONFLICT, "history of %.*s changed under the delete mark", LK_FMT(d->base));
    }
    lk_buf_clear(cursor);
    lk_buf_append_bytes(cursor, next);
    lk_arena_close(&page);
    return rc;
}

static lk_rc run_deletion(deletion *d, lk_err *err)
{
    lk_pointer current;
    lk_rc      rc = lk_pointer_load(d->kv, d->base, &d->arena, &current, err);
    if (rc != LK_OK || current.state == LK_POINTER_ABSENT) {
        return rc;
    }
    if (!lk_bytes_equal(current.incarnation, d->incarnation)) {
        return lk_fail(err, LK_E_CONFLICT, "%.*s has another incarnation", LK_FMT(d->base));
    }
    if (current.state == LK_POINTER_DELETED) {
        return LK_OK;
    }
    lk_bytes deleting = encode_mark(&d->arena, "deleting", d->incarnation);
    if (current.state == LK_POINTER_LIVE) {
        rc = move_mark(d, current.raw, deleting, err);
    }
    lk_buf cursor = {0};
    do {
        rc = rc == LK_OK ? drop_history_page(d, deleting, &cursor, err) : rc;
    } while (rc == LK_OK && cursor.size > 0);
    lk_buf_deinit(&cursor);
    return rc != LK_OK ? rc : move_mark(d, deleting, encode_mark(&d->arena, "deleted", d->incarnation), err);
}

lk_rc lk_pointer_delete(
    lk_kv *kv, lk_bytes base, lk_bytes incarnation, lk_bytes guard_key, lk_bytes guard_value, lk_err *err)
{
    deletion d = {.kv = kv,
        .base = base,
        .incarnation = incarnation,
        .guard_key = guard_key,
        .guard_value = guard_value};
    lk_rc    rc = run_deletion(&d, err);
    lk_arena_close(&d.arena);
    return rc;
}
