/* http_head_test.c - heads, chunked bodies and escapes: RFC 9112's examples, and what smugglers send. */
#include "net/http_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int parse(const char *text, lk_arena *arena, lk_http_head *head)
{
    size_t         used = 0;
    lk_http_fault  fault = {0};
    lk_http_parsed parsed = lk_http_head_parse(lk_bytes_of(text), arena, head, &used, &fault);
    if (parsed == LK_HTTP_DONE) {
        assert_true(used <= strlen(text));
        return 0;
    }
    assert_true(
        parsed == LK_HTTP_MORE || (fault.why != NULL && strlen(fault.why) > 20)); /* told in a sentence */
    return parsed == LK_HTTP_MORE ? 1 : fault.status;
}

static void a_request_is_taken_apart(void **state)
{
    lk_arena     arena = {0};
    lk_http_head head;
    lk_bytes     value;
    assert_int_equal(parse("\r\nPOST /a/b%20c?x=1&y HTTP/1.1\r\nHost: h\r\nX-Lake:  two words \t\r\n"
                           "content-LENGTH: 12\r\nExpect: 100-Continue\r\n\r\nrest",
                         &arena, &head),
        0);
    assert_true(lk_bytes_equal(head.method, LK_LITERAL("POST")));
    assert_true(lk_bytes_equal(head.path, LK_LITERAL("/a/b%20c")));
    assert_true(lk_bytes_equal(head.query, LK_LITERAL("x=1&y")));
    assert_true(lk_http_head_field(&head, "x-lake", &value));
    assert_true(lk_bytes_equal(value, LK_LITERAL("two words")));
    assert_false(lk_http_head_field(&head, "x-lak", &value));
    assert_true(head.has_length && head.content_length == 12);
    assert_true(head.expects_continue && head.keep_alive && !head.chunked);
    lk_arena_close(&arena);
}

static void versions_decide_whether_the_connection_stays(void **state)
{
    lk_arena     arena = {0};
    lk_http_head head;
    assert_int_equal(parse("GET / HTTP/1.0\r\n\r\n", &arena, &head), 0);
    assert_false(head.keep_alive);
    assert_int_equal(parse("GET / HTTP/1.0\r\nConnection: foo, Keep-Alive\r\n\r\n", &arena, &head), 0);
    assert_true(head.keep_alive);
    assert_int_equal(
        parse("GET http://h:80/x HTTP/1.1\r\nHost: h\r\nConnection: close , x\r\n\r\n", &arena, &head), 0);
    assert_false(head.keep_alive);
    assert_true(lk_bytes_equal(head.path, LK_LITERAL("/x")));
    lk_arena_close(&arena);
}

static void every_prefix_needs_more(void **state)
{
    static const char text[] = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";
    for (size_t size = 0; size < sizeof text - 1; size++) {
        lk_arena      arena = {0};
        lk_http_head  head;
        size_t        used;
        lk_http_fault fault;
        assert_int_equal(
            lk_http_head_parse((lk_bytes){text, size}, &arena, &head, &used, &fault), LK_HTTP_MORE);
        lk_arena_close(&arena);
    }
}

