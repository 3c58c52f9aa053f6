/*
 * fuzz_net_http.c - heads of requests, chunked bodies and queries. A head is the same whatever follows it; chunks give the
 * same content in pieces of one byte as at once.
 */
#include "base/err.h"
#include "net/http_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool unchunk(lk_bytes rest, size_t step, lk_buf *out)
{
    lk_http_chunks chunks = {0};
    while (rest.size > 0) {
        lk_bytes       piece = {rest.data, rest.size < step ? rest.size : step}, content;
        size_t         used = 0;
        lk_http_parsed parsed = lk_http_chunks_take(&chunks, piece, &content, &used);
        if (parsed == LK_HTTP_BAD) {
            return false;
        }
        LK_ASSERT(used <= piece.size && content.size <= used && (used > 0 || parsed == LK_HTTP_DONE));
        lk_buf_append_bytes(out, content);
        if (parsed == LK_HTTP_DONE) {
            return true;
        }
        rest.data += used;
        rest.size -= used;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_arena      arena = {0};
    lk_http_head  head, alone;
    lk_buf        whole = {0}, bytewise = {0};
    lk_bytes      input = {(const char *)data, size}, value;
    size_t        used = 0, again = 0;
    lk_http_fault fault = {0};
    bool          found;
    if (lk_http_head_parse(input, &arena, &head, &used, &fault) == LK_HTTP_DONE) {
        lk_http_parsed parsed =
            lk_http_head_parse((lk_bytes){input.data, used}, &arena, &alone, &again, &fault);
        LK_ASSERT(parsed == LK_HTTP_DONE && again == used && alone.field_count == head.field_count);
        LK_ASSERT(lk_bytes_equal(alone.path, head.path) && alone.content_length == head.content_length);
        (void)lk_http_query_value(head.query, "x", &arena, &value, &found);
        (void)lk_http_decode(head.path, &arena, &value);
    }
    LK_ASSERT(unchunk(input, size, &whole) == unchunk(input, 1, &bytewise));
    LK_ASSERT(lk_bytes_equal(lk_buf_view(&whole), lk_buf_view(&bytewise)));
    lk_buf_deinit(&whole);
    lk_buf_deinit(&bytewise);
    lk_arena_close(&arena);
    return 0;
}
