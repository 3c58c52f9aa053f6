/*
 * rollout_failure.c - what a failure means to whoever asked: the store was removed meanwhile, its files were merged and collected
 * while they were read, or it is what it says.
 */
#include "serve/rollout_service_priv.h"

enum { ATTEMPTS = 3 }; /* of a read whose files went away */

/* Failures that a removal could have caused. */
static bool may_be_removal(const lk_err *err)
{
    switch ((int)err->rc) {
    case LK_E_TABLE_NOT_FOUND:
    case LK_E_SNAPSHOT_GONE:
    case LK_E_STORE_UNAVAILABLE:
    case LK_E_IO:
    case LK_E_CORRUPT_FILE:
    case LK_E_CORRUPT_RECORD:
    case LK_E_CONFLICT:
    case LK_E_FOREIGN_COMMIT:
    case LK_E_SHARD_FENCED:
        return true;
    case LK_E_NOT_FOUND:
        return err->detail[0] == '\0'; /* a file, and no record or store that was asked for */
    default:
        return false;
    }
}

static bool was_removed(rollout_call *call)
{
    lk_rollouts      *stores = call->service->options.stores;
    lk_rollout_store *store = NULL;
    lk_err            ignored = {0};
    if (lk_rollouts_removals(stores, call->target.name) != call->removals) {
        return true;
    }
    lk_rc rc =
        lk_rollouts_get(stores, call->target.name, &store, &ignored); /* another instance may have done it */
    lk_rollout_store_unref(store);
    return rc == LK_E_NOT_FOUND;
}

void rollout_explain(rollout_call *call, lk_err *err)
{
    const lk_err cause = *err;
    lk_rc        rc = cause.rc;
    if (call->has_store && may_be_removal(err) && was_removed(call)) {
        *err = (lk_err){0};
        rc = lk_refuse(err, LK_E_NOT_FOUND,
            "there is no rollout store %.*s any more: it was removed meanwhile", LK_FMT(call->target.name));
    } else if ((cause.rc == LK_E_SNAPSHOT_GONE && !call->is_pinned) ||
               (cause.rc == LK_E_NOT_FOUND && call->has_store && cause.detail[0] == '\0')) {
        *err = (lk_err){0};
        rc = lk_refuse(err, LK_E_STORE_UNAVAILABLE,
            "a file of the store is missing, or was removed while it was read: %s", cause.context);
    } else if (cause.rc == LK_E_LIMIT &&
               cause.detail[0] == '\0') { /* of a budget that has no words of its own */
        lk_detail(err, "this needs more memory than --rollout-cache-bytes has left; try again, or raise it");
    }
    LK_ASSERT(rc == err->rc);
}

void rollout_fail(rollout_call *call, lk_err *err)
{
    bool is_read = call->method->body == ROLLOUT_BODY_NONE;
    if (err->rc == LK_E_SNAPSHOT_GONE && is_read && !call->is_pinned && ++call->attempts < ATTEMPTS) {
        lk_http_drop_fields(call->exchange);
        rollout_run(call);
        return;
    }
    rollout_explain(call, err);
    lk_rollout_refuse(call->exchange, err);
}
