/* rollout_tokens.c - see rollout_tokens.h. */
#include "cli/rollout_tokens.h"

#include "base/crypt.h"
#include "base/file.h"

#include <string.h>

enum { FILE_BYTES_MAX = 1024 * 1024 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of a line; empty at its end. */
static lk_bytes take_word(lk_bytes *line)
{
    size_t start = 0;
    while (start < line->size && is_blank(line->data[start])) {
        start++;
    }
    size_t end = start;
    while (end < line->size && !is_blank(line->data[end])) {
        end++;
    }
    lk_bytes word = {line->data + start, end - start};
    *line = (lk_bytes){line->data + end, line->size - end};
    return word;
}

static lk_bytes take_line(lk_bytes *text)
{
    const char *end = memchr(text->data, '\n', text->size);
    size_t      size = end == NULL ? text->size : (size_t)(end - text->data);
    lk_bytes    line = {text->data, size};
    size += end != NULL;
    *text = (lk_bytes){text->data + size, text->size - size};
    return line;
}

static bool role_of(lk_bytes word, lk_rollout_role *out)
{
    static const char *const names[] = {
        [LK_ROLLOUT_READ] = "read", [LK_ROLLOUT_WRITE] = "write", [LK_ROLLOUT_ADMIN] = "admin"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (lk_bytes_equal(word, lk_bytes_of(names[i]))) {
            *out = (lk_rollout_role)i;
            return true;
        }
    }
    return false;
}

/* What an HTTP field may carry after "Bearer ". */
static bool is_token(lk_bytes word)
{
    for (size_t i = 0; i < word.size; i++) {
        if (word.data[i] <= ' ' || word.data[i] > '~') {
            return false;
        }
    }
    return word.size > 0;
}

static bool is_there(const lk_rollout_tokens *tokens, lk_bytes secret)
{
    bool found = false;
    for (size_t i = 0; i < tokens->count; i++) {
        found = found || lk_bytes_equal(tokens->items[i].secret, secret);
    }
    return found;
}

/* A line that is not empty. NULL: taken; else what is wrong with it. */
static const char *add_line(lk_rollout_tokens *tokens, lk_bytes first, lk_bytes rest)
{
    lk_bytes        secret = take_word(&rest);
    lk_rollout_role role = LK_ROLLOUT_ADMIN;
    if (secret.size == 0) {
        secret = first;
        if (role_of(first, &role)) {
            return "has a role and no token";
        }
    } else if (!role_of(first, &role)) {
        return "begins with a role: read, write or admin";
    }
    if (take_word(&rest).size > 0) {
        return "has more than a role and a token";
    }
    if (!is_token(secret)) {
        return "has a token that is not printable ASCII";
    }
    if (is_there(tokens, secret)) {
        return "has a token that an earlier line has";
    }
    if (tokens->count == LK_ROLLOUT_TOKENS_MAX) {
        return "is one too many";
    }
    tokens->items[tokens->count++] = (lk_rollout_token){lk_arena_copy(&tokens->arena, secret), role};
    return NULL;
}

lk_rc lk_rollout_tokens_parse(lk_rollout_tokens *out, const char *name, lk_bytes text, lk_err *err)
{
    out->items = lk_arena_take(&out->arena, LK_ROLLOUT_TOKENS_MAX * sizeof *out->items);
    for (size_t number = 1; text.size > 0; number++) {
        lk_bytes    line = take_line(&text);
        lk_bytes    first = take_word(&line);
        const char *wrong = first.size == 0 || first.data[0] == '#' ? NULL : add_line(out, first, line);
        if (wrong != NULL) {
            return lk_refuse(err, LK_E_INVALID_CONFIG, "%s: line %zu %s", name, number, wrong);
        }
    }
    return out->count > 0 ? LK_OK : lk_refuse(err, LK_E_INVALID_CONFIG, "%s has no token", name);
}

lk_rc lk_rollout_tokens_load(lk_rollout_tokens *out, const char *path, lk_err *err)
{
    lk_buf text = {0};
    *out = (lk_rollout_tokens){0};
    if (path == NULL) {
        return LK_OK;
    }
    lk_rc rc = lk_file_read_secret(path, true, FILE_BYTES_MAX, &text, err);
    if (rc == LK_OK) {
        rc = lk_rollout_tokens_parse(out, path, lk_buf_view(&text), err);
    }
    if (text.size > 0) {
        lk_wipe(text.data, text.size);
    }
    lk_buf_deinit(&text);
    return rc;
}

void lk_rollout_tokens_deinit(lk_rollout_tokens *tokens)
{
    lk_arena_close_wiped(&tokens->arena);
    *tokens = (lk_rollout_tokens){0};
}
