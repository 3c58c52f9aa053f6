/* cursor.c - see cursor.h: a protobuf message and its CRC-32C, in the URL-safe alphabet of base64 without padding. */
#include "rollout/cursor.h"

#include "base/hash.h"
#include "lance/manifest.h"
#include "lance/wire.h"

enum { CRC_BYTES = 4, UUID_BYTES = 16 };
enum { FORMAT = 2 };
enum { /* fields */
    CURSOR_FORMAT = 1,
    CURSOR_KIND = 2,
    CURSOR_BASE_VERSION = 3,
    CURSOR_BASE_IDENTITY = 4,
    CURSOR_QUESTION = 5,
    CURSOR_PIN = 6, /* 16 bytes of the shard, varints of version, first and next */
    CURSOR_CREATED_AT = 7,
    CURSOR_SEQUENCE_ORDER = 8,
    CURSOR_ROLLOUT_ID = 9,
    CURSOR_ID = 10
};

/* -- what is asked ------------------------------------------------------------------------------------------------- */

static uint64_t digest(const lk_buf *message)
{
    uint8_t hash[LK_SHA256_SIZE];
    lk_sha256_of(lk_buf_view(message), hash);
    return lk_load_u64(hash);
}

uint64_t lk_rollout_question(const lk_rollout_query *query)
{
    uint64_t sum = (uint64_t)query->order + 1; /* filters hold all together: their order says nothing */
    for (size_t i = 0; i < query->filter_count; i++) {
        const lk_rollout_filter *filter = &query->filters[i];
        lk_buf                   message = {0};
        lk_wire_put_bytes(&message, 1, lk_bytes_of(lk_record_column_name(filter->column)));
        for (size_t text = 0; text < filter->text_count; text++) {
            lk_wire_put_bytes(&message, 2, filter->texts[text]);
        }
        lk_wire_put_u64(&message, 3, filter->truth);
        lk_wire_put_u64(&message, 4, (uint64_t)filter->from);
        lk_wire_put_u64(&message, 5, (uint64_t)filter->to);
        sum += digest(&message);
        lk_buf_deinit(&message);
    }
    return sum;
}

uint64_t lk_rollout_identity(const lk_dataset *base)
{
    const lk_manifest *manifest = lk_dataset_manifest(base);
    lk_buf             message = {0};
    lk_wire_put_u64(&message, 1, manifest->version);
    lk_wire_put_u64(&message, 2, manifest->timestamp_ms);
    lk_wire_put_bytes(&message, 3, manifest->transaction_file);
    uint64_t identity = digest(&message);
    lk_buf_deinit(&message);
    return identity;
}

/* -- text ------------------------------------------------------------------------------------------------------------ */

static void exchange(char *text, size_t size, const char *from, const char *to)
{
    for (size_t i = 0; i < size; i++) {
        text[i] = (char)(text[i] == from[0] ? to[0] : text[i] == from[1] ? to[1] : text[i]);
    }
}

static void put_varint(lk_buf *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        lk_buf_append(out, &(uint8_t){(uint8_t)(value | 0x80)}, 1);
    }
    lk_buf_append(out, &(uint8_t){(uint8_t)value}, 1);
}

static void put_pins(const lk_rollout_cursor *cursor, lk_buf *message)
{
    lk_buf pin = {0};
    for (size_t i = 0; i < cursor->pin_count; i++) {
        lk_buf_clear(&pin);
        lk_buf_append(&pin, cursor->pins[i].shard.bytes, UUID_BYTES);
        put_varint(&pin, cursor->pins[i].version);
        put_varint(&pin, cursor->pins[i].first);
        put_varint(&pin, cursor->pins[i].next);
        lk_wire_put_bytes(message, CURSOR_PIN, lk_buf_view(&pin));
    }
    lk_buf_deinit(&pin);
}

lk_rc lk_rollout_cursor_write(const lk_rollout_cursor *cursor, lk_buf *out, lk_err *err)
{
    lk_buf message = {0}, text = {0};
    lk_rc  rc = LK_OK;
    lk_wire_put_u64(&message, CURSOR_FORMAT, FORMAT);
    lk_wire_put_u64(&message, CURSOR_KIND, cursor->kind);
    lk_wire_put_u64(&message, CURSOR_BASE_VERSION, cursor->base_version);
    lk_wire_put_u64(&message, CURSOR_BASE_IDENTITY, cursor->base_identity);
    put_pins(cursor, &message);
    if (cursor->kind == LK_ROLLOUT_CURSOR_LIST) {
        lk_wire_put_u64(&message, CURSOR_QUESTION, cursor->question);
        lk_wire_put_u64(&message, CURSOR_CREATED_AT, (uint64_t)cursor->key.created_at);
        lk_wire_put_u64(&message, CURSOR_SEQUENCE_ORDER, (uint32_t)cursor->key.sequence_order);
        lk_wire_put_bytes(&message, CURSOR_ROLLOUT_ID, cursor->key.rollout_id);
        lk_wire_put_bytes(&message, CURSOR_ID, cursor->key.id);
    }
    char crc[CRC_BYTES];
    lk_store_u32(crc, lk_crc32c(0, message.data, message.size));
    lk_buf_append(&message, crc, sizeof crc);
    lk_base64_append(&text, lk_buf_view(&message));
    while (text.size > 0 && text.data[text.size - 1] == '=') {
        text.size--;
    }
    exchange(text.data, text.size, "+/", "-_");
    if (text.size > LK_ROLLOUT_CURSOR_BYTES_MAX) {
        rc = lk_refuse(err, LK_E_LIMIT,
            "a cursor would have to name %zu shards that nobody merged: merge them, or page by offset",
            cursor->pin_count);
    } else {
        lk_buf_append_bytes(out, lk_buf_view(&text));
    }
    lk_buf_deinit(&message);
    lk_buf_deinit(&text);
    return rc;
}

