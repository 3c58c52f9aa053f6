/* rollout_admin.c - health, readiness, and what is done to stores: checkout, merge. */
#include "base/json.h"
#include "serve/rollout_service_priv.h"

lk_rc rollout_health(rollout_call *call, lk_err *err)
{
    lk_buf body = {0};
    (void)err;
    lk_buf_append_text(&body, "{\"status\":\"ok\"}");
    rollout_answer_json(call, 200, &body);
    return LK_OK;
}

/* Ready is who can list its stores and is not going down. */
lk_rc rollout_ready(rollout_call *call, lk_err *err)
{
    const lk_rollout_service_options *o = &call->service->options;
    lk_bytes                         *names = NULL;
    size_t                            count = 0;
    lk_buf                            body = {0};
    lk_json_writer                    w = {.out = &body};
    char                              shard[LK_UUID_TEXT_SIZE + 1];
    if (atomic_load(&call->service->draining)) {
        return lk_fail(err, LK_E_SHUTTING_DOWN, "draining");
    }
    lk_rc rc = lk_rollouts_list(o->stores, call->arena, &names, &count, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_uuid_format(lk_shard_of_instance(o->instance_id), shard);
    lk_json_object(&w);
    lk_json_key(&w, "status");
    lk_json_text(&w, LK_LITERAL("ready"));
    lk_json_key(&w, "instance_id");
    lk_json_text(&w, o->instance_id);
    lk_json_key(&w, "instance_id_source");
    lk_json_text(&w, o->instance_source);
    lk_json_key(&w, "shard");
    lk_json_text(&w, lk_bytes_of(shard));
    lk_json_key(&w, "stores");
    lk_json_u64(&w, count);
    lk_json_object_end(&w);
    rollout_answer_json(call, 200, &body);
    return LK_OK;
}

/* The version is looked for, and told; who wants to read it says ?version=. */
lk_rc rollout_checkout(rollout_call *call, lk_err *err)
{
    lk_rollout_store    *store = NULL;
    lk_rollout_snapshot *snapshot = NULL;
    uint64_t             version = 0;
    lk_buf               body = {0};
    const lk_json_field  fields[] = {{"version", LK_JSON_U64, &version, false, NULL}};
    lk_rc                rc = lk_json_read(lk_http_body(call->exchange), fields, 1, call->arena, err);
    if (rc == LK_OK) {
        rc = rollout_open_store(call, &store, err);
    }
    if (rc == LK_OK && version == 0) {
        rc = lk_refuse(err, LK_E_NOT_FOUND, "versions begin at 1");
    }
    if (rc == LK_OK) {
        rc = lk_rollout_store_snapshot(store, version, &snapshot, err);
    }
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_store_unref(store);
    if (rc == LK_OK) {
        lk_buf_format(&body, "{\"version\":%llu}", (unsigned long long)version);
        rollout_answer_json(call, 200, &body);
    }
    return rc;
}

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
        lk_buf_format(&body, "{\"reclaimed\":%zu,\"rows\":%llu,\"version\":%llu}", report.generations,
            (unsigned long long)report.rows, (unsigned long long)report.base_version);
        rollout_answer_json(call, 200, &body);
    }
    return rc;
}
