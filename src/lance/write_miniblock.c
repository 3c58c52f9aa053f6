/*
 * write_miniblock.c - pages of chunks (miniblock.c reads them): a power of two of values each but for the last, with
 * the levels of the rows, or in lists of the entries, that they belong to.
 *
 *   buffers: a word a chunk; the chunks; the dictionary, if any; in lists two words a chunk, the row index
 */
#include "lance/bitpack.h"
#include "lance/write_page_priv.h"

enum { GENERAL_FROM = 4096 }; /* bytes of values: less is not compressed */

typedef struct block_writer {
    const lk_leaf   *leaf;
    const lk_values *values;
    lk_page_out     *out;
    lk_page_levels   levels;
    lk_level_plan    def, rep;
    lk_form          form;
    lk_scheme        scheme; /* 0: the first value buffer of a chunk is not compressed */
    size_t           bitmaps;
    uint64_t         entry;        /* in lists: the first of the next chunk */
    uint64_t         plain, small; /* bytes of first buffers before and after compression */
    lk_buf          *index;        /* of rows */
} block_writer;

/* -- levels ---------------------------------------------------------------------------------------------- */
/* One block of levels of a chunk, and its size into the chunk's header at *at. */
static void put_level_block(
    const lk_level_plan *plan, const uint16_t *words, uint64_t count, lk_buf *data, size_t begin, size_t *at)
{
    size_t from = data->size;
    lk_put_levels(plan, words, count, data);
    LK_ASSERT(count <= UINT16_MAX && data->size - from <= UINT16_MAX);
    lk_store_u16(data->data + begin, (uint16_t)count);
    lk_store_u16(data->data + *at, (uint16_t)(data->size - from));
    lk_page_pad_chunk(data, begin);
    *at += 2;
}

static void put_row_levels(
    const block_writer *self, uint64_t start, uint64_t count, lk_buf *data, size_t begin, size_t *at)
{
    uint16_t words[LK_CHUNK_VALUES_MAX];
    for (uint64_t row = 0; row < count; row++) {
        words[row] = self->levels.of_mark[(uint8_t)self->leaf->marks.data[start + row]];
    }
    put_level_block(&self->def, words, count, data, begin, at);
}

/* The row index grows by a chunk of these entries: rows that end in it, entries left over behind the last. */
static void index_rows(const block_writer *self, uint64_t first, uint64_t end, bool last)
{
    const lk_leaf *leaf = self->leaf;
    lk_buf        *index = self->index;
    uint64_t       words[2] = {last, 0}, begun = end;
    if (end > first + 1) {
        words[0] += lk_count16(leaf->reps.data + (first + 1) * 2, end - first - 1, (uint16_t)leaf->lists);
    }
    while (begun > first && lk_entry_level(&leaf->reps, begun - 1) != leaf->lists) {
        begun--;
    }
    begun -= begun > first; /* where the last row begins, or the chunk */
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
    if (last || leaf->hidden == 0) { /* each entry is a value */
        end = last || count > total - first ? total : first + count;
    }
    while (end < total && leaf->hidden > 0 && values < count) {
        values += lk_entry_visible(leaf, lk_entry_level(&leaf->defs, end++));
    }
    put_level_block(
        &self->rep, (const uint16_t *)(const void *)leaf->reps.data + first, end - first, data, begin, at);
    if (self->levels.max > 0) {
        lk_buf words = {0};
        lk_buf_append_zeros(&words, (size_t)(end - first) * 2);
        uint16_t *mapped = (uint16_t *)(void *)words.data;
        for (uint64_t index = first; index < end; index++) {
            mapped[index - first] = self->levels.of_mark[lk_entry_level(&leaf->defs, index)];
        }
        put_level_block(&self->def, mapped, end - first, data, begin, at);
        lk_buf_deinit(&words);
    }
    index_rows(self, first, end, last);
    self->entry = end;
}

