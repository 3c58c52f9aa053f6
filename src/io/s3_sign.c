/* s3_sign.c - see s3_sign.h. */
#include "io/s3_sign.h"

#include "base/err.h"

#include <stdlib.h>
#include <time.h>

#define ALGORITHM "AWS4-HMAC-SHA256"

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void lk_s3_encode(lk_buf *out, lk_bytes text, bool keep_slash)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.size; i++) {
        char          c = text.data[i];
        unsigned char byte = (unsigned char)c;
        if (is_unreserved(c) || (keep_slash && c == '/')) {
            lk_buf_append(out, &c, 1);
        } else {
            const char escaped[3] = {'%', digits[byte >> 4], digits[byte & 15]};
            lk_buf_append(out, escaped, sizeof escaped);
        }
    }
}

static int compare_pairs(const void *a, const void *b)
{
    const lk_s3_pair *left = a, *right = b;
    int               order = lk_bytes_compare(left->name, right->name);
    return order != 0 ? order : lk_bytes_compare(left->value, right->value);
}

static lk_bytes encoded(lk_bytes text, lk_arena *arena)
{
    lk_buf buf = {0};
    lk_s3_encode(&buf, text, false);
    lk_bytes copy = lk_arena_copy(arena, lk_buf_view(&buf));
    lk_buf_deinit(&buf);
    return copy;
}

lk_bytes lk_s3_canonical_query(const lk_s3_pair *query, size_t count, lk_arena *arena)
{
    lk_s3_pair *sorted = lk_arena_take(arena, (count + 1) * sizeof *sorted);
    lk_buf      text = {0};
    for (size_t i = 0; i < count; i++) {
        sorted[i] = (lk_s3_pair){encoded(query[i].name, arena), encoded(query[i].value, arena)};
    }
    qsort(sorted, count, sizeof *sorted, compare_pairs);
    for (size_t i = 0; i < count; i++) {
        lk_buf_format(
            &text, "%s%.*s=%.*s", i == 0 ? "" : "&", LK_FMT(sorted[i].name), LK_FMT(sorted[i].value));
    }
    lk_bytes copy = lk_arena_copy(arena, lk_buf_view(&text));
    lk_buf_deinit(&text);
    return copy;
}

/* Lower case. */
static lk_bytes header_name(lk_bytes name, lk_arena *arena)
{
    char *lower = lk_arena_text(arena, name);
    for (size_t i = 0; i < name.size; i++) {
        lower[i] = lower[i] >= 'A' && lower[i] <= 'Z' ? (char)(lower[i] + 32) : lower[i];
    }
    return (lk_bytes){lower, name.size};
}

/* Without white space around it, and with one blank for any run of it inside. */
static lk_bytes header_value(lk_bytes value, lk_arena *arena)
{
    char  *out = lk_arena_take(arena, value.size + 1);
    size_t size = 0;
    for (size_t i = 0; i < value.size; i++) {
        bool blank = value.data[i] == ' ' || value.data[i] == '\t';
        if (!blank) {
            out[size++] = value.data[i];
        } else if (size > 0 && out[size - 1] != ' ') {
            out[size++] = ' ';
        }
    }
    size -= size > 0 && out[size - 1] == ' ';
    return (lk_bytes){out, size};
}

static const lk_s3_pair *sorted_headers(const lk_s3_signable *request, lk_arena *arena)
{
    lk_s3_pair *sorted = lk_arena_take(arena, (request->header_count + 1) * sizeof *sorted);
    for (size_t i = 0; i < request->header_count; i++) {
        sorted[i] = (lk_s3_pair){
            header_name(request->headers[i].name, arena), header_value(request->headers[i].value, arena)};
    }
    qsort(sorted, request->header_count, sizeof *sorted, compare_pairs);
    return sorted;
}

