/* write_page.c - see write_page.h: which layers and which layout a page has; pages of nothing but nulls. */
#include "lance/write_page_priv.h"

#include "arrow/bits.h"

enum {
    WIDE_BYTES = 256,          /* from here on a value is a page's row of its own: full-zip */
    HIDDEN_MAX = 32768,        /* entries without a value; levels of a chunk are counted in 16 bits */
    CHUNK_LEVEL_BYTES = 16384, /* of levels; with values and bitmaps below the 32 KiB a chunk can be */
    CHUNK_VALUE_BYTES = 6144,  /* of one value: two of them, and the levels */
};

/* -- levels ---------------------------------------------------------------------------------------- */
static void choose_layers(const lk_leaf *leaf, lk_page_out *out, lk_page_levels *map)
{
    uint64_t counts[LK_LAYERS_MAX + 1] = {0};
    for (uint64_t row = 0; leaf->has_marks && row < leaf->rows; row++) {
        counts[(uint8_t)leaf->marks.data[row]]++;
    }
    *map = (lk_page_levels){.all_leaf_null = counts[1] == leaf->rows};
    out->layout.layer_count = leaf->layer_count;
    for (size_t layer = 0; layer < leaf->layer_count; layer++) {
        bool nulls = counts[layer + 1] > 0;
        out->layout.layers[layer] = nulls ? LK_LAYER_NULLABLE_ITEM : LK_LAYER_ALL_VALID_ITEM;
        map->max = (uint16_t)(map->max + nulls);
        map->of_mark[layer + 1] = map->max;
    }
}

static uint8_t list_layer(bool nulls, bool empties)
{
    return nulls && empties ? LK_LAYER_NULL_AND_EMPTY_LIST
           : nulls          ? LK_LAYER_NULLABLE_LIST
           : empties        ? LK_LAYER_EMPTYABLE_LIST
                            : LK_LAYER_ALL_VALID_LIST;
}

/* Which levels of entries occur. A list around which something is null has a level of its own, used or not: the
 * reference counts the lists between a level and the values by the levels that these have. */
static void find_list_levels(const lk_leaf *leaf, bool seen[2 * LK_LAYERS_MAX + 1])
{
    bool outside = false;
    for (uint64_t index = 0; index < leaf->defs.size / 2; index++) {
        seen[lk_entry_level(&leaf->defs, index)] = true;
    }
    for (size_t layer = leaf->layer_count; layer-- > 0;) {
        bool own = seen[1 + 2 * layer] || seen[2 + 2 * layer];
        seen[1 + 2 * layer] = seen[1 + 2 * layer] || (leaf->is_list[layer] && outside && !own);
        outside = outside || own;
    }
}

/* The same for entries, numbered from inside. */
static void choose_list_layers(const lk_leaf *leaf, lk_page_out *out, lk_page_levels *map)
{
    bool seen[2 * LK_LAYERS_MAX + 1] = {false};
    find_list_levels(leaf, seen);
    *map = (lk_page_levels){0};
    out->layout.layer_count = leaf->layer_count;
    for (size_t layer = 0; layer < leaf->layer_count; layer++) {
        bool nulls = seen[1 + 2 * layer], empties = seen[2 + 2 * layer];
        out->layout.layers[layer] = leaf->is_list[layer] ? list_layer(nulls, empties)
                                    : nulls              ? LK_LAYER_NULLABLE_ITEM
                                                         : LK_LAYER_ALL_VALID_ITEM;
        map->max = (uint16_t)(map->max + nulls);
        map->of_mark[1 + 2 * layer] = map->max;
        map->max = (uint16_t)(map->max + empties);
        map->of_mark[2 + 2 * layer] = map->max;
    }
}

/* -- what the layouts share ------------------------------------------------------------------------- */
lk_encoding *lk_page_node(lk_page_out *out, lk_encoding_kind kind, uint32_t bits)
{
    lk_encoding *made = &out->nodes[out->node_count++];
    *made = (lk_encoding){.kind = kind, .bits = bits};
    return made;
}

const lk_encoding *lk_page_list_encoding(const lk_leaf *leaf, lk_page_out *out)
{
    uint32_t           bits = leaf->type.layout == LK_LAYOUT_BITS ? 1 : leaf->type.width * 8;
    const lk_encoding *inner = lk_page_node(out, LK_ENCODING_FLAT, bits);
    for (size_t level = leaf->level_count; level > 0; level--) {
        lk_encoding *list = lk_page_node(out, LK_ENCODING_FIXED_SIZE_LIST, 0);
        list->items_per_value = leaf->levels[level - 1].size;
        list->has_validity = leaf->levels[level - 1].has_nulls;
        list->values = inner;
        inner = list;
    }
    return inner;
}