/* -- values ---------------------------------------------------------------------------------------------- */
/* Value buffer `index` of the chunk: list bitmaps first, then the form's. */
static void put_values(block_writer *self, size_t index, uint64_t start, uint64_t count, lk_buf *data)
{
    const lk_leaf *leaf = self->leaf;
    size_t         bitmap = 0;
    for (size_t level = 0; level < leaf->level_count; level++) {
        const lk_leaf_level *list = &leaf->levels[level];
        if (list->has_nulls && bitmap++ == index) {
            lk_page_put_bits(data, list->bits.data, start * list->items, count * list->items);
            return;
        }
    }
    if (self->scheme == 0 || index > 0) {
        lk_form_put(self->form, self->values, index - self->bitmaps, start, count, data);
        return;
    }
    lk_buf *plain = &self->out->plain;
    size_t  from = data->size;
    lk_buf_clear(plain);
    lk_form_put(self->form, self->values, 0, start, count, plain);
    lk_compress(self->scheme, self->leaf->options.level, lk_buf_view(plain), data);
    self->plain += plain->size;
    self->small += data->size - from;
}

/* -- chunks ---------------------------------------------------------------------------------------------- */
static void put_chunk(block_writer *self, uint64_t start, uint64_t count, bool last)
{
    lk_buf  *words = &self->out->buffers[0], *data = &self->out->buffers[1];
    size_t   begin = data->size, at = begin + 2;
    bool     lists = self->leaf->lists > 0;
    unsigned blocks = (self->levels.max > 0 ? 1U : 0U) + (lists ? 1U : 0U);
    size_t   width = self->out->layout.large_chunk ? 4 : 2; /* of a size, and of the chunk's word */
    lk_buf_append_zeros(data, 2U + 2U * blocks + width * self->out->layout.num_buffers);
    lk_page_pad_chunk(data, begin);
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
        lk_page_pad_chunk(data, begin);
    }
    uint64_t units = (data->size - begin) / 8, log = last ? 0 : (unsigned)__builtin_ctzll(count);
    LK_ASSERT(units <= 4096 || width == 4);
    uint64_t word = (units - 1) << 4 | log;
    lk_buf_append(words, &word, width);
}

static void put_chunks(block_writer *self)
{
    uint64_t rows = self->values->count, count = 0;
    self->entry = self->plain = self->small = 0;
    lk_buf_clear(&self->out->buffers[0]);
    lk_buf_clear(&self->out->buffers[1]);
    lk_buf_clear(self->index);
    for (uint64_t start = 0; start < rows; start += count) {
        count = lk_form_chunk(self->form, self->values, start, self->leaf->options.chunk_bytes);
        put_chunk(self, start, count, start + count == rows);
    }
}

/* -- the page -------------------------------------------------------------------------------------------- */
static void plan_levels(block_writer *self)
{
    const lk_leaf *leaf = self->leaf;
    lk_page_out   *out = self->out;
    bool           lists = leaf->lists > 0;
    uint64_t       count = lists ? leaf->defs.size / 2 : leaf->rows;
    if (self->levels.max > 0) {
        uint64_t changes = lists ? lk_changes16(leaf->defs.data, count)
                                 : lk_changes8((const uint8_t *)leaf->marks.data, count);
        self->def = lk_level_plan_of(count, changes, self->levels.max, &out->layout);
        out->layout.def = lk_level_encoding(&self->def, out);
    }
    if (lists) {
        uint64_t changes = lk_changes16(leaf->reps.data, count);
        self->rep = lk_level_plan_of(count, changes, leaf->lists, &out->layout);
        out->layout.rep = lk_level_encoding(&self->rep, out);
        out->layout.repetition_depth = 1;
    }
}

