#ifndef LK_SERVE_STATUS_H
#define LK_SERVE_STATUS_H
/*
 * status.h - the only place where an lk_err becomes a gRPC status: the constant text of errors.def, the detail
 * that the caller may see, and the stable code as trailer `lake.code`. The context stays here, for the log.
 * Threads: stateless.
 */
#include "net/grpc_server.h"

/* For lk_grpc_server_options.translate. */
void lk_status_translate(const lk_err *err, lk_arena *arena, lk_grpc_status *out);

/* For lk_grpc_server_options.observe: failures that are not the caller's go to the log, with their context. */
void lk_status_observe(lk_grpc_call *call, void *context, lk_rc rc, const lk_err *err);

#endif
