#ifndef LK_SERVE_AUTHORITY_CLIENT_H
#define LK_SERVE_AUTHORITY_CLIENT_H
/*
 * authority_client.h - lk_authority over Flight: a Query's way to its Metasrv, and a client's way to a Query.
 *
 * With a caller (who != NULL) the call is made on its behalf: its tenant and the target namespace travel as
 * delegation headers. With who == NULL it is made as the token's owner. Errors come back as the lake errors they
 * were; those after which an append may have happened have err->maybe_applied set.
 *
 * Threads: shared; the channel is pooled. Calls block, each at most LK_AUTHORITY_CALL_TIMEOUT_MS (appends
 * LK_AUTHORITY_APPEND_TIMEOUT_MS).
 */
#include "catalog/authority.h"
#include "net/grpc_client.h"

/* channel is borrowed and outlives the authority. ops->close frees it. */
LK_MUST_CHECK lk_rc lk_authority_client_open(lk_authority **out, lk_grpc_channel *channel, lk_err *err);

#endif
