/* write_page.c - see write_page.h. */
#include "lance/write_page.h"

#include "arrow/bits.h"
#include "lance/bitpack.h"

enum {
    WIDE_BYTES = 256,         /* from here on a value is a page's row of its own: full-zip */
    CHUNK_FIXED_BYTES = 8192, /* of values: one packed block of 64-bit words */
    CHUNK_TEXT_BYTES = 12288, /* offsets and text: 512 texts of 16 bytes */
    CHUNK_VALUES_MAX = 4096,
    HIDDEN_MAX = 32768,        /* entries without a value; levels of a chunk are counted in 16 bits */
    CHUNK_LEVEL_BYTES = 16384, /* of levels; with values and bitmaps below the 32 KiB a chunk can be */
    CHUNK_FILL = 0xfe,
    TEXT_FILL = 'H'
};

/* -- levels ---------------------------------------------------------------------------------------- */
/* What a row's mark is as a definition level in this page; in lists, what an entry's level is. */
typedef struct levels {
    uint16_t of_mark[2 * LK_LAYERS_MAX + 1];
    uint16_t max; /* 0: no levels */
    bool     all_leaf_null;
} levels;

static void choose_layers(const lk_leaf *leaf, lk_page_out *out, levels *map)
{
    uint64_t counts[LK_LAYERS_MAX + 1] = {0};
    for (uint64_t row = 0; leaf->has_marks && row < leaf->rows; row++) {
        counts[(uint8_t)leaf->marks.data[row]]++;
    }
    *map = (levels){.all_leaf_null = counts[1] == leaf->rows};
    out->layout.layer_count = leaf->layer_count;
    for (size_t layer = 0; layer < leaf->layer_count; layer++) {
        bool nulls = counts[layer + 1] > 0;
        out->layout.layers[layer] = nulls ? LK_LAYER_NULLABLE_ITEM : LK_LAYER_ALL_VALID_ITEM;
        map->max = (uint16_t)(map->max + nulls);
        map->of_mark[layer + 1] = map->max;
    }
}

static uint16_t entry(const lk_buf *words, uint64_t index)
{
    return lk_load_u16(words->data + index * 2);
}

static uint8_t list_layer(bool nulls, bool empties)
{
    return nulls && empties ? LK_LAYER_NULL_AND_EMPTY_LIST
           : nulls          ? LK_LAYER_NULLABLE_LIST
           : empties        ? LK_LAYER_EMPTYABLE_LIST
                            : LK_LAYER_ALL_VALID_LIST;
}

