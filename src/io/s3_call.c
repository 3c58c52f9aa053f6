/* s3_call.c - see s3_priv.h: requests made, signed, tried again and explained. */
#include "base/hash.h"
#include "io/s3_priv.h"
#include "io/s3_xml.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void lk_s3_add_query(lk_s3_call *call, lk_bytes name, lk_bytes value)
{
    LK_ASSERT(call->query_count < LK_S3_CALL_QUERY_MAX);
    call->query[call->query_count++] = (lk_s3_pair){name, value};
}

void lk_s3_add_header(lk_s3_call *call, lk_bytes name, lk_bytes value)
{
    LK_ASSERT(call->header_count < LK_S3_CALL_HEADERS_MAX);
    call->headers[call->header_count++] = (lk_s3_pair){name, value};
}

void lk_s3_call_deinit(lk_s3_call *call)
{
    lk_http_call_deinit(&call->http);
}

/* -- one try -------------------------------------------------------------------------------------------- */

static lk_bytes path_of(const lk_s3_store *store, lk_bytes key, lk_arena *arena)
{
    lk_buf path = {0};
    lk_buf_append_text(&path, "/");
    if (store->in_path) {
        lk_s3_encode(&path, store->bucket, false);
        lk_buf_append_text(&path, key.size > 0 ? "/" : "");
    }
    lk_s3_encode(&path, key, true);
    lk_bytes copy = lk_arena_copy(arena, lk_buf_view(&path));
    lk_buf_deinit(&path);
    return copy;
}

enum { HEADERS_MAX = LK_S3_CALL_HEADERS_MAX + 5 };

/* The headers that are signed. */
static size_t list_headers(
    const lk_s3_store *store, const lk_s3_call *call, lk_bytes time, lk_bytes hash, lk_s3_pair *out)
{
    size_t count = 0;
    out[count++] = (lk_s3_pair){LK_LITERAL("Host"), store->host};
    out[count++] = (lk_s3_pair){LK_LITERAL("x-amz-date"), time};
    out[count++] = (lk_s3_pair){LK_LITERAL("x-amz-content-sha256"), hash};
    if (store->options.session_token != NULL) {
        out[count++] =
            (lk_s3_pair){LK_LITERAL("x-amz-security-token"), lk_bytes_of(store->options.session_token)};
    }
    for (size_t i = 0; i < call->header_count; i++) {
        out[count++] = call->headers[i];
    }
    return count;
}

/* The key of the day that the scope's time is on. */
static void take_day_key(lk_s3_store *store, lk_s3_scope *scope, uint8_t key[LK_SHA256_SIZE])
{
    lk_mutex_lock(&store->mutex);
    if (memcmp(store->day, scope->time.data, sizeof store->day) != 0) {
        lk_s3_day_key(scope, store->day_key);
        memcpy(store->day, scope->time.data, sizeof store->day);
    }
    memcpy(key, store->day_key, LK_SHA256_SIZE);
    lk_mutex_unlock(&store->mutex);
    scope->day_key = key;
}

/* Fills the exchange for a try that begins now; its texts are in the arena. */
static void prepare(lk_s3_store *store, lk_s3_call *call, lk_bytes hash, lk_arena *arena)
{
    lk_s3_pair           pairs[HEADERS_MAX];
    lk_http_header      *headers = lk_arena_take(arena, HEADERS_MAX * sizeof *headers);
    lk_bytes             time = lk_s3_time(lk_clock_wall_ms(store->options.clock), arena);
    lk_bytes             path = path_of(store, call->key, arena);
    lk_bytes             query = lk_s3_canonical_query(call->query, call->query_count, arena);
    size_t               count = list_headers(store, call, time, hash, pairs);
    const lk_s3_signable request = {.method = lk_bytes_of(call->method),
        .path = path,
        .query = call->query,
        .query_count = call->query_count,
        .headers = pairs,
        .header_count = count,
        .payload_hash = hash};
    uint8_t              key[LK_SHA256_SIZE];
    lk_s3_scope          scope = {.access_key = lk_bytes_of(store->options.access_key),
                 .secret_key = lk_bytes_of(store->options.secret_key),
                 .region = store->region,
                 .service = LK_LITERAL("s3"),
                 .time = time};
    take_day_key(store, &scope, key);
    for (size_t i = 0; i < count; i++) {
        headers[i] = (lk_http_header){pairs[i].name, pairs[i].value};
    }
    headers[count++] =
        (lk_http_header){LK_LITERAL("Authorization"), lk_s3_authorization(&request, &scope, arena)};
    explicit_bzero(key, sizeof key);
    lk_http_call *x = &call->http;
    x->method = call->method;
    x->url = lk_arena_format(arena, "%.*s%.*s%s%.*s", LK_FMT(store->origin), LK_FMT(path),
        query.size > 0 ? "?" : "", LK_FMT(query))
                 .data;
    x->headers = headers;
    x->header_count = count;
    x->body = call->body;
    x->has_body = call->has_body;
    x->sink = call->sink;
    x->sink_context = call->context;
    x->sink_status = call->sink_status;
    if (call->begin != NULL) {
        call->begin(call->context);
    }
}

