#ifndef LK_LANCE_WRITE_PAGE_H
#define LK_LANCE_WRITE_PAGE_H
/*
 * write_page.h - one page: the rows of a leaf in the layout and encoding that suits them.
 *
 *   all null                     constant
 *   values of 256 bytes and more full-zip: a row is one read
 *   the rest                     mini-blocks; words bit-packed where that saves an eighth
 *
 * What is written is the subset of 2.1 that every release of the reference since 1.0 reads. Threads: confined.
 */
#include "lance/encoding.h"
#include "lance/write_leaf.h"

typedef struct lk_page_out {
    lk_page_layout layout;
    lk_encoding    nodes[LK_LIST_LEVELS_MAX + 6]; /* what layout points to */
    size_t         node_count;
    lk_buf         buffers[3];
    size_t         buffer_count;
} lk_page_out;

/* For a file of version 2.<file_minor>; the leaf has rows; out is reused. */
void lk_page_encode(const lk_leaf *leaf, uint32_t file_minor, lk_page_out *out);
void lk_page_out_deinit(lk_page_out *out); /* idempotent */

#endif
