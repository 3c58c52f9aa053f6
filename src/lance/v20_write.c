/* v20_write.c - see v20_write.h. */
#include "lance/v20_write.h"

#include "arrow/bits.h"
#include "arrow/schema.h"
#include "lance/v20_page.h"

#include <stdlib.h>

enum {
    PAGE_BYTES = 8 * 1024 * 1024,      /* of a column, as the reference does */
    PAGE_BYTES_MIN = 256 * 1024,       /* where many columns wait at once */
    BUFFERED_BYTES = 256 * 1024 * 1024 /* of all columns together */
};

typedef enum column_kind { COLUMN_STRUCT, COLUMN_LIST, COLUMN_LEAF, COLUMN_WIDE } column_kind;

typedef struct column {
    const lk_lance_field *field;
    column_kind           kind;
    size_t                end;   /* the column behind the last one below */
    lk_leaf               leaf;  /* LEAF */
    lk_v20_wide           wide;  /* WIDE */
    lk_buf                ends;  /* LIST: of the waiting rows */
    uint64_t              items; /* LIST: of the waiting rows */
    uint64_t              rows;  /* STRUCT: all; LIST: waiting */
    bool                  has_stats;
    lk_page_meta         *pages;
    size_t                page_count, page_room;
} column;

struct lk_v20_writer {
    const lk_lance_schema *schema;
    lk_page_sink           sink;
    lk_arena               arena; /* page metadata */
    lk_v20_page_out        page;  /* reused */
    lk_stats_writer       *stats;
    size_t                 page_bytes;
    size_t                 column_count;
    column                *columns;
};

/* -- what can be stored ------------------------------------------------------------------------------ */
static bool is_struct(const struct ArrowSchema *field)
{
    return strcmp(field->format, "+s") == 0;
}

static bool is_list(const struct ArrowSchema *field)
{
    return strcmp(field->format, "+l") == 0 || strcmp(field->format, "+L") == 0;
}

static bool is_large(const struct ArrowSchema *field)
{
    return field->format[1] == 'L';
}

static lk_rc refuse(const struct ArrowSchema *field, const char *what, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_INVALID_SCHEMA, "%s in a 2.0 file", what);
    lk_detail(err, "column %s: data files of version 2.0 do not store %s",
        field->name == NULL ? "" : field->name, what);
    return rc;
}

lk_rc lk_v20_writer_supports(const struct ArrowSchema *field, lk_err *err)
{
    lk_leaf     leaf = {0};
    lk_v20_wide wide = {0};
    lk_rc       rc = LK_OK;
    if (lk_v20_is_wide(field)) {
        rc = lk_v20_wide_open(&wide, field, err);
        lk_v20_wide_close(&wide);
        return rc;
    }
    if (strcmp(field->format, "+m") == 0) {
        return refuse(field, "maps", err);
    }
    if (!is_list(field) && !is_struct(field)) {
        rc = lk_leaf_init(&leaf, field, 1, err);
        bool fsst = leaf.options.compression == LK_COMPRESSION_FSST && leaf.offset_bytes == 8;
        return rc == LK_OK && fsst ? refuse(field, "FSST of 64-bit texts", err) : rc;
    }
    for (int64_t child = 0; rc == LK_OK && child < field->n_children; child++) {
        rc = lk_v20_writer_supports(field->children[child], err);
    }
    return rc;
}

/* -- open ------------------------------------------------------------------------------------------ */
static lk_rc open_column(lk_v20_writer *self, size_t index, lk_err *err)
{
    column                   *made = &self->columns[index];
    const struct ArrowSchema *field = made->field->arrow;
    made->kind = lk_v20_is_wide(field) ? COLUMN_WIDE
                 : is_list(field)      ? COLUMN_LIST
                 : is_struct(field)    ? COLUMN_STRUCT
                                       : COLUMN_LEAF;
    if (made->kind != COLUMN_LEAF) {
        return made->kind == COLUMN_WIDE ? lk_v20_wide_open(&made->wide, field, err) : LK_OK;
    }
    lk_rc rc = lk_leaf_init(&made->leaf, field, 1, err);
    made->has_stats =
        made->field->depth == 0 && made->leaf.level_count == 0 && made->leaf.type.layout != LK_LAYOUT_NULL;
    return rc;
}

/* One column a field; what lies below a field that is one column is none. */
static void list_columns(lk_v20_writer *self)
{
    const lk_lance_schema *schema = self->schema;
    size_t                *column_of = calloc(schema->field_count + 1, sizeof *column_of);
    self->columns = calloc(schema->field_count + 1, sizeof *self->columns);
    LK_ASSERT(self->columns != NULL && column_of != NULL);
    for (size_t index = 0; index < schema->field_count;) {
        const lk_lance_field *field = &schema->fields[index];
        column_of[index] = self->column_count;
        self->columns[self->column_count++].field = field;
        size_t next = field->leaf ? field->end : index + 1;
        for (; index < next; index++) {
            column_of[index] = self->column_count - 1;
        }
    }
    column_of[schema->field_count] = self->column_count;
    for (size_t index = 0; index < self->column_count; index++) {
        self->columns[index].end = column_of[self->columns[index].field->end];
    }
    free(column_of);
}

