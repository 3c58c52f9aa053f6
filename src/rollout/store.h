#ifndef LK_ROLLOUT_STORE_H
#define LK_ROLLOUT_STORE_H
/*
 * store.h - one rollout store as an instance works with it: adds go to the instance's own shard, reads see the base table
 * and every shard, merges move the shard's generations into the base table.
 *
 * Invariants:
 *   1. lk_rollout_store_add returns LK_OK only when its records are durable and visible to every reader; with `deferred`,
 *      when they are durable in the log, and visible within the flush interval or by lk_rollout_store_flush.
 *   2. A merge that fails never fails the add that set it off.
 *   3. Nothing is created by opening; a store is created by one of its creators.
 *
 * Ownership: _create/_open/_ref/_unref shared.
 * Threads: shared. One merge at a time runs; adds go on meanwhile, but for the moment of its last step.
 */
#include "rollout/admit.h"
#include "rollout/blob.h"
#include "rollout/count.h"
#include "rollout/cursor.h"
#include "rollout/merge.h"

typedef enum lk_rollout_log { /* log entries of adds */
    LK_ROLLOUT_LOG_AUTO,      /* where an acknowledgement rests on them: deferred */
    LK_ROLLOUT_LOG_ALWAYS,    /* beside every generation, as the reference does */
    LK_ROLLOUT_LOG_NEVER      /* not with deferred */
} lk_rollout_log;

typedef struct lk_rollout_store lk_rollout_store;

/* Who keeps a store (stores.h). Each may be NULL. */
typedef struct lk_rollout_keeper {
    lk_rc (*may_write)(
        void *context, lk_err *err); /* asked before every add is written: room, for instance */
    void (*merge_due)(
        void *context, lk_rollout_store *store); /* merges it soon; NULL: the add that sets it off does */
    void (*merged)(void *context, lk_rollout_store *store); /* after a merge of any generations */
    void (*released)(void *context); /* after the last reference went and the store is closed */
    void *context;
} lk_rollout_keeper;

typedef struct lk_rollout_options {
    lk_bytes instance_id; /* whose shard; not empty, copied */
    uint64_t merge_after; /* an add that makes so many generations pending merges them all; 0: never */
    lk_rollout_conflict on_conflict;
    lk_rollout_log      log;
    uint64_t group_commit_us;   /* how long a flush waits for more adds; 0: as long as another one runs */
    bool     deferred;          /* an add is acknowledged when it is logged, and visible after a flush */
    uint64_t flush_interval_ms; /* deferred: how long after; not 0 */
    bool     strict_alignment;  /* lists of an output's tokens must be as long as output_tokens */
    bool     older_columns;     /* create: the 31 of lance-context 0.6.3 */
    uint64_t pending_warn,
        pending_max; /* unmerged generations of one shard that a read tells of, refuses at; 0: never */
    /* As `late` below is of flushes, of merges; borrowed, for this store alone. NULL: theirs are not synced together. */
    lk_store                   *merge_late;
    struct lk_generation_forms *forms; /* shared by the stores of a process (generation.h); NULL: one's own */
    lk_rollout_keeper           keeper;
} lk_rollout_options;

/* The object in a store's directory that says that the store is being removed: nobody opens or makes one there. */
#define LK_ROLLOUT_REMOVED_MARK "_removed"

/*
 * env->store is rooted at the store's own directory and durable; late: the same place, for files that may be synced together
 * (NULL: env->store). All borrowed. LK_E_INVALID_REQUEST: options that contradict each other; LK_E_TABLE_EXISTS; LK_E_NOT_FOUND (and nothing is made); LK_E_UNSUPPORTED_FORMAT.
 */
LK_MUST_CHECK lk_rc lk_rollout_store_create(const lk_lance_env *env, lk_store *late,
    const lk_rollout_options *options, lk_rollout_store **out, lk_err *err);
LK_MUST_CHECK lk_rc lk_rollout_store_open(const lk_lance_env *env, lk_store *late,
    const lk_rollout_options *options, lk_rollout_store **out, lk_err *err);
lk_rollout_store   *lk_rollout_store_ref(lk_rollout_store *store);
void                lk_rollout_store_unref(lk_rollout_store *store); /* accepts NULL */

/* Nobody but the caller has a reference. */
bool lk_rollout_store_is_idle(const lk_rollout_store *store);

/* Whether the table that was opened still lies there: it may be being removed, or have been, and made again, by others. */
LK_MUST_CHECK lk_rc lk_rollout_store_is_present(lk_rollout_store *store, bool *present, lk_err *err);

lk_uuid lk_rollout_store_shard(const lk_rollout_store *store);
bool lk_rollout_store_is_far(const lk_rollout_store *store); /* as of lk_store: its adds wait for a network */

