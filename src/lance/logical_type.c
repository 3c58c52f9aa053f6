/*
 * logical_type.c - see logical_type.h. Plain names come from one table; names with parameters are taken apart
 * at their colons, from the right where a type may stand inside.
 */
#include "lance/logical_type.h"

#include <stdio.h>

#define BFLOAT16 "lance.bfloat16"

enum { NESTING_MAX = 8 }; /* fixed-size lists of fixed-size lists; deeper is nonsense or an attack */

static const struct plain {
    const char *name, *format;
} plain_types[] = {
    {"null", "n"}, {"bool", "b"}, {"int8", "c"}, {"uint8", "C"}, {"int16", "s"}, {"uint16", "S"},
    {"int32", "i"}, {"uint32", "I"}, {"int64", "l"}, {"uint64", "L"}, {"halffloat", "e"}, {"float", "f"},
    {"double", "g"}, {"string", "u"}, {"large_string", "U"}, {"binary", "z"}, {"large_binary", "Z"},
    {"date32:day", "tdD"}, {"date64:ms", "tdm"}, {"time32:s", "tts"}, {"time32:ms", "ttm"},
    {"time64:us", "ttu"}, {"time64:ns", "ttn"}, {"duration:s", "tDs"}, {"duration:ms", "tDm"},
    {"duration:us", "tDu"}, {"duration:ns", "tDn"}, {"blob", "Z"}, /* written as large_binary with metadata */
};

static const struct plain nested_types[] = {
    {"struct", "+s"},
    {"list", "+l"},
    {"list.struct", "+l"},
    {"large_list", "+L"},
    {"large_list.struct", "+L"},
    {"map", "+m"},
};

static const char *const unit_names[] = {"s", "ms", "us", "ns"};
static const char        unit_letters[] = "smun";

