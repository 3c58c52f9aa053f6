/*
 * rollout_blob.c - payloads go out: whole or a range, in pieces.
 */
#include "rollout/cell.h"
#include "serve/rollout_service_priv.h"

enum { FRAME = 256 * 1024 };

static lk_rc send_bytes(rollout_call *call, lk_bytes bytes, lk_err *err)
{
    lk_rc rc = LK_OK;
    lk_http_begin(call->exchange, 200, "application/octet-stream", bytes.size);
    while (rc == LK_OK && bytes.size > 0) {
        size_t size = bytes.size < FRAME ? bytes.size : FRAME;
        rc = lk_http_write(call->exchange, (lk_bytes){bytes.data, size}, err);
        bytes = (lk_bytes){bytes.data + size, bytes.size - size};
    }
    return rc;
}

lk_rc rollout_blob(rollout_call *call, lk_err *err)
{
    lk_rollout_store    *store = NULL;
    lk_rollout_snapshot *snapshot = NULL;
    struct ArrowArray    batch = {0};
    bool                 found = false;
    lk_rc                rc = rollout_open_store(call, &store, err);
    if (rc == LK_OK) {
        rc = lk_rollout_store_snapshot(store, 0, &snapshot, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_snapshot_payload(
            snapshot, call->target.id, lk_http_cancel(call->exchange), &batch, &found, err);
    }
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_store_unref(store);
    if (rc == LK_OK && (!found || !lk_cell_valid(batch.children[0], 0))) {
        rc = lk_refuse(err, LK_E_NOT_FOUND, found ? "the record has no payload" : "no such record");
    }
    if (rc == LK_OK) {
        lk_rc sent = send_bytes(call, lk_cell_large(batch.children[0], 0), err);
        (void)sent; /* the connection tells */
        lk_array_release(&batch);
        lk_http_end(call->exchange);
    }
    lk_array_release(&batch);
    return rc;
}
