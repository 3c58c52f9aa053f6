/* write_page.c - see write_page.h: which layers, which layout and which values a page has. */
#include "lance/write_page_priv.h"

#include "arrow/bits.h"
#include "lance/value_place.h"

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
    bool     outside = false;
    uint64_t count = leaf->defs.size / 2;
    for (uint64_t index = 0; index < count;) {
        if (index + 4 <= count && lk_load_u64(leaf->defs.data + index * 2) == 0) { /* mostly: plain values */
            seen[0] = true;
            index += 4;
        } else {
            seen[lk_entry_level(&leaf->defs, index++)] = true;
        }
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
    LK_ASSERT(out->node_count < LK_PAGE_OUT_NODES);
    lk_encoding *made = &out->nodes[out->node_count++];
    *made = (lk_encoding){.kind = kind, .bits = bits};
    return made;
}

lk_encoding *lk_page_wrap(lk_page_out *out, lk_scheme scheme, const lk_encoding *inner)
{
    lk_encoding *outer = lk_page_node(out, LK_ENCODING_GENERAL, 0);
    outer->scheme = scheme;
    outer->values = inner;
    return outer;
}

const lk_encoding *lk_page_text_encoding(uint32_t offset_bytes, lk_page_out *out)
{
    lk_encoding *text = lk_page_node(out, LK_ENCODING_VARIABLE, 0);
    text->lengths = lk_page_node(out, LK_ENCODING_FLAT, offset_bytes * 8);
    return text;
}

const lk_encoding *lk_page_list_encoding(const lk_leaf *leaf, lk_page_out *out)
{
    uint32_t           bits = leaf->type.layout == LK_LAYOUT_BITS ? 1 : leaf->type.width * 8;
    bool               nulls = leaf->type.layout == LK_LAYOUT_NULL;
    const lk_encoding *inner = lk_page_node(out, nulls ? LK_ENCODING_CONSTANT : LK_ENCODING_FLAT, bits);
    for (size_t level = leaf->level_count; level > 0; level--) {
        lk_encoding *list = lk_page_node(out, LK_ENCODING_FIXED_SIZE_LIST, 0);
        list->items_per_value = leaf->levels[level - 1].size;
        list->has_validity = leaf->levels[level - 1].has_nulls;
        list->values = inner;
        inner = list;
    }
    return inner;
}

void lk_page_put_bits(lk_buf *data, const char *from, uint64_t start, uint64_t count)
{
    size_t at = data->size;
    lk_buf_append_zeros(data, (size_t)(count + 7) / 8);
    lk_bits_copy((const uint8_t *)from, (int64_t)start, (uint8_t *)data->data + at, 0, (int64_t)count);
}

