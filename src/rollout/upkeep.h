#ifndef LK_ROLLOUT_UPKEEP_H
#define LK_ROLLOUT_UPKEEP_H
/*
 * upkeep.h - what operators ask of a store: compaction of its base table, a check of all that it refers to, removal of what
 * nothing refers to.
 *
 * Invariants:
 *   1. A compaction changes no row and no id, and leaves the table's MemWAL index as it is.
 *   2. A check changes nothing and goes on after damage, as far as that makes sense.
 *   3. Only directories of shards go whose generations were given a number, are listed nowhere, and are older than the time
 *      of grace; only log entries that no writer can need.
 *
 * Threads: as store.h. One compaction of a store runs at a time; adds and merges go on meanwhile.
 */
#include "rollout/collect.h"
#include "rollout/store.h"

/* -- compaction --------------------------------------------------------------------------------------------------- */
typedef struct lk_rollout_compact_report {
    uint64_t fragments_removed, fragments_added, files_removed, files_added, base_version;
} lk_rollout_compact_report;

/* Makes the base table's small or worn fragments into full ones, of target_rows (0: 1,048,576). LK_E_COMPACTION_IN_PROGRESS
 * when one is running here; LK_E_CONFLICT when another instance's got in between. */
LK_MUST_CHECK lk_rc lk_rollout_store_compact(
    lk_rollout_store *store, uint64_t target_rows, lk_rollout_compact_report *report, lk_err *err);

/* Folds small fragments, where there are LK_ROLLOUT_FOLD_FRAGMENTS of them beside each other at the end, or between large ones:
 * *folded. Called until it does not, it leaves fewer than two times that many small ones. */
LK_MUST_CHECK lk_rc lk_rollout_store_fold(lk_rollout_store *store, bool *folded, lk_err *err);

#define LK_ROLLOUT_FOLD_FRAGMENTS 16
#define LK_ROLLOUT_FOLD_ROWS      10000 /* a fragment with fewer is small */

typedef struct lk_rollout_compact_stats {
    uint64_t total_fragments, total_compactions;
    uint64_t last_ms; /* wall time of the last one's end; 0: none yet */
    bool     is_compacting;
    char     last_error[LK_ERR_DETAIL_BYTES]; /* "": the last one went well */
} lk_rollout_compact_stats;
LK_MUST_CHECK lk_rc lk_rollout_store_compact_stats(
    lk_rollout_store *store, lk_rollout_compact_stats *out, lk_err *err);

/* -- check ---------------------------------------------------------------------------------------------------------- */
typedef struct lk_rollout_shard_state {
    lk_uuid  id;
    bool     own; /* of this store's instance */
    uint64_t version, writer_epoch, current_generation, replay_after;
    uint64_t log_entries; /* that a claim would replay */
    uint64_t pending_generations, pending_rows;
    uint64_t orphans; /* directories that no manifest lists */
} lk_rollout_shard_state;

typedef struct lk_rollout_fsck_options {
    void (*shard)(void *context, const lk_rollout_shard_state *shard);  /* NULL: not told */
    void (*damage)(void *context, lk_bytes object, const char *reason); /* NULL: only counted */
    void      *context;
    lk_cancel *cancel;
} lk_rollout_fsck_options;

typedef struct lk_rollout_fsck_report {
    uint64_t base_version, base_rows, base_fragments;
    uint64_t shards, generations, generation_rows, orphans, damages;
} lk_rollout_fsck_report;

/*
 * Opens and decodes all that the store refers to: the newest version of its table, every listed generation of every shard,
 * log entries that are not in generations yet. LK_OK also when damage was found: the report says how much. Errors are what
 * stops the looking itself.
 */
LK_MUST_CHECK lk_rc lk_rollout_store_fsck(lk_rollout_store *store, const lk_rollout_fsck_options *options,
    lk_rollout_fsck_report *report, lk_err *err);

/* -- collection ----------------------------------------------------------------------------------------------------- */
typedef struct lk_rollout_gc_options {
    uint64_t grace_ms;
    bool     all_shards; /* else this instance's own */
    bool     log;        /* log entries, too */
    bool     dry_run;    /* only says what would go */
} lk_rollout_gc_options;

typedef lk_rollout_collect_report lk_rollout_gc_report;

LK_MUST_CHECK lk_rc lk_rollout_store_collect(
    lk_rollout_store *store, const lk_rollout_gc_options *options, lk_rollout_gc_report *report, lk_err *err);

#endif
