/*
 * decode.c - rows of an Arrow field from the columns that hold it: pages in order, leaves side by side, structs
 * around them. Fields with lists are decode_lists.c.
 *
 * A struct's validity comes from the definition levels of one of its leaves; every leaf knows it. A struct
 * without children has a column that says nothing: its rows are valid.
 */
#include "lance/decode_priv.h"

#include "arrow/utf8.h"
#include "lance/cpu.h"
#include "lance/v20_priv.h"

#include <stdlib.h>

/* -- leaves ---------------------------------------------------------------------------------------- */
static lk_rc page_rows(const lk_page_rows *rows, lk_err *err)
{
    bool lists = rows->stream != NULL;
    switch (rows->page->layout.kind) {
    case LK_PAGE_MINIBLOCK:
        return lists ? lk_miniblock_entries(rows, err) : lk_miniblock_rows(rows, err);
    case LK_PAGE_FULLZIP:
        return lists ? lk_fullzip_entries(rows, err) : lk_fullzip_rows(rows, err);
    case LK_PAGE_CONSTANT:
        return lists ? lk_constant_entries(rows, err) : lk_constant_rows(rows, err);
    default:
        break;
    }
    return lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "page layout %d", (int)rows->page->layout.kind);
}

/* The parts of the ranges inside a page; *next: the first range that goes on behind it. */
static size_t cut_ranges(lk_decoder *self, const lk_page_meta *page, size_t *next)
{
    uint64_t end = page->first_row + page->rows;
    size_t   count = 0;
    while (*next < self->range_count && self->ranges[*next].start < end) {
        const lk_row_range *range = &self->ranges[*next];
        uint64_t            stop = range->start + range->count;
        uint64_t            from = range->start > page->first_row ? range->start : page->first_row;
        if (stop > page->first_row) {
            self->local[count++] = (lk_row_range){from - page->first_row, (stop < end ? stop : end) - from};
        }
        if (stop > end) {
            break;
        }
        (*next)++;
    }
    return count;
}

/* The first page that ends behind `row`. */
static size_t find_page(const lk_column_meta *meta, uint64_t row)
{
    size_t low = 0, high = meta->page_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (meta->pages[middle].first_row + meta->pages[middle].rows <= row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

lk_rc lk_decode_each_page(
    lk_decoder *self, const lk_field_source *source, lk_page_visit *visit, void *context, lk_err *err)
{
    lk_file_column_state *state = NULL;
    size_t                next = 0;
    lk_rc                 rc = lk_file_column(source->file, source->column, &state, err);
    if (rc == LK_OK && !lk_file_has_rows(source->file, state, self->rows_each)) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: a column has another number of rows than the file",
            LK_FMT(source->file->key));
    }
    if (rc != LK_OK || self->range_count == 0) {
        return rc;
    }
    size_t page = find_page(&state->meta, self->ranges[0].start);
    for (; rc == LK_OK && page < state->meta.page_count && next < self->range_count; page++) {
        lk_page_rows rows = {.file = source->file,
            .ranges = self->local,
            .range_count = cut_ranges(self, &state->meta.pages[page], &next),
            .scratch = &self->scratch};
        if (rows.range_count == 0) {
            continue;
        }
        rc = lk_file_page(source->file, state, page, &self->scratch, &rows.page, err);
        if (rc == LK_OK) {
            rc = visit(context, &rows, err);
        }
        if (rc != LK_OK) {
            const char *name = source->field->name;
            lk_context(err, "column %s, page %zu of %.*s", name == NULL ? "" : name, page,
                LK_FMT(source->file->key));
        }
    }
    return rc;
}

static lk_rc check_levels(const lk_leaf_decode *leaf, const lk_page *page, lk_thresholds *out, lk_err *err)
{
    const lk_page_layout *layout = &page->layout;
    size_t                parents = lk_shape_has_levels(leaf->shape) ? leaf->column->parent_count : 0;
    return leaf->stream != NULL ? lk_stream_check(leaf->stream, layout, err)
                                : lk_thresholds_of(layout->layers, layout->layer_count, parents, out, err);
}

static lk_rc decode_page(void *context, lk_page_rows *rows, lk_err *err)
{
    lk_leaf_decode *leaf = context;
    uint64_t        before = leaf->column->rows;
    rows->column = leaf->column;
    rows->stream = leaf->stream;
    lk_rc rc = lk_shape_page_begin(leaf->shape, rows, err);
    if (rc == LK_OK) {
        rc = check_levels(leaf, rows->page, &rows->thresholds, err);
    }
    if (rc == LK_OK) {
        rc = page_rows(rows, err);
    }
    return rc == LK_OK ? lk_shape_page_end(leaf->shape, rows, before, leaf->parents, leaf->parent_count, err)
                       : rc;
}

