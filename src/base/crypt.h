#ifndef LK_BASE_CRYPT_H
#define LK_BASE_CRYPT_H
/* crypt.h - AES-256-GCM sealing and constant-time comparison (OpenSSL). Threads: stateless. */
#include "base/bytes.h"

enum { LK_AEAD_KEY_SIZE = 32, LK_AEAD_NONCE_SIZE = 12, LK_AEAD_TAG_SIZE = 16 };

/* Appends ciphertext and tag to out. The caller never reuses a nonce under one key. */
void lk_aead_seal(const uint8_t key[LK_AEAD_KEY_SIZE], const uint8_t nonce[LK_AEAD_NONCE_SIZE],
    lk_bytes associated, lk_bytes plain, lk_buf *out);

/* Appends the plaintext to out; false (and out unchanged) when anything does not verify. */
bool lk_aead_open(const uint8_t key[LK_AEAD_KEY_SIZE], const uint8_t nonce[LK_AEAD_NONCE_SIZE],
    lk_bytes associated, lk_bytes sealed, lk_buf *out);

bool lk_equal_constant_time(lk_bytes a, lk_bytes b);
void lk_hkdf_sha256(lk_bytes secret, lk_bytes info, uint8_t *out, size_t size); /* RFC 5869, empty salt */
void lk_wipe(void *data, size_t size);

#endif