static void open_stats(lk_v20_writer *self)
{
    self->stats = lk_stats_writer_new(self->column_count);
    for (size_t index = 0; index < self->column_count; index++) {
        if (self->columns[index].has_stats) {
            lk_stats_writer_column(self->stats, index, &self->columns[index].leaf.type);
        }
    }
}

lk_rc lk_v20_writer_open(
    const lk_lance_schema *schema, const lk_page_sink *sink, lk_v20_writer **out, lk_err *err)
{
    lk_v20_writer *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->schema = schema;
    self->sink = *sink;
    list_columns(self);
    lk_rc rc = LK_OK;
    for (size_t index = 0; rc == LK_OK && index < self->column_count; index++) {
        rc = open_column(self, index, err);
    }
    if (rc != LK_OK) {
        lk_v20_writer_close(self);
        return rc;
    }
    size_t share = self->column_count == 0 ? PAGE_BYTES : BUFFERED_BYTES / self->column_count;
    self->page_bytes = share > PAGE_BYTES ? PAGE_BYTES : share < PAGE_BYTES_MIN ? PAGE_BYTES_MIN : share;
    open_stats(self);
    *out = self;
    return LK_OK;
}

void lk_v20_writer_close(lk_v20_writer *self)
{
    for (size_t index = 0; self != NULL && index < self->column_count; index++) {
        lk_leaf_deinit(&self->columns[index].leaf);
        lk_v20_wide_close(&self->columns[index].wide);
        lk_buf_deinit(&self->columns[index].ends);
        free(self->columns[index].pages);
    }
    if (self != NULL) {
        lk_stats_writer_free(self->stats);
        lk_v20_page_out_deinit(&self->page);
        lk_arena_close(&self->arena);
        free(self->columns);
        free(self);
    }
}

void lk_v20_writer_reset(lk_v20_writer *self)
{
    for (size_t index = 0; index < self->column_count; index++) {
        column *of = &self->columns[index];
        lk_leaf_clear(&of->leaf);
        lk_v20_wide_clear(&of->wide);
        lk_buf_clear(&of->ends);
        of->items = of->rows = 0;
        of->page_count = 0;
    }
    lk_stats_writer_free(self->stats);
    open_stats(self);
    lk_arena_close(&self->arena);
}

/* -- pages ----------------------------------------------------------------------------------------- */
static lk_page_meta *add_page(column *self)
{
    if (self->page_count == self->page_room) {
        self->page_room = self->page_room == 0 ? 4 : self->page_room * 2;
        self->pages = realloc(self->pages, self->page_room * sizeof *self->pages);
        LK_ASSERT(self->pages != NULL);
    }
    return &self->pages[self->page_count++];
}

/* Writes what self->page holds. */
static lk_rc put_page(lk_v20_writer *self, column *of, uint64_t rows, lk_err *err)
{
    lk_buf           any = {0};
    lk_rc            rc = LK_OK;
    lk_v20_page_out *page = &self->page;
    lk_page_buffer  *buffers = lk_arena_take(&self->arena, sizeof *buffers * (page->buffer_count + 1));
    for (size_t index = 0; rc == LK_OK && index < page->buffer_count; index++) {
        buffers[index].size = page->buffers[index].size;
        rc = self->sink.put(self->sink.context, page->buffers[index], &buffers[index].offset, err);
    }
    lk_pb_v20_put_page(page->root, &any);
    *add_page(of) = (lk_page_meta){.rows = rows,
        .buffers = buffers,
        .buffer_count = page->buffer_count,
        .encoding = lk_arena_copy(&self->arena, lk_buf_view(&any))};
    lk_buf_deinit(&any);
    return rc;
}

static lk_rc flush(lk_v20_writer *self, size_t index, lk_err *err);

/* A page of lists takes the pages of its items with it. */
static lk_rc flush_list(lk_v20_writer *self, size_t index, lk_err *err)
{
    column  *of = &self->columns[index];
    uint64_t rows = of->rows;
    lk_rc    rc = LK_OK;
    for (size_t below = index + 1; rc == LK_OK && below < of->end; below++) {
        rc = flush(self, below, err);
    }
    if (rc != LK_OK || rows == 0) {
        return rc;
    }
    lk_v20_page_list(&of->ends, of->items, &self->page);
    lk_buf_clear(&of->ends);
    of->items = of->rows = 0;
    return put_page(self, of, rows, err);
}

