/*
 * ipc_schema_read.c - Message envelopes and schemas from foreign flatbuffers.
 *
 * Invariants: fields are counted against LK_COLUMNS_MAX and nesting against LK_SCHEMA_DEPTH_MAX while they are
 * read, so a schema that refers to itself ends; names are UTF-8 without NUL. Threads: stateless.
 */
#include "arrow/ipc_priv.h"
#include "arrow/utf8.h"
#include "base/limits.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MESSAGE_VERSION, MESSAGE_TAG, MESSAGE_HEADER, MESSAGE_BODY_SIZE };
enum { SCHEMA_ENDIANNESS, SCHEMA_FIELDS, SCHEMA_METADATA };
enum { FIELD_NAME, FIELD_NULLABLE, FIELD_TAG, FIELD_TYPE, FIELD_DICTIONARY, FIELD_CHILDREN, FIELD_METADATA };
enum { DICTIONARY_ID, DICTIONARY_INDEX, DICTIONARY_ORDERED };

/* The Type union. */
enum {
    TYPE_NULL = 1,
    TYPE_INT,
    TYPE_FLOAT,
    TYPE_BINARY,
    TYPE_UTF8,
    TYPE_BOOL,
    TYPE_DECIMAL,
    TYPE_DATE,
    TYPE_TIME,
    TYPE_TIMESTAMP,
    TYPE_INTERVAL,
    TYPE_LIST,
    TYPE_STRUCT,
    TYPE_UNION,
    TYPE_FIXED_BINARY,
    TYPE_FIXED_LIST,
    TYPE_MAP,
    TYPE_DURATION,
    TYPE_LARGE_BINARY,
    TYPE_LARGE_UTF8,
    TYPE_LARGE_LIST,
    TYPE_RUN_END,
    TYPE_BINARY_VIEW,
    TYPE_UTF8_VIEW,
    TYPE_LIST_VIEW,
    TYPE_LARGE_LIST_VIEW
};

enum { TABLES_PER_FIELD = 8, FORMAT_BYTES = 128 };

typedef struct reading {
    lk_ipc_schema *out;
    size_t         fields, id_room, view_room;
    lk_err        *err;
} reading;

