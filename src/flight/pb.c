/*
 * pb.c - the protobuf wire format (protobuf.dev, "Encoding"): cursor, table-driven reader and writer.
 *
 * Reading takes two passes over a message: the first counts what repeats, so that arrays are allocated once
 * and in proportion to the bytes; the second fills. Threads: stateless.
 */
#include "flight/pb.h"

/* -- the wire -- */

uint64_t lk_pb_varint(lk_pb_cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 7 * LK_PB_VARINT_SIZE_MAX && cursor->at < cursor->end; shift += 7) {
        uint8_t byte = *cursor->at++;
        if (shift == 63 && byte > 1) {
            break; /* more than 64 bits */
        }
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
    cursor->bad = true;
    return 0;
}

static size_t left(const lk_pb_cursor *cursor)
{
    return (size_t)(cursor->end - cursor->at);
}

static uint64_t fixed(lk_pb_cursor *cursor, size_t size)
{
    uint64_t value = 0;
    if (left(cursor) < size) {
        cursor->bad = true;
        return 0;
    }
    memcpy(&value, cursor->at, size);
    cursor->at += size;
    return value;
}

static lk_bytes counted(lk_pb_cursor *cursor)
{
    uint64_t size = lk_pb_varint(cursor);
    if (cursor->bad || size > left(cursor)) {
        cursor->bad = true;
        return LK_LITERAL("");
    }
    lk_bytes bytes = {(const char *)cursor->at, (size_t)size};
    cursor->at += size;
    return bytes;
}

bool lk_pb_next(lk_pb_cursor *cursor, lk_pb_item *out)
{
    if (cursor->bad || cursor->at == cursor->end) {
        return false;
    }
    uint64_t tag = lk_pb_varint(cursor);
    *out = (lk_pb_item){
        .number = (uint32_t)(tag >> 3), .wire_type = (uint32_t)(tag & 7), .bytes = LK_LITERAL("")};
    cursor->bad = cursor->bad || tag > UINT32_MAX || out->number == 0;
    switch (out->wire_type) {
    case LK_PB_VARINT:
        out->value = lk_pb_varint(cursor);
        break;
    case LK_PB_FIXED64:
        out->value = fixed(cursor, 8);
        break;
    case LK_PB_LENGTH:
        out->bytes = counted(cursor);
        break;
    case LK_PB_FIXED32:
        out->value = fixed(cursor, 4);
        break;
    default:
        cursor->bad = true; /* groups are long gone */
    }
    return !cursor->bad;
}

void lk_pb_put_varint(lk_buf *out, uint64_t value)
{
    uint8_t bytes[LK_PB_VARINT_SIZE_MAX];
    size_t  size = 0;
    for (; value >= 0x80; value >>= 7) {
        bytes[size++] = (uint8_t)(value | 0x80);
    }
    bytes[size++] = (uint8_t)value;
    lk_buf_append(out, bytes, size);
}

void lk_pb_put_tag(lk_buf *out, uint32_t number, uint32_t wire_type)
{
    lk_pb_put_varint(out, (uint64_t)number << 3 | wire_type);
}

void lk_pb_put_bytes(lk_buf *out, uint32_t number, lk_bytes bytes)
{
    lk_pb_put_tag(out, number, LK_PB_LENGTH);
    lk_pb_put_varint(out, bytes.size);
    lk_buf_append_bytes(out, bytes);
}

void lk_pb_put_uint(lk_buf *out, uint32_t number, uint64_t value)
{
    lk_pb_put_tag(out, number, LK_PB_VARINT);
    lk_pb_put_varint(out, value);
}

/* -- reading -- */

static const lk_pb_field *find(const lk_pb_message *message, uint32_t number)
{
    for (size_t i = 0; i < message->field_count; i++) {
        if (message->fields[i].number == number) {
            return &message->fields[i];
        }
    }
    return NULL;
}

static size_t *count_of(const lk_pb_field *field, void *out)
{
    return (size_t *)(void *)((char *)out + field->extra);
}

static bool is_array(lk_pb_type type)
{
    return type == LK_PB_TEXTS || type == LK_PB_UINT32S || type == LK_PB_MANY;
}

static size_t element_size(const lk_pb_field *field)
{
    return field->type == LK_PB_MANY    ? field->of->size
           : field->type == LK_PB_TEXTS ? sizeof(lk_bytes)
                                        : sizeof(uint32_t);
}

/* How many elements one item brings: a packed run has one for each byte that ends a varint. */
static size_t elements(const lk_pb_field *field, const lk_pb_item *item)
{
    if (field->type != LK_PB_UINT32S) {
        return item->wire_type == LK_PB_LENGTH ? 1 : 0;
    }
    size_t count = item->wire_type == LK_PB_VARINT ? 1 : 0;
    for (size_t i = 0; i < item->bytes.size; i++) {
        count += ((uint8_t)item->bytes.data[i] & 0x80) == 0 ? 1 : 0;
    }
    return count;
}

