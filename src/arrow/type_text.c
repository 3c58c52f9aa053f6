/*
 * type_text.c - types as text, both ways (schema.h).
 *
 * A recursive descent over a bounded cursor; nesting is bounded by LK_SCHEMA_DEPTH_MAX, so the C stack is too.
 */
#include "arrow/schema.h"
#include "base/limits.h"

#include <stdio.h>

typedef struct cursor {
    const char *start, *at, *end;
    int         depth;
} cursor;

static const struct {
    const char *name, *format;
} simple[] = {
    /* the first name of a format is the one lk_type_format writes */
    {"null", "n"},
    {"bool", "b"},
    {"int8", "c"},
    {"int16", "s"},
    {"int32", "i"},
    {"int64", "l"},
    {"uint8", "C"},
    {"uint16", "S"},
    {"uint32", "I"},
    {"uint64", "L"},
    {"float16", "e"},
    {"float32", "f"},
    {"float64", "g"},
    {"utf8", "u"},
    {"large_utf8", "U"},
    {"binary", "z"},
    {"large_binary", "Z"},
    {"date32", "tdD"},
    {"date64", "tdm"},
    {"time32[s]", "tts"},
    {"time32[ms]", "ttm"},
    {"time64[us]", "ttu"},
    {"time64[ns]", "ttn"},
    {"duration[s]", "tDs"},
    {"duration[ms]", "tDm"},
    {"duration[us]", "tDu"},
    {"duration[ns]", "tDn"},
    {"month_interval", "tiM"},
    {"day_time_interval", "tiD"},
    {"month_day_nano_interval", "tin"},
    {"i8", "c"},
    {"i16", "s"},
    {"i32", "i"},
    {"i64", "l"},
    {"u8", "C"},
    {"u16", "S"},
    {"u32", "I"},
    {"u64", "L"},
    {"f16", "e"},
    {"f32", "f"},
    {"f64", "g"},
    {"halffloat", "e"},
    {"half", "e"},
    {"string", "u"},
    {"large_string", "U"},
    {"boolean", "b"},
    {"int", "i"},
    {"float", "f"},
    {"double", "g"},
    {"date", "tdD"},
    {"bytes", "z"},
};
enum { SIMPLE_COUNT = sizeof simple / sizeof simple[0] };

static const char *const unit_names[] = {"s", "ms", "us", "ns"};

/* -- cursor ------------------------------------------------------------------------------------------ */

static lk_rc expected(cursor *c, const char *what, lk_err *err)
{
    lk_rc  rc = lk_fail(err, LK_E_INVALID_SCHEMA, "type text at byte %zu", (size_t)(c->at - c->start));
    size_t left = (size_t)(c->end - c->at);
    if (left == 0) {
        return lk_detail(err, "the type ends where %s is expected", what), rc;
    }
    return lk_detail(err, "at '%.*s': %s is expected", (int)(left > 40 ? 40 : left), c->at, what), rc;
}

static void skip_blanks(cursor *c)
{
    while (c->at < c->end && *c->at == ' ') {
        c->at++;
    }
}

static bool accept(cursor *c, char wanted)
{
    skip_blanks(c);
    if (c->at < c->end && *c->at == wanted) {
        c->at++;
        return true;
    }
    return false;
}

static lk_rc expect(cursor *c, char wanted, lk_err *err)
{
    char text[] = {'\'', wanted, '\'', '\0'};
    return accept(c, wanted) ? LK_OK : expected(c, text, err);
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static lk_bytes read_word(cursor *c)
{
    skip_blanks(c);
    const char *first = c->at;
    while (c->at < c->end && is_word(*c->at)) {
        c->at++;
    }
    return (lk_bytes){first, (size_t)(c->at - first)};
}

static lk_rc read_integer(cursor *c, int *out, lk_err *err)
{
    skip_blanks(c);
    const char *first = c->at;
    bool        negative = c->at < c->end && *c->at == '-';
    c->at += negative;
    long        value = 0;
    const char *digits = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9' && value < 1000000000L) {
        value = value * 10 + (*c->at++ - '0');
    }
    if (c->at == digits || value > INT32_MAX) {
        c->at = first;
        return expected(c, "a number", err);
    }
    *out = (int)(negative ? -value : value);
    return LK_OK;
}

