/*
 * miniblock_lists.c - mini-block pages of columns inside lists. The row index says in which chunks a row lies;
 * of the chunks that are read, the entries of other rows are left out.
 */
#include "lance/miniblock_chunks.h"
#include "lance/stream.h"

enum { SLACK = 1024 /* values behind the last that a codec may write: a packed block */ };

/* The open chunk's levels, and how far they were looked through. */
typedef struct view {
    uint32_t  levels;
    lk_marks  marks;     /* of a flat stream; else rep and def */
    uint16_t *rep, *def; /* NULL: all zero */
    uint32_t  entry;     /* the next one */
    uint32_t  value;     /* entries before it that own one */
    uint64_t  rows;      /* of the page that began before it */
} view;

/* Entries and values of it that belong to a range. */
typedef struct part {
    uint32_t first, count;
    uint32_t value, values;
} part;

static lk_rc damaged(const lk_page_rows *rows, const char *what, lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: mini-block page: %s", LK_FMT(rows->file->key), what);
}

/* The chunk where a row begins: the last one before whose end it is not over, nor begun in one before. */
static size_t first_chunk(const lk_page *page, uint64_t row)
{
    size_t low = 0, high = page->chunk_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        bool   begun = page->row_starts[middle + 1] > row ||
                     (page->row_starts[middle + 1] == row && middle + 1 < page->chunk_count &&
                         page->continues[middle + 1]);
        if (begun) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static size_t last_chunk(const lk_page *page, uint64_t row)
{
    size_t low = 0, high = page->chunk_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (page->row_starts[middle + 1] > row) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

bool lk_miniblock_lists_span(const lk_page *page, const lk_row_range *range, size_t *first, size_t *end)
{
    *first = first_chunk(page, range->start);
    *end = last_chunk(page, range->start + range->count - 1) + 1;
    return *first < *end && *end <= page->chunk_count;
}

static lk_rc locate(
    const lk_page_rows *rows, const lk_row_range *range, size_t *first, size_t *end, lk_err *err)
{
    return lk_miniblock_lists_span(rows->page, range, first, end)
               ? LK_OK
               : damaged(rows, "its row index loses rows", err);
}

static lk_rc open_marks(const lk_chunks *chunks, view *out, lk_err *err)
{
    const lk_page_rows    *rows = chunks->rows;
    const lk_chunk_levels *blocks = &chunks->levels;
    return lk_marks_read(
        &rows->page->layout, blocks->rep, blocks->def, blocks->count, rows->scratch, &out->marks, err);
}

static lk_rc open_view(const lk_chunks *chunks, view *out, lk_err *err)
{
    const lk_page         *page = chunks->rows->page;
    const lk_page_layout  *layout = &page->layout;
    const lk_chunk_levels *blocks = &chunks->levels;
    lk_scratch            *scratch = chunks->rows->scratch;
    size_t                 each = (blocks->count + 1024U) * 2;
    *out = (view){.levels = blocks->count,
        .rows = (uint64_t)page->row_starts[chunks->chunk] + page->continues[chunks->chunk]};
    if (chunks->rows->stream->is_flat) {
        return open_marks(chunks, out, err);
    }
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->levels, 0, each * 2, err);
    if (rc != LK_OK) {
        return rc;
    }
    out->rep = (uint16_t *)(void *)scratch->levels.data;
    out->def = layout->def == NULL ? NULL : (uint16_t *)(void *)(scratch->levels.data + each);
    rc = lk_levels_read(layout->rep, blocks->rep, blocks->count, out->rep, scratch, err);
    if (rc == LK_OK && out->def != NULL) {
        rc = lk_levels_read(layout->def, blocks->def, blocks->count, out->def, scratch, err);
    }
    return rc;
}

static void find_row(view *self, uint64_t row)
{
    uint64_t passed = 0;
    if (self->rows > row) {
        return;
    }
    uint32_t entry = (uint32_t)lk_marks_find(&self->marks, self->entry, row - self->rows, &passed);
    self->value += (uint32_t)lk_marks_values(&self->marks, self->entry, entry);
    self->entry = entry;
    self->rows += passed;
}

/* Goes on to the first entry of row `row` or a later one. */
static void look_until(const lk_page_rows *rows, view *self, uint64_t row)
{
    if (rows->stream->is_flat) {
        find_row(self, row);
        return;
    }
    unsigned lists = rows->stream->lists, visible = lk_visible_level(&rows->page->layout);
    for (; self->entry < self->levels; self->entry++) {
        uint64_t begun = self->rows + (self->rep[self->entry] == lists); /* it belongs to row begun - 1 */
        if (begun > row) {
            return;
        }
        self->rows = begun;
        self->value += self->def == NULL || self->def[self->entry] <= visible;
    }
}

static lk_rc append_part(lk_chunks *chunks, size_t range, const view *open, const part *some, lk_err *err)
{
    const lk_page_rows *rows = chunks->rows;
    const uint16_t     *def = open->def == NULL ? NULL : open->def + some->first;
    if (some->value + some->values > chunks->parts.values) {
        return damaged(rows, "a chunk has fewer values than entries", err);
    }
    lk_rc rc = lk_column_extend(rows->column, (uint64_t)some->values + SLACK, err);
    if (rc == LK_OK && rows->stream->is_flat) {
        rc = lk_stream_append_marks(rows->stream, &open->marks, some->first, some->first + some->count, err);
    } else if (rc == LK_OK) {
        rc = lk_stream_append(
            rows->stream, &rows->page->layout, open->rep + some->first, def, some->count, err);
    }
    if (rc == LK_OK && some->values > 0) {
        rc = lk_chunks_append(chunks, range, some->value, some->values, err);
        rows->column->rows += some->values;
    }
    return rc;
}

static lk_rc append_range(lk_chunks *chunks, size_t index, view *open, lk_err *err)
{
    const lk_page_rows *rows = chunks->rows;
    const lk_row_range *range = &rows->ranges[index];
    lk_rc               rc = LK_OK;
    for (size_t chunk = chunks->wanted[index].first; rc == LK_OK && chunk < chunks->wanted[index].end;
         chunk++) {
        bool fresh = false;
        rc = lk_chunks_open(chunks, index, chunk, &fresh, err);
        if (rc == LK_OK && fresh) {
            rc = open_view(chunks, open, err);
        }
        if (rc == LK_OK) {
            look_until(rows, open, range->start);
            part some = {.first = open->entry, .value = open->value};
            look_until(rows, open, range->start + range->count);
            some.count = open->entry - some.first;
            some.values = open->value - some.value;
            rc = append_part(chunks, index, open, &some, err);
        }
    }
    return rc;
}

/* Room for the values of ranges of many chunks, of which they have most, at once; and for those of the rows that other
 * pages have, where they are like these: a guess that may cost little. */
static lk_rc reserve(const lk_chunks *chunks, lk_err *err)
{
    enum { MANY = 8, GUESS_BITS = 32 * 1024 * 1024 };
    const lk_page_rows *rows = chunks->rows;
    const uint32_t     *starts = rows->page->value_starts;
    const lk_list_rows *flat = &rows->stream->flat;
    uint64_t            values = 0, count = 0;
    for (size_t range = 0; range < rows->range_count; range++) {
        const lk_chunk_run *run = &chunks->wanted[range];
        bool                many = run->end - run->first >= MANY;
        values += many ? starts[run->end] - starts[run->first] : 0;
        count += many ? rows->ranges[range].count : 0;
    }
    if (values == 0 || rows->column->rows + values + SLACK <= rows->column->capacity) {
        return LK_OK;
    }
    uint64_t left = rows->stream->is_flat ? flat->room - flat->rows : 0, bits = rows->column->row_bits;
    uint64_t guess = left <= count ? 0 : values / count * left + values % count * left / count;
    uint64_t most = bits == 0 ? 0 : GUESS_BITS / bits;
    guess = guess < most ? guess : most;
    return lk_column_extend(rows->column, (guess > values ? guess : values) + SLACK, err);
}

lk_rc lk_miniblock_entries(const lk_page_rows *rows, lk_err *err)
{
    lk_chunks chunks;
    view      open = {0};
    lk_rc     rc = lk_chunks_init(&chunks, rows, locate, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = reserve(&chunks, err);
    for (size_t index = 0; rc == LK_OK && index < rows->range_count; index++) {
        rc = append_range(&chunks, index, &open, err);
    }
    lk_chunks_deinit(&chunks);
    return rc;
}
