/*
 * miniblock.c - pages of small chunks, each read and decoded on its own.
 *
 *   buffer 0: a word a chunk: low 4 bits log2 of its values (0 in the last: the rest), high bits size / 8 - 1
 *   buffer 1: chunks: u16 levels [u16 rep bytes] [u16 def bytes] sizes of value buffers, padded to 8;
 *             then rep, def and the value buffers, each padded to 8
 *   buffer 2: the dictionary, if any
 */
#include "lance/file_priv.h"

#include <stdlib.h>

/* Chunks closer together than this are read in one go. */
enum { GAP_BYTES = 16 * 1024 };

/* -- load ------------------------------------------------------------------------------------------ */
static lk_rc damaged(const lk_file_reader *file, const char *what, lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: mini-block page: %s", LK_FMT(file->key), what);
}

static lk_rc check_buffers(lk_file_reader *file, const lk_page *page, lk_err *err)
{
    const lk_page_layout *layout = &page->layout;
    size_t                needed = 2U + (layout->dictionary != NULL) + (layout->repetition_depth > 0);
    if (page->meta->buffer_count < needed) {
        return damaged(file, "too few buffers", err);
    }
    if (layout->num_items > UINT32_MAX || page->meta->buffers[1].size / 8 > UINT32_MAX) {
        return damaged(file, "too large", err);
    }
    bool lists = lk_has_lists(layout);
    if (lists ? layout->rep == NULL || layout->repetition_depth != 1
              : layout->rep != NULL || layout->num_items != page->meta->rows) {
        return damaged(file, "levels, values and rows do not go together", err);
    }
    return LK_OK;
}

/* Turns the words of buffer 0 into where chunks and their values start. */
static lk_rc read_chunk_words(lk_file_reader *file, lk_page *page, const uint8_t *words, lk_err *err)
{
    size_t   width = page->layout.large_chunk ? 4 : 2;
    uint64_t start = 0, value = 0, items = page->layout.num_items, units = page->meta->buffers[1].size / 8;
    for (size_t chunk = 0; chunk < page->chunk_count; chunk++) {
        uint32_t word = 0;
        memcpy(&word, words + chunk * width, width);
        bool     last = chunk + 1 == page->chunk_count;
        uint64_t count = last ? items - value : (uint64_t)1 << (word & 15);
        if (count > items - value || (last && (word & 15) != 0 && count != (uint64_t)1 << (word & 15))) {
            return damaged(file, "chunks hold other values than the page", err);
        }
        page->chunk_starts[chunk] = (uint32_t)start;
        page->value_starts[chunk] = (uint32_t)value;
        start += (word >> 4) + 1;
        value += count;
        if (start > units) {
            return damaged(file, "chunks are larger than the page", err);
        }
    }
    page->chunk_starts[page->chunk_count] = (uint32_t)start;
    page->value_starts[page->chunk_count] = (uint32_t)value;
    return value == items ? LK_OK : damaged(file, "chunks hold other values than the page", err);
}

static lk_rc load_chunks(lk_file_reader *file, lk_page *page, lk_scratch *scratch, lk_err *err)
{
    const lk_page_buffer *words = &page->meta->buffers[0];
    size_t                width = page->layout.large_chunk ? 4 : 2;
    if (words->size > LK_FILE_METADATA_BYTES_MAX) {
        return damaged(file, "too many chunks", err);
    }
    page->chunk_count = (size_t)words->size / width;
    page->chunk_starts = malloc((page->chunk_count + 1) * sizeof(uint32_t));
    page->value_starts = malloc((page->chunk_count + 1) * sizeof(uint32_t));
    LK_ASSERT(page->chunk_starts != NULL && page->value_starts != NULL);
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->bytes, 0, (size_t)words->size, err);
    if (rc == LK_OK) {
        lk_store_range range = {words->offset, (size_t)words->size, scratch->bytes.data};
        rc = lk_file_bytes(file, &range, 1, err);
    }
    return rc == LK_OK ? read_chunk_words(file, page, scratch->bytes.data, err) : rc;
}

/* Two words a chunk: rows that end in it, entries that are left over behind the last of them. */
static lk_rc read_row_index(lk_file_reader *file, lk_page *page, const uint8_t *words, lk_err *err)
{
    uint64_t rows = 0, left = 0;
    for (size_t chunk = 0; chunk < page->chunk_count; chunk++) {
        page->row_starts[chunk] = (uint32_t)rows;
        page->continues[chunk] = left > 0;
        uint64_t ended = lk_load_u64(words + chunk * 16);
        left = lk_load_u64(words + chunk * 16 + 8);
        if (ended > page->meta->rows - rows) {
            return damaged(file, "its row index counts more rows than it has", err);
        }
        rows += ended;
    }
    page->row_starts[page->chunk_count] = (uint32_t)rows;
    return rows == page->meta->rows && left == 0 ? LK_OK : damaged(file, "its row index loses rows", err);
}

