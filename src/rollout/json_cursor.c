/* json_cursor.c - see json_cursor.h. */
#include "rollout/json_cursor.h"

#include "rollout/float_text.h"

void lk_json_cursor_init(lk_json_cursor *cursor, lk_bytes text)
{
    *cursor = (lk_json_cursor){.at = text.data, .end = text.data + text.size};
}

void lk_json_cursor_deinit(lk_json_cursor *cursor)
{
    lk_buf_deinit(&cursor->scratch);
}

bool lk_json_fail(lk_json_cursor *cursor, const char *wrong)
{
    cursor->wrong = cursor->wrong == NULL ? wrong : cursor->wrong;
    return false;
}

char lk_json_peek(lk_json_cursor *cursor)
{
    const char *at = cursor->at;
    while (at < cursor->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
        at++;
    }
    cursor->at = at;
    return at < cursor->end && cursor->wrong == NULL ? *at : '\0';
}

bool lk_json_accept(lk_json_cursor *cursor, char punctuation)
{
    bool found = lk_json_peek(cursor) == punctuation;
    cursor->at += found;
    return found;
}

bool lk_json_more(lk_json_cursor *cursor, char close)
{
    if (lk_json_accept(cursor, ',')) {
        return true;
    }
    if (!lk_json_accept(cursor, close)) {
        lk_json_fail(cursor, close == ']' ? "expected a comma or ]" : "expected a comma or }");
    }
    return false;
}

/* -- texts ----------------------------------------------------------------------------------------------------- */

/* The first byte from `at` on that is a quote, a backslash or a control character; end when there is none. */
static const char *plain_run(const char *at, const char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
    while (end - at >= 8) {
        uint64_t word = lk_load_u64(at), quote = word ^ ones * '"', slash = word ^ ones * '\\';
        uint64_t control = (word - ones * 0x20) & ~word;
        if ((((quote - ones) & ~quote) | ((slash - ones) & ~slash) | control) & highs) {
            break;
        }
        at += 8;
    }
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20) {
        at++;
    }
    return at;
}

static bool take_hex4(lk_json_cursor *c, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        char b = c->at < c->end ? *c->at : '\0', lower = (char)(b | 0x20);
        bool decimal = b >= '0' && b <= '9';
        if (!decimal && (lower < 'a' || lower > 'f')) {
            return lk_json_fail(c, "\\u needs four hexadecimal digits");
        }
        *out = *out << 4 | (uint32_t)(decimal ? b - '0' : lower - 'a' + 10);
        c->at++;
    }
    return true;
}

static void put_utf8(lk_buf *out, uint32_t point)
{
    char bytes[4];
    int  size = 0;
    if (point < 0x80) {
        bytes[size++] = (char)point;
    } else if (point < 0x800) {
        bytes[size++] = (char)(0xC0 | point >> 6);
    } else if (point < 0x10000) {
        bytes[size++] = (char)(0xE0 | point >> 12);
        bytes[size++] = (char)(0x80 | (point >> 6 & 0x3F));
    } else {
        bytes[size++] = (char)(0xF0 | point >> 18);
        bytes[size++] = (char)(0x80 | (point >> 12 & 0x3F));
        bytes[size++] = (char)(0x80 | (point >> 6 & 0x3F));
    }
    if (point >= 0x80) {
        bytes[size++] = (char)(0x80 | (point & 0x3F));
    }
    lk_buf_append(out, bytes, (size_t)size);
}

/* Behind "\u". */
static bool take_code_point(lk_json_cursor *c)
{
    uint32_t point, low;
    if (!take_hex4(c, &point)) {
        return false;
    }
    if (point >= 0xD800 && point < 0xE000) {
        bool pair = point < 0xDC00 && c->end - c->at >= 2 && c->at[0] == '\\' && c->at[1] == 'u';
        c->at += pair ? 2 : 0;
        if (!pair || !take_hex4(c, &low) || low < 0xDC00 || low > 0xDFFF) {
            return lk_json_fail(c, "half of a surrogate pair");
        }
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    put_utf8(&c->scratch, point);
    return true;
}

/* Behind the backslash. */
static bool take_escape(lk_json_cursor *c)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char              name = c->at < c->end ? *c->at++ : '\0';
    if (name == 'u') {
        return take_code_point(c);
    }
    const char *found = name == '\0' ? NULL : strchr(names, name);
    if (found == NULL) {
        return lk_json_fail(c, "an unknown escape");
    }
    lk_buf_append(&c->scratch, &values[found - names], 1);
    return true;
}

