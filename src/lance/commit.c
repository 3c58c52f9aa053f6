/*
 * commit.c - see commit.h.
 */
#include "lance/commit.h"

static lk_rc commit(lk_committer *committer, lk_store *store, uint64_t version, lk_bytes final_key,
    lk_bytes manifest, bool *won, lk_err *err)
{
    (void)committer;
    (void)version;
    return lk_store_put_if_absent(store, final_key, manifest, won, err);
}

static lk_committer direct = {.commit = commit, .stands_alone = true};

lk_committer *lk_direct_committer(void)
{
    return &direct;
}

static lk_rc commit_late(lk_committer *committer, lk_store *store, uint64_t version, lk_bytes final_key,
    lk_bytes manifest, bool *won, lk_err *err)
{
    lk_store_staged *staged = NULL;
    (void)committer;
    (void)version;
    lk_rc rc = lk_store_stage(store, final_key, manifest, &staged, err);
    if (rc == LK_OK) {
        rc = lk_store_sync(store, err);
    }
    err->maybe_applied = false; /* it has no name yet */
    if (rc != LK_OK) {
        lk_store_discard(staged);
        return rc;
    }
    return lk_store_publish(staged, won, err);
}

static lk_committer late = {.commit = commit_late, .stands_alone = true};

lk_committer *lk_late_committer(void)
{
    return &late;
}
