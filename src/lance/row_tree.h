#ifndef LK_LANCE_ROW_TREE_H
#define LK_LANCE_ROW_TREE_H
/*
 * row_tree.h - a set of 64-bit row ids or addresses as indices store it, from outside:
 *
 *   u32 count, then for each block u32 high half, u32 size, and a Roaring bitmap of low halves; size 0: all of them
 *
 * Threads: stateless.
 */
#include "base/bytes.h"
#include "base/err.h"

/* Rows [first, first + count) of one block: count is 2^32 for a whole one, which begins at 0. */
typedef lk_rc lk_row_tree_add(void *context, uint64_t first, uint64_t count, lk_err *err);

/* LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_row_tree_read(lk_bytes bytes, lk_row_tree_add *add, void *context, lk_err *err);

#endif
