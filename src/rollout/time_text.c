/* time_text.c - see time_text.h. */
#include "rollout/time_text.h"

#include <stdio.h>
#include <time.h>

enum { MICROS = 1000000 };

typedef struct cursor {
    const char *at, *end;
} cursor;

static bool take_digits(cursor *c, int count, int *out)
{
    *out = 0;
    for (; count > 0 && c->at < c->end && *c->at >= '0' && *c->at <= '9'; count--) {
        *out = *out * 10 + (*c->at++ - '0');
    }
    return count == 0;
}

static bool take_one_of(cursor *c, const char *allowed)
{
    bool found = c->at < c->end && *c->at != '\0' && strchr(allowed, *c->at) != NULL;
    c->at += found;
    return found;
}

static bool take_fraction(cursor *c, int64_t *us)
{
    int64_t unit = MICROS;
    *us = 0;
    if (!take_one_of(c, ".")) {
        return true;
    }
    const char *start = c->at;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        unit /= 10;
        *us += (*c->at - '0') * unit;
    }
    return c->at > start;
}

/* Minutes east of UTC. */
static bool take_offset(cursor *c, int *minutes)
{
    int  hour, minute;
    bool west = c->at < c->end && *c->at == '-';
    *minutes = 0;
    if (take_one_of(c, "Zz")) {
        return true;
    }
    if (!take_one_of(c, "+-") || !take_digits(c, 2, &hour) || !take_one_of(c, ":") ||
        !take_digits(c, 2, &minute) || hour > 23 || minute > 59) {
        return false;
    }
    *minutes = (hour * 60 + minute) * (west ? -1 : 1);
    return true;
}

static int days_in(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool             leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

bool lk_time_read(lk_bytes text, int64_t *us)
{
    cursor    c = {text.data, text.data + text.size};
    struct tm tm = {0};
    int       year, month, minutes;
    int64_t   fraction;
    if (!take_digits(&c, 4, &year) || !take_one_of(&c, "-") || !take_digits(&c, 2, &month) ||
        !take_one_of(&c, "-") || !take_digits(&c, 2, &tm.tm_mday) || !take_one_of(&c, "Tt ") ||
        !take_digits(&c, 2, &tm.tm_hour) || !take_one_of(&c, ":") || !take_digits(&c, 2, &tm.tm_min) ||
        !take_one_of(&c, ":") || !take_digits(&c, 2, &tm.tm_sec) || !take_fraction(&c, &fraction) ||
        !take_offset(&c, &minutes) || c.at != c.end) {
        return false;
    }
    if (month < 1 || month > 12 || tm.tm_mday < 1 || tm.tm_mday > days_in(year, month) || tm.tm_hour > 23 ||
        tm.tm_min > 59 || tm.tm_sec > 60) {
        return false;
    }
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    *us = ((int64_t)timegm(&tm) - minutes * INT64_C(60)) * MICROS + fraction;
    return true;
}

size_t lk_time_write(int64_t us, char out[LK_TIME_TEXT_MAX])
{
    int64_t   fraction = us % MICROS;
    time_t    seconds = us / MICROS;
    struct tm tm;
    if (fraction < 0) {
        fraction += MICROS;
        seconds--;
    }
    if (gmtime_r(&seconds, &tm) == NULL || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900) {
        return 0;
    }
    size_t size = strftime(out, LK_TIME_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    char   digits[8] = "";
    if (size == 0 || tm.tm_year < 1000 - 1900) { /* %Y does not pad */
        size = (size_t)snprintf(out, LK_TIME_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d",
            (tm.tm_year + 1900) % 10000, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
    }
    if (fraction % 1000 != 0) {
        snprintf(digits, sizeof digits, ".%06d", (int)fraction);
    } else if (fraction != 0) {
        snprintf(digits, sizeof digits, ".%03d", (int)(fraction / 1000));
    }
    memcpy(out + size, digits, strlen(digits));
    size += strlen(digits);
    out[size++] = 'Z';
    return size;
}
