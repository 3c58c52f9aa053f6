#ifndef LK_LANCE_LEVEL_MARKS_H
#define LK_LANCE_LEVEL_MARKS_H
/*
 * level_marks.h - levels of entries in one list, with structs in and around it, as bits: what an entry is takes one bit in
 * a word of 64, so that long lists are walked by words and not by values.
 *
 * Invariants: bits behind `count` are zero, and one word more than they take may be read. A hidden entry is a null or an
 * empty list, or none at all: it owns no value. Threads: confined, like the buffer that the bits lie in.
 */
#include "lance/codec.h"

enum { LK_MARK_LAYERS_MAX = 8 };

typedef struct lk_marks {
    const uint64_t *starts; /* the entry begins a row */
    const uint64_t *hidden; /* NULL: none is */
    const uint64_t
            *nulls[LK_MARK_LAYERS_MAX]; /* its value of this layer is null, the leaf's first; NULL: none is */
    uint64_t count;                     /* entries */
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

/* The entry where the row behind `rows` further ones begins, from entry `from` on; count: there is none. *passed: how
 * many rows begin before it. */
uint64_t lk_marks_find(const lk_marks *marks, uint64_t from, uint64_t rows, uint64_t *passed);

/* How many of the entries [from, end) own a value. */
uint64_t lk_marks_values(const lk_marks *marks, uint64_t from, uint64_t end);

#endif