void lk_page_pad(lk_buf *out, size_t from, size_t multiple, char fill)
{
    char bytes[8];
    memset(bytes, fill, sizeof bytes);
    lk_buf_append(out, bytes, (multiple - (out->size - from) % multiple) % multiple);
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

/* -- values ---------------------------------------------------------------------------------------- */
/* Rows as a whole, not chunks. Booleans stay in chunks: older releases of the reference misread them zipped. */
static bool wants_fullzip(const lk_leaf *leaf, const lk_page_levels *map, const lk_page_layout *layout)
{
    bool whole = leaf->offset_bytes > 0 || (leaf->type.layout == LK_LAYOUT_FIXED && leaf->row_bits % 8 == 0);
    bool wide = leaf->offset_bytes > 0 ? leaf->longest >= WIDE_BYTES : leaf->row_bits >= WIDE_BYTES * 8;
    bool fits = fits_chunk(leaf, layout);
    if (leaf->type.layout == LK_LAYOUT_NULL || (leaf->lists > 0 && overfull(leaf, map))) {
        return true;
    }
    if (leaf->options.structure == LK_STRUCTURE_FULLZIP) {
        wide = true;
    } else if (leaf->options.structure == LK_STRUCTURE_MINIBLOCK && fits) {
        wide = false;
    }
    return whole && wide && !(leaf->lists > 0 && fits && misread_zipped(leaf, map, layout));
}

/* Long binary values stay as they are, whatever compressing them would save: ranges of them can be read then. */
static bool stays_plain(const lk_leaf *leaf)
{
    bool binary = leaf->type.id == LK_TYPE_BINARY || leaf->type.id == LK_TYPE_LARGE_BINARY;
    return binary && leaf->longest >= LK_VALUE_PLAIN_BYTES &&
           leaf->options.compression == LK_COMPRESSION_AUTO;
}

static void encode_rows(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out)
{
    lk_values          values = lk_values_of(leaf);
    lk_scheme          scheme = LK_SCHEME_ZSTD;
    const lk_encoding *text = NULL;
    if (leaf->offset_bytes > 0) {
        text = lk_page_text_encoding(leaf->offset_bytes, out);
    }
    if (leaf->offset_bytes > 0 && !stays_plain(leaf)) {
        if (lk_values_to_blocks(leaf, &values, &out->tools, &scheme)) {
            text = lk_page_wrap(out, scheme, text);
        } else if (lk_values_to_symbols(leaf, &values, &out->tools)) {
            lk_encoding *coded = lk_page_node(out, LK_ENCODING_FSST, 0);
            coded->symbol_table = lk_buf_view(&out->tools.table);
            coded->values = text;
            text = coded;
        }
    }
    lk_page_fullzip(leaf, &values, text, map, out);
}

/* Types whose values may become indices: text, 16 bytes, and in files of 2.2 words of 8. */
static bool may_repeat(const lk_leaf *leaf, const lk_page_layout *layout)
{
    return leaf->level_count == 0 &&
           (leaf->offset_bytes > 0 || leaf->row_bits == 128 || (leaf->row_bits == 64 && layout->large_chunk));
}

static void encode_values(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out)
{
    lk_values values = lk_values_of(leaf), items = {0};
    uint64_t  bytes = 0;
    bool      crowded = leaf->lists > 0 && overfull(leaf, map);
    if (!crowded && !stays_plain(leaf) && may_repeat(leaf, &out->layout)) {
        (void)lk_form_of(leaf, &values, &bytes);
        if (leaf->options.structure == LK_STRUCTURE_FULLZIP && leaf->row_bits > 0) {
            bytes = values.count * leaf->row_bits / 8;
        }
        if (lk_values_to_indices(leaf, bytes, &values, &items, &out->tools)) {
            lk_page_miniblock(leaf, &values, false, &items, map, out);
            return;
        }
    }
    if (wants_fullzip(leaf, map, &out->layout)) {
        encode_rows(leaf, map, out);
        return;
    }
    bool symbols = leaf->offset_bytes > 0 && lk_values_to_symbols(leaf, &values, &out->tools);
    lk_page_miniblock(leaf, &values, symbols, NULL, map, out);
}

void lk_page_begin(const lk_leaf *leaf, uint32_t file_minor, lk_page_out *out, lk_page_levels *map)
{
    out->layout = (lk_page_layout){.large_chunk = file_minor >= 2};
    out->node_count = 0;
    out->in_leaf = (lk_bytes){0};
    for (size_t buffer = 0; buffer < LK_PAGE_OUT_BUFFERS; buffer++) {
        lk_buf_clear(&out->buffers[buffer]);
    }
    if (leaf->lists > 0) {
        choose_list_layers(leaf, out, map);
    } else {
        choose_layers(leaf, out, map);
    }
}

bool lk_page_without_values(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out)
{
    bool nulls = leaf->type.layout == LK_LAYOUT_NULL && leaf->level_count == 0;
    bool none = nulls || (leaf->lists > 0 ? leaf->rows == 0 : map->all_leaf_null);
    if (none && leaf->lists > 0) {
        lk_page_no_values(leaf, map, out);
    } else if (none) {
        lk_page_all_null(leaf, map, out);
    }
    return none;
}

void lk_page_encode(const lk_leaf *leaf, uint32_t file_minor, lk_page_out *out)
{
    lk_page_levels map;
    lk_page_begin(leaf, file_minor, out, &map);
    if (!lk_page_without_values(leaf, &map, out) && (file_minor < 2 || !lk_page_constant(leaf, out))) {
        encode_values(leaf, &map, out);
    }
}

lk_bytes lk_page_out_buffer(const lk_page_out *out, size_t buffer)
{
    return buffer == 0 && out->in_leaf.size > 0 ? out->in_leaf : lk_buf_view(&out->buffers[buffer]);
}

void lk_page_make_room(lk_leaf *leaf)
{
    if (leaf->offset_bytes > 0 && leaf->lists == 0 && leaf->values.size >= LK_PAGE_IN_LEAF_BYTES) {
        lk_buf_reserve_exact(&leaf->values, lk_zip_overhead(leaf));
    }
}

void lk_page_out_deinit(lk_page_out *out)
{
    for (size_t buffer = 0; buffer < LK_PAGE_OUT_BUFFERS; buffer++) {
        lk_buf_deinit(&out->buffers[buffer]);
    }
    lk_value_tools_deinit(&out->tools);
    lk_buf_deinit(&out->plain);
}

size_t lk_page_out_capacity(const lk_page_out *out)
{
    const lk_value_tools *tools = &out->tools;
    size_t                capacity = out->plain.capacity + tools->bytes.capacity + tools->ends.capacity +
                      tools->indices.capacity + tools->items.capacity + tools->item_ends.capacity +
                      tools->slots.capacity;
    for (size_t buffer = 0; buffer < LK_PAGE_OUT_BUFFERS; buffer++) {
        capacity += out->buffers[buffer].capacity;
    }
    return capacity;
}