/* The same for entries: which of their levels occur, numbered from inside. */
static void choose_list_layers(const lk_leaf *leaf, lk_page_out *out, levels *map)
{
    bool seen[2 * LK_LAYERS_MAX + 1] = {false};
    for (uint64_t index = 0; index < leaf->defs.size / 2; index++) {
        seen[entry(&leaf->defs, index)] = true;
    }
    *map = (levels){0};
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

/* Whether an entry owns a value: its level lies inside the innermost list. */
static bool visible(const lk_leaf *leaf, uint16_t def)
{
    size_t layer = 0;
    while (layer < leaf->layer_count && !leaf->is_list[layer]) {
        layer++;
    }
    return def < 1 + 2 * layer;
}

static unsigned bit_length(unsigned value)
{
    return value == 0 ? 0 : 32 - (unsigned)__builtin_clz(value);
}

static lk_encoding *node(lk_page_out *out, lk_encoding_kind kind, uint32_t bits)
{
    lk_encoding *made = &out->nodes[out->node_count++];
    *made = (lk_encoding){.kind = kind, .bits = bits};
    return made;
}

/* -- mini-blocks ----------------------------------------------------------------------------------- */
typedef struct block_writer {
    const lk_leaf *leaf;
    lk_page_out   *out;
    levels         levels;
    unsigned       def_width; /* packed bits of a level; 0: levels are plain */
    unsigned       rep_width; /* the same of repetition levels */
    bool           packed;    /* values are inline bit-packed */
    uint32_t       word_bits;
    uint64_t       entry; /* in lists: the first of the next chunk */
} block_writer;

static void pad(lk_buf *out, size_t from, size_t multiple, char fill)
{
    static const char fills[2][8] = {
        {(char)CHUNK_FILL, (char)CHUNK_FILL, (char)CHUNK_FILL, (char)CHUNK_FILL, (char)CHUNK_FILL,
            (char)CHUNK_FILL, (char)CHUNK_FILL, (char)CHUNK_FILL},
        {TEXT_FILL, TEXT_FILL, TEXT_FILL, TEXT_FILL, TEXT_FILL, TEXT_FILL, TEXT_FILL, TEXT_FILL}};
    size_t more = (multiple - (out->size - from) % multiple) % multiple;
    lk_buf_append(out, fills[fill == TEXT_FILL], more);
}

/* A block of levels, plain or packed. */
static void put_levels(const uint16_t *words, uint64_t count, unsigned width, lk_buf *data)
{
    uint16_t padded[LK_BITPACK_BLOCK] = {0};
    uint8_t  packed[2 * LK_BITPACK_BLOCK];
    size_t   block = lk_bitpack_bytes(width);
    if (width == 0) {
        lk_buf_append(data, words, (size_t)count * 2);
        return;
    }
    for (uint64_t done = 0; done < count; done += LK_BITPACK_BLOCK) {
        uint64_t some = count - done < LK_BITPACK_BLOCK ? count - done : LK_BITPACK_BLOCK;
        if (some * 2 <= block) { /* a reader tells the two forms apart by the size */
            lk_buf_append(data, words + done, (size_t)some * 2);
        } else {
            memcpy(padded, words + done, (size_t)some * 2);
            lk_bitpack_pack(16, width, padded, packed);
            lk_buf_append(data, packed, block);
        }
    }
}

/* One block of levels of a chunk, and its size into the chunk's header at *at. */
static void put_level_block(
    const uint16_t *words, uint64_t count, unsigned width, lk_buf *data, size_t begin, size_t *at)
{
    size_t from = data->size;
    put_levels(words, count, width, data);
    lk_store_u16(data->data + begin, (uint16_t)count);
    lk_store_u16(data->data + *at, (uint16_t)(data->size - from));
    pad(data, begin, 8, (char)CHUNK_FILL);
    *at += 2;
}

static void put_row_levels(
    const block_writer *self, uint64_t start, uint64_t count, lk_buf *data, size_t begin, size_t *at)
{
    uint16_t words[CHUNK_VALUES_MAX];
    for (uint64_t row = 0; row < count; row++) {
        words[row] = self->levels.of_mark[(uint8_t)self->leaf->marks.data[start + row]];
    }
    put_level_block(words, count, self->def_width, data, begin, at);
}

/* The row index grows by a chunk of these entries: rows that end in it, entries left over behind the last. */
static void index_rows(const block_writer *self, uint64_t first, uint64_t end, bool last)
{
    const lk_leaf *leaf = self->leaf;
    lk_buf        *index = &self->out->buffers[2];
    uint64_t       words[2] = {last, 0}, begun = first;
    for (uint64_t at = first; at < end; at++) {
        bool begins = entry(&leaf->reps, at) == leaf->lists;
        words[0] += begins && at > first;
        begun = begins ? at : begun;
    }
    words[1] = last ? 0 : end - begun;
    if (index->size > 0 &&
        entry(&leaf->reps, first) == leaf->lists) { /* what was left over was a whole row */
        char *before = index->data + index->size - 16;
        lk_store_u64(before, lk_load_u64(before) + (lk_load_u64(before + 8) > 0));
        lk_store_u64(before + 8, 0);
    }
    lk_buf_append(index, words, sizeof words);
}

/* Levels of the entries that hold the next `count` values; the last chunk has what is left. */
static void put_entry_levels(
    block_writer *self, uint64_t count, bool last, lk_buf *data, size_t begin, size_t *at)
{
    const lk_leaf *leaf = self->leaf;
    uint64_t       total = leaf->defs.size / 2, first = self->entry, end = first, values = 0;
    while (end < total && (last || values < count)) {
        values += visible(leaf, entry(&leaf->defs, end++));
    }
    lk_buf words = {0};
    lk_buf_append_zeros(&words, (size_t)(end - first) * 2);
    uint16_t *mapped = (uint16_t *)(void *)words.data;
    memcpy(mapped, leaf->reps.data + first * 2, (size_t)(end - first) * 2);
    put_level_block(mapped, end - first, self->rep_width, data, begin, at);
    if (self->levels.max > 0) {
        for (uint64_t index = first; index < end; index++) {
            mapped[index - first] = self->levels.of_mark[entry(&leaf->defs, index)];
        }
        put_level_block(mapped, end - first, self->def_width, data, begin, at);
    }
    lk_buf_deinit(&words);
    index_rows(self, first, end, last);
    self->entry = end;
}

static void put_bits(lk_buf *data, const lk_buf *from, uint64_t start, uint64_t count)
{
    size_t at = data->size;
    lk_buf_append_zeros(data, (size_t)(count + 7) / 8);
    lk_bits_copy((const uint8_t *)from->data, (int64_t)start, (uint8_t *)data->data + at, 0, (int64_t)count);
}

static void put_flat(const lk_leaf *leaf, uint64_t start, uint64_t count, lk_buf *data)
{
    if (leaf->row_bits % 8 == 0) {
        size_t width = leaf->row_bits / 8;
        lk_buf_append(data, leaf->values.data + start * width, (size_t)count * width);
    } else {
        put_bits(data, &leaf->values, start * leaf->row_bits, count * leaf->row_bits);
    }
}

static void put_packed(const block_writer *self, uint64_t start, uint64_t count, lk_buf *data)
{
    uint64_t    padded[LK_BITPACK_BLOCK] = {0};
    size_t      width = self->word_bits / 8;
    const char *values = self->leaf->values.data + start * width;
    uint64_t    bits = lk_bitpack_width(self->word_bits, values, (size_t)count);
    if (count < LK_BITPACK_BLOCK) {
        values = memcpy(padded, values, (size_t)count * width);
    }
    lk_buf_append(data, &bits, width);
    lk_buf_append_zeros(data, lk_bitpack_bytes((unsigned)bits));
    lk_bitpack_pack(
        self->word_bits, (unsigned)bits, values, data->data + data->size - lk_bitpack_bytes((unsigned)bits));
}

static uint64_t end_of(const lk_leaf *leaf, uint64_t row)
{
    return row == 0 ? 0 : lk_load_u64(leaf->ends.data + (row - 1) * 8);
}

static void put_text(const lk_leaf *leaf, uint64_t start, uint64_t count, lk_buf *data)
{
    size_t   width = leaf->offset_bytes, at = data->size;
    uint64_t first = end_of(leaf, start), shift = (count + 1) * width;
    lk_buf_reserve(data, (size_t)(shift + end_of(leaf, start + count) - first));
    for (uint64_t row = 0; row <= count; row++) {
        uint64_t offset = end_of(leaf, start + row) - first + shift;
        memcpy(data->data + data->size, &offset, width);
        data->size += width;
    }
    lk_buf_append(data, leaf->values.data + first, (size_t)(end_of(leaf, start + count) - first));
    pad(data, at, width, TEXT_FILL);
}

/* Value buffer `index` of the chunk: list bitmaps first, the values last. */
static void put_values(const block_writer *self, size_t index, uint64_t start, uint64_t count, lk_buf *data)
{
    const lk_leaf *leaf = self->leaf;
    size_t         bitmap = 0;
    for (size_t level = 0; level < leaf->level_count; level++) {
        const lk_leaf_level *list = &leaf->levels[level];
        if (list->has_nulls && bitmap++ == index) {
            put_bits(data, &list->bits, start * list->items, count * list->items);
            return;
        }
    }
    if (self->packed) {
        put_packed(self, start, count, data);
    } else if (leaf->offset_bytes > 0) {
        put_text(leaf, start, count, data);
    } else {
        put_flat(leaf, start, count, data);
    }
}

static void put_chunk(block_writer *self, uint64_t start, uint64_t count, bool last)
{
    lk_buf  *words = &self->out->buffers[0], *data = &self->out->buffers[1];
    size_t   begin = data->size, at = begin + 2;
    bool     lists = self->leaf->lists > 0;
    unsigned blocks = (self->levels.max > 0 ? 1U : 0U) + (lists ? 1U : 0U);
    lk_buf_append_zeros(data, 2U + 2U * blocks + 2U * self->out->layout.num_buffers);
    pad(data, begin, 8, (char)CHUNK_FILL);
    if (lists) {
        put_entry_levels(self, count, last, data, begin, &at);
    } else if (blocks > 0) {
        put_row_levels(self, start, count, data, begin, &at);
    }
    for (size_t buffer = 0; buffer < self->out->layout.num_buffers; buffer++, at += 2) {
        size_t from = data->size;
        put_values(self, buffer, start, count, data);
        LK_ASSERT(data->size - from <= UINT16_MAX);
        lk_store_u16(data->data + at, (uint16_t)(data->size - from));
        pad(data, begin, 8, (char)CHUNK_FILL);
    }
    size_t   units = (data->size - begin) / 8;
    unsigned log = last ? 0 : (unsigned)__builtin_ctzll(count);
    LK_ASSERT(units <= 4096);
    char word[2];
    lk_store_u16(word, (uint16_t)((units - 1) << 4 | log));
    lk_buf_append(words, word, 2);
}

/* Values of a full chunk of fixed width. */
static uint64_t chunk_rows(const block_writer *self)
{
    uint64_t rows = CHUNK_VALUES_MAX;
    if (self->packed) {
        return LK_BITPACK_BLOCK;
    }
    while (rows > 2 && rows * self->leaf->row_bits / 8 > CHUNK_FIXED_BYTES) {
        rows /= 2;
    }
    return rows;
}

static void put_fixed_chunks(block_writer *self)
{
    uint64_t rows = self->leaf->rows, step = chunk_rows(self);
    for (uint64_t start = 0; start < rows; start += step) {
        bool last = rows - start <= step;
        put_chunk(self, start, last ? rows - start : step, last);
    }
}

/* The largest power of two of texts that fits; the rest when all of it does. */
static uint64_t text_rows(const lk_leaf *leaf, uint64_t start)
{
    uint64_t rest = leaf->rows - start, rows = CHUNK_VALUES_MAX, first = end_of(leaf, start);
    if (rest <= rows &&
        end_of(leaf, leaf->rows) - first + (rest + 1) * leaf->offset_bytes <= CHUNK_TEXT_BYTES) {
        return rest;
    }
    while (rows > 2 && (rows > rest || end_of(leaf, start + rows) - first + (rows + 1) * leaf->offset_bytes >
                                           CHUNK_TEXT_BYTES)) {
        rows /= 2;
    }
    return rows < rest ? rows : rest;
}

static void put_text_chunks(block_writer *self)
{
    uint64_t rows = self->leaf->rows, count = 0;
    for (uint64_t start = 0; start < rows; start += count) {
        count = text_rows(self->leaf, start);
        put_chunk(self, start, count, start + count == rows);
    }
}

/* Whether bit packing makes the page's words an eighth smaller. */
static bool packing_pays(const lk_leaf *leaf)
{
    uint32_t word = leaf->row_bits;
    bool     words = leaf->level_count == 0 && leaf->type.id != LK_TYPE_FIXED_BINARY &&
                 (word == 8 || word == 16 || word == 32 || word == 64);
    uint64_t packed = 0, flat = leaf->rows * word;
    for (uint64_t start = 0; words && start < leaf->rows; start += LK_BITPACK_BLOCK) {
        uint64_t count = leaf->rows - start < LK_BITPACK_BLOCK ? leaf->rows - start : LK_BITPACK_BLOCK;
        unsigned bits = lk_bitpack_width(word, leaf->values.data + start * (word / 8), (size_t)count);
        packed += (uint64_t)bits * LK_BITPACK_BLOCK + word;
    }
    return words && packed * 8 <= flat * 7;
}

/* Fixed-size lists around the values' encoding. */
static const lk_encoding *list_encoding(const lk_leaf *leaf, lk_page_out *out)
{
    uint32_t           bits = leaf->type.layout == LK_LAYOUT_BITS ? 1 : leaf->type.width * 8;
    const lk_encoding *inner = node(out, LK_ENCODING_FLAT, bits);
    for (size_t level = leaf->level_count; level > 0; level--) {
        lk_encoding *list = node(out, LK_ENCODING_FIXED_SIZE_LIST, 0);
        list->items_per_value = leaf->levels[level - 1].size;
        list->has_validity = leaf->levels[level - 1].has_nulls;
        list->values = inner;
        inner = list;
    }
    return inner;
}

static const lk_encoding *value_encoding(const block_writer *self)
{
    const lk_leaf *leaf = self->leaf;
    if (self->packed) {
        return node(self->out, LK_ENCODING_INLINE_BITPACKING, self->word_bits);
    }
    if (leaf->offset_bytes > 0) {
        lk_encoding *offsets = node(self->out, LK_ENCODING_FLAT, leaf->offset_bytes * 8);
        lk_encoding *text = node(self->out, LK_ENCODING_VARIABLE, 0);
        text->lengths = offsets;
        return text;
    }
    return list_encoding(leaf, self->out);
}

static const lk_encoding *level_encoding(const block_writer *self, unsigned width)
{
    if (width == 0) {
        return node(self->out, LK_ENCODING_FLAT, 16);
    }
    lk_encoding *packed = node(self->out, LK_ENCODING_OUT_OF_LINE_BITPACKING, 16);
    packed->values = node(self->out, LK_ENCODING_FLAT, width);
    return packed;
}

static void encode_miniblock(const lk_leaf *leaf, const levels *map, lk_page_out *out)
{
    block_writer self = {.leaf = leaf, .out = out, .levels = *map, .word_bits = leaf->row_bits};
    self.packed = packing_pays(leaf);
    bool few = (leaf->lists > 0 ? leaf->defs.size / 2 : leaf->rows) < LK_BITPACK_BLOCK;
    self.def_width = few ? 0 : bit_length(map->max);
    self.rep_width = few ? 0 : bit_length(leaf->lists);
    out->layout.kind = LK_PAGE_MINIBLOCK;
    out->layout.num_items = leaf->rows;
    out->layout.num_buffers = 1;
    for (size_t level = 0; level < leaf->level_count; level++) {
        out->layout.num_buffers += leaf->levels[level].has_nulls;
    }
    out->layout.values = value_encoding(&self);
    out->layout.def = map->max > 0 ? level_encoding(&self, self.def_width) : NULL;
    out->layout.rep = leaf->lists > 0 ? level_encoding(&self, self.rep_width) : NULL;
    out->layout.repetition_depth = leaf->lists > 0;
    out->buffer_count = leaf->lists > 0 ? 3 : 2;
    if (leaf->offset_bytes > 0) {
        put_text_chunks(&self);
    } else {
        put_fixed_chunks(&self);
    }
}

/* -- full-zip -------------------------------------------------------------------------------------- */
static void put_control(const lk_leaf *leaf, const levels *map, uint64_t row, lk_buf *data)
{
    if (map->max > 0) { /* at most 64 layers: the level fits in one byte */
        char level = (char)map->of_mark[(uint8_t)leaf->marks.data[row]];
        lk_buf_append(data, &level, 1);
    }
}

static void zip_fixed(const lk_leaf *leaf, const levels *map, lk_page_out *out)
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
                put_bits(data, &list->bits, row * list->items, list->items);
            }
        }
        lk_buf_append(data, leaf->values.data + row * width, width);
    }
    out->layout.bits_per_value = (uint32_t)(bitmaps + width) * 8;
    out->layout.values = list_encoding(leaf, out);
    out->buffer_count = 1;
}

