#ifndef LK_ROLLOUT_SHARD_MANIFEST_H
#define LK_ROLLOUT_SHARD_MANIFEST_H
/*
 * shard_manifest.h - one version of a MemWAL shard: who may write it, and which generations it has.
 * Format: message ShardManifest of the Lance table format (MemWAL), without any frame, in objects
 * `_mem_wal/<shard>/manifest/<version>.binpb`, where the version is 64 binary digits, lowest bit first.
 *
 * Invariants:
 *   1. What is encoded after a decode and a change differs in what was changed only: fields that we do not know, of the
 *      manifest and of its generations, are kept byte for byte.
 *   2. Generations are in ascending order; their numbers are distinct and below current_generation.
 * Threads: stateless.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/uuid.h"

typedef struct lk_shard_generation {
    uint64_t number; /* 1 or more; the higher is the newer */
    lk_bytes path;   /* a directory of the shard's, one plain name */
    lk_bytes rest;   /* the message's other fields */
} lk_shard_generation;

typedef struct lk_shard_manifest {
    uint64_t             version;      /* from 1 without gaps */
    uint64_t             writer_epoch; /* a writer of a lower one is fenced */
    uint64_t             replay_after; /* WAL entries up to this position are in generations or merged */
    uint64_t             wal_last_seen;
    uint64_t             current_generation; /* the next number to give */
    uint32_t             spec_id; /* the shard's sharding spec; 0: as the writers of rollout stores have it */
    lk_uuid              shard;
    bool                 sealed; /* nobody may claim it again */
    lk_shard_generation *generations;
    size_t               generation_count;
    lk_bytes             rest; /* fields that are not named here */
} lk_shard_manifest;

/* Everything points into the arena. LK_E_CORRUPT_FILE says what is wrong with it. */
LK_MUST_CHECK lk_rc lk_shard_manifest_decode(
    lk_bytes bytes, lk_arena *arena, lk_shard_manifest *out, lk_err *err);
void lk_shard_manifest_encode(const lk_shard_manifest *manifest, lk_buf *out);

/*
 * Moves a kept manifest on to `next`, which has its generations and `added` behind them (next's own list is not looked at):
 * a writer's adds cost what they add, however many generations wait. Copies go to the arena, the list to `room`, which
 * belong to kept; pointers to its generations are stale afterwards.
 */
void lk_shard_manifest_follow(lk_shard_manifest *kept, lk_arena *arena, lk_buf *room,
    const lk_shard_manifest *next, const lk_shard_generation *added, size_t count);

/* The generation of this number, or NULL. */
const lk_shard_generation *lk_shard_manifest_find(const lk_shard_manifest *manifest, uint64_t number);

/* -- names ------------------------------------------------------------------------------------------------- */
enum { LK_SHARD_POSITION_DIGITS = 64 };

/* 64 binary digits of value, lowest bit first, and a NUL: names of manifests and of WAL entries. */
void lk_shard_position_format(uint64_t value, char out[LK_SHARD_POSITION_DIGITS + 1]);
/* false unless name is exactly so many digits followed by suffix. */
bool lk_shard_position_parse(lk_bytes name, lk_bytes suffix, uint64_t *value);

/* The shard of an instance: UUID v5 of its name in the OID name space (RFC 9562). */
lk_uuid lk_shard_of_instance(lk_bytes instance_id);

#endif
