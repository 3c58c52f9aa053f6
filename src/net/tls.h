#ifndef LK_NET_TLS_H
#define LK_NET_TLS_H
/*
 * tls.h - certificates and keys from files, checked before anything listens: readable, PEM, key mode 0600,
 * certificate and key belong together. Threads: immutable once loaded.
 */
#include "base/bytes.h"
#include "base/err.h"

typedef struct lk_tls_identity {
    lk_buf certificate_chain, private_key; /* PEM, NUL-terminated; both empty: no TLS */
} lk_tls_identity;

/* Both NULL: *out stays empty. One of them, or files that do not fit: LK_E_INVALID_CONFIG. */
LK_MUST_CHECK lk_rc lk_tls_identity_load(
    lk_tls_identity *out, const char *cert_file, const char *key_file, lk_err *err);
void lk_tls_identity_deinit(lk_tls_identity *identity); /* wipes the key; idempotent */
bool lk_tls_identity_present(const lk_tls_identity *identity);

/* Certificate authorities for a client, PEM. LK_E_INVALID_CONFIG unless at least one certificate parses. */
LK_MUST_CHECK lk_rc lk_tls_roots_load(lk_buf *out, const char *ca_file, lk_err *err);

#endif