static size_t position_width(uint64_t size)
{
    return size <= UINT8_MAX ? 1 : size <= UINT16_MAX ? 2 : size <= UINT32_MAX ? 4 : 8;
}

static void zip_text(const lk_leaf *leaf, const levels *map, lk_page_out *out)
{
    lk_buf   *data = &out->buffers[0], *positions = &out->buffers[1];
    size_t    width = leaf->offset_bytes;
    uint64_t *starts = NULL;
    lk_buf    all = {0};
    lk_buf_append_zeros(&all, (size_t)(leaf->rows + 1) * 8);
    starts = (uint64_t *)(void *)all.data;
    for (uint64_t row = 0; row < leaf->rows; row++) {
        uint64_t first = end_of(leaf, row), size = end_of(leaf, row + 1) - first;
        starts[row] = data->size;
        put_control(leaf, map, row, data);
        if (!leaf->has_marks || leaf->marks.data[row] == 0) {
            lk_buf_append(data, &size, width);
            lk_buf_append(data, leaf->values.data + first, (size_t)size);
        }
    }
    starts[leaf->rows] = data->size;
    size_t wide = position_width(data->size);
    for (uint64_t row = 0; row <= leaf->rows; row++) {
        lk_buf_append(positions, &starts[row], wide);
    }
    lk_buf_deinit(&all);
    out->layout.bits_per_offset = (uint32_t)width * 8;
    lk_encoding *text = node(out, LK_ENCODING_VARIABLE, 0);
    text->lengths = node(out, LK_ENCODING_FLAT, (uint32_t)width * 8);
    out->layout.values = text;
    out->buffer_count = 2;
}

