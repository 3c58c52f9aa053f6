/*
 * float_text.c - see float_text.h. Both ways are done in doubles first, or in the x87's 64-bit mantissas, which decides nearly
 * every number; where the result lies too near the middle between two floats to be sure, the C library decides.
 */
#include "rollout/float_text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert(LDBL_MANT_DIG == 64, "the shortcuts below count on 64-bit mantissas");

enum { EXACT_POWER_MAX = 27, DIGITS_MAX = 19, SHORTEST_MAX = 9 };

/* Powers of ten that a 64-bit mantissa holds exactly. */
static const long double powers[EXACT_POWER_MAX + 1] = {1e0L, 1e1L, 1e2L, 1e3L, 1e4L, 1e5L, 1e6L, 1e7L, 1e8L,
    1e9L, 1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L, 1e23L,
    1e24L, 1e25L, 1e26L, 1e27L};

/* And those that a double does. */
static const double tens[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14,
    1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
enum { TENS = sizeof tens / sizeof tens[0] };

/* -- reading --------------------------------------------------------------------------------------------------- */

typedef struct decimal {
    const char *next;     /* behind the number */
    uint64_t    mantissa; /* the first DIGITS_MAX digits */
    int64_t     exponent; /* of ten, that mantissa is to be multiplied by */
    bool        negative;
    bool        cut; /* digits other than zero did not fit */
} decimal;

static bool is_digit(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

static void take_digit(decimal *d, char digit, int *count)
{
    if (*count < DIGITS_MAX) {
        d->mantissa = d->mantissa * 10 + (uint64_t)(digit - '0');
        *count += d->mantissa != 0;
    } else {
        d->cut = d->cut || digit != '0';
        d->exponent++;
    }
}

static bool take_exponent(decimal *d, const char *at, const char *end)
{
    bool    negative = at < end && *at == '-';
    int64_t value = 0;
    at += at < end && (*at == '-' || *at == '+');
    if (!is_digit(at, end)) {
        return false;
    }
    for (; is_digit(at, end); at++) {
        value = value < 100000 ? value * 10 + (*at - '0') : value;
    }
    d->exponent += negative ? -value : value;
    d->next = at;
    return true;
}

static bool take_decimal(const char *at, const char *end, decimal *d)
{
    int count = 0;
    d->negative = at < end && *at == '-';
    at += d->negative;
    if (!is_digit(at, end) || (*at == '0' && is_digit(at + 1, end))) {
        return false;
    }
    for (; is_digit(at, end); at++) {
        take_digit(d, *at, &count);
    }
    if (at < end && *at == '.') {
        at++;
        if (!is_digit(at, end)) {
            return false;
        }
        for (; is_digit(at, end); at++) {
            d->exponent--;
            take_digit(d, *at, &count);
        }
    }
    d->next = at;
    return at == end || (*at != 'e' && *at != 'E') || take_exponent(d, at + 1, end);
}

/*
 * The same for most numbers that people and programs write: mantissa and power of ten are doubles, so their product or quotient
 * is the decimal rounded once to a double, and rounding that to a float is right unless the double lies in the very middle
 * between two floats, where the first rounding may have put it.
 */
static bool nearest_by_double(const decimal *d, float *value)
{
    enum { DOUBLE_BITS = 53, CUT_BITS = 29 };
    uint64_t bits;
    if (d->cut || d->mantissa >> DOUBLE_BITS != 0 || d->exponent <= -TENS || d->exponent >= TENS) {
        return false;
    }
    double scaled = (double)d->mantissa;
    scaled = d->exponent < 0 ? scaled / tens[-d->exponent] : scaled * tens[d->exponent];
    memcpy(&bits, &scaled, sizeof bits);
    bool in_the_middle = (bits & ((UINT64_C(1) << CUT_BITS) - 1)) == UINT64_C(1) << (CUT_BITS - 1);
    if (in_the_middle || scaled < (double)FLT_MIN || scaled > (double)FLT_MAX) {
        return false;
    }
    *value = (float)scaled;
    return true;
}

/* The decimal as a float when that is certain. */
static bool nearest(const decimal *d, float *value)
{
    if (d->mantissa == 0) {
        *value = 0;
        return true;
    }
    if (nearest_by_double(d, value)) {
        return true;
    }
    if (d->exponent < -EXACT_POWER_MAX || d->exponent > EXACT_POWER_MAX) {
        return false;
    }
    long double exact = (long double)d->mantissa;
    long double scaled = d->exponent < 0 ? exact / powers[-d->exponent] : exact * powers[d->exponent];
    if (scaled < (long double)FLT_MIN || scaled > (long double)FLT_MAX) {
        return false; /* subnormal floats have fewer bits; the largest is the library's to judge */
    }
    int         exponent;
    long double fraction = frexpl(scaled, &exponent); /* in [0.5, 1) */
    uint64_t    bits = (uint64_t)ldexpl(fraction, 64);
    /* A float has the upper 24 of these 64 bits. Cut digits are less than one in 10^18, which is less than 19 units; rounding the
     * mantissa and the quotient is off by less than 2. */
    const uint64_t unsure = 32;
    uint64_t       below = bits & ((UINT64_C(1) << 40) - 1), middle = UINT64_C(1) << 39;
    if (below > middle - unsure && below < middle + unsure) {
        return false;
    }
    *value = (float)scaled;
    return true;
}

bool lk_float_read(const char *text, const char *end, float *value, const char **next)
{
    decimal d = {0};
    if (!take_decimal(text, end, &d)) {
        return false;
    }
    *next = d.next;
    if (nearest(&d, value)) {
        *value = d.negative ? -*value : *value;
        return true;
    }
    lk_buf copy = {0}; /* NUL-terminated, and as long as its author liked */
    lk_buf_append(&copy, text, (size_t)(d.next - text));
    *value = strtof(copy.data, NULL);
    lk_buf_deinit(&copy);
    return isfinite(*value) != 0;
}

/* -- writing --------------------------------------------------------------------------------------------------- */

typedef struct shortest {
    uint32_t digits; /* at most SHORTEST_MAX of them */
    int      count;
    int      point; /* the value is 0.DIGITS times ten to this */
} shortest;

static void set_digits(shortest *out, uint32_t digits, int point)
{
    while (digits % 10 == 0) {
        digits /= 10;
    }
    out->digits = digits;
    out->point = point;
    out->count = 0;
    for (; digits > 0; digits /= 10) {
        out->count++;
    }
}

static void by_trying(float value, shortest *out)
{
    char text[LK_FLOAT_TEXT_MAX];
    int  precision = 0;
    do {
        snprintf(text, sizeof text, "%.*e", precision, (double)value);
    } while (precision++ < SHORTEST_MAX && strtof(text, NULL) != value);
    uint32_t digits = (uint32_t)(text[0] - '0');
    char    *at = text + 1;
    for (at += *at == '.'; *at != 'e'; at++) {
        digits = digits * 10 + (uint32_t)(*at - '0');
    }
    set_digits(out, digits, (int)strtol(at + 1, NULL, 10) + 1);
}

/* value times ten to this power, off by less than one part in 2^53. */
static double scale(double value, int power)
{
    return power < 0 ? value / tens[-power] : value * tens[power];
}

/* The fewest digits between the middles to the neighbours; false when one is too near a middle. value > 0. */
static bool by_scaling(float value, shortest *out)
{
    static const double steps[] = {1e8, 1e7, 1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1e0};
    const double        unsure = 1e-6; /* scaled is less than 1e9, so off by less than 1.2e-7 */
    if (value < 1e-12F || value > 1e28F) {
        return false;
    }
    int    power = SHORTEST_MAX - 1 - (int)floorf(log10f(value));
    double scaled = scale((double)value, power);
    if (scaled >= 1e9 || scaled < 1e8) { /* log10f was just off */
        power += scaled < 1e8 ? 1 : -1;
        scaled = scale((double)value, power);
    }
    double down = scale(((double)value - (double)nextafterf(value, 0)) / 2, power);
    double up = scale(((double)nextafterf(value, FLT_MAX) - (double)value) / 2, power);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        double candidate = (double)(int64_t)(scaled / steps[i] + 0.5) * steps[i];
        double off = candidate - scaled, room = off < 0 ? down : up;
        double distance = off < 0 ? -off : off;
        if (distance > room - unsure && distance < room + unsure) {
            return false;
        }
        if (distance < room) {
            bool carried = candidate >= 1e9;
            set_digits(out, (uint32_t)(carried ? candidate / 10 : candidate), SHORTEST_MAX - power + carried);
            return true;
        }
    }
    return false;
}

static size_t put_zeros(char *out, int count)
{
    memset(out, '0', (size_t)count);
    return (size_t)count;
}

static size_t put_number(char *out, const shortest *s)
{
    char   digits[SHORTEST_MAX + 1];
    size_t size = 0;
    for (uint32_t rest = s->digits, at = (uint32_t)s->count; at > 0; rest /= 10) {
        digits[--at] = (char)('0' + rest % 10);
    }
    size_t count = (size_t)s->count;
    if (s->point > 16 || s->point < -4) {
        out[size++] = digits[0];
        if (count > 1) {
            out[size++] = '.';
            memcpy(out + size, digits + 1, count - 1);
            size += count - 1;
        }
        return size + (size_t)snprintf(out + size, 5, "e%d", s->point - 1);
    }
    if (s->point <= 0) {
        out[size++] = '0';
        out[size++] = '.';
        size += put_zeros(out + size, -s->point);
        memcpy(out + size, digits, count);
        return size + count;
    }
    size_t whole = (size_t)s->point < count ? (size_t)s->point : count;
    memcpy(out, digits, whole);
    size = whole + put_zeros(out + whole, s->point - (int)whole);
    out[size++] = '.';
    if (whole == count) {
        out[size++] = '0';
    }
    memcpy(out + size, digits + whole, count - whole);
    return size + count - whole;
}

size_t lk_float_write(float value, char out[LK_FLOAT_TEXT_MAX])
{
    size_t   size = 0;
    shortest s;
    if (signbit(value) != 0) {
        out[size++] = '-';
        value = -value;
    }
    if (value == 0) {
        memcpy(out + size, "0.0", 3);
        return size + 3;
    }
    if (!by_scaling(value, &s)) {
        by_trying(value, &s);
    }
    return size + put_number(out + size, &s);
}