static lk_rc load_row_index(lk_file_reader *file, lk_page *page, lk_scratch *scratch, lk_err *err)
{
    const lk_page_buffer *buffer = &page->meta->buffers[2 + (page->layout.dictionary != NULL)];
    size_t                size = page->chunk_count * 16;
    if (buffer->size < size || page->meta->rows > UINT32_MAX) {
        return damaged(file, "its row index ends early", err);
    }
    page->row_starts = malloc((page->chunk_count + 1) * sizeof(uint32_t));
    page->continues = malloc(page->chunk_count + 1);
    LK_ASSERT(page->row_starts != NULL && page->continues != NULL);
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->bytes, 0, size, err);
    if (rc == LK_OK) {
        lk_store_range range = {buffer->offset, size, scratch->bytes.data};
        rc = lk_file_bytes(file, &range, 1, err);
    }
    return rc == LK_OK ? read_row_index(file, page, scratch->bytes.data, err) : rc;
}

static lk_rc load_dictionary(lk_file_reader *file, lk_page *page, lk_scratch *scratch, lk_err *err)
{
    const lk_page_buffer *buffer = &page->meta->buffers[2];
    lk_dictionary        *dictionary = NULL;
    if (buffer->size > LK_FILE_METADATA_BYTES_MAX) {
        return damaged(file, "its dictionary is too large", err);
    }
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->bytes, 0, (size_t)buffer->size, err);
    if (rc == LK_OK) {
        lk_store_range range = {buffer->offset, (size_t)buffer->size, scratch->bytes.data};
        rc = lk_file_bytes(file, &range, 1, err);
    }
    if (rc == LK_OK) {
        lk_bytes block = {(const char *)scratch->bytes.data, (size_t)buffer->size};
        rc = lk_dictionary_read(page->layout.dictionary, block, page->layout.num_dictionary_items,
            &page->arena, scratch, &dictionary, err);
    }
    return rc == LK_OK ? lk_dictionary_codec(dictionary, page->codec, &page->arena, &page->codec, err) : rc;
}

lk_rc lk_miniblock_load(lk_file_reader *file, lk_page *page, lk_scratch *scratch, lk_err *err)
{
    lk_rc rc = check_buffers(file, page, err);
    if (rc == LK_OK) {
        rc = lk_codec_new(page->layout.values, &page->arena, &page->codec, err);
    }
    if (rc == LK_OK && page->codec->buffers != page->layout.num_buffers) {
        rc = damaged(file, "another number of value buffers than its encoding has", err);
    }
    if (rc == LK_OK) {
        rc = load_chunks(file, page, scratch, err);
    }
    if (rc == LK_OK && page->layout.dictionary != NULL) {
        rc = load_dictionary(file, page, scratch, err);
    }
    if (rc == LK_OK && page->layout.rep != NULL) {
        rc = load_row_index(file, page, scratch, err);
    }
    return rc;
}

/* -- rows ------------------------------------------------------------------------------------------ */
/* Neighbouring chunks read together. */
typedef struct span {
    size_t first, end; /* chunks */
    size_t at;         /* in scratch->bytes */
} span;

/* The chunk that is being decoded. */
typedef struct view {
    size_t    chunk; /* SIZE_MAX: none */
    lk_chunk  parts;
    bool      has_levels;
    bool      whole; /* decoded into `decoded` */
    lk_column decoded;
} view;

typedef struct cursor {
    const lk_page_rows *rows;
    span               *spans;
    size_t              span_count, span;
    view                view;
} cursor;

