/* rollout_stores.c - stores themselves: created, listed, looked at, removed. */
#include "base/json.h"
#include "rollout/json_cursor.h"
#include "serve/rollout_service_priv.h"

static void write_info(rollout_call *call, lk_json_writer *w, lk_bytes name, uint64_t version)
{
    lk_json_object(w);
    lk_json_key(w, "name");
    lk_json_text(w, name);
    lk_json_key(w, "uri");
    lk_json_text(w, lk_rollouts_uri(call->service->options.stores, name, call->arena));
    if (version > 0) {
        lk_json_key(w, "version");
        lk_json_u64(w, version);
    }
    lk_json_object_end(w);
}

static lk_rc version_of(lk_rollout_store *store, uint64_t *version, lk_err *err)
{
    lk_rollout_snapshot *snapshot = NULL;
    lk_rc                rc = lk_rollout_store_snapshot(store, 0, &snapshot, err);
    if (rc == LK_OK) {
        *version = lk_dataset_version(snapshot->base);
    }
    lk_rollout_snapshot_unref(snapshot);
    return rc;
}

/* Answers with the store's description; takes the handle. */
static lk_rc answer_info(rollout_call *call, int status, lk_bytes name, lk_rollout_store *store, lk_err *err)
{
    uint64_t       version = 0;
    lk_buf         body = {0};
    lk_json_writer w = {.out = &body};
    lk_rc          rc = version_of(store, &version, err);
    lk_rollout_store_unref(store);
    if (rc == LK_OK) {
        write_info(call, &w, name, version);
        rollout_answer_json(call, status, &body);
    }
    return rc;
}

/* Each of {"key": "value"}: may it be? Values are never told to anybody. */
static lk_rc check_storage_options(rollout_call *call, lk_bytes options, lk_err *err)
{
    lk_json_cursor c;
    lk_rc          rc = LK_OK;
    lk_json_cursor_init(&c, options);
    bool more = lk_json_accept(&c, '{') && !lk_json_accept(&c, '}');
    if (!more && c.at == options.data) {
        rc = lk_refuse(err, LK_E_INVALID_REQUEST, "storage_options: expected an object of texts");
    }
    while (rc == LK_OK && more) {
        lk_bytes key = {0}, value = {0};
        bool     pair = lk_json_take_key(&c, &key);
        key = lk_arena_copy(call->arena, key);
        if (!pair || !lk_json_take_text(&c, &value)) {
            rc = lk_refuse(err, LK_E_INVALID_REQUEST, "storage_options: expected an object of texts");
        } else {
            rc = lk_rollouts_check_storage_option(call->service->options.stores, key, value, err);
        }
        more = rc == LK_OK && lk_json_more(&c, '}');
    }
    lk_json_cursor_deinit(&c);
    return rc;
}

lk_rc rollout_create_store(rollout_call *call, lk_err *err)
{
    lk_bytes            name = {0}, storage_options = {0};
    const lk_json_field fields[] = {{"name", LK_JSON_TEXT, &name, false, NULL},
        {"storage_options", LK_JSON_RAW, &storage_options, true, NULL}};
    lk_rollout_store   *store = NULL;
    lk_rc               rc = lk_json_read(lk_http_body(call->exchange), fields, 2, call->arena, err);
    if (rc == LK_OK && storage_options.size > 0) {
        rc = check_storage_options(call, storage_options, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollouts_create(call->service->options.stores, name, &store, err);
    }
    return rc == LK_OK ? answer_info(call, 201, name, store, err) : rc;
}

lk_rc rollout_list_stores(rollout_call *call, lk_err *err)
{
    lk_bytes      *names = NULL;
    size_t         count = 0;
    lk_buf         body = {0};
    lk_json_writer w = {.out = &body};
    lk_rc          rc = lk_rollouts_list(call->service->options.stores, call->arena, &names, &count, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_json_object(&w);
    lk_json_key(&w, "stores");
    lk_json_array(&w);
    for (size_t i = 0; i < count; i++) {
        write_info(call, &w, names[i], 0);
    }
    lk_json_array_end(&w);
    lk_json_object_end(&w);
    rollout_answer_json(call, 200, &body);
    return LK_OK;
}

lk_rc rollout_get_store(rollout_call *call, lk_err *err)
{
    lk_rollout_store *store = NULL;
    lk_rc             rc = rollout_open_store(call, &store, err);
    return rc == LK_OK ? answer_info(call, 200, call->target.name, store, err) : rc;
}

lk_rc rollout_delete_store(rollout_call *call, lk_err *err)
{
    lk_rc rc = lk_rollouts_delete(call->service->options.stores, call->target.name, err);
    if (rc == LK_OK) {
        rollout_pin(call->service, call->target.name, 0);
        lk_http_answer(call->exchange, 204, NULL, NULL);
    }
    return rc;
}
