#ifndef LK_ROLLOUT_ADMIT_H
#define LK_ROLLOUT_ADMIT_H
/*
 * admit.h - which of the records that a group of adds brings are written: ids are unique and rows immutable.
 *
 * A record whose id is there already, in the snapshot, earlier in its request or in an earlier add of the group, is the
 * same one again when all its fields are equal (but a time that this server gave it): it is left out, and the add succeeds.
 * Another one is a conflict, which the policy decides.
 * Threads: stateless.
 */
#include "rollout/records.h"
#include "rollout/view.h"
#include "rollout/writer.h"

typedef enum lk_rollout_conflict {
    LK_ROLLOUT_CONFLICT_REFUSE, /* the whole add, LK_E_CONFLICT naming the id */
    LK_ROLLOUT_CONFLICT_KEEP,   /* what is there stays; the record is left out */
    LK_ROLLOUT_CONFLICT_ACCEPT  /* it is written; readers show the newest (as the reference does) */
} lk_rollout_conflict;

/* What an add brings (lk_rollout_add.what): rows of a batch of the record's schema, newer columns included. Adds of one batch stand
 * side by side, in its order: they are written from it without being taken apart. */
typedef struct lk_rollout_request {
    lk_shared_array *records;
    const bool      *has_time; /* per record: it came with its created_at */
    int64_t          first, count;
} lk_rollout_request;

/* LK_E_INVALID_REQUEST names a record whose output_logprobs, loss_mask or ref_logprobs is there and not as long as its
 * output_tokens. */
LK_MUST_CHECK lk_rc lk_rollout_check_alignment(const lk_rollout_request *request, lk_err *err);

/*
 * Chooses for every add, but for those that were refused before (rc), which may be refused alone (its rc and err), and gives
 * the rows to write in the columns of the snapshot's table; memory in the arena, batches to be unreferenced. Two records with
 * one id and other fields within one request are LK_E_INVALID_REQUEST whatever the policy. LK_E_SNAPSHOT_GONE when a payload
 * that a record's must equal was collected since: with a newer snapshot it is found.
 */
LK_MUST_CHECK lk_rc lk_rollout_admit(lk_rollout_snapshot *snapshot, lk_rollout_conflict policy,
    lk_rollout_add *adds, lk_arena *arena, lk_generation_rows *out, lk_err *err);

#endif
