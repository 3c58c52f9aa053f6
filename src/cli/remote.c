/* remote.c - see remote.h. */
#include "cli/remote.h"

#include "base/file.h"
#include "serve/authority_client.h"

static lk_rc read_token(lk_remote *remote, const char *path, lk_err *err)
{
    enum { TOKEN_MAX = 8192 };
    lk_rc rc = path == NULL ? LK_OK : lk_file_read(path, TOKEN_MAX, &remote->token, err);
    while (remote->token.size > 0 && strchr("\r\n", remote->token.data[remote->token.size - 1]) != NULL) {
        remote->token.size--;
    }
    return rc;
}

lk_rc lk_remote_open(lk_remote *out, const lk_cli *cli, const lk_remote_args *args, lk_err *err)
{
    *out = (lk_remote){0};
    lk_rc rc = read_token(out, args->token_file != NULL ? args->token_file : cli->config->token_file, err);
    if (rc == LK_OK) {
        const lk_grpc_channel_options options = {
            .endpoint = args->endpoint != NULL ? args->endpoint : cli->config->endpoint,
            .ca_file = args->ca_file,
            .server_name = args->server_name,
            .token = lk_buf_view(&out->token)};
        rc = lk_grpc_channel_open(&out->channel, &options, err);
    }
    if (rc == LK_OK) {
        rc = lk_authority_client_open(&out->authority, out->channel, err);
    }
    if (rc != LK_OK) {
        lk_remote_close(out);
    }
    return rc;
}

void lk_remote_close(lk_remote *remote)
{
    if (remote->authority != NULL) {
        remote->authority->ops->close(remote->authority);
    }
    lk_grpc_channel_close(remote->channel);
    lk_buf_deinit(&remote->token);
    *remote = (lk_remote){0};
}
