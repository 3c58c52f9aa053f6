/*
 * v20_list.c - see v20_priv.h: a list is a column of ends, and its items are the rows of the columns below.
 *
 * Invariant: what lies below a list is decoded by the ranges of its items, which ascend and lie apart like those
 * of rows.
 */
#include "lance/v20_priv.h"

#include <stdlib.h>
#include <string.h>

/* A list being put together. */
typedef struct list {
    lk_buffer_pool     *pool;
    unsigned            width; /* of an offset */
    uint64_t            capacity, rows, items;
    lk_buffer           offsets;
    lk_validity         validity;
    lk_row_range       *ranges; /* of the items, in their columns */
    size_t              range_count, range_room;
    uint64_t           *items_before; /* each page */
    const lk_page_meta *pages;
} list;

static void add_items(list *self, uint64_t start, uint64_t count)
{
    lk_row_range *last = self->range_count == 0 ? NULL : &self->ranges[self->range_count - 1];
    if (count == 0) {
        return;
    }
    if (last != NULL && last->start + last->count == start) {
        last->count += count;
        return;
    }
    if (self->range_count == self->range_room) {
        self->range_room = self->range_room == 0 ? 16 : self->range_room * 2;
        self->ranges = realloc(self->ranges, self->range_room * sizeof *self->ranges);
        LK_ASSERT(self->ranges != NULL);
    }
    self->ranges[self->range_count++] = (lk_row_range){start, count};
}

static lk_rc bad_list(lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "ends of lists are wrong");
}

static lk_rc list_page(void *context, lk_page_rows *rows, lk_err *err)
{
    list               *self = context;
    const lk_v20_array *array = rows->page->v20;
    uint64_t            before = self->items_before[rows->page->meta - self->pages];
    lk_v20_ends         ends = {0};
    lk_rc rc = array->kind == LK_V20_LIST ? lk_v20_find_ends(rows, array, &ends, err) : bad_list(err);
    for (size_t range = 0; rc == LK_OK && range < rows->range_count; range++) {
        lk_row_range span = ends.spans[range];
        if (span.start + span.count > array->item_count) {
            rc = bad_list(err);
        } else {
            add_items(self, before + span.start, span.count);
        }
    }
    if (rc == LK_OK && self->width == 4 && ends.size > INT32_MAX - self->items) {
        rc = lk_fail(err, LK_E_LIMIT, "more than 2^31 items in one batch");
    }
    if (rc == LK_OK) {
        lk_v20_put_ends(&ends, self->items, self->width, self->offsets.data + (self->rows + 1) * self->width);
        rc = lk_validity_put(
            &self->validity, self->pool, self->capacity, self->rows, ends.valid, 0, ends.count, err);
        self->rows += ends.count;
        self->items += ends.size;
    }
    free(ends.spans);
    return rc;
}

/* How many items lie before each page. */
static lk_rc count_items(lk_decoder *decoder, const lk_field_source *source, list *self, lk_err *err)
{
    lk_file_column_state *state = NULL;
    lk_rc                 rc = lk_file_column(source->file, source->column, &state, err);
    if (rc != LK_OK) {
        return rc;
    }
    uint64_t before = 0;
    self->pages = state->meta.pages;
    self->items_before = malloc((state->meta.page_count + 1) * sizeof(uint64_t));
    LK_ASSERT(self->items_before != NULL);
    for (size_t index = 0; rc == LK_OK && index < state->meta.page_count; index++) {
        const lk_page *page = NULL;
        self->items_before[index] = before;
        rc = lk_file_page(source->file, state, index, &decoder->scratch, &page, err);
        if (rc == LK_OK && (page->v20->kind != LK_V20_LIST ||
                               __builtin_add_overflow(before, page->v20->item_count, &before))) {
            rc = bad_list(err);
        }
    }
    return rc;
}

static lk_rc read_list(lk_decoder *decoder, const lk_field_source *source, list *self, lk_err *err)
{
    lk_rc rc = lk_buffer_take(self->pool, (self->capacity + 1) * self->width + 8, &self->offsets, err);
    if (rc == LK_OK) {
        memset(self->offsets.data, 0, self->width);
        rc = count_items(decoder, source, self, err);
    }
    if (rc == LK_OK) {
        rc = lk_decode_each_page(decoder, source, list_page, self, err);
    }
    if (rc == LK_OK && self->rows != decoder->rows) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: rows beyond its pages", LK_FMT(source->file->key));
    }
    return rc;
}

/* Whether all that lies in a file lies in a 2.0 file. */
static bool holds_nothing_else(const lk_field_source *source)
{
    bool good = source->file == NULL || lk_file_is_v20(source->file);
    for (size_t child = 0; good && child < source->child_count; child++) {
        good = holds_nothing_else(&source->children[child]);
    }
    return good;
}

lk_rc lk_v20_list(lk_decoder *decoder, const lk_field_source *source, struct ArrowArray *out, lk_err *err)
{
    list              self = {.pool = decoder->scratch.pool,
                     .width = source->field->format[1] == 'L' ? 8 : 4,
                     .capacity = decoder->rows};
    struct ArrowArray items = {0};
    bool              whole = source->file != NULL && source->child_count == 1 && holds_nothing_else(source);
    lk_rc             rc = whole ? read_list(decoder, source, &self, err)
                                 : lk_fail(err, LK_E_CORRUPT_FILE, "the items of a list are apart from it");
    if (rc == LK_OK) {
        rc = lk_decode_ranges(decoder, &source->children[0], self.ranges, self.range_count, &items, err);
    }
    if (rc == LK_OK) {
        lk_buffer buffers[2] = {self.validity.bits, self.offsets};
        lk_column_node(out, self.rows, self.validity.null_count, buffers, 2, 1);
        *out->children[0] = items;
        self.validity.bits = self.offsets = (lk_buffer){0};
    }
    lk_buffer_give(&self.validity.bits);
    lk_buffer_give(&self.offsets);
    free(self.ranges);
    free(self.items_before);
    return rc;
}
