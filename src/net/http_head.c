/* http_head.c - see http_head.h. */
#include "net/http_head.h"

#include <strings.h>

enum { CHUNK_OTHER_MAX = 16 * 1024, CHUNK_DIGITS_MAX = 15 };

_Static_assert(LK_HTTP_HEAD_BYTES_MAX == 32768 && LK_HTTP_FIELDS_MAX == 128, "the texts below name these");

static const lk_http_fault none = {0, NULL};

static lk_http_fault bad(const char *why)
{
    return (lk_http_fault){400, why};
}

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(lk_bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (!is_token_char(text.data[i])) {
            return false;
        }
    }
    return text.size > 0;
}

bool lk_http_is_field_value(lk_bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if ((c < 0x20 && c != '\t') || c == 0x7F) {
            return false;
        }
    }
    return true;
}

static lk_bytes trimmed(lk_bytes text)
{
    while (text.size > 0 && (*text.data == ' ' || *text.data == '\t')) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t')) {
        text.size--;
    }
    return text;
}

static bool equals(lk_bytes text, const char *lower)
{
    return text.size == strlen(lower) && strncasecmp(text.data, lower, text.size) == 0;
}

/* Takes up to the separator off *rest; false when it is not there. */
static bool take_until(lk_bytes *rest, char separator, lk_bytes *out)
{
    const char *at = rest->size == 0 ? NULL : memchr(rest->data, separator, rest->size);
    if (at == NULL) {
        return false;
    }
    *out = (lk_bytes){rest->data, (size_t)(at - rest->data)};
    rest->size -= out->size + 1;
    rest->data = at + 1;
    return true;
}

/* Lines end in CR LF; a bare CR or LF is none. */
static bool take_line(lk_bytes *rest, lk_bytes *out)
{
    if (!take_until(rest, '\n', out) || out->size == 0 || out->data[out->size - 1] != '\r') {
        return false;
    }
    out->size--;
    return memchr(out->data, '\r', out->size) == NULL;
}

/* -- request line -------------------------------------------------------------------------------------------------- */

static bool is_target(lk_bytes target)
{
    for (size_t i = 0; i < target.size; i++) {
        unsigned char c = (unsigned char)target.data[i];
        if (c <= 0x20 || c >= 0x7F || c == '#') {
            return false;
        }
    }
    return target.size > 0;
}

/* What proxies send: scheme and authority before the path, which mean nothing here. */
static lk_bytes without_origin(lk_bytes target)
{
    if (lk_bytes_starts(target, LK_LITERAL("http://")) || lk_bytes_starts(target, LK_LITERAL("https://"))) {
        const char *end = target.data + target.size, *authority = strchr(target.data, ':') + 3;
        const char *path = memchr(authority, '/', (size_t)(end - authority));
        return path == NULL ? LK_LITERAL("/") : (lk_bytes){path, (size_t)(end - path)};
    }
    return target;
}

static lk_http_fault read_request_line(lk_bytes line, lk_http_head *out)
{
    lk_bytes rest = line, target;
    if (!take_until(&rest, ' ', &out->method) || !is_token(out->method) || !take_until(&rest, ' ', &target) ||
        !is_target(target)) {
        return bad(
            "the request line is not METHOD TARGET HTTP/1.1 with one blank between each; blanks, # and "
            "bytes outside ASCII in the target are to be percent-encoded");
    }
    if (!lk_bytes_equal(rest, LK_LITERAL("HTTP/1.1")) && !lk_bytes_equal(rest, LK_LITERAL("HTTP/1.0"))) {
        return lk_bytes_starts(rest, LK_LITERAL("HTTP/"))
                   ? (lk_http_fault){505, "this server speaks HTTP/1.1 and HTTP/1.0"}
                   : bad("the request line does not end in HTTP/1.1");
    }
    out->minor = rest.data[rest.size - 1] - '0';
    out->query = without_origin(target);
    if (!take_until(&out->query, '?', &out->path)) {
        out->path = out->query;
        out->query = (lk_bytes){0};
    }
    return *out->path.data == '/' || lk_bytes_equal(out->path, LK_LITERAL("*"))
               ? none
               : bad("the target of the request does not begin with /");
}

/* -- fields ---------------------------------------------------------------------------------------------------------- */

static lk_http_fault read_length(lk_bytes value, lk_http_head *out)
{
    uint64_t length = 0;
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] < '0' || value.data[i] > '9' || length > (UINT64_MAX - 9) / 10) {
            return bad("Content-Length is no decimal number");
        }
        length = length * 10 + (uint64_t)(value.data[i] - '0');
    }
    if (value.size == 0 || (out->has_length && out->content_length != length)) {
        return bad(value.size == 0 ? "Content-Length is empty" : "there are two values of Content-Length");
    }
    out->has_length = true;
    out->content_length = length;
    return none;
}