static bool is_utf8(lk_json_cursor *c, const char *start, const char *end)
{
    return lk_bytes_are_utf8((lk_bytes){start, (size_t)(end - start)}) ||
           lk_json_fail(c, "a text is not UTF-8");
}

bool lk_json_take_text(lk_json_cursor *c, lk_bytes *out)
{
    if (!lk_json_accept(c, '"')) {
        return lk_json_fail(c, "expected a text");
    }
    const char *start = c->at;
    c->at = plain_run(start, c->end);
    if (c->at < c->end && *c->at == '"') {
        *out = (lk_bytes){start, (size_t)(c->at++ - start)};
        return is_utf8(c, start, start + out->size);
    }
    lk_buf_clear(&c->scratch);
    while (c->at < c->end && (*c->at == '\\')) {
        if (!is_utf8(c, start, c->at)) {
            return false;
        }
        lk_buf_append(&c->scratch, start, (size_t)(c->at - start));
        c->at++;
        if (!take_escape(c)) {
            return false;
        }
        start = c->at;
        c->at = plain_run(start, c->end);
    }
    if (c->at == c->end || *c->at != '"') {
        return lk_json_fail(c, c->at == c->end ? "a text has no end" : "a control character in a text");
    }
    lk_buf_append(&c->scratch, start, (size_t)(c->at - start));
    if (!is_utf8(c, start, c->at++)) {
        return false;
    }
    *out = lk_buf_view(&c->scratch);
    return true;
}

bool lk_json_take_key(lk_json_cursor *c, lk_bytes *out)
{
    return lk_json_take_text(c, out) && (lk_json_accept(c, ':') || lk_json_fail(c, "expected a colon"));
}

/* -- words and numbers ------------------------------------------------------------------------------------------- */

static bool accept_word(lk_json_cursor *c, lk_bytes word)
{
    bool found =
        lk_json_peek(c) == *word.data && lk_bytes_starts((lk_bytes){c->at, (size_t)(c->end - c->at)}, word);
    c->at += found ? word.size : 0;
    return found;
}

bool lk_json_accept_null(lk_json_cursor *c)
{
    return accept_word(c, LK_LITERAL("null"));
}

bool lk_json_take_bool(lk_json_cursor *c, bool *out)
{
    *out = accept_word(c, LK_LITERAL("true"));
    return *out || accept_word(c, LK_LITERAL("false")) || lk_json_fail(c, "expected true or false");
}