/* A name up to a colon, or quoted with "" for one quote. */
static lk_rc read_name(cursor *c, lk_buf *out, lk_err *err)
{
    skip_blanks(c);
    if (!accept(c, '"')) {
        const char *colon = memchr(c->at, ':', (size_t)(c->end - c->at));
        if (colon == NULL || colon == c->at) {
            return expected(c, "name:type", err);
        }
        lk_buf_append(out, c->at, (size_t)(colon - c->at));
        c->at = colon;
        return LK_OK;
    }
    while (c->at < c->end) {
        char byte = *c->at++;
        if (byte == '"' && (c->at == c->end || *c->at != '"')) {
            return LK_OK;
        }
        c->at += byte == '"';
        lk_buf_append(out, &byte, 1);
    }
    return expected(c, "a closing quote", err);
}

/* -- building ---------------------------------------------------------------------------------------- */

static void set_format(struct ArrowSchema *out, const char *format)
{
    LK_ASSERT(ArrowSchemaSetFormat(out, format) == NANOARROW_OK);
}

static void set_name(struct ArrowSchema *out, lk_bytes name)
{
    lk_buf text = {0};
    lk_buf_append_bytes(&text, name);
    lk_buf_append(&text, "", 1);
    LK_ASSERT(ArrowSchemaSetName(out, text.data) == NANOARROW_OK);
    lk_buf_deinit(&text);
}

static void set_children(struct ArrowSchema *out, int64_t count)
{
    LK_ASSERT(ArrowSchemaAllocateChildren(out, count) == NANOARROW_OK);
}

static lk_rc parse_field(cursor *c, lk_bytes name, struct ArrowSchema *out, lk_err *err);

static lk_rc parse_unit(cursor *c, lk_unit first, lk_unit last, lk_unit *out, lk_err *err)
{
    const char *before = c->at;
    lk_bytes    word = read_word(c);
    for (lk_unit unit = first; unit <= last; unit++) {
        if (lk_bytes_equal(word, lk_bytes_of(unit_names[unit]))) {
            *out = unit;
            return LK_OK;
        }
    }
    c->at = before;
    return expected(c,
        first == LK_UNIT_SECOND && last == LK_UNIT_NANO ? "s, ms, us or ns"
        : first == LK_UNIT_SECOND                       ? "s or ms"
                                                        : "us or ns",
        err);
}

/* name[unit] for the times without a zone. */
static lk_rc parse_time(
    cursor *c, const char *prefix, lk_unit first, lk_unit last, struct ArrowSchema *out, lk_err *err)
{
    lk_unit unit = LK_UNIT_SECOND;
    lk_rc   rc = expect(c, '[', err);
    if (rc == LK_OK) {
        rc = parse_unit(c, first, last, &unit, err);
    }
    if (rc == LK_OK) {
        rc = expect(c, ']', err);
    }
    if (rc == LK_OK) {
        char format[] = {prefix[0], prefix[1], "smun"[unit], '\0'};
        set_format(out, format);
    }
    return rc;
}

static lk_rc parse_timestamp(cursor *c, struct ArrowSchema *out, lk_err *err)
{
    lk_unit  unit = LK_UNIT_MICRO;
    lk_bytes zone = {0};
    lk_rc    rc = expect(c, '[', err);
    if (rc == LK_OK) {
        rc = parse_unit(c, LK_UNIT_SECOND, LK_UNIT_NANO, &unit, err);
    }
    if (rc == LK_OK && accept(c, ',')) {
        skip_blanks(c);
        const char *close = memchr(c->at, ']', (size_t)(c->end - c->at));
        if (close == NULL || close == c->at || close - c->at > 64) {
            return expected(c, "a time zone", err);
        }
        zone = (lk_bytes){c->at, (size_t)(close - c->at)};
        c->at = close;
    }
    if (rc == LK_OK) {
        rc = expect(c, ']', err);
    }
    if (rc == LK_OK) {
        char format[80];
        snprintf(format, sizeof format, "ts%c:%.*s", "smun"[unit], LK_FMT(zone));
        set_format(out, format);
    }
    return rc;
}