static void encode_fullzip(const lk_leaf *leaf, const levels *map, lk_page_out *out)
{
    out->layout.kind = LK_PAGE_FULLZIP;
    out->layout.bits_def = bit_length(map->max);
    out->layout.num_items = out->layout.num_visible_items = leaf->rows;
    if (leaf->offset_bytes > 0) {
        zip_text(leaf, map, out);
    } else {
        zip_fixed(leaf, map, out);
    }
}

/* -- lists ----------------------------------------------------------------------------------------- */
/* A page too many of whose entries have no value for one chunk to hold: rows one by one. */
static bool overfull(const lk_leaf *leaf, const levels *map)
{
    uint64_t bits = bit_length(leaf->lists) + bit_length(map->max);
    return leaf->hidden > HIDDEN_MAX || (leaf->hidden + CHUNK_VALUES_MAX) * bits / 8 > CHUNK_LEVEL_BYTES;
}

static void put_zip_value(const lk_leaf *leaf, uint64_t value, bool null, lk_buf *data)
{
    size_t   width = leaf->row_bits / 8;
    uint64_t first = 0, size = 0;
    if (leaf->offset_bytes > 0) {
        if (!null) {
            first = end_of(leaf, value);
            size = end_of(leaf, value + 1) - first;
            lk_buf_append(data, &size, leaf->offset_bytes);
            lk_buf_append(data, leaf->values.data + first, (size_t)size);
        }
        return;
    }
    for (size_t level = 0; level < leaf->level_count; level++) {
        const lk_leaf_level *list = &leaf->levels[level];
        if (list->has_nulls) {
            put_bits(data, &list->bits, value * list->items, list->items);
        }
    }
    if (width == 0) { /* a boolean takes a byte */
        put_bits(data, &leaf->values, value, 1);
    } else {
        lk_buf_append(data, leaf->values.data + value * width, width);
    }
}

