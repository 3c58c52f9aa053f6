#ifndef LK_META_ELECT_H
#define LK_META_ELECT_H
/*
 * elect.h - the thread that campaigns, and what it found: may this node write, and with which evidence.
 *
 * Invariants:
 *   1. Evidence is given out only while this node's own deadline lies ahead and no round has been on its way
 *      for LK_LEASE_CAMPAIGN_TIMEOUT_MS: a stuck thread or store ends the authority by itself.
 *   2. Resigning comes last (lk_elect_deinit): the owner has stopped writing.
 *
 * Threads: shared; the published state is guarded by mutex (META). The lease itself belongs to the thread.
 */
#include "base/thread.h"
#include "meta/lease.h"

typedef struct lk_elect {
    lk_lease  lease; /* confined to the thread while it runs */
    lk_clock *clock;
    void (*changed)(void *context); /* after a change of role or epoch; called without the mutex */
    void     *context;
    lk_thread thread;
    bool      made, running; /* of the owner: init was called, the thread runs */
    lk_mutex  mutex;
    lk_cond   wake;
    /* Guarded by mutex. */
    bool          stop;
    lk_lease_role role;
    uint64_t      epoch, deadline_ms, round_since_ms; /* round_since_ms 0: none on its way */
    uint64_t      heard_ms;                           /* when another leader's heartbeat last moved */
    lk_buf        guard;
} lk_elect;

/* Fills *elect; nothing runs yet and it does not lead. node_id is borrowed. */
void lk_elect_init(lk_elect *elect, lk_kv *kv, lk_clock *clock, lk_bytes node_id, bool sole_owner,
    void (*changed)(void *context), void *context);

/* Starts the thread; the first round begins at once. */
LK_MUST_CHECK lk_rc lk_elect_start(lk_elect *elect, lk_err *err);

/* One round now, on the caller's thread: what the thread does, and how tests lead without one. */
void lk_elect_round(lk_elect *elect);

/* Stops and joins the thread; the lease stays until it runs out. Accepts one that never started. */
void lk_elect_halt(lk_elect *elect);

/* Halts, and resigns if the lease is ours. Accepts zero. */
void lk_elect_deinit(lk_elect *elect);

/* The exact leader record to guard a write with, copied into arena; false: this node may not write now.
 * epoch may be NULL. */
bool lk_elect_evidence(lk_elect *elect, lk_arena *arena, lk_bytes *guard, uint64_t *epoch);

/* A write met another leader's record: do not wait for the deadline to find out. */
void lk_elect_deposed(lk_elect *elect, uint64_t epoch);

typedef struct lk_elect_view {
    bool     leader;       /* as lk_elect_evidence */
    bool     leader_known; /* this node, or another that was seen within a TTL */
    uint64_t epoch;
} lk_elect_view;
void lk_elect_view_get(lk_elect *elect, lk_elect_view *out);

#endif
