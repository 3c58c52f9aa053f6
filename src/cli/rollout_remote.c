/* rollout_remote.c - see rollout_remote.h. */
#include "cli/rollout_remote.h"

#include "base/clock.h"
#include "base/crypt.h"
#include "base/file.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define HELD_BYTES_MAX (1024ULL * 1024 * 1024) /* an answer without a sink */

enum {
    TOKEN_MAX = 8192,
    CONNECT_MS = 10000,
    STALL_MS = 300000, /* an add may wait for a merge */
    WAIT_FIRST_MS = 100,
    WAIT_LAST_MS = 10000,
    WAIT_ASKED_MAX_MS = 60000,
    FIELDS_MAX = 5
};

struct lk_rollout_remote {
    lk_http_client *client;
    char           *url; /* without a slash at its end */
    lk_buf          bearer;
    uint64_t        retry_ms;
};

const char *lk_rollout_remote_url(const lk_rollout_remote *remote)
{
    return remote->url;
}

static lk_rc load_token(
    lk_rollout_remote *remote, const lk_config *config, const char *token_file, lk_err *err)
{
    lk_buf text = {0};
    lk_rc  rc = LK_OK;
    if (token_file == NULL && config->rollout_token != NULL) {
        lk_buf_append_text(&text, config->rollout_token);
    } else if (token_file != NULL || config->token_file != NULL) {
        rc = lk_file_read(token_file != NULL ? token_file : config->token_file, TOKEN_MAX, &text, err);
    }
    while (text.size > 0 && (text.data[text.size - 1] == '\n' || text.data[text.size - 1] == '\r')) {
        text.size--;
    }
    if (rc == LK_OK && text.size > 0) {
        lk_buf_append_text(&remote->bearer, "Bearer ");
        lk_buf_append_bytes(&remote->bearer, lk_buf_view(&text));
        lk_wipe(text.data, text.size);
    }
    lk_buf_deinit(&text);
    return rc;
}

static lk_rc set_url(lk_rollout_remote *remote, const char *url, lk_err *err)
{
    lk_bytes text = lk_bytes_of(url);
    if (!lk_bytes_starts(text, LK_LITERAL("http://")) && !lk_bytes_starts(text, LK_LITERAL("https://"))) {
        return lk_refuse(err, LK_E_USAGE, "--url is http://HOST:PORT or https://HOST:PORT, not %.100s", url);
    }
    while (text.size > 0 && text.data[text.size - 1] == '/') {
        text.size--;
    }
    remote->url = strndup(text.data, text.size);
    LK_ASSERT(remote->url != NULL);
    return LK_OK;
}

lk_rc lk_rollout_remote_open(
    lk_rollout_remote **out, const lk_config *config, const lk_rollout_remote_options *options, lk_err *err)
{
    const lk_http_client_options http = {
        .ca_file = options->ca_file, .connect_ms = CONNECT_MS, .stall_ms = STALL_MS, .at_once = 1};
    lk_rollout_remote *remote = calloc(1, sizeof *remote);
    LK_ASSERT(remote != NULL);
    *out = NULL;
    remote->retry_ms = options->retry_secs * 1000;
    lk_rc rc = set_url(remote, options->url != NULL ? options->url : config->rollout_url, err);
    if (rc == LK_OK) {
        rc = load_token(remote, config, options->token_file, err);
    }
    if (rc == LK_OK) {
        rc = lk_http_client_open(&remote->client, &http, err);
    }
    if (rc != LK_OK) {
        lk_rollout_remote_close(remote);
        return rc;
    }
    *out = remote;
    return LK_OK;
}

void lk_rollout_remote_close(lk_rollout_remote *remote)
{
    if (remote == NULL) {
        return;
    }
    lk_http_client_close(remote->client);
    if (remote->bearer.size > 0) {
        lk_wipe(remote->bearer.data, remote->bearer.size);
    }
    lk_buf_deinit(&remote->bearer);
    free(remote->url);
    free(remote);
}

void lk_rollout_path_escape(lk_bytes text, lk_buf *out)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
                     c == '.' || c == '_' || c == '~';
        if (plain) {
            lk_buf_append(out, &c, 1);
        } else {
            lk_buf_format(out, "%%%02X", c);
        }
    }
}

