/* err.c - see err.h. Both buffers are cut, never overrun; the three tables come from errors.def. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    const char *name, *text;
    lk_code     code;
} rows[LK_RC_COUNT] = {
    [LK_OK] = {"OK", "ok", LK_CODE_OK},
#define X(name, code, text) [LK_E_##name] = {#name, text, LK_CODE_##code},
#include "base/errors.def"
#undef X
};

/* Cuts at a character, so that a truncated message stays UTF-8. */
static size_t whole_characters(const char *text, size_t size)
{
    size_t start = size;
    while (start > 0 && ((unsigned char)text[start - 1] & 0xC0) == 0x80) {
        start--;
    }
    if (start == 0) {
        return size;
    }
    unsigned char lead = (unsigned char)text[start - 1];
    size_t        need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return size - (start - 1) >= need ? size : start - 1;
}

static size_t print(char *out, size_t room, const char *format, va_list args)
{
    int n = vsnprintf(out, room, format, args);
    if (n < 0) {
        out[0] = '\0';
        return 0;
    }
    if ((size_t)n < room) {
        return (size_t)n;
    }
    size_t size = whole_characters(out, room - 1);
    out[size] = '\0';
    return size;
}

static void append(lk_err *err, const char *format, va_list args)
{
    size_t room = sizeof err->context - err->len;
    err->len = (uint16_t)(err->len + print(err->context + err->len, room, format, args));
}

static void start(lk_err *err, lk_rc rc, const char *format, va_list args)
{
    LK_ASSERT(rc > LK_OK && rc < LK_RC_COUNT);
    char   context[LK_ERR_CONTEXT_BYTES]; /* the arguments may point into *err */
    size_t size = print(context, sizeof context, format, args);
    err->rc = rc;
    err->maybe_applied = false;
    err->detail[0] = '\0';
    err->len = (uint16_t)size;
    memcpy(err->context, context, size + 1);
}

lk_rc lk_fail(lk_err *err, lk_rc rc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    start(err, rc, format, args);
    va_end(args);
    return rc;
}

lk_rc lk_refuse(lk_err *err, lk_rc rc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    start(err, rc, format, args);
    va_end(args);
    return lk_detail(err, "%s", err->context);
}

void lk_context(lk_err *err, const char *format, ...)
{
    if (err->len + 2u < sizeof err->context) {
        err->context[err->len++] = ' ';
        err->context[err->len++] = '<';
        err->context[err->len] = '\0';
    }
    va_list args;
    va_start(args, format);
    append(err, format, args);
    va_end(args);
}

lk_rc lk_detail(lk_err *err, const char *format, ...)
{
    LK_ASSERT(err->rc != LK_OK);
    char    detail[LK_ERR_DETAIL_BYTES]; /* the arguments may point into *err */
    va_list args;
    va_start(args, format);
    size_t size = print(detail, sizeof detail, format, args);
    va_end(args);
    memcpy(err->detail, detail, size + 1);
    return err->rc;
}

const char *lk_rc_text(lk_rc rc)
{
    LK_ASSERT(rc < LK_RC_COUNT);
    return rows[rc].text;
}

const char *lk_rc_name(lk_rc rc)
{
    LK_ASSERT(rc < LK_RC_COUNT);
    return rows[rc].name;
}

lk_code lk_rc_code(lk_rc rc)
{
    LK_ASSERT(rc < LK_RC_COUNT);
    return rows[rc].code;
}

const char *lk_err_message(const lk_err *err, char *out, unsigned long size)
{
    const char *text = lk_rc_text(err->rc); /* a peer's own words may be the same */
    bool        detailed = err->detail[0] != '\0' && strcmp(err->detail, text) != 0;
    (void)snprintf(out, size, "%s%s%s", text, detailed ? ": " : "", detailed ? err->detail : "");
    return out;
}

_Noreturn void lk_assert_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
