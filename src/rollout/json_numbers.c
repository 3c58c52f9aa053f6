/* json_numbers.c - see json_numbers.h. */
#include "rollout/json_numbers.h"

#include <string.h>

enum {
    WORD = 8,
    LOOK = 32
}; /* an element is at most so long: -12345678.1234567812345678, and what it ends with */

/* Up to eight digits from `at` on, of which eight bytes can be read: how many; *value: the number they are. */
static inline unsigned take_digits(const char *at, uint64_t *value)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t       word = lk_load_u64(at) ^ (ones * '0'); /* a digit's byte is its value now */
    uint64_t       others = ((word + ones * 0x76) | word) & (ones << 7);
    unsigned       count = others == 0 ? WORD : (unsigned)__builtin_ctzll(others) / 8;
    if (count == 0) {
        *value = 0;
        return 0;
    }
    word <<= 8 * (WORD - count); /* zeros before the first digit */
    word = (word * 10) + (word >> 8);
    *value = (((word & UINT64_C(0x000000FF000000FF)) * UINT64_C(0x000F424000000064)) +
                 (((word >> 16) & UINT64_C(0x000000FF000000FF)) * UINT64_C(0x0000271000000001))) >>
             32;
    return count;
}

/* Digits without a leading zero. */
static inline unsigned take_whole(const char *at, uint64_t *value)
{
    unsigned count = take_digits(at, value);
    return count > 1 && *at == '0' ? 0 : count;
}

static inline const char *begin(const char *at)
{
    return at + (*at == ' ');
}

size_t lk_json_take_int32_run(lk_json_cursor *cursor, int32_t *out, size_t room)
{
    const char *at = cursor->at;
    size_t      taken = 0;
    while (taken < room && cursor->end - at >= LOOK) {
        const char *digits = begin(at);
        bool        negative = *digits == '-';
        uint64_t    value;
        digits += negative;
        unsigned count = take_whole(digits, &value);
        if (count == 0 || digits[count] != ',') {
            break;
        }
        out[taken++] = negative ? -(int32_t)value : (int32_t)value;
        at = digits + count + 1;
    }
    cursor->at = at;
    return taken;
}

/* mantissa / 10^digits as the nearest float; false: that is not certain. */
static inline bool nearest(uint64_t mantissa, unsigned digits, float *out)
{
    static const float  float_tens[] = {1e0F, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F, 1e7F, 1e8F, 1e9F, 1e10F};
    static const double tens[] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16};
    const uint64_t cut = (UINT64_C(1) << 29) - 1, middle = UINT64_C(1) << 28;
    if (mantissa <= UINT64_C(1) << 24 &&
        digits <= 10) { /* both are floats, so the quotient is rounded once */
        *out = (float)mantissa / float_tens[digits];
        return true;
    }
    if (mantissa > UINT64_C(1) << 53) {
        return false;
    }
    double   quotient = (double)mantissa / tens[digits];
    uint64_t bits;
    memcpy(&bits, &quotient, sizeof bits);
    *out = (float)quotient;
    return (bits & cut) != middle; /* rounded twice only matters in the middle of two floats */
}

size_t lk_json_take_float_run(lk_json_cursor *cursor, float *out, size_t room)
{
    const char *at = cursor->at;
    size_t      taken = 0;
    while (taken < room && cursor->end - at >= LOOK) {
        const char *digits = begin(at);
        bool        negative = *digits == '-';
        uint64_t    value, more = 0;
        unsigned    fraction = 0, rest = 0;
        float       number;
        digits += negative;
        unsigned count = take_whole(digits, &value);
        digits += count;
        if (count > 0 && *digits == '.') {
            static const uint64_t shift[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
            fraction = take_digits(++digits, &more);
            value = value * shift[fraction] + more;
            digits += fraction;
            if (fraction == WORD && value < UINT64_C(100000000000)) { /* 19 digits fit */
                rest = take_digits(digits, &more);
                value = value * shift[rest] + more;
                digits += rest;
            }
            count = fraction; /* a point needs digits */
        }
        if (count == 0 || *digits != ',' || !nearest(value, fraction + rest, &number)) {
            break;
        }
        out[taken++] = negative ? -number : number;
        at = digits + 1;
    }
    cursor->at = at;
    return taken;
}