static bool make_arrays(const lk_pb_message *message, lk_bytes bytes, lk_arena *arena, void *out)
{
    lk_pb_cursor cursor = lk_pb_cursor_of(bytes);
    lk_pb_item   item;
    while (lk_pb_next(&cursor, &item)) {
        const lk_pb_field *field = find(message, item.number);
        if (field != NULL && is_array(field->type)) {
            *count_of(field, out) += elements(field, &item);
        }
    }
    for (size_t i = 0; i < message->field_count; i++) {
        const lk_pb_field *field = &message->fields[i];
        if (is_array(field->type) && *count_of(field, out) > 0) {
            void *array = lk_arena_take(arena, *count_of(field, out) * element_size(field));
            memcpy((char *)out + field->offset, &array, sizeof array);
            *count_of(field, out) = 0; /* counted again while filling */
        }
    }
    return !cursor.bad;
}

static lk_rc read_into(const lk_pb_message *message, lk_bytes bytes, lk_arena *arena, void *out, lk_err *err);

static void *next_element(const lk_pb_field *field, void *out)
{
    char *array;
    memcpy(&array, (char *)out + field->offset, sizeof array);
    return array + (*count_of(field, out))++ * element_size(field);
}

static lk_rc malformed(const lk_pb_message *message, const char *what, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_INVALID_REQUEST, "%s: %s", message->name, what);
    lk_detail(err, "malformed %s", message->name);
    return rc;
}

static lk_rc read_packed(
    const lk_pb_message *message, const lk_pb_field *field, const lk_pb_item *item, void *out, lk_err *err)
{
    lk_pb_cursor cursor = lk_pb_cursor_of(item->bytes);
    if (item->wire_type == LK_PB_VARINT) {
        *(uint32_t *)next_element(field, out) = (uint32_t)item->value;
    }
    while (cursor.at < cursor.end && !cursor.bad) {
        uint32_t value = (uint32_t)lk_pb_varint(&cursor);
        if (!cursor.bad) {
            *(uint32_t *)next_element(field, out) = value;
        }
    }
    return cursor.bad ? malformed(message, "bad varint in a packed field", err) : LK_OK;
}

static void read_number(const lk_pb_field *field, const lk_pb_item *item, void *out)
{
    char *target = (char *)out + field->offset;
    bool  truth = true;
    if (field->type == LK_PB_BOOL) {
        truth = item->value != 0;
        memcpy(target, &truth, sizeof truth);
        return;
    }
    memcpy(target, &item->value, sizeof item->value); /* uint64_t, int64_t and double alike */
    if (field->type == LK_PB_OPT_INT || field->type == LK_PB_OPT_DOUBLE) {
        memcpy((char *)out + field->extra, &truth, sizeof truth);
    }
}

static lk_rc read_bytes(const lk_pb_message *message, const lk_pb_field *field, const lk_pb_item *item,
    lk_arena *arena, void *out, lk_err *err)
{
    bool text = field->type == LK_PB_TEXT || field->type == LK_PB_KEY || field->type == LK_PB_OPT_TEXT ||
                field->type == LK_PB_TEXTS;
    if (text && !lk_bytes_are_utf8(item->bytes)) {
        return malformed(message, "text is not UTF-8", err);
    }
    if (field->type == LK_PB_ONE || field->type == LK_PB_MANY) {
        void *target = field->type == LK_PB_ONE ? (char *)out + field->offset : next_element(field, out);
        lk_rc rc = read_into(field->of, item->bytes, arena, target, err);
        if (rc == LK_OK && field->type == LK_PB_ONE) {
            *(bool *)target = true;
        }
        return rc;
    }
    lk_bytes *target = field->type == LK_PB_TEXTS ? next_element(field, out)
                                                  : (lk_bytes *)(void *)((char *)out + field->offset);
    *target = item->bytes;
    return LK_OK;
}

static uint32_t wire_type(lk_pb_type type)
{
    switch (type) {
    case LK_PB_UINT:
    case LK_PB_INT:
    case LK_PB_BOOL:
    case LK_PB_OPT_INT:
        return LK_PB_VARINT;
    case LK_PB_OPT_DOUBLE:
        return LK_PB_FIXED64;
    case LK_PB_BYTES:
    case LK_PB_TEXT:
    case LK_PB_KEY:
    case LK_PB_OPT_BYTES:
    case LK_PB_OPT_TEXT:
    case LK_PB_TEXTS:
    case LK_PB_UINT32S:
    case LK_PB_ONE:
    case LK_PB_MANY:
        break;
    }
    return LK_PB_LENGTH;
}

