#ifndef LK_LANCE_DECODE_PRIV_H
#define LK_LANCE_DECODE_PRIV_H
/* decode_priv.h - what decode.c (structs and leaves) and decode_lists.c (everything in or around lists) share. */
#include "lance/file_priv.h"
#include "lance/nested.h"
#include "lance/shape.h"
#include "lance/stream.h"

/* What one lk_file_decode carries around. Confined. */
typedef struct lk_decoder {
    const lk_row_range *ranges;
    size_t              range_count;
    uint64_t            rows;
    uint64_t      rows_each; /* of a column to a row of the file: items of fixed-size lists of structs */
    lk_scratch    scratch;
    lk_row_range *local; /* the part of ranges inside a page, relative to it */
} lk_decoder;

/* A field without lists in it. parents: the validity of the structs around it, filled along the way. */
LK_MUST_CHECK lk_rc lk_decode_field(lk_decoder *decoder, const lk_field_source *source, lk_validity *parents,
    size_t parent_count, struct ArrowArray *out, lk_err *err);

/* A fixed-size list of structs, without lists in it (decode_vector.c). */
LK_MUST_CHECK lk_rc lk_decode_vector(lk_decoder *decoder, const lk_field_source *source, lk_validity *parents,
    size_t parent_count, struct ArrowArray *out, lk_err *err);

/* A field with lists in it. */
LK_MUST_CHECK lk_rc lk_decode_lists(
    lk_decoder *decoder, const lk_field_source *source, struct ArrowArray *out, lk_err *err);

/* Called with the rows of one page that the ranges want. */
typedef lk_rc lk_page_visit(void *context, lk_page_rows *rows, lk_err *err);

/* Visits the pages of a column that hold the decoder's rows, in order. */
LK_MUST_CHECK lk_rc lk_decode_each_page(
    lk_decoder *decoder, const lk_field_source *source, lk_page_visit *visit, void *context, lk_err *err);

/* A leaf on its way: its column, and in lists the stream that its levels go to. */
typedef struct lk_leaf_decode {
    lk_shape    *shape;
    lk_column   *column;
    lk_stream   *stream; /* NULL: not in lists */
    lk_validity *parents;
    size_t       parent_count;
} lk_leaf_decode;

/* The pages of a leaf. */
LK_MUST_CHECK lk_rc lk_decode_pages(lk_decoder *decoder, lk_leaf_decode *leaf, lk_err *err);

/* LK_E_CORRUPT_FILE for text that is not UTF-8. */
LK_MUST_CHECK lk_rc lk_decode_check_text(const lk_column *column, lk_err *err);

/* A field by other ranges than the decoder's: the items of lists, members of structs. */
LK_MUST_CHECK lk_rc lk_decode_ranges(lk_decoder *decoder, const lk_field_source *source,
    const lk_row_range *ranges, size_t range_count, struct ArrowArray *out, lk_err *err);

/* rows rows of any type, all null. */
LK_MUST_CHECK lk_rc lk_decode_nulls(
    lk_decoder *decoder, const struct ArrowSchema *field, uint64_t rows, struct ArrowArray *out, lk_err *err);

bool lk_source_present(const lk_field_source *source);   /* some leaf below lies in a file */
bool lk_source_has_lists(const lk_field_source *source); /* a list or map, at any depth */
bool lk_source_is_vector(const lk_field_source *source); /* not one of a packed struct's members */
bool lk_source_is_struct(const lk_field_source *source); /* of columns of its own */

#endif