static size_t find_chunk(const lk_page *page, uint64_t row, size_t low)
{
    size_t high = page->chunk_count;
    if (low < high && row < page->value_starts[low + 1]) {
        return low;
    }
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (page->value_starts[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Which chunks the ranges touch, as few spans; returns their bytes. */
static size_t plan_spans(cursor *self)
{
    const lk_page_rows *rows = self->rows;
    const lk_page      *page = rows->page;
    size_t              bytes = 0, chunk = 0;
    for (size_t index = 0; index < rows->range_count; index++) {
        const lk_row_range *range = &rows->ranges[index];
        chunk = find_chunk(page, range->start, chunk);
        size_t last = find_chunk(page, range->start + range->count - 1, chunk) + 1;
        span  *before = self->span_count == 0 ? NULL : &self->spans[self->span_count - 1];
        if (before != NULL &&
            (chunk < before->end ||
                (size_t)(page->chunk_starts[chunk] - page->chunk_starts[before->end]) * 8 <= GAP_BYTES)) {
            before->end = last > before->end ? last : before->end;
        } else {
            self->spans[self->span_count++] = (span){chunk, last, 0};
        }
    }
    for (size_t index = 0; index < self->span_count; index++) {
        span *one = &self->spans[index];
        one->at = bytes;
        bytes +=
            ((size_t)(page->chunk_starts[one->end] - page->chunk_starts[one->first]) * 8 + 63) & ~(size_t)63;
    }
    return bytes;
}

static lk_rc read_spans(cursor *self, lk_err *err)
{
    const lk_page_rows *rows = self->rows;
    const lk_page      *page = rows->page;
    lk_rc rc = lk_buffer_grow(rows->scratch->pool, &rows->scratch->bytes, 0, plan_spans(self), err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_store_range  one;
    lk_store_range *ranges = self->span_count == 1 ? &one : malloc(self->span_count * sizeof *ranges);
    LK_ASSERT(ranges != NULL);
    for (size_t index = 0; index < self->span_count; index++) {
        const span *chunks = &self->spans[index];
        uint64_t    start = page->chunk_starts[chunks->first];
        ranges[index] = (lk_store_range){page->meta->buffers[1].offset + start * 8,
            (size_t)(page->chunk_starts[chunks->end] - start) * 8, rows->scratch->bytes.data + chunks->at};
    }
    rc = lk_file_bytes(rows->file, ranges, self->span_count, err);
    if (ranges != &one) {
        free(ranges);
    }
    return rc;
}

/* Text grows in one go: as large as what was read, thrice where symbols stand for it. */
static lk_rc reserve_text(const cursor *self, lk_err *err)
{
    const lk_page_rows *rows = self->rows;
    const lk_page      *page = rows->page;
    uint64_t            wanted = 0, read_rows = 0, bytes = 0;
    if (rows->column->offset_bytes == 0) {
        return LK_OK;
    }
    for (size_t index = 0; index < rows->range_count; index++) {
        wanted += rows->ranges[index].count;
    }
    for (size_t index = 0; index < self->span_count; index++) {
        const span *chunks = &self->spans[index];
        bytes += (uint64_t)(page->chunk_starts[chunks->end] - page->chunk_starts[chunks->first]) * 8;
        read_rows += page->value_starts[chunks->end] - page->value_starts[chunks->first];
    }
    bytes = page->layout.values->kind == LK_ENCODING_FSST ? bytes * 3 : bytes;
    return lk_column_reserve(rows->column, wanted < read_rows / 2 ? bytes / 2 : bytes, err);
}

/* Cuts `size` bytes, padded to 8, off a chunk. */
static bool cut(lk_bytes *rest, size_t *at, size_t size, lk_bytes *out)
{
    size_t padded = (size + 7) & ~(size_t)7;
    if (*at > rest->size || rest->size - *at < size) {
        return false;
    }
    *out = (lk_bytes){rest->data + *at, size};
    *at += padded;
    return true;
}

bool lk_miniblock_parse(
    const lk_page_layout *layout, lk_bytes bytes, uint32_t values, lk_chunk *out, lk_chunk_levels *levels)
{
    unsigned level_blocks = (layout->rep != NULL ? 1U : 0U) + (layout->def != NULL ? 1U : 0U), block = 0;
    size_t   width = layout->large_chunk ? 4 : 2, at = 2U + 2U * level_blocks + width * layout->num_buffers;
    *levels = (lk_chunk_levels){0};
    if (bytes.size < at) {
        return false;
    }
    const char *sizes = bytes.data + 2 + 2 * level_blocks;
    levels->count = lk_load_u16(bytes.data);
    at = (at + 7) & ~(size_t)7;
    if (layout->rep != NULL && !cut(&bytes, &at, lk_load_u16(bytes.data + 2 + 2 * block++), &levels->rep)) {
        return false;
    }
    if (layout->def != NULL && !cut(&bytes, &at, lk_load_u16(bytes.data + 2 + 2 * block++), &levels->def)) {
        return false;
    }
    out->values = values;
    out->buffer_count = layout->num_buffers;
    for (size_t buffer = 0; buffer < layout->num_buffers; buffer++) {
        uint32_t size = 0;
        memcpy(&size, sizes + buffer * width, width);
        if (!cut(&bytes, &at, size, &out->buffers[buffer])) {
            return false;
        }
    }
    return true;
}

static lk_rc read_levels(cursor *self, lk_bytes def, lk_err *err)
{
    lk_scratch *scratch = self->rows->scratch;
    uint32_t    values = self->view.parts.values;
    lk_rc       rc = lk_buffer_grow(scratch->pool, &scratch->levels, 0, ((size_t)values + 1024) * 2, err);
    if (rc == LK_OK) {
        rc = lk_levels_read(self->rows->page->layout.def, def, values,
            (uint16_t *)(void *)scratch->levels.data, scratch, err);
    }
    return rc;
}

static lk_rc open_chunk(cursor *self, size_t chunk, lk_err *err)
{
    const lk_page_rows *rows = self->rows;
    const lk_page      *page = rows->page;
    lk_chunk_levels     levels;
    while (chunk >= self->spans[self->span].end) {
        self->span++;
    }
    const span *in = &self->spans[self->span];
    size_t      skip = (size_t)(page->chunk_starts[chunk] - page->chunk_starts[in->first]) * 8;
    lk_bytes    bytes = {(const char *)rows->scratch->bytes.data + in->at + skip,
           (size_t)(page->chunk_starts[chunk + 1] - page->chunk_starts[chunk]) * 8};
    uint32_t    values = page->value_starts[chunk + 1] - page->value_starts[chunk];
    if (!lk_miniblock_parse(&page->layout, bytes, values, &self->view.parts, &levels) ||
        (page->layout.def != NULL && levels.count != values)) {
        return damaged(rows->file, "a chunk is damaged", err);
    }
    self->view.chunk = chunk;
    self->view.whole = false;
    return page->layout.def == NULL ? LK_OK : read_levels(self, levels.def, err);
}

/* Decodes all of the open chunk, for several ranges to copy from. */
static lk_rc decode_whole(cursor *self, lk_err *err)
{
    const lk_page_rows *rows = self->rows;
    view               *open = &self->view;
    const lk_codec     *codec = rows->page->codec;
    lk_column_deinit(&open->decoded);
    lk_rc rc = lk_column_init(
        &open->decoded, rows->column->field, open->parts.values, rows->scratch->pool, NULL, 0, err);
    if (rc == LK_OK) {
        rc = codec->append(codec, &open->parts, 0, open->parts.values, &open->decoded, rows->scratch, err);
    }
    if (rc == LK_OK) {
        rc = lk_column_valid(&open->decoded, open->parts.values, err);
        open->whole = true;
    }
    return rc;
}

/* Appends `count` rows from `start` of the open chunk. */
static lk_rc append(cursor *self, uint32_t start, uint32_t count, bool shared, lk_err *err)
{
    const lk_page_rows *rows = self->rows;
    const lk_codec     *codec = rows->page->codec;
    lk_rc               rc = LK_OK;
    if (shared && !codec->sliced && !self->view.whole) {
        rc = decode_whole(self, err);
    }
    if (rc == LK_OK && self->view.whole) {
        rc = lk_column_copy(rows->column, &self->view.decoded, start, count, err);
    } else if (rc == LK_OK) {
        rc = codec->append(codec, &self->view.parts, start, count, rows->column, rows->scratch, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    if (rows->page->layout.def == NULL) {
        return lk_column_valid(rows->column, count, err);
    }
    const uint16_t *levels = (const uint16_t *)(const void *)rows->scratch->levels.data + start;
    return lk_column_validity(rows->column, levels, count, &rows->thresholds, err);
}

static lk_rc append_range(cursor *self, size_t index, lk_err *err)
{
    const lk_page_rows *rows = self->rows;
    const uint32_t     *starts = rows->page->value_starts;
    uint64_t            row = rows->ranges[index].start, end = row + rows->ranges[index].count;
    size_t              chunk = self->view.chunk == SIZE_MAX ? 0 : self->view.chunk;
    while (row < end) {
        chunk = find_chunk(rows->page, row, chunk);
        lk_rc rc = chunk == self->view.chunk ? LK_OK : open_chunk(self, chunk, err);
        if (rc != LK_OK) {
            return rc;
        }
        uint64_t stop = end < starts[chunk + 1] ? end : starts[chunk + 1];
        bool     shared = index + 1 < rows->range_count && rows->ranges[index + 1].start < starts[chunk + 1];
        rc = append(self, (uint32_t)(row - starts[chunk]), (uint32_t)(stop - row), shared, err);
        if (rc != LK_OK) {
            return rc;
        }
        row = stop;
        chunk++;
    }
    return LK_OK;
}

lk_rc lk_miniblock_rows(const lk_page_rows *rows, lk_err *err)
{
    span   one;
    cursor self = {.rows = rows, .spans = &one, .view.chunk = SIZE_MAX};
    lk_rc  rc = lk_codec_check(rows->page->codec, rows->column, err);
    if (rc == LK_OK && rows->range_count > 1) {
        self.spans = malloc(rows->range_count * sizeof *self.spans);
        LK_ASSERT(self.spans != NULL);
    }
    if (rc == LK_OK) {
        rc = read_spans(&self, err);
    }
    if (rc == LK_OK) {
        rc = reserve_text(&self, err);
    }
    for (size_t index = 0; rc == LK_OK && index < rows->range_count; index++) {
        rc = append_range(&self, index, err);
    }
    lk_column_deinit(&self.view.decoded);
    if (self.spans != &one) {
        free(self.spans);
    }
    return rc;
}
