#ifndef LK_LANCE_MEM_WAL_H
#define LK_LANCE_MEM_WAL_H
/*
 * mem_wal.h - the MemWAL index of a table, which says that rows of it may lie in shards below `_mem_wal/` that are not in
 * its fragments yet. It has no fields and no files, only details. (Lance table format, MemWalIndexDetails.)
 * Threads: stateless.
 */
#include "lance/dataset.h"

/* Whether the table has one. */
LK_MUST_CHECK lk_rc lk_mem_wal_found(lk_dataset *dataset, bool *found, lk_err *err);

/*
 * Makes it: shards are not told apart by any column, as the writers of rollout stores have it. *out is the version that
 * has it: base again when it has one already, the newest when another writer made one meanwhile.
 */
LK_MUST_CHECK lk_rc lk_mem_wal_create(
    lk_dataset *base, lk_committer *committer, lk_dataset **out, lk_err *err);

#endif