static lk_rc parse_decimal(cursor *c, int bits, struct ArrowSchema *out, lk_err *err)
{
    int         precision = 0, scale = 0;
    lk_rc       rc = expect(c, '(', err);
    const char *numbers = c->at;
    if (rc == LK_OK) {
        rc = read_integer(c, &precision, err);
    }
    if (rc == LK_OK) {
        rc = expect(c, ',', err);
    }
    if (rc == LK_OK) {
        rc = read_integer(c, &scale, err);
    }
    if (rc == LK_OK) {
        rc = expect(c, ')', err);
    }
    if (rc == LK_OK) {
        char    format[48];
        lk_type type;
        snprintf(format, sizeof format, bits == 128 ? "d:%d,%d" : "d:%d,%d,%d", precision, scale, bits);
        set_format(out, format);
        if (!lk_type_of(out, &type)) {
            c->at = numbers;
            return expected(c,
                bits == 256   ? "a precision of 1 to 76"
                : bits == 128 ? "a precision of 1 to 38"
                : bits == 64  ? "a precision of 1 to 18"
                              : "a precision of 1 to 9",
                err);
        }
    }
    return rc;
}

/* (N) as the number of a fixed-size type. */
static lk_rc parse_size(cursor *c, const char *prefix, struct ArrowSchema *out, lk_err *err)
{
    int         size = 0;
    lk_rc       rc = expect(c, '(', err);
    const char *number = c->at;
    if (rc == LK_OK) {
        rc = read_integer(c, &size, err);
    }
    if (rc == LK_OK && size < 1) {
        c->at = number;
        rc = expected(c, "a size of at least 1", err);
    }
    if (rc == LK_OK) {
        rc = expect(c, ')', err);
    }
    if (rc == LK_OK) {
        char format[32];
        snprintf(format, sizeof format, "%s%d", prefix, size);
        set_format(out, format);
    }
    return rc;
}

static lk_rc parse_list(cursor *c, const char *format, struct ArrowSchema *out, lk_err *err)
{
    lk_rc rc = expect(c, '<', err);
    if (rc == LK_OK) {
        set_format(out, format);
        set_children(out, 1);
        rc = parse_field(c, LK_LITERAL("item"), out->children[0], err);
    }
    return rc == LK_OK ? expect(c, '>', err) : rc;
}

static lk_rc parse_map(cursor *c, struct ArrowSchema *out, lk_err *err)
{
    lk_rc rc = expect(c, '<', err);
    if (rc != LK_OK) {
        return rc;
    }
    set_format(out, "+m");
    set_children(out, 1);
    struct ArrowSchema *entries = out->children[0];
    ArrowSchemaInit(entries);
    set_format(entries, "+s");
    set_name(entries, LK_LITERAL("entries"));
    set_children(entries, 2);
    entries->flags = 0;
    rc = parse_field(c, LK_LITERAL("key"), entries->children[0], err);
    if (rc == LK_OK && entries->children[0]->flags & ARROW_FLAG_NULLABLE) {
        rc = expected(c, "a key that is not nullable before this", err);
    }
    if (rc == LK_OK) {
        rc = expect(c, ',', err);
    }
    if (rc == LK_OK) {
        rc = parse_field(c, LK_LITERAL("value"), entries->children[1], err);
    }
    return rc == LK_OK ? expect(c, '>', err) : rc;
}

