#ifndef LK_NET_ADDRESS_H
#define LK_NET_ADDRESS_H
/*
 * address.h - "HOST:PORT" texts of listeners and endpoints. Hosts of listeners are numeric, or localhost:
 * what a name would resolve to tomorrow is no basis for the exposure rule. Threads: stateless.
 */
#include "base/bytes.h"
#include "base/err.h"

enum { LK_ADDRESS_TEXT_SIZE = 80, LK_ADDRESS_HOST_SIZE = 256 };

typedef struct lk_address {
    char     host[LK_ADDRESS_HOST_SIZE]; /* numeric, without brackets */
    uint16_t port;
    bool     v6, loopback;
} lk_address;

/* Reads a listener's address. LK_E_INVALID_CONFIG with the rule as detail. */
LK_MUST_CHECK lk_rc lk_address_parse(const char *text, lk_address *out, lk_err *err);

/* "127.0.0.1:50051", "[::1]:50051". */
void lk_address_format(const lk_address *address, uint16_t port, char out[LK_ADDRESS_TEXT_SIZE]);

/* Why nobody can listen there now: LK_E_ADDRESS_IN_USE, LK_E_INVALID_CONFIG (not ours, no permission) or
 * LK_E_IO; LK_OK when a socket could be bound after all. */
LK_MUST_CHECK lk_rc lk_address_probe(const lk_address *address, lk_err *err);

/* Splits an endpoint: SCHEME://HOST[:PORT][/] or HOST[:PORT]. *tls follows the scheme. The host may be a name. */
LK_MUST_CHECK lk_rc lk_endpoint_parse(
    const char *text, char host[LK_ADDRESS_HOST_SIZE], uint16_t *port, bool *tls, lk_err *err);

#endif
