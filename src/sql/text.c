/* text.c - see text.h. */
#include "sql/text.h"

#include "base/limits.h"

#include <strings.h>

typedef enum token_kind {
    TOKEN_END,
    TOKEN_WORD,
    TOKEN_QUOTED,
    TOKEN_STRING,
    TOKEN_NUMBER,
    TOKEN_SYMBOL
} token_kind;

typedef struct scanner {
    const char *at, *end;
    token_kind  kind;
    lk_bytes    token; /* as written, quotes included */
} scanner;

static bool is_word_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Past a run that ends with `quote`, doubled quotes inside (and backslash escapes when told so). */
static const char *skip_quoted(const char *at, const char *end, char quote, bool backslash)
{
    while (at < end) {
        if (backslash && *at == '\\' && at + 1 < end) {
            at += 2;
        } else if (*at != quote) {
            at++;
        } else if (at + 1 < end && at[1] == quote) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    return end;
}

static const char *skip_comment(const char *at, const char *end)
{
    for (int depth = 0; at + 1 < end;) {
        if (at[0] == '/' && at[1] == '*') {
            depth++;
            at += 2;
        } else if (at[0] == '*' && at[1] == '/') {
            at += 2;
            if (--depth == 0) {
                return at;
            }
        } else {
            at++;
        }
    }
    return end;
}

static void skip_blank(scanner *s)
{
    while (s->at < s->end) {
        char c = *s->at;
        if (c == ' ' || (c >= '\t' && c <= '\r')) {
            s->at++;
        } else if (c == '-' && s->at + 1 < s->end && s->at[1] == '-') {
            const char *line = memchr(s->at, '\n', (size_t)(s->end - s->at));
            s->at = line == NULL ? s->end : line + 1;
        } else if (c == '/' && s->at + 1 < s->end && s->at[1] == '*') {
            s->at = skip_comment(s->at, s->end);
        } else {
            return;
        }
    }
}

/* $tag$ ... $tag$, or NULL when this is no such string ($1 is a parameter). */
static const char *skip_dollar(const char *at, const char *end)
{
    const char *tag_end = at + 1;
    while (tag_end < end && (is_word_start(*tag_end) || (tag_end > at + 1 && is_digit(*tag_end)))) {
        tag_end++;
    }
    if (tag_end == end || *tag_end != '$') {
        return NULL;
    }
    size_t      size = (size_t)(tag_end + 1 - at);
    const char *close = memmem(tag_end + 1, (size_t)(end - tag_end - 1), at, size);
    return close == NULL ? end : close + size;
}

static void next(scanner *s)
{
    skip_blank(s);
    const char *from = s->at, *dollar = NULL;
    if (from == s->end) {
        s->kind = TOKEN_END;
    } else if ((*from == 'E' || *from == 'e') && from + 1 < s->end && from[1] == '\'') {
        s->kind = TOKEN_STRING;
        s->at = skip_quoted(from + 2, s->end, '\'', true);
    } else if (is_word_start(*from)) {
        s->kind = TOKEN_WORD;
        while (s->at < s->end && (is_word_start(*s->at) || is_digit(*s->at) || *s->at == '$')) {
            s->at++;
        }
    } else if (is_digit(*from)) {
        s->kind = TOKEN_NUMBER;
        while (s->at < s->end && (is_word_start(*s->at) || is_digit(*s->at) || *s->at == '.')) {
            s->at++;
        }
    } else if (*from == '\'' || *from == '"') {
        s->kind = *from == '"' ? TOKEN_QUOTED : TOKEN_STRING;
        s->at = skip_quoted(from + 1, s->end, *from, false);
    } else if (*from == '$' && (dollar = skip_dollar(from, s->end)) != NULL) {
        s->kind = TOKEN_STRING;
        s->at = dollar;
    } else {
        s->kind = TOKEN_SYMBOL;
        s->at++;
    }
    s->token = (lk_bytes){from, (size_t)(s->at - from)};
}

static bool is_word(const scanner *s, const char *word)
{
    return s->kind == TOKEN_WORD && s->token.size == strlen(word) &&
           strncasecmp(s->token.data, word, s->token.size) == 0;
}

static bool is_symbol(const scanner *s, char symbol)
{
    return s->kind == TOKEN_SYMBOL && s->token.data[0] == symbol;
}

static lk_rc refuse(lk_err *err, const char *why)
{
    lk_rc rc = lk_fail(err, LK_E_INVALID_SQL, "%s", why);
    (void)lk_detail(err, "%s", why);
    return rc;
}

/* Where `AT ( REVISION` stands: 0 nothing, 1 AT, 2 (. Overwrites REVISION by VERSION, which the parser
 * knows; the text after => tells the two apart again (a number or a string). */
static int follow_revision(int state, const scanner *s, lk_bytes text, char *copy)
{
    if (state == 2 && is_word(s, "revision")) {
        memcpy(copy + (s->token.data - text.data), "VERSION ", 8);
        return 0;
    }
    if (state == 1 && is_symbol(s, '(')) {
        return 2;
    }
    return is_word(s, "at") ? 1 : 0;
}

static lk_rc check_tokens(lk_bytes text, char *copy, lk_err *err)
{
    scanner s = {.at = text.data, .end = text.data + text.size};
    size_t  tokens = 0, depth = 0;
    int     state = 0;
    for (next(&s); s.kind != TOKEN_END; next(&s)) {
        if (++tokens > LK_SQL_TOKENS_MAX) {
            return refuse(err, "the statement has too many parts");
        }
        if ((s.kind == TOKEN_WORD || s.kind == TOKEN_QUOTED) &&
            s.token.size > LK_SQL_IDENTIFIER_BYTES_MAX + (s.kind == TOKEN_QUOTED ? 2U : 0U)) {
            return refuse(err, "an identifier is longer than 256 bytes");
        }
        if (is_symbol(&s, '(') || is_symbol(&s, '[') || is_symbol(&s, '{')) {
            depth++;
        } else if ((is_symbol(&s, ')') || is_symbol(&s, ']') || is_symbol(&s, '}')) && depth > 0) {
            depth--;
        }
        if (depth > LK_SQL_DEPTH_MAX) {
            return refuse(err, "the statement is nested deeper than 128 levels");
        }
        state = follow_revision(state, &s, text, copy);
    }
    return LK_OK;
}

/* EXPLAIN [ANALYZE] at the start; *text moves behind it. */
static lk_explain read_explain(lk_bytes *text)
{
    scanner s = {.at = text->data, .end = text->data + text->size};
    next(&s);
    if (!is_word(&s, "explain")) {
        return LK_EXPLAIN_NONE;
    }
    const char *after = s.at;
    next(&s);
    bool analyze = is_word(&s, "analyze");
    after = analyze ? s.at : after;
    *text = (lk_bytes){after, (size_t)(s.end - after)};
    return analyze ? LK_EXPLAIN_ANALYZE : LK_EXPLAIN_PLAN;
}

bool lk_sql_text_starts(lk_bytes text, const char *word)
{
    scanner s = {.at = text.data, .end = text.data + text.size};
    next(&s);
    return is_word(&s, word);
}

lk_rc lk_sql_text_read(lk_bytes text, lk_arena *arena, lk_sql_text *out, lk_err *err)
{
    if (!lk_bytes_are_utf8(text) || (text.size > 0 && memchr(text.data, '\0', text.size) != NULL)) {
        return refuse(err, "the text is not UTF-8 or holds a NUL byte");
    }
    out->explain = read_explain(&text);
    char *copy = lk_arena_text(arena, text);
    lk_rc rc = check_tokens(text, copy, err);
    out->body = (lk_bytes){copy, text.size};
    return rc;
}
