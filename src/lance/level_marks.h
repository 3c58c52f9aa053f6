#ifndef LK_LANCE_LEVEL_MARKS_H
#define LK_LANCE_LEVEL_MARKS_H
/*
 * level_marks.h - levels of entries that have one list around them and nothing else, as bits: what an entry is takes one
 * bit in a word of 64, so that long lists are walked by words and not by values.
 *
 * Invariants: bits behind `count` are zero, and one word more than they take may be read. An entry that is a null or an
 * empty list owns no value. Threads: confined, like the buffer that the bits lie in.
 */
#include "lance/codec.h"

typedef struct lk_marks {
    const uint64_t *starts;                                 /* the entry begins a row */
    const uint64_t *item_nulls, *list_nulls, *list_empties; /* what it is instead of a value; NULL: none is */
    uint64_t        count;                                  /* entries */
} lk_marks;

/* Of `count` entries as a page's blocks have them. The bits are kept in scratch->levels. LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_marks_read(const lk_page_layout *layout, lk_bytes rep, lk_bytes def, uint64_t count,
    lk_scratch *scratch, lk_marks *out, lk_err *err);

/* The same of levels that are unpacked (NULL: all zero), kept in `into`. */
LK_MUST_CHECK lk_rc lk_marks_of(const lk_page_layout *layout, const uint16_t *rep, const uint16_t *def,
    uint64_t count, lk_buffer_pool *pool, lk_buffer *into, lk_marks *out, lk_err *err);

/* 64 bits from bit `at` on; NULL: zeros. */
static inline uint64_t lk_marks_word(const uint64_t *bits, uint64_t at)
{
    if (bits == NULL) {
        return 0;
    }
    const uint64_t *word = bits + at / 64;
    unsigned        shift = (unsigned)(at % 64);
    return shift == 0 ? word[0] : word[0] >> shift | word[1] << (64 - shift);
}

/* Entries that own no value, among the 64 from `at` on. */
static inline uint64_t lk_marks_hidden(const lk_marks *marks, uint64_t at)
{
    return lk_marks_word(marks->list_nulls, at) | lk_marks_word(marks->list_empties, at);
}

/* The entry where the row behind `rows` further ones begins, from entry `from` on; count: there is none. *passed: how
 * many rows begin before it. */
uint64_t lk_marks_find(const lk_marks *marks, uint64_t from, uint64_t rows, uint64_t *passed);

/* How many of the entries [from, end) own a value. */
uint64_t lk_marks_values(const lk_marks *marks, uint64_t from, uint64_t end);

#endif
