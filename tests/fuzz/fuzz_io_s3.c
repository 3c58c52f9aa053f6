/* fuzz_io_s3.c - the XML of a server's answers, event by event; what is escaped must read back. */
#include "base/err.h"
#include "io/s3_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_back(lk_bytes text)
{
    lk_arena arena = {0};
    lk_buf   xml = {0};
    lk_buf_append_text(&xml, "<a>");
    if (lk_xml_escape(&xml, text)) {
        lk_buf_append_text(&xml, "</a>");
        LK_ASSERT(lk_bytes_equal(lk_xml_find(lk_buf_view(&xml), "a", &arena), text));
    }
    lk_buf_deinit(&xml);
    lk_arena_close(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_arena     arena = {0};
    lk_bytes     text = {(const char *)data, size};
    lk_xml       xml = lk_xml_of(text);
    lk_xml_event event = LK_XML_OPEN;
    for (size_t events = 0; event != LK_XML_END && event != LK_XML_BROKEN; events++) {
        event = lk_xml_next(&xml, &arena);
        LK_ASSERT(events <= 2 * size + 1 && xml.depth <= LK_XML_DEPTH_MAX);
        if (event == LK_XML_TEXT && xml.value.size < 256) {
            read_back(xml.value);
        }
    }
    lk_arena_close(&arena);
    return 0;
}
