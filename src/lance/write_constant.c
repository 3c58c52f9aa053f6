/*
 * write_constant.c - pages without a value for every row (constant.c reads them): all null, lists of nothing, and one
 * value for all rows.
 *
 * Releases of the reference before 7 misread one value beside levels, so such pages are left to mini-blocks.
 */
#include "lance/write_page_priv.h"

enum { INLINE_MAX = 32 }; /* bytes of a value that lies in the layout */

static void put_words(const lk_leaf *leaf, const lk_page_levels *map, lk_buf *out)
{
    for (uint64_t row = 0; row < leaf->rows; row++) {
        lk_buf_append(out, &map->of_mark[(uint8_t)leaf->marks.data[row]], 2);
    }
}

/* Levels as one block; files of 2.1 have them as they are. */
static const lk_encoding *put_block(lk_buf *words, unsigned max, lk_page_out *out)
{
    uint64_t      count = words->size / 2;
    lk_level_plan plan = lk_level_plan_of(count, lk_changes16(words->data, count), max, &out->layout);
    if (!out->layout.large_chunk || plan.form == LK_LEVELS_PLAIN) {
        return NULL;
    }
    lk_buf plain = *words;
    *words = (lk_buf){0};
    lk_put_levels(&plan, (const uint16_t *)(const void *)plain.data, count, words);
    lk_buf_deinit(&plain);
    return lk_level_encoding(&plan, out);
}

void lk_page_no_values(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out)
{
    uint64_t count = leaf->defs.size / 2;
    out->layout.kind = LK_PAGE_CONSTANT;
    out->buffer_count = 2;
    lk_buf_append(&out->buffers[0], leaf->reps.data, leaf->reps.size);
    for (uint64_t index = 0; index < count; index++) {
        lk_buf_append(&out->buffers[1], &map->of_mark[lk_entry_level(&leaf->defs, index)], 2);
    }
    out->layout.rep = put_block(&out->buffers[0], leaf->lists, out);
    out->layout.def = put_block(&out->buffers[1], map->max, out);
    out->layout.num_rep_values = out->layout.rep == NULL ? 0 : count;
    out->layout.num_def_values = out->layout.def == NULL ? 0 : count;
}

/* Levels wherever the leaf lies in structs, be these always valid: pylance cannot do without. */
void lk_page_all_null(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out)
{
    out->layout.kind = LK_PAGE_CONSTANT;
    out->buffer_count = 0;
    if (leaf->layer_count == 1) {
        return;
    }
    out->layout.num_def_values = leaf->rows;
    out->buffer_count = 2;
    put_words(leaf, map, &out->buffers[1]);
    out->layout.def = put_block(&out->buffers[1], map->max, out);
}

/* -- one value ------------------------------------------------------------------------------------------- */
static bool same_bits(const lk_leaf *leaf)
{
    uint8_t first = (uint8_t)leaf->values.data[0] & 1, all = first == 0 ? 0 : 0xff;
    for (uint64_t byte = 0; byte < leaf->rows / 8; byte++) {
        if ((uint8_t)leaf->values.data[byte] != all) {
            return false;
        }
    }
    unsigned rest = leaf->rows % 8, mask = (1U << rest) - 1;
    return rest == 0 || ((uint8_t)leaf->values.data[leaf->rows / 8] & mask) == (all & mask);
}

/* Every value equals the one before it. */
static bool same_fixed(const lk_leaf *leaf)
{
    size_t width = leaf->row_bits / 8;
    return memcmp(leaf->values.data, leaf->values.data + width, (size_t)(leaf->rows - 1) * width) == 0;
}

static bool same_text(const lk_values *values)
{
    uint64_t size = lk_values_end(values, 1);
    if (lk_values_end(values, values->count) != size * values->count) {
        return false;
    }
    for (uint64_t row = 1; row < values->count; row++) {
        if (lk_values_end(values, row + 1) != (row + 1) * size) {
            return false;
        }
    }
    return size == 0 ||
           memcmp(values->bytes, values->bytes + size, (size_t)((values->count - 1) * size)) == 0;
}

/* u32 buffers, their u32 sizes, the buffers: offsets and bytes of text, else the bytes. */
static void put_scalar(const lk_leaf *leaf, lk_bytes value, lk_buf *out)
{
    uint32_t width = leaf->offset_bytes;
    uint32_t head[3] = {
        width > 0 ? 2 : 1, width > 0 ? 2 * width : (uint32_t)value.size, (uint32_t)value.size};
    uint64_t size = value.size;
    lk_buf_append(out, head, width > 0 ? sizeof head : 8);
    lk_buf_append_zeros(out, width);
    lk_buf_append(out, &size, width);
    lk_buf_append_bytes(out, value);
}

bool lk_page_constant(const lk_leaf *leaf, lk_page_out *out)
{
    lk_values values = lk_values_of(leaf);
    bool      text = leaf->offset_bytes > 0, bit = leaf->row_bits == 1;
    if (leaf->has_marks || leaf->lists > 0 || leaf->level_count > 0 ||
        !(text    ? same_text(&values)
            : bit ? same_bits(leaf)
                  : same_fixed(leaf))) {
        return false;
    }
    size_t size = text ? (size_t)lk_values_end(&values, 1) : bit ? 1 : leaf->row_bits / 8;
    lk_buf_clear(&out->plain);
    lk_buf_append(&out->plain, leaf->values.data, size);
    if (bit) {
        out->plain.data[0] &= 1;
    }
    out->layout.kind = LK_PAGE_CONSTANT;
    out->layout.has_inline_value = !text && size <= INLINE_MAX;
    out->layout.inline_value = lk_buf_view(&out->plain);
    out->buffer_count = out->layout.has_inline_value ? 0 : 1;
    if (!out->layout.has_inline_value) {
        put_scalar(leaf, lk_buf_view(&out->plain), &out->buffers[0]);
    }
    return true;
}
