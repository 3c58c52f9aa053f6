#ifndef LK_ROLLOUT_STORES_H
#define LK_ROLLOUT_STORES_H
/*
 * stores.h - the rollout stores of one data directory, as one instance works with them: made, found, listed and removed by
 * name, opened once and shared by all who ask, and looked after in the background (maintain.h).
 *
 * Invariants:
 *   1. Of an open store there is one handle in the process, so adds of all requests are grouped.
 *   2. Finding never makes anything: a name that nobody created is LK_E_NOT_FOUND, and storage stays as it is.
 *   3. After lk_rollouts_delete nothing that was begun before it is written any more; a store that is made again under the
 *      name is empty. Handles that are still held answer LK_E_TABLE_NOT_FOUND.
 *   4. What another instance made is found at once; that it removed a store is noticed within LK_ROLLOUT_STALE_MS.
 *
 * Threads: shared; mutex guards the table of open stores and is not held while one is opened or removed.
 */
#include "rollout/data_dir.h"
#include "rollout/maintain.h"
#include "rollout/upkeep.h"

typedef struct lk_rollouts lk_rollouts;

typedef struct lk_rollouts_options {
    lk_bytes data_dir;       /* a path, file:///PATH, s3://BUCKET/PREFIX; other schemes are refused by name */
    const lk_s3_options *s3; /* for s3://; borrowed until the end */
    lk_store *root; /* what data_dir names, opened by the caller and borrowed; NULL: it is opened here */
    lk_rollout_options store;   /* of every store; its keeper is set here */
    bool               durable; /* false only by name: --fsync=never */
    uint64_t
        disk_low_bytes; /* adds are LK_E_STORE_FULL while a local data directory's disk has less free; 0: never */
    lk_rollout_maintenance maintenance;
    uint64_t cache_bytes; /* of rows in memory, all stores together; 0: LK_ROLLOUT_CACHE_BYTES */
    size_t   open_max;    /* stores kept open that nobody uses; 0: LK_ROLLOUT_OPEN_MAX */
} lk_rollouts_options;

#define LK_ROLLOUT_CACHE_BYTES (2ULL * 1024 * 1024 * 1024)
#define LK_ROLLOUT_OPEN_MAX    2000
#define LK_ROLLOUT_STALE_MS    1000

/* LK_E_INVALID_CONFIG names what is wrong with the data directory. */
LK_MUST_CHECK lk_rc lk_rollouts_open(const lk_rollouts_options *options, lk_rollouts **out, lk_err *err);
void                lk_rollouts_close(lk_rollouts *stores); /* all handles were given back; accepts NULL */

/* Both give a reference: lk_rollout_store_unref. LK_E_INVALID_REQUEST for a name that cannot be. */
LK_MUST_CHECK lk_rc lk_rollouts_create(
    lk_rollouts *stores, lk_bytes name, lk_rollout_store **out, lk_err *err); /* LK_E_TABLE_EXISTS */
LK_MUST_CHECK lk_rc lk_rollouts_get(
    lk_rollouts *stores, lk_bytes name, lk_rollout_store **out, lk_err *err); /* LK_E_NOT_FOUND */

/* What lies in the data directory, ascending, in the arena: what other instances made, too. */
LK_MUST_CHECK lk_rc lk_rollouts_list(
    lk_rollouts *stores, lk_arena *arena, lk_bytes **names, size_t *count, lk_err *err);

/* Removes a store with everything in it. LK_E_NOT_FOUND. After another error it may be there, with fewer rows or none:
 * delete it again. */
LK_MUST_CHECK lk_rc lk_rollouts_delete(lk_rollouts *stores, lk_bytes name, lk_err *err);

/*
 * A count that changes when the store of this name is removed, here or (noticed) by another instance: who asked before it got a
 * handle, and again when it failed, knows why. (Names share counts; of two changes one may be another's.)
 */
uint64_t lk_rollouts_removals(const lk_rollouts *stores, lk_bytes name);

/* {data_dir}/{name}.rollout.lance */
lk_bytes lk_rollouts_uri(lk_rollouts *stores, lk_bytes name, lk_arena *arena);

/*
 * Whether a store may be created with this of its `storage_options`. Every instance opens every store with its own
 * settings, so an option is taken only where it says what they say: LK_E_INVALID_REQUEST names the key, never the value.
 * In a local directory such options mean nothing and are let be.
 */
LK_MUST_CHECK lk_rc lk_rollouts_check_storage_option(
    lk_rollouts *stores, lk_bytes key, lk_bytes value, lk_err *err);

/* Adopts the shard of an instance that is gone for good: whoever wrote it is fenced, and its generations are merged into
 * the table. LK_E_NOT_FOUND for a store without such a shard. */
LK_MUST_CHECK lk_rc lk_rollouts_adopt(
    lk_rollouts *stores, lk_bytes name, lk_bytes instance_id, lk_rollout_merge_report *report, lk_err *err);

typedef struct lk_rollouts_stats {
    uint64_t                     open;                                    /* handles */
    size_t                       cache_bytes, cache_peak;                 /* of the budget */
    uint64_t                     pages_found, pages_missed;               /* of base tables, in memory */
    uint64_t                     calls[LK_STORE_KINDS][LK_STORE_RESULTS]; /* to storage */
    lk_rollout_maintenance_stats maintenance;
} lk_rollouts_stats;
void lk_rollouts_read_stats(lk_rollouts *stores, lk_rollouts_stats *out);

/* Another mark of free bytes below which adds are refused (options.disk_low_bytes). */
void lk_rollouts_set_disk_low(lk_rollouts *stores, uint64_t bytes);

/* All stores' own figures, added up, of those that were closed or removed since the start, too. */
void lk_rollouts_read_store_stats(lk_rollouts *stores, lk_rollout_store_stats *out);

#endif
