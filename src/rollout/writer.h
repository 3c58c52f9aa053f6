#ifndef LK_ROLLOUT_WRITER_H
#define LK_ROLLOUT_WRITER_H
/*
 * writer.h - the one writer of a shard: adds that come while a flush is running become the next generation together
 * (group commit), each one whole in it.
 *
 *   idle --add--> leading: prepare, [claim, prepare], files, sync, manifest --> idle
 *                   '-- adds that came meanwhile: one of them leads the next flush
 *
 * Invariants:
 *   1. lk_rollout_writer_add returns LK_OK only when its rows are durable and a shard manifest lists them; or, deferred, when
 *      they are in a durable log entry, which a manifest lists the rows of soon, or which the next claim replays.
 *   2. The rows of one add are visible all at once, or never.
 *   3. The shard is claimed at the first flush, and again only after the claim was lost: at once after a failure that
 *      may have left something behind, after LK_ROLLOUT_RECLAIM_MS, more or less, when another writer took it.
 *   4. replay_after never passes a log entry whose rows are in no listed generation.
 *
 *   5. Nothing is acknowledged that rests on a claim which was lost meanwhile.
 *
 * Threads: shared; mutex guards the queue; a flush holds no mutex. Deferred: a thread of its own seals what waited long
 * enough.
 */
#include "rollout/generation.h"
#include "rollout/shard.h"
#include "rollout/unsealed.h"
#include "rollout/wal.h"

#define LK_ROLLOUT_RECLAIM_MS 30000

/* One add, the caller's while it waits. */
typedef struct lk_rollout_add {
    struct lk_rollout_add *next;
    void                  *what; /* for prepare */
    lk_err                 err;  /* why it failed */
    lk_rc                  rc;
    bool                   done;
} lk_rollout_add;

typedef struct lk_rollout_writer_ops {
    /*
     * What is to be written for these adds: rows of the table's present columns, ids distinct; memory in the arena, batches
     * are unreferenced by the writer. An add may be refused alone by setting its rc and err. No rows at all is fine.
     */
    lk_rc (*prepare)(
        void *context, lk_rollout_add *adds, lk_arena *arena, lk_generation_rows *out, lk_err *err);
    /* The same for a log entry that was found when the shard was claimed. Borrows entry. */
    lk_rc (*replay)(void *context, lk_batches *entry, lk_arena *arena, lk_generation_rows *out, lk_err *err);
    /* After a flush: this generation is listed now, as the only change, by this manifest (borrowed). rows is what prepare or
     * replay gave. */
    void (*flushed)(void *context, const lk_shard_manifest *manifest, const lk_shard_generation *generation,
        const lk_generation_rows *rows);
    /* The shard was claimed just now, and prepare is asked again: what others wrote before must be seen. NULL: it always is. */
    void (*claimed)(void *context);
} lk_rollout_writer_ops;

typedef struct lk_rollout_writer_options {
    const lk_lance_env  *env;   /* store: rooted at the table's directory, durable */
    lk_store            *late;  /* the same place; may put off syncing; NULL: env's store */
    lk_generation_forms *forms; /* shared by writers; NULL: one's own */
    lk_uuid              shard;
    bool                 log;               /* write log entries */
    bool                 deferred;          /* acknowledge what is logged; `log` is set */
    uint64_t             flush_interval_ms; /* deferred: rows are sealed when they waited so long; not 0 */
    uint64_t             group_commit_us;   /* a flush waits so long for more adds first */
    const lk_rollout_writer_ops *ops;
    void                        *context;
} lk_rollout_writer_options;

typedef struct lk_rollout_writer lk_rollout_writer;
lk_rollout_writer               *lk_rollout_writer_new(const lk_rollout_writer_options *options);
void lk_rollout_writer_free(lk_rollout_writer *writer); /* nobody waits in it; seals what waits, if it can */

/* Makes what was acknowledged and waits visible: deferred only. What cannot be sealed stays in the log. */
LK_MUST_CHECK lk_rc lk_rollout_writer_seal(lk_rollout_writer *writer, lk_err *err);

/* Waits for the flush that has the rows of these adds, all in one; each says in rc and err what became of it. At least one. */
void lk_rollout_writer_add_all(lk_rollout_writer *writer, lk_rollout_add *adds);

/* Waits for the flush that has the rows of add. LK_E_SHARD_FENCED, what prepare refused it with, and what storing fails
 * with; maybe_applied when the outcome is unknown. */
LK_MUST_CHECK lk_rc lk_rollout_writer_add(lk_rollout_writer *writer, lk_rollout_add *add, lk_err *err);

/*
 * Commits another change of the shard's manifest (a merge's drain) between flushes, with the writer's claim. NULL: none, but
 * the shard is claimed afterwards, and its log replayed. LK_E_SHARD_FENCED when the claim is lost.
 */
LK_MUST_CHECK lk_rc lk_rollout_writer_commit(
    lk_rollout_writer *writer, lk_shard_change change, void *context, lk_err *err);

typedef struct lk_rollout_writer_stats {
    uint64_t epoch, flushes, adds, rows, fenced, replayed;
    size_t   pending_generations; /* of the newest manifest this writer knows */
    size_t   unsealed_rows;       /* acknowledged and not visible yet */
} lk_rollout_writer_stats;
void lk_rollout_writer_read_stats(lk_rollout_writer *writer, lk_rollout_writer_stats *out);

#endif
