#ifndef LK_LANCE_WRITE_PAGE_H
#define LK_LANCE_WRITE_PAGE_H
/*
 * write_page.h - one page: the rows of a leaf in the layout and encoding that suits them.
 *
 *   all null, and from 2.2 on one value    constant
 *   few different values                   mini-blocks of indices into a dictionary
 *   values of 256 bytes and more           full-zip: a row is one read; FSST, or zstd each where values are large
 *   the rest                               mini-blocks; words bit-packed or as runs, text as FSST, where that pays
 *
 * What the field's metadata asks for goes first (field_options.h). Shapes that older releases of the reference misread
 * are not written into files of a version that they open. Threads: confined.
 */
#include "lance/encoding.h"
#include "lance/write_leaf.h"
#include "lance/write_values.h"

enum { LK_PAGE_OUT_BUFFERS = 4, LK_PAGE_OUT_NODES = LK_LIST_LEVELS_MAX + 14 };

typedef struct lk_page_out {
    lk_page_layout layout;
    lk_encoding    nodes[LK_PAGE_OUT_NODES]; /* what layout points to */
    size_t         node_count;
    lk_buf         buffers[LK_PAGE_OUT_BUFFERS];
    size_t         buffer_count;
    lk_bytes       in_leaf; /* buffer 0 when it was made of the leaf's values where they lie; else empty */
    lk_value_tools tools;
    lk_buf         plain; /* a buffer of a chunk before it is compressed; a constant */
} lk_page_out;

/* For a file of version 2.<file_minor>; the leaf has rows; out is reused. */
void lk_page_encode(const lk_leaf *leaf, uint32_t file_minor, lk_page_out *out);
/* A buffer of the page; the leaf is still there. */
lk_bytes lk_page_out_buffer(const lk_page_out *out, size_t buffer);
/* Room in the leaf for a page of long values to be made where they lie, so that they are not held twice. Before lk_page_encode. */
void   lk_page_make_room(lk_leaf *leaf);
void   lk_page_out_deinit(lk_page_out *out);         /* idempotent */
size_t lk_page_out_capacity(const lk_page_out *out); /* memory held */

#endif
