#ifndef LK_NET_HTTP_HEAD_H
#define LK_NET_HTTP_HEAD_H
/*
 * http_head.h - the head of an HTTP/1.x request and the frames of a chunked body (RFC 9110, RFC 9112), read strictly: what
 * two parsers could understand differently is refused.
 * Threads: stateless.
 */
#include "base/arena.h"

enum {
    LK_HTTP_HEAD_BYTES_MAX = 32 * 1024, /* request line and fields together */
    LK_HTTP_FIELDS_MAX = 128
};

typedef struct lk_http_field {
    lk_bytes name; /* lower case */
    lk_bytes value;
} lk_http_field;

typedef struct lk_http_head {
    lk_bytes       method, path, query; /* as they were sent, percent escapes included; query without the ? */
    lk_http_field *fields;
    size_t         field_count;
    int            minor; /* of HTTP/1.minor */
    bool           keep_alive, chunked, expects_continue, has_length;
    uint64_t       content_length;
} lk_http_head;

typedef enum lk_http_parsed {
    LK_HTTP_MORE, /* the head is not complete */
    LK_HTTP_DONE,
    LK_HTTP_BAD /* a fault says with what to answer, and why; the connection cannot go on */
} lk_http_parsed;

typedef struct lk_http_fault {
    int         status;
    const char *why; /* a sentence for who sent it; constant text */
} lk_http_fault;

/* Reads a head from the start of input; *used is its size. Everything is copied into the arena. */
lk_http_parsed lk_http_head_parse(
    lk_bytes input, lk_arena *arena, lk_http_head *out, size_t *used, lk_http_fault *fault);

/* The first value of a field (lower-case name); false when there is none. */
bool lk_http_head_field(const lk_http_head *head, const char *name, lk_bytes *value);

/* Visible ASCII, blanks and bytes above it; no other control characters. */
bool lk_http_is_field_value(lk_bytes value);

/* -- chunked bodies ------------------------------------------------------------------------------------------ */
typedef struct lk_http_chunks { /* starts as zero */
    int      state;
    uint64_t left;  /* of the present chunk */
    size_t   other; /* bytes of sizes, extensions and trailers so far: bounded */
} lk_http_chunks;

/* Takes what it can of input: *used bytes of it, of which *data (possibly empty) is content. */
lk_http_parsed lk_http_chunks_take(lk_http_chunks *chunks, lk_bytes input, lk_bytes *data, size_t *used);

/* Percent-decodes into the arena (a plus stays one). false for a malformed escape or a NUL. */
bool lk_http_decode(lk_bytes text, lk_arena *arena, lk_bytes *out);

/* Takes the first parameter off a query that is not empty: its decoded name, its value as it was sent. false: malformed. */
bool lk_http_query_next(lk_bytes *query, lk_arena *arena, lk_bytes *name, lk_bytes *raw);

/* The decoded value of a query parameter (where a plus is a blank). *found; false for a malformed one. */
bool lk_http_query_value(lk_bytes query, const char *name, lk_arena *arena, lk_bytes *value, bool *found);

#endif