static bool is_digit(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

bool lk_json_take_integer(lk_json_cursor *c, int64_t min, int64_t max, int64_t *out)
{
    bool        negative = lk_json_peek(c) == '-';
    const char *start = c->at + negative, *at = start;
    uint64_t    value = 0, limit = (uint64_t)INT64_MAX + negative;
    if (c->wrong != NULL || !is_digit(at, c->end)) {
        return lk_json_fail(c, "expected an integer");
    }
    for (; is_digit(at, c->end); at++) {
        value = value * 10 +
                (uint64_t)(*at - '0'); /* 19 digits fit; of more this is nonsense, which is not used */
    }
    bool fits = at - start <= 19 && value <= limit;
    if (at < c->end && (*at == '.' || *at == 'e' || *at == 'E')) {
        return lk_json_fail(c, "a number that is not written as an integer");
    }
    if (*start == '0' && at - start > 1) {
        return lk_json_fail(c, "a number with a leading zero");
    }
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    if (!fits || *out < min || *out > max) {
        return lk_json_fail(c, "an integer that is out of range");
    }
    c->at = at;
    return true;
}

bool lk_json_take_float(lk_json_cursor *c, float *out)
{
    const char *next;
    lk_json_peek(c);
    if (c->wrong != NULL || !lk_float_read(c->at, c->end, out, &next)) {
        return lk_json_fail(c, "expected a number that fits a 32-bit float");
    }
    c->at = next;
    return true;
}

/* -- any value ------------------------------------------------------------------------------------------------- */

static const char *number_end(const char *at, const char *end)
{
    const char *digits;
    at += at < end && *at == '-';
    if (!is_digit(at, end) || (*at == '0' && is_digit(at + 1, end))) {
        return NULL;
    }
    while (is_digit(at, end)) {
        at++;
    }
    if (at < end && *at == '.') {
        for (digits = ++at; is_digit(at, end); at++) {}
        if (at == digits) {
            return NULL;
        }
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        for (digits = at; is_digit(at, end); at++) {}
        if (at == digits) {
            return NULL;
        }
    }
    return at;
}

static void keep(lk_buf *out, const char *start, const char *end)
{
    if (out != NULL) {
        lk_buf_append(out, start, (size_t)(end - start));
    }
}

static void keep_one(lk_buf *out, char byte)
{
    keep(out, &byte, &byte + 1);
}

static bool take_scalar(lk_json_cursor *c, lk_buf *out)
{
    const char *start = c->at, *end;
    lk_bytes    text;
    bool        truth;
    if (*start == '"') {
        if (!lk_json_take_text(c, &text)) {
            return false;
        }
    } else if (*start == '-' || is_digit(start, c->end)) {
        end = number_end(start, c->end);
        if (end == NULL) {
            return lk_json_fail(c, "a malformed number");
        }
        c->at = end;
    } else if (!lk_json_accept_null(c) && !lk_json_take_bool(c, &truth)) {
        c->wrong = "expected a value";
        return false;
    }
    keep(out, start, c->at);
    return true;
}

/* Before a member's value or an element: takes the key if there is to be one. */
static bool take_lead(lk_json_cursor *c, char close, lk_buf *out)
{
    lk_bytes key;
    if (close == ']') {
        return true;
    }
    lk_json_peek(c);
    const char *start = c->at;
    if (!lk_json_take_text(c, &key)) {
        return false;
    }
    keep(out, start, c->at);
    keep_one(out, ':');
    return lk_json_accept(c, ':') || lk_json_fail(c, "expected a colon");
}

/* After a value: takes what ends values around it, up to the lead of the next one. */
static bool take_ends(lk_json_cursor *c, const char *closes, size_t *depth, lk_buf *out)
{
    while (*depth > 0) {
        char close = closes[*depth - 1];
        if (lk_json_more(c, close)) {
            keep_one(out, ',');
            return take_lead(c, close, out);
        }
        if (c->wrong != NULL) {
            return false;
        }
        keep_one(out, close);
        --*depth;
    }
    return true;
}

bool lk_json_take_value(lk_json_cursor *c, lk_buf *out)
{
    char   closes[LK_JSON_CURSOR_DEPTH_MAX];
    size_t depth = 0;
    do {
        char open = lk_json_peek(c);
        bool opens = open == '{' || open == '[', taken;
        if (c->wrong != NULL || c->at == c->end) {
            return lk_json_fail(c, "the text ends within a value");
        }
        if (opens && depth == LK_JSON_CURSOR_DEPTH_MAX) {
            return lk_json_fail(c, "values are nested too deeply");
        }
        if (opens) {
            char close = open == '{' ? '}' : ']';
            keep_one(out, open);
            c->at++;
            if (!lk_json_accept(c, close)) {
                closes[depth++] = close;
                taken = take_lead(c, close, out);
            } else {
                keep_one(out, close);
                taken = take_ends(c, closes, &depth, out);
            }
        } else {
            taken = take_scalar(c, out) && take_ends(c, closes, &depth, out);
        }
        if (!taken) {
            return false;
        }
    } while (depth > 0);
    return true;
}
