#ifndef LK_ROLLOUT_BLOB_H
#define LK_ROLLOUT_BLOB_H
/*
 * blob.h - the payload of one record, read range by range from where it lies.
 *
 * Invariants:
 *   1. A payload that lies uncompressed in its file, as every one of a MiB and more that is written here does, is never held:
 *      _read goes to the file. Others are held whole while the blob is open, charged to the table's budget.
 *   2. An open blob stays readable while generations are merged and collected, where the storage lets open files be.
 * Threads: ranges may be read by many threads at once.
 */
#include "rollout/view.h"

typedef struct lk_rollout_blob lk_rollout_blob;

/* *found = false: no such record (*out is NULL). LK_E_CORRUPT_FILE names the file; LK_E_LIMIT. */
LK_MUST_CHECK lk_rc lk_rollout_blob_open(lk_rollout_snapshot *snapshot, lk_bytes id, lk_cancel *cancel,
    lk_rollout_blob **out, bool *found, lk_err *err);
void                lk_rollout_blob_close(lk_rollout_blob *blob); /* accepts NULL */

bool lk_rollout_blob_is_null(const lk_rollout_blob *blob); /* the record has no payload: nothing to read */
uint64_t lk_rollout_blob_size(const lk_rollout_blob *blob);
/* The record's content_type and payload_checksum; "" when it has none. Borrowed. */
lk_bytes lk_rollout_blob_content_type(const lk_rollout_blob *blob);
lk_bytes lk_rollout_blob_checksum(const lk_rollout_blob *blob);

/* Bytes [offset, offset + size), which must lie inside, into out. */
LK_MUST_CHECK lk_rc lk_rollout_blob_read(
    lk_rollout_blob *blob, uint64_t offset, void *out, size_t size, lk_err *err);

#endif