/* -- again? --------------------------------------------------------------------------------------------- */

lk_bytes lk_s3_code(const lk_s3_call *call, lk_arena *arena)
{
    return lk_xml_find(lk_buf_view(&call->http.body_in), "Code", arena);
}

/* An answer of 200 may still hold an error: CompleteMultipartUpload sends its status before it is done. */
static bool is_error_inside(const lk_s3_call *call)
{
    lk_arena arena = {0};
    lk_xml   xml = lk_xml_of(lk_buf_view(&call->http.body_in));
    bool     found = call->http.body_in.size > 0 && lk_xml_next(&xml, &arena) == LK_XML_OPEN &&
                 lk_bytes_equal(xml.value, LK_LITERAL("Error"));
    lk_arena_close(&arena);
    return found;
}

static bool is_one_of(lk_bytes text, const char *const *list)
{
    bool found = false;
    for (size_t i = 0; list[i] != NULL && !found; i++) {
        found = lk_bytes_equal(text, lk_bytes_of(list[i]));
    }
    return found;
}

/* Whether the server asks, or its silence, to try again; notes in `unclear` what may have happened. */
static bool is_later(lk_s3_call *call)
{
    static const char *const later[] = {"SlowDown", "RequestTimeout", "ConditionalRequestConflict",
        "OperationAborted", "InternalError", "ServiceUnavailable", "Throttling", "ThrottlingException", NULL};
    const lk_http_call      *x = &call->http;
    if (x->end != LK_HTTP_ANSWERED) {
        call->unclear = call->unclear || x->end == LK_HTTP_BROKEN;
        return x->end == LK_HTTP_BROKEN || x->end == LK_HTTP_NOT_SENT;
    }
    bool inside = x->status == 200 && is_error_inside(call);
    if (x->status < 400 && !inside) {
        return false;
    }
    lk_arena arena = {0};
    bool     asked = is_one_of(lk_s3_code(call, &arena), later);
    lk_arena_close(&arena);
    bool failing = x->status == 500 || x->status == 502 || x->status == 503 || x->status == 504;
    call->unclear = call->unclear || failing || (inside && asked);
    return asked || failing || x->status == 429 || x->status == 408;
}

/* A random part of a wait that doubles, so that many clients do not come back together. */
static uint64_t backoff_ms(lk_s3_store *store, size_t tries)
{
    uint64_t most = (uint64_t)LK_S3_BACKOFF_MS << (tries < 16 ? tries : 16);
    most = most < LK_S3_BACKOFF_MS_MAX ? most : LK_S3_BACKOFF_MS_MAX;
    return most / 4 + lk_random_below(store->options.random, most - most / 4);
}

static lk_rc fail_unavailable(const lk_s3_store *store, const lk_s3_call *call, size_t tries, lk_err *err)
{
    lk_arena arena = {0};
    lk_bytes code = lk_s3_code(call, &arena);
    char     answer[64];
    (void)snprintf(answer, sizeof answer, "status %d %.*s", call->http.status,
        (int)(code.size < 40 ? code.size : 40), code.data);
    const char *why = call->http.end == LK_HTTP_ANSWERED ? answer : call->http.reason;
    lk_rc       rc = lk_fail(err, LK_E_STORE_UNAVAILABLE, "s3://%.*s/%.*s: %s %s after %zu tries: %s",
              LK_FMT(store->bucket), LK_FMT(call->key), call->method, store->origin.data, tries, why);
    lk_detail(err, "%.60s at %.80s, tried %zu times; is the endpoint right and up?", why, store->origin.data,
        tries);
    err->maybe_applied =
        call->unclear && strcmp(call->method, "GET") != 0 && strcmp(call->method, "HEAD") != 0;
    lk_arena_close(&arena);
    return rc;
}

