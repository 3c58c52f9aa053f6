/*
 * json.c - the strict reader of json.h: one pass over the text with a cursor that cannot leave it.
 *
 * Invariants: cursor.at <= cursor.text.size; a value that skip_value accepted is well-formed JSON
 * (RFC 8259) in UTF-8, with no U+0000, no repeated key and no lone surrogate anywhere in it.
 */
#include "base/json.h"

#include "base/hash.h"

#include <inttypes.h>

struct cursor {
    lk_bytes  text;
    size_t    at;
    lk_arena *arena;
    lk_err   *err;
};

static lk_rc malformed(struct cursor *c, const char *what)
{
    return lk_refuse(c->err, LK_E_INVALID_REQUEST, "JSON: %s at byte %zu", what, c->at);
}

/* A name is shown only when it is short and plain: it may have come from anywhere. */
static lk_rc bad_field(struct cursor *c, lk_bytes name, const char *what)
{
    bool plain = name.size > 0 && name.size <= 64;
    for (size_t i = 0; plain && i < name.size; i++) {
        plain = name.data[i] > ' ' && name.data[i] < 0x7F && name.data[i] != '"';
    }
    if (!plain) {
        return lk_refuse(c->err, LK_E_INVALID_REQUEST, "a field %s", what);
    }
    return lk_refuse(c->err, LK_E_INVALID_REQUEST, "field \"%.*s\" %s", LK_FMT(name), what);
}

static int peek(struct cursor *c)
{
    return c->at < c->text.size ? (unsigned char)c->text.data[c->at] : -1;
}

static void skip_space(struct cursor *c)
{
    int b = peek(c);
    while (b == ' ' || b == '\t' || b == '\n' || b == '\r') {
        c->at++;
        b = peek(c);
    }
}

static bool accept(struct cursor *c, char wanted)
{
    skip_space(c);
    bool found = peek(c) == (unsigned char)wanted;
    c->at += found;
    return found;
}

static bool accept_word(struct cursor *c, const char *word)
{
    lk_bytes rest = {c->text.data + c->at, c->text.size - c->at};
    bool     found = lk_bytes_starts(rest, lk_bytes_of(word));
    c->at += found ? strlen(word) : 0;
    return found;
}

/* -- texts -- */

static bool hex4(struct cursor *c, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        int b = peek(c);
        int lower = b | 0x20;
        int digit = b >= '0' && b <= '9' ? b - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
        if (b < 0 || digit < 0) {
            return false;
        }
        *out = *out << 4 | (uint32_t)digit;
        c->at++;
    }
    return true;
}

static size_t put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)((0xF00u >> size & 0xF0) | code);
    return size;
}

/* After "\u": one code point, of one or two units. */
static lk_rc read_unicode(struct cursor *c, char *out, size_t *size)
{
    uint32_t code = 0, low = 0;
    if (!hex4(c, &code)) {
        return malformed(c, "bad \\u escape");
    }
    if (code >= 0xD800 && code <= 0xDBFF) {
        if (!accept_word(c, "\\u") || !hex4(c, &low) || low < 0xDC00 || low > 0xDFFF) {
            return malformed(c, "half a surrogate pair");
        }
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
        return malformed(c, "half a surrogate pair");
    } else if (code == 0) {
        return malformed(c, "U+0000 in a text");
    }
    *size += put_utf8(out + *size, code);
    return LK_OK;
}

static lk_rc read_escape(struct cursor *c, char *out, size_t *size)
{
    static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    int               b = peek(c);
    c->at += b >= 0;
    if (b == 'u') {
        return read_unicode(c, out, size);
    }
    const char *found = b <= 0 ? NULL : strchr(plain, b);
    if (found == NULL) {
        return malformed(c, "unknown escape");
    }
    out[(*size)++] = meant[found - plain];
    return LK_OK;
}

static bool find_end(struct cursor *c, size_t *end)
{
    for (size_t at = c->at; at < c->text.size; at++) {
        if (c->text.data[at] == '"') {
            *end = at;
            return true;
        }
        at += c->text.data[at] == '\\';
    }
    return false;
}

