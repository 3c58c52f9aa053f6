/* bloom.c - see bloom.h. */
#include "rollout/bloom.h"

enum { WORDS = 8, BLOCK_SIZE = 4 * WORDS };

static const uint32_t salts[WORDS] = {
    0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31};

/* -- SipHash-1-3 (Aumasson and Bernstein, SipHash: a fast short-input PRF), with the key zero -------------------- */

typedef struct sip {
    uint64_t v0, v1, v2, v3;
} sip;

static uint64_t rotate(uint64_t value, unsigned by)
{
    return value << by | value >> (64 - by);
}

static void sip_round(sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v2 = rotate(s->v2, 32);
}

static void sip_word(sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

/* The byte at `at` of 0x00, id, 0xff. */
static uint8_t framed(lk_bytes id, size_t at)
{
    return at == 0 ? 0 : at <= id.size ? (uint8_t)id.data[at - 1] : 0xff;
}

uint64_t lk_bloom_hash(lk_bytes id)
{
    sip    s = {0x736f6d6570736575, 0x646f72616e646f6d, 0x6c7967656e657261, 0x7465646279746573};
    size_t size = id.size + 2, at = 0;
    for (; at + 8 <= size; at += 8) {
        uint64_t word = 0;
        if (at > 0 && at + 7 <= id.size) {
            word = lk_load_u64(id.data + at - 1);
        } else {
            for (size_t i = 0; i < 8; i++) {
                word |= (uint64_t)framed(id, at + i) << (8 * i);
            }
        }
        sip_word(&s, word);
    }
    uint64_t last = (uint64_t)size << 56;
    for (size_t i = 0; at + i < size; i++) {
        last |= (uint64_t)framed(id, at + i) << (8 * i);
    }
    sip_word(&s, last);
    s.v2 ^= 0xff;
    for (int i = 0; i < 3; i++) {
        sip_round(&s);
    }
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* -- the filter ---------------------------------------------------------------------------------------------- */

void lk_bloom_add(uint8_t filter[LK_BLOOM_SIZE], uint64_t hash)
{
    uint8_t *block = filter + ((hash >> 32) * (LK_BLOOM_SIZE / BLOCK_SIZE) >> 32) * BLOCK_SIZE;
    for (size_t word = 0; word < WORDS; word++) {
        uint32_t bit = UINT32_C(1) << ((uint32_t)hash * salts[word] >> 27);
        lk_store_u32(block + 4 * word, lk_load_u32(block + 4 * word) | bit);
    }
}
