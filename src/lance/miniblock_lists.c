/*
 * miniblock_lists.c - mini-block pages of columns inside lists. The row index says in which chunks a row lies;
 * of the chunks that are read, the entries of other rows are left out.
 */
#include "lance/file_priv.h"
#include "lance/stream.h"

/* The chunk that is decoded, its levels, and what of it belongs to the range. */
typedef struct view {
    lk_chunk  parts;
    uint32_t  levels;
    uint16_t *rep, *def;     /* NULL: all zero */
    uint32_t  first, last;   /* entries */
    uint32_t  value, values; /* visible ones: before `first`, in the range */
} view;

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

static lk_rc read_levels(const lk_page_rows *rows, const lk_chunk_levels *blocks, view *out, lk_err *err)
{
    const lk_page_layout *layout = &rows->page->layout;
    lk_scratch           *scratch = rows->scratch;
    size_t                each = (blocks->count + 1024U) * 2;
    lk_rc                 rc = lk_buffer_grow(scratch->pool, &scratch->levels, 0, each * 2, err);
    if (rc != LK_OK) {
        return rc;
    }
    out->levels = blocks->count;
    out->rep = (uint16_t *)(void *)scratch->levels.data;
    out->def = layout->def == NULL ? NULL : (uint16_t *)(void *)(scratch->levels.data + each);
    rc = lk_levels_read(layout->rep, blocks->rep, blocks->count, out->rep, scratch, err);
    if (rc == LK_OK && out->def != NULL) {
        rc = lk_levels_read(layout->def, blocks->def, blocks->count, out->def, scratch, err);
    }
    return rc;
}

/* Finds the entries of rows [start, end) in the chunk, and the values they own. */
static lk_rc find_entries(
    const lk_page_rows *rows, size_t chunk, uint64_t start, uint64_t end, view *out, lk_err *err)
{
    const lk_page *page = rows->page;
    unsigned       lists = rows->stream->lists, visible = lk_visible_level(&page->layout);
    uint64_t next = (uint64_t)page->row_starts[chunk] + page->continues[chunk]; /* row that begins next */
    uint32_t value = 0, entry = 0;
    out->first = out->last = out->value = out->values = 0;
    for (; entry < out->levels; entry++) {
        next += out->rep[entry] == lists;
        if (next > end) { /* the row that this entry belongs to is next - 1 */
            break;
        }
        if (next <= start) {
            out->first = entry + 1;
        }
        bool owns = out->def == NULL || out->def[entry] <= visible;
        out->value += next <= start && owns;
        value += owns;
    }
    out->last = entry;
    out->values = value - out->value;
    return value <= out->parts.values ? LK_OK : damaged(rows, "a chunk has fewer values than entries", err);
}

static lk_rc append_chunk(
    const lk_page_rows *rows, size_t chunk, lk_bytes bytes, uint64_t start, uint64_t end, lk_err *err)
{
    const lk_page  *page = rows->page;
    uint32_t        values = page->value_starts[chunk + 1] - page->value_starts[chunk];
    lk_chunk_levels blocks;
    view            open = {0};
    if (!lk_miniblock_parse(&page->layout, bytes, values, &open.parts, &blocks)) {
        return damaged(rows, "a chunk is damaged", err);
    }
    lk_rc rc = read_levels(rows, &blocks, &open, err);
    if (rc == LK_OK) {
        rc = find_entries(rows, chunk, start, end, &open, err);
    }
    if (rc == LK_OK) {
        rc = lk_stream_append(rows->stream, &page->layout, open.rep + open.first,
            open.def == NULL ? NULL : open.def + open.first, open.last - open.first, err);
    }
    if (rc == LK_OK) {
        rc = lk_column_extend(rows->column, (uint64_t)open.values + 1024, err);
    }
    if (rc == LK_OK && open.values > 0) {
        rc = page->codec->append(
            page->codec, &open.parts, open.value, open.values, rows->column, rows->scratch, err);
        rows->column->rows += open.values;
    }
    return rc;
}

static lk_rc append_range(const lk_page_rows *rows, const lk_row_range *range, lk_err *err)
{
    const lk_page *page = rows->page;
    uint64_t       end = range->start + range->count;
    size_t         chunk = first_chunk(page, range->start), stop = last_chunk(page, end - 1) + 1;
    if (chunk >= stop || stop > page->chunk_count) {
        return damaged(rows, "its row index loses rows", err);
    }
    uint64_t from = page->chunk_starts[chunk];
    size_t   size = (size_t)(page->chunk_starts[stop] - from) * 8;
    lk_rc    rc = lk_buffer_grow(rows->scratch->pool, &rows->scratch->bytes, 0, size, err);
    if (rc == LK_OK) {
        lk_store_range read = {page->meta->buffers[1].offset + from * 8, size, rows->scratch->bytes.data};
        rc = lk_file_bytes(rows->file, &read, 1, err);
    }
    for (; rc == LK_OK && chunk < stop; chunk++) {
        const char *at = (const char *)rows->scratch->bytes.data + (page->chunk_starts[chunk] - from) * 8;
        lk_bytes    bytes = {at, (size_t)(page->chunk_starts[chunk + 1] - page->chunk_starts[chunk]) * 8};
        rc = append_chunk(rows, chunk, bytes, range->start, end, err);
    }
    return rc;
}

lk_rc lk_miniblock_entries(const lk_page_rows *rows, lk_err *err)
{
    lk_rc rc = lk_codec_check(rows->page->codec, rows->column, err);
    for (size_t index = 0; rc == LK_OK && index < rows->range_count; index++) {
        rc = append_range(rows, &rows->ranges[index], err);
    }
    return rc;
}
