#ifndef LK_LANCE_V20_PAGE_H
#define LK_LANCE_V20_PAGE_H
/*
 * v20_page.h - one page of a 2.0 file: the rows of a leaf, or the ends of lists, as page buffers and the array
 * encodings that say what is in them.
 *
 *   fixed values   as they are; validities of the rows, and of a fixed-size list's items, before them
 *   text           64-bit ends and bytes, the bytes compressed or turned into FSST codes where the column asks for it
 *   utf8           100 rows and more with less than 100 different ones: a dictionary
 *
 * That is what every release of the reference writes and reads. Threads: confined.
 */
#include "lance/v20_encoding.h"
#include "lance/write_values.h"

enum { LK_V20_BUFFERS_MAX = LK_LIST_LEVELS_MAX + 4 };

typedef struct lk_v20_page_out {
    lk_arena            nodes;
    const lk_v20_array *root;
    lk_bytes            buffers[LK_V20_BUFFERS_MAX]; /* what is written: of the leaf, or of these */
    lk_buf              owned[LK_V20_BUFFERS_MAX];
    size_t              buffer_count, owned_count;
    lk_value_tools      tools;
} lk_v20_page_out;

/* The leaf has rows, and no layer but its own; out is reused. */
void lk_v20_page_leaf(const lk_leaf *leaf, lk_v20_page_out *out);

/* Ends of lists, 64 bits each; LK_V20_NULL_LIST is added to that of a null. */
#define LK_V20_NULL_LIST (1ULL << 63)
void lk_v20_page_list(const lk_buf *ends, uint64_t items, lk_v20_page_out *out);

/* Rows of bytes: packed structs of this field; NULL: positions and sizes of blobs. */
void lk_v20_page_packed(const struct ArrowSchema *field, const lk_buf *bytes, lk_v20_page_out *out);

/* Begins a page with a dictionary and gives the buffer for its indices; the items end it. */
lk_buf *lk_v20_page_indices(lk_v20_page_out *out);
void    lk_v20_page_dictionary(const lk_leaf *items, uint32_t index_bits, lk_v20_page_out *out);

/* Rows that are nothing but there: of a struct. */
void lk_v20_page_struct(lk_v20_page_out *out);

void lk_v20_page_out_deinit(lk_v20_page_out *out); /* idempotent */

#endif
