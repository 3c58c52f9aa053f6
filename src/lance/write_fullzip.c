/*
 * write_fullzip.c - pages of whole rows (fullzip.c reads them): a control word, then the value.
 */
#include "lance/write_page_priv.h"

static void put_control(const lk_leaf *leaf, const lk_page_levels *map, uint64_t row, lk_buf *data)
{
    if (map->max > 0) { /* at most 64 layers: the level fits in one byte */
        char level = (char)map->of_mark[(uint8_t)leaf->marks.data[row]];
        lk_buf_append(data, &level, 1);
    }
}

static void zip_fixed(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out)
{
    size_t  width = leaf->row_bits / 8, bitmaps = 0;
    lk_buf *data = &out->buffers[0];
    for (size_t level = 0; level < leaf->level_count; level++) {
        bitmaps += leaf->levels[level].has_nulls ? (size_t)(leaf->levels[level].items + 7) / 8 : 0;
    }
    lk_buf_reserve(data, (size_t)leaf->rows * (1 + bitmaps + width));
    for (uint64_t row = 0; row < leaf->rows; row++) {
        put_control(leaf, map, row, data);
        for (size_t level = 0; level < leaf->level_count; level++) {
            const lk_leaf_level *list = &leaf->levels[level];
            if (list->has_nulls) {
                lk_page_put_bits(data, list->bits.data, row * list->items, list->items);
            }
        }
        lk_buf_append(data, leaf->values.data + row * width, width);
    }
    out->layout.bits_per_value = (uint32_t)(bitmaps + width) * 8;
    out->layout.values = lk_page_list_encoding(leaf, out);
    out->buffer_count = 1;
}

static size_t position_width(uint64_t size)
{
    return size <= UINT8_MAX ? 1 : size <= UINT16_MAX ? 2 : size <= UINT32_MAX ? 4 : 8;
}

size_t lk_zip_overhead(const lk_leaf *leaf)
{
    return (size_t)leaf->rows * (1 + leaf->offset_bytes);
}

/* Whether the page can be made of the values where they lie: long ones are not held twice then. */
static bool fits_in_leaf(const lk_leaf *leaf, const lk_values *values)
{
    return values->bytes == leaf->values.data && leaf->values.size >= LK_PAGE_IN_LEAF_BYTES &&
           leaf->values.capacity - leaf->values.size > lk_zip_overhead(leaf);
}

/* Moves the values apart, the last one first, and puts control words and sizes between them. */
static void zip_in_leaf(const lk_leaf *leaf, const lk_values *values, const lk_page_levels *map,
    uint64_t *starts, lk_page_out *out)
{
    char    *data = leaf->values.data;
    size_t   control = map->max > 0, width = leaf->offset_bytes;
    uint64_t end = 0;
    for (uint64_t row = 0; row < leaf->rows; row++) {
        bool there = !leaf->has_marks || leaf->marks.data[row] == 0;
        starts[row] = end;
        end += control + (there ? width + lk_values_end(values, row + 1) - lk_values_end(values, row) : 0);
    }
    starts[leaf->rows] = end;
    for (uint64_t row = leaf->rows; row-- > 0;) {
        uint64_t first = lk_values_end(values, row), size = lk_values_end(values, row + 1) - first;
        char    *at = data + starts[row];
        if (!leaf->has_marks || leaf->marks.data[row] == 0) {
            memmove(at + control + width, data + first, (size_t)size);
            memcpy(at + control, &size, width);
        }
        if (control > 0) {
            *at = (char)map->of_mark[(uint8_t)leaf->marks.data[row]];
        }
    }
    out->in_leaf = (lk_bytes){data, (size_t)end};
}

static void zip_apart(const lk_leaf *leaf, const lk_values *values, const lk_page_levels *map,
    uint64_t *starts, lk_page_out *out)
{
    lk_buf *data = &out->buffers[0];
    for (uint64_t row = 0; row < leaf->rows; row++) {
        uint64_t first = lk_values_end(values, row), size = lk_values_end(values, row + 1) - first;
        starts[row] = data->size;
        put_control(leaf, map, row, data);
        if (!leaf->has_marks || leaf->marks.data[row] == 0) {
            lk_buf_append(data, &size, leaf->offset_bytes);
            lk_buf_append(data, values->bytes + first, (size_t)size);
        }
    }
    starts[leaf->rows] = data->size;
}

static void zip_text(const lk_leaf *leaf, const lk_values *values, const lk_encoding *text,
    const lk_page_levels *map, lk_page_out *out)
{
    lk_buf *positions = &out->buffers[1], all = {0};
    lk_buf_append_zeros(&all, (size_t)(leaf->rows + 1) * 8);
    uint64_t *starts = (uint64_t *)(void *)all.data;
    (fits_in_leaf(leaf, values) ? zip_in_leaf : zip_apart)(leaf, values, map, starts, out);
    size_t wide = position_width(starts[leaf->rows]);
    for (uint64_t row = 0; row <= leaf->rows; row++) {
        lk_buf_append(positions, &starts[row], wide);
    }
    lk_buf_deinit(&all);
    out->layout.bits_per_offset = (uint32_t)leaf->offset_bytes * 8;
    out->layout.values = text;
    out->buffer_count = 2;
}

