#ifndef LK_LANCE_WRITE_LISTS_H
#define LK_LANCE_WRITE_LISTS_H
/*
 * write_lists.h - rows of a leaf that lies in lists: entries with repetition and definition levels (numbered as in
 * stream.h) beside the values they own. Threads: confined.
 */
#include "lance/write_leaf.h"

/* One node from the column down to the leaf: its array, and whether it is a list. */
typedef struct lk_list_node {
    const struct ArrowArray *array;
    unsigned                 offset_bytes; /* of a list; 0: a struct, or the leaf, which is the last */
} lk_list_node;

/* Appends the row at absolute index `row` of nodes[0], layer_count nodes in all. */
LK_MUST_CHECK lk_rc lk_leaf_append_row(lk_leaf *leaf, const lk_list_node *nodes, int64_t row, lk_err *err);

/* Where the items of the list at absolute index `index` begin. */
int64_t lk_list_offset(const lk_list_node *node, int64_t index);

#endif
