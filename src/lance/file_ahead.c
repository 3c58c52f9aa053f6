/* file_ahead.c - see file_ahead.h. */
#include "lance/file_ahead.h"

#include "lance/decode_priv.h"
#include "lance/v20_priv.h"

#include <stdlib.h>

enum {
    TABLE_BYTES_MAX = 256 * 1024, /* a larger one is read when it is needed */
    WHOLE_SHARE = 2,              /* a page is fetched whole where one in so many of its rows is wanted */
    SPANS_MAX = 64,               /* of a page: more are read side by side anyway, as they are decoded */
    GAP_BYTES = 4 * 1024
};

typedef struct span {
    lk_file_reader *file;
    uint64_t        offset, size;
} span;

/* Spans of one file, read in one go into one buffer. */
typedef struct block {
    uint64_t offset, size;
    uint8_t *bytes;
} block;

struct lk_file_ahead {
    lk_file_ahead  *next;  /* of the same owner */
    lk_file_ahead  *other; /* of the same file; by its mutex */
    lk_file_reader *file;
    lk_buffer       bytes;
    size_t          count;
    block           blocks[];
};

typedef struct plan {
    span                  *spans;
    size_t                 count, room;
    uint64_t               bytes;
    bool                   chunks; /* the second go: tables are there */
    lk_scratch             scratch;
    const lk_field_source *sources;
    size_t                 source_count;
} plan;

/* -- what is wanted ------------------------------------------------------------------------------------ */
static void add(plan *self, lk_file_reader *file, uint64_t offset, uint64_t size)
{
    bool inside = offset <= file->size && size <= file->size - offset;
    if (!inside || size == 0 || offset >= file->window_start || size > LK_AHEAD_BYTES_MAX - self->bytes) {
        return;
    }
    if (self->count == self->room) {
        self->room = self->room == 0 ? 32 : 2 * self->room;
        self->spans = realloc(self->spans, self->room * sizeof *self->spans);
        LK_ASSERT(self->spans != NULL);
    }
    self->spans[self->count++] = (span){file, offset, size};
    self->bytes += size;
}

static void add_buffers(plan *self, lk_file_reader *file, const lk_page_meta *page, uint64_t each_max)
{
    for (size_t buffer = 0; buffer < page->buffer_count; buffer++) {
        if (page->buffers[buffer].size <= each_max) {
            add(self, file, page->buffers[buffer].offset, page->buffers[buffer].size);
        }
    }
}

/* The part of a range inside a page, relative to it; false: none. */
static bool cut(const lk_page_meta *page, const lk_row_range *range, lk_row_range *out)
{
    uint64_t page_end = page->first_row + page->rows, end = range->start + range->count;
    uint64_t first = range->start > page->first_row ? range->start : page->first_row;
    end = end < page_end ? end : page_end;
    *out = (lk_row_range){first - page->first_row, first < end ? end - first : 0};
    return first < end;
}

static void add_chunks(plan *self, lk_file_reader *file, lk_file_column_state *column, size_t index,
    const lk_row_range *ranges, size_t count)
{
    const lk_page_meta *meta = &column->meta.pages[index];
    const lk_page      *page = NULL;
    lk_err              ignored = {0};
    size_t              spans = 0;
    if (lk_file_is_v20(file) || lk_file_page(file, column, index, &self->scratch, &page, &ignored) != LK_OK) {
        return;
    }
    for (size_t i = 0; i < count && spans < SPANS_MAX; i++) {
        lk_row_range part;
        uint64_t     offset = 0, size = 0;
        if (cut(meta, &ranges[i], &part) && (lk_miniblock_span(page, &part, &offset, &size) ||
                                                lk_fullzip_span(page, &part, &offset, &size))) {
            add(self, file, offset, size);
            spans++;
        }
    }
}

