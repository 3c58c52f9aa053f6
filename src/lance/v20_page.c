/* v20_page.c - see v20_page.h. Buffers are numbered in the order in which a reader comes by them. */
#include "lance/v20_page.h"

#include "base/hash.h"
#include "lance/compress.h"

#include <string.h>

enum {
    DICTIONARY_ROWS_MIN = 100, /* as the reference has it */
    DICTIONARY_ITEMS_MAX = 99,
    SLOTS = 256,                       /* of the table that finds them; a power of two */
    COMPRESSED_MAX = 256 * 1024 * 1024 /* a page is larger only for one row's sake, and stays plain */
};

/* -- what a page consists of ----------------------------------------------------------------------------- */
static void start(lk_v20_page_out *out)
{
    lk_arena_close(&out->nodes);
    out->buffer_count = out->owned_count = 0;
    out->root = NULL;
}

static lk_v20_array *add_node(lk_v20_page_out *out, lk_v20_kind kind)
{
    lk_v20_array *node = lk_arena_take(&out->nodes, sizeof *node);
    node->kind = kind;
    return node;
}

static lk_buf *own(lk_v20_page_out *out)
{
    lk_buf *buffer = &out->owned[out->owned_count++];
    lk_buf_clear(buffer);
    return buffer;
}

/* Values of `bits` bits in a buffer of their own. */
static lk_v20_array *add_flat(lk_v20_page_out *out, uint32_t bits, lk_bytes bytes)
{
    lk_v20_array *node = add_node(out, LK_V20_FLAT);
    LK_ASSERT(out->buffer_count < LK_V20_BUFFERS_MAX);
    node->bits = bits;
    node->buffer = (uint32_t)out->buffer_count;
    out->buffers[out->buffer_count++] = bytes;
    return node;
}

void lk_v20_page_out_deinit(lk_v20_page_out *out)
{
    lk_arena_close(&out->nodes);
    lk_value_tools_deinit(&out->tools);
    for (size_t buffer = 0; buffer < LK_V20_BUFFERS_MAX; buffer++) {
        lk_buf_deinit(&out->owned[buffer]);
    }
}

/* -- fixed values ---------------------------------------------------------------------------------- */
static bool is_null(const lk_leaf *leaf, uint64_t row)
{
    return leaf->has_marks && leaf->marks.data[row] != 0;
}

static uint64_t count_nulls(const lk_leaf *leaf)
{
    uint64_t nulls = 0;
    for (uint64_t row = 0; leaf->has_marks && row < leaf->rows; row++) {
        nulls += leaf->marks.data[row] != 0;
    }
    return nulls;
}

static lk_v20_array *add_validity(lk_v20_page_out *out, const lk_leaf *leaf)
{
    lk_buf *bits = own(out);
    lk_buf_append_zeros(bits, (size_t)(leaf->rows + 7) / 8);
    for (uint64_t row = 0; row < leaf->rows; row++) {
        unsigned valid = leaf->marks.data[row] == 0;
        bits->data[row / 8] = (char)((uint8_t)bits->data[row / 8] | valid << (row % 8));
    }
    return add_flat(out, 1, lk_buf_view(bits));
}

/* The rows (level 0), or the items of the level before. */
static const lk_v20_array *add_level(lk_v20_page_out *out, const lk_leaf *leaf, size_t level, bool nulls)
{
    lk_v20_array *nullable = NULL, *inside = NULL;
    if (level == leaf->level_count && leaf->type.layout == LK_LAYOUT_NULL) {
        return add_node(out, LK_V20_ALL_NULL);
    }
    if (nulls) {
        nullable = add_node(out, LK_V20_NULLABLE);
        nullable->validity = level == 0 ? add_validity(out, leaf)
                                        : add_flat(out, 1, lk_buf_view(&leaf->levels[level - 1].bits));
    }
    if (level == leaf->level_count) {
        bool bits = leaf->type.layout == LK_LAYOUT_BITS;
        inside = add_flat(out, bits ? 1 : leaf->type.width * 8, lk_buf_view(&leaf->values));
    } else {
        inside = add_node(out, LK_V20_FIXED_SIZE_LIST);
        inside->dimension = leaf->levels[level].size;
        inside->values = add_level(out, leaf, level + 1, leaf->levels[level].has_nulls);
    }
    if (nullable == NULL) {
        return inside;
    }
    nullable->values = inside;
    return nullable;
}

