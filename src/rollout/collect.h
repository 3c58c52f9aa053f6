#ifndef LK_ROLLOUT_COLLECT_H
#define LK_ROLLOUT_COLLECT_H
/*
 * collect.h - removes what a shard needs no more: directories of generations that were merged or never listed, log entries
 * whose rows are in generations or merged, the contents of manifests that newer ones superseded.
 *
 * Invariants:
 *   1. A directory goes only when its generation's number was given, and no manifest has listed it for the time of grace:
 *      the present one does not, nor did the one that was in force so long ago or any later. Whoever began to read before
 *      has had that time to end.
 *   2. A log entry goes only when a claim would not replay it, it is not among the newest LK_ROLLOUT_LOG_KEPT, and it is not
 *      the first of its epoch: there a writer that was fenced and does not know yet would put its next one, and must find the
 *      place taken.
 *   3. A manifest is emptied only when newer ones have been in force for the time of grace. Its name stays, and takes no
 *      bytes: a writer that was stopped, a put that was under way for long, a hint of long ago all meet the chain as it is, and no
 *      version is ever made twice (docs/decisions/0010). Manifests are emptied in ascending order, a bounded number at once.
 * A collection that was stopped is ended by the next.
 *
 * Threads: stateless.
 */
#include "lance/dataset.h"
#include "rollout/shard.h"

#define LK_ROLLOUT_LOG_KEPT        64
#define LK_ROLLOUT_EMPTIED_AT_ONCE 4096

typedef struct lk_rollout_collect_report {
    uint64_t directories, log_entries; /* removed, or with dry_run to be removed */
    uint64_t manifests;                /* emptied, or to be */
} lk_rollout_collect_report;

/* Directories and manifests. The manifest `version` was in force when the time of grace began (0: none was, and nothing is
 * removed). */
LK_MUST_CHECK lk_rc lk_rollout_collect_since(const lk_lance_env *env, lk_uuid shard, uint64_t version,
    bool dry_run, lk_rollout_collect_report *report, lk_err *err);

/* The same when that version is not known: it is looked up by the times of the manifests' objects. */
LK_MUST_CHECK lk_rc lk_rollout_collect(const lk_lance_env *env, lk_uuid shard, uint64_t grace_ms,
    bool dry_run, lk_rollout_collect_report *report, lk_err *err);

/* Log entries. */
LK_MUST_CHECK lk_rc lk_rollout_collect_log(
    const lk_lance_env *env, lk_uuid shard, bool dry_run, lk_rollout_collect_report *report, lk_err *err);

/* How many directories no manifest lists whose generation was given a number. */
LK_MUST_CHECK lk_rc lk_rollout_count_orphans(
    const lk_lance_env *env, const lk_shard_manifest *latest, uint64_t *count, lk_err *err);

#endif
