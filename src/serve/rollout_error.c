/* rollout_error.c - see rollout_error.h. */
#include "serve/rollout_error.h"

#include "base/json.h"
#include "base/log.h"

typedef struct row {
    lk_rc       rc;
    int         status;
    const char *code;
} row;

/* What is not here is the server's own fault: 500 INTERNAL. */
static const row rows[] = {
    {LK_E_INVALID_REQUEST, 400, "INVALID_REQUEST"},
    {LK_E_INVALID_IDENTIFIER, 400, "INVALID_REQUEST"},
    {LK_E_INVALID_CONFIG, 400, "INVALID_REQUEST"}, /* a store's own options */
    {LK_E_INVALID_SCHEMA, 400, "INVALID_REQUEST"},
    {LK_E_INVALID_IPC, 400, "INVALID_REQUEST"},
    {LK_E_SCHEMA_MISMATCH, 400, "INVALID_REQUEST"},
    {LK_E_UNAUTHENTICATED, 401, "UNAUTHENTICATED"},
    {LK_E_DENIED, 403, "FORBIDDEN"},
    {LK_E_NOT_FOUND, 404, "NOT_FOUND"},
    {LK_E_TABLE_NOT_FOUND, 404, "NOT_FOUND"},
    {LK_E_METHOD, 405, "METHOD_NOT_ALLOWED"},
    {LK_E_TABLE_EXISTS, 409, "ALREADY_EXISTS"},
    {LK_E_CONFLICT, 409, "CONFLICT"},
    {LK_E_FOREIGN_COMMIT, 409, "CONFLICT"},
    {LK_E_PRECONDITION, 409, "CONFLICT"},
    {LK_E_COMPACTION_IN_PROGRESS, 409, "COMPACTION_IN_PROGRESS"},
    {LK_E_SHARD_FENCED, 409, "SHARD_FENCED"},
    {LK_E_SNAPSHOT_GONE, 410, "GONE"},
    {LK_E_TOO_LARGE, 413, "TOO_LARGE"},
    {LK_E_UNSUPPORTED_MEDIA, 415, "UNSUPPORTED_MEDIA_TYPE"},
    {LK_E_RANGE, 416, "RANGE_NOT_SATISFIABLE"},
    {LK_E_BACKPRESSURE, 429, "BACKPRESSURE"},
    {LK_E_LIMIT, 503, "OVERLOADED"},
    {LK_E_DEADLINE, 503, "OVERLOADED"},
    {LK_E_CANCELLED, 503, "OVERLOADED"},
    {LK_E_SHUTTING_DOWN, 503, "OVERLOADED"},
    {LK_E_STORE_UNAVAILABLE, 503, "STORAGE_UNAVAILABLE"},
    {LK_E_STORE_FULL, 503, "STORAGE_UNAVAILABLE"},
    {LK_E_UNREACHABLE, 503, "STORAGE_UNAVAILABLE"},
    {LK_E_IO, 503, "STORAGE_UNAVAILABLE"},
};

lk_rollout_status lk_rollout_status_of(lk_rc rc)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].rc == rc) {
            return (lk_rollout_status){rows[i].status, rows[i].code};
        }
    }
    return (lk_rollout_status){500, "INTERNAL"};
}

/* Whose data is damaged must know which file; the paths lie within the store. */
static bool names_file(const lk_err *err)
{
    return err->rc == LK_E_CORRUPT_FILE || err->rc == LK_E_CORRUPT_RECORD ||
           err->rc == LK_E_UNSUPPORTED_FORMAT || (err->rc == LK_E_SNAPSHOT_GONE && err->detail[0] == '\0');
}

void lk_rollout_error_body(
    lk_http_exchange *exchange, const lk_err *err, lk_rollout_status status, lk_buf *out)
{
    char           text[LK_ERR_DETAIL_BYTES + 128];
    lk_buf         message = {0};
    lk_json_writer w = {.out = out};
    if (err->rc == LK_E_CONFLICT &&
        err->detail[0] != '\0') { /* what is in the way, and not that it may pass */
        lk_buf_append_text(&message, err->detail);
    } else {
        lk_buf_append_text(&message, lk_err_message(err, text, sizeof text));
    }
    if (names_file(err)) {
        lk_buf_format(&message, " (%.*s)", (int)err->len, err->context);
    }
    for (size_t i = 0; i < message.size; i++) { /* a detail may have been cut within a character */
        message.data[i] = (unsigned char)message.data[i] < ' ' ? ' ' : message.data[i];
    }
    if (!lk_bytes_are_utf8(lk_buf_view(&message))) {
        for (size_t i = 0; i < message.size; i++) {
            message.data[i] = (unsigned char)message.data[i] > '~' ? '?' : message.data[i];
        }
    }
    lk_json_object(&w);
    lk_json_key(&w, "error");
    lk_json_object(&w);
    lk_json_key(&w, "code");
    lk_json_text(&w, lk_bytes_of(status.code));
    lk_json_key(&w, "message");
    lk_json_text(&w, lk_buf_view(&message));
    lk_json_object_end(&w);
    lk_json_object_end(&w);
    lk_buf_deinit(&message);
    if (status.status == 429 || status.status == 503) {
        lk_http_add_field(exchange, "Retry-After", LK_LITERAL("1"));
    }
    if (status.status == 401) {
        lk_http_add_field(exchange, "WWW-Authenticate", LK_LITERAL("Bearer"));
    }
    if (status.status >= 500 && err->rc != LK_E_CANCELLED) {
        lk_log(LK_LOG_REQUEST_FAILED, LK_LOG_T("path", lk_http_request(exchange)->path),
            LK_LOG_T("code", lk_bytes_of(lk_rc_name(err->rc))),
            LK_LOG_T("context", ((lk_bytes){err->context, err->len})));
    }
}

void lk_rollout_refuse(lk_http_exchange *exchange, const lk_err *err)
{
    lk_buf            body = {0};
    lk_rollout_status status = lk_rollout_status_of(err->rc);
    lk_rollout_error_body(exchange, err, status, &body);
    lk_http_answer(exchange, status.status, "application/json", &body);
}
