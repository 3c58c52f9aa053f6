/* s3.c - see s3.h: opening a store, and writes of whole objects. */
#include "io/s3.h"

#include "base/hash.h"
#include "io/s3_priv.h"

#include <stdlib.h>

/* -- keys and marks ------------------------------------------------------------------------------------- */

lk_rc lk_s3_key(const lk_s3_store *store, lk_bytes key, lk_arena *arena, lk_bytes *out, lk_err *err)
{
    lk_rc rc = lk_store_key_check(key, err);
    if (rc != LK_OK) {
        return rc;
    }
    *out = lk_arena_format(arena, "%.*s%.*s", LK_FMT(store->prefix), LK_FMT(key));
    if (out->size > LK_S3_KEY_BYTES_MAX) {
        return lk_fail(err, LK_E_LIMIT, "a key of %zu bytes; S3 takes %d", out->size, LK_S3_KEY_BYTES_MAX);
    }
    return LK_OK;
}

lk_bytes lk_s3_mark(lk_s3_store *store, lk_arena *arena)
{
    unsigned char bytes[16];
    char         *hex = lk_arena_take(arena, 2 * sizeof bytes + 1);
    store->options.random->fill(store->options.random, bytes, sizeof bytes);
    lk_hex(bytes, sizeof bytes, hex);
    return (lk_bytes){hex, 2 * sizeof bytes};
}

/* For a server that keeps no metadata: is the object what we wrote? */
static lk_rc same_bytes(lk_s3_store *store, lk_bytes key, lk_bytes bytes, bool *same, lk_err *err)
{
    lk_s3_call call = {.method = "GET", .key = key};
    lk_rc      rc = bytes.size > LK_HTTP_BODY_BYTES_MAX ? LK_OK : lk_s3_run_one(store, &call, err);
    *same = rc == LK_OK && call.http.status == 200 && lk_bytes_equal(lk_buf_view(&call.http.body_in), bytes);
    lk_s3_call_deinit(&call);
    return rc;
}

lk_rc lk_s3_whose(
    lk_s3_store *store, lk_bytes key, lk_bytes mark, const lk_bytes *bytes, lk_s3_owner *owner, lk_err *err)
{
    lk_s3_call call = {.method = "HEAD", .key = key};
    lk_bytes   found = {0};
    bool       same = false;
    lk_rc      rc = lk_s3_run_one(store, &call, err);
    if (rc == LK_OK && call.http.status == 404) {
        *owner = LK_S3_NOBODY;
    } else if (rc == LK_OK && call.http.status != 200) {
        rc = lk_s3_fail(store, &call, err);
    } else if (rc == LK_OK && lk_http_call_header(&call.http, LK_S3_MARK_HEADER, &found)) {
        *owner = lk_bytes_equal(found, mark) ? LK_S3_OURS : LK_S3_OTHERS;
    } else if (rc == LK_OK) {
        rc = bytes == NULL ? LK_OK : same_bytes(store, key, *bytes, &same, err);
        *owner = same ? LK_S3_OURS : LK_S3_OTHERS;
    }
    lk_s3_call_deinit(&call);
    return rc;
}

/* -- whole objects -------------------------------------------------------------------------------------- */

/* After a conditional PUT was refused or fell silent. refused: somebody's object is there, perhaps ours. */
static lk_rc find_out(
    lk_s3_store *store, lk_bytes key, lk_bytes mark, lk_bytes bytes, bool refused, bool *created, lk_err *err)
{
    lk_s3_owner owner = LK_S3_NOBODY;
    lk_err      silence = *err;
    lk_err      ignored = {0};
    if (lk_s3_whose(store, key, mark, &bytes, &owner, &ignored) != LK_OK) {
        *err = refused ? ignored : silence;
        err->maybe_applied = true;
        return err->rc;
    }
    if (owner == LK_S3_NOBODY && !refused) {
        return silence.rc; /* it may still arrive */
    }
    *err = (lk_err){0};
    *created = owner == LK_S3_OURS;
    return LK_OK;
}

