#ifndef LK_IO_S3_H
#define LK_IO_S3_H
/*
 * s3.h - lk_store over a prefix of an S3 bucket (Amazon's, or any server that speaks the same and honours
 * If-None-Match on PUT and on CompleteMultipartUpload).
 *
 * How the rules of store.h are kept:
 *   1. An object appears with the answer to its PUT or CompleteMultipartUpload, whole.
 *   2. S3 answers when the object is durable.
 *   3. put_if_absent and finish are conditional writes. Each carries a random mark in its metadata, so that an answer
 *      that was lost is found out by looking at whose object is there; what stays unknown is maybe_applied.
 *   4. A missing key is LK_E_NOT_FOUND; a missing bucket, a wrong region or key are errors that say so.
 *   5. Large objects are uploaded in parts that nobody lists before the last step.
 * An open object that is replaced or removed is not mixed with another: reading it is LK_E_SNAPSHOT_GONE, unless it
 * is small and still remembered.
 *
 * A request is tried again, with doubling random waits, when the server is busy, failing or silent, for timeout_ms.
 * Threads: shared, as store.h says.
 */
#include "base/clock.h"
#include "base/rand.h"
#include "io/store.h"

typedef struct lk_s3_options {                           /* all borrowed until the store is closed */
    const char *access_key, *secret_key, *session_token; /* token: may be NULL */
    const char *region;                                  /* NULL: us-east-1 */
    const char *endpoint;    /* http[s]://HOST[:PORT]; NULL: Amazon's of the region */
    const char *addressing;  /* "path" or "virtual"; NULL: path when endpoint is given */
    const char *ca_file;     /* NULL: the system's */
    bool        allow_plain; /* http:// to other machines; to this one it is always allowed */
    uint64_t    timeout_ms;
    lk_clock   *clock;
    lk_random  *random; /* shared */
} lk_s3_options;

/* uri: s3://BUCKET[/PREFIX]. No request is made yet. LK_E_INVALID_CONFIG for what cannot be. */
LK_MUST_CHECK lk_rc lk_s3_store_open(lk_store **out, lk_bytes uri, const lk_s3_options *options, lk_err *err);

#endif
