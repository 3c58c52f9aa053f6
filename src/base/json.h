#ifndef LK_BASE_JSON_H
#define LK_BASE_JSON_H
/*
 * json.h - canonical writer (compact, fields in the order written) and strict bounded reader.
 *
 * The reader takes an object of known fields: an unknown field, a repeated field, a missing required
 * one, a wrong type, trailing bytes, or nesting beyond LK_JSON_DEPTH_MAX is LK_E_INVALID_REQUEST with
 * a detail that names the field. A text that is not UTF-8 or holds U+0000 is refused as well; an object of
 * any depth has at most LK_JSON_KEYS_MAX fields. Threads: confined.
 */
#include "base/arena.h"
#include "base/err.h"

/* -- writer: appends to a lk_buf; commas are placed by the writer -- */
typedef struct lk_json_writer {
    lk_buf *out;
    bool    comma; /* the next value needs one before it */
} lk_json_writer;

void lk_json_object(lk_json_writer *w);
void lk_json_object_end(lk_json_writer *w);
void lk_json_array(lk_json_writer *w);
void lk_json_array_end(lk_json_writer *w);
void lk_json_key(lk_json_writer *w, const char *key);
void lk_json_text(lk_json_writer *w, lk_bytes text); /* UTF-8; control characters are escaped */
void lk_json_u64(lk_json_writer *w, uint64_t value);
void lk_json_i64(lk_json_writer *w, int64_t value);
void lk_json_bool(lk_json_writer *w, bool value);
void lk_json_null(lk_json_writer *w);
void lk_json_raw(lk_json_writer *w, lk_bytes json); /* one value, already encoded */
void lk_json_base64(lk_json_writer *w, lk_bytes bytes);

/* -- reader -- */
typedef enum lk_json_type {
    LK_JSON_TEXT,   /* target: lk_bytes, in the arena, NUL after it */
    LK_JSON_U64,    /* target: uint64_t; integers 0 .. 2^64-1 */
    LK_JSON_BOOL,   /* target: bool */
    LK_JSON_BASE64, /* target: lk_bytes, decoded */
    LK_JSON_RAW,    /* target: lk_bytes, the value's own JSON text, any type */
    LK_JSON_TEXTS   /* target: lk_json_texts */
} lk_json_type;

typedef struct lk_json_texts {
    lk_bytes *items;
    size_t    count;
} lk_json_texts;

typedef struct lk_json_field {
    const char  *name;
    lk_json_type type;
    void        *target;
    bool         optional; /* absent or null leaves the target alone */
    bool        *found;    /* may be NULL */
} lk_json_field;

enum { LK_JSON_DEPTH_MAX = 32, LK_JSON_KEYS_MAX = 1024 };

LK_MUST_CHECK lk_rc lk_json_read(
    lk_bytes text, const lk_json_field *fields, size_t field_count, lk_arena *arena, lk_err *err);

/* The elements of an array as raw JSON texts; at most max of them (else LK_E_LIMIT). */
LK_MUST_CHECK lk_rc lk_json_elements(
    lk_bytes text, size_t max, lk_arena *arena, lk_json_texts *out, lk_err *err);

#endif