/* A field of ours on another wire type counts as unknown, as in every protobuf library. */
static lk_rc read_item(const lk_pb_message *message, const lk_pb_field *field, const lk_pb_item *item,
    lk_arena *arena, void *out, lk_err *err)
{
    if (field->type == LK_PB_UINT32S) {
        return read_packed(message, field, item, out, err);
    }
    if (item->wire_type != wire_type(field->type)) {
        return LK_OK;
    }
    if (item->wire_type != LK_PB_LENGTH) {
        read_number(field, item, out);
        return LK_OK;
    }
    return read_bytes(message, field, item, arena, out, err);
}

static lk_rc read_into(const lk_pb_message *message, lk_bytes bytes, lk_arena *arena, void *out, lk_err *err)
{
    memset(out, 0, message->size);
    if (!make_arrays(message, bytes, arena, out)) {
        return malformed(message, "bad wire format", err);
    }
    lk_pb_cursor cursor = lk_pb_cursor_of(bytes);
    lk_pb_item   item;
    lk_rc        rc = LK_OK;
    while (rc == LK_OK && lk_pb_next(&cursor, &item)) {
        const lk_pb_field *field = find(message, item.number);
        rc = field == NULL ? LK_OK : read_item(message, field, &item, arena, out, err);
    }
    return rc;
}

lk_rc lk_pb_read(const lk_pb_message *message, lk_bytes bytes, lk_arena *arena, void *out, lk_err *err)
{
    return read_into(message, bytes, arena, out, err);
}

/* -- writing -- */

static void write_one(const lk_pb_field *field, const void *in, lk_buf *out)
{
    lk_buf inner = {0};
    lk_pb_write(field->of, in, &inner);
    lk_pb_put_bytes(out, field->number, lk_buf_view(&inner));
    lk_buf_deinit(&inner);
}

static void write_array(const lk_pb_field *field, const void *in, lk_buf *out)
{
    const char *array;
    size_t      count;
    lk_buf      packed = {0};
    memcpy(&array, (const char *)in + field->offset, sizeof array);
    memcpy(&count, (const char *)in + field->extra, sizeof count);
    for (size_t i = 0; i < count; i++) {
        const void *element = array + i * element_size(field);
        if (field->type == LK_PB_MANY) {
            write_one(field, element, out);
        } else if (field->type == LK_PB_TEXTS) {
            lk_pb_put_bytes(out, field->number, *(const lk_bytes *)element);
        } else {
            lk_pb_put_varint(&packed, *(const uint32_t *)element);
        }
    }
    if (packed.size > 0) {
        lk_pb_put_bytes(out, field->number, lk_buf_view(&packed));
    }
    lk_buf_deinit(&packed);
}

static void write_number(const lk_pb_field *field, const void *in, lk_buf *out)
{
    uint64_t value = 0;
    bool     present = true;
    memcpy(&value, (const char *)in + field->offset, field->type == LK_PB_BOOL ? sizeof(bool) : sizeof value);
    if (field->type == LK_PB_OPT_INT || field->type == LK_PB_OPT_DOUBLE) {
        memcpy(&present, (const char *)in + field->extra, sizeof present);
    } else {
        present = value != 0;
    }
    if (!present) {
        return;
    }
    if (field->type == LK_PB_OPT_DOUBLE) {
        lk_pb_put_tag(out, field->number, LK_PB_FIXED64);
        lk_buf_append(out, &value, sizeof value);
    } else {
        lk_pb_put_uint(out, field->number, value);
    }
}

static void write_bytes(const lk_pb_field *field, const void *in, lk_buf *out)
{
    const lk_bytes *bytes = (const lk_bytes *)(const void *)((const char *)in + field->offset);
    bool            optional = field->type == LK_PB_OPT_BYTES || field->type == LK_PB_OPT_TEXT;
    if (field->type == LK_PB_KEY || (optional ? bytes->data != NULL : bytes->size > 0)) {
        lk_pb_put_bytes(out, field->number, *bytes);
    }
}

static void write_field(const lk_pb_field *field, const void *in, lk_buf *out)
{
    const void *target = (const char *)in + field->offset;
    switch (field->type) {
    case LK_PB_UINT:
    case LK_PB_INT:
    case LK_PB_BOOL:
    case LK_PB_OPT_INT:
    case LK_PB_OPT_DOUBLE:
        write_number(field, in, out);
        break;
    case LK_PB_BYTES:
    case LK_PB_TEXT:
    case LK_PB_KEY:
    case LK_PB_OPT_BYTES:
    case LK_PB_OPT_TEXT:
        write_bytes(field, in, out);
        break;
    case LK_PB_TEXTS:
    case LK_PB_UINT32S:
    case LK_PB_MANY:
        write_array(field, in, out);
        break;
    case LK_PB_ONE:
        if (*(const bool *)target) {
            write_one(field, target, out);
        }
        break;
    }
}

void lk_pb_write(const lk_pb_message *message, const void *in, lk_buf *out)
{
    for (size_t i = 0; i < message->field_count; i++) {
        write_field(&message->fields[i], in, out);
    }
}
