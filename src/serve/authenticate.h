#ifndef LK_SERVE_AUTHENTICATE_H
#define LK_SERVE_AUTHENTICATE_H
/*
 * authenticate.h - who calls: every RPC on every port passes here first and gets its lk_principal as attachment.
 *
 * `authorization: Bearer TOKEN`, or `Basic base64(user:TOKEN)` with any user name (drivers that know only user
 * and password). Without configured credentials everyone is the development principal. Failures are one
 * constant LK_E_UNAUTHENTICATED; a peer that keeps failing at Handshake, where people type passwords, waits.
 *
 * Threads: shared; the failure table is guarded by a mutex of rank SERVER.
 */
#include "base/config.h"
#include "model/principal.h"
#include "net/grpc_server.h"

typedef struct lk_authenticator lk_authenticator;

/* principals is borrowed and outlives it. */
lk_authenticator *lk_authenticator_open(lk_principals *principals);
void              lk_authenticator_close(lk_authenticator *authenticator); /* accepts NULL */
/* Others from now on; those before are used by calls that they admitted, and outlive the authenticator, too. */
void lk_authenticator_set(lk_authenticator *authenticator, lk_principals *principals);

/* For lk_grpc_server_options.admit; context is the authenticator. */
lk_rc lk_authenticate(lk_grpc_call *call, void *authenticator, lk_err *err);

/* Flight's Handshake: answers with the bearer token that later calls send (header, trailer and payload). Basic
 * credentials may come as header or, as Flight's first protocol had it, as the BasicAuth message. */
lk_grpc_method lk_handshake_method(lk_authenticator *authenticator);

/* A listener off loopback needs credentials and TLS; LAKE_ALLOW_INSECURE waives TLS, by name. LK_E_INSECURE. */
LK_MUST_CHECK lk_rc lk_exposure_check(
    const char *address, const lk_config *config, const lk_principals *principals, bool tls, lk_err *err);

#endif
