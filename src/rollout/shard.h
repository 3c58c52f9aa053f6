#ifndef LK_ROLLOUT_SHARD_H
#define LK_ROLLOUT_SHARD_H
/*
 * shard.h - one MemWAL shard of a dataset: its chain of manifests, read by anyone, extended by whoever claimed it last.
 *
 *   version n --put if absent--> version n+1         claim: epoch + 1      commit: the writer's own epoch
 *
 * Invariants:
 *   1. A version is made by exactly one writer; versions have no gaps. One that is superseded may be emptied (collect.h), but
 *      its name stays: so no version is ever made twice, whoever makes it and however long it was on its way.
 *   2. A commit whose shard was claimed by somebody else meanwhile is LK_E_SHARD_FENCED, and nothing of it is visible.
 *   3. Epochs never fall. A writer uses the epoch of its claim for all its commits.
 *   4. version_hint.json is only ever a place to begin looking.
 *
 * Threads: reading is stateless; a writer is confined to one thread at a time.
 */
#include "io/store.h"
#include "rollout/shard_manifest.h"

/* The shards of the dataset whose directory `store` is rooted at: directories of _mem_wal/ that are UUIDs, ascending. */
LK_MUST_CHECK lk_rc lk_shard_list(
    lk_store *store, lk_arena *arena, lk_uuid **shards, size_t *count, lk_err *err);

/* The highest version by the listing, whether or not those before it are there; 0 when there is none. */
LK_MUST_CHECK lk_rc lk_shard_highest(
    lk_store *store, lk_uuid shard, lk_arena *arena, uint64_t *highest, lk_err *err);

/* The numbers that the listing of a directory of the shard has under names of so many digits and this suffix, ascending. */
LK_MUST_CHECK lk_rc lk_shard_numbers(lk_store *store, lk_uuid shard, lk_bytes directory, lk_bytes suffix,
    lk_arena *arena, uint64_t **numbers, size_t *count, lk_err *err);
/* Those of its manifests. */
LK_MUST_CHECK lk_rc lk_shard_versions(
    lk_store *store, lk_uuid shard, lk_arena *arena, uint64_t **versions, size_t *count, lk_err *err);

/*
 * The newest manifest. known: a version that was seen before, to begin at (0: none). *found = false when the shard has
 * none. LK_E_CORRUPT_FILE names the object that is damaged, or missing before later ones (lk_shard_check_end, where looking
 * is cheap).
 */
LK_MUST_CHECK lk_rc lk_shard_latest(lk_store *store, lk_uuid shard, uint64_t known, lk_arena *arena,
    lk_shard_manifest *out, bool *found, lk_err *err);

/* Readers of what seems to be the end of a chain look so far beyond it. */
#define LK_SHARD_LOOK_AHEAD 16
/* Whether `newest`, after which no version was found, is the end: LK_E_CORRUPT_FILE when there are later ones behind a gap. */
LK_MUST_CHECK lk_rc lk_shard_check_end(
    lk_store *store, lk_uuid shard, uint64_t newest, lk_arena *arena, lk_err *err);

/* The manifest of exactly this version: not found when it was emptied, too. */
LK_MUST_CHECK lk_rc lk_shard_at(lk_store *store, lk_uuid shard, uint64_t version, lk_arena *arena,
    lk_shard_manifest *out, bool *found, lk_err *err);

/* The newest when `known`, the newest that the caller has, may be out of date: *found = false when it is not. told: one that is
 * said to be there, to begin at (0: none). */
LK_MUST_CHECK lk_rc lk_shard_newer(lk_store *store, lk_uuid shard, uint64_t known, uint64_t told,
    lk_arena *arena, lk_shard_manifest *out, bool *found, lk_err *err);

/* The version that version_hint.json names; 0 when it names none. */
LK_MUST_CHECK lk_rc lk_shard_hint(lk_store *store, lk_uuid shard, uint64_t *version, lk_err *err);

/* The key of a version's manifest. */
lk_bytes lk_shard_manifest_key(lk_uuid shard, uint64_t version, lk_arena *arena);

/* "_mem_wal/<shard>/<name>" in the arena; name empty: the shard's directory. */
lk_bytes lk_shard_key(lk_uuid shard, lk_bytes name, lk_arena *arena);

/* -- writing ------------------------------------------------------------------------------------------------- */
typedef struct lk_shard_writer {
    lk_store         *store; /* borrowed; put_if_absent must be durable */
    lk_store         *hints; /* the same place, where hints cost nothing; NULL: store, and one now and then */
    uint64_t          epoch; /* of the claim */
    lk_shard_manifest manifest; /* the newest that is known, in arena */
    lk_arena          arena;
    lk_buf            room;     /* of the manifest's generations, once some were added */
    uint64_t          hinted;   /* the version that version_hint.json names */
    lk_store_staged  *staged;   /* the next manifest, as lk_shard_prepare made it, or NULL */
    lk_buf            prepared; /* its bytes; empty: none is prepared */
} lk_shard_writer;

/* version_hint.json follows this far behind at most: whoever begins there looks at so many versions. */
#define LK_SHARD_HINT_LAG 8

/*
 * Claims the shard: everyone who claimed it before is fenced. LK_E_PRECONDITION for a sealed one, LK_E_SHARD_FENCED when
 * another claims it at the same time and wins.
 */
LK_MUST_CHECK lk_rc lk_shard_claim(lk_store *store, lk_uuid shard, lk_shard_writer *out, lk_err *err);
void                lk_shard_writer_deinit(lk_shard_writer *writer); /* idempotent */

/* Makes the next manifest of the present one: changes *next, a copy of it, with memory of the arena. */
typedef lk_rc (*lk_shard_change)(void *context, lk_arena *arena, lk_shard_manifest *next, lk_err *err);

/*
 * Writes the manifest that the next lk_shard_commit is to publish, which must be of the same change: through a store that
 * syncs late its bytes are then synced together with what they list, and the commit has one wait less. Whatever fails here is
 * left to the commit.
 */
void lk_shard_prepare(lk_shard_writer *writer, lk_store *late, lk_shard_change change, void *context);
/* Drops what was prepared, when there will be no commit. */
void lk_shard_unprepare(lk_shard_writer *writer);

/*
 * Commits a change, which is made anew on the newest manifest when that moved (a merge by the same writer's other half).
 * LK_E_SHARD_FENCED; what change returns; LK_E_CONFLICT when it kept moving. err->maybe_applied: the outcome could not be
 * learned; only then may the change be visible after a failure.
 */
LK_MUST_CHECK lk_rc lk_shard_commit(
    lk_shard_writer *writer, lk_shard_change change, void *context, lk_err *err);

#endif
