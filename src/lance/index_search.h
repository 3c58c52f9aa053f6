#ifndef LK_LANCE_INDEX_SEARCH_H
#define LK_LANCE_INDEX_SEARCH_H
/*
 * index_search.h - one question to the segments of one column: what the readers of the kinds share.
 *
 * A reader gives the rows that may match to the answer; it gives up (LK_OK, search->gave_up) when that is more than
 * reading the rows is worth, or when the index is one that it cannot use.
 * Threads: confined to one lookup.
 */
#include "arrow/predicate.h"
#include "lance/index_file.h"

struct roaring_bitmap_s;

/* Rows by fragment number, of the fragments that are covered. */
typedef struct lk_index_answer {
    size_t                    fragment_count;
    bool                     *covers;
    struct roaring_bitmap_s **rows; /* NULL: none */
} lk_index_answer;

lk_index_answer *lk_index_answer_new(size_t fragment_count);
void             lk_index_answer_free(lk_index_answer *answer); /* accepts NULL */
uint64_t         lk_index_answer_count(const lk_index_answer *answer);
size_t           lk_index_answer_bytes(const lk_index_answer *answer);
/* Both change the first: what one of them covers counts for both; what both cover. */
void lk_index_answer_and(lk_index_answer *answer, lk_index_answer *other);
void lk_index_answer_or(lk_index_answer *answer, lk_index_answer *other);

typedef struct lk_index_search {
    lk_dataset               *dataset;
    const lk_fragment_number *numbers;
    lk_buffer_pool           *pool;
    lk_cancel                *cancel;
    uint64_t                  rows_max; /* more candidates are too many */
    const struct ArrowSchema *field;
    const lk_predicate       *predicate; /* over that field alone, as if it were column 0 */
    lk_index_answer          *answer;
    uint64_t                  found; /* rows given so far */
    bool                      gave_up;
} lk_index_search;

/* Gives the rows of these ids whose selection byte is set (NULL: all): addresses, or stable ids where the table has
 * them. Rows that are gone, and rows of fragments that the segment does not cover, are left out. */
LK_MUST_CHECK lk_rc lk_index_give(lk_index_search *search, const lk_index *index, const uint64_t *ids,
    const uint8_t *selection, size_t count, lk_err *err);

/* The same of the ids [first, first + count), of one fragment where they are addresses; they may be more than it has. */
LK_MUST_CHECK lk_rc lk_index_give_run(
    lk_index_search *search, const lk_index *index, uint64_t first, uint64_t count, lk_err *err);

/* Gives rows of a fragment (by number), which are there; never too many. */
void lk_index_give_rows(lk_index_search *search, size_t fragment, uint64_t first, uint64_t count);

/* Which rows of an array of the column's values match: 1 a row. */
LK_MUST_CHECK lk_rc lk_index_test(
    const lk_index_search *search, struct ArrowArray *values, uint8_t *selection, lk_err *err);

/* Whether the stored values are of the column's type, and it has an order here; if not, the index says nothing. */
bool lk_index_same_type(const lk_index_search *search, const struct ArrowSchema *stored);

/* -- the kinds: each gives the rows of one segment -------------------------------------------------------- */
LK_MUST_CHECK lk_rc lk_index_btree_search(lk_index_search *search, const lk_index *index, lk_err *err);
LK_MUST_CHECK lk_rc lk_index_bitmap_search(lk_index_search *search, const lk_index *index, lk_err *err);
LK_MUST_CHECK lk_rc lk_index_zonemap_search(lk_index_search *search, const lk_index *index, lk_err *err);

/* lk_index_verify for one kind; field: index in the schema's fields. */
LK_MUST_CHECK lk_rc lk_index_zonemap_verify(lk_dataset *dataset, const lk_index *index, size_t field,
    lk_cancel *cancel, lk_buffer_pool *pool, lk_index_damage *out, lk_err *err);

#endif