static const char *find_format(const struct plain *table, size_t count, lk_bytes name)
{
    for (size_t i = 0; i < count; i++) {
        if (lk_bytes_equal(name, lk_bytes_of(table[i].name))) {
            return table[i].format;
        }
    }
    return NULL;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* -- names to Arrow ---------------------------------------------------------------------------------- */

/* Cuts the part before the first colon off *rest. */
static lk_bytes cut_first(lk_bytes *rest)
{
    const char *colon = rest->size == 0 ? NULL : memchr(rest->data, ':', rest->size);
    size_t      size = colon == NULL ? rest->size : (size_t)(colon - rest->data);
    lk_bytes    part = {rest->data, size};
    size_t      skip = colon == NULL ? size : size + 1;
    rest->data += skip;
    rest->size -= skip;
    return part;
}

/* Cuts the part after the last colon off *rest; empty when there is none. */
static lk_bytes cut_last(lk_bytes *rest)
{
    size_t at = rest->size;
    while (at > 0 && rest->data[at - 1] != ':') {
        at--;
    }
    if (at == 0) {
        return (lk_bytes){0};
    }
    lk_bytes part = {rest->data + at, rest->size - at};
    rest->size = at - 1;
    return part;
}

/* Digits with an optional sign, within [min, max]. */
static bool parse_number(lk_bytes text, int64_t min, int64_t max, int64_t *out)
{
    bool   negative = text.size > 0 && text.data[0] == '-';
    size_t index = negative ? 1 : 0;
    if (index == text.size || text.size > 12) {
        return false;
    }
    int64_t value = 0;
    for (; index < text.size; index++) {
        if (text.data[index] < '0' || text.data[index] > '9') {
            return false;
        }
        value = value * 10 + (text.data[index] - '0');
    }
    *out = negative ? -value : value;
    return *out >= min && *out <= max;
}

static bool set_format(struct ArrowSchema *out, const char *format)
{
    return ArrowSchemaSetFormat(out, format) == NANOARROW_OK;
}

static bool parse_timestamp(lk_bytes rest, struct ArrowSchema *out)
{
    lk_bytes unit = cut_first(&rest);
    bool     zoneless = rest.size == 0 || lk_bytes_equal(rest, LK_LITERAL("-"));
    for (size_t i = 0; i < COUNT(unit_names); i++) {
        if (lk_bytes_equal(unit, lk_bytes_of(unit_names[i]))) {
            lk_arena arena = {0};
            lk_bytes format = zoneless ? lk_arena_format(&arena, "ts%c:", unit_letters[i])
                                       : lk_arena_format(&arena, "ts%c:%.*s", unit_letters[i], LK_FMT(rest));
            bool     ok = set_format(out, format.data);
            lk_arena_close(&arena);
            return ok;
        }
    }
    return false;
}

static bool parse_decimal(lk_bytes rest, struct ArrowSchema *out)
{
    int64_t  bits = 0, precision = 0, scale = 0;
    lk_bytes bits_text = cut_first(&rest), precision_text = cut_first(&rest);
    if (!parse_number(bits_text, 128, 256, &bits) || (bits != 128 && bits != 256) ||
        !parse_number(precision_text, 1, bits == 128 ? 38 : 76, &precision) ||
        !parse_number(rest, -76, 76, &scale)) {
        return false;
    }
    char format[40];
    (void)snprintf(
        format, sizeof format, bits == 128 ? "d:%d,%d" : "d:%d,%d,256", (int)precision, (int)scale);
    return set_format(out, format);
}

static bool parse_fixed_binary(lk_bytes rest, struct ArrowSchema *out)
{
    int64_t width = 0;
    char    format[32];
    if (!parse_number(rest, 0, INT32_MAX, &width)) {
        return false;
    }
    (void)snprintf(format, sizeof format, "w:%d", (int)width);
    return set_format(out, format);
}

static bool parse_name(lk_bytes name, unsigned depth, struct ArrowSchema *out, bool *has_fields);

/* Two bytes that Arrow has no type for: an extension, as the reference has it. */
static bool set_bfloat16(struct ArrowSchema *item)
{
    struct ArrowBuffer buffer;
    int                rc = ArrowMetadataBuilderInit(&buffer, NULL);
    if (rc == NANOARROW_OK) {
        rc =
            ArrowMetadataBuilderAppend(&buffer, ArrowCharView("ARROW:extension:metadata"), ArrowCharView(""));
    }
    if (rc == NANOARROW_OK) {
        rc = ArrowMetadataBuilderAppend(
            &buffer, ArrowCharView("ARROW:extension:name"), ArrowCharView(BFLOAT16));
    }
    if (rc == NANOARROW_OK) {
        rc = ArrowSchemaSetMetadata(item, (const char *)buffer.data);
    }
    ArrowBufferReset(&buffer);
    return rc == NANOARROW_OK;
}

static bool is_bfloat16(const struct ArrowSchema *item)
{
    struct ArrowStringView name = {0};
    return strcmp(item->format, "w:2") == 0 &&
           ArrowMetadataGetValue(item->metadata, ArrowCharView("ARROW:extension:name"), &name) ==
               NANOARROW_OK &&
           name.data != NULL &&
           lk_bytes_equal((lk_bytes){name.data, (size_t)name.size_bytes}, LK_LITERAL(BFLOAT16));
}

static bool parse_item(lk_bytes name, unsigned depth, struct ArrowSchema *item)
{
    bool has_fields = false;
    ArrowSchemaInit(item);
    if (ArrowSchemaSetName(item, "item") != NANOARROW_OK) {
        return false;
    }
    item->flags = ARROW_FLAG_NULLABLE;
    if (lk_bytes_equal(name, LK_LITERAL(BFLOAT16))) {
        return set_format(item, "w:2") && set_bfloat16(item);
    }
    return parse_name(name, depth, item, &has_fields) && !has_fields;
}

static bool parse_fixed_list(lk_bytes rest, unsigned depth, struct ArrowSchema *out, bool *has_fields)
{
    int64_t  count = 0;
    char     format[32];
    lk_bytes count_text = cut_last(&rest);
    if (!parse_number(count_text, 0, INT32_MAX, &count)) {
        return false;
    }
    (void)snprintf(format, sizeof format, "+w:%d", (int)count);
    if (!set_format(out, format)) {
        return false;
    }
    if (lk_bytes_equal(rest, LK_LITERAL("struct"))) {
        *has_fields = true;
        return true;
    }
    return ArrowSchemaAllocateChildren(out, 1) == NANOARROW_OK &&
           parse_item(rest, depth + 1, out->children[0]);
}

static bool parse_dictionary(lk_bytes rest, unsigned depth, struct ArrowSchema *out)
{
    bool        has_fields = false;
    lk_bytes    ordered = cut_last(&rest), index = cut_last(&rest);
    const char *format = find_format(plain_types, COUNT(plain_types), index);
    if (format == NULL || strchr("cCsSiIlL", format[0]) == NULL || format[1] != '\0' ||
        !set_format(out, format) || ArrowSchemaAllocateDictionary(out) != NANOARROW_OK) {
        return false;
    }
    if (lk_bytes_equal(ordered, LK_LITERAL("true"))) {
        out->flags |= ARROW_FLAG_DICTIONARY_ORDERED;
    }
    ArrowSchemaInit(out->dictionary);
    out->dictionary->flags = ARROW_FLAG_NULLABLE;
    return parse_name(rest, depth + 1, out->dictionary, &has_fields) && !has_fields;
}

static bool parse_name(lk_bytes name, unsigned depth, struct ArrowSchema *out, bool *has_fields)
{
    const char *format = find_format(plain_types, COUNT(plain_types), name);
    *has_fields = false;
    if (format != NULL) {
        return set_format(out, format);
    }
    format = find_format(nested_types, COUNT(nested_types), name);
    if (format != NULL) {
        *has_fields = true;
        return set_format(out, format);
    }
    lk_bytes rest = name, head = cut_first(&rest);
    if (depth > NESTING_MAX || memchr(name.data, '\0', name.size) != NULL) {
        return false;
    }
    if (lk_bytes_equal(head, LK_LITERAL("timestamp"))) {
        return parse_timestamp(rest, out);
    }
    if (lk_bytes_equal(head, LK_LITERAL("decimal"))) {
        return parse_decimal(rest, out);
    }
    if (lk_bytes_equal(head, LK_LITERAL("fixed_size_binary"))) {
        return parse_fixed_binary(rest, out);
    }
    if (lk_bytes_equal(head, LK_LITERAL("fixed_size_list"))) {
        return parse_fixed_list(rest, depth, out, has_fields);
    }
    return lk_bytes_equal(head, LK_LITERAL("dict")) && parse_dictionary(rest, depth, out);
}

lk_rc lk_logical_type_parse(lk_bytes name, struct ArrowSchema *out, bool *has_fields, lk_err *err)
{
    if (name.size == 0 || !parse_name(name, 0, out, has_fields)) {
        lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "logical type '%.*s'", LK_FMT(name));
        lk_detail(err, "the column type is unknown to this build");
        return rc;
    }
    return LK_OK;
}

