#ifndef LK_ROLLOUT_PK_INDEX_H
#define LK_ROLLOUT_PK_INDEX_H
/*
 * pk_index.h - the ids of a generation in order, with their rows: what the reference's LSM reader looks keys up in.
 * Format: a BTREE index's files (Lance file version 2.0) in `_pk_index/`: page_data.lance (values, ids) of pages of 8,192
 * entries, page_lookup.lance (min, max, null_count, page_idx). Threads: stateless.
 */
#include "io/store.h"

/* Writes both files for rows 0 .. count-1 with these ids, which are distinct. store: rooted at the generation. */
LK_MUST_CHECK lk_rc lk_pk_index_write(lk_store *store, const lk_bytes *ids, size_t count, lk_err *err);

#endif