lk_rc lk_decode_pages(lk_decoder *self, lk_leaf_decode *leaf, lk_err *err)
{
    const lk_field_source *source = leaf->shape->source;
    lk_rc                  rc = lk_decode_each_page(self, source, decode_page, leaf, err);
    if (rc == LK_OK && (leaf->stream != NULL ? leaf->stream->rows : leaf->column->rows) != self->rows) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: rows beyond its pages", LK_FMT(source->file->key));
    }
    return rc;
}

LK_VECTOR static bool ascii_only(const uint8_t *bytes, size_t size)
{
    uint8_t seen = 0;
    for (size_t at = 0; at < size; at++) {
        seen |= bytes[at];
    }
    return seen < 0x80;
}

/* UTF-8 as a whole, and no value may begin inside a character. */
lk_rc lk_decode_check_text(const lk_column *column, lk_err *err)
{
    bool text = column->type.id == LK_TYPE_UTF8 || column->type.id == LK_TYPE_LARGE_UTF8;
    if (!text || column->data_size == 0 || ascii_only(column->data.data, column->data_size)) {
        return LK_OK;
    }
    bool good = lk_utf8_valid(column->data.data, column->data_size);
    for (uint64_t row = 0; good && row < column->rows; row++) {
        uint64_t offset = 0;
        memcpy(&offset, column->values.data + row * column->offset_bytes, column->offset_bytes);
        good = offset == column->data_size || (column->data.data[offset] & 0xc0) != 0x80;
    }
    return good ? LK_OK : lk_fail(err, LK_E_CORRUPT_FILE, "text that is not UTF-8");
}

/* Rows of a leaf that is in no file: it says nothing of its structs. */
static lk_rc absent(lk_decoder *self, lk_column *column, lk_err *err)
{
    lk_thresholds none = {.leaf = 1};
    for (size_t parent = 0; parent < column->parent_count; parent++) {
        none.parents[parent] = UINT16_MAX;
    }
    return lk_column_nulls(column, self->rows, 1, &none, err);
}

static lk_rc decode_leaf(lk_decoder *self, const lk_field_source *source, lk_validity *parents,
    size_t parent_count, struct ArrowArray *out, lk_err *err)
{
    lk_shape  shape;
    lk_column column = {0};
    lk_rc     rc = lk_shape_open(&shape, source, false, err);
    if (rc == LK_OK) { /* levels in descriptors: page by page, see lk_shape_page_end */
        size_t told = lk_shape_has_levels(&shape) ? parent_count : 0;
        rc = lk_column_init(&column, shape.stored, self->rows, self->scratch.pool, parents, told, err);
    }
    if (rc == LK_OK && source->file != NULL) {
        lk_leaf_decode leaf = {&shape, &column, NULL, parents, parent_count};
        rc = lk_decode_pages(self, &leaf, err);
    } else if (rc == LK_OK) {
        rc = absent(self, &column, err);
    }
    if (rc == LK_OK) {
        rc = lk_shape_finish(&shape, &column, out, err);
    }
    lk_column_deinit(&column);
    lk_shape_close(&shape);
    return rc;
}

/* -- fields ---------------------------------------------------------------------------------------- */
bool lk_source_is_struct(const lk_field_source *source)
{
    return source->kind == LK_COLUMN_PLAIN && lk_is_struct(source->field);
}

bool lk_source_has_lists(const lk_field_source *source)
{
    bool found = source->kind == LK_COLUMN_PLAIN && lk_is_list(source->field);
    for (size_t child = 0; !found && child < source->child_count; child++) {
        found = lk_source_has_lists(&source->children[child]);
    }
    return found;
}

bool lk_source_present(const lk_field_source *source)
{
    bool found = source->file != NULL || source->listed;
    for (size_t child = 0; !found && child < source->child_count; child++) {
        found = lk_source_present(&source->children[child]);
    }
    return found;
}

static bool has_leaf(const lk_field_source *source)
{
    bool found = source->file != NULL;
    for (size_t child = 0; !found && child < source->child_count; child++) {
        found = has_leaf(&source->children[child]);
    }
    return found;
}

/* The child whose leaf tells which structs are null. */
static size_t teller(const lk_field_source *source)
{
    size_t child = 0;
    while (child < source->child_count && !has_leaf(&source->children[child])) {
        child++;
    }
    return child;
}

