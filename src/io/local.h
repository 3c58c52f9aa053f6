#ifndef LK_IO_LOCAL_H
#define LK_IO_LOCAL_H
/* local.h - lk_store over a local directory: put-if-absent by renameat2(2) without replacing, fsync of file and directory. */
#include "base/thread.h"
#include "io/store.h"

/* root need not exist yet; the first write makes it. durable = false skips every fsync (named opt-out). */
LK_MUST_CHECK lk_rc lk_local_store_open(lk_store **out, lk_bytes root, bool durable, lk_err *err);

/* Durable only at lk_store_sync (store.h): for a writer whose files are unreferenced until a commit that it makes
 * after the sync. New directories are made durably. pool (borrowed; NULL: none) syncs files side by side. */
LK_MUST_CHECK lk_rc lk_local_store_open_late(lk_store **out, lk_bytes root, lk_pool *pool, lk_err *err);

/* Before its first use: large files go to the disk while they are written (trickle.h). For a store of much that nobody waits
 * for, beside little that somebody does. */
void lk_local_store_trickle(lk_store *store);

#endif
