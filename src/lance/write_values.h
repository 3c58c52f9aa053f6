#ifndef LK_LANCE_WRITE_VALUES_H
#define LK_LANCE_WRITE_VALUES_H
/*
 * write_values.h - the values of a page on their way to chunks or rows: as the leaf has them, or turned into something
 * smaller first (FSST codes, values compressed one by one, indices into a dictionary). What pays is found by looking
 * at a sample.
 *
 * Threads: confined; a view borrows from the leaf and from the tools, which are reused from page to page.
 */
#include "lance/compress.h"
#include "lance/fsst_write.h"
#include "lance/write_leaf.h"

typedef struct lk_values {
    uint64_t    count;
    uint32_t    bits;         /* of a fixed value; 0: variable */
    uint32_t    offset_bytes; /* variable: of an offset in the file */
    const char *bytes;
    const char *ends; /* variable: where each value ends in bytes, u64 */
    uint64_t    longest;
} lk_values;

/* Working memory. */
typedef struct lk_value_tools {
    lk_buf           bytes, ends; /* of values that were turned into others */
    lk_buf           table;       /* FSST symbols */
    lk_buf           indices, items, item_ends;
    lk_buf           sample, slots;
    lk_fsst_encoder *fsst;
} lk_value_tools;
void lk_value_tools_deinit(lk_value_tools *tools); /* idempotent */

lk_values lk_values_of(const lk_leaf *leaf);

/* Where variable value `index` begins, the one before it ends. */
static inline uint64_t lk_values_end(const lk_values *values, uint64_t index)
{
    return index == 0 ? 0 : lk_load_u64(values->ends + (index - 1) * 8);
}

/* How many bytes variable values take, offsets included. */
static inline uint64_t lk_values_text_bytes(const lk_values *values)
{
    return lk_values_end(values, values->count) + (values->count + 1) * values->offset_bytes;
}

/* Replaces text by FSST codes, the symbols in tools->table, where a sample gets half as small again or the field asks
 * for it. */
bool lk_values_to_symbols(const lk_leaf *leaf, lk_values *values, lk_value_tools *tools);

/* Replaces values, in pages of long ones, by blocks of their own, null ones by nothing; false: it does not pay. */
bool lk_values_to_blocks(const lk_leaf *leaf, lk_values *values, lk_value_tools *tools, lk_scheme *scheme);

/* -- dictionaries (write_dictionary.c) -------------------------------------------------------------------- */
/* Replaces values by 32-bit indices; *items are the different ones. False when they repeat too little: less than the
 * field allows, or to no less than its share of `best_bytes`, which the values take without. */
bool lk_values_to_indices(
    const lk_leaf *leaf, uint64_t best_bytes, lk_values *values, lk_values *items, lk_value_tools *tools);

#endif
