/* status.c - see status.h. */
#include "serve/status.h"

#include "base/log.h"

#include <grpc/status.h>

_Static_assert((int)LK_CODE_OK == GRPC_STATUS_OK, "gRPC's number");
_Static_assert((int)LK_CODE_CANCELLED == GRPC_STATUS_CANCELLED, "gRPC's number");
_Static_assert((int)LK_CODE_UNKNOWN == GRPC_STATUS_UNKNOWN, "gRPC's number");
_Static_assert((int)LK_CODE_INVALID_ARGUMENT == GRPC_STATUS_INVALID_ARGUMENT, "gRPC's number");
_Static_assert((int)LK_CODE_DEADLINE_EXCEEDED == GRPC_STATUS_DEADLINE_EXCEEDED, "gRPC's number");
_Static_assert((int)LK_CODE_NOT_FOUND == GRPC_STATUS_NOT_FOUND, "gRPC's number");
_Static_assert((int)LK_CODE_ALREADY_EXISTS == GRPC_STATUS_ALREADY_EXISTS, "gRPC's number");
_Static_assert((int)LK_CODE_PERMISSION_DENIED == GRPC_STATUS_PERMISSION_DENIED, "gRPC's number");
_Static_assert((int)LK_CODE_RESOURCE_EXHAUSTED == GRPC_STATUS_RESOURCE_EXHAUSTED, "gRPC's number");
_Static_assert((int)LK_CODE_FAILED_PRECONDITION == GRPC_STATUS_FAILED_PRECONDITION, "gRPC's number");
_Static_assert((int)LK_CODE_ABORTED == GRPC_STATUS_ABORTED, "gRPC's number");
_Static_assert((int)LK_CODE_OUT_OF_RANGE == GRPC_STATUS_OUT_OF_RANGE, "gRPC's number");
_Static_assert((int)LK_CODE_UNIMPLEMENTED == GRPC_STATUS_UNIMPLEMENTED, "gRPC's number");
_Static_assert((int)LK_CODE_INTERNAL == GRPC_STATUS_INTERNAL, "gRPC's number");
_Static_assert((int)LK_CODE_UNAVAILABLE == GRPC_STATUS_UNAVAILABLE, "gRPC's number");
_Static_assert((int)LK_CODE_DATA_LOSS == GRPC_STATUS_DATA_LOSS, "gRPC's number");
_Static_assert((int)LK_CODE_UNAUTHENTICATED == GRPC_STATUS_UNAUTHENTICATED, "gRPC's number");

void lk_status_translate(const lk_err *err, lk_arena *arena, lk_grpc_status *out)
{
    char text[LK_ERR_DETAIL_BYTES + 128];
    *out = (lk_grpc_status){
        .code = lk_rc_code(err->rc),
        .message = lk_arena_copy(arena, lk_bytes_of(lk_err_message(err, text, sizeof text))),
        .lake_code = lk_bytes_of(lk_rc_name(err->rc)),
    };
}

static bool is_ours(lk_rc rc)
{
    lk_code code = lk_rc_code(rc);
    return code == LK_CODE_INTERNAL || code == LK_CODE_UNAVAILABLE || code == LK_CODE_DATA_LOSS || code == LK_CODE_UNKNOWN;
}

void lk_status_observe(lk_grpc_call *call, void *context, lk_rc rc, const lk_err *err)
{
    (void)context;
    if (rc != LK_OK && is_ours(rc)) {
        lk_log(LK_LOG_REQUEST_FAILED, LK_LOG_T("method", lk_grpc_call_path(call)),
            LK_LOG_T("code", lk_bytes_of(lk_rc_name(rc))), LK_LOG_T("context", ((lk_bytes){err->context, err->len})));
    }
}