/* At the opening quote. The result has a NUL after it; an escape never grows, so the source bounds it. */
static lk_rc read_text(struct cursor *c, lk_bytes *out)
{
    if (!accept(c, '"')) {
        return malformed(c, "a text was expected");
    }
    size_t end = 0, size = 0;
    if (!find_end(c, &end)) {
        return malformed(c, "a text does not end");
    }
    if (!lk_bytes_are_utf8((lk_bytes){c->text.data + c->at, end - c->at})) {
        return malformed(c, "a text is not UTF-8");
    }
    char *data = lk_arena_take(c->arena, end - c->at + 1);
    while (c->at < end) {
        unsigned char b = (unsigned char)c->text.data[c->at++];
        if (b < 0x20) {
            return malformed(c, "a control character in a text");
        }
        if (b != '\\') {
            data[size++] = (char)b;
            continue;
        }
        lk_rc rc = read_escape(c, data, &size);
        if (rc != LK_OK) {
            return rc;
        }
    }
    c->at = end + 1;
    *out = (lk_bytes){data, size};
    return LK_OK;
}

/* -- any value, checked and stepped over -- */

static size_t skip_digits(struct cursor *c)
{
    size_t from = c->at;
    while (peek(c) >= '0' && peek(c) <= '9') {
        c->at++;
    }
    return c->at - from;
}

static lk_rc skip_number(struct cursor *c)
{
    c->at += peek(c) == '-';
    bool   zero = peek(c) == '0';
    size_t digits = skip_digits(c);
    bool   good = digits == 1 || (digits > 1 && !zero);
    if (good && peek(c) == '.') {
        c->at++;
        good = skip_digits(c) > 0;
    }
    if (good && (peek(c) == 'e' || peek(c) == 'E')) {
        c->at++;
        c->at += peek(c) == '+' || peek(c) == '-';
        good = skip_digits(c) > 0;
    }
    return good ? LK_OK : malformed(c, "a value was expected");
}

/* The keys seen in one object; few, so a list is enough up to the bound, which stops quadratic work. */
struct keys {
    struct keys *next;
    lk_bytes     name;
};

static lk_rc add_key(struct cursor *c, struct keys **keys, size_t *count, lk_bytes name)
{
    for (struct keys *k = *keys; k != NULL; k = k->next) {
        if (lk_bytes_equal(k->name, name)) {
            return bad_field(c, name, "appears twice");
        }
    }
    if (++*count > LK_JSON_KEYS_MAX) {
        return malformed(c, "an object has too many fields");
    }
    struct keys *key = lk_arena_take(c->arena, sizeof *key);
    *key = (struct keys){*keys, name};
    *keys = key;
    return LK_OK;
}

static lk_rc skip_value(struct cursor *c, int depth);

static lk_rc skip_member(struct cursor *c, int depth, struct keys **keys, size_t *count)
{
    lk_bytes name = {0};
    lk_rc    rc = read_text(c, &name);
    if (rc == LK_OK) {
        rc = add_key(c, keys, count, name);
    }
    if (rc == LK_OK && !accept(c, ':')) {
        rc = malformed(c, "':' was expected");
    }
    return rc == LK_OK ? skip_value(c, depth) : rc;
}

static lk_rc skip_container(struct cursor *c, int depth, bool object)
{
    struct keys *keys = NULL;
    size_t       count = 0;
    char         end = object ? '}' : ']';
    if (depth >= LK_JSON_DEPTH_MAX) {
        return malformed(c, "nested too deeply");
    }
    if (accept(c, end)) {
        return LK_OK;
    }
    do {
        lk_rc rc = object ? skip_member(c, depth + 1, &keys, &count) : skip_value(c, depth + 1);
        if (rc != LK_OK) {
            return rc;
        }
    } while (accept(c, ','));
    return accept(c, end) ? LK_OK
                          : malformed(c, object ? "',' or '}' was expected" : "',' or ']' was expected");
}

