#ifndef LK_LANCE_ROW_SET_H
#define LK_LANCE_ROW_SET_H
/*
 * row_set.h - a set of rows of one version, by address (fragment << 32 | row offset): one compressed bitmap per
 * fragment. Threads: confined.
 */
#include <stddef.h>
#include <stdint.h>

typedef struct lk_row_set lk_row_set;

lk_row_set *lk_row_set_new(void);
void        lk_row_set_free(lk_row_set *set); /* accepts NULL */

/* Adds addresses, in any order (ascending ones are fastest); one that is there already changes nothing. */
void     lk_row_set_add(lk_row_set *set, const uint64_t *addresses, size_t count);
uint64_t lk_row_set_count(const lk_row_set *set);
/* Leaves what is in the other one, too. */
void lk_row_set_intersect(lk_row_set *set, lk_row_set *other);

/* -- for this room: one fragment's rows; ascending by fragment ------------------------------------------ */
typedef struct lk_fragment_rows {
    uint32_t                 fragment_id;
    struct roaring_bitmap_s *rows; /* <roaring/roaring.h> */
} lk_fragment_rows;

const lk_fragment_rows *lk_row_set_fragments(lk_row_set *set, size_t *count);

#endif