/* -- calls ---------------------------------------------------------------------------------------------- */

static lk_bytes hash_of(const lk_s3_call *call, lk_arena *arena)
{
    uint8_t hash[LK_SHA256_SIZE];
    char   *hex = lk_arena_take(arena, LK_SHA256_HEX_SIZE + 1);
    lk_sha256_of(call->body, hash);
    lk_hex(hash, sizeof hash, hex);
    return (lk_bytes){hex, LK_SHA256_HEX_SIZE};
}

/* One try of each; keeps in calls[] those that must be tried again. */
static void try_all(lk_s3_store *store, lk_s3_call **calls, const lk_bytes *hashes, size_t *order,
    size_t *count, lk_arena *arena)
{
    lk_http_call **exchanges = lk_arena_take(arena, *count * sizeof(lk_http_call *));
    size_t         left = 0;
    for (size_t i = 0; i < *count; i++) {
        prepare(store, calls[order[i]], hashes[order[i]], arena);
        exchanges[i] = &calls[order[i]]->http;
    }
    lk_http_perform(store->http, exchanges, *count);
    for (size_t i = 0; i < *count; i++) {
        if (is_later(calls[order[i]])) {
            order[left++] = order[i];
        }
    }
    *count = left;
}

static lk_rc fail_at_once(const lk_s3_store *store, lk_s3_call **calls, size_t count, lk_err *err)
{
    for (size_t i = 0; i < count; i++) {
        const lk_http_call *x = &calls[i]->http;
        if (x->end == LK_HTTP_UNTRUSTED) {
            return lk_refuse(err, LK_E_INVALID_CONFIG, "%.80s: %.80s; AWS_CA_BUNDLE may name its authority",
                store->origin.data, x->reason);
        }
        if (x->end == LK_HTTP_REFUSED) {
            return lk_fail(
                err, LK_E_IO, "s3://%.*s/%.*s: %s", LK_FMT(store->bucket), LK_FMT(calls[i]->key), x->reason);
        }
    }
    return LK_OK;
}

lk_rc lk_s3_run(lk_s3_store *store, lk_s3_call **calls, size_t count, lk_err *err)
{
    lk_arena  arena = {0};
    size_t   *order = lk_arena_take(&arena, (count + 1) * sizeof *order);
    lk_bytes *hashes = lk_arena_take(&arena, (count + 1) * sizeof *hashes);
    size_t    left = count, tries = 0;
    uint64_t  deadline = lk_clock_monotonic_ms(store->options.clock) + store->options.timeout_ms;
    for (size_t i = 0; i < count; i++) {
        order[i] = i;
        hashes[i] = hash_of(calls[i], &arena);
    }
    while (left > 0) {
        lk_arena scratch = {0};
        try_all(store, calls, hashes, order, &left, &scratch);
        lk_arena_close(&scratch);
        uint64_t wait = backoff_ms(store, tries++);
        if (left > 0 &&
            (tries == LK_S3_TRIES_MAX || lk_clock_monotonic_ms(store->options.clock) + wait >= deadline)) {
            break;
        }
        if (left > 0) {
            lk_clock_sleep_ms(store->options.clock, wait);
        }
    }
    lk_rc rc = fail_at_once(store, calls, count, err);
    if (rc == LK_OK && left > 0) {
        rc = fail_unavailable(store, calls[order[0]], tries, err);
    }
    lk_arena_close(&arena);
    return rc;
}

/* -- answers that are errors ---------------------------------------------------------------------------- */

