/* crypt.c - see crypt.h. */
#include "base/crypt.h"

#include "base/err.h"
#include "base/hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

static int chunk_size(size_t size)
{
    LK_ASSERT(size <= INT32_MAX);
    return (int)size;
}

void lk_aead_seal(const uint8_t key[LK_AEAD_KEY_SIZE], const uint8_t nonce[LK_AEAD_NONCE_SIZE],
    lk_bytes associated, lk_bytes plain, lk_buf *out)
{
    lk_buf_reserve(out, plain.size + LK_AEAD_TAG_SIZE);
    uint8_t        *cipher = (uint8_t *)out->data + out->size, *tag = cipher + plain.size;
    const uint8_t  *aad = (const uint8_t *)associated.data, *text = (const uint8_t *)plain.data;
    int             n = 0;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    bool ok = context != NULL && EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), NULL, key, nonce) == 1;
    ok = ok && (associated.size == 0 ||
                   EVP_EncryptUpdate(context, NULL, &n, aad, chunk_size(associated.size)) == 1);
    ok = ok && (plain.size == 0 || EVP_EncryptUpdate(context, cipher, &n, text, chunk_size(plain.size)) == 1);
    ok = ok && EVP_EncryptFinal_ex(context, tag, &n) == 1;
    ok = ok && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, LK_AEAD_TAG_SIZE, tag) == 1;
    EVP_CIPHER_CTX_free(context);
    LK_ASSERT(ok);
    out->size += plain.size + LK_AEAD_TAG_SIZE;
    out->data[out->size] = '\0';
}

bool lk_aead_open(const uint8_t key[LK_AEAD_KEY_SIZE], const uint8_t nonce[LK_AEAD_NONCE_SIZE],
    lk_bytes associated, lk_bytes sealed, lk_buf *out)
{
    if (sealed.size < LK_AEAD_TAG_SIZE || sealed.size > INT32_MAX || associated.size > INT32_MAX) {
        return false;
    }
    size_t size = sealed.size - LK_AEAD_TAG_SIZE;
    lk_buf_reserve(out, size + LK_AEAD_TAG_SIZE);
    uint8_t        *plain = (uint8_t *)out->data + out->size;
    const uint8_t  *cipher = (const uint8_t *)sealed.data, *aad = (const uint8_t *)associated.data;
    uint8_t         tag[LK_AEAD_TAG_SIZE];
    int             n = 0;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    LK_ASSERT(context != NULL);
    memcpy(tag, cipher + size, sizeof tag);
    bool ok = EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), NULL, key, nonce) == 1;
    ok = ok && (associated.size == 0 ||
                   EVP_DecryptUpdate(context, NULL, &n, aad, chunk_size(associated.size)) == 1);
    ok = ok && (size == 0 || EVP_DecryptUpdate(context, plain, &n, cipher, chunk_size(size)) == 1);
    ok = ok && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, LK_AEAD_TAG_SIZE, tag) == 1;
    ok = ok && EVP_DecryptFinal_ex(context, plain + size, &n) == 1;
    EVP_CIPHER_CTX_free(context);
    if (!ok) {
        lk_wipe(plain, size);
    }
    out->size += ok ? size : 0;
    out->data[out->size] = '\0';
    return ok;
}

bool lk_equal_constant_time(lk_bytes a, lk_bytes b)
{
    return a.size == b.size && (a.size == 0 || CRYPTO_memcmp(a.data, b.data, a.size) == 0);
}

void lk_hkdf_sha256(lk_bytes secret, lk_bytes info, uint8_t *out, size_t size)
{
    LK_ASSERT(size <= 255 * LK_SHA256_SIZE);
    static const char no_salt[LK_SHA256_SIZE] = {0};
    uint8_t           key[LK_SHA256_SIZE], block[LK_SHA256_SIZE];
    lk_buf            message = {0};
    lk_hmac_sha256((lk_bytes){no_salt, sizeof no_salt}, secret, key);
    for (size_t done = 0; done < size; done += sizeof block) {
        uint8_t counter = (uint8_t)(done / sizeof block + 1);
        lk_buf_clear(&message);
        lk_buf_append(&message, block, done == 0 ? 0 : sizeof block);
        lk_buf_append_bytes(&message, info);
        lk_buf_append(&message, &counter, 1);
        lk_hmac_sha256((lk_bytes){(const char *)key, sizeof key}, lk_buf_view(&message), block);
        memcpy(out + done, block, size - done < sizeof block ? size - done : sizeof block);
    }
    lk_wipe(message.data, message.capacity);
    lk_buf_deinit(&message);
    lk_wipe(key, sizeof key);
    lk_wipe(block, sizeof block);
}

void lk_wipe(void *data, size_t size)
{
    if (size > 0) {
        OPENSSL_cleanse(data, size);
    }
}
