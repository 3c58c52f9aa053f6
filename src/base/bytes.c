/* bytes.c - see bytes.h. */
#include "base/bytes.h"

#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 64 };

int lk_bytes_compare(lk_bytes a, lk_bytes b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int    order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    if (order != 0) {
        return order;
    }
    return a.size < b.size ? -1 : a.size > b.size;
}

bool lk_bytes_starts(lk_bytes bytes, lk_bytes prefix)
{
    return bytes.size >= prefix.size && lk_bytes_equal((lk_bytes){bytes.data, prefix.size}, prefix);
}

/* The size of the well-formed character at the front (RFC 3629: no overlongs, surrogates or > U+10FFFF); 0 if none. */
static size_t character_size(const unsigned char *p, size_t size)
{
    if (p[0] < 0x80) {
        return 1;
    }
    size_t   need = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    uint32_t value = p[0] & (0xFFu >> (need + 1));
    if (p[0] < 0xC2 || p[0] > 0xF4 || size < need) {
        return 0;
    }
    for (size_t i = 1; i < need; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
        value = value << 6 | (p[i] & 0x3Fu);
    }
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    bool                  surrogate = value >= 0xD800 && value <= 0xDFFF;
    return value < smallest[need] || value > 0x10FFFF || surrogate ? 0 : need;
}

bool lk_bytes_are_utf8(lk_bytes bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.data;
    for (size_t at = 0; at < bytes.size;) {
        size_t step = character_size(p + at, bytes.size - at);
        if (step == 0) {
            return false;
        }
        at += step;
    }
    return true;
}

static void grow(lk_buf *buf, size_t capacity)
{
    char *data = realloc(buf->data, capacity);
    if (data == NULL) {
        abort();
    }
    buf->data = data;
    buf->capacity = capacity;
    buf->data[buf->size] = '\0';
}

void lk_buf_reserve(lk_buf *buf, size_t more)
{
    LK_ASSERT(more < SIZE_MAX / 2 - buf->size);
    size_t need = buf->size + more + 1;
    if (need > buf->capacity) {
        size_t capacity = buf->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : buf->capacity * 2;
        grow(buf, capacity < need ? need : capacity);
    }
}

void lk_buf_reserve_exact(lk_buf *buf, size_t more)
{
    LK_ASSERT(more < SIZE_MAX / 2 - buf->size);
    if (buf->size + more + 1 > buf->capacity) {
        grow(buf, buf->size + more + 1);
    }
}

void lk_buf_append(lk_buf *buf, const void *data, size_t size)
{
    lk_buf_reserve(buf, size);
    if (size > 0) {
        memcpy(buf->data + buf->size, data, size);
    }
    buf->size += size;
    buf->data[buf->size] = '\0';
}

void lk_buf_append_bytes(lk_buf *buf, lk_bytes bytes)
{
    lk_buf_append(buf, bytes.data, bytes.size);
}

void lk_buf_append_text(lk_buf *buf, const char *text)
{
    lk_buf_append(buf, text, strlen(text));
}

void lk_buf_append_zeros(lk_buf *buf, size_t count)
{
    lk_buf_reserve(buf, count);
    memset(buf->data + buf->size, 0, count + 1);
    buf->size += count;
}

void lk_buf_format(lk_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    LK_ASSERT(n >= 0);
    lk_buf_reserve(buf, (size_t)n);
    va_start(args, format);
    (void)vsnprintf(buf->data + buf->size, (size_t)n + 1, format, args);
    va_end(args);
    buf->size += (size_t)n;
}

void lk_buf_clear(lk_buf *buf)
{
    buf->size = 0;
    if (buf->data != NULL) {
        buf->data[0] = '\0';
    }
}

void lk_buf_deinit(lk_buf *buf)
{
    free(buf->data);
    *buf = (lk_buf){0};
}

lk_bytes lk_buf_view(const lk_buf *buf)
{
    return (lk_bytes){buf->data, buf->size};
}
