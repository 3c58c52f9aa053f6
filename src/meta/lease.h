#ifndef LK_META_LEASE_H
#define LK_META_LEASE_H
/*
 * lease.h - who may write: two records in the KV, moved by compare-and-set.
 *
 *   election/leader     {"holder","epoch"}                   the guard of every authority write
 *   election/heartbeat  {"holder","epoch","expires_at_ms"}   renewed; 0: resigned
 *
 *   absent --install--> held(1) --renew--> held(1) --resign--> resigned(1) --steal--> held(2) ...
 *
 * Invariants:
 *   1. Epochs only grow, by one per change of holder; both records change holder in one atomic write.
 *   2. Holding the exact leader record is the right to write. A renewal does not touch it, so it can never
 *      disturb a write that is under way (docs/decisions/0002).
 *   3. A live lease is stolen only by a node that watched the same heartbeat bytes for a whole TTL on its own
 *      monotonic clock: no wall clock, however wrong, ends a lease early. The holder's own authority ended
 *      before, because it counts the TTL from before its last renewal was sent.
 *   4. A record that cannot be read is an error and is never overwritten.
 *
 * Threads: an lk_lease is confined to the election thread.
 */
#include "base/clock.h"
#include "kv/kv.h"

#define LK_LEASE_KEY           LK_LITERAL("election/leader")
#define LK_LEASE_HEARTBEAT_KEY LK_LITERAL("election/heartbeat")

typedef enum lk_lease_role { LK_LEASE_UNKNOWN, LK_LEASE_FOLLOWER, LK_LEASE_LEADER } lk_lease_role;

typedef struct lk_lease {
    lk_kv    *kv; /* borrowed, as clock */
    lk_clock *clock;
    lk_bytes  node_id;    /* new with every process; borrowed */
    bool      sole_owner; /* the KV's lock proves that any other holder is dead */
    /* What the last round found. */
    lk_lease_role role;
    uint64_t      epoch;       /* of the leader record; 0: none seen */
    uint64_t      deadline_ms; /* LEADER: monotonic; our authority ends here */
    lk_buf        guard;       /* LEADER: the exact bytes of election/leader */
    /* The watch on somebody else's heartbeat (invariant 3). */
    lk_buf   watched;
    uint64_t watched_since_ms;
} lk_lease;

void lk_lease_init(lk_lease *lease, lk_kv *kv, lk_clock *clock, lk_bytes node_id, bool sole_owner);
void lk_lease_deinit(lk_lease *lease);

/* One round: installs, renews or steals, or finds who leads. Losing is LK_OK with another role. On an error
 * the role is UNKNOWN, also when the round took longer than LK_LEASE_CAMPAIGN_TIMEOUT_MS. */
LK_MUST_CHECK lk_rc lk_lease_round(lk_lease *lease, lk_err *err);

/* Gives the lease up if it is ours: the next node need not wait. Afterwards the role is UNKNOWN. */
LK_MUST_CHECK lk_rc lk_lease_resign(lk_lease *lease, lk_err *err);

#endif
