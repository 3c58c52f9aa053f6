/*
 * rollout_upkeep.c - what is done to stores, and how they are doing: checkout, compaction, merge, counts.
 */
#include "base/json.h"
#include "rollout/time_text.h"
#include "rollout/upkeep.h"
#include "serve/rollout_list.h"

#include <stdlib.h>

/* -- checkout --------------------------------------------------------------------------------------------------------- */

/*
 * A version that readers of one store see, for checkouts of shared scope: what the reference does, which moves its one handle.
 * Guarded by the service's mutex. Ends with a checkout to the newest version, with the store, with the process.
 */
struct rollout_pin {
    struct rollout_pin *next;
    lk_buf              name;
    uint64_t            version;
};

static struct rollout_pin **find_pin(lk_rollout_service *s, lk_bytes name)
{
    struct rollout_pin **at = &s->pins;
    while (*at != NULL && !lk_bytes_equal(lk_buf_view(&(*at)->name), name)) {
        at = &(*at)->next;
    }
    return at;
}

void rollout_pin(lk_rollout_service *s, lk_bytes name, uint64_t version)
{
    lk_mutex_lock(&s->mutex);
    struct rollout_pin **at = find_pin(s, name), *pin = *at;
    if (pin == NULL && version > 0) {
        *at = pin = calloc(1, sizeof *pin);
        LK_ASSERT(pin != NULL);
        lk_buf_append_bytes(&pin->name, name);
    }
    if (pin != NULL) {
        pin->version = version;
    }
    if (pin != NULL && version == 0) {
        *at = pin->next;
        lk_buf_deinit(&pin->name);
        free(pin);
    }
    lk_mutex_unlock(&s->mutex);
}

uint64_t rollout_pinned(lk_rollout_service *s, lk_bytes name)
{
    if (!s->options.shared_checkout) {
        return 0;
    }
    lk_mutex_lock(&s->mutex);
    struct rollout_pin *pin = *find_pin(s, name);
    uint64_t            version = pin == NULL ? 0 : pin->version;
    lk_mutex_unlock(&s->mutex);
    return version;
}

void rollout_unpin_all(lk_rollout_service *s)
{
    while (s->pins != NULL) {
        struct rollout_pin *pin = s->pins;
        s->pins = pin->next;
        lk_buf_deinit(&pin->name);
        free(pin);
    }
}

static lk_rc newest_version(lk_rollout_store *store, uint64_t *out, lk_err *err)
{
    lk_rollout_snapshot *snapshot = NULL;
    lk_rc                rc = lk_rollout_store_snapshot(store, 0, &snapshot, err);
    if (rc == LK_OK) {
        *out = lk_dataset_version(snapshot->base);
    }
    lk_rollout_snapshot_unref(snapshot);
    return rc;
}

/* Whether the version is there. With shared scope every later reader of this instance sees it, else only those who ask with
 * ?version=. */
lk_rc rollout_checkout(rollout_call *call, lk_err *err)
{
    lk_rollout_store    *store = NULL;
    lk_rollout_snapshot *snapshot = NULL;
    uint64_t             version = 0, newest = 0;
    lk_buf               body = {0};
    const lk_json_field  fields[] = {{"version", LK_JSON_U64, &version, false, NULL}};
    lk_rc                rc = lk_json_read(lk_http_body(call->exchange), fields, 1, call->arena, err);
    rc = rc == LK_OK ? rollout_open_store(call, &store, err) : rc;
    if (rc == LK_OK && version == 0) {
        rc = lk_refuse(err, LK_E_NOT_FOUND, "versions begin at 1");
    }
    rc = rc == LK_OK ? lk_rollout_store_snapshot(store, version, &snapshot, err) : rc;
    rc = rc == LK_OK ? newest_version(store, &newest, err) : rc;
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_store_unref(store);
    if (rc != LK_OK) {
        return rc;
    }
    if (call->service->options.shared_checkout) {
        rollout_pin(call->service, call->target.name, version == newest ? 0 : version);
    }
    lk_buf_format(&body, "{\"version\":%llu}", (unsigned long long)version);
    rollout_answer_json(call, 200, &body);
    return LK_OK;
}

/* -- merge and compaction ------------------------------------------------------------------------------------------------ */

lk_rc rollout_merge(rollout_call *call, lk_err *err)
{
    lk_rollout_store              *store = NULL;
    const lk_rollout_merge_options all = {.cancel = lk_http_cancel(call->exchange)};
    lk_rollout_merge_report        report = {0};
    lk_buf                         body = {0};
    lk_rc                          rc = rollout_open_store(call, &store, err);
    if (rc == LK_OK) {
        rc = lk_rollout_store_merge(store, &all, &report, err);
    }
    lk_rollout_store_unref(store);
    if (rc == LK_OK) {
        lk_buf_format(&body, "{\"reclaimed\":%zu}", report.generations);
        rollout_answer_json(call, 200, &body);
    }
    return rc;
}

lk_rc rollout_compact(rollout_call *call, lk_err *err)
{
    lk_rollout_store         *store = NULL;
    lk_rollout_compact_report r = {0};
    uint64_t                  target_rows = 0;
    bool                      ignored = false; /* nothing is ever deleted from a rollout table */
    lk_buf                    body = {0};
    const lk_json_field       fields[] = {
              {"target_rows_per_fragment", LK_JSON_U64, &target_rows, true, NULL},
              {"materialize_deletions", LK_JSON_BOOL, &ignored, true, NULL},
    };
    lk_bytes request = lk_http_body(call->exchange);
    lk_rc    rc = request.size == 0 ? LK_OK : lk_json_read(request, fields, 2, call->arena, err);
    rc = rc == LK_OK ? rollout_open_store(call, &store, err) : rc;
    rc = rc == LK_OK ? lk_rollout_store_compact(store, target_rows, &r, err) : rc;
    lk_rollout_store_unref(store);
    if (rc == LK_OK) {
        lk_buf_format(&body,
            "{\"fragments_removed\":%llu,\"fragments_added\":%llu,\"files_removed\":%llu,\"files_added\":%"
            "llu}",
            (unsigned long long)r.fragments_removed, (unsigned long long)r.fragments_added,
            (unsigned long long)r.files_removed, (unsigned long long)r.files_added);
        rollout_answer_json(call, 200, &body);
    }
    return rc;
}