static lk_rc parse_member(cursor *c, struct ArrowSchema *out, lk_err *err)
{
    lk_buf name = {0};
    lk_rc  rc = read_name(c, &name, err);
    if (rc == LK_OK) {
        rc = expect(c, ':', err);
    }
    if (rc == LK_OK) {
        rc = parse_field(c, lk_buf_view(&name), out, err);
    }
    lk_buf_deinit(&name);
    return rc;
}

static lk_rc parse_struct(cursor *c, struct ArrowSchema *out, lk_err *err)
{
    struct ArrowSchema *members = NULL;
    size_t              count = 0, room = 0;
    lk_rc               rc = expect(c, '<', err);
    do {
        if (rc == LK_OK && count == room) {
            room = room == 0 ? 8 : room * 2;
            struct ArrowSchema *more = ArrowRealloc(members, (int64_t)(room * sizeof *more));
            LK_ASSERT(more != NULL);
            members = more;
        }
        if (rc == LK_OK) {
            rc = parse_member(c, &members[count], err);
            count += rc == LK_OK;
        }
    } while (rc == LK_OK && accept(c, ','));
    if (rc == LK_OK) {
        rc = expect(c, '>', err);
    }
    if (rc == LK_OK) {
        set_format(out, "+s");
        set_children(out, (int64_t)count);
    }
    for (size_t i = 0; i < count; i++) {
        if (rc == LK_OK) {
            lk_schema_move(&members[i], out->children[i]);
        } else {
            lk_schema_release(&members[i]);
        }
    }
    ArrowFree(members);
    return rc;
}

static lk_rc parse_dictionary(cursor *c, struct ArrowSchema *out, lk_err *err)
{
    struct ArrowSchema index = {0};
    lk_type            type;
    lk_rc              rc = expect(c, '<', err);
    const char        *at = c->at;
    if (rc == LK_OK) {
        rc = parse_field(c, LK_LITERAL(""), &index, err);
    }
    if (rc == LK_OK && (!lk_type_of(&index, &type) || !lk_type_is_integer(type.id))) {
        c->at = at;
        rc = expected(c, "an integer type", err);
    }
    if (rc == LK_OK) {
        rc = expect(c, ',', err);
    }
    if (rc == LK_OK) {
        set_format(out, index.format);
        LK_ASSERT(ArrowSchemaAllocateDictionary(out) == NANOARROW_OK);
        rc = parse_field(c, LK_LITERAL(""), out->dictionary, err);
    }
    if (rc == LK_OK) {
        out->dictionary->flags |= ARROW_FLAG_NULLABLE;
        rc = expect(c, '>', err);
    }
    lk_schema_release(&index);
    return rc;
}

static lk_rc parse_parameters(cursor *c, lk_bytes word, struct ArrowSchema *out, lk_err *err)
{
    static const struct {
        const char *name;
        int         bits;
    } decimals[] = {
        {"decimal", 128}, {"decimal32", 32}, {"decimal64", 64}, {"decimal128", 128}, {"decimal256", 256}};
    for (size_t i = 0; i < 5; i++) {
        if (lk_bytes_equal(word, lk_bytes_of(decimals[i].name))) {
            return parse_decimal(c, decimals[i].bits, out, err);
        }
    }
    if (lk_bytes_equal(word, LK_LITERAL("timestamp"))) {
        return parse_timestamp(c, out, err);
    }
    if (lk_bytes_equal(word, LK_LITERAL("time32"))) {
        return parse_time(c, "tt", LK_UNIT_SECOND, LK_UNIT_MILLI, out, err);
    }
    if (lk_bytes_equal(word, LK_LITERAL("time64"))) {
        return parse_time(c, "tt", LK_UNIT_MICRO, LK_UNIT_NANO, out, err);
    }
    if (lk_bytes_equal(word, LK_LITERAL("duration"))) {
        return parse_time(c, "tD", LK_UNIT_SECOND, LK_UNIT_NANO, out, err);
    }
    if (lk_bytes_equal(word, LK_LITERAL("fixed_size_binary"))) {
        return parse_size(c, "w:", out, err);
    }
    if (lk_bytes_equal(word, LK_LITERAL("list"))) {
        return parse_list(c, "+l", out, err);
    }
    if (lk_bytes_equal(word, LK_LITERAL("large_list"))) {
        return parse_list(c, "+L", out, err);
    }
    if (lk_bytes_equal(word, LK_LITERAL("fixed_size_list"))) {
        lk_rc rc = parse_list(c, "+w:1", out, err);
        return rc == LK_OK ? parse_size(c, "+w:", out, err) : rc;
    }
    if (lk_bytes_equal(word, LK_LITERAL("struct"))) {
        return parse_struct(c, out, err);
    }
    if (lk_bytes_equal(word, LK_LITERAL("map"))) {
        return parse_map(c, out, err);
    }
    if (lk_bytes_equal(word, LK_LITERAL("dictionary"))) {
        return parse_dictionary(c, out, err);
    }
    c->at = word.data;
    return expected(c, "a type such as int64, utf8 or timestamp[us,UTC]", err);
}