static void plan_column(plan *self, const lk_field_source *source, const lk_row_range *ranges, size_t count)
{
    lk_file_column_state *column = NULL;
    lk_err                ignored = {0};
    if (lk_file_column(source->file, source->column, &column, &ignored) != LK_OK) {
        return;
    }
    for (size_t page = 0, first = 0; page < column->meta.page_count && first < count; page++) {
        const lk_page_meta *meta = &column->meta.pages[page];
        uint64_t            end = meta->first_row + meta->rows, wanted = 0;
        size_t              last = first;
        lk_row_range        part;
        for (; last < count && ranges[last].start < end; last++) {
            wanted += cut(meta, &ranges[last], &part) ? part.count : 0;
        }
        bool whole = wanted * WHOLE_SHARE >= meta->rows;
        bool known = atomic_load_explicit(&column->pages[page], memory_order_relaxed) != NULL;
        if (wanted > 0 && self->chunks && !whole) {
            add_chunks(self, source->file, column, page, ranges + first, last - first);
        } else if (wanted > 0 && !self->chunks && (whole || !known)) {
            add_buffers(self, source->file, meta, whole ? UINT64_MAX : TABLE_BYTES_MAX);
        }
        while (first < count && ranges[first].start + ranges[first].count <= end) {
            first++;
        }
    }
}

static void plan_source(plan *self, const lk_field_source *source, const lk_row_range *ranges, size_t count)
{
    uint64_t      size = 1;
    lk_err        ignored = {0};
    lk_row_range *items = NULL;
    if (source->file != NULL && source->file->object->store->far) {
        plan_column(self, source, ranges, count);
    }
    if (source->child_count == 0 || (lk_v20_holds(source) && lk_source_has_lists(source))) {
        return; /* items of 2.0 lie where their list says */
    }
    if (lk_source_is_vector(source)) {
        if (lk_vector_size(source->field, UINT32_MAX, &size, &ignored) != LK_OK) {
            return;
        }
        items = calloc(count + 1, sizeof *items);
        LK_ASSERT(items != NULL);
        for (size_t i = 0; i < count; i++) {
            items[i] = (lk_row_range){ranges[i].start * size, ranges[i].count * size};
        }
        ranges = items;
    }
    for (size_t child = 0; child < source->child_count; child++) {
        plan_source(self, &source->children[child], ranges, count);
    }
    free(items);
}

/* -- what is held -------------------------------------------------------------------------------------- */
static int by_place(const void *a, const void *b)
{
    const span *left = a, *right = b;
    if (left->file != right->file) {
        return (uintptr_t)left->file < (uintptr_t)right->file ? -1 : 1;
    }
    return (left->offset > right->offset) - (left->offset < right->offset);
}

/* Blocks of the spans, all of one file and ascending; returns their bytes. */
static uint64_t join(lk_file_ahead *self, const span *spans, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        block   *last = self->count == 0 ? NULL : &self->blocks[self->count - 1];
        uint64_t end = spans[i].offset + spans[i].size;
        if (last != NULL && spans[i].offset <= last->offset + last->size + GAP_BYTES) {
            uint64_t more = end > last->offset + last->size ? end - (last->offset + last->size) : 0;
            last->size += more;
            bytes += more;
        } else {
            self->blocks[self->count++] = (block){spans[i].offset, spans[i].size, NULL};
            bytes += spans[i].size;
        }
    }
    return bytes;
}

static bool fetch(lk_file_ahead *self, uint64_t bytes, lk_buffer_pool *pool)
{
    lk_err          ignored = {0};
    lk_store_range *ranges = calloc(self->count + 1, sizeof *ranges);
    LK_ASSERT(ranges != NULL);
    lk_rc    rc = lk_buffer_pool_is_roomy(pool, bytes) ? lk_buffer_take(pool, bytes, &self->bytes, &ignored)
                                                       : LK_E_LIMIT;
    uint64_t at = 0;
    for (size_t i = 0; rc == LK_OK && i < self->count; i++) {
        self->blocks[i].bytes = self->bytes.data + at;
        ranges[i] = (lk_store_range){self->blocks[i].offset, self->blocks[i].size, self->blocks[i].bytes};
        at += self->blocks[i].size;
    }
    if (rc == LK_OK) {
        rc = lk_store_read(self->file->object, ranges, self->count, &ignored);
    }
    free(ranges);
    return rc == LK_OK;
}