static lk_bytes signed_names(const lk_s3_signable *request, lk_arena *arena)
{
    const lk_s3_pair *sorted = sorted_headers(request, arena);
    lk_buf            text = {0};
    for (size_t i = 0; i < request->header_count; i++) {
        lk_buf_format(&text, "%s%.*s", i == 0 ? "" : ";", LK_FMT(sorted[i].name));
    }
    lk_bytes copy = lk_arena_copy(arena, lk_buf_view(&text));
    lk_buf_deinit(&text);
    return copy;
}

lk_bytes lk_s3_canonical_request(const lk_s3_signable *request, lk_arena *arena)
{
    const lk_s3_pair *sorted = sorted_headers(request, arena);
    lk_bytes          query = lk_s3_canonical_query(request->query, request->query_count, arena);
    lk_bytes          names = signed_names(request, arena);
    lk_buf            text = {0};
    lk_buf_format(&text, "%.*s\n%.*s\n%.*s\n", LK_FMT(request->method), LK_FMT(request->path), LK_FMT(query));
    for (size_t i = 0; i < request->header_count; i++) {
        lk_buf_format(&text, "%.*s:%.*s\n", LK_FMT(sorted[i].name), LK_FMT(sorted[i].value));
    }
    lk_buf_format(&text, "\n%.*s\n%.*s", LK_FMT(names), LK_FMT(request->payload_hash));
    lk_bytes copy = lk_arena_copy(arena, lk_buf_view(&text));
    lk_buf_deinit(&text);
    return copy;
}

void lk_s3_day_key(const lk_s3_scope *scope, uint8_t key[LK_SHA256_SIZE])
{
    const lk_bytes steps[] = {
        {scope->time.data, 8}, scope->region, scope->service, LK_LITERAL("aws4_request")};
    lk_buf secret = {0};
    lk_buf_format(&secret, "AWS4%.*s", LK_FMT(scope->secret_key));
    lk_bytes with = lk_buf_view(&secret);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        uint8_t next[LK_SHA256_SIZE];
        lk_hmac_sha256(with, steps[i], next);
        memcpy(key, next, sizeof next);
        with = (lk_bytes){(const char *)key, LK_SHA256_SIZE};
    }
    explicit_bzero(secret.data, secret.size);
    lk_buf_deinit(&secret);
}

lk_bytes lk_s3_authorization(const lk_s3_signable *request, const lk_s3_scope *scope, lk_arena *arena)
{
    uint8_t key[LK_SHA256_SIZE], hash[LK_SHA256_SIZE];
    char    hex[LK_SHA256_HEX_SIZE + 1];
    LK_ASSERT(scope->time.size == 16);
    lk_sha256_of(lk_s3_canonical_request(request, arena), hash);
    lk_hex(hash, sizeof hash, hex);
    lk_bytes where = lk_arena_format(arena, "%.8s/%.*s/%.*s/aws4_request", scope->time.data,
        LK_FMT(scope->region), LK_FMT(scope->service));
    lk_bytes text =
        lk_arena_format(arena, ALGORITHM "\n%.*s\n%.*s\n%s", LK_FMT(scope->time), LK_FMT(where), hex);
    if (scope->day_key != NULL) {
        memcpy(key, scope->day_key, sizeof key);
    } else {
        lk_s3_day_key(scope, key);
    }
    lk_hmac_sha256((lk_bytes){(const char *)key, sizeof key}, text, hash);
    explicit_bzero(key, sizeof key);
    lk_hex(hash, sizeof hash, hex);
    return lk_arena_format(arena, ALGORITHM " Credential=%.*s/%.*s, SignedHeaders=%.*s, Signature=%s",
        LK_FMT(scope->access_key), LK_FMT(where), LK_FMT(signed_names(request, arena)), hex);
}

lk_bytes lk_s3_time(uint64_t wall_ms, lk_arena *arena)
{
    time_t    seconds = (time_t)(wall_ms / 1000);
    struct tm utc = {0};
    char      text[32];
    (void)gmtime_r(&seconds, &utc);
    size_t size = strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
    return lk_arena_copy(arena, (lk_bytes){text, size});
}