/* -- Arrow to names ---------------------------------------------------------------------------------- */

static bool name_of(
    const struct ArrowSchema *field, unsigned depth, lk_arena *arena, lk_bytes *name, bool *has_fields);

static bool name_inner(const struct ArrowSchema *field, unsigned depth, lk_arena *arena, lk_bytes *name)
{
    bool has_fields = false;
    return depth < NESTING_MAX && name_of(field, depth + 1, arena, name, &has_fields) && !has_fields;
}

static bool name_dictionary(const struct ArrowSchema *field, unsigned depth, lk_arena *arena, lk_bytes *name)
{
    lk_bytes           value = {0};
    struct ArrowSchema index = {.format = field->format}; /* the indices alone */
    lk_bytes           index_name = {0};
    bool               has_fields = false;
    if (!name_inner(field->dictionary, depth, arena, &value) ||
        !name_of(&index, depth + 1, arena, &index_name, &has_fields)) {
        return false;
    }
    *name = lk_arena_format(arena, "dict:%.*s:%.*s:%s", LK_FMT(value), LK_FMT(index_name),
        (field->flags & ARROW_FLAG_DICTIONARY_ORDERED) != 0 ? "true" : "false");
    return true;
}

static bool name_fixed_list(const struct ArrowSchema *field, const lk_type *type, unsigned depth,
    lk_arena *arena, lk_bytes *name, bool *has_fields)
{
    lk_bytes item = LK_LITERAL("struct");
    *has_fields = strcmp(field->children[0]->format, "+s") == 0;
    if (is_bfloat16(field->children[0])) {
        item = LK_LITERAL(BFLOAT16);
    } else if (!*has_fields && !name_inner(field->children[0], depth, arena, &item)) {
        return false;
    }
    *name = lk_arena_format(arena, "fixed_size_list:%.*s:%lld", LK_FMT(item), (long long)type->list_size);
    return true;
}

