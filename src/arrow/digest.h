#ifndef LK_ARROW_DIGEST_H
#define LK_ARROW_DIGEST_H
/*
 * digest.h - the payload digest of an append, version 1: what makes two appends the same.
 *
 * SHA-256 over "lake.append.flight-metadata.v1" and a NUL, then for each IPC message (schema, dictionaries,
 * batches), for each of data_header, data_body, app_metadata: its size as 8 bytes big-endian, then its
 * bytes. Threads: stateless.
 */
#include "arrow/batch.h"
#include "base/hash.h"

/* The digest of the messages that these batches are sent as, without app_metadata. */
LK_MUST_CHECK lk_rc lk_payload_digest(const struct ArrowSchema *schema, lk_shared_array *const *batches,
    size_t batch_count, char hex[LK_SHA256_HEX_SIZE + 1], lk_err *err);

/* The same, message by message, for those who see them pass. */
void lk_payload_digest_start(lk_sha256 *hash);
void lk_payload_digest_part(lk_sha256 *hash, lk_bytes part);
/* A part that lies in pieces: its whole size, then each piece with lk_sha256_update. */
void lk_payload_digest_part_size(lk_sha256 *hash, uint64_t size);

#endif
