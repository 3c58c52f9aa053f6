/*
 * write_miniblock.c - pages of chunks (miniblock.c reads them): a power of two of values each but for the last, with
 * the levels of the rows, or in lists of the entries, that they belong to.
 */
#include "lance/write_page_priv.h"

#include "arrow/bits.h"
#include "lance/bitpack.h"

enum {
    CHUNK_FIXED_BYTES = 8192, /* of values: one packed block of 64-bit words */
    CHUNK_TEXT_BYTES = 12288, /* offsets and text: 512 texts of 16 bytes */
    CHUNK_FILL = 0xfe,
    TEXT_FILL = 'H'
};

typedef struct block_writer {
    const lk_leaf *leaf;
    lk_page_out   *out;
    lk_page_levels levels;
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
    uint16_t words[LK_CHUNK_VALUES_MAX];
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
        bool begins = lk_entry_level(&leaf->reps, at) == leaf->lists;
        words[0] += begins && at > first;
        begun = begins ? at : begun;
    }
    words[1] = last ? 0 : end - begun;
    if (index->size > 0 &&
        lk_entry_level(&leaf->reps, first) == leaf->lists) { /* what was left over was a whole row */
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
        values += lk_entry_visible(leaf, lk_entry_level(&leaf->defs, end++));
    }
    lk_buf words = {0};
    lk_buf_append_zeros(&words, (size_t)(end - first) * 2);
    uint16_t *mapped = (uint16_t *)(void *)words.data;
    memcpy(mapped, leaf->reps.data + first * 2, (size_t)(end - first) * 2);
    put_level_block(mapped, end - first, self->rep_width, data, begin, at);
    if (self->levels.max > 0) {
        for (uint64_t index = first; index < end; index++) {
            mapped[index - first] = self->levels.of_mark[lk_entry_level(&leaf->defs, index)];
        }
        put_level_block(mapped, end - first, self->def_width, data, begin, at);
    }
    lk_buf_deinit(&words);
    index_rows(self, first, end, last);
    self->entry = end;
}

static void put_flat(const lk_leaf *leaf, uint64_t start, uint64_t count, lk_buf *data)
{
    if (leaf->row_bits % 8 == 0) {
        size_t width = leaf->row_bits / 8;
        lk_buf_append(data, leaf->values.data + start * width, (size_t)count * width);
    } else {
        lk_page_put_bits(data, &leaf->values, start * leaf->row_bits, count * leaf->row_bits);
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

static void put_text(const lk_leaf *leaf, uint64_t start, uint64_t count, lk_buf *data)
{
    size_t   width = leaf->offset_bytes, at = data->size;
    uint64_t first = lk_text_end(leaf, start), shift = (count + 1) * width;
    lk_buf_reserve(data, (size_t)(shift + lk_text_end(leaf, start + count) - first));
    for (uint64_t row = 0; row <= count; row++) {
        uint64_t offset = lk_text_end(leaf, start + row) - first + shift;
        memcpy(data->data + data->size, &offset, width);
        data->size += width;
    }
    lk_buf_append(data, leaf->values.data + first, (size_t)(lk_text_end(leaf, start + count) - first));
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
            lk_page_put_bits(data, &list->bits, start * list->items, count * list->items);
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
    size_t   width = self->out->layout.large_chunk ? 4 : 2; /* of a size, and of the chunk's word */
    lk_buf_append_zeros(data, 2U + 2U * blocks + width * self->out->layout.num_buffers);
    pad(data, begin, 8, (char)CHUNK_FILL);
    if (lists) {
        put_entry_levels(self, count, last, data, begin, &at);
    } else if (blocks > 0) {
        put_row_levels(self, start, count, data, begin, &at);
    }
    for (size_t buffer = 0; buffer < self->out->layout.num_buffers; buffer++, at += width) {
        size_t from = data->size;
        put_values(self, buffer, start, count, data);
        uint64_t size = data->size - from;
        LK_ASSERT(size <= UINT16_MAX || width == 4);
        memcpy(data->data + at, &size, width);
        pad(data, begin, 8, (char)CHUNK_FILL);
    }
    size_t   units = (data->size - begin) / 8;
    unsigned log = last ? 0 : (unsigned)__builtin_ctzll(count);
    LK_ASSERT(units <= 4096 || width == 4);
    uint64_t word = (units - 1) << 4 | log;
    lk_buf_append(words, &word, width);
}

/* Values of a full chunk of fixed width. */
static uint64_t chunk_rows(const block_writer *self)
{
    uint64_t rows = LK_CHUNK_VALUES_MAX;
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
    uint64_t rest = leaf->rows - start, rows = LK_CHUNK_VALUES_MAX, first = lk_text_end(leaf, start);
    if (rest <= rows &&
        lk_text_end(leaf, leaf->rows) - first + (rest + 1) * leaf->offset_bytes <= CHUNK_TEXT_BYTES) {
        return rest;
    }
    while (rows > 2 &&
           (rows > rest || lk_text_end(leaf, start + rows) - first + (rows + 1) * leaf->offset_bytes >
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

static const lk_encoding *value_encoding(const block_writer *self)
{
    const lk_leaf *leaf = self->leaf;
    if (self->packed) {
        return lk_page_node(self->out, LK_ENCODING_INLINE_BITPACKING, self->word_bits);
    }
    if (leaf->offset_bytes > 0) {
        lk_encoding *offsets = lk_page_node(self->out, LK_ENCODING_FLAT, leaf->offset_bytes * 8);
        lk_encoding *text = lk_page_node(self->out, LK_ENCODING_VARIABLE, 0);
        text->lengths = offsets;
        return text;
    }
    return lk_page_list_encoding(leaf, self->out);
}

static const lk_encoding *level_encoding(const block_writer *self, unsigned width)
{
    if (width == 0) {
        return lk_page_node(self->out, LK_ENCODING_FLAT, 16);
    }
    lk_encoding *packed = lk_page_node(self->out, LK_ENCODING_OUT_OF_LINE_BITPACKING, 16);
    packed->values = lk_page_node(self->out, LK_ENCODING_FLAT, width);
    return packed;
}

void lk_page_miniblock(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out)
{
    block_writer self = {.leaf = leaf, .out = out, .levels = *map, .word_bits = leaf->row_bits};
    self.packed = packing_pays(leaf);
    bool few = (leaf->lists > 0 ? leaf->defs.size / 2 : leaf->rows) < LK_BITPACK_BLOCK;
    self.def_width = few ? 0 : lk_bit_length(map->max);
    self.rep_width = few ? 0 : lk_bit_length(leaf->lists);
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