/* Several adds that are stored together, each as if it stood alone: what a server's many clients bring meanwhile. */
typedef struct lk_rollout_submission {
    struct lk_rollout_submission *next;
    lk_rc                         rc; /* what became of it, and why */
    lk_err                        err;
    lk_rollout_add                add; /* private, as is the following */
    lk_rollout_request            request;
    bool                         *has_time;
} lk_rollout_submission;

/* Finishes the builder (payloads_due as there): work that needs no turn. LK_E_INVALID_REQUEST. */
LK_MUST_CHECK lk_rc lk_rollout_submission_init(
    lk_rollout_submission *submission, lk_records *records, bool payloads_due, lk_err *err);
/* The same for a builder with the records of several adds, counts[i] each, one after the other. None is there when it fails. */
LK_MUST_CHECK lk_rc lk_rollout_submissions_init(lk_rollout_submission *const *submissions,
    const size_t *counts, size_t count, lk_records *records, bool payloads_due, lk_err *err);
void                lk_rollout_submission_deinit(lk_rollout_submission *submission); /* accepts zero */

/* Waits until each of the list is stored or refused (rc, err: as of lk_rollout_store_add). At least one. */
void lk_rollout_store_submit(
    lk_rollout_store *store, lk_rollout_submission *submissions, uint64_t *base_version);

/* Adds the records of a builder that was filled and not finished; payloads_due as there. *base_version may be NULL.
 * LK_E_INVALID_REQUEST, LK_E_CONFLICT (an id is taken), LK_E_SHARD_FENCED, storage's errors; err->maybe_applied. */
LK_MUST_CHECK lk_rc lk_rollout_store_add(
    lk_rollout_store *store, lk_records *records, bool payloads_due, uint64_t *base_version, lk_err *err);

/* Makes what was acknowledged visible: nothing to do unless the store is deferred. */
LK_MUST_CHECK lk_rc lk_rollout_store_flush(lk_rollout_store *store, lk_err *err);

/* base_version 0: everything, now; else the base table alone at that version. */
LK_MUST_CHECK lk_rc lk_rollout_store_snapshot(
    lk_rollout_store *store, uint64_t base_version, lk_rollout_snapshot **out, lk_err *err);

/* -- lists that go on, on any instance ---------------------------------------------------------------------- */
/* Appends the cursor of a page of `query` over `snapshot` that ended with `last`: URL-safe text. Not for
 * LK_ROLLOUT_ANY. LK_E_LIMIT: too many shards have unmerged generations to name them all. */
LK_MUST_CHECK lk_rc lk_rollout_store_cursor(lk_rollout_store *store, const lk_rollout_snapshot *snapshot,
    const lk_rollout_query *query, const lk_rollout_key *last, lk_buf *out, lk_err *err);

/*
 * The snapshot of a cursor, exactly: whatever was added or merged since is not in it. *after is query->after, its texts in
 * the arena. LK_E_INVALID_REQUEST: not a cursor, or not of this store and this query's filters and order. LK_E_SNAPSHOT_GONE: its
 * rows cannot be told from later ones any more (merged by other software and collected, or versions were removed).
 */
LK_MUST_CHECK lk_rc lk_rollout_store_resume(lk_rollout_store *store, lk_bytes text,
    const lk_rollout_query *query, lk_arena *arena, lk_rollout_snapshot **out, lk_rollout_key *after,
    lk_err *err);

/* -- waiting ------------------------------------------------------------------------------------------------- */
/* How often a waiting reader looks for what other instances wrote; what this one wrote wakes it at once. */
#define LK_ROLLOUT_POLL_MS 100

/*
 * What was added since a tail's cursor, every row at least once whether it was merged meanwhile or not: waits for some until
 * the monotonic deadline. cursor "": from now on, at once and without rows. *out is a snapshot to query that has the new
 * rows only (maybe none: row_count 0); the next cursor is appended to *next. Errors: as of lk_rollout_store_resume.
 */
LK_MUST_CHECK lk_rc lk_rollout_store_tail(lk_rollout_store *store, lk_bytes cursor, uint64_t deadline_ms,
    lk_cancel *cancel, lk_rollout_snapshot **out, lk_buf *next, lk_err *err);

/* Claims this instance's shard, whoever has it, and makes what only its log has a generation. Adds and merges do so by
 * themselves. */
LK_MUST_CHECK lk_rc lk_rollout_store_claim(lk_rollout_store *store, lk_err *err);

/* Merges what is pending of this instance's shard. LK_E_CONFLICT when that is being done already. */
LK_MUST_CHECK lk_rc lk_rollout_store_merge(lk_rollout_store *store, const lk_rollout_merge_options *options,
    lk_rollout_merge_report *report, lk_err *err);

typedef struct lk_rollout_store_stats {
    lk_rollout_writer_stats writer;
    uint64_t                merges, merge_failures, merged_generations, merged_rows;
    uint64_t generations_wanted, generations_loaded; /* by snapshots, and those read from storage */
} lk_rollout_store_stats;
void lk_rollout_store_read_stats(lk_rollout_store *store, lk_rollout_store_stats *out);

#endif
