/* uuid.c - see uuid.h. */
#include "base/uuid.h"

#include "base/err.h"

#include <openssl/evp.h>

static int nibble(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool hyphen_at(size_t at)
{
    return at == 8 || at == 13 || at == 18 || at == 23;
}

lk_uuid lk_uuid_v7(lk_clock *clock, lk_random *random)
{
    lk_uuid  uuid;
    uint64_t ms = lk_clock_wall_ms(clock);
    random->fill(random, uuid.bytes + 6, sizeof uuid.bytes - 6);
    for (int i = 0; i < 6; i++) {
        uuid.bytes[i] = (uint8_t)(ms >> (40 - 8 * i));
    }
    uuid.bytes[6] = (uint8_t)(0x70 | (uuid.bytes[6] & 0x0F));
    uuid.bytes[8] = (uint8_t)(0x80 | (uuid.bytes[8] & 0x3F));
    return uuid;
}

lk_uuid lk_uuid_v5(lk_uuid name_space, lk_bytes name)
{
    enum { SHA1_SIZE = 20 };
    lk_uuid     uuid;
    uint8_t     digest[SHA1_SIZE];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    LK_ASSERT(context != NULL && EVP_DigestInit_ex(context, EVP_sha1(), NULL) == 1);
    LK_ASSERT(EVP_DigestUpdate(context, name_space.bytes, sizeof name_space.bytes) == 1);
    LK_ASSERT(EVP_DigestUpdate(context, name.data, name.size) == 1);
    LK_ASSERT(EVP_DigestFinal_ex(context, digest, NULL) == 1);
    EVP_MD_CTX_free(context);
    memcpy(uuid.bytes, digest, sizeof uuid.bytes);
    uuid.bytes[6] = (uint8_t)(0x50 | (uuid.bytes[6] & 0x0F));
    uuid.bytes[8] = (uint8_t)(0x80 | (uuid.bytes[8] & 0x3F));
    return uuid;
}

bool lk_uuid_parse(lk_bytes text, lk_uuid *out)
{
    if (text.size != LK_UUID_TEXT_SIZE) {
        return false;
    }
    lk_uuid uuid = {{0}};
    size_t  digits = 0;
    for (size_t at = 0; at < text.size; at++) {
        if (hyphen_at(at)) {
            if (text.data[at] != '-') {
                return false;
            }
            continue;
        }
        int value = nibble(text.data[at]);
        if (value < 0) {
            return false;
        }
        uint8_t *byte = &uuid.bytes[digits++ / 2];
        *byte = (uint8_t)(*byte << 4 | value);
    }
    *out = uuid;
    return true;
}

void lk_uuid_format(lk_uuid uuid, char out[LK_UUID_TEXT_SIZE + 1])
{
    size_t digits = 0;
    for (size_t at = 0; at < LK_UUID_TEXT_SIZE; at++) {
        if (hyphen_at(at)) {
            out[at] = '-';
            continue;
        }
        uint8_t byte = uuid.bytes[digits / 2];
        out[at] = "0123456789abcdef"[digits % 2 == 0 ? byte >> 4 : byte & 0x0F];
        digits++;
    }
    out[LK_UUID_TEXT_SIZE] = '\0';
}

int lk_uuid_version(lk_uuid uuid)
{
    return uuid.bytes[6] >> 4;
}

uint64_t lk_uuid_v7_ms(lk_uuid uuid)
{
    uint64_t ms = 0;
    for (int i = 0; i < 6; i++) {
        ms = ms << 8 | uuid.bytes[i];
    }
    return ms;
}