/* -- text ------------------------------------------------------------------------------------------ */
/* Ends of texts, nulls already among them, and the `size` bytes that they are about. */
static lk_v20_array *add_binary(
    lk_v20_page_out *out, lk_buf *ends, lk_bytes bytes, const lk_field_options *options)
{
    lk_v20_array *node = add_node(out, LK_V20_BINARY);
    bool          general =
        lk_compression_is_general(options->compression) && bytes.size > 0 && bytes.size <= COMPRESSED_MAX;
    bool lz4 = options->compression == LK_COMPRESSION_LZ4;
    node->adjustment = bytes.size + 1;
    node->indices = add_flat(out, 64, lk_buf_view(ends));
    if (general) {
        lk_buf *packed = own(out);
        lk_compress(lz4 ? LK_SCHEME_LZ4 : LK_SCHEME_ZSTD, options->level, bytes, packed);
        bytes = lk_buf_view(packed);
    }
    lk_v20_array *values = add_flat(out, 8, bytes);
    values->scheme = !general ? LK_V20_PLAIN : lz4 ? LK_V20_LZ4 : LK_V20_ZSTD;
    node->values = values;
    return node;
}

static uint64_t end_of(const lk_leaf *leaf, uint64_t row)
{
    return lk_load_u64(leaf->ends.data + row * 8);
}

static const lk_v20_array *add_text(const lk_leaf *leaf, lk_v20_page_out *out)
{
    lk_buf   *ends = own(out);
    lk_values values = lk_values_of(leaf);
    bool      fsst =
        leaf->options.compression == LK_COMPRESSION_FSST && lk_values_to_symbols(leaf, &values, &out->tools);
    lk_bytes bytes = {values.bytes, (size_t)lk_values_end(&values, values.count)};
    lk_buf_append(ends, values.ends, (size_t)values.count * 8);
    for (uint64_t row = 0; leaf->has_marks && row < leaf->rows; row++) {
        if (is_null(leaf, row)) {
            lk_store_u64(ends->data + row * 8, lk_load_u64(ends->data + row * 8) + bytes.size + 1);
        }
    }
    lk_v20_array *binary = add_binary(out, ends, bytes, &leaf->options);
    if (!fsst) {
        return binary;
    }
    lk_v20_array *node = add_node(out, LK_V20_FSST);
    node->symbol_table = lk_buf_view(&out->tools.table);
    node->values = binary;
    return node;
}

/* -- dictionaries ------------------------------------------------------------------------------------ */
typedef struct dictionary {
    uint8_t  slots[SLOTS]; /* number of an item, from 1 on; 0: free */
    lk_bytes items[DICTIONARY_ITEMS_MAX + 1];
    unsigned count;
} dictionary;

static lk_bytes text_at(const lk_leaf *leaf, uint64_t row)
{
    uint64_t first = row == 0 ? 0 : end_of(leaf, row - 1);
    return (lk_bytes){leaf->values.data + first, (size_t)(end_of(leaf, row) - first)};
}

/* The item's number, from 1 on; 0 when there is no room for another. */
static unsigned find_item(dictionary *self, lk_bytes text)
{
    size_t slot = lk_crc32c(0, text.data, text.size) % SLOTS;
    while (self->slots[slot] != 0 && !lk_bytes_equal(self->items[self->slots[slot] - 1], text)) {
        slot = (slot + 1) % SLOTS;
    }
    if (self->slots[slot] == 0) {
        if (self->count == DICTIONARY_ITEMS_MAX) {
            return 0;
        }
        self->items[self->count++] = text;
        self->slots[slot] = (uint8_t)self->count;
    }
    return self->slots[slot];
}

/* One index a row, 0 for null. False when there are too many different texts. */
static bool fill_indices(const lk_leaf *leaf, dictionary *items, lk_buf *indices)
{
    lk_buf_append_zeros(indices, (size_t)leaf->rows);
    for (uint64_t row = 0; row < leaf->rows; row++) {
        unsigned item = is_null(leaf, row) ? 0 : find_item(items, text_at(leaf, row));
        if (item == 0 && !is_null(leaf, row)) {
            return false;
        }
        indices->data[row] = (char)item;
    }
    return true;
}

