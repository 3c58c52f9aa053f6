#ifndef LK_LANCE_COMMIT_H
#define LK_LANCE_COMMIT_H
/*
 * commit.h - who decides the next version of a dataset. The Lance code builds the manifest bytes of
 * version n+1 and hands them over; the committer makes exactly one writer the winner.
 *
 * Bodies: lk_direct_committer (a dataset that stands alone: put-if-absent of the final name) here;
 * engine/pointer (a table that Metasrv owns: staging manifest, compare-and-set in the KV, final name).
 * Threads: a committer is shared unless its body says otherwise.
 */
#include "base/arena.h"
#include "base/err.h"
#include "io/store.h"

typedef struct lk_committer lk_committer;

struct lk_committer {
    /*
     * Publishes `manifest` as `version` (base version + 1). *won = false: another writer has that version
     * and nothing of ours is visible. An error with maybe_applied means unknown: reopen and look.
     * final_key is the manifest's final name, relative to the dataset's root.
     */
    lk_rc (*commit)(lk_committer *committer, lk_store *store, uint64_t version, lk_bytes final_key,
        lk_bytes manifest, bool *won, lk_err *err);
    bool stands_alone; /* the Lance code may rebase and try the next version by itself */
};

/* The put-if-absent committer; constant, no state. */
lk_committer *lk_direct_committer(void);

/* The same for a store that puts off syncing: the manifest and all that was written through the store before become durable
 * together, then it gets its name. Whoever else uses the store does so for one commit at a time (io/late.h). */
lk_committer *lk_late_committer(void);

#endif