static lk_bytes name_list(const struct ArrowSchema *field, const char *kind, lk_arena *arena)
{
    bool of_struct = strcmp(field->children[0]->format, "+s") == 0;
    return lk_arena_format(arena, "%s%s", kind, of_struct ? ".struct" : "");
}

static bool name_plain(const struct ArrowSchema *field, lk_bytes *name)
{
    for (size_t i = 0; i < COUNT(plain_types); i++) {
        if (strcmp(plain_types[i].format, field->format) == 0) {
            *name = lk_bytes_of(plain_types[i].name);
            return true;
        }
    }
    return false;
}

static bool name_of(
    const struct ArrowSchema *field, unsigned depth, lk_arena *arena, lk_bytes *name, bool *has_fields)
{
    lk_type type;
    *has_fields = false;
    if (field->dictionary != NULL) {
        return name_dictionary(field, depth, arena, name);
    }
    if (!lk_type_of(field, &type)) {
        return false;
    }
    if (type.id == LK_TYPE_TIMESTAMP) {
        *name = lk_arena_format(arena, "timestamp:%s:%.*s", unit_names[type.unit],
            LK_FMT(type.zone.size == 0 ? LK_LITERAL("-") : type.zone));
        return true;
    }
    if (type.id == LK_TYPE_DECIMAL128 || type.id == LK_TYPE_DECIMAL256) {
        *name = lk_arena_format(
            arena, "decimal:%d:%d:%d", type.id == LK_TYPE_DECIMAL128 ? 128 : 256, type.precision, type.scale);
        return true;
    }
    if (type.id == LK_TYPE_FIXED_BINARY) {
        *name = lk_arena_format(arena, "fixed_size_binary:%u", type.width);
        return true;
    }
    if (type.id == LK_TYPE_FIXED_LIST) {
        return name_fixed_list(field, &type, depth, arena, name, has_fields);
    }
    *has_fields = true;
    if (type.id == LK_TYPE_LIST || type.id == LK_TYPE_LARGE_LIST) {
        *name = name_list(field, type.id == LK_TYPE_LIST ? "list" : "large_list", arena);
        return true;
    }
    if (type.id == LK_TYPE_MAP && (field->flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0) {
        return false; /* that the keys are sorted has no name: the reference refuses it too */
    }
    if (type.id == LK_TYPE_STRUCT || type.id == LK_TYPE_MAP) {
        *name = type.id == LK_TYPE_STRUCT ? LK_LITERAL("struct") : LK_LITERAL("map");
        return true;
    }
    *has_fields = false;
    return name_plain(field, name);
}

bool lk_logical_type_of(const struct ArrowSchema *field, lk_arena *arena, lk_bytes *name, bool *has_fields)
{
    return name_of(field, 0, arena, name, has_fields);
}
