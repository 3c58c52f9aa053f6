/*
 * status.c - see status.h. Beside the trailer, the code travels where gRPC's own libraries look for it:
 * `grpc-status-details-bin` holds a google.rpc.Status with a google.rpc.ErrorInfo{reason, domain "lake"}.
 */
#include "serve/status.h"

#include "base/log.h"
#include "flight/pb.h"

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

/* google.rpc.Status{code = 1, message = 2, details = 3: Any{type_url = 1, value = 2: ErrorInfo{reason = 1,
 * domain = 2}}}. */
static lk_bytes details_of(const lk_grpc_status *status, lk_arena *arena)
{
    lk_buf info = {0}, any = {0}, out = {0};
    lk_pb_put_bytes(&info, 1, status->lake_code);
    lk_pb_put_bytes(&info, 2, LK_LITERAL("lake"));
    lk_pb_put_bytes(&any, 1, LK_LITERAL("type.googleapis.com/google.rpc.ErrorInfo"));
    lk_pb_put_bytes(&any, 2, lk_buf_view(&info));
    lk_pb_put_uint(&out, 1, (uint64_t)status->code);
    lk_pb_put_bytes(&out, 2, status->message);
    lk_pb_put_bytes(&out, 3, lk_buf_view(&any));
    lk_bytes bytes = lk_arena_copy(arena, lk_buf_view(&out));
    lk_buf_deinit(&info);
    lk_buf_deinit(&any);
    lk_buf_deinit(&out);
    return bytes;
}

void lk_status_translate(const lk_err *err, lk_arena *arena, lk_grpc_status *out)
{
    char text[LK_ERR_DETAIL_BYTES + 128];
    *out = (lk_grpc_status){
        .code = lk_rc_code(err->rc),
        .message = lk_arena_copy(arena, lk_bytes_of(lk_err_message(err, text, sizeof text))),
        .lake_code = lk_bytes_of(lk_rc_name(err->rc)),
    };
    out->details_bin = details_of(out, arena);
}

static bool is_ours(lk_rc rc)
{
    lk_code code = lk_rc_code(rc);
    return code == LK_CODE_INTERNAL || code == LK_CODE_UNAVAILABLE || code == LK_CODE_DATA_LOSS ||
           code == LK_CODE_UNKNOWN;
}

void lk_status_observe(lk_grpc_call *call, void *context, lk_rc rc, const lk_err *err)
{
    (void)context;
    if (rc != LK_OK && is_ours(rc)) {
        lk_log(LK_LOG_REQUEST_FAILED, LK_LOG_T("method", lk_grpc_call_path(call)),
            LK_LOG_T("code", lk_bytes_of(lk_rc_name(rc))),
            LK_LOG_T("context", ((lk_bytes){err->context, err->len})));
    }
}
