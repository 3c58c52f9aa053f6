/* s3_xml_test.c - answers as Amazon's reference shows them, and what no answer may do to us. */
#include "io/s3_xml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void an_error_is_found_by_its_elements(void **state)
{
    lk_arena       arena = {0};
    const lk_bytes text =
        LK_LITERAL("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>\n  <Code>NoSuchKey</Code>\n"
                   "  <Message>The resource you requested does not exist &amp; never &#x64;id</Message>\n"
                   "  <Resource/>\n</Error>");
    assert_true(lk_bytes_equal(lk_xml_find(text, "Code", &arena), LK_LITERAL("NoSuchKey")));
    assert_true(lk_bytes_equal(lk_xml_find(text, "Message", &arena),
        LK_LITERAL("The resource you requested does not exist & never did")));
    assert_int_equal(lk_xml_find(text, "Resource", &arena).size, 0);
    assert_int_equal(lk_xml_find(text, "Absent", &arena).size, 0);
    lk_arena_close(&arena);
}

static void elements_come_in_order_with_their_depth(void **state)
{
    lk_arena arena = {0};
    lk_xml   xml = lk_xml_of(LK_LITERAL("<a xmlns=\"x\"><b>1</b><c/></a>"));
    const struct {
        lk_xml_event event;
        const char  *value;
        size_t       depth;
    } expected[] = {{LK_XML_OPEN, "a", 1}, {LK_XML_OPEN, "b", 2}, {LK_XML_TEXT, "1", 2},
        {LK_XML_CLOSE, "b", 1}, {LK_XML_OPEN, "c", 2}, {LK_XML_CLOSE, "c", 1}, {LK_XML_CLOSE, "a", 0}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_int_equal(lk_xml_next(&xml, &arena), expected[i].event);
        assert_true(lk_bytes_equal(xml.value, lk_bytes_of(expected[i].value)));
        assert_int_equal(xml.depth, expected[i].depth);
    }
    assert_int_equal(lk_xml_next(&xml, &arena), LK_XML_END);
    lk_arena_close(&arena);
}

static void what_is_not_well_formed_is_broken_and_stays_so(void **state)
{
    static const char *const bad[] = {"<a>", "<a></b>", "</a>", "<a", "<a>&nope;</a>", "<a>&amp</a>",
        "<a>&#0;</a>", "<a>&#xD800;</a>", "<a>&#99999999999;</a>", "<!DOCTYPE x><a/>", "<a><!-- </a>",
        "<></>", "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a></a>", "<?xml <a/>"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lk_arena     arena = {0};
        lk_xml       xml = lk_xml_of(lk_bytes_of(bad[i]));
        lk_xml_event event = LK_XML_OPEN;
        for (int steps = 0; steps < 100 && event != LK_XML_BROKEN; steps++) {
            event = lk_xml_next(&xml, &arena);
            assert_int_not_equal(event, LK_XML_END);
        }
        assert_int_equal(event, LK_XML_BROKEN);
        assert_int_equal(lk_xml_next(&xml, &arena), LK_XML_BROKEN);
        lk_arena_close(&arena);
    }
}

static void text_is_escaped_or_refused(void **state)
{
    lk_buf out = {0};
    assert_true(lk_xml_escape(&out, LK_LITERAL("a<b>&c\xC3\xA9")));
    assert_true(lk_bytes_equal(lk_buf_view(&out), LK_LITERAL("a&lt;b&gt;&amp;c\xC3\xA9")));
    assert_false(lk_xml_escape(&out, LK_LITERAL("a\x01")));
    lk_buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_found_by_its_elements),
        cmocka_unit_test(elements_come_in_order_with_their_depth),
        cmocka_unit_test(what_is_not_well_formed_is_broken_and_stays_so),
        cmocka_unit_test(text_is_escaped_or_refused),
    };
    return cmocka_run_group_tests_name("s3 xml", tests, NULL, NULL);
}
