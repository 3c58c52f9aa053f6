#ifndef LK_LANCE_LIST_ROWS_H
#define LK_LANCE_LIST_ROWS_H
/*
 * list_rows.h - lists on their way to an Arrow array: the list's offsets, and the validity of the list and of what is in and
 * around it, straight from marks (level_marks.h). The commonest of nested columns, and the longest: tokens, their
 * logprobs, embeddings of varying length, maps, lists of structs. Lists in lists go through stream.h level by level.
 *
 * Invariants: `rows` offsets are written, each where its row's values begin among those of the column; no row begins
 * before the first entry; never more rows than there is room for. Threads: confined.
 */
#include "lance/column.h"
#include "lance/level_marks.h"

typedef struct lk_list_rows {
    unsigned    offset_bytes; /* 4 or 8 */
    uint64_t    room, rows, values;
    lk_buffer   offsets;
    lk_validity validity[LK_MARK_LAYERS_MAX]; /* by layer; the leaf's is its column's */
    size_t      list, layer_count;            /* the layer that is the list */
} lk_list_rows;

/* For exactly `room` rows of these layers, of which `list` is the list. LK_E_LIMIT. */
LK_MUST_CHECK lk_rc lk_list_rows_init(lk_list_rows *self, size_t layer_count, size_t list, uint64_t room,
    unsigned offset_bytes, lk_buffer_pool *pool, lk_err *err);
void                lk_list_rows_deinit(lk_list_rows *self); /* idempotent */

/* Entries [first, end) of marks, whose values are the column's next: it has room for them, and its validity grows by
 * theirs. LK_E_CORRUPT_FILE, LK_E_LIMIT. */
LK_MUST_CHECK lk_rc lk_list_rows_append(
    lk_list_rows *self, const lk_marks *marks, uint64_t first, uint64_t end, lk_column *column, lk_err *err);

/* The last offset: nothing is appended any more. */
void lk_list_rows_finish(lk_list_rows *self);

#endif