static bool take_pin(lk_bytes value, lk_rollout_cursor *out)
{
    lk_rollout_pin pin;
    if (value.size < UUID_BYTES) {
        return false;
    }
    memcpy(pin.shard.bytes, value.data, UUID_BYTES);
    value = (lk_bytes){value.data + UUID_BYTES, value.size - UUID_BYTES};
    bool whole = lk_wire_take_varint(&value, &pin.version) && lk_wire_take_varint(&value, &pin.first) &&
                 lk_wire_take_varint(&value, &pin.next) && value.size == 0 && pin.first <= pin.next;
    bool ascends =
        out->pin_count == 0 || memcmp(&out->pins[out->pin_count - 1].shard, &pin.shard, sizeof pin.shard) < 0;
    if (!whole || !ascends || pin.version == 0) {
        return false;
    }
    out->pins[out->pin_count++] = pin;
    return true;
}

static bool take_field(const lk_wire_field *field, uint64_t *format, lk_rollout_cursor *out)
{
    switch (field->number) {
    case CURSOR_FORMAT:
        *format = field->varint;
        return true;
    case CURSOR_KIND:
        out->kind = field->varint == LK_ROLLOUT_CURSOR_TAIL ? LK_ROLLOUT_CURSOR_TAIL : LK_ROLLOUT_CURSOR_LIST;
        return field->varint == LK_ROLLOUT_CURSOR_TAIL || field->varint == LK_ROLLOUT_CURSOR_LIST;
    case CURSOR_BASE_VERSION:
        out->base_version = field->varint;
        return true;
    case CURSOR_BASE_IDENTITY:
        out->base_identity = field->varint;
        return true;
    case CURSOR_QUESTION:
        out->question = field->varint;
        return true;
    case CURSOR_PIN:
        return take_pin(field->value, out);
    case CURSOR_CREATED_AT:
        out->key.created_at = (int64_t)field->varint;
        return true;
    case CURSOR_SEQUENCE_ORDER:
        out->key.sequence_order = (int32_t)(uint32_t)field->varint;
        return true;
    case CURSOR_ROLLOUT_ID:
        out->key.rollout_id = field->value;
        return true;
    case CURSOR_ID:
        out->key.id = field->value;
        return true;
    default:
        return false;
    }
}

/* The message in the arena, its checksum taken off; false: it is damaged. */
static bool decode(lk_bytes text, lk_arena *arena, lk_bytes *message)
{
    char  *standard = lk_arena_take(arena, text.size + 1);
    lk_buf bytes = {0};
    memcpy(standard, text.data, text.size);
    bool clean = memchr(text.data, '+', text.size) == NULL && memchr(text.data, '/', text.size) == NULL;
    exchange(standard, text.size, "-_", "+/");
    clean =
        clean && lk_base64_decode((lk_bytes){standard, text.size}, true, &bytes) && bytes.size >= CRC_BYTES;
    if (clean) {
        size_t size = bytes.size - CRC_BYTES;
        clean = lk_crc32c(0, bytes.data, size) == lk_load_u32(bytes.data + size);
        *message = lk_arena_copy(arena, (lk_bytes){bytes.data, size});
    }
    lk_buf_deinit(&bytes);
    return clean;
}

lk_rc lk_rollout_cursor_read(lk_bytes text, lk_arena *arena, lk_rollout_cursor *out, lk_err *err)
{
    lk_bytes message = {0};
    uint64_t format = 0;
    *out = (lk_rollout_cursor){0};
    bool sound = text.size > 0 && text.size <= LK_ROLLOUT_CURSOR_BYTES_MAX && decode(text, arena, &message);
    if (sound) {
        out->key.rollout_id = out->key.id = LK_LITERAL("");
        out->pins = lk_arena_take(arena, (message.size / UUID_BYTES + 1) * sizeof *out->pins);
    }
    while (sound && message.size > 0) {
        lk_wire_field field;
        sound = lk_wire_next(&message, &field) && take_field(&field, &format, out);
    }
    if (!sound || format != FORMAT || out->kind == 0) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "this is no cursor that a page or a tail gave");
    }
    return LK_OK;
}