static const struct advice {
    const char *code; /* S3's; NULL: by status */
    int         status;
    lk_rc       rc;
    const char *text;
} advices[] = {
    {"NoSuchKey", 0, LK_E_NOT_FOUND, "there is no such object"},
    {"NoSuchBucket", 0, LK_E_INVALID_CONFIG,
        "there is no such bucket; create it, or set AWS_ENDPOINT_URL_S3"},
    {"PermanentRedirect", 0, LK_E_INVALID_CONFIG,
        "the bucket is elsewhere; set AWS_REGION or AWS_ENDPOINT_URL_S3"},
    {"AuthorizationHeaderMalformed", 0, LK_E_INVALID_CONFIG, "set AWS_REGION to the bucket's region"},
    {"InvalidAccessKeyId", 0, LK_E_DENIED, "the server does not know AWS_ACCESS_KEY_ID"},
    {"XAdminUserNotFound", 0, LK_E_DENIED, "the server does not know AWS_ACCESS_KEY_ID"},
    {"SignatureDoesNotMatch", 0, LK_E_DENIED, "AWS_SECRET_ACCESS_KEY is not the key's"},
    {"ExpiredToken", 0, LK_E_DENIED, "get a new AWS_SESSION_TOKEN with its keys"},
    {"InvalidToken", 0, LK_E_DENIED, "AWS_SESSION_TOKEN does not go with the keys"},
    {"RequestTimeTooSkewed", 0, LK_E_DENIED, "set this machine's clock"},
    {"AccessDenied", 0, LK_E_DENIED, "the keys may not do this (list, get, put and delete are needed)"},
    {"QuotaExceeded", 0, LK_E_STORE_FULL, "the bucket is full"},
    {"InsufficientStorage", 0, LK_E_STORE_FULL, "the server is full"},
    {"NotImplemented", 0, LK_E_UNIMPLEMENTED, "the server must know conditional writes (If-None-Match)"},
    {"EntityTooLarge", 0, LK_E_LIMIT, "the server takes no object of this size"},
    {NULL, 301, LK_E_INVALID_CONFIG, "the bucket is elsewhere; set AWS_REGION or AWS_ENDPOINT_URL_S3"},
    {NULL, 307, LK_E_INVALID_CONFIG, "the bucket is elsewhere; set AWS_REGION or AWS_ENDPOINT_URL_S3"},
    {NULL, 401, LK_E_DENIED, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"},
    {NULL, 403, LK_E_DENIED, "the keys may not do this, or are wrong"},
    {NULL, 404, LK_E_NOT_FOUND, "there is no such object"},
    {NULL, 507, LK_E_STORE_FULL, "the server is full"},
};

static struct advice advice_for(lk_bytes code, int status)
{
    for (size_t i = 0; i < sizeof advices / sizeof advices[0]; i++) {
        const struct advice *a = &advices[i];
        bool                 by_status = a->status == status && (status != 404 || code.size == 0);
        if (a->code != NULL ? lk_bytes_equal(code, lk_bytes_of(a->code)) : by_status) {
            return *a;
        }
    }
    return (struct advice){NULL, status, LK_E_IO, "the server refuses"};
}

lk_rc lk_s3_fail(const lk_s3_store *store, const lk_s3_call *call, lk_err *err)
{
    lk_arena      arena = {0};
    lk_bytes      code = lk_s3_code(call, &arena), region = {0};
    lk_bytes      message = lk_xml_find(lk_buf_view(&call->http.body_in), "Message", &arena);
    struct advice a = advice_for(code, call->http.status);
    bool          elsewhere = lk_http_call_header(&call->http, "x-amz-bucket-region", &region) &&
                     !lk_bytes_equal(region, store->region);
    lk_rc rc = lk_fail(err, a.rc, "s3://%.*s/%.*s: %s: status %d %.*s %.*s", LK_FMT(store->bucket),
        LK_FMT(call->key), call->method, call->http.status, LK_FMT(code),
        (int)(message.size < 160 ? message.size : 160), message.data);
    int   shown = (int)(code.size < 60 ? code.size : 60);
    if (elsewhere) {
        lk_detail(err, "%.*s: the bucket is in AWS_REGION=%.*s", shown, code.data,
            (int)(region.size < 60 ? region.size : 60), region.data);
    } else if (a.rc != LK_E_NOT_FOUND) {
        lk_detail(err, "%.*s%s%s", shown, code.data, code.size > 0 ? ": " : "", a.text);
    }
    lk_arena_close(&arena);
    return rc;
}
