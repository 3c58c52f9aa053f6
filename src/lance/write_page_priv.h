#ifndef LK_LANCE_WRITE_PAGE_PRIV_H
#define LK_LANCE_WRITE_PAGE_PRIV_H
/*
 * write_page_priv.h - what the layouts share: write_page.c chooses, write_miniblock.c and write_fullzip.c encode.
 * Threads: stateless.
 */
#include "lance/write_page.h"

enum { LK_CHUNK_VALUES_MAX = 4096 }; /* of a mini-block chunk, as the reference has at most */

/* What a row's mark is as a definition level in this page; in lists, what an entry's level is. */
typedef struct lk_page_levels {
    uint16_t of_mark[2 * LK_LAYERS_MAX + 1];
    uint16_t max; /* 0: no levels */
    bool     all_leaf_null;
} lk_page_levels;

/* Level `index` of an entry (reps or defs of a leaf in lists). */
static inline uint16_t lk_entry_level(const lk_buf *words, uint64_t index)
{
    return lk_load_u16(words->data + index * 2);
}

/* Whether an entry owns a value: its level lies inside the innermost list. */
static inline bool lk_entry_visible(const lk_leaf *leaf, uint16_t def)
{
    size_t layer = 0;
    while (layer < leaf->layer_count && !leaf->is_list[layer]) {
        layer++;
    }
    return def < 1 + 2 * layer;
}

static inline unsigned lk_bit_length(unsigned value)
{
    return value == 0 ? 0 : 32 - (unsigned)__builtin_clz(value);
}

/* Where text `row` begins, the one before it ends. */
static inline uint64_t lk_text_end(const lk_leaf *leaf, uint64_t row)
{
    return row == 0 ? 0 : lk_load_u64(leaf->ends.data + (row - 1) * 8);
}

lk_encoding       *lk_page_node(lk_page_out *out, lk_encoding_kind kind, uint32_t bits);
const lk_encoding *lk_page_list_encoding(const lk_leaf *leaf, lk_page_out *out); /* around flat values */
void               lk_page_put_bits(lk_buf *data, const lk_buf *from, uint64_t start, uint64_t count);

void lk_page_miniblock(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out);
void lk_page_fullzip(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out);

#endif
