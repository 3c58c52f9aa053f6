/* digest.c - see digest.h. */
#include "arrow/digest.h"

#include "arrow/ipc.h"

void lk_payload_digest_start(lk_sha256 *hash)
{
    static const char domain[] = "lake.append.flight-metadata.v1"; /* its NUL counts */
    lk_sha256_init(hash);
    lk_sha256_update(hash, domain, sizeof domain);
}

void lk_payload_digest_part_size(lk_sha256 *hash, uint64_t size)
{
    uint64_t big_endian = __builtin_bswap64(size);
    lk_sha256_update(hash, &big_endian, sizeof big_endian);
}

void lk_payload_digest_part(lk_sha256 *hash, lk_bytes part)
{
    lk_payload_digest_part_size(hash, part.size);
    lk_sha256_update(hash, part.data, part.size);
}

static void add_message(lk_sha256 *hash, const lk_ipc_message *message)
{
    static const char zeros[64];
    lk_payload_digest_part(hash, message->header);
    lk_payload_digest_part_size(hash, message->body_size);
    for (size_t i = 0; i < message->segment_count; i++) {
        lk_sha256_update(hash, message->segments[i].data, message->segments[i].size);
        lk_sha256_update(hash, zeros, message->segments[i].padding);
    }
    lk_payload_digest_part(hash, (lk_bytes){0}); /* app_metadata */
}

static lk_rc add_batch(lk_sha256 *hash, lk_ipc_encoder *encoder, lk_shared_array *batch, lk_err *err)
{
    lk_ipc_message *messages = NULL;
    size_t          count = 0;
    lk_rc           rc = lk_ipc_encode(encoder, batch, &messages, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        add_message(hash, &messages[i]);
    }
    lk_ipc_messages_free(messages, count);
    return rc;
}

lk_rc lk_payload_digest(const struct ArrowSchema *schema, lk_shared_array *const *batches, size_t batch_count,
    char hex[LK_SHA256_HEX_SIZE + 1], lk_err *err)
{
    lk_ipc_encoder *encoder = NULL;
    lk_buf          header = {0};
    lk_sha256       hash = {0};
    uint8_t         digest[LK_SHA256_SIZE];

    lk_payload_digest_start(&hash);
    lk_rc rc = lk_ipc_schema_encode(schema, LK_IPC_BARE, &header, err);
    if (rc == LK_OK) {
        lk_payload_digest_part(&hash, lk_buf_view(&header));
        lk_payload_digest_part(&hash, (lk_bytes){0});
        lk_payload_digest_part(&hash, (lk_bytes){0});
        rc = lk_ipc_encoder_new(schema, &encoder, err);
    }
    for (size_t i = 0; rc == LK_OK && i < batch_count; i++) {
        rc = add_batch(&hash, encoder, batches[i], err);
    }
    if (rc == LK_OK) {
        lk_sha256_final(&hash, digest);
        lk_hex(digest, sizeof digest, hex);
    }
    lk_sha256_deinit(&hash);
    lk_ipc_encoder_free(encoder);
    lk_buf_deinit(&header);
    return rc;
}