static const lk_encoding *zip_encoding(const lk_leaf *leaf, lk_page_out *out)
{
    if (leaf->offset_bytes == 0) {
        return leaf->row_bits == 1 ? node(out, LK_ENCODING_FLAT, 8) : list_encoding(leaf, out);
    }
    lk_encoding *text = node(out, LK_ENCODING_VARIABLE, 0);
    text->lengths = node(out, LK_ENCODING_FLAT, leaf->offset_bytes * 8);
    return text;
}

static void zip_entries(const lk_leaf *leaf, const levels *map, lk_page_out *out)
{
    lk_buf  *data = &out->buffers[0], positions = {0};
    unsigned shift = bit_length(map->max), bits = shift + bit_length(leaf->lists);
    uint64_t value = 0, total = leaf->defs.size / 2;
    for (uint64_t index = 0; index < total; index++) {
        uint16_t rep = entry(&leaf->reps, index), def = entry(&leaf->defs, index);
        uint32_t word = (uint32_t)rep << shift | map->of_mark[def];
        uint64_t here = data->size;
        if (rep == leaf->lists) {
            lk_buf_append(&positions, &here, 8);
        }
        lk_buf_append(data, &word, bits <= 8 ? 1 : bits <= 16 ? 2 : 4);
        if (visible(leaf, def)) {
            put_zip_value(leaf, value++, def != 0, data);
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

static void encode_zip_lists(const lk_leaf *leaf, const levels *map, lk_page_out *out)
{
    size_t bitmaps = 0;
    for (size_t level = 0; level < leaf->level_count; level++) {
        bitmaps += leaf->levels[level].has_nulls ? (size_t)(leaf->levels[level].items + 7) / 8 : 0;
    }
    out->layout.kind = LK_PAGE_FULLZIP;
    out->layout.bits_rep = bit_length(leaf->lists);
    out->layout.bits_def = bit_length(map->max);
    out->layout.bits_per_offset = leaf->offset_bytes * 8;
    out->layout.bits_per_value = (uint32_t)(leaf->row_bits + 7) / 8 * 8 + (uint32_t)bitmaps * 8;
    out->layout.num_items = leaf->defs.size / 2;
    out->layout.num_visible_items = leaf->rows;
    out->layout.values = zip_encoding(leaf, out);
    out->buffer_count = 2;
    zip_entries(leaf, map, out);
}

/* Lists without a value among them: levels alone. */
static void encode_no_values(const lk_leaf *leaf, const levels *map, lk_page_out *out)
{
    out->layout.kind = LK_PAGE_CONSTANT;
    out->buffer_count = 2;
    lk_buf_append(&out->buffers[0], leaf->reps.data, leaf->reps.size);
    for (uint64_t index = 0; index < leaf->defs.size / 2; index++) {
        lk_buf_append(&out->buffers[1], &map->of_mark[entry(&leaf->defs, index)], 2);
    }
}

static void encode_lists(const lk_leaf *leaf, bool wide, lk_page_out *out)
{
    levels map;
    choose_list_layers(leaf, out, &map);
    if (leaf->rows == 0 || leaf->type.layout == LK_LAYOUT_NULL) {
        encode_no_values(leaf, &map, out);
    } else if (wide || overfull(leaf, &map)) {
        encode_zip_lists(leaf, &map, out);
    } else {
        encode_miniblock(leaf, &map, out);
    }
}

/* -- constant -------------------------------------------------------------------------------------- */
/* All null. Levels wherever the leaf lies in structs, be these always valid: pylance cannot do without. */
static void encode_constant(const lk_leaf *leaf, const levels *map, lk_page_out *out)
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

void lk_page_encode(const lk_leaf *leaf, lk_page_out *out)
{
    levels map;
    out->layout = (lk_page_layout){0};
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
        encode_fullzip(leaf, &map, out);
    } else {
        encode_miniblock(leaf, &map, out);
    }
}

void lk_page_out_deinit(lk_page_out *out)
{
    for (size_t buffer = 0; buffer < 3; buffer++) {
        lk_buf_deinit(&out->buffers[buffer]);
    }
}
