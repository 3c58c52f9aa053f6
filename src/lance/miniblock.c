/*
 * miniblock.c - pages of small chunks, each read and decoded on its own.
 *
 *   buffer 0: a word a chunk: low 4 bits log2 of its values (0 in the last: the rest), high bits size / 8 - 1
 *   buffer 1: chunks: u16 levels [u16 rep bytes] [u16 def bytes] sizes of value buffers, padded to 8;
 *             then rep, def and the value buffers, each padded to 8
 *   buffer 2: the dictionary, if any
 */
#include "lance/miniblock_chunks.h"

#include <stdlib.h>

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

/* -- chunks ---------------------------------------------------------------------------------------- */
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
        uint32_t size = width == 4 ? lk_load_u32(sizes + buffer * 4) : lk_load_u16(sizes + buffer * 2);
        if (!cut(&bytes, &at, size, &out->buffers[buffer])) {
            return false;
        }
    }
    return true;
}

/* -- rows ------------------------------------------------------------------------------------------ */
static size_t find_chunk(const lk_page *page, uint64_t row)
{
    const uint32_t *starts = page->value_starts;
    size_t          low = 0, high = page->chunk_count;
    size_t          guess = (size_t)(row / (starts[1] > 0 ? starts[1] : 1)); /* most chunks are alike */
    if (guess < high && starts[guess] <= row && row < starts[guess + 1]) {
        return guess;
    }
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (starts[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

bool lk_miniblock_span(const lk_page *page, const lk_row_range *range, uint64_t *offset, uint64_t *size)
{
    size_t first = 0, end = 0;
    if (page->layout.kind != LK_PAGE_MINIBLOCK || page->chunk_count == 0) {
        return false;
    }
    if (page->layout.rep != NULL) {
        if (!lk_miniblock_lists_span(page, range, &first, &end)) {
            return false;
        }
    } else {
        first = find_chunk(page, range->start);
        end = find_chunk(page, range->start + range->count - 1) + 1;
    }
    *offset = page->meta->buffers[1].offset + (uint64_t)page->chunk_starts[first] * 8;
    *size = (uint64_t)(page->chunk_starts[end] - page->chunk_starts[first]) * 8;
    return true;
}

static lk_rc locate(
    const lk_page_rows *rows, const lk_row_range *range, size_t *first, size_t *end, lk_err *err)
{
    (void)err;
    *first = find_chunk(rows->page, range->start);
    *end = find_chunk(rows->page, range->start + range->count - 1) + 1;
    return LK_OK;
}

static uint64_t count_rows(const lk_page_rows *rows)
{
    uint64_t wanted = 0;
    for (size_t index = 0; index < rows->range_count; index++) {
        wanted += rows->ranges[index].count;
    }
    return wanted;
}

/* Text grows in one go: as large as the rows' share of the page, thrice where symbols stand for it. */
static lk_rc reserve_text(const lk_page_rows *rows, lk_err *err)
{
    const lk_page *page = rows->page;
    if (rows->column->offset_bytes == 0 || page->layout.dictionary != NULL) {
        return LK_OK;
    }
    uint64_t symbols = page->layout.values->kind == LK_ENCODING_FSST ? 3 : 1;
    return lk_column_reserve(rows->column,
        (page->meta->buffers[1].size / page->layout.num_items + 1) * symbols * count_rows(rows), err);
}

static lk_rc read_levels(const lk_chunks *chunks, lk_err *err)
{
    const lk_page_rows *rows = chunks->rows;
    lk_scratch         *scratch = rows->scratch;
    uint32_t            values = chunks->parts.values;
    if (rows->page->layout.def == NULL) {
        return LK_OK;
    }
    if (chunks->levels.count != values) {
        return damaged(rows->file, "a chunk is damaged", err);
    }
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->levels, 0, ((size_t)values + 1024) * 2, err);
    if (rc == LK_OK) {
        rc = lk_levels_read(rows->page->layout.def, chunks->levels.def, values,
            (uint16_t *)(void *)scratch->levels.data, scratch, err);
    }
    return rc;
}

/* Completes `count` rows from `start` of the open chunk. */
static lk_rc complete(const lk_page_rows *rows, uint32_t start, uint32_t count, lk_err *err)
{
    if (rows->page->layout.def == NULL) {
        return lk_column_valid(rows->column, count, err);
    }
    const uint16_t *levels = (const uint16_t *)(const void *)rows->scratch->levels.data + start;
    return lk_column_validity(rows->column, levels, count, &rows->thresholds, err);
}

static lk_rc append_range(lk_chunks *chunks, size_t index, lk_err *err)
{
    const lk_page_rows *rows = chunks->rows;
    const uint32_t     *starts = rows->page->value_starts;
    uint64_t            row = rows->ranges[index].start, end = row + rows->ranges[index].count;
    lk_rc               rc = LK_OK;
    for (size_t chunk = chunks->wanted[index].first; rc == LK_OK && row < end; chunk++) {
        uint64_t stop = end < starts[chunk + 1] ? end : starts[chunk + 1];
        uint32_t start = (uint32_t)(row - starts[chunk]), count = (uint32_t)(stop - row);
        bool     fresh = false;
        rc = lk_chunks_open(chunks, index, chunk, &fresh, err);
        if (rc == LK_OK && fresh) {
            rc = read_levels(chunks, err);
        }
        if (rc == LK_OK) {
            rc = lk_chunks_append(chunks, index, start, count, err);
        }
        if (rc == LK_OK) {
            rc = complete(rows, start, count, err);
        }
        row = stop;
    }
    return rc;
}

/* -- single values ----------------------------------------------------------------------------------- */
enum { CHUNK_HEADER_BYTES = 8, ROWS_A_READ = 512, FEW_READS = 8 };

/* Hardly one range a chunk; what matters is how many rows lie between the first and the last, for a morsel has few
 * of the page's. */
static bool is_sparse(const lk_page_rows *rows)
{
    const lk_row_range *last = &rows->ranges[rows->range_count - 1];
    uint64_t            span = last->start + last->count - rows->ranges[0].start; /* ranges go upwards */
    return count_rows(rows) < rows->page->meta->rows / ROWS_A_READ &&
           (rows->range_count <= FEW_READS || rows->range_count < span / ROWS_A_READ);
}

/* Where a flat value lies is known without its chunk: for few rows, read just them, into their place. */
static bool is_plain(const lk_page_rows *rows)
{
    const lk_page *page = rows->page;
    return page->layout.values->kind == LK_ENCODING_FLAT && page->layout.def == NULL &&
           page->layout.dictionary == NULL && page->layout.values->bits % 8 == 0 &&
           page->layout.values->bits == rows->column->row_bits && rows->column->level_count == 0 &&
           rows->range_count > 0 && is_sparse(rows);
}

/* One store range for each piece of a range that lies in one chunk. */
static lk_rc plan_plain(const lk_page_rows *rows, lk_store_range *out, size_t *count, lk_err *err)
{
    const lk_page  *page = rows->page;
    const uint32_t *starts = page->value_starts;
    size_t          width = page->layout.values->bits / 8;
    uint8_t        *to = lk_column_next(rows->column);
    for (size_t index = 0; index < rows->range_count; index++) {
        uint64_t row = rows->ranges[index].start, end = row + rows->ranges[index].count;
        for (size_t chunk = find_chunk(page, row); row < end; chunk++) {
            uint64_t at = (uint64_t)page->chunk_starts[chunk] * 8 + CHUNK_HEADER_BYTES;
            uint64_t stop = end < starts[chunk + 1] ? end : starts[chunk + 1];
            uint64_t bytes = (uint64_t)(starts[chunk + 1] - starts[chunk]) * width;
            if (at + bytes > (uint64_t)page->chunk_starts[chunk + 1] * 8) {
                return damaged(rows->file, "a chunk is damaged", err);
            }
            size_t size = (size_t)(stop - row) * width;
            out[(*count)++] = (lk_store_range){
                page->meta->buffers[1].offset + at + (row - starts[chunk]) * width, size, to};
            to += size;
            row = stop;
        }
    }
    return LK_OK;
}

static lk_rc plain_rows(const lk_page_rows *rows, lk_err *err)
{
    uint64_t        wanted = count_rows(rows);
    size_t          count = 0;
    lk_store_range *pieces = malloc((size_t)(wanted + 1) * sizeof *pieces); /* no piece is without a row */
    LK_ASSERT(pieces != NULL);
    lk_rc rc = lk_codec_check(rows->page->codec, rows->column, err);
    if (rc == LK_OK) {
        rc = plan_plain(rows, pieces, &count, err);
    }
    if (rc == LK_OK) {
        rc = lk_file_bytes(rows->file, pieces, count, err);
    }
    free(pieces);
    return rc == LK_OK ? lk_column_valid(rows->column, wanted, err) : rc;
}

lk_rc lk_miniblock_rows(const lk_page_rows *rows, lk_err *err)
{
    lk_chunks chunks;
    if (is_plain(rows)) {
        return plain_rows(rows, err);
    }
    lk_rc rc = lk_chunks_init(&chunks, rows, locate, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = reserve_text(rows, err);
    for (size_t index = 0; rc == LK_OK && index < rows->range_count; index++) {
        rc = append_range(&chunks, index, err);
    }
    lk_chunks_deinit(&chunks);
    return rc;
}