static lk_rc skip_value(struct cursor *c, int depth)
{
    lk_bytes text = {0};
    skip_space(c);
    switch (peek(c)) {
    case '{':
        c->at++;
        return skip_container(c, depth, true);
    case '[':
        c->at++;
        return skip_container(c, depth, false);
    case '"':
        return read_text(c, &text);
    case 't':
        return accept_word(c, "true") ? LK_OK : malformed(c, "a value was expected");
    case 'f':
        return accept_word(c, "false") ? LK_OK : malformed(c, "a value was expected");
    case 'n':
        return accept_word(c, "null") ? LK_OK : malformed(c, "a value was expected");
    default:
        return skip_number(c);
    }
}

/* The raw text of the next value, borrowed from the input. */
static lk_rc read_raw(struct cursor *c, int depth, lk_bytes *out)
{
    skip_space(c);
    size_t from = c->at;
    lk_rc  rc = skip_value(c, depth);
    *out = (lk_bytes){c->text.data + from, c->at - from};
    return rc;
}

static lk_rc at_end(struct cursor *c)
{
    skip_space(c);
    return c->at == c->text.size ? LK_OK : malformed(c, "more after the value");
}

/* -- known fields -- */

static bool parse_u64(lk_bytes raw, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < raw.size; i++) {
        unsigned digit = (unsigned char)raw.data[i] - (unsigned)'0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return raw.size > 0;
}

static lk_rc store_text(struct cursor *outer, lk_bytes raw, lk_bytes *out)
{
    struct cursor c = {raw, 0, outer->arena, outer->err};
    return read_text(&c, out);
}

static lk_rc store_base64(struct cursor *c, lk_bytes name, lk_bytes raw, lk_bytes *out)
{
    lk_buf   decoded = {0};
    lk_bytes text = {0};
    lk_rc    rc = store_text(c, raw, &text);
    if (rc == LK_OK && !lk_base64_decode(text, false, &decoded)) {
        rc = bad_field(c, name, "is not base64");
    }
    if (rc == LK_OK) {
        *out = lk_arena_copy(c->arena, lk_buf_view(&decoded));
    }
    lk_buf_deinit(&decoded);
    return rc;
}

static lk_rc store_texts(struct cursor *c, lk_bytes name, lk_bytes raw, lk_json_texts *out)
{
    lk_json_texts raws = {0};
    lk_rc         rc = lk_json_elements(raw, SIZE_MAX, c->arena, &raws, c->err);
    for (size_t i = 0; rc == LK_OK && i < raws.count; i++) {
        if (raws.items[i].data[0] != '"') {
            return bad_field(c, name, "must be an array of texts");
        }
        rc = store_text(c, raws.items[i], &raws.items[i]);
    }
    if (rc == LK_OK) {
        *out = raws;
    }
    return rc;
}

static lk_rc store(struct cursor *c, const lk_json_field *field, lk_bytes raw)
{
    lk_bytes name = lk_bytes_of(field->name);
    switch (field->type) {
    case LK_JSON_TEXT:
        return raw.data[0] == '"' ? store_text(c, raw, field->target) : bad_field(c, name, "must be a text");
    case LK_JSON_U64:
        return parse_u64(raw, field->target) ? LK_OK
                                             : bad_field(c, name, "must be an integer from 0 to 2^64-1");
    case LK_JSON_BOOL:
        *(bool *)field->target = raw.data[0] == 't';
        return raw.data[0] == 't' || raw.data[0] == 'f' ? LK_OK : bad_field(c, name, "must be true or false");
    case LK_JSON_BASE64:
        return raw.data[0] == '"' ? store_base64(c, name, raw, field->target)
                                  : bad_field(c, name, "must be base64");
    case LK_JSON_RAW:
        *(lk_bytes *)field->target = lk_arena_copy(c->arena, raw);
        return LK_OK;
    case LK_JSON_TEXTS:
        return raw.data[0] == '[' ? store_texts(c, name, raw, field->target)
                                  : bad_field(c, name, "must be an array of texts");
    default:
        break;
    }
    lk_assert_failed("field->type is one of lk_json_type", __FILE__, __LINE__);
}

