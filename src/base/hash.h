#ifndef LK_BASE_HASH_H
#define LK_BASE_HASH_H
/* hash.h - SHA-256 (OpenSSL), HMAC-SHA-256, CRC-32C, hexadecimal, base64. Threads: an lk_sha256 is confined. */
#include "base/bytes.h"

enum { LK_SHA256_SIZE = 32, LK_SHA256_HEX_SIZE = 64 };

typedef struct lk_sha256 {
    void *state;
} lk_sha256;

void     lk_sha256_init(lk_sha256 *hash);
void     lk_sha256_update(lk_sha256 *hash, const void *data, size_t size);
void     lk_sha256_final(lk_sha256 *hash, uint8_t out[LK_SHA256_SIZE]); /* also deinit */
void     lk_sha256_deinit(lk_sha256 *hash);                             /* idempotent */
void     lk_sha256_of(lk_bytes bytes, uint8_t out[LK_SHA256_SIZE]);
void     lk_hmac_sha256(lk_bytes key, lk_bytes message, uint8_t out[LK_SHA256_SIZE]);
uint32_t lk_crc32c(uint32_t crc, const void *data, size_t size); /* start with 0 */
uint32_t lk_crc32c_portable(
    uint32_t crc, const void *data, size_t size); /* the same without the instruction */

void lk_hex(const void *data, size_t size, char *out); /* 2 * size characters and a NUL */
bool lk_unhex(lk_bytes text, void *out, size_t size);  /* exactly 2 * size lower-case digits */
void lk_base64_append(lk_buf *out, lk_bytes bytes);    /* RFC 4648 standard alphabet, padded */
bool lk_base64_decode(lk_bytes text, bool padding_optional, lk_buf *out);

#endif
