#ifndef LK_LANCE_V20_PRIV_H
#define LK_LANCE_V20_PRIV_H
/*
 * v20_priv.h - what the files that read pages of version 2.0 share: v20_decode.c walks the field; v20_leaf.c,
 * v20_text.c, v20_list.c and v20_dictionary.c decode what they are named after; v20_ends.c finds where texts and lists
 * end, v20_bytes.c fetches parts of page buffers.
 *
 * Invariant: a row, a word or a bit is read only after its place was seen to lie inside its buffer.
 * Threads: confined, like the decoder they work for.
 */
#include "lance/decode_priv.h"
#include "lance/shape.h"
#include "lance/v20_encoding.h"

/* -- parts of page buffers: the ranges one after the other; `rows` says file, page and scratch ---------- */
/* Of a FLAT buffer, `unit` bytes a row of the ranges. */
LK_MUST_CHECK lk_rc lk_v20_bytes(const lk_page_rows *rows, const lk_v20_array *flat,
    const lk_row_range *ranges, size_t range_count, uint64_t unit, uint8_t *out, lk_err *err);

/* Words of `width` bytes, flat or packed. LK_E_CORRUPT_FILE when they have another width. */
LK_MUST_CHECK lk_rc lk_v20_words(const lk_page_rows *rows, const lk_v20_array *array,
    const lk_row_range *ranges, size_t range_count, unsigned width, uint8_t *out, lk_err *err);

/* Bits, `unit` a row, to bit `at` of out and on; what follows in the last byte becomes zero. */
LK_MUST_CHECK lk_rc lk_v20_bits(const lk_page_rows *rows, const lk_v20_array *flat, uint64_t unit,
    uint8_t *out, uint64_t at, lk_err *err);

uint64_t lk_v20_row_count(const lk_page_rows *rows); /* of all ranges */

/* Where a page's rows lie in what their ends are about: bytes of text, items of lists. */
typedef struct lk_v20_ends {
    uint64_t      count;
    uint64_t     *ends;  /* of each value, where the first one begins at 0; in scratch->words */
    lk_row_range *spans; /* one a range, as the page counts; the caller frees them whatever is returned */
    uint64_t      size;  /* of all spans */
    uint8_t      *valid; /* bits, in scratch->levels; NULL: all are */
} lk_v20_ends;

/* array: BINARY or LIST. */
LK_MUST_CHECK lk_rc lk_v20_find_ends(
    const lk_page_rows *rows, const lk_v20_array *array, lk_v20_ends *out, lk_err *err);

/* Writes the ends, `base` more each, as words of 4 or 8 bytes. */
void lk_v20_put_ends(const lk_v20_ends *ends, uint64_t base, unsigned width, uint8_t *out);

/* -- lists (v20_list.c) -------------------------------------------------------------------------------- */
LK_MUST_CHECK lk_rc lk_v20_list(
    lk_decoder *decoder, const lk_field_source *source, struct ArrowArray *out, lk_err *err);

/* -- values ---------------------------------------------------------------------------------------- */
/* Appends the rows of `array` to rows->column: a leaf without a dictionary of its own. */
LK_MUST_CHECK lk_rc lk_v20_leaf(const lk_page_rows *rows, const lk_v20_array *array, lk_err *err);

/* The same for text: BINARY, FSST, FIXED_SIZE_BINARY. */
LK_MUST_CHECK lk_rc lk_v20_text(const lk_page_rows *rows, const lk_v20_array *array, lk_err *err);

/* Completes `count` rows of a column: as bits say, from bit 0 on; NULL: all valid. */
LK_MUST_CHECK lk_rc lk_v20_complete(lk_column *column, const uint8_t *bits, uint64_t count, lk_err *err);

/* The rows of a page with a dictionary, as values. null_first: index 0 is null and the items begin at 1, as where
 * the writer chose to have a dictionary; else the indices are the column's own. */
LK_MUST_CHECK lk_rc lk_v20_expand(
    const lk_page_rows *rows, const lk_v20_array *array, bool null_first, lk_err *err);

/* The same as numbers of the shape's values, of a column that is a dictionary. */
LK_MUST_CHECK lk_rc lk_v20_number(
    const lk_page_rows *rows, const lk_v20_array *array, lk_shape *shape, lk_err *err);

/* -- the walk ---------------------------------------------------------------------------------------- */
bool lk_v20_holds(const lk_field_source *source); /* the field, or some part of it, lies in a 2.0 file */

/* A field of which lk_v20_holds is true. */
LK_MUST_CHECK lk_rc lk_v20_decode(
    lk_decoder *decoder, const lk_field_source *source, struct ArrowArray *out, lk_err *err);

#endif