static void what_can_be_misunderstood_is_refused(void **state)
{
    static const struct {
        const char *text;
        int         status;
    } bad[] = {
        {"GET /\r\n\r\n", 400},
        {"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"G\x01T / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET /a\tb HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\nX: a\x01\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
        {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n", 400},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\n\r\n", 417},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lk_arena     arena = {0};
        lk_http_head head;
        int          status = parse(bad[i].text, &arena, &head);
        if (status != bad[i].status) {
            fail_msg("%s: %d", bad[i].text, status);
        }
        lk_arena_close(&arena);
    }
}

static void a_head_that_is_too_long_is_431(void **state)
{
    lk_buf text = {0};
    lk_buf_append_text(&text, "GET / HTTP/1.1\r\nHost: h\r\nX: ");
    while (text.size < LK_HTTP_HEAD_BYTES_MAX) {
        lk_buf_append_text(&text, "x");
    }
    lk_arena     arena = {0};
    lk_http_head head;
    assert_int_equal(parse(text.data, &arena, &head), 431);
    lk_buf_clear(&text);
    lk_buf_append_text(&text, "GET / HTTP/1.1\r\nHost: h\r\n");
    for (int i = 0; i < LK_HTTP_FIELDS_MAX; i++) {
        lk_buf_append_text(&text, "X: y\r\n");
    }
    lk_buf_append_text(&text, "\r\n");
    assert_int_equal(parse(text.data, &arena, &head), 431);
    lk_arena_close(&arena);
    lk_buf_deinit(&text);
}

/* The content, fed in pieces of `step`; NULL when it is malformed. */
static const char *unchunk(const char *text, size_t step, lk_buf *out, bool *done)
{
    lk_http_chunks chunks = {0};
    lk_bytes       rest = lk_bytes_of(text);
    *done = false;
    lk_buf_clear(out);
    while (rest.size > 0 && !*done) {
        lk_bytes       piece = {rest.data, rest.size < step ? rest.size : step}, data;
        size_t         used = 0;
        lk_http_parsed parsed = lk_http_chunks_take(&chunks, piece, &data, &used);
        if (parsed == LK_HTTP_BAD) {
            return NULL;
        }
        lk_buf_append_bytes(out, data);
        *done = parsed == LK_HTTP_DONE;
        rest.data += used;
        rest.size -= used;
    }
    return rest.data;
}

static void chunks_come_in_pieces_of_any_size(void **state)
{
    static const char text[] =
        "4\r\nWiki\r\n6;ext=\"x\"\r\npedia \r\nE \r\nin \r\n\r\nchunks.\r\n00\r\nTrailer: x\r\n\r\nNEXT";
    lk_buf out = {0};
    for (size_t step = 1; step < sizeof text; step++) {
        bool        done;
        const char *rest = unchunk(text, step, &out, &done);
        assert_true(done);
        assert_string_equal(rest, "NEXT");
        assert_true(lk_bytes_equal(lk_buf_view(&out), LK_LITERAL("Wikipedia in \r\n\r\nchunks.")));
    }
    lk_buf_deinit(&out);
}

static void malformed_chunks_are_refused(void **state)
{
    static const char *const bad[] = {"\r\n", "x\r\n", ";\r\n", "4\nWiki", "4\r\nWikiX", "4\r\nWiki\rX",
        "1000000000000000\r\n", "-1\r\n", "0\r\n\nx", "0\r\nT: x\n\r\n", "0\r\n\rx", "4x\r\nWiki\r\n"};
    lk_buf                   out = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bool done;
        if (unchunk(bad[i], 100, &out, &done) != NULL) {
            fail_msg("taken: %s", bad[i]);
        }
    }
    lk_buf_deinit(&out);
}

static void escapes_are_decoded_once(void **state)
{
    lk_arena arena = {0};
    lk_bytes out;
    bool     found;
    assert_true(lk_http_decode(LK_LITERAL("a%2Fb%20c+%25"), &arena, &out));
    assert_true(lk_bytes_equal(out, LK_LITERAL("a/b c+%")));
    assert_false(lk_http_decode(LK_LITERAL("a%2"), &arena, &out));
    assert_false(lk_http_decode(LK_LITERAL("a%zz"), &arena, &out));
    assert_false(lk_http_decode(LK_LITERAL("a%00"), &arena, &out));
    assert_true(lk_http_query_value(LK_LITERAL("a=1&fil%74er=%7B+%7D&b"), "filter", &arena, &out, &found));
    assert_true(found && lk_bytes_equal(out, LK_LITERAL("{ }")));
    assert_true(lk_http_query_value(LK_LITERAL("a=1&b"), "b", &arena, &out, &found));
    assert_true(found && out.size == 0);
    assert_true(lk_http_query_value(LK_LITERAL("a=1&b"), "c", &arena, &out, &found));
    assert_false(found);
    assert_false(lk_http_query_value(LK_LITERAL("a=%"), "a", &arena, &out, &found));
    lk_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_taken_apart),
        cmocka_unit_test(versions_decide_whether_the_connection_stays),
        cmocka_unit_test(every_prefix_needs_more),
        cmocka_unit_test(what_can_be_misunderstood_is_refused),
        cmocka_unit_test(a_head_that_is_too_long_is_431),
        cmocka_unit_test(chunks_come_in_pieces_of_any_size),
        cmocka_unit_test(malformed_chunks_are_refused),
        cmocka_unit_test(escapes_are_decoded_once),
    };
    return cmocka_run_group_tests_name("http_head", tests, NULL, NULL);
}