static void put_time(lk_json_writer *w, const char *key, int64_t us)
{
    char   text[LK_TIME_TEXT_MAX];
    size_t size = lk_time_write(us, text);
    lk_json_key(w, key);
    lk_json_text(w, (lk_bytes){text, size});
}

static void put_number(lk_json_writer *w, const char *key, uint64_t value)
{
    lk_json_key(w, key);
    lk_json_u64(w, value);
}

lk_rc rollout_compact_stats(rollout_call *call, lk_err *err)
{
    lk_rollout_store        *store = NULL;
    lk_rollout_compact_stats stats = {0};
    lk_buf                   body = {0};
    lk_json_writer           w = {.out = &body};
    lk_rc                    rc = rollout_open_store(call, &store, err);
    rc = rc == LK_OK ? lk_rollout_store_compact_stats(store, &stats, err) : rc;
    lk_rollout_store_unref(store);
    if (rc != LK_OK) {
        return rc;
    }
    lk_json_object(&w);
    put_number(&w, "total_fragments", stats.total_fragments);
    lk_json_key(&w, "is_compacting");
    lk_json_bool(&w, stats.is_compacting);
    if (stats.last_ms > 0) {
        put_time(&w, "last_compaction", (int64_t)stats.last_ms * 1000);
    }
    if (stats.last_error[0] != '\0') {
        lk_json_key(&w, "last_error");
        lk_json_text(&w, lk_bytes_of(stats.last_error));
    }
    put_number(&w, "total_compactions", stats.total_compactions);
    lk_json_object_end(&w);
    rollout_answer_json(call, 200, &body);
    return LK_OK;
}

/* -- counts ------------------------------------------------------------------------------------------------------------- */

/* ?group_by, a text column; by policy version when it is not there. */
static lk_rc read_group_by(rollout_call *call, lk_record_column *out, lk_err *err)
{
    lk_bytes name = LK_LITERAL("policy_version");
    bool     found = false;
    lk_rc    rc = rollout_parameter(call, "group_by", &name, &found, err);
    *out = lk_record_column_of(name, LK_RECORD_COLUMN_policy_version);
    if (rc == LK_OK && (*out == LK_RECORD_COLUMNS || (lk_record_column_kind(*out) != LK_RECORD_TEXT &&
                                                         lk_record_column_kind(*out) != LK_RECORD_ROLE))) {
        rc = lk_refuse(
            err, LK_E_INVALID_REQUEST, "group_by: expected a column of short texts, as policy_version");
    }
    return rc;
}

static void write_groups(lk_json_writer *w, lk_record_column by, const lk_rollout_group *groups, size_t count)
{
    uint64_t rows = 0;
    lk_json_key(w, "group_by");
    lk_json_text(w, lk_bytes_of(lk_record_column_name(by)));
    lk_json_key(w, "groups");
    lk_json_array(w);
    for (size_t i = 0; i < count; i++) {
        lk_json_object(w);
        lk_json_key(w, "value");
        if (groups[i].value.data == NULL) {
            lk_json_null(w);
        } else {
            lk_json_text(w, groups[i].value);
        }
        put_number(w, "rows", groups[i].rows);
        put_time(w, "first_created_at", groups[i].first_created_at);
        put_time(w, "last_created_at", groups[i].last_created_at);
        lk_json_object_end(w);
        rows += groups[i].rows;
    }
    lk_json_array_end(w);
    put_number(w, "rows", rows);
}

lk_rc rollout_stats(rollout_call *call, lk_err *err)
{
    lk_rollout_store      *store = NULL;
    lk_rollout_snapshot   *snapshot = NULL;
    lk_rollout_list_query  query;
    lk_record_column       by = LK_RECORD_COLUMN_policy_version;
    lk_rollout_group      *groups = NULL;
    lk_rollout_store_stats stats = {0};
    size_t                 count = 0;
    uint64_t               version = 0;
    lk_buf                 body = {0};
    lk_json_writer         w = {.out = &body};
    lk_rc                  rc = rollout_read_query(call, &query, err);
    rc = rc == LK_OK ? read_group_by(call, &by, err) : rc;
    rc = rc == LK_OK ? rollout_open_store(call, &store, err) : rc;
    rc = rc == LK_OK ? lk_rollout_store_snapshot(store, query.version, &snapshot, err) : rc;
    if (rc == LK_OK) {
        version = lk_dataset_version(snapshot->base);
        rc = lk_rollout_count_by(snapshot, by, &query.query, call->arena, &groups, &count, err);
    }
    if (rc == LK_OK) {
        lk_rollout_store_read_stats(store, &stats);
    }
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_store_unref(store);
    if (rc != LK_OK) {
        return rc;
    }
    lk_json_object(&w);
    put_number(&w, "version", version);
    put_number(&w, "pending_generations", stats.writer.pending_generations);
    write_groups(&w, by, groups, count);
    lk_json_object_end(&w);
    rollout_answer_json(call, 200, &body);
    return LK_OK;
}
