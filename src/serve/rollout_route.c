/* rollout_route.c - see rollout_route.h. */
#include "serve/rollout_route.h"

#include "net/http_head.h"

static const char *const names[LK_ROLLOUT_RESOURCES] = {"metrics", "health", "ready", "stores", "store",
    "store", "records", "record", "blob", "trajectory", "tail", "stats", "checkout", "compact",
    "compact_stats", "merge"};

const char *lk_rollout_resource_name(lk_rollout_resource resource)
{
    return names[resource];
}

static lk_bytes behind(lk_bytes text, size_t count)
{
    return (lk_bytes){text.data + count, text.size - count};
}

/* Takes `/` and a segment off the rest; false when there is none. */
static bool take_segment(lk_bytes *rest, lk_bytes *segment)
{
    if (rest->size == 0 || rest->data[0] != '/') {
        return false;
    }
    lk_bytes    text = behind(*rest, 1);
    const char *slash = text.size == 0 ? NULL : memchr(text.data, '/', text.size);
    *segment = (lk_bytes){text.data, slash == NULL ? text.size : (size_t)(slash - text.data)};
    *rest = behind(text, segment->size);
    return true;
}

static lk_rc no_such_path(lk_err *err)
{
    return lk_refuse(err, LK_E_NOT_FOUND, "no such path");
}

/* rest: `/ID` or `/ID/blob`. */
static lk_rc take_id(lk_bytes rest, bool may_be_blob, lk_arena *arena, lk_rollout_target *out, lk_err *err)
{
    static const lk_bytes blob = {"/blob", 5};
    lk_bytes              id = behind(rest, rest.size == 0 ? 0 : 1);
    if (may_be_blob && id.size > blob.size && lk_bytes_equal(behind(id, id.size - blob.size), blob)) {
        id.size -= blob.size;
        out->resource = LK_ROLLOUT_BLOB;
    }
    if (id.size == 0) {
        return no_such_path(err);
    }
    return lk_http_decode(id, arena, &out->id)
               ? LK_OK
               : lk_refuse(err, LK_E_INVALID_REQUEST, "the id has a broken percent escape");
}

typedef struct word {
    const char         *text;
    lk_rollout_resource resource;
    bool                takes_id, is_long; /* is_long: not below /rollouts, where it would be an id */
} word;

static const word words[] = {
    {"records", LK_ROLLOUT_RECORDS, false, false},
    {"checkout", LK_ROLLOUT_CHECKOUT, false, false},
    {"compact", LK_ROLLOUT_COMPACT, false, false},
    {"trajectories", LK_ROLLOUT_TRAJECTORY, true, true},
    {"tail", LK_ROLLOUT_TAIL, false, true},
    {"stats", LK_ROLLOUT_STATS, false, true},
    {"merge", LK_ROLLOUT_MERGE, false, true},
};

static const word *find_word(lk_bytes segment, bool is_short)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (lk_bytes_equal(segment, lk_bytes_of(words[i].text)) && !(is_short && words[i].is_long)) {
            return &words[i];
        }
    }
    return NULL;
}

/* What follows the store's name. */
static lk_rc within_store(lk_bytes rest, bool is_short, lk_arena *arena, lk_rollout_target *out, lk_err *err)
{
    lk_bytes whole = rest, segment;
    out->resource = is_short ? LK_ROLLOUT_STORE_SHORT : LK_ROLLOUT_STORE;
    if (!take_segment(&rest, &segment)) {
        return LK_OK;
    }
    const word *w = find_word(segment, is_short);
    if (w == NULL) {
        out->resource = LK_ROLLOUT_RECORD;
        return is_short ? take_id(whole, true, arena, out, err) : no_such_path(err);
    }
    out->resource = w->resource;
    if (w->takes_id) {
        return take_id(rest, false, arena, out, err);
    }
    if (rest.size > 0 && w->resource == LK_ROLLOUT_RECORDS) {
        out->resource = LK_ROLLOUT_RECORD;
        return take_id(rest, true, arena, out, err);
    }
    if (w->resource == LK_ROLLOUT_COMPACT && lk_bytes_equal(rest, LK_LITERAL("/stats"))) {
        out->resource = LK_ROLLOUT_COMPACT_STATS;
        return LK_OK;
    }
    return rest.size == 0 ? LK_OK : no_such_path(err);
}

static bool take_prefix(lk_bytes *path, lk_bytes prefix)
{
    if (!lk_bytes_starts(*path, prefix)) {
        return false;
    }
    *path = behind(*path, prefix.size);
    return true;
}

lk_rc lk_rollout_target_of(lk_bytes path, lk_arena *arena, lk_rollout_target *out, lk_err *err)
{
    static const lk_bytes api = {"/api/v1", 7}, rollouts = {"/rollouts", 9};
    lk_bytes              segment;
    *out = (lk_rollout_target){0};
    if (lk_bytes_equal(path, LK_LITERAL("/metrics"))) {
        out->resource = LK_ROLLOUT_METRICS;
        return LK_OK;
    }
    bool is_short = !take_prefix(&path, api);
    if (!is_short && lk_bytes_equal(path, LK_LITERAL("/health"))) {
        out->resource = LK_ROLLOUT_HEALTH;
        return LK_OK;
    }
    if (!is_short && lk_bytes_equal(path, LK_LITERAL("/ready"))) {
        out->resource = LK_ROLLOUT_READY;
        return LK_OK;
    }
    if (!take_prefix(&path, rollouts)) {
        return no_such_path(err);
    }
    if (path.size == 0) {
        out->resource = LK_ROLLOUT_STORES;
        return LK_OK;
    }
    if (!take_segment(&path, &segment)) {
        return no_such_path(err);
    }
    if (!lk_http_decode(segment, arena, &out->name)) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "the store's name has a broken percent escape");
    }
    return within_store(path, is_short, arena, out, err);
}