static lk_rc parse_type(cursor *c, lk_bytes name, struct ArrowSchema *out, lk_err *err)
{
    lk_bytes word = read_word(c);
    if (lk_bytes_equal(word, LK_LITERAL("file"))) {
        lk_schema_release(out);
        lk_schema_file(name, false, out);
        return LK_OK;
    }
    for (size_t i = 0; i < SIMPLE_COUNT; i++) {
        if (lk_bytes_equal(word, lk_bytes_of(simple[i].name))) {
            set_format(out, simple[i].format);
            return LK_OK;
        }
    }
    return parse_parameters(c, word, out, err);
}

static lk_rc parse_field(cursor *c, lk_bytes name, struct ArrowSchema *out, lk_err *err)
{
    ArrowSchemaInit(out);
    set_name(out, name);
    out->flags = 0;
    lk_rc rc =
        ++c->depth > LK_SCHEMA_DEPTH_MAX ? expected(c, "less nesting", err) : parse_type(c, name, out, err);
    c->depth--;
    if (rc != LK_OK) {
        lk_schema_release(out);
    } else if (accept(c, '?')) {
        out->flags |= ARROW_FLAG_NULLABLE;
    }
    return rc;
}

static lk_rc expect_end(cursor *c, struct ArrowSchema *out, lk_err *err)
{
    skip_blanks(c);
    if (c->at == c->end) {
        return LK_OK;
    }
    lk_schema_release(out);
    return expected(c, "the end of the type", err);
}

lk_rc lk_type_parse(lk_bytes text, lk_bytes name, struct ArrowSchema *out, lk_err *err)
{
    cursor c = {text.data, text.data, text.data + text.size, 0};
    out->release = NULL;
    lk_rc rc = parse_field(&c, name, out, err);
    return rc == LK_OK ? expect_end(&c, out, err) : rc;
}

lk_rc lk_column_parse(lk_bytes text, struct ArrowSchema *out, lk_err *err)
{
    cursor c = {text.data, text.data, text.data + text.size, 0};
    out->release = NULL;
    lk_rc rc = parse_member(&c, out, err);
    return rc == LK_OK ? expect_end(&c, out, err) : rc;
}

/* -- writing ----------------------------------------------------------------------------------------- */

static void format_name(const char *name, lk_buf *out)
{
    bool plain = name != NULL && name[0] != '\0';
    for (const char *at = name; plain && *at != '\0'; at++) {
        plain = is_word(*at);
    }
    if (plain) {
        lk_buf_append_text(out, name);
        return;
    }
    lk_buf_append_text(out, "\"");
    for (const char *at = name; at != NULL && *at != '\0'; at++) {
        lk_buf_append(out, at, 1);
        if (*at == '"') {
            lk_buf_append(out, at, 1);
        }
    }
    lk_buf_append_text(out, "\"");
}