static void plan_values(block_writer *self, bool symbols)
{
    const lk_leaf *leaf = self->leaf;
    lk_page_out   *out = self->out;
    lk_compression asked = leaf->options.compression;
    uint64_t       bytes = 0;
    self->form = lk_form_of(leaf, self->values, &bytes);
    for (size_t level = 0; level < leaf->level_count; level++) {
        self->bitmaps += leaf->levels[level].has_nulls;
    }
    if (lk_compression_is_general(asked) && leaf->level_count == 0 && bytes >= GENERAL_FROM) {
        self->scheme = asked == LK_COMPRESSION_LZ4 ? LK_SCHEME_LZ4 : LK_SCHEME_ZSTD;
    }
    out->layout.num_buffers = (uint32_t)self->bitmaps + (self->form == LK_FORM_RUNS ? 2 : 1);
    out->layout.values = lk_form_encoding(self->form, leaf, self->values, out);
    if (symbols) {
        lk_encoding *coded = lk_page_node(out, LK_ENCODING_FSST, 0);
        coded->symbol_table = lk_buf_view(&out->tools.table);
        coded->values = out->layout.values;
        out->layout.values = coded;
    }
}

/* Items as text: the bits of an offset, where the bytes begin, offsets from 0 on, the bytes. */
static void put_text_items(const lk_values *items, lk_buf *out)
{
    size_t   width = items->offset_bytes;
    uint64_t bits = width * 8, first = 2 * width + (items->count + 1) * width;
    lk_buf_append(out, &bits, width);
    lk_buf_append(out, &first, width);
    for (uint64_t item = 0; item <= items->count; item++) {
        uint64_t offset = lk_values_end(items, item);
        lk_buf_append(out, &offset, width);
    }
    lk_buf_append(out, items->bytes, (size_t)lk_values_end(items, items->count));
}

static void put_dictionary(const lk_leaf *leaf, const lk_values *items, lk_page_out *out, lk_buf *block)
{
    lk_compression     asked = leaf->options.dictionary_compression;
    const lk_encoding *encoding = items->offset_bytes > 0 ? lk_page_text_encoding(items->offset_bytes, out)
                                                          : lk_page_node(out, LK_ENCODING_FLAT, items->bits);
    if (items->offset_bytes > 0) {
        put_text_items(items, block);
    } else {
        lk_buf_append(block, items->bytes, ((size_t)items->count * items->bits + 7) / 8);
    }
    if (out->layout.large_chunk && lk_compression_is_general(asked)) { /* files of 2.1 have them plain */
        lk_scheme scheme = asked == LK_COMPRESSION_LZ4 ? LK_SCHEME_LZ4 : LK_SCHEME_ZSTD;
        lk_buf    small = {0};
        lk_compress(scheme, leaf->options.dictionary_level, lk_buf_view(block), &small);
        if (small.size < block->size) {
            lk_buf_clear(block);
            lk_buf_append_bytes(block, lk_buf_view(&small));
            encoding = lk_page_wrap(out, scheme, encoding);
        }
        lk_buf_deinit(&small);
    }
    out->layout.dictionary = encoding;
    out->layout.num_dictionary_items = items->count;
}

void lk_page_miniblock(const lk_leaf *leaf, const lk_values *values, bool symbols, const lk_values *items,
    const lk_page_levels *map, lk_page_out *out)
{
    size_t       index = items == NULL ? 2 : 3;
    block_writer self = {
        .leaf = leaf, .values = values, .out = out, .levels = *map, .index = &out->buffers[index]};
    out->layout.kind = LK_PAGE_MINIBLOCK;
    out->layout.num_items = values->count;
    out->buffer_count = index + (leaf->lists > 0);
    plan_levels(&self);
    plan_values(&self, symbols);
    if (items != NULL) {
        put_dictionary(leaf, items, out, &out->buffers[2]);
    }
    put_chunks(&self);
    if (self.scheme != 0 && self.small >= self.plain) { /* nothing gained: without */
        self.scheme = 0;
        put_chunks(&self);
    }
    if (self.scheme != 0) {
        out->layout.values = lk_page_wrap(out, self.scheme, out->layout.values);
    }
}
