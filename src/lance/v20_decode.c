/*
 * v20_decode.c - see v20_priv.h: a field of a 2.0 file. Structs are their children side by side (they are never
 * null), a list is a column of ends, like texts have them, and its items are the rows of the columns below.
 *
 * Invariant: what lies below a list is decoded by the ranges of its items, which ascend and lie apart like those
 * of rows.
 */
#include "lance/v20_priv.h"

#include <stdlib.h>
#include <string.h>

lk_rc lk_v20_load(lk_page *page, lk_err *err)
{
    lk_rc rc = lk_pb_v20_page(page->meta->encoding, page->meta->buffer_count, &page->arena, &page->v20, err);
    if (rc == LK_OK && page->v20->kind == LK_V20_FSST) {
        page->fsst = lk_arena_take(&page->arena, sizeof *page->fsst);
        rc = lk_fsst_read_table(page->v20->symbol_table, page->fsst, err);
    }
    return rc;
}

bool lk_v20_holds(const lk_field_source *source)
{
    bool found = source->file != NULL && lk_file_is_v20(source->file);
    for (size_t child = 0; !found && child < source->child_count; child++) {
        found = lk_v20_holds(&source->children[child]);
    }
    return found;
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

/* -- leaves ---------------------------------------------------------------------------------------- */
static lk_rc unfit(lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "a page is encoded for a column of another type");
}

typedef struct leaf {
    lk_shape  shape;
    lk_column column;
} leaf;

/* Rows of bytes: packed structs, and the descriptors of blobs. */
static lk_rc read_packed(const lk_page_rows *rows, const lk_v20_array *array, uint64_t count, lk_err *err)
{
    lk_column         *column = rows->column;
    const lk_v20_array whole = {.kind = LK_V20_FLAT, .bits = column->row_bits, .buffer = array->buffer};
    if (array->kind != LK_V20_PACKED_STRUCT || column->row_bits == 0) {
        return unfit(err);
    }
    lk_rc rc = lk_v20_bytes(
        rows, &whole, rows->ranges, rows->range_count, column->row_bits / 8, lk_column_next(column), err);
    return rc == LK_OK ? lk_v20_complete(column, NULL, count, err) : rc;
}

static lk_rc leaf_page(void *context, lk_page_rows *rows, lk_err *err)
{
    leaf                  *self = context;
    const lk_v20_array    *array = rows->page->v20;
    const lk_field_source *source = self->shape.source;
    uint64_t               before = self->column.rows;
    rows->column = &self->column;
    if (source->kind != LK_COLUMN_PLAIN) {
        lk_rc rc = read_packed(rows, array, lk_v20_row_count(rows), err);
        return rc == LK_OK ? lk_shape_page_end(&self->shape, rows, before, NULL, 0, err) : rc;
    }
    if (self->shape.kind == LK_SHAPE_DICTIONARY) {
        return lk_v20_number(rows, array, &self->shape, err);
    }
    return array->kind == LK_V20_DICTIONARY ? lk_v20_expand(rows, array, !source->is_dictionary, err)
                                            : lk_v20_leaf(rows, array, err);
}

static lk_rc decode_leaf(lk_decoder *self, const lk_field_source *source, struct ArrowArray *out, lk_err *err)
{
    leaf  made = {0};
    lk_rc rc = lk_shape_open(&made.shape, source, false, err);
    if (rc == LK_OK) {
        rc = lk_column_init(&made.column, made.shape.stored, self->rows, self->scratch.pool, NULL, 0, err);
    }
    if (rc == LK_OK) {
        rc = lk_decode_each_page(self, source, leaf_page, &made, err);
    }
    if (rc == LK_OK && made.column.rows != self->rows) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: rows beyond its pages", LK_FMT(source->file->key));
    }
    if (rc == LK_OK) {
        rc = lk_shape_finish(&made.shape, &made.column, out, err);
    }
    lk_column_deinit(&made.column);
    lk_shape_close(&made.shape);
    return rc;
}