/* Decodes children into the struct's node; the telling child fills own[0] and the parents behind it. */
static lk_rc decode_children(lk_decoder *self, const lk_field_source *source, lk_validity *own,
    size_t own_count, struct ArrowArray *out, lk_err *err)
{
    size_t       telling = teller(source);
    lk_validity *ignored = calloc(own_count, sizeof *ignored);
    LK_ASSERT(ignored != NULL);
    lk_rc rc = LK_OK;
    for (size_t child = 0; rc == LK_OK && child < source->child_count; child++) {
        lk_validity *parents = child == telling ? own : ignored;
        rc = lk_decode_field(self, &source->children[child], parents, own_count, out->children[child], err);
        for (size_t parent = 0; parent < own_count; parent++) {
            lk_buffer_give(&ignored[parent].bits);
        }
        memset(ignored, 0, own_count * sizeof *ignored);
    }
    free(ignored);
    return rc;
}

static lk_rc all_null(lk_decoder *self, lk_validity *validity, lk_err *err)
{
    lk_buffer_give(&validity->bits);
    lk_rc rc = lk_buffer_take(self->scratch.pool, self->rows / 8 + 8, &validity->bits, err);
    if (rc == LK_OK) {
        memset(validity->bits.data, 0, self->rows / 8 + 1);
        validity->null_count = self->rows;
    }
    return rc;
}

static lk_rc decode_struct(lk_decoder *self, const lk_field_source *source, lk_validity *parents,
    size_t parent_count, struct ArrowArray *out, lk_err *err)
{
    LK_ASSERT((int64_t)source->child_count == source->field->n_children);
    lk_buffer    none = {0};
    lk_validity *own = calloc(parent_count + 1, sizeof *own);
    LK_ASSERT(own != NULL);
    lk_column_node(out, self->rows, 0, &none, 1, source->child_count);
    lk_rc rc = decode_children(self, source, own, parent_count + 1, out, err);
    if (rc == LK_OK && source->child_count > 0 && !lk_source_present(source)) {
        rc = all_null(self, &own[0], err);
    }
    for (size_t parent = 0; rc == LK_OK && parent < parent_count; parent++) {
        lk_buffer_give(&parents[parent].bits);
        parents[parent] = own[parent + 1];
        own[parent + 1] = (lk_validity){0};
    }
    if (rc == LK_OK) {
        lk_column_set_validity(out, &own[0]);
    }
    for (size_t parent = 0; parent <= parent_count; parent++) {
        lk_buffer_give(&own[parent].bits);
    }
    free(own);
    return rc;
}

lk_rc lk_decode_field(lk_decoder *self, const lk_field_source *source, lk_validity *parents,
    size_t parent_count, struct ArrowArray *out, lk_err *err)
{
    if (parent_count >= LK_LAYERS_MAX) {
        return lk_fail(err, LK_E_LIMIT, "structs nest more than %d deep", LK_LAYERS_MAX);
    }
    if (lk_source_is_vector(source)) {
        return lk_decode_vector(self, source, parents, parent_count, out, err);
    }
    return lk_source_is_struct(source) ? decode_struct(self, source, parents, parent_count, out, err)
                                       : decode_leaf(self, source, parents, parent_count, out, err);
}

static lk_rc decode_any(lk_decoder *self, const lk_field_source *source, struct ArrowArray *out, lk_err *err)
{
    if (lk_v20_holds(source)) {
        return lk_v20_decode(self, source, out, err);
    }
    return lk_source_has_lists(source) ? lk_decode_lists(self, source, out, err)
                                       : lk_decode_field(self, source, NULL, 0, out, err);
}

lk_rc lk_decode_ranges(lk_decoder *decoder, const lk_field_source *source, const lk_row_range *ranges,
    size_t range_count, struct ArrowArray *out, lk_err *err)
{
    lk_decoder self = {
        .ranges = ranges, .range_count = range_count, .rows_each = 1, .scratch = decoder->scratch};
    struct ArrowArray array = {0};
    for (size_t index = 0; index < range_count; index++) {
        self.rows += ranges[index].count;
    }
    self.local = malloc((range_count + 1) * sizeof *self.local);
    LK_ASSERT(self.local != NULL);
    lk_rc rc = decode_any(&self, source, &array, err);
    if (rc == LK_OK) {
        *out = array;
    } else if (array.release != NULL) {
        array.release(&array);
    }
    decoder->scratch = self.scratch; /* what grew is kept */
    free(self.local);
    return rc;
}

lk_rc lk_file_decode(const lk_field_source *source, const lk_row_range *ranges, size_t range_count,
    lk_buffer_pool *pool, struct ArrowArray *out, lk_err *err)
{
    lk_decoder self = {.scratch = {.pool = pool}};
    lk_rc      rc = lk_decode_ranges(&self, source, ranges, range_count, out, err);
    lk_scratch_deinit(&self.scratch);
    return rc;
}
