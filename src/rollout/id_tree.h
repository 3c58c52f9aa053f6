#ifndef LK_ROLLOUT_ID_TREE_H
#define LK_ROLLOUT_ID_TREE_H
/*
 * id_tree.h - which row of which generation an id is, for one snapshot after another: a tree of two levels over the ids'
 * hashes, of which a changed copy shares what did not change. An add costs what its ids cost, however many there are.
 *
 *   root: 64 nodes by the first 6 bits of the hash --> node: 64 leaves by the next 6 --> leaf: places, ascending by hash
 *
 * Invariant: a tree, node or leaf with more than one reference is immutable.
 * Ownership: counted. A place borrows its rows: whoever has the tree has them, too. Threads: a tree that is changed is
 * confined, and shared once that is over.
 */
#include "rollout/rows.h"

typedef struct lk_id_tree lk_id_tree;

/* A tree that may be changed: as `from` is now, or empty (NULL). */
lk_id_tree *lk_id_tree_new(const lk_id_tree *from);
void        lk_id_tree_free(lk_id_tree *tree); /* accepts NULL */

/* Adds the ids of rows; where another generation has one, too, the place that counts stays (lk_rollout_rows_order). */
void lk_id_tree_add(lk_id_tree *tree, lk_rollout_rows *rows);
/* Removes the places in these rows, which must not have hidden another generation's copy of an id. */
void lk_id_tree_remove(lk_id_tree *tree, const lk_rollout_rows *rows);

size_t lk_id_tree_count(const lk_id_tree *tree); /* distinct ids */

typedef struct lk_rollout_place {
    lk_rollout_rows *rows; /* borrowed */
    size_t           row;
} lk_rollout_place;
bool lk_id_tree_find(const lk_id_tree *tree, lk_bytes id, lk_rollout_place *out);

#endif