static const lk_v20_array *add_dictionary(const lk_leaf *leaf, lk_v20_page_out *out)
{
    const lk_field_options plain = {0};
    dictionary             items = {0};
    lk_buf                *indices = own(out);
    if (!fill_indices(leaf, &items, indices)) {
        out->owned_count--;
        return NULL;
    }
    lk_v20_array *node = add_node(out, LK_V20_DICTIONARY);
    lk_buf       *ends = own(out), *bytes = own(out);
    for (unsigned item = 0; item < items.count; item++) {
        lk_buf_append_bytes(bytes, items.items[item]);
        uint64_t end = bytes->size;
        lk_buf_append(ends, &end, 8);
    }
    if (items.count == 0) { /* nothing but nulls: readers want an item all the same, and it is null */
        lk_buf_append(ends, &(uint64_t){1}, 8);
    }
    node->item_count = items.count == 0 ? 1 : items.count;
    node->indices = add_flat(out, 8, lk_buf_view(indices));
    node->values = add_binary(out, ends, lk_buf_view(bytes), &plain);
    return node;
}

/* -- pages ----------------------------------------------------------------------------------------- */
void lk_v20_page_leaf(const lk_leaf *leaf, lk_v20_page_out *out)
{
    start(out);
    if (leaf->offset_bytes > 0) {
        if (leaf->type.id == LK_TYPE_UTF8 && leaf->rows >= DICTIONARY_ROWS_MIN) {
            out->root = add_dictionary(leaf, out);
        }
        out->root = out->root == NULL ? add_text(leaf, out) : out->root;
        return;
    }
    uint64_t nulls =
        leaf->type.layout == LK_LAYOUT_NULL && leaf->level_count == 0 ? leaf->rows : count_nulls(leaf);
    out->root = nulls == leaf->rows ? add_node(out, LK_V20_ALL_NULL) : add_level(out, leaf, 0, nulls > 0);
}

void lk_v20_page_list(const lk_buf *ends, uint64_t items, lk_v20_page_out *out)
{
    start(out);
    lk_buf *words = own(out);
    lk_buf_append_bytes(words, lk_buf_view(ends));
    for (size_t at = 0; at < words->size; at += 8) {
        uint64_t end = lk_load_u64(words->data + at);
        uint64_t mark = (end & LK_V20_NULL_LIST) == 0 ? 0 : items + 1;
        lk_store_u64(words->data + at, (end & ~LK_V20_NULL_LIST) + mark);
    }
    lk_v20_array *node = add_node(out, LK_V20_LIST);
    node->adjustment = items + 1;
    node->item_count = items;
    node->indices = add_flat(out, 64, lk_buf_view(words));
    out->root = node;
}

static const lk_v20_array *add_member(lk_v20_page_out *out, const struct ArrowSchema *field)
{
    lk_type type;
    bool    known = lk_type_of(field, &type);
    LK_ASSERT(known);
    bool          list = type.layout == LK_LAYOUT_FIXED_LIST;
    lk_v20_array *node = add_node(out, list ? LK_V20_FIXED_SIZE_LIST : LK_V20_FLAT);
    node->bits = list ? 0 : type.width * 8;
    node->dimension = list ? (uint32_t)type.list_size : 0;
    node->values = list ? add_member(out, field->children[0]) : NULL;
    return node;
}

void lk_v20_page_packed(const struct ArrowSchema *field, const lk_buf *bytes, lk_v20_page_out *out)
{
    static const struct ArrowSchema word = {.format = "L"};
    start(out);
    size_t               count = field == NULL ? 2 : (size_t)field->n_children;
    lk_v20_array        *node = add_node(out, LK_V20_PACKED_STRUCT);
    const lk_v20_array **inner = lk_arena_take(&out->nodes, count * sizeof(lk_v20_array *));
    for (size_t member = 0; member < count; member++) {
        inner[member] = add_member(out, field == NULL ? &word : field->children[member]);
    }
    node->inner = inner;
    node->inner_count = count;
    out->buffers[out->buffer_count++] = lk_buf_view(bytes);
    out->root = node;
}

lk_buf *lk_v20_page_indices(lk_v20_page_out *out)
{
    start(out);
    return own(out);
}

void lk_v20_page_dictionary(const lk_leaf *items, uint32_t index_bits, lk_v20_page_out *out)
{
    lk_v20_array *node = add_node(out, LK_V20_DICTIONARY);
    node->item_count = items->rows;
    node->indices = add_flat(out, index_bits, lk_buf_view(&out->owned[0]));
    node->values =
        items->offset_bytes > 0 ? add_text(items, out) : add_level(out, items, 0, items->has_marks);
    out->root = node;
}

void lk_v20_page_struct(lk_v20_page_out *out)
{
    start(out);
    out->root = add_node(out, LK_V20_STRUCT);
}
