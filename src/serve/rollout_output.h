#ifndef LK_SERVE_ROLLOUT_OUTPUT_H
#define LK_SERVE_ROLLOUT_OUTPUT_H
/*
 * rollout_output.h - an answer that is made piece by piece: it goes out whole with its length when it is short, in chunks as
 * it grows otherwise, coded as the request allows.
 *
 *   source --short: one answer--> sent
 *     '--begun: chunks--> sent        '--a failure: the connection closes, so that the client sees the cut
 *     '--the peer takes none: no thread is held, the source keeps its place--> begun
 *
 * Invariants:
 *   1. What is held of the content is at most two pieces, and what the connection may queue; lent
 *      content stays with whoever lends it, charged there.
 *   2. A failure before anything was sent is answered as one (rollout_fail).
 * Threads: a source is used by one thread at a time, not always the same.
 */
#include "net/http_server.h"
#include "serve/rollout_media.h"

enum {
    ROLLOUT_PIECE = 128 * 1024,
    ROLLOUT_LOAN = 1024 * 1024 /* of content that needs no copy; a piece costs a thread's turn */
};

/* What gives the content, from its beginning to its end. */
typedef struct rollout_source rollout_source;
struct rollout_source {
    /* Appends the next of it, about a piece; *more stays true until the last was appended. */
    lk_rc (*next)(rollout_source *source, lk_buf *out, bool *more, lk_err *err);
    void (*close)(rollout_source *source);
    /* NULL, or instead of next what comes next of content that lies in memory already, as a loan of it. A loan without parts:
     * next is to be asked. */
    lk_rc (*lend)(rollout_source *source, lk_http_loan *out, lk_err *err);
};

/* Answers with 200 and what the source gives, which it takes. The exchange is gone for the caller. */
void rollout_output_send(lk_http_exchange *exchange, const char *content_type, rollout_source *source);

/* The same of content that is there; takes *content. */
void rollout_output_whole(lk_http_exchange *exchange, const char *content_type, lk_buf *content);

#endif