lk_rc lk_ipc_bad(lk_err *err, const char *format, ...)
{
    char    text[LK_ERR_DETAIL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    lk_rc rc = lk_fail(err, LK_E_INVALID_IPC, "ipc");
    return lk_detail(err, "%s", text), rc;
}

void lk_ipc_schema_deinit(lk_ipc_schema *schema)
{
    lk_schema_release(&schema->schema);
    free(schema->ids);
    free(schema->views);
    *schema = (lk_ipc_schema){0};
}

/* -- envelopes --------------------------------------------------------------------------------------- */

lk_rc lk_ipc_envelope_open(lk_bytes header, lk_ipc_envelope *out, lk_err *err)
{
    if (header.size > LK_IPC_HEADER_BYTES_MAX) {
        return lk_ipc_bad(err, "a message header of more than %d bytes", LK_IPC_HEADER_BYTES_MAX);
    }
    lk_flat_init(&out->flat, header, TABLES_PER_FIELD * LK_COLUMNS_MAX, LK_IPC_HEADER_BYTES_MAX);
    lk_flat_table message = lk_flat_root(&out->flat);
    int           version = lk_flat_i16(&message, MESSAGE_VERSION, 0);
    int64_t       body_size = lk_flat_i64(&message, MESSAGE_BODY_SIZE, 0);
    out->tag = lk_flat_u8(&message, MESSAGE_TAG, 0);
    out->header = lk_flat_child(&message, MESSAGE_HEADER);
    if (out->flat.bad || !lk_flat_present(&out->header)) {
        return lk_ipc_bad(err, "a message header is malformed");
    }
    if (version != LK_VERSION_V4 && version != LK_VERSION_V5) {
        return lk_ipc_bad(err, "metadata version V%d is not supported", version + 1);
    }
    if (out->tag < LK_MESSAGE_SCHEMA || out->tag > LK_MESSAGE_BATCH) {
        return lk_ipc_bad(err, "a message is neither schema, dictionary nor record batch");
    }
    if (body_size < 0) {
        return lk_ipc_bad(err, "a message has a negative body length");
    }
    out->body_size = (uint64_t)body_size;
    return LK_OK;
}

/* -- types ------------------------------------------------------------------------------------------- */

static lk_rc refuse_type(reading *r, lk_bytes name, const char *type)
{
    size_t shown = name.size > 80 ? 80 : name.size;
    return lk_ipc_bad(
        r->err, "column '%.*s' has type %s, which is not supported", (int)shown, name.data, type);
}

static const char *int_format(const lk_flat_table *type)
{
    bool is_signed = lk_flat_u8(type, 1, 0) != 0;
    switch (lk_flat_i32(type, 0, 0)) {
    case 8:
        return is_signed ? "c" : "C";
    case 16:
        return is_signed ? "s" : "S";
    case 32:
        return is_signed ? "i" : "I";
    case 64:
        return is_signed ? "l" : "L";
    default:
        return NULL;
    }
}

static const char *time_format(const lk_flat_table *type)
{
    int unit = lk_flat_i16(type, 0, 1), bits = lk_flat_i32(type, 1, 32);
    if (bits == 32) {
        return unit == 0 ? "tts" : unit == 1 ? "ttm" : NULL;
    }
    return bits != 64 ? NULL : unit == 2 ? "ttu" : unit == 3 ? "ttn" : NULL;
}

static const char *pick(int index, int count, const char *const *formats)
{
    return index >= 0 && index < count ? formats[index] : NULL;
}

/* Types whose format is one of a few constants; NULL for the others. */
static const char *constant_format(int tag, const lk_flat_table *type)
{
    static const char *const floats[] = {"e", "f", "g"}, *const dates[] = {"tdD", "tdm"},
                             *const intervals[] = {"tiM", "tiD", "tin"},
                             *const durations[] = {"tDs", "tDm", "tDu", "tDn"};
    switch (tag) {
    case TYPE_NULL:
        return "n";
    case TYPE_BOOL:
        return "b";
    case TYPE_INT:
        return int_format(type);
    case TYPE_FLOAT:
        return pick(lk_flat_i16(type, 0, 0), 3, floats);
    case TYPE_BINARY:
    case TYPE_BINARY_VIEW:
        return "z";
    case TYPE_LARGE_BINARY:
        return "Z";
    case TYPE_UTF8:
    case TYPE_UTF8_VIEW:
        return "u";
    case TYPE_LARGE_UTF8:
        return "U";
    case TYPE_DATE:
        return pick(lk_flat_i16(type, 0, 1), 2, dates);
    case TYPE_TIME:
        return time_format(type);
    case TYPE_INTERVAL:
        return pick(lk_flat_i16(type, 0, 0), 3, intervals);
    case TYPE_DURATION:
        return pick(lk_flat_i16(type, 0, 1), 4, durations);
    case TYPE_LIST:
        return "+l";
    case TYPE_LARGE_LIST:
        return "+L";
    case TYPE_STRUCT:
        return "+s";
    case TYPE_MAP:
        return "+m";
    default:
        return NULL;
    }
}

static bool timestamp_format(const lk_flat_table *type, char *out)
{
    int      unit = lk_flat_i16(type, 0, 0);
    lk_bytes zone = lk_flat_text(type, 1);
    if (unit < 0 || unit > 3 || zone.size > FORMAT_BYTES - 8 ||
        (zone.size > 0 && memchr(zone.data, '\0', zone.size) != NULL) ||
        !lk_utf8_valid(zone.data, zone.size)) {
        return false;
    }
    snprintf(out, FORMAT_BYTES, "ts%c:%.*s", "smun"[unit], LK_FMT(zone));
    return true;
}

/* Writes the C Data Interface format of a type; false when there is none. */
static bool format_of(int tag, const lk_flat_table *type, char *out)
{
    const char *constant = constant_format(tag, type);
    if (constant != NULL) {
        snprintf(out, FORMAT_BYTES, "%s", constant);
        return true;
    }
    if (tag == TYPE_TIMESTAMP) {
        return timestamp_format(type, out);
    }
    if (tag == TYPE_DECIMAL) {
        int         bits = lk_flat_i32(type, 2, 128);
        const char *format = bits == 128 ? "d:%d,%d" : "d:%d,%d,%d";
        snprintf(out, FORMAT_BYTES, format, lk_flat_i32(type, 0, 0), lk_flat_i32(type, 1, 0), bits);
        return true;
    }
    if (tag == TYPE_FIXED_BINARY || tag == TYPE_FIXED_LIST) {
        snprintf(out, FORMAT_BYTES, tag == TYPE_FIXED_LIST ? "+w:%d" : "w:%d", lk_flat_i32(type, 0, 0));
        return true;
    }
    return false;
}

static const char *refused_name(int tag)
{
    switch (tag) {
    case TYPE_UNION:
        return "union";
    case TYPE_RUN_END:
        return "run_end_encoded";
    case TYPE_LIST_VIEW:
        return "list_view (cast it to list)";
    case TYPE_LARGE_LIST_VIEW:
        return "large_list_view (cast it to large_list)";
    default:
        return "unknown";
    }
}

/* -- fields ------------------------------------------------------------------------------------------ */

static void set(ArrowErrorCode code) /* fails only when memory is out */
{
    LK_ASSERT(code == NANOARROW_OK);
}

static lk_rc set_name(reading *r, struct ArrowSchema *out, lk_bytes name)
{
    if (!lk_utf8_valid(name.data, name.size) ||
        (name.size > 0 && memchr(name.data, '\0', name.size) != NULL)) {
        return lk_ipc_bad(r->err, "a column's name is not UTF-8 text");
    }
    lk_buf text = {0};
    lk_buf_append_bytes(&text, name);
    lk_buf_append(&text, "", 1);
    set(ArrowSchemaSetName(out, text.data));
    lk_buf_deinit(&text);
    return LK_OK;
}

static void set_metadata(struct ArrowSchema *out, const lk_flat_table *table, unsigned field)
{
    lk_flat_vector pairs = lk_flat_vector_of(table, field, 4);
    if (pairs.count == 0) {
        return;
    }
    struct ArrowBuffer buffer;
    set(ArrowMetadataBuilderInit(&buffer, NULL));
    for (uint32_t i = 0; i < pairs.count && !table->flat->bad; i++) {
        lk_flat_table          pair = lk_flat_element(&pairs, i);
        lk_bytes               key = lk_flat_text(&pair, 0), value = lk_flat_text(&pair, 1);
        struct ArrowStringView k = {key.data == NULL ? "" : key.data, (int64_t)key.size};
        struct ArrowStringView v = {value.data == NULL ? "" : value.data, (int64_t)value.size};
        set(ArrowMetadataBuilderAppend(&buffer, k, v));
    }
    set(ArrowSchemaSetMetadata(out, (const char *)buffer.data));
    ArrowBufferReset(&buffer);
}

static lk_rc add_id(reading *r, int64_t id)
{
    lk_ipc_schema *out = r->out;
    if (out->id_count == LK_IPC_DICTIONARIES_MAX) {
        return lk_ipc_bad(r->err, "more than %d dictionary-encoded columns", LK_IPC_DICTIONARIES_MAX);
    }
    if (out->id_count == r->id_room) {
        r->id_room = r->id_room == 0 ? 8 : 2 * r->id_room;
        int64_t *more = realloc(out->ids, r->id_room * sizeof *more);
        LK_ASSERT(more != NULL);
        out->ids = more;
    }
    out->ids[out->id_count++] = id;
    return LK_OK;
}

static void add_view(reading *r, const struct ArrowSchema *field)
{
    lk_ipc_schema *out = r->out;
    if (out->view_count == r->view_room) {
        r->view_room = r->view_room == 0 ? 8 : 2 * r->view_room;
        const struct ArrowSchema **more = realloc(out->views, r->view_room * sizeof(struct ArrowSchema *));
        LK_ASSERT(more != NULL);
        out->views = more;
    }
    out->views[out->view_count++] = field;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t left = (uintptr_t) * (const struct ArrowSchema *const *)a;
    uintptr_t right = (uintptr_t) * (const struct ArrowSchema *const *)b;
    return (left > right) - (left < right);
}

bool lk_ipc_schema_is_view(const lk_ipc_schema *schema, const struct ArrowSchema *field)
{
    return schema->view_count > 0 && bsearch(&field, schema->views, schema->view_count,
                                         sizeof(struct ArrowSchema *), by_address) != NULL;
}

static lk_rc read_field(reading *r, const lk_flat_table *table, int depth, struct ArrowSchema *out);

static lk_rc read_children(
    reading *r, const lk_flat_table *table, unsigned field, int depth, struct ArrowSchema *out)
{
    lk_flat_vector fields = lk_flat_vector_of(table, field, 4);
    if (fields.count > LK_COLUMNS_MAX - r->fields) {
        return lk_ipc_bad(r->err, "the schema has more than %d fields", LK_COLUMNS_MAX);
    }
    set(ArrowSchemaAllocateChildren(out, fields.count));
    lk_rc rc = LK_OK;
    for (uint32_t i = 0; rc == LK_OK && i < fields.count; i++) {
        lk_flat_table child = lk_flat_element(&fields, i);
        rc = read_field(r, &child, depth + 1, out->children[i]);
    }
    return rc;
}

/* The values' or the plain field's type and children. */
static lk_rc read_type(
    reading *r, const lk_flat_table *table, lk_bytes name, int depth, struct ArrowSchema *out)
{
    int           tag = lk_flat_u8(table, FIELD_TAG, 0);
    lk_flat_table type = lk_flat_child(table, FIELD_TYPE);
    char          format[FORMAT_BYTES];
    lk_type       checked;
    if (!format_of(tag, &type, format)) {
        return refuse_type(r, name, refused_name(tag));
    }
    set(ArrowSchemaSetFormat(out, format));
    if (tag == TYPE_UTF8_VIEW || tag == TYPE_BINARY_VIEW) {
        add_view(r, out);
    }
    if (tag == TYPE_MAP && lk_flat_u8(&type, 0, 0) != 0) {
        out->flags |= ARROW_FLAG_MAP_KEYS_SORTED;
    }
    lk_rc rc = read_children(r, table, FIELD_CHILDREN, depth, out);
    if (rc == LK_OK && !lk_type_of(out, &checked)) {
        return refuse_type(r, name, "malformed");
    }
    return rc;
}

static lk_rc read_encoded(reading *r, const lk_flat_table *table, const lk_flat_table *encoding,
    lk_bytes name, int depth, struct ArrowSchema *out)
{
    lk_flat_table index = lk_flat_child(encoding, DICTIONARY_INDEX);
    const char   *format = lk_flat_present(&index) ? int_format(&index) : "i";
    if (format == NULL) {
        return refuse_type(r, name, "malformed");
    }
    set(ArrowSchemaSetFormat(out, format));
    set(ArrowSchemaAllocateDictionary(out));
    ArrowSchemaInit(out->dictionary);
    set(ArrowSchemaSetName(out->dictionary, ""));
    if (lk_flat_u8(encoding, DICTIONARY_ORDERED, 0) != 0) {
        out->flags |= ARROW_FLAG_DICTIONARY_ORDERED;
    }
    lk_rc rc = add_id(r, lk_flat_i64(encoding, DICTIONARY_ID, 0));
    return rc == LK_OK ? read_type(r, table, name, depth, out->dictionary) : rc;
}

static lk_rc read_field(reading *r, const lk_flat_table *table, int depth, struct ArrowSchema *out)
{
    ArrowSchemaInit(out); /* released by the parent when we fail */
    if (depth > LK_SCHEMA_DEPTH_MAX || ++r->fields > LK_COLUMNS_MAX) {
        return lk_ipc_bad(r->err, "the schema nests deeper than %d or has more than %d fields",
            LK_SCHEMA_DEPTH_MAX, LK_COLUMNS_MAX);
    }
    lk_bytes name = lk_flat_text(table, FIELD_NAME);
    lk_rc    rc = set_name(r, out, name);
    if (rc != LK_OK) {
        return rc;
    }
    out->flags = lk_flat_u8(table, FIELD_NULLABLE, 0) != 0 ? ARROW_FLAG_NULLABLE : 0;
    set_metadata(out, table, FIELD_METADATA);
    lk_flat_table encoding = lk_flat_child(table, FIELD_DICTIONARY);
    rc = lk_flat_present(&encoding) ? read_encoded(r, table, &encoding, name, depth, out)
                                    : read_type(r, table, name, depth, out);
    if (rc == LK_OK && table->flat->bad) {
        return lk_ipc_bad(r->err, "the schema is malformed");
    }
    return rc;
}

lk_rc lk_ipc_schema_read(const lk_flat_table *table, lk_ipc_schema *out, lk_err *err)
{
    *out = (lk_ipc_schema){0};
    reading r = {.out = out, .err = err};
    if (lk_flat_i16(table, SCHEMA_ENDIANNESS, 0) != 0) {
        return lk_ipc_bad(err, "big-endian data is not supported");
    }
    ArrowSchemaInit(&out->schema);
    set(ArrowSchemaSetFormat(&out->schema, "+s"));
    set(ArrowSchemaSetName(&out->schema, ""));
    out->schema.flags = 0;
    set_metadata(&out->schema, table, SCHEMA_METADATA);
    lk_rc rc = read_children(&r, table, SCHEMA_FIELDS, 0, &out->schema);
    if (rc == LK_OK && table->flat->bad) {
        rc = lk_ipc_bad(err, "the schema is malformed");
    }
    if (rc != LK_OK) {
        lk_ipc_schema_deinit(out);
    } else if (out->view_count > 0) {
        qsort(out->views, out->view_count, sizeof(struct ArrowSchema *), by_address);
    }
    return rc;
}

/* The flatbuffer inside either form. */
static lk_rc unwrap(lk_bytes message, lk_bytes *header, lk_err *err)
{
    *header = message;
    if (message.size < 8 || lk_load_u32(message.data) != LK_IPC_CONTINUATION) {
        return LK_OK;
    }
    uint32_t size = lk_load_u32(message.data + 4);
    if (size > message.size - 8) {
        return lk_ipc_bad(err, "the schema message is cut short");
    }
    *header = (lk_bytes){message.data + 8, size};
    return LK_OK;
}

lk_rc lk_ipc_schema_decode(lk_bytes message, struct ArrowSchema *out, lk_err *err)
{
    lk_bytes        header;
    lk_ipc_envelope envelope;
    lk_ipc_schema   schema;
    out->release = NULL;
    lk_rc rc = unwrap(message, &header, err);
    if (rc == LK_OK) {
        rc = lk_ipc_envelope_open(header, &envelope, err);
    }
    if (rc == LK_OK && envelope.tag != LK_MESSAGE_SCHEMA) {
        rc = lk_ipc_bad(err, "the message is not a schema");
    }
    if (rc == LK_OK) {
        rc = lk_ipc_schema_read(&envelope.header, &schema, err);
    }
    if (rc == LK_OK) {
        lk_schema_move(&schema.schema, out);
        lk_ipc_schema_deinit(&schema);
    }
    return rc;
}
