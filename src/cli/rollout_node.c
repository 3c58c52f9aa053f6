/* rollout_node.c - see rollout_node.h. */
#include "cli/rollout_node.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/rollout_live.h"
#include "serve/rollout_service.h"
#include "sql/file_sink.h"

#include <stdlib.h>
#include <string.h>

struct lk_rollout_node {
    lk_rollouts           *stores;
    lk_rollout_service    *service;
    const lk_rollout_plan *plan;     /* borrowed */
    lk_rollout_plan       *again;    /* as it was read last; NULL: plan is */
    lk_shutdown           *shutdown; /* of follower */
    lk_thread              follower;
};

static void introduce(const lk_rollout_plan *plan)
{
    char shard[LK_UUID_TEXT_SIZE + 1];
    lk_uuid_format(plan->shard, shard);
    lk_log(LK_LOG_ROLLOUT_INSTANCE, LK_LOG_T("id", lk_bytes_of(plan->instance_id)),
        LK_LOG_T("source", lk_bytes_of(plan->instance_source)), LK_LOG_T("shard", lk_bytes_of(shard)),
        LK_LOG_T("data_dir", lk_bytes_of(plan->data_dir)));
    if (plan->directory == NULL && strcmp(plan->instance_id, "default") == 0) {
        lk_log(LK_LOG_ROLLOUT_NAMELESS, LK_LOG_T("data_dir", lk_bytes_of(plan->data_dir)));
    }
}

static lk_rollout_limits limits_of(const lk_rollout_plan *plan)
{
    const lk_config *c = plan->config;
    return (lk_rollout_limits){.body_max = c->rollout_max_body_bytes,
        .body_idle_ms = c->request_body_idle_secs * 1000,
        .blob_bytes_max = plan->blob_bytes_max,
        .queued_bytes_max = c->rollout_max_queued_bytes,
        .answer_bytes_max = c->rollout_max_answer_bytes,
        .answer_idle_ms = c->rollout_answer_idle_secs * 1000,
        .group_commit_us = c->rollout_group_commit_us}; /* the door gathers, so its stores need not */
}

static lk_rc open_door(lk_rollout_node *node, const lk_rollout_plan *plan, lk_err *err)
{
    const lk_config                 *c = plan->config;
    bool                             open_to_all = plan->tokens.count == 0;
    const lk_rollout_service_options options = {.stores = node->stores,
        .address = plan->address,
        .tls = &plan->tls,
        .tokens = plan->tokens.items,
        .token_count = plan->tokens.count,
        .limits = limits_of(plan),
        .shared_checkout = strcmp(c->rollout_checkout_scope, "shared") == 0,
        .cors = strcmp(c->rollout_cors, "auto") == 0 ? open_to_all : strcmp(c->rollout_cors, "always") == 0,
        .write_parquet = lk_sql_parquet_write,
        .instance_id = lk_bytes_of(plan->instance_id),
        .instance_source = lk_bytes_of(plan->instance_source)};
    lk_rc                            rc = lk_rollout_service_open(&node->service, &options, err);
    if (rc == LK_E_ADDRESS_IN_USE) {
        lk_detail(err, "%.100s; stop what listens there, or choose another port (0 picks a free one)",
            plan->address);
    }
    return rc;
}

/* At the start, so that a bad place is known then, not with the first store. A full disk is none: reads go on. */
static lk_rc make_directory(const lk_rollout_plan *plan, lk_err *err)
{
    lk_err cause = {0};
    lk_rc  rc = plan->directory == NULL ? LK_OK : lk_directory_make(plan->directory, 0755, &cause);
    return rc == LK_OK || rc == LK_E_STORE_FULL
               ? LK_OK
               : lk_refuse(err, LK_E_INVALID_CONFIG, "cannot use the data directory: %s", cause.context);
}

lk_rc lk_rollout_node_open(lk_rollout_node **out, const lk_rollout_plan *plan, lk_err *err)
{
    const lk_rollouts_options options = lk_rollout_plan_stores(plan);
    lk_rollout_node          *node = calloc(1, sizeof *node);
    LK_ASSERT(node != NULL);
    *out = NULL;
    node->plan = plan;
    (void)lk_file_limit_raise();
    introduce(plan);
    lk_rc rc = make_directory(plan, err);
    if (rc == LK_OK) {
        rc = lk_rollouts_open(&options, &node->stores, err);
    }
    if (rc == LK_OK) {
        rc = open_door(node, plan, err);
    }
    if (rc != LK_OK) {
        lk_rollout_node_close(node);
        return rc;
    }
    *out = node;
    return LK_OK;
}

