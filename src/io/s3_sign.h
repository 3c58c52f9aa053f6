#ifndef LK_IO_S3_SIGN_H
#define LK_IO_S3_SIGN_H
/*
 * s3_sign.h - Signature Version 4 of a request: its canonical form, and the Authorization header over it.
 * Format facts: Amazon's "Authenticating Requests (AWS Signature Version 4)". Threads: stateless.
 */
#include "base/arena.h"
#include "base/bytes.h"
#include "base/hash.h"

#include <stdint.h>

typedef struct lk_s3_pair { /* a header, or a parameter of the query, neither encoded */
    lk_bytes name, value;
} lk_s3_pair;

typedef struct lk_s3_signable {
    lk_bytes          method;
    lk_bytes          path; /* percent-encoded as it will be sent; begins with '/' */
    const lk_s3_pair *query;
    size_t            query_count;
    const lk_s3_pair *headers; /* all of them are signed; x-amz-date and Host must be among them */
    size_t            header_count;
    lk_bytes          payload_hash; /* hexadecimal SHA-256 of the body */
} lk_s3_signable;

typedef struct lk_s3_scope {
    lk_bytes       access_key, secret_key, region, service;
    lk_bytes       time;    /* 20150830T123600Z, the value of x-amz-date */
    const uint8_t *day_key; /* as of lk_s3_day_key; NULL: made for this request */
} lk_s3_scope;

/* Everything but letters, digits, "-._~" becomes %XX; '/' stays where keep_slash. */
void lk_s3_encode(lk_buf *out, lk_bytes text, bool keep_slash);

/* The query in canonical form, which is also how it is sent: encoded, sorted, "name=" for an empty value. */
lk_bytes lk_s3_canonical_query(const lk_s3_pair *query, size_t count, lk_arena *arena);

lk_bytes lk_s3_canonical_request(const lk_s3_signable *request, lk_arena *arena);
/* What a day's requests of the scope's secret, region and service are signed with: worth keeping, and as secret as that. */
void lk_s3_day_key(const lk_s3_scope *scope, uint8_t key[LK_SHA256_SIZE]);

/* The value of the Authorization header, in the arena. */
lk_bytes lk_s3_authorization(const lk_s3_signable *request, const lk_s3_scope *scope, lk_arena *arena);

/* wall_ms as 20150830T123600Z. */
lk_bytes lk_s3_time(uint64_t wall_ms, lk_arena *arena);

#endif
