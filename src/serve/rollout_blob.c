/*
 * rollout_blob.c - payloads go out: whole or one range, read and sent a frame at a time, so that a payload of a gigabyte needs a
 * frame of memory. Ranges, entity tags and conditions as RFC 9110 has them; several ranges at once are answered with the whole.
 */
#include "base/hash.h"
#include "rollout/cell.h"
#include "serve/rollout_list.h"

#include <stdio.h>

enum { FRAME = 256 * 1024 };

typedef struct span {
    uint64_t first, size;
    bool     partial, outside;
} span;

/* -- the entity tag ------------------------------------------------------------------------------------------------- */

static bool can_be_tag(lk_bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c <= ' ' || c == '"' || c >= 0x7f) {
            return false;
        }
    }
    return text.size > 0 && text.size <= 256;
}

/* Rows never change, so what tells a record from every other tells its bytes: its id, and when it was made. */
static lk_rc identify(
    rollout_call *call, lk_rollout_snapshot *snapshot, uint64_t size, lk_bytes *tag, lk_err *err)
{
    struct ArrowArray found = {0};
    size_t            wanted;
    uint8_t           digest[LK_SHA256_SIZE];
    char              hex[LK_SHA256_HEX_SIZE + 1];
    int64_t           created_at = 0;
    lk_sha256         hash;
    lk_rc             rc = lk_rollout_snapshot_find(
                    snapshot, &call->target.id, 1, lk_http_cancel(call->exchange), &found, &wanted, err);
    if (rc == LK_OK && found.length == 1) {
        const struct ArrowArray *times = found.children[LK_RECORD_COLUMN_created_at];
        created_at = lk_cell_valid(times, 0) ? ((const int64_t *)times->buffers[1])[times->offset] : 0;
    }
    lk_array_release(&found);
    lk_sha256_init(&hash);
    lk_sha256_update(&hash, &size, sizeof size);
    lk_sha256_update(&hash, &created_at, sizeof created_at);
    lk_sha256_update(&hash, call->target.id.data, call->target.id.size);
    lk_sha256_final(&hash, digest);
    lk_hex(digest, sizeof digest, hex);
    *tag = lk_arena_format(call->arena, "\"%s\"", hex);
    return rc;
}

static lk_rc tag_of(
    rollout_call *call, lk_rollout_snapshot *snapshot, lk_rollout_blob *blob, lk_bytes *tag, lk_err *err)
{
    lk_bytes checksum = lk_rollout_blob_checksum(blob);
    if (can_be_tag(checksum)) {
        *tag = lk_arena_format(call->arena, "\"%.*s\"", LK_FMT(checksum));
        return LK_OK;
    }
    return identify(call, snapshot, lk_rollout_blob_size(blob), tag, err);
}

/* Whether the list of a condition names the tag: weakly, as If-None-Match does. */
static bool names_tag(lk_bytes list, lk_bytes tag)
{
    if (lk_bytes_equal(list, LK_LITERAL("*"))) {
        return true;
    }
    return list.size >= tag.size && memmem(list.data, list.size, tag.data, tag.size) != NULL;
}

/* -- ranges ----------------------------------------------------------------------------------------------------------- */

/* bytes=FIRST-LAST, bytes=FIRST- or bytes=-COUNT; what is no such range asks for the whole. */
static span range_of(lk_bytes field, uint64_t size)
{
    static const lk_bytes unit = {"bytes=", 6};
    const span            whole = {0, size, false, false};
    uint64_t              first = 0, last = UINT64_MAX;
    if (!lk_bytes_starts(field, unit) || memchr(field.data, ',', field.size) != NULL) {
        return whole;
    }
    lk_bytes    text = {field.data + unit.size, field.size - unit.size};
    const char *dash = text.size == 0 ? NULL : memchr(text.data, '-', text.size);
    if (dash == NULL) {
        return whole;
    }
    lk_bytes from = {text.data, (size_t)(dash - text.data)};
    lk_bytes to = {dash + 1, text.size - from.size - 1};
    if ((from.size > 0 && !lk_rollout_number_read(from, &first)) ||
        (to.size > 0 && !lk_rollout_number_read(to, &last)) || (from.size == 0 && to.size == 0) ||
        (from.size > 0 && last < first)) {
        return whole;
    }
    if (from.size == 0) { /* the last ones */
        first = last < size ? size - last : 0;
        return (span){first, size - first, true, size == 0 || last == 0};
    }
    last = last < size ? last : size - 1;
    return first < size ? (span){first, last - first + 1, true, false} : (span){.outside = true};
}

static span choose_span(const rollout_call *call, uint64_t size, lk_bytes tag)
{
    const lk_http_head *head = lk_http_request(call->exchange);
    lk_bytes            range, condition;
    bool                asked = lk_http_head_field(head, "range", &range);
    if (asked && lk_http_head_field(head, "if-range", &condition) && !lk_bytes_equal(condition, tag)) {
        asked = false;
    }
    return asked ? range_of(range, size) : (span){0, size, false, false};
}

/* -- answers ----------------------------------------------------------------------------------------------------------- */

/* A payload on its way out, in the exchange's arena. */
typedef struct sending {
    rollout_call     *call;
    lk_rollout_store *store;
    lk_rollout_blob  *blob;
    uint64_t          at, left;
} sending;