uint64_t lk_rollout_retry_wait_ms(unsigned attempt, lk_bytes retry_after, lk_random *random)
{
    uint64_t asked = 0;
    bool     digits = retry_after.size > 0 && retry_after.size < 8;
    for (size_t i = 0; i < retry_after.size && digits; i++) {
        digits = retry_after.data[i] >= '0' && retry_after.data[i] <= '9';
        asked = digits ? asked * 10 + (uint64_t)(retry_after.data[i] - '0') : asked;
    }
    if (digits) {
        return asked * 1000 < WAIT_ASKED_MAX_MS ? asked * 1000 : WAIT_ASKED_MAX_MS;
    }
    uint64_t longest = WAIT_FIRST_MS;
    for (unsigned i = 1; i < attempt && longest < WAIT_LAST_MS; i++) {
        longest *= 2;
    }
    longest = longest < WAIT_LAST_MS ? longest : WAIT_LAST_MS;
    return longest / 2 + lk_random_below(random, longest / 2 + 1);
}

/* -- one attempt ---------------------------------------------------------------------------------------------------- */
typedef struct attempt {
    const lk_rollout_call *request;
    uint64_t               taken; /* bytes that the sink has, of all attempts */
    uint64_t               from;  /* and how many it had before this one */
    bool                   ended; /* by the sink */
    lk_buf                 held;  /* without a sink: what a 200 of this attempt brought */
} attempt;

static bool hold(void *context, const void *data, size_t size)
{
    attempt *a = context;
    bool     fits = size <= HELD_BYTES_MAX - a->held.size;
    if (fits) {
        lk_buf_append(&a->held, data, size);
    }
    return fits;
}

static bool take(void *context, const void *data, size_t size)
{
    attempt *a = context;
    a->ended = !a->request->sink(a->request->sink_context, data, size);
    a->taken += a->ended ? 0 : size;
    return !a->ended;
}

static void perform(lk_rollout_remote *remote, attempt *a, lk_http_call *call, lk_arena *arena)
{
    const lk_rollout_call *r = a->request;
    lk_http_header         fields[FIELDS_MAX];
    size_t                 count = 0;
    if (remote->bearer.size > 0) {
        fields[count++] = (lk_http_header){LK_LITERAL("Authorization"), lk_buf_view(&remote->bearer)};
    }
    if (r->content_type != NULL) {
        fields[count++] = (lk_http_header){LK_LITERAL("Content-Type"), lk_bytes_of(r->content_type)};
    }
    if (r->accept != NULL) {
        fields[count++] = (lk_http_header){LK_LITERAL("Accept"), lk_bytes_of(r->accept)};
    }
    if (a->taken > 0) {
        fields[count++] =
            (lk_http_header){LK_LITERAL("Range"), lk_arena_format(arena, "bytes=%" PRIu64 "-", a->taken)};
    }
    lk_buf_clear(&a->held);
    a->from = a->taken;
    *call = (lk_http_call){.method = r->method,
        .url = lk_arena_format(arena, "%s/api/v1%s", remote->url, r->path).data,
        .headers = fields,
        .header_count = count,
        .body = r->body,
        .has_body = r->content_type != NULL,
        .sink = r->sink != NULL ? take : hold,
        .sink_context = a,
        .sink_status = a->taken > 0 ? 206 : 200};
    lk_http_perform(remote->client, &(lk_http_call *){call}, 1);
    call->headers = NULL; /* fields end here */
}

/* -- answers -------------------------------------------------------------------------------------------------------- */

/* By the code of the error's body; a proxy's answer has none and goes by its status. */
static lk_rc error_of(lk_bytes code, int status)
{
    static const struct {
        const char *code;
        int         status;
        lk_rc       rc;
    } known[] = {
        {"INVALID_REQUEST", 400, LK_E_INVALID_REQUEST},
        {"UNAUTHENTICATED", 401, LK_E_UNAUTHENTICATED},
        {"FORBIDDEN", 403, LK_E_DENIED},
        {"NOT_FOUND", 404, LK_E_NOT_FOUND},
        {"ALREADY_EXISTS", 0, LK_E_TABLE_EXISTS},
        {"SHARD_FENCED", 0, LK_E_SHARD_FENCED},
        {"CONFLICT", 409, LK_E_CONFLICT},
        {"GONE", 410, LK_E_SNAPSHOT_GONE},
        {"TOO_LARGE", 413, LK_E_LIMIT},
        {"UNSUPPORTED_MEDIA_TYPE", 415, LK_E_INVALID_REQUEST},
        {"BACKPRESSURE", 429, LK_E_UNREACHABLE},
        {"OVERLOADED", 503, LK_E_UNREACHABLE},
        {"STORAGE_UNAVAILABLE", 0, LK_E_STORE_UNAVAILABLE},
        {NULL, 502, LK_E_UNREACHABLE},
        {NULL, 504, LK_E_UNREACHABLE},
    };
    lk_rc by_status = LK_E_INTERNAL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].code != NULL && lk_bytes_equal(code, lk_bytes_of(known[i].code))) {
            return known[i].rc;
        }
        by_status = known[i].status == status ? known[i].rc : by_status;
    }
    return by_status;
}

