#ifndef LK_SERVE_ROLLOUT_MEDIA_H
#define LK_SERVE_ROLLOUT_MEDIA_H
/*
 * rollout_media.h - what a request's body is and how it is coded, and in what form its answer goes out.
 * Threads: stateless.
 */
#include "base/budget.h"
#include "net/http_head.h"

typedef enum lk_rollout_body_type {
    LK_ROLLOUT_BODY_JSON,
    LK_ROLLOUT_BODY_MULTIPART,
    LK_ROLLOUT_BODY_NDJSON,
    LK_ROLLOUT_BODY_ARROW
} lk_rollout_body_type;

typedef enum lk_rollout_coding { LK_ROLLOUT_IDENTITY, LK_ROLLOUT_GZIP, LK_ROLLOUT_ZSTD } lk_rollout_coding;

typedef enum lk_rollout_format {
    LK_ROLLOUT_AS_JSON,
    LK_ROLLOUT_AS_NDJSON,
    LK_ROLLOUT_AS_ARROW,
    LK_ROLLOUT_AS_PARQUET
} lk_rollout_format;

/* By Content-Type; none is JSON. LK_E_UNSUPPORTED_MEDIA. */
LK_MUST_CHECK lk_rc lk_rollout_body_type_of(const lk_http_head *head, lk_rollout_body_type *out, lk_err *err);

/* By Content-Encoding. LK_E_UNSUPPORTED_MEDIA for one that is not known, or more than one. */
LK_MUST_CHECK lk_rc lk_rollout_body_coding_of(const lk_http_head *head, lk_rollout_coding *out, lk_err *err);

/*
 * Appends the decoded body to out. LK_E_TOO_LARGE above max, which a body that expands to much more than itself is measured
 * for before it is held; LK_E_INVALID_REQUEST for broken data or bytes behind it.
 */
LK_MUST_CHECK lk_rc lk_rollout_body_decode(
    lk_bytes body, lk_rollout_coding coding, uint64_t max, lk_buf *out, lk_err *err);

/* By Accept, where JSON is what is sent to whoever asks for nothing that we have. */
lk_rollout_format lk_rollout_format_of(const lk_http_head *head);
const char       *lk_rollout_format_type(lk_rollout_format format); /* its media type */

/* The coding to answer in, by Accept-Encoding. */
lk_rollout_coding lk_rollout_answer_coding(const lk_http_head *head);
const char       *lk_rollout_coding_name(lk_rollout_coding coding);

/* -- coding answers ------------------------------------------------------------------------------------------ */
typedef struct lk_rollout_encoder lk_rollout_encoder;
lk_rollout_encoder               *lk_rollout_encoder_new(lk_rollout_coding coding);     /* not IDENTITY */
void                              lk_rollout_encoder_free(lk_rollout_encoder *encoder); /* accepts NULL */
/* Appends the coded bytes to out; last: and the end. */
void lk_rollout_encode(lk_rollout_encoder *encoder, lk_bytes bytes, bool last, lk_buf *out);

#endif