void lk_page_put_bits(lk_buf *data, const lk_buf *from, uint64_t start, uint64_t count)
{
    size_t at = data->size;
    lk_buf_append_zeros(data, (size_t)(count + 7) / 8);
    lk_bits_copy((const uint8_t *)from->data, (int64_t)start, (uint8_t *)data->data + at, 0, (int64_t)count);
}

/* -- lists ----------------------------------------------------------------------------------------- */
/* A page too many of whose entries have no value for one chunk to hold: rows one by one. */
static bool overfull(const lk_leaf *leaf, const lk_page_levels *map)
{
    uint64_t bits = lk_bit_length(leaf->lists) + lk_bit_length(map->max);
    return leaf->hidden > HIDDEN_MAX || (leaf->hidden + LK_CHUNK_VALUES_MAX) * bits / 8 > CHUNK_LEVEL_BYTES;
}

/* Whether releases of the reference up to 7 would lose the page as full-zip: there every null item, not just one
 * inside the innermost list, was counted into the levels that own a value. */
static bool misread_zipped(const lk_leaf *leaf, const lk_page_levels *map, const lk_page_layout *layout)
{
    unsigned items = 0, visible = lk_visible_level(layout);
    for (size_t layer = 0; layer < layout->layer_count; layer++) {
        items += layout->layers[layer] == LK_LAYER_NULLABLE_ITEM;
    }
    for (uint64_t index = 0; items > visible && index < leaf->defs.size / 2; index++) {
        uint16_t level = map->of_mark[lk_entry_level(&leaf->defs, index)];
        if (level > visible && level <= items) {
            return true;
        }
    }
    return false;
}

/* Whether two values, the fewest of a chunk, fit into one beside its levels. */
static bool fits_chunk(const lk_leaf *leaf, const lk_page_layout *layout)
{
    uint64_t most = leaf->offset_bytes > 0 ? leaf->longest : leaf->row_bits / 8;
    return layout->large_chunk || most <= CHUNK_VALUE_BYTES;
}

/* Lists without a value among them: levels alone. */
static void encode_no_values(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out)
{
    out->layout.kind = LK_PAGE_CONSTANT;
    out->buffer_count = 2;
    lk_buf_append(&out->buffers[0], leaf->reps.data, leaf->reps.size);
    for (uint64_t index = 0; index < leaf->defs.size / 2; index++) {
        lk_buf_append(&out->buffers[1], &map->of_mark[lk_entry_level(&leaf->defs, index)], 2);
    }
}

static void encode_lists(const lk_leaf *leaf, bool wide, lk_page_out *out)
{
    lk_page_levels map;
    choose_list_layers(leaf, out, &map);
    if (leaf->rows == 0 || leaf->type.layout == LK_LAYOUT_NULL) {
        encode_no_values(leaf, &map, out);
    } else if (overfull(leaf, &map) ||
               (wide && !(fits_chunk(leaf, &out->layout) && misread_zipped(leaf, &map, &out->layout)))) {
        lk_page_fullzip(leaf, &map, out);
    } else {
        lk_page_miniblock(leaf, &map, out);
    }
}

/* -- constant -------------------------------------------------------------------------------------- */
/* All null. Levels wherever the leaf lies in structs, be these always valid: pylance cannot do without. */
static void encode_constant(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out)
{
    out->layout.kind = LK_PAGE_CONSTANT;
    out->buffer_count = 0;
    if (leaf->layer_count == 1) {
        return;
    }
    out->layout.num_def_values = leaf->rows;
    out->buffer_count = 2;
    for (uint64_t row = 0; row < leaf->rows; row++) {
        lk_buf_append(&out->buffers[1], &map->of_mark[(uint8_t)leaf->marks.data[row]], 2);
    }
}

void lk_page_encode(const lk_leaf *leaf, uint32_t file_minor, lk_page_out *out)
{
    lk_page_levels map;
    out->layout = (lk_page_layout){.large_chunk = file_minor >= 2};
    out->node_count = 0;
    for (size_t buffer = 0; buffer < 3; buffer++) {
        lk_buf_clear(&out->buffers[buffer]);
    }
    bool wide = leaf->offset_bytes > 0
                    ? leaf->longest >= WIDE_BYTES
                    : leaf->row_bits >= WIDE_BYTES * 8 && leaf->type.layout == LK_LAYOUT_FIXED;
    if (leaf->lists > 0) {
        encode_lists(leaf, wide, out);
        return;
    }
    choose_layers(leaf, out, &map);
    if (leaf->type.layout == LK_LAYOUT_NULL || map.all_leaf_null) {
        encode_constant(leaf, &map, out);
    } else if (wide) {
        lk_page_fullzip(leaf, &map, out);
    } else {
        lk_page_miniblock(leaf, &map, out);
    }
}

void lk_page_out_deinit(lk_page_out *out)
{
    for (size_t buffer = 0; buffer < 3; buffer++) {
        lk_buf_deinit(&out->buffers[buffer]);
    }
}
