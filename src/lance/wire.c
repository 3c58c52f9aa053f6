/*
 * wire.c - see wire.h.
 */
#include "lance/wire.h"

bool lk_wire_take_varint(lk_bytes *rest, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && rest->size > 0; shift += 7) {
        uint8_t byte = (uint8_t)*rest->data;
        rest->data++;
        rest->size--;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

bool lk_wire_next(lk_bytes *rest, lk_wire_field *out)
{
    const char *start = rest->data;
    uint64_t    tag = 0, length = 0;
    if (!lk_wire_take_varint(rest, &tag) || tag > UINT32_MAX) {
        return false;
    }
    out->varint = 0;
    switch (tag & 7) {
    case 0:
        if (!lk_wire_take_varint(rest, &out->varint)) {
            return false;
        }
        break;
    case 1:
        length = 8;
        break;
    case 2:
        if (!lk_wire_take_varint(rest, &length)) {
            return false;
        }
        break;
    case 5:
        length = 4;
        break;
    default:
        return false;
    }
    if (length > rest->size) {
        return false;
    }
    out->number = (uint32_t)(tag >> 3);
    out->value = (lk_bytes){rest->data, (size_t)length};
    rest->data += length;
    rest->size -= (size_t)length;
    out->whole = (lk_bytes){start, (size_t)(rest->data - start)};
    return true;
}

size_t lk_wire_varint_size(uint64_t value)
{
    size_t size = 1;
    for (; value >= 0x80; value >>= 7) {
        size++;
    }
    return size;
}

char *lk_wire_write_varint(char *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        *at++ = (char)(value | 0x80);
    }
    *at++ = (char)value;
    return at;
}

static void put_varint(lk_buf *out, uint64_t value)
{
    char bytes[LK_WIRE_VARINT_MAX];
    lk_buf_append(out, bytes, (size_t)(lk_wire_write_varint(bytes, value) - bytes));
}

void lk_wire_put_u64(lk_buf *out, uint32_t number, uint64_t value)
{
    put_varint(out, (uint64_t)number << 3);
    put_varint(out, value);
}

void lk_wire_put_bytes(lk_buf *out, uint32_t number, lk_bytes value)
{
    put_varint(out, (uint64_t)number << 3 | 2);
    put_varint(out, value.size);
    lk_buf_append_bytes(out, value);
}

bool lk_wire_copy_without(lk_bytes message, uint32_t number, lk_buf *out)
{
    lk_wire_field field = {0};
    while (message.size > 0) {
        if (!lk_wire_next(&message, &field)) {
            return false;
        }
        if (field.number != number) {
            lk_buf_append_bytes(out, field.whole);
        }
    }
    return true;
}