static lk_rc flush(lk_v20_writer *self, size_t index, lk_err *err)
{
    column *of = &self->columns[index];
    if (of->kind == COLUMN_LIST) {
        return flush_list(self, index, err);
    }
    uint64_t rows = of->rows + of->leaf.rows + of->wide.rows; /* two of them are always 0 */
    if (rows == 0) {
        return LK_OK;
    }
    if (of->kind == COLUMN_STRUCT) {
        lk_v20_page_struct(&self->page);
    } else if (of->kind == COLUMN_WIDE) {
        lk_v20_wide_page(&of->wide, &self->page);
    } else {
        lk_v20_page_leaf(&of->leaf, &self->page);
    }
    lk_rc rc = put_page(self, of, rows, err);
    of->rows = 0;
    lk_leaf_clear(&of->leaf);
    lk_v20_wide_clear(&of->wide);
    return rc;
}

/* Readers look at the first page of a struct or a list, even where there is nothing to read. */
static lk_rc put_empty_page(lk_v20_writer *self, column *of, lk_err *err)
{
    if (of->page_count > 0 || (of->kind != COLUMN_STRUCT && of->kind != COLUMN_LIST)) {
        return LK_OK;
    }
    if (of->kind == COLUMN_STRUCT) {
        lk_v20_page_struct(&self->page);
    } else {
        lk_v20_page_list(&of->ends, 0, &self->page);
    }
    return put_page(self, of, 0, err);
}

lk_rc lk_v20_writer_flush(lk_v20_writer *self, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t index = 0; rc == LK_OK && index < self->column_count; index++) {
        rc = flush(self, index, err);
    }
    for (size_t index = 0; rc == LK_OK && index < self->column_count; index++) {
        rc = put_empty_page(self, &self->columns[index], err);
    }
    return rc;
}

/* -- rows: `count` from absolute row `start` of array ------------------------------------------------------ */
typedef struct slice {
    const struct ArrowArray *array;
    int64_t                  start, count;
} slice;

static const uint8_t *validity_of(const struct ArrowArray *array)
{
    return array->n_buffers > 0 && array->null_count != 0 ? array->buffers[0] : NULL;
}

static lk_rc append(lk_v20_writer *self, size_t index, slice rows, lk_err *err);

static lk_rc append_struct(lk_v20_writer *self, size_t index, slice rows, lk_err *err)
{
    column        *of = &self->columns[index];
    const uint8_t *bits = validity_of(rows.array);
    int64_t        nulls = bits == NULL ? 0 : rows.count - lk_bits_count(bits, rows.start, rows.count);
    if (nulls > 0) {
        const char *name = of->field->arrow->name;
        lk_rc       rc = lk_fail(err, LK_E_SCHEMA_MISMATCH, "null structs in a 2.0 file");
        lk_detail(err, "column %s: %lld null structs, which data files of version 2.0 do not store",
            name == NULL ? "" : name, (long long)nulls);
        return rc;
    }
    of->rows += (uint64_t)rows.count;
    lk_rc  rc = LK_OK;
    size_t below = index + 1;
    for (int64_t child = 0; rc == LK_OK && child < rows.array->n_children; child++) {
        const struct ArrowArray *inner = rows.array->children[child];
        rc = append(self, below, (slice){inner, rows.start + inner->offset, rows.count}, err);
        below = self->columns[below].end;
    }
    return rc;
}

static int64_t offset_at(const struct ArrowArray *array, bool large, int64_t row)
{
    return large ? ((const int64_t *)array->buffers[1])[row] : ((const int32_t *)array->buffers[1])[row];
}

/* Notes the ends of rows, null ones empty, and appends the items of each run of others. */
static lk_rc append_lists(lk_v20_writer *self, size_t index, slice rows, lk_err *err)
{
    column                  *of = &self->columns[index];
    bool                     large = is_large(of->field->arrow);
    const uint8_t           *bits = validity_of(rows.array);
    const struct ArrowArray *items = rows.array->children[0];
    lk_rc                    rc = LK_OK;
    for (int64_t row = rows.start, end = rows.start + rows.count; rc == LK_OK && row < end;) {
        bool    valid = lk_bit_or_one(bits, row);
        int64_t first = offset_at(rows.array, large, row), stop = row;
        while (stop < end && lk_bit_or_one(bits, stop) == valid) {
            uint64_t behind = (uint64_t)(offset_at(rows.array, large, stop + 1) - first);
            uint64_t word = valid ? of->items + behind : of->items | LK_V20_NULL_LIST;
            lk_buf_append(&of->ends, &word, sizeof word);
            stop++;
        }
        int64_t count = valid ? offset_at(rows.array, large, stop) - first : 0;
        of->items += (uint64_t)count;
        of->rows += (uint64_t)(stop - row);
        row = stop;
        if (count > 0) {
            rc = append(self, index + 1, (slice){items, first + items->offset, count}, err);
        }
    }
    return rc;
}

