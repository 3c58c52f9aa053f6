#ifndef LK_ROLLOUT_STORE_PRIV_H
#define LK_ROLLOUT_STORE_PRIV_H
/* store_priv.h - a store's own state, for the files that work on it (store.c, store_read.c, upkeep.c, fsck.c).
 * Threads: as store.h. */
#include "rollout/upkeep.h"

struct lk_manifest;
struct lk_compact_options;
/* What lk_rollout_store_fold does with this version of the base table; false: nothing. */
bool lk_rollout_plan_fold(const struct lk_manifest *manifest, struct lk_compact_options *out);

struct lk_rollout_store {
    atomic_uint        refs;
    lk_lance_env       env;
    lk_rollout_options options;
    lk_buf             instance_id;
    lk_uuid            shard;
    lk_rollout_view   *view;
    lk_rollout_writer *writer;
    atomic_bool        indexed;      /* the table was seen to have its index */
    atomic_ullong      base_version; /* as the last flush saw it */
    atomic_bool        told_pending; /* that there are many unmerged generations */
    lk_rollout_snapshot
        *admitted; /* of the flush at hand: its table's schema is in use; whoever leads the flush */
    bool anew;     /* the next look must see everything; of whoever leads */

    lk_mutex                 mutex;
    lk_cond                  merged;              /* no merge runs any more */
    bool                     merging, compacting; /* guarded by mutex, as are the following */
    lk_rollout_compact_stats compact;
    lk_rollout_store_stats   stats;
    uint64_t
        known_version; /* of the table, when it was last seen to be there, and that version's transaction: */
    lk_buf known_as;   /* a table that is made again under the same name has another */
};

#endif
