/* miniblock_chunks.c - see miniblock_chunks.h. */
#include "lance/miniblock_chunks.h"

#include <stdlib.h>

/* Chunks closer together than this are read in one go. */
enum { GAP_BYTES = 16 * 1024 };

static lk_rc damaged(const lk_chunks *self, lk_err *err)
{
    return lk_fail(
        err, LK_E_CORRUPT_FILE, "%.*s: mini-block page: a chunk is damaged", LK_FMT(self->rows->file->key));
}

lk_rc lk_chunks_init(lk_chunks *self, const lk_page_rows *rows, lk_chunks_locate locate, lk_err *err)
{
    *self = (lk_chunks){.rows = rows, .chunk = SIZE_MAX};
    self->wanted = rows->range_count == 1 ? self->one : malloc(2 * rows->range_count * sizeof *self->wanted);
    LK_ASSERT(self->wanted != NULL || rows->range_count == 0);
    self->read = self->wanted + rows->range_count;
    lk_rc rc = lk_codec_check(rows->codec, rows->column, err);
    for (size_t range = 0; rc == LK_OK && range < rows->range_count; range++) {
        rc = locate(rows, &rows->ranges[range], &self->wanted[range].first, &self->wanted[range].end, err);
    }
    if (rc != LK_OK) {
        lk_chunks_deinit(self);
    }
    return rc;
}

void lk_chunks_deinit(lk_chunks *self)
{
    lk_column_deinit(&self->decoded);
    if (self->wanted != self->one) {
        free(self->wanted);
    }
    self->wanted = NULL;
}

/* -- reading --------------------------------------------------------------------------------------- */
static size_t bytes_of(const lk_page *page, size_t first, size_t end)
{
    return (size_t)(page->chunk_starts[end] - page->chunk_starts[first]) * 8;
}

/* The last chunk of [first, end), plus one, so that they have `room` bytes at most; at least one. */
static size_t cut(const lk_page *page, size_t first, size_t end, size_t room)
{
    size_t stop = first + 1;
    if (bytes_of(page, first, end) <= room) {
        return end;
    }
    while (stop < end && bytes_of(page, first, stop + 1) <= room) {
        stop++;
    }
    return stop;
}

/* Runs of chunks from `chunk` of a range on, as many as the group holds; returns their bytes. */
static size_t plan_group(lk_chunks *self, size_t range, size_t chunk)
{
    const lk_page *page = self->rows->page;
    size_t         bytes = 0;
    self->read_count = self->run = 0;
    for (; range < self->rows->range_count; range++) {
        const lk_chunk_run *wanted = &self->wanted[range];
        lk_chunk_run       *last = self->read_count == 0 ? NULL : &self->read[self->read_count - 1];
        size_t              first = wanted->first > chunk ? wanted->first : chunk, before = bytes;
        if (last != NULL && wanted->end <= last->end) {
            continue;
        }
        bool near = last != NULL && (first <= last->end || bytes_of(page, last->end, first) <= GAP_BYTES);
        first = near ? last->end : first;
        size_t room = bytes < LK_CHUNK_GROUP_BYTES ? LK_CHUNK_GROUP_BYTES - bytes : 0;
        size_t end = cut(page, first, wanted->end, room);
        if (last != NULL && bytes_of(page, first, end) > room) {
            break;
        }
        bytes += (bytes_of(page, first, end) + 63) & ~(size_t)63;
        if (near) {
            last->end = end;
        } else {
            self->read[self->read_count++] = (lk_chunk_run){first, end, before};
        }
        if (end < wanted->end) {
            break;
        }
    }
    return bytes;
}

static lk_rc read_group(lk_chunks *self, size_t range, size_t chunk, lk_err *err)
{
    enum { FEW = 8 };
    const lk_page_rows *rows = self->rows;
    lk_store_range      few[FEW], *ranges = few;
    lk_buffer          *bytes = &rows->scratch->bytes;
    lk_rc rc = lk_buffer_grow(rows->scratch->pool, bytes, 0, plan_group(self, range, chunk), err);
    if (rc != LK_OK) {
        return rc;
    }
    if (self->read_count > FEW) {
        ranges = malloc(self->read_count * sizeof *ranges);
        LK_ASSERT(ranges != NULL);
    }
    for (size_t run = 0; run < self->read_count; run++) {
        const lk_chunk_run *one = &self->read[run];
        uint64_t            start =
            rows->page->meta->buffers[1].offset + (uint64_t)rows->page->chunk_starts[one->first] * 8;
        ranges[run] =
            (lk_store_range){start, bytes_of(rows->page, one->first, one->end), bytes->data + one->at};
    }
    rc = lk_file_bytes(rows->file, ranges, self->read_count, err);
    if (ranges != few) {
        free(ranges);
    }
    return rc;
}

/* -- chunks ---------------------------------------------------------------------------------------- */
lk_rc lk_chunks_open(lk_chunks *self, size_t range, size_t chunk, bool *fresh, lk_err *err)
{
    const lk_page *page = self->rows->page;
    *fresh = chunk != self->chunk;
    if (!*fresh) {
        return LK_OK;
    }
    while (self->run < self->read_count && chunk >= self->read[self->run].end) {
        self->run++;
    }
    if (self->run == self->read_count) {
        lk_rc rc = read_group(self, range, chunk, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    const lk_chunk_run *in = &self->read[self->run];
    lk_bytes            bytes = {
                   (const char *)self->rows->scratch->bytes.data + in->at + bytes_of(page, in->first, chunk),
                   bytes_of(page, chunk, chunk + 1)};
    uint32_t values = page->value_starts[chunk + 1] - page->value_starts[chunk];
    self->chunk = chunk;
    self->whole = false;
    return lk_miniblock_parse(&page->layout, bytes, values, &self->parts, &self->levels) ? LK_OK
                                                                                         : damaged(self, err);
}

/* Decodes all of the open chunk, for several ranges to copy from. */
static lk_rc decode_whole(lk_chunks *self, lk_err *err)
{
    const lk_page_rows *rows = self->rows;
    const lk_codec     *codec = rows->codec;
    lk_column_deinit(&self->decoded);
    lk_rc rc = lk_column_init(
        &self->decoded, rows->column->field, self->parts.values, rows->scratch->pool, NULL, 0, err);
    if (rc == LK_OK) {
        rc = codec->append(codec, &self->parts, 0, self->parts.values, &self->decoded, rows->scratch, err);
    }
    if (rc == LK_OK) {
        rc = lk_column_valid(&self->decoded, self->parts.values, err);
        self->whole = true;
    }
    return rc;
}

lk_rc lk_chunks_append(lk_chunks *self, size_t range, uint32_t start, uint32_t count, lk_err *err)
{
    const lk_page_rows *rows = self->rows;
    const lk_codec     *codec = rows->codec;
    bool shared = range + 1 < rows->range_count && self->wanted[range + 1].first == self->chunk;
    if (shared && !codec->sliced && !self->whole) {
        lk_rc rc = decode_whole(self, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return self->whole ? lk_column_copy(rows->column, &self->decoded, start, count, err)
                       : codec->append(codec, &self->parts, start, count, rows->column, rows->scratch, err);
}
