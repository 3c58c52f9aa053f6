#ifndef LK_ROLLOUT_MULTIPART_H
#define LK_ROLLOUT_MULTIPART_H
/*
 * multipart.h - the parts of a multipart/form-data body (RFC 7578, RFC 2046), one after another, borrowed from it.
 * Threads: confined.
 */
#include "base/arena.h"
#include "base/err.h"

typedef struct lk_multipart {
    lk_bytes rest;
    lk_bytes delimiter; /* CR LF and dashes before it */
    bool     ended;
} lk_multipart;

typedef struct lk_part {
    lk_bytes name; /* of the form's field, quotes and escapes taken away */
    lk_bytes content;
} lk_part;

/* The boundary in a Content-Type; false when it is not multipart/form-data or has no usable one. */
bool lk_multipart_boundary(lk_bytes content_type, lk_bytes *boundary);

/* LK_E_INVALID_REQUEST when the body does not begin with the boundary. Borrows body; the arena outlives the parts. */
LK_MUST_CHECK lk_rc lk_multipart_open(
    lk_bytes body, lk_bytes boundary, lk_arena *arena, lk_multipart *out, lk_err *err);

/* The next part; *found = false after the last one, which the closing boundary must follow. LK_E_INVALID_REQUEST. */
LK_MUST_CHECK lk_rc lk_multipart_next(
    lk_multipart *multipart, lk_arena *arena, lk_part *part, bool *found, lk_err *err);

#endif