static void read_connection(lk_bytes value, lk_http_head *out)
{
    lk_bytes option;
    bool     more = true;
    while (more) {
        lk_bytes rest = value;
        more = take_until(&rest, ',', &option);
        option = trimmed(more ? option : value);
        value = rest;
        if (equals(option, "close")) {
            out->keep_alive = false;
        } else if (equals(option, "keep-alive") && out->minor == 0) {
            out->keep_alive = true;
        }
    }
}

/* The fields that frame the message. */
static lk_http_fault read_framing(const lk_http_field *field, lk_http_head *out, int *hosts)
{
    if (equals(field->name, "content-length")) {
        return read_length(field->value, out);
    }
    if (equals(field->name, "transfer-encoding")) {
        bool again = out->chunked;
        out->chunked = equals(field->value, "chunked");
        return again || out->minor == 0 ? bad("Transfer-Encoding is there twice, or with HTTP/1.0")
               : out->chunked           ? none
                                        : (lk_http_fault){501, "the one Transfer-Encoding known is chunked"};
    }
    if (equals(field->name, "expect")) {
        out->expects_continue = out->minor > 0;
        return equals(field->value, "100-continue")
                   ? none
                   : (lk_http_fault){417, "the one expectation known is Expect: 100-continue"};
    }
    if (equals(field->name, "connection")) {
        read_connection(field->value, out);
    } else if (equals(field->name, "host")) {
        ++*hosts;
    }
    return none;
}