static void zip_rows(const lk_leaf *leaf, const lk_values *values, const lk_encoding *text,
    const lk_page_levels *map, lk_page_out *out)
{
    out->layout.kind = LK_PAGE_FULLZIP;
    out->layout.bits_def = lk_bit_length(map->max);
    out->layout.num_items = out->layout.num_visible_items = leaf->rows;
    if (leaf->offset_bytes > 0) {
        zip_text(leaf, values, text, map, out);
    } else {
        zip_fixed(leaf, map, out);
    }
}

/* -- lists ----------------------------------------------------------------------------------------- */
static void put_zip_value(
    const lk_leaf *leaf, const lk_values *values, uint64_t value, bool null, lk_buf *data)
{
    size_t   width = leaf->row_bits / 8;
    uint64_t first = 0, size = 0;
    if (leaf->offset_bytes > 0) {
        if (!null) {
            first = lk_values_end(values, value);
            size = lk_values_end(values, value + 1) - first;
            lk_buf_append(data, &size, leaf->offset_bytes);
            lk_buf_append(data, values->bytes + first, (size_t)size);
        }
        return;
    }
    for (size_t level = 0; level < leaf->level_count; level++) {
        const lk_leaf_level *list = &leaf->levels[level];
        if (list->has_nulls) {
            lk_page_put_bits(data, list->bits.data, value * list->items, list->items);
        }
    }
    if (leaf->row_bits % 8 != 0) { /* a boolean takes a byte, a list of them whole bytes */
        lk_page_put_bits(data, leaf->values.data, value * leaf->row_bits, leaf->row_bits);
    } else {
        lk_buf_append(data, leaf->values.data + value * width, width);
    }
}

static void zip_entries(
    const lk_leaf *leaf, const lk_values *values, const lk_page_levels *map, lk_page_out *out)
{
    lk_buf  *data = &out->buffers[0], positions = {0};
    unsigned shift = lk_bit_length(map->max), bits = shift + lk_bit_length(leaf->lists);
    uint64_t value = 0, total = leaf->defs.size / 2;
    for (uint64_t index = 0; index < total; index++) {
        uint16_t rep = lk_entry_level(&leaf->reps, index), def = lk_entry_level(&leaf->defs, index);
        uint32_t word = (uint32_t)rep << shift | map->of_mark[def];
        uint64_t here = data->size;
        if (rep == leaf->lists) {
            lk_buf_append(&positions, &here, 8);
        }
        lk_buf_append(data, &word, bits <= 8 ? 1 : bits <= 16 ? 2 : 4);
        if (lk_entry_visible(leaf, def)) {
            put_zip_value(leaf, values, value++, def != 0, data);
        }
    }
    uint64_t end = data->size;
    size_t   wide = position_width(end);
    lk_buf_append(&positions, &end, 8);
    for (size_t at = 0; at < positions.size; at += 8) {
        lk_buf_append(&out->buffers[1], positions.data + at, wide);
    }
    lk_buf_deinit(&positions);
}

static void zip_lists(const lk_leaf *leaf, const lk_values *values, const lk_encoding *text,
    const lk_page_levels *map, lk_page_out *out)
{
    size_t bitmaps = 0;
    for (size_t level = 0; level < leaf->level_count; level++) {
        bitmaps += leaf->levels[level].has_nulls ? (size_t)(leaf->levels[level].items + 7) / 8 : 0;
    }
    out->layout.kind = LK_PAGE_FULLZIP;
    out->layout.bits_rep = lk_bit_length(leaf->lists);
    out->layout.bits_def = lk_bit_length(map->max);
    out->layout.bits_per_offset = leaf->offset_bytes * 8;
    out->layout.bits_per_value = (uint32_t)(leaf->row_bits + 7) / 8 * 8 + (uint32_t)bitmaps * 8;
    out->layout.num_items = leaf->defs.size / 2;
    out->layout.num_visible_items = leaf->rows;
    out->layout.values = text != NULL          ? text
                         : leaf->row_bits == 1 ? lk_page_node(out, LK_ENCODING_FLAT, 8)
                                               : lk_page_list_encoding(leaf, out);
    out->buffer_count = 2;
    zip_entries(leaf, values, map, out);
}

void lk_page_fullzip(const lk_leaf *leaf, const lk_values *values, const lk_encoding *text,
    const lk_page_levels *map, lk_page_out *out)
{
    if (leaf->lists > 0) {
        zip_lists(leaf, values, text, map, out);
    } else {
        zip_rows(leaf, values, text, map, out);
    }
}
