/* utf8.c - see utf8.h. Eight ASCII bytes at a time; other characters one by one. */
#include "arrow/utf8.h"

static const uint64_t HIGH_BITS = 0x8080808080808080ULL;

bool lk_ascii_only(const void *data, size_t size)
{
    const uint8_t *at = data;
    uint64_t       seen = 0;
    for (; size >= 8; at += 8, size -= 8) {
        seen |= lk_load_u64(at);
    }
    for (; size > 0; at++, size--) {
        seen |= *at;
    }
    return (seen & HIGH_BITS) == 0;
}

static inline bool continues(uint8_t byte)
{
    return (byte & 0xC0) == 0x80;
}

/* The size of the character at `at`, whose first byte is not ASCII; 0 when it is malformed. */
static size_t character_size(const uint8_t *at, size_t left)
{
    uint8_t first = at[0];
    if (first >= 0xC2 && first <= 0xDF) {
        return left >= 2 && continues(at[1]) ? 2 : 0;
    }
    if (first >= 0xE0 && first <= 0xEF) {
        if (left < 3 || !continues(at[1]) || !continues(at[2])) {
            return 0;
        }
        bool overlong = first == 0xE0 && at[1] < 0xA0, surrogate = first == 0xED && at[1] > 0x9F;
        return overlong || surrogate ? 0 : 3;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        if (left < 4 || !continues(at[1]) || !continues(at[2]) || !continues(at[3])) {
            return 0;
        }
        bool overlong = first == 0xF0 && at[1] < 0x90, beyond = first == 0xF4 && at[1] > 0x8F;
        return overlong || beyond ? 0 : 4;
    }
    return 0;
}

bool lk_utf8_valid(const void *data, size_t size)
{
    const uint8_t *at = data, *end = size == 0 ? at : at + size;
    while (at < end) {
        if (end - at >= 8 && (lk_load_u64(at) & HIGH_BITS) == 0) {
            at += 8;
            continue;
        }
        if (*at < 0x80) {
            at++;
            continue;
        }
        size_t step = character_size(at, (size_t)(end - at));
        if (step == 0) {
            return false;
        }
        at += step;
    }
    return true;
}
