#ifndef LK_SERVE_ROLLOUT_OUTPUT_H
#define LK_SERVE_ROLLOUT_OUTPUT_H
/*
 * rollout_output.h - an answer that is made piece by piece: it goes out whole with its length when it is short, in chunks as
 * it grows otherwise, coded as the request allows. What is held is at most one piece.
 *
 *   held --rollout_output_flush, when long--> begun --_finish--> sent
 *     '--_finish: one answer--> sent            '--_abort: the connection closes, so that the client sees the cut
 *
 * Threads: confined.
 */
#include "net/http_server.h"
#include "serve/rollout_media.h"

typedef struct rollout_output {
    lk_http_exchange   *exchange;
    const char         *content_type;
    lk_rollout_coding   coding;
    lk_rollout_encoder *encoder;
    lk_buf              held; /* the writer appends here */
    bool                began;
} rollout_output;

void rollout_output_open(rollout_output *output, lk_http_exchange *exchange, const char *content_type);

/* After something was appended to held: sends it once it is a piece. The peer may be gone: LK_E_CANCELLED, LK_E_DEADLINE. */
LK_MUST_CHECK lk_rc rollout_output_flush(rollout_output *output, lk_err *err);

/* The end of the answer, and of the exchange. */
void rollout_output_finish(rollout_output *output);

/* Gives up: true when nothing was sent yet, so that a failure can still be answered. Otherwise the exchange is ended. */
bool rollout_output_abort(rollout_output *output);

#endif
