/*
 * cast_text.c - numbers, dates, times and instants from text (cast_priv.h). Bounded cursors; nothing is
 * rounded: a digit that the target cannot hold is a fault. Threads: stateless.
 */
#include "arrow/cast_priv.h"

#include <stdlib.h>
#include <strings.h>

static const char *const not_a_number = "the text is not a number";
static const char *const too_large = "the number does not fit";
static const char *const digits_lost = "digits would be lost";

enum { FLOAT_TEXT_MAX = 400, SECONDS_PER_DAY = 86400 };

typedef struct cursor {
    const char *at, *end;
} cursor;

static cursor trimmed(lk_bytes text)
{
    cursor c = {text.data, text.size == 0 ? text.data : text.data + text.size};
    while (c.at < c.end && (*c.at == ' ' || *c.at == '\t')) {
        c.at++;
    }
    while (c.end > c.at && (c.end[-1] == ' ' || c.end[-1] == '\t' || c.end[-1] == '\r')) {
        c.end--;
    }
    return c;
}

static bool accept(cursor *c, char wanted)
{
    bool there = c->at < c->end && *c->at == wanted;
    c->at += there;
    return there;
}

static bool at_digit(const cursor *c)
{
    return c->at < c->end && *c->at >= '0' && *c->at <= '9';
}

lk_int128 lk_power_of_ten(int exponent)
{
    lk_int128 power = 1;
    while (exponent-- > 0) {
        power *= 10;
    }
    return power;
}

bool lk_rescale(lk_int128 value, int shift, lk_int128 *out)
{
    if (value == 0) {
        *out = 0;
        return true;
    }
    if (shift >= 0) {
        return shift <= 38 && !__builtin_mul_overflow(value, lk_power_of_ten(shift), out);
    }
    if (shift < -38 || value % lk_power_of_ten(-shift) != 0) {
        return false;
    }
    *out = value / lk_power_of_ten(-shift);
    return true;
}

int64_t lk_units_per_second(lk_unit unit)
{
    static const int64_t units[] = {1, 1000, 1000000, 1000000000};
    return units[unit];
}

/* -- numbers ----------------------------------------------------------------------------------------- */

static bool push_digit(lk_int128 *value, char digit)
{
    return !__builtin_mul_overflow(*value, (lk_int128)10, value) &&
           !__builtin_add_overflow(*value, (lk_int128)(digit - '0'), value);
}

/* Adds the digits at the cursor; false on overflow. */
static bool read_whole(cursor *c, lk_int128 *value, int *seen)
{
    bool fits = true;
    for (; fits && at_digit(c); c->at++, (*seen)++) {
        fits = push_digit(value, *c->at);
    }
    return fits;
}

/* Adds the digits after a point; zeros at their end are not added. *places: how many were. */
static bool read_fraction(cursor *c, lk_int128 *value, int *seen, int *places)
{
    bool fits = true;
    int  zeros = 0;
    for (; fits && at_digit(c); c->at++, (*seen)++) {
        if (*c->at == '0') {
            zeros++;
            continue;
        }
        for (; fits && zeros > 0; zeros--, (*places)++) {
            fits = push_digit(value, '0');
        }
        fits = fits && push_digit(value, *c->at);
        (*places)++;
    }
    return fits;
}

static bool read_exponent(cursor *c, int *exponent)
{
    bool negative = accept(c, '-');
    if (!negative) {
        accept(c, '+');
    }
    int value = 0, count = 0;
    for (; at_digit(c) && count < 5; c->at++, count++) {
        value = value * 10 + (*c->at - '0');
    }
    *exponent += negative ? -value : value;
    return count > 0;
}

/* [+-]digits[.digits][e[+-]digits], times 10^scale. */
static lk_cast_fault parse_decimal(cursor c, int scale, lk_int128 *out)
{
    lk_int128 value = 0;
    int       seen = 0, places = 0, exponent = scale;
    bool      negative = accept(&c, '-');
    if (!negative) {
        accept(&c, '+');
    }
    if (!read_whole(&c, &value, &seen)) {
        return too_large;
    }
    if (accept(&c, '.') && !read_fraction(&c, &value, &seen, &places)) {
        return digits_lost;
    }
    if (seen > 0 && (accept(&c, 'e') || accept(&c, 'E')) && !read_exponent(&c, &exponent)) {
        return not_a_number;
    }
    if (seen == 0 || c.at != c.end) {
        return not_a_number;
    }
    exponent -= places;
    if (!lk_rescale(negative ? -value : value, exponent, out)) {
        return exponent < 0 ? digits_lost : too_large;
    }
    return NULL;
}

lk_cast_fault lk_parse_float(lk_bytes text, double *out)
{
    cursor c = trimmed(text);
    char   copy[FLOAT_TEXT_MAX + 1];
    size_t size = (size_t)(c.end - c.at);
    if (size == 0 || size > FLOAT_TEXT_MAX) {
        return not_a_number;
    }
    for (size_t i = 0; i < size; i++) { /* strtod knows hexadecimal and "nan(...)"; text data does not */
        if (c.at[i] == '\0' || c.at[i] == 'x' || c.at[i] == 'X' || c.at[i] == '(') {
            return not_a_number;
        }
    }
    memcpy(copy, c.at, size);
    copy[size] = '\0';
    char *end = NULL;
    *out = strtod(copy, &end);
    return end == copy + size && copy[0] != ' ' ? NULL : not_a_number;
}

static lk_cast_fault parse_bool(cursor c, lk_int128 *out)
{
    static const char *const words[] = {"false", "true", "f", "t", "0", "1", "no", "yes", "n", "y"};
    size_t                   size = (size_t)(c.end - c.at);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == size && strncasecmp(words[i], c.at, size) == 0) {
            *out = i & 1;
            return NULL;
        }
    }
    return "the text is not true or false";
}

