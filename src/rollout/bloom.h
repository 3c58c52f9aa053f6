#ifndef LK_ROLLOUT_BLOOM_H
#define LK_ROLLOUT_BLOOM_H
/*
 * bloom.h - the set of ids of a generation as a split-block Bloom filter: what is not in it is not in the generation. It is
 * written for the published readers; ours has the ids themselves.
 * Format: `bloom_filter.bin` of MemWAL generations: 1,024 blocks of eight 32-bit little-endian words, salts as in Parquet's
 * Bloom filter specification, over SipHash-1-3 with a zero key of the id as Rust's Hash for str feeds it (a zero byte,
 * the id, 0xff). Threads: stateless.
 */
#include "base/bytes.h"

enum { LK_BLOOM_SIZE = 32768 };

uint64_t lk_bloom_hash(lk_bytes id);

void lk_bloom_add(uint8_t filter[LK_BLOOM_SIZE], uint64_t hash);

#endif
