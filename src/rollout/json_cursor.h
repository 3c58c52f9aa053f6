#ifndef LK_ROLLOUT_JSON_CURSOR_H
#define LK_ROLLOUT_JSON_CURSOR_H
/*
 * json_cursor.h - JSON (RFC 8259) taken token by token straight to where the values go: what a request of many megabytes
 * of token lists needs. base/json.h is for control messages.
 *
 * Invariants:
 *   1. at never passes end.
 *   2. What was taken is well formed: UTF-8 without lone surrogates, numbers in JSON's grammar, nesting at most
 *      LK_JSON_CURSOR_DEPTH_MAX.
 *   3. Once `wrong` is set nothing is taken any more; every call returns false.
 * Threads: confined.
 */
#include "base/bytes.h"

enum { LK_JSON_CURSOR_DEPTH_MAX = 64 };

typedef struct lk_json_cursor {
    const char *at, *end;
    const char *wrong;   /* what was wrong at `at`, a constant text; NULL so far */
    lk_buf      scratch; /* texts with escapes; end with lk_json_cursor_deinit */
} lk_json_cursor;

void lk_json_cursor_init(lk_json_cursor *cursor, lk_bytes text);
void lk_json_cursor_deinit(lk_json_cursor *cursor);

/* Skips space and says which byte comes next without taking it; 0 at the end. */
char lk_json_peek(lk_json_cursor *cursor);

/* Takes the punctuation if it comes next. */
bool lk_json_accept(lk_json_cursor *cursor, char punctuation);

/*
 * For `do { member or element } while (lk_json_more(cursor, close))` after the opening bracket was taken: whether another
 * one follows (true, the comma is taken) or the closing bracket (false, taken). Sets wrong for anything else.
 */
bool lk_json_more(lk_json_cursor *cursor, char close);

/* Takes a string. *out is borrowed from the text or from scratch, until the next string is taken. */
bool lk_json_take_text(lk_json_cursor *cursor, lk_bytes *out);

/* Takes a member's name and its colon. */
bool lk_json_take_key(lk_json_cursor *cursor, lk_bytes *out);

/* Takes null if it comes next. */
bool lk_json_accept_null(lk_json_cursor *cursor);
bool lk_json_take_bool(lk_json_cursor *cursor, bool *out);

/* Takes an integer within [min, max]: no point, no exponent. */
bool lk_json_take_integer(lk_json_cursor *cursor, int64_t min, int64_t max, int64_t *out);
bool lk_json_take_float(lk_json_cursor *cursor, float *out);

/* Takes one value of any type; its text without the space between tokens is appended to out (NULL: thrown away). */
bool lk_json_take_value(lk_json_cursor *cursor, lk_buf *out);

/* Sets wrong, unless it is set already; returns false. */
bool lk_json_fail(lk_json_cursor *cursor, const char *wrong);

#endif