/* -- dates and times --------------------------------------------------------------------------------- */

/* Days since 1970-01-01 in the proleptic Gregorian calendar. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month <= 2 ? year - 1 : year; /* years that begin in March, so that leap days end them */
    int64_t era = (y >= 0 ? y : y - 399) / 400, in_era = y - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + day_of_year - 719468;
}

static int days_in_month(int64_t year, int64_t month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool             leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

/* min to max digits. */
static bool read_number(cursor *c, int min, int max, int64_t *out)
{
    int count = 0;
    *out = 0;
    for (; at_digit(c) && count < max; c->at++, count++) {
        *out = *out * 10 + (*c->at - '0');
    }
    return count >= min;
}

static bool read_date(cursor *c, int64_t *days)
{
    int64_t year = 0, month = 0, day = 0;
    bool    negative = accept(c, '-');
    bool    read = read_number(c, 4, 6, &year) && accept(c, '-') && read_number(c, 1, 2, &month) &&
                accept(c, '-') && read_number(c, 1, 2, &day);
    year = negative ? -year : year;
    if (!read || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month)) {
        return false;
    }
    *days = days_of(year, month, day);
    return true;
}

/* HH:MM[:SS[.fraction]] in the unit. */
static lk_cast_fault read_time(cursor *c, lk_unit unit, int64_t *out)
{
    int64_t hour = 0, minute = 0, second = 0, scale = lk_units_per_second(unit), fraction = 0;
    bool    read = read_number(c, 1, 2, &hour) && accept(c, ':') && read_number(c, 2, 2, &minute);
    if (read && accept(c, ':')) {
        read = read_number(c, 2, 2, &second);
        if (read && accept(c, '.')) {
            read = at_digit(c);
            for (int64_t worth = scale; at_digit(c); c->at++) {
                worth /= 10;
                if (worth == 0 && *c->at != '0') {
                    return digits_lost;
                }
                fraction += worth * (*c->at - '0');
            }
        }
    }
    if (!read || hour > 23 || minute > 59 || second > 59) {
        return "the text is not a time (HH:MM:SS)";
    }
    *out = (hour * 3600 + minute * 60 + second) * scale + fraction;
    return NULL;
}

/* Z, +HH, +HHMM or +HH:MM; nothing is UTC. *seconds is what must be taken away. */
static bool read_zone(cursor *c, int64_t *seconds)
{
    *seconds = 0;
    accept(c, ' ');
    if (c->at == c->end || accept(c, 'Z') || accept(c, 'z')) {
        return true;
    }
    if (c->end - c->at == 3 && strncasecmp(c->at, "UTC", 3) == 0) {
        c->at = c->end;
        return true;
    }
    bool    negative = accept(c, '-');
    int64_t hours = 0, minutes = 0;
    if ((!negative && !accept(c, '+')) || !read_number(c, 2, 2, &hours)) {
        return false;
    }
    accept(c, ':');
    if (c->at < c->end && !read_number(c, 2, 2, &minutes)) {
        return false;
    }
    *seconds = (hours * 60 + minutes) * 60 * (negative ? -1 : 1);
    return hours < 24 && minutes < 60;
}

static lk_cast_fault parse_date(cursor c, const lk_type *to, lk_int128 *out)
{
    int64_t days = 0;
    if (!read_date(&c, &days) || c.at != c.end) {
        return "the text is not a date (YYYY-MM-DD)";
    }
    *out = to->id == LK_TYPE_DATE32 ? (lk_int128)days : (lk_int128)days * SECONDS_PER_DAY * 1000;
    return NULL;
}

static lk_cast_fault parse_time(cursor c, const lk_type *to, lk_int128 *out)
{
    int64_t       value = 0;
    lk_cast_fault fault = read_time(&c, to->unit, &value);
    if (fault == NULL && c.at != c.end) {
        return "the text is not a time (HH:MM:SS)";
    }
    *out = value;
    return fault;
}

static lk_cast_fault parse_timestamp(cursor c, const lk_type *to, lk_int128 *out)
{
    static const char *const not_one = "the text is not a timestamp (YYYY-MM-DD HH:MM:SS)";
    int64_t                  days = 0, time = 0, zone = 0;
    if (!read_date(&c, &days)) {
        return not_one;
    }
    if (accept(&c, 'T') || accept(&c, 't') || accept(&c, ' ')) {
        lk_cast_fault fault = read_time(&c, to->unit, &time);
        if (fault != NULL) {
            return fault == digits_lost ? fault : not_one;
        }
    }
    if (!read_zone(&c, &zone) || c.at != c.end) {
        return not_one;
    }
    *out = ((lk_int128)days * SECONDS_PER_DAY - zone) * lk_units_per_second(to->unit) + time;
    return NULL;
}

lk_cast_fault lk_parse_integer(lk_bytes text, const lk_type *to, lk_int128 *out)
{
    cursor c = trimmed(text);
    switch (lk_value_class_of(to)) {
    case LK_CLASS_BOOL:
        return parse_bool(c, out);
    case LK_CLASS_DATE:
        return parse_date(c, to, out);
    case LK_CLASS_TIME:
        return parse_time(c, to, out);
    case LK_CLASS_TIMESTAMP:
        return parse_timestamp(c, to, out);
    case LK_CLASS_INTEGER:
    case LK_CLASS_DECIMAL:
    case LK_CLASS_DURATION:
    case LK_CLASS_NONE:
    case LK_CLASS_FLOAT:
    case LK_CLASS_TEXT:
    case LK_CLASS_BINARY:
        break;
    }
    return parse_decimal(c, to->scale, out);
}
