#ifndef LK_BASE_BYTES_H
#define LK_BASE_BYTES_H
/*
 * bytes.h - lk_bytes is a borrowed view (never owns, may hold NULs); lk_buf is an owned, growing buffer.
 * Both start as zero. Small growth aborts when memory is out; sizes that input decides are charged to
 * a lk_budget by the caller first.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct lk_bytes {
    const char *data;
    size_t      size;
} lk_bytes;

#define LK_LITERAL(s) ((lk_bytes){(s), sizeof(s) - 1})
#define LK_FMT(b)     (int)(b).size, (b).data /* for "%.*s" */

static inline bool lk_bytes_equal(lk_bytes a, lk_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline lk_bytes lk_bytes_of(const char *text)
{
    return (lk_bytes){text, text == NULL ? 0 : strlen(text)};
}

int  lk_bytes_compare(lk_bytes a, lk_bytes b); /* memcmp order, shorter first */
bool lk_bytes_starts(lk_bytes bytes, lk_bytes prefix);
bool lk_bytes_are_utf8(lk_bytes bytes); /* well-formed as RFC 3629 says; empty is */

typedef struct lk_buf {
    char  *data; /* NULL while empty; always one spare NUL after size once allocated */
    size_t size, capacity;
} lk_buf;

void lk_buf_reserve(lk_buf *buf, size_t more);       /* room for `more` bytes after size */
void lk_buf_reserve_exact(lk_buf *buf, size_t more); /* the same, and no more: for what grows no further */
void lk_buf_append(lk_buf *buf, const void *data, size_t size);
void lk_buf_append_bytes(lk_buf *buf, lk_bytes bytes);
void lk_buf_append_text(lk_buf *buf, const char *text);
void lk_buf_append_zeros(lk_buf *buf, size_t count);
void lk_buf_format(lk_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lk_buf_clear(lk_buf *buf);  /* size 0, memory kept */
void lk_buf_deinit(lk_buf *buf); /* idempotent */
lk_bytes lk_buf_view(const lk_buf *buf);

/* Little- and big-endian fields, any alignment. */
static inline uint16_t lk_load_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}
static inline uint32_t lk_load_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
static inline uint64_t lk_load_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}
static inline void lk_store_u16(void *p, uint16_t v)
{
    memcpy(p, &v, 2);
}
static inline void lk_store_u32(void *p, uint32_t v)
{
    memcpy(p, &v, 4);
}
static inline void lk_store_u64(void *p, uint64_t v)
{
    memcpy(p, &v, 8);
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the loads above assume it");

#endif