/* Spans of one file. */
static void hold(const span *spans, size_t count, lk_buffer_pool *pool, lk_file_ahead **out)
{
    lk_file_ahead *self = calloc(1, sizeof *self + count * sizeof self->blocks[0]);
    LK_ASSERT(self != NULL);
    self->file = lk_file_reader_ref(spans[0].file);
    if (!fetch(self, join(self, spans, count), pool)) {
        lk_buffer_give(&self->bytes);
        lk_file_reader_unref(self->file);
        free(self);
        return;
    }
    lk_mutex_lock(&self->file->mutex);
    self->other = self->file->ahead;
    self->file->ahead = self;
    lk_mutex_unlock(&self->file->mutex);
    self->next = *out;
    *out = self;
}

static void fetch_all(plan *self, lk_buffer_pool *pool, lk_file_ahead **out)
{
    qsort(self->spans, self->count, sizeof *self->spans, by_place);
    for (size_t first = 0, end = 0; first < self->count; first = end) {
        while (end < self->count && self->spans[end].file == self->spans[first].file) {
            end++;
        }
        hold(self->spans + first, end - first, pool, out);
    }
    self->count = 0;
}

void lk_file_ahead_open(const lk_field_source *sources, size_t count, const lk_row_range *ranges,
    size_t range_count, lk_buffer_pool *pool, lk_file_ahead **out)
{
    plan self = {.scratch = {.pool = pool}};
    *out = NULL;
    for (int go = 0; go < 2; go++) {
        self.chunks = go == 1;
        for (size_t i = 0; i < count; i++) {
            plan_source(&self, &sources[i], ranges, range_count);
        }
        if (self.count > 0) {
            fetch_all(&self, pool, out);
        }
    }
    lk_scratch_deinit(&self.scratch);
    free(self.spans);
}

static void forget(lk_file_ahead *self)
{
    lk_mutex_lock(&self->file->mutex);
    lk_file_ahead **at = &self->file->ahead;
    while (*at != self) {
        at = &(*at)->other;
    }
    *at = self->other;
    lk_mutex_unlock(&self->file->mutex);
}

void lk_file_ahead_close(lk_file_ahead *self)
{
    while (self != NULL) {
        lk_file_ahead *next = self->next;
        forget(self);
        lk_buffer_give(&self->bytes);
        lk_file_reader_unref(self->file);
        free(self);
        self = next;
    }
}

/* -- what is served ------------------------------------------------------------------------------------ */
/* Under the mutex. */
static const uint8_t *find(const lk_file_reader *file, const lk_store_range *range)
{
    for (const lk_file_ahead *ahead = file->ahead; ahead != NULL; ahead = ahead->other) {
        size_t low = 0, high = ahead->count; /* the last block that begins at or before the range */
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (ahead->blocks[middle].offset <= range->offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        const block *at = low == 0 ? NULL : &ahead->blocks[low - 1];
        if (at != NULL && range->offset - at->offset <= at->size &&
            range->size <= at->size - (range->offset - at->offset)) {
            return at->bytes + (range->offset - at->offset);
        }
    }
    return NULL;
}

bool lk_file_ahead_serve(lk_file_reader *file, const lk_store_range *ranges, size_t count)
{
    bool held = true;
    lk_mutex_lock(&file->mutex);
    held = file->ahead != NULL;
    for (size_t i = 0; held && i < count; i++) {
        const uint8_t *bytes = ranges[i].size == 0 ? NULL : find(file, &ranges[i]);
        held = bytes != NULL || ranges[i].size == 0;
        if (bytes != NULL) {
            memcpy(ranges[i].out, bytes, ranges[i].size);
        }
    }
    lk_mutex_unlock(&file->mutex);
    return held;
}