lk_rc lk_s3_put_new(lk_s3_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    lk_arena   arena = {0};
    lk_bytes   mark = lk_s3_mark(store, &arena);
    lk_s3_call call = {.method = "PUT", .key = key, .body = bytes, .has_body = true};
    lk_s3_add_header(&call, LK_LITERAL("If-None-Match"), LK_LITERAL("*"));
    lk_s3_add_header(&call, LK_LITERAL(LK_S3_MARK_HEADER), mark);
    *created = false;
    lk_rc rc = lk_s3_run_one(store, &call, err);
    if (rc == LK_OK && call.http.status == 200) {
        *created = true;
    } else if (rc == LK_OK && call.http.status == 412) {
        rc = find_out(store, key, mark, bytes, true, created, err);
    } else if (rc == LK_OK) {
        rc = lk_s3_fail(store, &call, err);
    } else if (call.unclear) {
        rc = find_out(store, key, mark, bytes, false, created, err);
    }
    lk_s3_call_deinit(&call);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc put_if_absent(lk_store *base, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    lk_s3_store *store = (lk_s3_store *)base;
    lk_arena     arena = {0};
    lk_bytes     whole = {0};
    *created = false;
    lk_rc rc = lk_s3_key(store, key, &arena, &whole, err);
    if (rc == LK_OK) {
        rc = lk_s3_put_new(store, whole, bytes, created, err);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc replace(lk_store *base, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    lk_s3_store *store = (lk_s3_store *)base;
    lk_arena     arena = {0};
    lk_s3_call   call = {.method = "PUT", .body = bytes, .has_body = true};
    lk_rc        rc = lk_s3_key(store, key, &arena, &call.key, err);
    if (rc == LK_OK) {
        rc = lk_s3_run_one(store, &call, err);
    }
    if (rc == LK_OK && call.http.status != 200) {
        rc = lk_s3_fail(store, &call, err);
    }
    lk_s3_call_deinit(&call);
    lk_arena_close(&arena);
    return rc;
}

/* -- opening -------------------------------------------------------------------------------------------- */

static lk_rc bad(lk_err *err, const char *what, lk_bytes value)
{
    return lk_refuse(err, LK_E_INVALID_CONFIG, "%s, not \"%.*s\"", what,
        (int)(value.size < 100 ? value.size : 100), value.data == NULL ? "" : value.data);
}

static bool is_bucket_name(lk_bytes name)
{
    bool good = name.size >= 3 && name.size <= 63;
    for (size_t i = 0; good && i < name.size; i++) {
        char c = name.data[i];
        good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    }
    return good;
}

static lk_rc parse_uri(lk_s3_store *store, lk_bytes uri, lk_err *err)
{
    static const lk_bytes scheme = {"s3://", 5};
    if (!lk_bytes_starts(uri, scheme)) {
        return bad(err, "a location on S3 is s3://BUCKET/PREFIX", uri);
    }
    lk_bytes    rest = {uri.data + scheme.size, uri.size - scheme.size};
    const char *slash = memchr(rest.data, '/', rest.size);
    size_t      name = slash == NULL ? rest.size : (size_t)(slash - rest.data);
    lk_bytes    prefix = {rest.data + name, rest.size - name};
    while (prefix.size > 0 && prefix.data[0] == '/') {
        prefix = (lk_bytes){prefix.data + 1, prefix.size - 1};
    }
    while (prefix.size > 0 && prefix.data[prefix.size - 1] == '/') {
        prefix.size--;
    }
    store->bucket = lk_arena_copy(&store->arena, (lk_bytes){rest.data, name});
    if (!is_bucket_name(store->bucket)) {
        return bad(err, "a bucket's name is 3 to 63 of a-z, 0-9, '-' and '.'", store->bucket);
    }
    lk_rc rc = prefix.size == 0 ? LK_OK : lk_store_key_check(prefix, err);
    if (rc == LK_OK) {
        store->prefix = lk_arena_format(&store->arena, "%.*s%s", LK_FMT(prefix), prefix.size == 0 ? "" : "/");
        store->base.uri = lk_arena_format(&store->arena, "s3://%.*s%s%.*s", LK_FMT(store->bucket),
            prefix.size == 0 ? "" : "/", LK_FMT(prefix));
    }
    return rc;
}

static bool is_this_machine(lk_bytes host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    bool                     found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        lk_bytes name = lk_bytes_of(names[i]);
        found =
            found || (lk_bytes_starts(host, name) && (host.size == name.size || host.data[name.size] == ':'));
    }
    return found;
}

/* Splits the endpoint into scheme and host and puts the bucket where it belongs. */
static lk_rc parse_endpoint(lk_s3_store *store, lk_err *err)
{
    const lk_s3_options *o = &store->options;
    lk_bytes             text = o->endpoint != NULL ? lk_bytes_of(o->endpoint)
                                                    : lk_arena_format(&store->arena, "https://s3.%.*s.amazonaws.com",
                                                          LK_FMT(store->region));
    bool                 plain = lk_bytes_starts(text, LK_LITERAL("http://"));
    if (!plain && !lk_bytes_starts(text, LK_LITERAL("https://"))) {
        return bad(err, "an endpoint is https://HOST[:PORT] or http://HOST[:PORT]", text);
    }
    lk_bytes scheme = {text.data, plain ? 7 : 8};
    lk_bytes host = {text.data + scheme.size, text.size - scheme.size};
    host.size -= host.size > 0 && host.data[host.size - 1] == '/';
    for (size_t i = 0; i < host.size; i++) {
        if (strchr("/?#@ \\", host.data[i]) != NULL) {
            return bad(err, "an endpoint is https://HOST[:PORT] and nothing else", text);
        }
    }
    if (host.size == 0) {
        return bad(err, "an endpoint is https://HOST[:PORT]", text);
    }
    if (plain && !o->allow_plain && !is_this_machine(host)) {
        return lk_refuse(err, LK_E_INSECURE,
            "%.*s would carry data in the clear; use https:// or set LAKE_ALLOW_INSECURE=1",
            (int)(text.size < 100 ? text.size : 100), text.data);
    }
    store->in_path = o->addressing != NULL
                         ? strcmp(o->addressing, "path") == 0
                         : o->endpoint != NULL || memchr(store->bucket.data, '.', store->bucket.size) != NULL;
    store->host = store->in_path
                      ? lk_arena_copy(&store->arena, host)
                      : lk_arena_format(&store->arena, "%.*s.%.*s", LK_FMT(store->bucket), LK_FMT(host));
    store->origin = lk_arena_format(&store->arena, "%.*s%.*s", LK_FMT(scheme), LK_FMT(store->host));
    return LK_OK;
}

static lk_rc check_options(const lk_s3_options *o, lk_err *err)
{
    if (o->access_key == NULL || o->secret_key == NULL) {
        return lk_refuse(err, LK_E_INVALID_CONFIG,
            "s3:// locations need AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; they are not set");
    }
    const char *const texts[] = {o->access_key, o->secret_key, o->session_token, o->region};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (const char *c = texts[i]; c != NULL && *c != '\0'; c++) {
            if (*c <= ' ' || *c == 127) {
                return lk_refuse(err, LK_E_INVALID_CONFIG,
                    "white space or a control character in the AWS_ keys, token or region");
            }
        }
    }
    return LK_OK;
}

static void close_store(lk_store *base)
{
    lk_s3_store *store = (lk_s3_store *)base;
    lk_http_client_close(store->http);
    lk_mutex_deinit(&store->mutex);
    explicit_bzero(store->day_key, sizeof store->day_key);
    lk_arena_close(&store->arena);
    free(store);
}

static const struct lk_store_ops s3_ops = {
    .open = lk_s3_open_object,
    .fetch = lk_s3_fetch,
    .read = lk_s3_read,
    .reader_close = lk_s3_reader_close,
    .create = lk_s3_create,
    .write = lk_s3_write,
    .finish = lk_s3_finish,
    .abandon = lk_s3_abandon,
    .put_if_absent = put_if_absent,
    .list = lk_s3_list,
    .list_first = lk_s3_list_first,
    .replace = replace,
    .remove = lk_s3_remove,
    .remove_tree = lk_s3_remove_tree,
    .remove_many = lk_s3_remove_many,
    .remove_unfinished = lk_s3_remove_unfinished,
    .close = close_store,
};

lk_rc lk_s3_store_open(lk_store **out, lk_bytes uri, const lk_s3_options *options, lk_err *err)
{
    lk_rc rc = check_options(options, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_s3_store *store = calloc(1, sizeof *store);
    LK_ASSERT(store != NULL);
    store->base.ops = &s3_ops;
    store->base.far = true;
    store->options = *options;
    store->region = options->region != NULL ? lk_bytes_of(options->region) : LK_LITERAL("us-east-1");
    lk_mutex_init(&store->mutex, LK_RANK_IO);
    rc = parse_uri(store, uri, err);
    if (rc == LK_OK) {
        rc = parse_endpoint(store, err);
    }
    if (rc == LK_OK) {
        const lk_http_client_options http = {.ca_file = options->ca_file,
            .connect_ms = LK_S3_CONNECT_MS,
            .stall_ms = options->timeout_ms < LK_S3_STALL_MS ? options->timeout_ms : LK_S3_STALL_MS,
            .at_once = LK_S3_REQUESTS_AT_ONCE};
        lk_err                       why = {0};
        if (lk_http_client_open(&store->http, &http, &why) != LK_OK) {
            rc = lk_refuse(err, LK_E_INVALID_CONFIG, "AWS_CA_BUNDLE: %.150s", why.context);
        }
    }
    if (rc != LK_OK) {
        close_store(&store->base);
        return rc;
    }
    *out = &store->base;
    return LK_OK;
}
