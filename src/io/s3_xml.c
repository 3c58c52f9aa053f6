/* s3_xml.c - see s3_xml.h. */
#include "io/s3_xml.h"

#include <string.h>

lk_xml lk_xml_of(lk_bytes text)
{
    return (lk_xml){.text = text};
}

static bool rest_starts(const lk_xml *xml, const char *with)
{
    size_t size = strlen(with);
    return xml->text.size - xml->at >= size && memcmp(xml->text.data + xml->at, with, size) == 0;
}

/* Moves behind the next `until`; false when there is none. */
static bool skip_past(lk_xml *xml, const char *until)
{
    while (xml->at < xml->text.size && !rest_starts(xml, until)) {
        xml->at++;
    }
    if (xml->at == xml->text.size) {
        return false;
    }
    xml->at += strlen(until);
    return true;
}

/* -- text ----------------------------------------------------------------------------------------------- */

static void append_utf8(lk_buf *out, uint32_t code)
{
    char   bytes[4];
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (size == 1) {
        bytes[0] = (char)code;
    } else {
        static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
        for (size_t i = size - 1; i > 0; i--) {
            bytes[i] = (char)(0x80 | (code & 0x3F));
            code >>= 6;
        }
        bytes[0] = (char)(lead[size] | code);
    }
    lk_buf_append(out, bytes, size);
}

/* "#38" or "#x26" as a number; false: none. */
static bool character_number(lk_bytes name, uint32_t *code)
{
    bool   hex = name.size > 1 && (name.data[1] == 'x' || name.data[1] == 'X');
    size_t from = hex ? 2 : 1;
    *code = 0;
    for (size_t i = from; i < name.size; i++) {
        char     c = name.data[i];
        uint32_t digit = c >= '0' && c <= '9'          ? (uint32_t)(c - '0')
                         : hex && c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : hex && c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                       : 99;
        if (digit == 99 || *code > 0x10FFFF) {
            return false;
        }
        *code = *code * (hex ? 16 : 10) + digit;
    }
    return name.size > from && *code > 0 && *code <= 0x10FFFF && (*code < 0xD800 || *code > 0xDFFF);
}

static bool append_entity(lk_buf *out, lk_bytes name)
{
    static const struct {
        const char *name;
        char        c;
    } known[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    uint32_t code = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (lk_bytes_equal(name, lk_bytes_of(known[i].name))) {
            lk_buf_append(out, &known[i].c, 1);
            return true;
        }
    }
    if (name.size < 2 || name.data[0] != '#' || !character_number(name, &code)) {
        return false;
    }
    append_utf8(out, code);
    return true;
}

static bool unescape(lk_bytes raw, lk_arena *arena, lk_bytes *out)
{
    lk_buf buf = {0};
    bool   good = true;
    for (size_t i = 0; good && i < raw.size; i++) {
        if (raw.data[i] != '&') {
            lk_buf_append(&buf, raw.data + i, 1);
            continue;
        }
        const char *end = memchr(raw.data + i, ';', raw.size - i);
        size_t      size = end == NULL ? 0 : (size_t)(end - raw.data) - i - 1;
        good = end != NULL && append_entity(&buf, (lk_bytes){raw.data + i + 1, size});
        i += size + 1;
    }
    *out = good ? lk_arena_copy(arena, lk_buf_view(&buf)) : (lk_bytes){0};
    lk_buf_deinit(&buf);
    return good;
}

/* -- elements ------------------------------------------------------------------------------------------- */

/* The name at the start of a tag; what follows it (attributes) is ignored. */
static lk_bytes tag_name(lk_bytes tag)
{
    size_t size = 0;
    while (size < tag.size && strchr(" \t\r\n/", tag.data[size]) == NULL) {
        size++;
    }
    return (lk_bytes){tag.data, size};
}

static lk_xml_event close_element(lk_xml *xml, lk_bytes name)
{
    if (name.size == 0 || xml->depth == 0 || !lk_bytes_equal(xml->open[xml->depth - 1], name)) {
        return LK_XML_BROKEN;
    }
    xml->depth--;
    xml->value = name;
    return LK_XML_CLOSE;
}

static lk_xml_event read_tag(lk_xml *xml)
{
    size_t from = xml->at + 1;
    if (!skip_past(xml, ">")) {
        return LK_XML_BROKEN;
    }
    lk_bytes tag = {xml->text.data + from, xml->at - 1 - from};
    if (tag.size > 0 && tag.data[0] == '/') {
        return close_element(xml, tag_name((lk_bytes){tag.data + 1, tag.size - 1}));
    }
    lk_bytes name = tag_name(tag);
    if (name.size == 0 || xml->depth == LK_XML_DEPTH_MAX) {
        return LK_XML_BROKEN;
    }
    xml->open[xml->depth++] = name;
    xml->closes_empty = tag.data[tag.size - 1] == '/';
    xml->value = name;
    return LK_XML_OPEN;
}

static lk_xml_event next(lk_xml *xml, lk_arena *arena)
{
    if (xml->closes_empty) {
        xml->closes_empty = false;
        return close_element(xml, xml->open[xml->depth - 1]);
    }
    while (xml->at < xml->text.size) {
        if (rest_starts(xml, "<?") || rest_starts(xml, "<!--")) {
            if (!skip_past(xml, rest_starts(xml, "<?") ? "?>" : "-->")) {
                return LK_XML_BROKEN;
            }
        } else if (rest_starts(xml, "<!")) {
            return LK_XML_BROKEN;
        } else if (rest_starts(xml, "<")) {
            return read_tag(xml);
        } else {
            size_t from = xml->at;
            while (xml->at < xml->text.size && xml->text.data[xml->at] != '<') {
                xml->at++;
            }
            if (xml->depth > 0) {
                lk_bytes raw = {xml->text.data + from, xml->at - from};
                return unescape(raw, arena, &xml->value) ? LK_XML_TEXT : LK_XML_BROKEN;
            }
        }
    }
    return xml->depth == 0 ? LK_XML_END : LK_XML_BROKEN;
}

lk_xml_event lk_xml_next(lk_xml *xml, lk_arena *arena)
{
    lk_xml_event event = next(xml, arena);
    if (event == LK_XML_BROKEN) { /* and so for ever */
        xml->at = xml->text.size;
        xml->depth = 1;
        xml->closes_empty = false;
    }
    return event;
}

lk_bytes lk_xml_find(lk_bytes text, const char *name, lk_arena *arena)
{
    lk_xml       xml = lk_xml_of(text);
    lk_xml_event event = LK_XML_OPEN;
    bool         inside = false;
    while ((event = lk_xml_next(&xml, arena)) != LK_XML_END && event != LK_XML_BROKEN) {
        if (inside) {
            return event == LK_XML_TEXT ? xml.value : (lk_bytes){"", 0};
        }
        inside = event == LK_XML_OPEN && lk_bytes_equal(xml.value, lk_bytes_of(name));
    }
    return (lk_bytes){"", 0};
}

bool lk_xml_escape(lk_buf *out, lk_bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c < 0x20) {
            return false;
        }
        if (c == '&' || c == '<' || c == '>') {
            lk_buf_append_text(out, c == '&' ? "&amp;" : c == '<' ? "&lt;" : "&gt;");
        } else {
            lk_buf_append(out, &text.data[i], 1);
        }
    }
    return true;
}
