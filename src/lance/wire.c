/*
 * wire.c - see wire.h.
 */
#include "lance/wire.h"

static bool take_varint(lk_bytes *rest, uint64_t *value)
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
    if (!take_varint(rest, &tag) || tag > UINT32_MAX) {
        return false;
    }
    switch (tag & 7) {
    case 0:
        if (!take_varint(rest, &length)) {
            return false;
        }
        length = 0;
        break;
    case 1:
        length = 8;
        break;
    case 2:
        if (!take_varint(rest, &length)) {
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