static void format_child(const struct ArrowSchema *field, lk_buf *out)
{
    lk_type_format(field, out);
    if (field->flags & ARROW_FLAG_NULLABLE) {
        lk_buf_append_text(out, "?");
    }
}

static void format_children(const struct ArrowSchema *field, const char *word, bool named, lk_buf *out)
{
    lk_buf_format(out, "%s<", word);
    for (int64_t i = 0; i < field->n_children; i++) {
        lk_buf_append_text(out, i == 0 ? "" : ",");
        if (named) {
            format_name(field->children[i]->name, out);
            lk_buf_append_text(out, ":");
        }
        format_child(field->children[i], out);
    }
    lk_buf_append_text(out, ">");
}

static void format_dictionary(const struct ArrowSchema *field, lk_buf *out)
{
    struct ArrowSchema index = {.format = field->format};
    lk_buf_append_text(out, "dictionary<");
    lk_type_format(&index, out);
    lk_buf_append_text(out, ",");
    lk_type_format(field->dictionary, out);
    lk_buf_append_text(out, ">");
}

static void format_parameters(const struct ArrowSchema *field, const lk_type *type, lk_buf *out)
{
    int width = (int)type->width;
    switch (type->layout) {
    case LK_LAYOUT_STRUCT:
        format_children(field, "struct", true, out);
        return;
    case LK_LAYOUT_LIST64:
        format_children(field, "large_list", false, out);
        return;
    case LK_LAYOUT_FIXED_LIST:
        format_children(field, "fixed_size_list", false, out);
        lk_buf_format(out, "(%lld)", (long long)type->list_size);
        return;
    case LK_LAYOUT_LIST32:
        format_children(type->id == LK_TYPE_MAP ? field->children[0] : field,
            type->id == LK_TYPE_MAP ? "map" : "list", false, out);
        return;
    case LK_LAYOUT_NULL:
    case LK_LAYOUT_BITS:
    case LK_LAYOUT_FIXED:
    case LK_LAYOUT_BYTES32:
    case LK_LAYOUT_BYTES64:
        break;
    }
    if (type->id == LK_TYPE_TIMESTAMP) {
        lk_buf_format(out, "timestamp[%s%s%.*s]", unit_names[type->unit], type->zone.size > 0 ? "," : "",
            LK_FMT(type->zone));
    } else if (type->id == LK_TYPE_FIXED_BINARY) {
        lk_buf_format(out, "fixed_size_binary(%d)", width);
    } else if (type->id == LK_TYPE_DECIMAL128) {
        lk_buf_format(out, "decimal(%d,%d)", type->precision, type->scale);
    } else {
        lk_buf_format(out, "decimal%d(%d,%d)", width * 8, type->precision, type->scale);
    }
}

void lk_type_format(const struct ArrowSchema *field, lk_buf *out)
{
    lk_type type;
    if (field->dictionary != NULL) {
        format_dictionary(field, out);
        return;
    }
    if (!lk_type_of(field, &type)) {
        lk_buf_append_text(out, field->format == NULL ? "(none)" : field->format);
        return;
    }
    if (lk_schema_is_file(field)) {
        lk_buf_append_text(out, "file");
        return;
    }
    for (size_t i = 0; i < SIMPLE_COUNT; i++) {
        if (strcmp(simple[i].format, field->format) == 0) {
            lk_buf_append_text(out, simple[i].name);
            return;
        }
    }
    format_parameters(field, &type, out);
}

lk_rc lk_columns_parse(const lk_bytes *texts, size_t count, struct ArrowSchema *out, lk_err *err)
{
    if (count > LK_COLUMNS_MAX) {
        return lk_refuse(
            err, LK_E_INVALID_SCHEMA, "%zu columns; a table has at most %d", count, LK_COLUMNS_MAX);
    }
    lk_rc rc = LK_OK;
    lk_schema_start(out, count);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = lk_column_parse(texts[i], out->children[i], err);
    }
    if (rc != LK_OK) {
        lk_schema_release(out);
    }
    return rc;
}