/* {"error":{"code":…,"message":…}} */
static void read_error(lk_bytes body, lk_arena *arena, lk_bytes *code, lk_bytes *message)
{
    lk_err              ignored = {0};
    lk_bytes            inner = {0};
    const lk_json_field outside[] = {{"error", LK_JSON_RAW, &inner, false, NULL}};
    const lk_json_field inside[] = {
        {"code", LK_JSON_TEXT, code, false, NULL}, {"message", LK_JSON_TEXT, message, false, NULL}};
    if (lk_json_read(body, outside, 1, arena, &ignored) != LK_OK ||
        lk_json_read(inner, inside, 2, arena, &ignored) != LK_OK) {
        *code = *message = (lk_bytes){0};
    }
}

/* Whether another attempt may end better. A fenced instance has not stored it; others, or it itself a little later, will. */
static bool is_passing(const attempt *a, const lk_http_call *call, lk_arena *arena)
{
    lk_bytes code = {0}, message = {0};
    if (a->taken > 0 && !a->request->ranged) {
        return false;
    }
    if (call->end != LK_HTTP_ANSWERED) {
        return call->end == LK_HTTP_NOT_SENT || call->end == LK_HTTP_BROKEN;
    }
    if (call->status == 409) {
        read_error(lk_buf_view(&call->body_in), arena, &code, &message);
    }
    return call->status == 429 || (call->status >= 502 && call->status <= 504) ||
           lk_bytes_equal(code, LK_LITERAL("SHARD_FENCED"));
}

static lk_rc conclude(lk_rollout_remote *remote, const attempt *a, lk_http_call *call, lk_arena *arena,
    lk_buf *answer, lk_err *err)
{
    lk_bytes code = {0}, message = {0};
    if (a->ended) {
        return lk_fail(err, LK_E_CANCELLED, "%s: ended by whom the answer is for", a->request->path);
    }
    if (call->end != LK_HTTP_ANSWERED) {
        return lk_refuse(err, call->end == LK_HTTP_REFUSED ? LK_E_LIMIT : LK_E_UNREACHABLE, "%.100s: %.120s",
            remote->url, call->reason);
    }
    if (a->from > 0 && call->status == 200) {
        return lk_refuse(err, LK_E_UNREACHABLE,
            "%.100s: the connection was lost, and it cannot go on from there", remote->url);
    }
    if (call->status >= 200 && call->status < 300) {
        lk_buf_append_bytes(answer, lk_buf_view(&a->held));
        lk_buf_append_bytes(answer, lk_buf_view(&call->body_in));
        return LK_OK;
    }
    read_error(lk_buf_view(&call->body_in), arena, &code, &message);
    if (message.size == 0) {
        message = lk_arena_format(arena, "HTTP status %d", call->status);
    }
    lk_rc    rc = error_of(code, call->status);
    lk_bytes already = lk_arena_format(arena, "%s: ", lk_rc_text(rc)); /* our own message begins so, too */
    if (lk_bytes_starts(message, already)) {
        message = (lk_bytes){message.data + already.size, message.size - already.size};
    }
    return lk_refuse(err, rc, "%.*s",
        (int)(message.size < LK_ERR_DETAIL_BYTES ? message.size : LK_ERR_DETAIL_BYTES - 1), message.data);
}

lk_rc lk_rollout_remote_call(
    lk_rollout_remote *remote, const lk_rollout_call *request, lk_buf *answer, lk_err *err)
{
    attempt   a = {.request = request};
    lk_arena  arena = {0};
    lk_clock *clock = lk_clock_real();
    uint64_t  until_ms = lk_clock_monotonic_ms(clock) + remote->retry_ms;
    lk_rc     rc = LK_OK;
    for (unsigned tries = 1;; tries++) {
        lk_http_call call = {0};
        lk_bytes     asked = {0};
        perform(remote, &a, &call, &arena);
        (void)lk_http_call_header(&call, "Retry-After", &asked);
        uint64_t wait_ms = lk_rollout_retry_wait_ms(tries, asked, lk_random_os());
        bool     again =
            !a.ended && is_passing(&a, &call, &arena) && lk_clock_monotonic_ms(clock) + wait_ms <= until_ms;
        if (!again) {
            rc = conclude(remote, &a, &call, &arena, answer, err);
        }
        lk_http_call_deinit(&call);
        if (!again) {
            break;
        }
        lk_clock_sleep_ms(clock, wait_ms);
    }
    lk_buf_deinit(&a.held);
    lk_arena_close(&arena);
    return rc;
}