static lk_http_fault read_field(lk_bytes line, char *name, lk_http_head *out, int *hosts)
{
    lk_http_field field;
    if (out->field_count == LK_HTTP_FIELDS_MAX) {
        return (lk_http_fault){431, "a request may have 128 header fields; send fewer"};
    }
    if (!take_until(&line, ':', &field.name) || !is_token(field.name) || !lk_http_is_field_value(line)) {
        /* a continuation of the line before is one of these */
        return bad("a header line is not NAME: VALUE, or has a control character");
    }
    for (size_t i = 0; i < field.name.size; i++) {
        char c = field.name.data[i];
        name[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    field.name.data = name;
    field.value = trimmed(line);
    out->fields[out->field_count++] = field;
    return read_framing(&field, out, hosts);
}

/* head: up to and with the empty line, a copy whose bytes are ours. */
static lk_http_fault read_head(lk_bytes head, lk_arena *arena, lk_http_head *out)
{
    static const char *const line_end = "lines of the head end in CR LF, with no other CR or LF";
    lk_bytes                 rest = head, line;
    int                      hosts = 0;
    lk_http_fault            fault = take_line(&rest, &line) ? read_request_line(line, out) : bad(line_end);
    out->fields = lk_arena_take(arena, LK_HTTP_FIELDS_MAX * sizeof *out->fields);
    out->keep_alive = out->minor > 0;
    while (fault.status == 0) {
        if (!take_line(&rest, &line)) {
            return bad(line_end);
        }
        if (line.size == 0) {
            break;
        }
        fault = read_field(line, lk_arena_take(arena, line.size), out, &hosts);
    }
    if (fault.status == 0 && out->minor > 0 && hosts != 1) {
        return bad("a request has one Host field");
    }
    return fault.status == 0 && out->chunked && out->has_length
               ? bad("Content-Length and Transfer-Encoding do not go together")
               : fault;
}

lk_http_parsed lk_http_head_parse(
    lk_bytes input, lk_arena *arena, lk_http_head *out, size_t *used, lk_http_fault *fault)
{
    size_t blank = 0; /* an empty line or two before a request is let through (RFC 9112, 2.2) */
    *out = (lk_http_head){0};
    while (
        blank + 1 < input.size && blank < 8 && input.data[blank] == '\r' && input.data[blank + 1] == '\n') {
        blank += 2;
    }
    lk_bytes    text = {input.data + blank, input.size - blank};
    const char *end = text.size == 0 ? NULL : memmem(text.data, text.size, "\r\n\r\n", 4);
    if (end == NULL || (size_t)(end - text.data) + 4 > LK_HTTP_HEAD_BYTES_MAX) {
        *fault = (lk_http_fault){431,
            "the request line and the header fields may have 32768 bytes together; send filters and ids in "
            "several requests"};
        return end != NULL || text.size >= LK_HTTP_HEAD_BYTES_MAX ? LK_HTTP_BAD : LK_HTTP_MORE;
    }
    text.size = (size_t)(end - text.data) + 4;
    *used = blank + text.size;
    *fault = read_head(lk_arena_copy(arena, text), arena, out);
    return fault->status != 0 ? LK_HTTP_BAD : LK_HTTP_DONE;
}

bool lk_http_head_field(const lk_http_head *head, const char *name, lk_bytes *value)
{
    for (size_t i = 0; i < head->field_count; i++) {
        if (lk_bytes_equal(head->fields[i].name, lk_bytes_of(name))) {
            *value = head->fields[i].value;
            return true;
        }
    }
    return false;
}

/* -- chunks ---------------------------------------------------------------------------------------------------------- */

enum {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_CR,
    CHUNK_LF,
    TRAILER_START,
    TRAILER,
    TRAILER_LF,
    END_LF,
    ENDED
};

static int hex_digit(char c)
{
    char lower = (char)(c | 0x20);
    return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool size_byte(lk_http_chunks *chunks, char c)
{
    int digit = hex_digit(c);
    if (digit >= 0) {
        chunks->other++; /* counts digits here: the size line's own bound */
        chunks->left = chunks->left << 4 | (uint64_t)digit;
        return chunks->left >> (4 * CHUNK_DIGITS_MAX) == 0;
    }
    chunks->state = c == '\r' ? CHUNK_SIZE_LF : CHUNK_EXTENSION;
    return chunks->other > 0 && (c == '\r' || c == ';' || c == ' ' || c == '\t');
}

/* One byte that is no content; false when it must not be there. */
static bool frame_byte(lk_http_chunks *chunks, char c)
{
    bool ok = true;
    switch (chunks->state) {
    case CHUNK_SIZE:
        return size_byte(chunks, c);
    case CHUNK_EXTENSION:
        chunks->state = c == '\r' ? CHUNK_SIZE_LF : CHUNK_EXTENSION;
        return c != '\n' && ++chunks->other < CHUNK_OTHER_MAX;
    case CHUNK_SIZE_LF:
        chunks->state = chunks->left == 0 ? TRAILER_START : CHUNK_DATA;
        return c == '\n';
    case CHUNK_CR:
        chunks->state = CHUNK_LF;
        return c == '\r';
    case CHUNK_LF:
        chunks->state = CHUNK_SIZE;
        chunks->other = 0;
        return c == '\n';
    case TRAILER_START:
        chunks->state = c == '\r' ? END_LF : TRAILER;
        return c != '\n';
    case TRAILER:
        chunks->state = c == '\r' ? TRAILER_LF : TRAILER;
        return c != '\n' && ++chunks->other < CHUNK_OTHER_MAX;
    case TRAILER_LF:
        chunks->state = TRAILER_START;
        return c == '\n';
    default: /* END_LF */
        ok = c == '\n';
        chunks->state = ENDED;
        return ok;
    }
}

lk_http_parsed lk_http_chunks_take(lk_http_chunks *chunks, lk_bytes input, lk_bytes *data, size_t *used)
{
    size_t at = 0;
    *data = (lk_bytes){0};
    while (at < input.size && chunks->state != ENDED) {
        if (chunks->state == CHUNK_DATA) {
            size_t take = input.size - at < chunks->left ? input.size - at : (size_t)chunks->left;
            *data = (lk_bytes){input.data + at, take};
            chunks->left -= take;
            chunks->state = chunks->left == 0 ? CHUNK_CR : CHUNK_DATA;
            *used = at + take;
            return LK_HTTP_MORE;
        }
        if (!frame_byte(chunks, input.data[at++])) {
            return LK_HTTP_BAD;
        }
    }
    *used = at;
    return chunks->state == ENDED ? LK_HTTP_DONE : LK_HTTP_MORE;
}

/* -- escapes --------------------------------------------------------------------------------------------------------- */

static bool decode(lk_bytes text, bool plus_is_blank, lk_arena *arena, lk_bytes *out)
{
    char  *to = lk_arena_take(arena, text.size + 1);
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '%') {
            int high = i + 2 < text.size ? hex_digit(text.data[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text.data[i + 2]) : -1;
            if (low < 0) {
                return false;
            }
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        if (c == '\0') {
            return false;
        }
        to[size++] = c;
    }
    *out = (lk_bytes){to, size};
    return true;
}

bool lk_http_decode(lk_bytes text, lk_arena *arena, lk_bytes *out)
{
    return decode(text, false, arena, out);
}

bool lk_http_query_next(lk_bytes *query, lk_arena *arena, lk_bytes *name, lk_bytes *raw)
{
    lk_bytes rest = *query, pair = *query, key;
    if (!take_until(&rest, '&', &pair)) {
        rest = (lk_bytes){0};
    }
    *query = rest;
    *raw = pair;
    if (!take_until(raw, '=', &key)) {
        key = pair;
        *raw = (lk_bytes){0};
    }
    return decode(key, true, arena, name);
}

bool lk_http_query_value(lk_bytes query, const char *name, lk_arena *arena, lk_bytes *value, bool *found)
{
    *found = false;
    while (query.size > 0) {
        lk_bytes plain, raw;
        if (!lk_http_query_next(&query, arena, &plain, &raw)) {
            return false;
        }
        if (lk_bytes_equal(plain, lk_bytes_of(name))) {
            *found = true;
            return decode(raw, true, arena, value);
        }
    }
    return true;
}
