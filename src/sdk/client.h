#ifndef LK_SDK_CLIENT_H
#define LK_SDK_CLIENT_H
/*
 * client.h - a Flight SQL client: statements in, batches out. Tables and appends go through the lk_authority that
 * serve/authority_client makes of the same channel.
 *
 * Threads: shared; a result is confined.
 */
#include "arrow/batch.h"
#include "base/thread.h"
#include "net/grpc_client.h"

/* Plans the statement on the server and opens its result; the whole is read with lk_batches_next. Whatever the
 * server reports comes back as the same lk_rc; a server that is not there is LK_E_UNREACHABLE. channel is
 * borrowed and outlives the result; cancel (may be NULL) likewise. */
LK_MUST_CHECK lk_rc lk_client_query(
    lk_grpc_channel *channel, lk_bytes sql, lk_cancel *cancel, lk_batches **out, lk_err *err);

#endif