/* -- lists ----------------------------------------------------------------------------------------- */
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

/* One range of a page's rows. ends: of its rows; first: where its first row begins. */
static lk_rc put_range(list *self, const lk_v20_array *array, const uint64_t *ends, uint64_t count,
    uint64_t first, uint64_t before, lk_err *err)
{
    uint64_t start = first;
    for (uint64_t row = 0; row < count; row++) {
        bool     null = ends[row] >= array->adjustment;
        uint64_t end = ends[row] - (null ? array->adjustment : 0);
        if (end < first || end > array->item_count) {
            return bad_list(err);
        }
        uint16_t level = null;
        lk_rc    rc =
            lk_validity_append(&self->validity, self->pool, self->capacity, self->rows, &level, 1, 1, err);
        if (rc != LK_OK) {
            return rc;
        }
        self->items += end - first;
        self->rows++;
        memcpy(self->offsets.data + self->rows * self->width, &self->items, self->width);
        first = end;
    }
    if (self->width == 4 && self->items > INT32_MAX) {
        return lk_fail(err, LK_E_LIMIT, "more than 2^31 items in one batch");
    }
    add_items(self, before + start, first - start);
    return LK_OK;
}

static lk_rc list_page(void *context, lk_page_rows *rows, lk_err *err)
{
    list               *self = context;
    lk_scratch         *scratch = rows->scratch;
    const lk_v20_array *array = rows->page->v20;
    uint64_t            before = self->items_before[rows->page->meta - self->pages];
    lk_rc               rc = array->kind == LK_V20_LIST ? LK_OK : unfit(err);
    for (size_t index = 0; rc == LK_OK && index < rows->range_count; index++) {
        lk_row_range range = rows->ranges[index];
        uint64_t     extra = range.start > 0, first = 0;
        lk_row_range words = {range.start - extra, range.count + extra};
        rc = lk_buffer_grow(scratch->pool, &scratch->words, 0, words.count * sizeof(uint64_t) + 8, err);
        if (rc == LK_OK) {
            rc = lk_v20_words(rows, array->indices, &words, 1, sizeof(uint64_t), scratch->words.data, err);
        }
        if (rc != LK_OK) {
            break;
        }
        const uint64_t *ends = (const uint64_t *)(const void *)scratch->words.data;
        if (extra > 0) {
            first = ends[0] - (ends[0] >= array->adjustment ? array->adjustment : 0);
        }
        rc = put_range(self, array, ends + extra, range.count, first, before, err);
    }
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

static lk_rc decode_list(
    lk_decoder *decoder, const lk_field_source *source, struct ArrowArray *out, lk_err *err)
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

/* -- structs --------------------------------------------------------------------------------------- */
static lk_rc decode_struct(
    lk_decoder *decoder, const lk_field_source *source, struct ArrowArray *out, lk_err *err)
{
    struct ArrowArray made = {0};
    lk_rc             rc = LK_OK;
    lk_column_node(&made, decoder->rows, 0, &(lk_buffer){0}, 1, source->child_count);
    for (size_t child = 0; rc == LK_OK && child < source->child_count; child++) {
        const lk_field_source *member = &source->children[child];
        rc = lk_source_present(member)
                 ? lk_decode_ranges(
                       decoder, member, decoder->ranges, decoder->range_count, made.children[child], err)
                 : lk_decode_nulls(decoder, member->field, decoder->rows, made.children[child], err);
    }
    if (rc == LK_OK) {
        *out = made;
    } else {
        made.release(&made);
    }
    return rc;
}

lk_rc lk_v20_decode(lk_decoder *decoder, const lk_field_source *source, struct ArrowArray *out, lk_err *err)
{
    if (source->kind == LK_COLUMN_PLAIN && lk_is_list(source->field)) {
        return decode_list(decoder, source, out, err);
    }
    return lk_source_is_struct(source) ? decode_struct(decoder, source, out, err)
                                       : decode_leaf(decoder, source, out, err);
}