static void end(sending *s)
{
    lk_http_exchange *exchange = s->call->exchange;
    lk_rollout_blob_close(s->blob);
    lk_rollout_store_unref(s->store);
    lk_http_end(exchange); /* short of its length, the answer closes the connection */
}

/* On, until the end or until the peer has enough for now. */
static void go_on(lk_http_exchange *exchange, void *context)
{
    sending *s = context;
    lk_err   ignored = {0};
    lk_rc    rc = LK_OK;
    while (rc == LK_OK && s->left > 0) {
        lk_buf frame = {0};
        size_t size = s->left < FRAME ? (size_t)s->left : FRAME;
        lk_buf_reserve(&frame, size);
        rc = lk_rollout_blob_read(s->blob, s->at, frame.data, size, &ignored);
        frame.size = size;
        s->at += size;
        s->left -= size;
        if (rc == LK_OK) {
            rc = lk_http_write_buf(exchange, &frame, &ignored);
        }
        lk_buf_deinit(&frame);
        if (rc == LK_OK && s->left > 0 && !lk_http_await_room(exchange, go_on, s)) {
            return;
        }
    }
    end(s);
}

static const char *type_of(rollout_call *call, const lk_rollout_blob *blob)
{
    lk_bytes value = {0}, type = lk_rollout_blob_content_type(blob);
    bool     found = false;
    bool     of_row =
        lk_http_query_value(lk_http_request(call->exchange)->query, "ct", call->arena, &value, &found) &&
        found && lk_bytes_equal(value, LK_LITERAL("row"));
    return of_row && type.size > 0 && lk_http_is_field_value(type) ? lk_arena_text(call->arena, type)
                                                                   : "application/octet-stream";
}

static lk_rc refuse_range(rollout_call *call, uint64_t size, lk_err *err)
{
    lk_http_add_field(call->exchange, "Content-Range",
        lk_arena_format(call->arena, "bytes */%llu", (unsigned long long)size));
    return lk_refuse(err, LK_E_RANGE, "the payload has %llu bytes", (unsigned long long)size);
}

/* Begins the answer; *left is what follows of the payload. */
static lk_rc begin(
    rollout_call *call, lk_rollout_blob *blob, lk_bytes tag, uint64_t *at, uint64_t *left, lk_err *err)
{
    uint64_t  size = lk_rollout_blob_size(blob);
    span      s = choose_span(call, size, tag);
    lk_bytes  condition;
    lk_arena *arena = call->arena;
    if (s.outside) {
        return refuse_range(call, size, err);
    }
    lk_http_add_field(call->exchange, "ETag", tag);
    lk_http_add_field(call->exchange, "Accept-Ranges", LK_LITERAL("bytes"));
    lk_http_add_field(call->exchange, "X-Content-Type-Options", LK_LITERAL("nosniff"));
    if (lk_http_head_field(lk_http_request(call->exchange), "if-none-match", &condition) &&
        names_tag(condition, tag)) {
        lk_http_begin(call->exchange, 304, NULL, 0);
        return LK_OK;
    }
    if (s.partial) {
        lk_http_add_field(call->exchange, "Content-Range",
            lk_arena_format(arena, "bytes %llu-%llu/%llu", (unsigned long long)s.first,
                (unsigned long long)(s.first + s.size - 1), (unsigned long long)size));
    }
    lk_http_begin(call->exchange, s.partial ? 206 : 200, type_of(call, blob), s.size);
    atomic_fetch_add(&call->service->blob_bytes, s.size);
    *at = s.first;
    *left = lk_bytes_equal(lk_http_request(call->exchange)->method, LK_LITERAL("HEAD")) ? 0 : s.size;
    return LK_OK;
}

lk_rc rollout_blob(rollout_call *call, lk_err *err)
{
    lk_rollout_store     *store = NULL;
    lk_rollout_snapshot  *snapshot = NULL;
    lk_rollout_blob      *blob = NULL;
    lk_rollout_list_query query;
    lk_bytes              tag = {0};
    bool                  found = false;
    lk_rc                 rc = rollout_read_query(call, &query, err);
    rc = rc == LK_OK ? rollout_open_store(call, &store, err) : rc;
    rc = rc == LK_OK ? lk_rollout_store_snapshot(store, query.version, &snapshot, err) : rc;
    if (rc == LK_OK) {
        rc = lk_rollout_blob_open(
            snapshot, call->target.id, lk_http_cancel(call->exchange), &blob, &found, err);
    }
    if (rc == LK_OK && (!found || lk_rollout_blob_is_null(blob))) {
        rc = lk_refuse(err, LK_E_NOT_FOUND, found ? "the record has no payload" : "no such record");
    }
    rc = rc == LK_OK ? tag_of(call, snapshot, blob, &tag, err) : rc;
    lk_rollout_snapshot_unref(snapshot); /* an open blob stays readable */
    sending *s = lk_arena_take(call->arena, sizeof *s);
    *s = (sending){.call = call, .store = store, .blob = blob};
    rc = rc == LK_OK ? begin(call, blob, tag, &s->at, &s->left, err) : rc;
    if (rc == LK_OK) {
        go_on(call->exchange, s);
        return LK_OK;
    }
    lk_rollout_blob_close(blob);
    lk_rollout_store_unref(store);
    return rc;
}
