#ifndef LK_NET_GRPC_WIRE_PRIV_H
#define LK_NET_GRPC_WIRE_PRIV_H
/*
 * grpc_wire_priv.h - inside net/ only: between our messages and the library's, and time.
 * Threads: stateless.
 */
#include "net/grpc_message.h"

#include <grpc/grpc.h>

/* Makes a byte buffer that references the large pieces; takes over message->release. */
grpc_byte_buffer *lk_grpc_wire_out(const lk_grpc_out *message);

/* Moves a received byte buffer into *out. */
void lk_grpc_wire_in(grpc_byte_buffer *take, lk_grpc_message *out);

/* Absolute monotonic milliseconds (0: never) as the library wants them, and back. */
gpr_timespec lk_grpc_wire_time(uint64_t deadline_ms);
uint64_t     lk_grpc_wire_deadline(gpr_timespec time);

static inline lk_bytes lk_grpc_wire_view(const grpc_slice *slice)
{
    return (lk_bytes){(const char *)GRPC_SLICE_START_PTR(*slice), GRPC_SLICE_LENGTH(*slice)};
}

static inline grpc_op lk_grpc_wire_op(grpc_op_type type)
{
    grpc_op op;
    memset(&op, 0, sizeof op);
    op.op = type;
    return op;
}

/* The first value of a key in a metadata array; false when absent. Borrowed from the array. */
bool lk_grpc_wire_find(const grpc_metadata_array *array, const char *name, lk_bytes *value);

grpc_slice lk_grpc_wire_slice(lk_bytes bytes); /* a copy */

#endif