const char *lk_rollout_node_address(const lk_rollout_node *node)
{
    return lk_rollout_service_address(node->service);
}

/* -- reloading -------------------------------------------------------------------------------------------------------- */

static bool same_tokens(const lk_rollout_tokens *a, const lk_rollout_tokens *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++) {
        same = a->items[i].role == b->items[i].role && lk_bytes_equal(a->items[i].secret, b->items[i].secret);
    }
    return same;
}

static bool same_identity(const lk_tls_identity *a, const lk_tls_identity *b)
{
    return lk_bytes_equal(lk_buf_view(&a->certificate_chain), lk_buf_view(&b->certificate_chain)) &&
           lk_bytes_equal(lk_buf_view(&a->private_key), lk_buf_view(&b->private_key));
}

static void forget(lk_rollout_plan *plan)
{
    if (plan != NULL) {
        lk_rollout_plan_deinit(plan);
        free(plan);
    }
}

/* What may fail comes first. */
static lk_rc put_in_force(lk_rollout_node *node, lk_rollout_plan *fresh, lk_err *err)
{
    const lk_rollout_plan  *now = node->again != NULL ? node->again : node->plan;
    const lk_rollout_limits limits = limits_of(fresh);
    bool                    tls = !same_identity(&fresh->tls, &now->tls);
    bool                    tokens = !same_tokens(&fresh->tokens, &now->tokens);
    lk_rc                   rc = tls ? lk_rollout_service_set_tls(node->service, &fresh->tls, err) : LK_OK;
    if (rc != LK_OK) {
        return rc;
    }
    if (tokens) {
        lk_rollout_service_set_tokens(node->service, fresh->tokens.items, fresh->tokens.count);
    }
    lk_rollout_service_set_limits(node->service, &limits);
    lk_rollouts_set_disk_low(node->stores, fresh->config->rollout_disk_low_bytes);
    size_t changed = lk_rollout_live_log(now->config, fresh->config);
    lk_log(LK_LOG_RELOADED, LK_LOG_N("limits_changed", changed), LK_LOG_N("tokens_changed", tokens),
        LK_LOG_N("certificate_changed", tls));
    return LK_OK;
}

void lk_rollout_node_reload(lk_rollout_node *node)
{
    lk_err           err = {0};
    lk_rollout_plan *fresh = calloc(1, sizeof *fresh);
    LK_ASSERT(fresh != NULL);
    lk_rc rc = lk_rollout_plan_make(fresh, node->plan->given, node->plan->flags, node->plan->given_address,
        node->plan->given_data_dir, &err);
    if (rc == LK_OK) {
        rc = put_in_force(node, fresh, &err);
    }
    if (rc != LK_OK) {
        lk_log_error(LK_LOG_RELOAD_FAILED, &err);
        forget(fresh);
        return;
    }
    forget(node->again);
    node->again = fresh;
}

/* -- going down ------------------------------------------------------------------------------------------------------- */

/* Requests that outlast the drain are cut: nothing of theirs was acknowledged, so that is no failure of ours. A tenth of the time
 * is left for closing. */
lk_rc lk_rollout_node_serve(lk_rollout_node *node, lk_shutdown *shutdown, lk_err *err)
{
    uint64_t deadline_ms = lk_shutdown_wait(shutdown), now_ms = lk_clock_monotonic_ms(lk_clock_real());
    uint64_t left_ms = deadline_ms > now_ms ? deadline_ms - now_ms : 0;
    lk_rc    rc = lk_rollout_service_drain(node->service, deadline_ms - left_ms / 10, err);
    if (rc == LK_E_DEADLINE) {
        lk_log_error(LK_LOG_DRAIN_OVERRUN, err);
        *err = (lk_err){0};
        rc = LK_OK;
    }
    return rc;
}

static void follow(void *context)
{
    lk_rollout_node *node = context;
    lk_err           err = {0};
    if (lk_rollout_node_serve(node, node->shutdown, &err) != LK_OK) {
        lk_log_error(LK_LOG_DRAIN_OVERRUN, &err);
    }
}

lk_rc lk_rollout_node_follow(lk_rollout_node *node, lk_shutdown *shutdown, lk_err *err)
{
    node->shutdown = shutdown;
    return lk_thread_start(&node->follower, "lk-rollout-end", follow, node, err);
}

void lk_rollout_node_close(lk_rollout_node *node)
{
    if (node == NULL) {
        return;
    }
    lk_thread_join(&node->follower);
    lk_rollout_service_close(node->service);
    lk_rollouts_close(node->stores);
    forget(node->again);
    free(node);
}
