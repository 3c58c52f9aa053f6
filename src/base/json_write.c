/* json_write.c - the writer of json.h: compact, UTF-8 as it is, only `"`, `\` and controls escaped. */
#include "base/hash.h"
#include "base/json.h"

static void begin_value(lk_json_writer *w)
{
    if (w->comma) {
        lk_buf_append(w->out, ",", 1);
    }
    w->comma = true;
}

static void open_with(lk_json_writer *w, const char *bracket)
{
    begin_value(w);
    lk_buf_append(w->out, bracket, 1);
    w->comma = false;
}

static void close_with(lk_json_writer *w, const char *bracket)
{
    lk_buf_append(w->out, bracket, 1);
    w->comma = true;
}

void lk_json_object(lk_json_writer *w)
{
    open_with(w, "{");
}

void lk_json_object_end(lk_json_writer *w)
{
    close_with(w, "}");
}

void lk_json_array(lk_json_writer *w)
{
    open_with(w, "[");
}

void lk_json_array_end(lk_json_writer *w)
{
    close_with(w, "]");
}

static void escape(lk_buf *out, unsigned char c)
{
    static const char short_forms[0x20] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    if (c >= 0x20) {
        lk_buf_append(out, (char[]){'\\', (char)c}, 2);
    } else if (short_forms[c] != 0) {
        lk_buf_append(out, (char[]){'\\', short_forms[c]}, 2);
    } else {
        lk_buf_format(out, "\\u%04x", c);
    }
}

static void quoted(lk_buf *out, lk_bytes text)
{
    lk_buf_append(out, "\"", 1);
    size_t plain = 0;
    for (size_t at = 0; at < text.size; at++) {
        unsigned char c = (unsigned char)text.data[at];
        if (c < 0x20 || c == '"' || c == '\\') {
            lk_buf_append(out, text.data + plain, at - plain);
            escape(out, c);
            plain = at + 1;
        }
    }
    if (plain < text.size) {
        lk_buf_append(out, text.data + plain, text.size - plain);
    }
    lk_buf_append(out, "\"", 1);
}

void lk_json_key(lk_json_writer *w, const char *key)
{
    begin_value(w);
    quoted(w->out, lk_bytes_of(key));
    lk_buf_append(w->out, ":", 1);
    w->comma = false;
}

void lk_json_text(lk_json_writer *w, lk_bytes text)
{
    begin_value(w);
    quoted(w->out, text);
}

static void put_digits(lk_json_writer *w, uint64_t value, bool negative)
{
    char  text[24];
    char *end = text + sizeof text, *at = end;
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    if (negative) {
        *--at = '-';
    }
    begin_value(w);
    lk_buf_append(w->out, at, (size_t)(end - at));
}

void lk_json_u64(lk_json_writer *w, uint64_t value)
{
    put_digits(w, value, false);
}

void lk_json_i64(lk_json_writer *w, int64_t value)
{
    put_digits(w, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

void lk_json_bool(lk_json_writer *w, bool value)
{
    begin_value(w);
    lk_buf_append_text(w->out, value ? "true" : "false");
}

void lk_json_null(lk_json_writer *w)
{
    begin_value(w);
    lk_buf_append_text(w->out, "null");
}

void lk_json_raw(lk_json_writer *w, lk_bytes json)
{
    begin_value(w);
    lk_buf_append_bytes(w->out, json);
}

void lk_json_base64(lk_json_writer *w, lk_bytes bytes)
{
    begin_value(w);
    lk_buf_append(w->out, "\"", 1);
    lk_base64_append(w->out, bytes);
    lk_buf_append(w->out, "\"", 1);
}