static lk_rc read_field(struct cursor *c, const lk_json_field *fields, size_t field_count, bool *seen)
{
    lk_bytes name = {0}, raw = {0};
    lk_rc    rc = read_text(c, &name);
    if (rc != LK_OK) {
        return rc;
    }
    size_t at = 0;
    while (at < field_count && !lk_bytes_equal(lk_bytes_of(fields[at].name), name)) {
        at++;
    }
    if (at == field_count) {
        return bad_field(c, name, "is unknown");
    }
    if (seen[at]) {
        return bad_field(c, name, "appears twice");
    }
    seen[at] = true;
    rc = accept(c, ':') ? read_raw(c, 1, &raw) : malformed(c, "':' was expected");
    bool null = rc == LK_OK && raw.data[0] == 'n' && (fields[at].optional || fields[at].type != LK_JSON_RAW);
    if (null && fields[at].optional) {
        return LK_OK;
    }
    if (rc == LK_OK && null) {
        return bad_field(c, name, "must not be null");
    }
    rc = rc == LK_OK ? store(c, &fields[at], raw) : rc;
    if (rc == LK_OK && fields[at].found != NULL) {
        *fields[at].found = true;
    }
    return rc;
}

static lk_rc check_missing(
    struct cursor *c, const lk_json_field *fields, size_t field_count, const bool *seen)
{
    for (size_t i = 0; i < field_count; i++) {
        if (!seen[i] && !fields[i].optional) {
            return bad_field(c, lk_bytes_of(fields[i].name), "is missing");
        }
    }
    return LK_OK;
}

lk_rc lk_json_read(
    lk_bytes text, const lk_json_field *fields, size_t field_count, lk_arena *arena, lk_err *err)
{
    struct cursor c = {text, 0, arena, err};
    bool         *seen = lk_arena_take(arena, field_count);
    for (size_t i = 0; i < field_count; i++) {
        if (fields[i].found != NULL) {
            *fields[i].found = false;
        }
    }
    if (!accept(&c, '{')) {
        return malformed(&c, "an object was expected");
    }
    bool more = !accept(&c, '}');
    while (more) {
        lk_rc rc = read_field(&c, fields, field_count, seen);
        if (rc != LK_OK) {
            return rc;
        }
        more = accept(&c, ',');
        if (!more && !accept(&c, '}')) {
            return malformed(&c, "',' or '}' was expected");
        }
    }
    lk_rc rc = at_end(&c);
    return rc == LK_OK ? check_missing(&c, fields, field_count, seen) : rc;
}

static lk_rc read_elements(struct cursor *c, size_t max, lk_buf *items)
{
    if (!accept(c, '[')) {
        return malformed(c, "an array was expected");
    }
    bool more = !accept(c, ']');
    while (more) {
        lk_bytes raw = {0};
        lk_rc    rc = read_raw(c, 1, &raw);
        if (rc != LK_OK) {
            return rc;
        }
        if (items->size / sizeof raw >= max) {
            return lk_fail(c->err, LK_E_LIMIT, "JSON: an array of more than %zu elements", max);
        }
        lk_buf_append(items, &raw, sizeof raw);
        more = accept(c, ',');
        if (!more && !accept(c, ']')) {
            return malformed(c, "',' or ']' was expected");
        }
    }
    return at_end(c);
}

lk_rc lk_json_elements(lk_bytes text, size_t max, lk_arena *arena, lk_json_texts *out, lk_err *err)
{
    struct cursor c = {text, 0, arena, err};
    lk_buf        items = {0};
    lk_rc         rc = read_elements(&c, max, &items);
    if (rc == LK_OK) {
        out->count = items.size / sizeof(lk_bytes);
        out->items = lk_arena_take(arena, items.size);
        for (size_t i = 0; i < out->count; i++) {
            lk_bytes raw;
            memcpy(&raw, items.data + i * sizeof raw, sizeof raw);
            out->items[i] = lk_arena_copy(arena, raw);
        }
    }
    lk_buf_deinit(&items);
    return rc;
}
