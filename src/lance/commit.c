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
