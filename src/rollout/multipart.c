/* multipart.c - see multipart.h. */
#include "rollout/multipart.h"

#include <strings.h>

enum { BOUNDARY_MAX = 70, PART_HEAD_MAX = 16 * 1024 };

static lk_rc malformed(lk_err *err, const char *what)
{
    return lk_refuse(err, LK_E_INVALID_REQUEST, "multipart: %s", what);
}

static lk_bytes skip_blanks(lk_bytes text)
{
    while (text.size > 0 && (*text.data == ' ' || *text.data == '\t')) {
        text.data++;
        text.size--;
    }
    return text;
}

static bool takes_word(lk_bytes *text, const char *lower)
{
    size_t size = strlen(lower);
    if (text->size < size || strncasecmp(text->data, lower, size) != 0) {
        return false;
    }
    text->data += size;
    text->size -= size;
    return true;
}

/* Takes a token or a quoted string (backslash escapes taken away, in the arena when there are any). */
static bool take_value(lk_bytes *text, lk_arena *arena, lk_bytes *out)
{
    size_t at = 0, size = 0;
    if (text->size == 0 || *text->data != '"') {
        while (at < text->size && strchr("; \t,", text->data[at]) == NULL) {
            at++;
        }
        *out = (lk_bytes){text->data, at};
    } else {
        char *plain = lk_arena_take(arena, text->size);
        for (at = 1; at < text->size && text->data[at] != '"'; at++) {
            at += text->data[at] == '\\' && at + 1 < text->size;
            plain[size++] = text->data[at];
        }
        if (at == text->size) {
            return false;
        }
        at++;
        *out = (lk_bytes){plain, size};
    }
    text->data += at;
    text->size -= at;
    return true;
}

/* The value of ";name=value" in what follows a field's first word. */
static bool find_parameter(lk_bytes text, const char *name, lk_arena *arena, lk_bytes *value)
{
    lk_bytes other;
    for (;;) {
        text = skip_blanks(text);
        if (!takes_word(&text, ";")) {
            return false;
        }
        text = skip_blanks(text);
        lk_bytes rest = text;
        if (takes_word(&rest, name) && takes_word(&rest, "=")) {
            return take_value(&rest, arena, value);
        }
        const char *equals = memchr(text.data, '=', text.size), *next = memchr(text.data, ';', text.size);
        if (equals == NULL || (next != NULL && next < equals)) { /* a parameter without a value */
            size_t skipped = next == NULL ? text.size : (size_t)(next - text.data);
            text = (lk_bytes){text.data + skipped, text.size - skipped};
            continue;
        }
        text = (lk_bytes){equals + 1, text.size - (size_t)(equals + 1 - text.data)};
        if (!take_value(&text, arena, &other)) {
            return false;
        }
    }
}

bool lk_multipart_boundary(lk_bytes content_type, lk_bytes *boundary)
{
    lk_arena arena = {0};
    bool     found = takes_word(&content_type, "multipart/form-data") &&
                 find_parameter(content_type, "boundary", &arena, boundary) && boundary->size > 0 &&
                 boundary->size <= BOUNDARY_MAX;
    /* The characters of a boundary need no escape, so a quoted one stands in the text as it is. */
    if (found) {
        const char *at = memmem(content_type.data, content_type.size, boundary->data, boundary->size);
        found = at != NULL;
        *boundary = (lk_bytes){at, boundary->size};
    }
    lk_arena_close(&arena);
    return found;
}

lk_rc lk_multipart_open(lk_bytes body, lk_bytes boundary, lk_arena *arena, lk_multipart *out, lk_err *err)
{
    *out = (lk_multipart){.delimiter = lk_arena_format(arena, "\r\n--%.*s", LK_FMT(boundary))};
    lk_bytes first = {out->delimiter.data + 2, out->delimiter.size - 2};
    if (lk_bytes_starts(body, LK_LITERAL("\r\n"))) { /* an empty preamble */
        body = (lk_bytes){body.data + 2, body.size - 2};
    }
    if (!lk_bytes_starts(body, first)) {
        return malformed(err, "the body does not begin with the boundary");
    }
    out->rest = (lk_bytes){body.data + first.size, body.size - first.size};
    return LK_OK;
}

/* Behind a boundary: the end of its line, or of everything. */
static lk_rc take_boundary_end(lk_multipart *m, lk_err *err)
{
    if (lk_bytes_starts(m->rest, LK_LITERAL("--"))) {
        m->ended = true;
        return LK_OK;
    }
    m->rest = skip_blanks(m->rest);
    return takes_word(&m->rest, "\r\n") ? LK_OK : malformed(err, "a boundary's line has no end");
}

static lk_rc read_disposition(lk_bytes head, lk_arena *arena, lk_bytes *name, lk_err *err)
{
    bool found = false;
    while (head.size > 0 && !found) {
        const char *end = memmem(head.data, head.size, "\r\n", 2);
        lk_bytes    line = {head.data, end == NULL ? head.size : (size_t)(end - head.data)};
        size_t      used = end == NULL ? head.size : line.size + 2;
        head = (lk_bytes){head.data + used, head.size - used};
        if (takes_word(&line, "content-disposition:")) {
            line = skip_blanks(line);
            found = takes_word(&line, "form-data") && find_parameter(line, "name", arena, name);
            break;
        }
    }
    return found ? LK_OK : malformed(err, "a part has no name");
}

lk_rc lk_multipart_next(lk_multipart *m, lk_arena *arena, lk_part *part, bool *found, lk_err *err)
{
    *found = false;
    lk_rc rc = m->ended ? LK_OK : take_boundary_end(m, err);
    if (rc != LK_OK || m->ended) {
        return rc;
    }
    lk_bytes    rest = m->rest;
    size_t      head_room = rest.size < PART_HEAD_MAX ? rest.size : PART_HEAD_MAX;
    const char *blank = memmem(rest.data, head_room, "\r\n\r\n", 4);
    if (blank == NULL) {
        return malformed(err, "the head of a part has no end");
    }
    rc = read_disposition((lk_bytes){rest.data, (size_t)(blank - rest.data)}, arena, &part->name, err);
    if (rc != LK_OK) {
        return rc;
    }
    /* The line end before the boundary is the boundary's; an empty part shares the blank line's. */
    const char *content = blank + 4;
    size_t      left = rest.size - (size_t)(blank + 2 - rest.data);
    const char *end = memmem(blank + 2, left, m->delimiter.data, m->delimiter.size);
    if (end == NULL) {
        return malformed(err, "a part has no end: the last boundary is missing");
    }
    part->content = end < content ? (lk_bytes){content, 0} : (lk_bytes){content, (size_t)(end - content)};
    end += m->delimiter.size;
    m->rest = (lk_bytes){end, rest.size - (size_t)(end - rest.data)};
    *found = true;
    return LK_OK;
}
