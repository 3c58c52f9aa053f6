/* rollout_health.c - health and readiness. */
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