/* Pages of lists end where their ends fill them. */
static lk_rc append_list(lk_v20_writer *self, size_t index, slice rows, lk_err *err)
{
    column *of = &self->columns[index];
    lk_rc   rc = LK_OK;
    while (rc == LK_OK && rows.count > 0) {
        int64_t room = (int64_t)(self->page_bytes / sizeof(uint64_t)) - (int64_t)of->rows;
        slice   some = {rows.array, rows.start, rows.count < room ? rows.count : room};
        rc = append_lists(self, index, some, err);
        if (rc == LK_OK && some.count == room) {
            rc = flush_list(self, index, err);
        }
        rows.start += some.count;
        rows.count -= some.count;
    }
    return rc;
}

static void add_stats(lk_v20_writer *self, size_t index, slice rows)
{
    const struct ArrowArray *array = rows.array;
    const void              *bytes = array->n_buffers > 2 ? array->buffers[2] : NULL;
    lk_stats_writer_add(self->stats, index, validity_of(array), array->buffers[1], bytes,
        (uint64_t)rows.start, (uint64_t)rows.count);
}

static lk_rc append_leaf(lk_v20_writer *self, size_t index, slice rows, lk_err *err)
{
    column *of = &self->columns[index];
    lk_rc   rc = LK_OK;
    if (of->has_stats) {
        add_stats(self, index, rows);
    }
    while (rc == LK_OK && rows.count > 0) {
        int64_t some = lk_leaf_room(&of->leaf, rows.array, rows.start, rows.count, self->page_bytes);
        rc = lk_leaf_append(&of->leaf, rows.array, rows.start, some, NULL, err);
        rows.start += some;
        rows.count -= some;
        if (rc == LK_OK && (rows.count > 0 || lk_leaf_bytes(&of->leaf) >= self->page_bytes)) {
            rc = flush(self, index, err);
        }
    }
    return rc;
}

static lk_rc append_wide(lk_v20_writer *self, size_t index, slice rows, lk_err *err)
{
    lk_v20_wide *wide = &self->columns[index].wide;
    lk_rc        rc = LK_OK;
    while (rc == LK_OK && rows.count > 0) {
        int64_t some = lk_v20_wide_room(wide, rows.count, self->page_bytes), done = 0;
        rc = lk_v20_wide_append(wide, rows.array, rows.start, some, &self->sink, &done, err);
        rows.start += done;
        rows.count -= done;
        if (rc == LK_OK && rows.count > 0) {
            rc = flush(self, index, err);
        }
    }
    return rc;
}

static lk_rc append(lk_v20_writer *self, size_t index, slice rows, lk_err *err)
{
    switch (self->columns[index].kind) {
    case COLUMN_STRUCT:
        return append_struct(self, index, rows, err);
    case COLUMN_LIST:
        return append_list(self, index, rows, err);
    case COLUMN_WIDE:
        return append_wide(self, index, rows, err);
    case COLUMN_LEAF:
    default:
        return append_leaf(self, index, rows, err);
    }
}

lk_rc lk_v20_writer_write(lk_v20_writer *self, const struct ArrowArray *batch, lk_err *err)
{
    lk_rc  rc = LK_OK;
    size_t below = 0;
    for (int64_t child = 0; rc == LK_OK && child < self->schema->arrow.n_children; child++) {
        const struct ArrowArray *array = batch->children[child];
        rc = append(self, below, (slice){array, batch->offset + array->offset, batch->length}, err);
        below = self->columns[below].end;
    }
    return rc;
}

/* -- what came of it --------------------------------------------------------------------------------- */
size_t lk_v20_writer_column_count(const lk_v20_writer *self)
{
    return self->column_count;
}

lk_v20_pages lk_v20_writer_pages(const lk_v20_writer *self, size_t index)
{
    const column *of = &self->columns[index];
    return (lk_v20_pages){.field_id = of->field->id,
        .is_blob = of->kind == COLUMN_WIDE && of->wide.kind == LK_V20_WIDE_BLOB,
        .pages = of->pages,
        .page_count = of->page_count};
}

size_t lk_v20_writer_capacity(const lk_v20_writer *self)
{
    size_t held = 0;
    for (size_t index = 0; index < self->column_count; index++) {
        const column *of = &self->columns[index];
        held += lk_leaf_capacity(&of->leaf) + lk_v20_wide_capacity(&of->wide) + of->ends.capacity;
    }
    for (size_t buffer = 0; buffer < LK_V20_BUFFERS_MAX; buffer++) {
        held += self->page.owned[buffer].capacity;
    }
    return held;
}

lk_stats_writer *lk_v20_writer_stats(const lk_v20_writer *self)
{
    return self->stats;
}
