#ifndef LK_ROLLOUT_VIEW_H
#define LK_ROLLOUT_VIEW_H
/*
 * view.h - what a reader of a rollout store sees: the base table at a version and the generations that shards listed, as
 * one immutable snapshot; and the cache that makes the next one cheap.
 *
 * Invariants:
 *   1. A snapshot has every row whose add was acknowledged, by any instance, before it was asked for: shard manifests are
 *      read first, then the base table, so a merge that goes on meanwhile can show a row twice but never hide it.
 *   2. Of an id that is there more than once one row counts: a generation's over the base's; of generations the one of
 *      the higher shard id, of one shard the higher number.
 *   3. Nothing is believed of an earlier snapshot but what is immutable.
 *
 * Ownership: snapshots are counted. Threads: shared; mutex guards the cache, reading holds none.
 */
#include "rollout/base_ids.h"
#include "rollout/id_tree.h"

typedef struct lk_rollout_view lk_rollout_view;

/* A shard as a snapshot saw it. */
typedef struct lk_rollout_pin {
    lk_uuid  shard;
    uint64_t version; /* of its manifest */
    uint64_t first;   /* the number of its oldest generation; next: it has none */
    uint64_t next;    /* the number that its next generation gets */
} lk_rollout_pin;

typedef struct lk_rollout_snapshot {
    lk_dataset        *base;
    lk_rollout_form   *form;         /* of all rows */
    bool               without_base; /* its rows do not count: what came since, and nothing else */
    lk_rollout_pin    *pins;         /* of every shard, ascending; none for the base table at a version */
    size_t             pin_count;
    lk_rollout_rows  **sources;                 /* generations, the ones that count more first */
    size_t             source_count, row_count; /* row_count: of the sources, copies included */
    lk_base_ids       *base_ids;                /* which ids base may have; NULL: any */
    struct lk_id_tree *ids;                     /* where each id of the sources is */
    atomic_uint        refs;                    /* private */
} lk_rollout_snapshot;

/* env->store is rooted at the table's directory; env is borrowed, base (its newest version, or any) is referenced. */
lk_rollout_view *lk_rollout_view_new(const lk_lance_env *env, lk_dataset *base);
void             lk_rollout_view_free(lk_rollout_view *view); /* accepts NULL */

/* The newest. LK_E_STORE_UNAVAILABLE when generations were collected again and again while it was put together;
 * LK_E_CORRUPT_FILE names what is damaged; LK_E_LIMIT. */
LK_MUST_CHECK lk_rc lk_rollout_view_take(lk_rollout_view *view, lk_rollout_snapshot **out, lk_err *err);

/* What is known: the newest of at most age_ms ago, with all that this instance flushed since. Nothing is awaited unless it is
 * older: env->pool, if there is one, looks again before that. For whoever must not wait for a network and may miss what others did in that time. */
LK_MUST_CHECK lk_rc lk_rollout_view_recall(
    lk_rollout_view *view, uint64_t age_ms, lk_rollout_snapshot **out, lk_err *err);

/* Takes the rows of a generation that a manifest lists now: the next snapshot need not load them. */
void lk_rollout_view_give(lk_rollout_view *view, lk_rollout_rows *rows);

/* A shard's manifest (borrowed) is there, and `added` is all that it changed: the next snapshot goes on from there, without
 * reading it when it knows the one before. Of one manifest; of others it is forgotten. */
void lk_rollout_view_tell(
    lk_rollout_view *view, const lk_shard_manifest *manifest, const lk_shard_generation *added);

/* A version of the base table that was committed here (referenced): the next snapshot begins to look there. Of one
 * version; of others it is forgotten. */
void lk_rollout_view_give_base(lk_rollout_view *view, lk_dataset *base);

/* What hints of a far store say, to be read before there is a view, while its base table is opened. */
typedef struct lk_rollout_outlook {
    lk_arena  arena;
    lk_uuid  *shards;
    uint64_t *versions;
    size_t    count;
} lk_rollout_outlook;
LK_MUST_CHECK lk_rc lk_rollout_look_out(const lk_lance_env *env, lk_rollout_outlook *out, lk_err *err);
void                lk_rollout_outlook_deinit(lk_rollout_outlook *outlook);
/* Before the first snapshot. Takes nothing. */
void lk_rollout_view_expect(lk_rollout_view *view, const lk_rollout_outlook *outlook);

/* The base table at a version, without any generation. LK_E_NOT_FOUND. */
LK_MUST_CHECK lk_rc lk_rollout_view_at(
    lk_rollout_view *view, uint64_t version, lk_rollout_snapshot **out, lk_err *err);

/* The one that was taken last, however old, or NULL. A new reference. */
lk_rollout_snapshot *lk_rollout_view_last(lk_rollout_view *view);

/* Generations that snapshots were made of, and those of them that had to be read from storage. */
void lk_rollout_view_count(const lk_rollout_view *view, uint64_t *wanted, uint64_t *loaded);

/* What is known is renewed on the pool, if there is one, so that who asks next finds less to do. */
void lk_rollout_view_renew(lk_rollout_view *view);

/* Readers that wait: _stir wakes those that rest, _stirs counts such calls, _rest returns at the monotonic deadline or when the
 * count is no longer `stirs`, whichever is first. */
void     lk_rollout_view_stir(lk_rollout_view *view);
uint64_t lk_rollout_view_stirs(lk_rollout_view *view);
void     lk_rollout_view_rest(lk_rollout_view *view, uint64_t stirs, uint64_t deadline_ms);

/* A snapshot of other sources: without any, until as many as `room` were put in, in the order in which they count; then
 * sealed, and immutable from there on. */
lk_rollout_snapshot *lk_rollout_snapshot_new(
    lk_rollout_form *form, lk_dataset *base, size_t room, size_t pin_room);
lk_rollout_form *lk_rollout_view_form(const lk_rollout_view *view); /* borrowed */
void             lk_rollout_snapshot_seal(lk_rollout_snapshot *snapshot);
/* The same of one that was grown out of the last one (NULL: of nothing), whose ids it goes on from. */
void lk_rollout_snapshot_seal_after(lk_rollout_snapshot *next, const lk_rollout_snapshot *last);

lk_rollout_snapshot *lk_rollout_snapshot_ref(lk_rollout_snapshot *snapshot);
void                 lk_rollout_snapshot_unref(lk_rollout_snapshot *snapshot); /* accepts NULL */

/* Where the id's row is that counts, among the sources. */
bool lk_rollout_snapshot_place(const lk_rollout_snapshot *snapshot, lk_bytes id, lk_rollout_place *out);

static inline bool lk_rollout_snapshot_has_base(const lk_rollout_snapshot *snapshot)
{
    return !snapshot->without_base && lk_dataset_row_count(snapshot->base) > 0;
}

/*
 * The rows of these ids, in the order of lk_rollout_rows_schema: out->length rows, of which wanted[i] says whose the i-th
 * is (its index among ids). Ids that no row has are left out; ids must be distinct.
 */
LK_MUST_CHECK lk_rc lk_rollout_snapshot_find(lk_rollout_snapshot *snapshot, const lk_bytes *ids, size_t count,
    lk_cancel *cancel, struct ArrowArray *out, size_t *wanted, lk_err *err);

#endif
