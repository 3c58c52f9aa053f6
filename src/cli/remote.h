#ifndef LK_CLI_REMOTE_H
#define LK_CLI_REMOTE_H
/* remote.h - the server that a client command talks to: --endpoint, else LAKE_ENDPOINT. Threads: confined. */
#include "catalog/authority.h"
#include "cli/cli.h"
#include "net/grpc_client.h"

typedef struct lk_remote {
    lk_grpc_channel *channel;
    lk_authority    *authority; /* tables and appends, as the token's owner */
    lk_buf           token;
} lk_remote;

typedef struct lk_remote_args { /* the options every client command has */
    const char *endpoint, *token_file, *ca_file, *server_name;
} lk_remote_args;

/* clang-format off */
#define LK_REMOTE_ARGS(args) \
    {"--endpoint", LK_ARG_TEXT, &(args).endpoint, "URI", \
        "server, grpc://HOST:PORT or grpc+tls://HOST:PORT (LAKE_ENDPOINT, else grpc://127.0.0.1:50051)", false}, \
    {"--token-file", LK_ARG_TEXT, &(args).token_file, "FILE", "file with the bearer token to send", false}, \
    {"--ca", LK_ARG_TEXT, &(args).ca_file, "FILE", "PEM certificates to trust, for grpc+tls", false}, \
    {"--server-name", LK_ARG_TEXT, &(args).server_name, "NAME", "name the certificate must have", false}
/* clang-format on */

LK_MUST_CHECK lk_rc lk_remote_open(
    lk_remote *out, const lk_cli *cli, const lk_remote_args *args, lk_err *err);
void lk_remote_close(lk_remote *remote); /* idempotent */

#endif
