/*
 * file_write.c - see file_write.h: leaves in, pages out, tables and footer at the end.
 */
#include "lance/file_write.h"

#include "arrow/bits.h"
#include "lance/nested.h"
#include "lance/pb_file.h"
#include "lance/stats.h"
#include "lance/v20_write.h"
#include "lance/wire.h"
#include "lance/write_crew.h"
#include "lance/write_lists.h"
#include "lance/write_shape.h"

#include <stdlib.h>

enum {
    PAGE_BYTES = 8 * 1024 * 1024,       /* of a column, as the reference does */
    PAGE_BYTES_MIN = 256 * 1024,        /* where many columns wait at once */
    BUFFERED_BYTES = 256 * 1024 * 1024, /* of all columns together */
    HIDDEN_MAX = 8192,  /* null and empty lists of a page: one chunk may have to hold them all */
    CROWD_MAX = 2048,   /* of one row, where its page cannot be zipped, */
    CROWDED_MAX = 4096, /* and of such a page */
    ALIGNMENT = 64,
    ALIGNMENT_COMPACT = 8,
    FILE_MAJOR = 2
};

typedef struct column {
    const lk_lance_field *field;
    lk_write_shape        shape;
    lk_leaf               leaf; /* of what the shape stores */
    lk_page_meta         *pages;
    size_t                page_count, page_room;
    uint64_t              rows; /* in finished pages */
} column;

struct lk_file_writer {
    lk_store_writer       *object;
    const lk_lance_schema *schema;
    lk_budget             *budget;
    uint32_t               minor;           /* the file is 2.<minor> */
    lk_v20_writer         *v20;             /* of a 2.0 file: has its columns, and their statistics */
    lk_arena               arena;           /* page metadata */
    lk_page_crew          *crew, *own_crew; /* pages under way */
    lk_page_out            shape_page;      /* of a column that is not stored as it is */
    lk_stats_writer       *stats;
    lk_blob_writer         blobs;
    size_t                 page_bytes, charged, alignment;
    bool                   compact, kept;
    uint64_t               rows, position;
    lk_buf                 descriptor; /* of the schema, in its first bytes, and of the rows */
    size_t                 descriptor_schema_bytes;
    size_t                 column_count;
    column                *columns;
};

static lk_rc refuse(const struct ArrowSchema *field, const char *what, lk_rc code, lk_err *err)
{
    const char *name = field->name == NULL ? "" : field->name;
    lk_rc       rc = lk_fail(err, code, "column %s: %s", name, what);
    lk_detail(err, "column %s: %s", name, what);
    return rc;
}

/* -- open ------------------------------------------------------------------------------------------ */
static lk_rc put_buffer(void *self, lk_bytes bytes, uint64_t *offset, lk_err *err);

/* path: which of the nodes from the top down are lists. */
static lk_rc open_column(
    column *made, const struct ArrowSchema *root, const bool *path, uint32_t file_minor, lk_err *err)
{
    static const struct ArrowSchema nothing = {.format = "n", .flags = ARROW_FLAG_NULLABLE};
    size_t                          depth = made->field->depth;
    unsigned                        lists = 0;
    if (lk_is_empty_struct(made->field->arrow)) {
        made->shape = (lk_write_shape){.field = &nothing};
        return lk_leaf_init(&made->leaf, &nothing, 1, err);
    }
    for (size_t node = 0; node < depth; node++) {
        lists += path[node];
    }
    lk_rc rc = lk_write_shape_open(&made->shape, made->field->arrow, file_minor, lists > 0, err);
    if (rc == LK_OK) {
        rc = lk_leaf_init(&made->leaf, lk_write_shape_stored(&made->shape), depth + 1, err);
    }
    if (rc == LK_OK) {
        rc = lk_field_options_read(made->field->arrow, root, &made->leaf.options, err);
        lk_write_shape_options(&made->shape, &made->leaf.options);
    }
    for (size_t layer = 1; rc == LK_OK && layer <= depth; layer++) {
        made->leaf.is_list[layer] = path[depth - layer];
    }
    made->leaf.lists = lists;
    return rc;
}

static lk_rc open_columns(lk_file_writer *self, lk_err *err)
{
    const lk_page_sink sink = {put_buffer, self};
    if (self->minor == 0) {
        return lk_v20_writer_open(self->schema, &sink, &self->v20, err);
    }
    const lk_lance_schema    *schema = self->schema;
    bool                      path[LK_LAYERS_MAX] = {false};
    const struct ArrowSchema *root = NULL;
    self->columns = calloc(schema->field_count + 1, sizeof *self->columns);
    LK_ASSERT(self->columns != NULL);
    for (size_t index = 0; index < schema->field_count; index++) {
        const lk_lance_field *field = &schema->fields[index];
        root = field->depth == 0 ? field->arrow : root;
        path[field->depth] = lk_is_list(field->arrow);
        if (!lk_is_column(field->arrow) && field->arrow->n_children > 0) {
            continue;
        }
        column *made = &self->columns[self->column_count++];
        made->field = field;
        lk_rc rc = open_column(made, root, path, self->minor, err);
        if (rc != LK_OK) {
            return rc;
        }
        index = field->end - 1; /* members of a struct in one column have none */
    }
    return LK_OK;
}

/* Top-level leaves have statistics: predicates name no others. */
static void open_stats(lk_file_writer *self)
{
    self->stats = lk_stats_writer_new(self->column_count);
    for (size_t index = 0; index < self->column_count; index++) {
        const column *made = &self->columns[index];
        if (made->field->depth == 0 && made->leaf.level_count == 0 && made->shape.kind == LK_SHAPE_PLAIN &&
            !lk_is_empty_struct(made->field->arrow)) {
            lk_stats_writer_column(self->stats, index, &made->leaf.type);
        }
    }
}

/* Everything that belongs to one file, which has the key. */
static lk_rc begin(lk_file_writer *self, lk_store *store, lk_bytes key, lk_err *err)
{
    self->alignment = ALIGNMENT;
    self->blobs = (lk_blob_writer){
        .store = store, .key = lk_arena_copy(&self->arena, key), .put = put_buffer, .file = self};
    return lk_store_create(store, key, &self->object, err);
}

lk_rc lk_file_writer_open(lk_store *store, lk_bytes key, const lk_lance_schema *schema, uint32_t file_minor,
    lk_budget *budget, lk_file_writer **out, lk_err *err)
{
    lk_file_writer *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->schema = schema;
    self->budget = budget;
    self->minor = file_minor;
    self->crew = self->own_crew = lk_page_crew_new(NULL);
    lk_rc rc = lk_file_writer_check_minor(file_minor, err);
    rc = rc == LK_OK ? lk_file_writer_supports_all(&schema->arrow, file_minor, err) : rc;
    if (rc == LK_OK) {
        rc = open_columns(self, err);
    }
    if (rc == LK_OK) {
        size_t share = self->column_count == 0 ? PAGE_BYTES : BUFFERED_BYTES / self->column_count;
        self->page_bytes = share > PAGE_BYTES ? PAGE_BYTES : share < PAGE_BYTES_MIN ? PAGE_BYTES_MIN : share;
        open_stats(self);
        rc = begin(self, store, key, err);
    }
    if (rc != LK_OK) {
        lk_file_writer_abandon(self);
        return rc;
    }
    *out = self;
    return LK_OK;
}

void lk_file_writer_use_crew(lk_file_writer *self, lk_page_crew *crew)
{
    LK_ASSERT(self->rows == 0 && self->crew == self->own_crew);
    self->crew = crew;
}

void lk_file_writer_compact(lk_file_writer *self)
{
    LK_ASSERT(self->rows == 0);
    self->compact = true;
    self->alignment = self->minor == 0 ? ALIGNMENT_COMPACT : ALIGNMENT;
}

static void give_back(lk_file_writer *self)
{
    if (self->budget != NULL && self->charged > 0) {
        lk_budget_give(self->budget, self->charged);
    }
    self->charged = 0;
}

void lk_file_writer_close(lk_file_writer *self)
{
    if (self == NULL) {
        return;
    }
    for (size_t index = 0; index < self->column_count; index++) {
        lk_leaf_deinit(&self->columns[index].leaf);
        lk_write_shape_close(&self->columns[index].shape);
        free(self->columns[index].pages);
    }
    lk_v20_writer_close(self->v20);
    give_back(self);
    lk_stats_writer_free(self->stats);
    lk_page_crew_clear(self->crew);
    lk_page_crew_close(self->own_crew);
    lk_page_out_deinit(&self->shape_page);
    lk_buf_deinit(&self->descriptor);
    lk_arena_close(&self->arena);
    free(self->columns);
    free(self);
}

void lk_file_writer_abandon(lk_file_writer *self)
{
    if (self != NULL) {
        lk_store_abandon(self->object);
        lk_blob_writer_abandon(&self->blobs);
        lk_file_writer_close(self);
    }
}

/* -- again ----------------------------------------------------------------------------------------- */
void lk_file_writer_keep(lk_file_writer *self)
{
    self->kept = true;
}

/* After a file: no rows; memory stays, uncharged as long as there are none. */
static void rest(lk_file_writer *self)
{
    for (size_t index = 0; index < self->column_count; index++) {
        column *of = &self->columns[index];
        lk_leaf_clear(&of->leaf);
        lk_write_shape_reset(&of->shape);
        of->page_count = 0;
        of->rows = 0;
    }
    if (self->v20 != NULL) {
        lk_v20_writer_reset(self->v20);
    }
    if (!self->compact) { /* else nothing was added to them */
        lk_stats_writer_free(self->stats);
        open_stats(self);
    }
    lk_page_crew_clear(self->crew);
    self->crew = self->own_crew;
    give_back(self);
    lk_arena_close(&self->arena);
    self->compact = self->kept = false;
    self->rows = self->position = 0;
}

lk_rc lk_file_writer_again(lk_file_writer *self, lk_store *store, lk_bytes key, lk_err *err)
{
    LK_ASSERT(self->object == NULL && self->rows == 0);
    return begin(self, store, key, err);
}

uint64_t lk_file_writer_rows(const lk_file_writer *self)
{
    return self->rows;
}

/* -- bytes ----------------------------------------------------------------------------------------- */
static lk_rc put(lk_file_writer *self, const void *data, size_t size, lk_err *err)
{
    lk_rc rc = size == 0 ? LK_OK : lk_store_write(self->object, data, size, err);
    self->position += size;
    return rc;
}

/* Starts the next buffer at a multiple of the alignment. */
static lk_rc put_aligned(lk_file_writer *self, lk_bytes bytes, uint64_t *offset, lk_err *err)
{
    static const char zeros[ALIGNMENT];
    lk_rc rc = put(self, zeros, (self->alignment - self->position % self->alignment) % self->alignment, err);
    *offset = self->position;
    return rc == LK_OK ? put(self, bytes.data, bytes.size, err) : rc;
}

static lk_rc put_buffer(void *self, lk_bytes bytes, uint64_t *offset, lk_err *err)
{
    return put_aligned(self, bytes, offset, err);
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

static lk_rc put_page(lk_file_writer *self, column *of, const lk_page_out *page, uint64_t rows, lk_err *err)
{
    lk_buf          any = {0};
    lk_rc           rc = LK_OK;
    lk_page_buffer *buffers = lk_arena_take(&self->arena, sizeof *buffers * (page->buffer_count + 1));
    for (size_t index = 0; rc == LK_OK && index < page->buffer_count; index++) {
        lk_bytes bytes = lk_page_out_buffer(page, index);
        buffers[index].size = bytes.size;
        rc = put_aligned(self, bytes, &buffers[index].offset, err);
    }
    lk_pb_put_layout(&page->layout, &any);
    *add_page(of) = (lk_page_meta){.rows = rows,
        .first_row = of->rows,
        .buffers = buffers,
        .buffer_count = page->buffer_count,
        .encoding = lk_arena_copy(&self->arena, lk_buf_view(&any))};
    lk_buf_deinit(&any);
    of->rows += rows;
    return rc;
}

/* Writes pages under way: until another has room, or all. */
static lk_rc write_pages(lk_file_writer *self, bool all, lk_err *err)
{
    lk_rc rc = LK_OK;
    while (rc == LK_OK && (all || lk_page_crew_full(self->crew))) {
        lk_page_job *job = lk_page_crew_finish(self->crew);
        if (job == NULL) {
            break;
        }
        column *of = &self->columns[job->column];
        rc = put_page(self, of, &job->page, lk_leaf_rows(&job->leaf), err);
        lk_page_crew_release(self->crew, job, &of->leaf);
    }
    return rc;
}

/* The rows that wait become a page, which is encoded while more are gathered. */
static lk_rc flush(lk_file_writer *self, column *of, lk_err *err)
{
    uint64_t rows = lk_leaf_rows(&of->leaf);
    if (rows == 0) {
        return LK_OK;
    }
    if (of->shape.kind != LK_SHAPE_PLAIN) { /* what the shape holds belongs to it: at once */
        lk_write_shape_page(&of->shape, &of->leaf, self->minor, &self->shape_page);
        lk_leaf_clear(&of->leaf);
        return put_page(self, of, &self->shape_page, rows, err);
    }
    lk_rc rc = write_pages(self, false, err);
    if (rc == LK_OK) {
        lk_page_crew_start(self->crew, &of->leaf, self->minor, (size_t)(of - self->columns));
    }
    return rc;
}

size_t lk_file_writer_capacity(const lk_file_writer *self)
{
    size_t held = self->v20 == NULL ? 0 : lk_v20_writer_capacity(self->v20);
    for (size_t index = 0; index < self->column_count; index++) {
        held += lk_leaf_capacity(&self->columns[index].leaf);
        held += lk_write_shape_capacity(&self->columns[index].shape);
    }
    return held + lk_page_crew_capacity(self->crew) + lk_page_out_capacity(&self->shape_page);
}

/* What the buffers hold now is what is charged. */
static lk_rc recharge(lk_file_writer *self, lk_err *err)
{
    if (self->budget == NULL) {
        return LK_OK;
    }
    size_t held = lk_file_writer_capacity(self);
    lk_rc  rc = held > self->charged ? lk_budget_take(self->budget, held - self->charged, err) : LK_OK;
    if (rc == LK_OK && held < self->charged) {
        lk_budget_give(self->budget, self->charged - held);
    }
    self->charged = rc == LK_OK ? held : self->charged;
    return rc;
}

/* -- rows ------------------------------------------------------------------------------------------ */
typedef struct walk {
    lk_file_writer *writer;
    size_t          next;                   /* column */
    int64_t         count;                  /* rows */
    int64_t         first;                  /* of the top-level column at hand, absolute */
    unsigned        lists;                  /* around it */
    lk_leaf_parent  parents[LK_LAYERS_MAX]; /* outer to inner */
    lk_list_node    nodes[LK_LAYERS_MAX];   /* the same, for leaves in lists */
    size_t          depth;
} walk;

/* The rows as they are stored; what waits becomes a page where a dictionary would grow too large. */
static lk_rc store_rows(
    lk_file_writer *writer, column *of, const lk_shape_rows *rows, struct ArrowArray *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    if (lk_write_shape_full(&of->shape, rows)) {
        rc = flush(writer, of, err);
        lk_write_shape_reset(&of->shape);
    }
    return rc == LK_OK ? lk_write_shape_convert(&of->shape, rows, &writer->blobs, out, err) : rc;
}

static lk_rc append_leaf(walk *self, const struct ArrowArray *array, int64_t start, lk_err *err)
{
    lk_file_writer *writer = self->writer;
    column         *of = &writer->columns[self->next];
    size_t          index = self->next++;
    lk_leaf_parent  parents[LK_LAYERS_MAX];
    for (size_t parent = 0; parent < self->depth; parent++) {
        parents[parent] = self->parents[self->depth - 1 - parent];
    }
    if (!writer->compact && of->field->depth == 0 && of->leaf.type.layout != LK_LAYOUT_NULL &&
        of->leaf.level_count == 0 && of->shape.kind == LK_SHAPE_PLAIN) {
        const uint8_t *validity = array->null_count == 0 ? NULL : array->buffers[0];
        const void    *bytes = array->n_buffers > 2 ? array->buffers[2] : NULL;
        lk_stats_writer_add(
            writer->stats, index, validity, array->buffers[1], bytes, (uint64_t)start, (uint64_t)self->count);
    }
    struct ArrowArray stored;
    lk_rc             rc = LK_OK;
    if (of->shape.kind != LK_SHAPE_PLAIN) {
        lk_shape_rows rows = {array, start, self->count, parents, self->depth};
        rc = store_rows(writer, of, &rows, &stored, err);
        array = &stored;
        start = 0;
    }
    for (int64_t done = 0; rc == LK_OK && done < self->count;) {
        int64_t some = lk_leaf_room(&of->leaf, array, start + done, self->count - done, writer->page_bytes);
        rc = lk_leaf_append(&of->leaf, array, start + done, some, parents, err);
        done += some;
        for (size_t parent = 0; parent < self->depth; parent++) {
            parents[parent].start += some;
        }
        if (rc == LK_OK && lk_leaf_bytes(&of->leaf) >= writer->page_bytes) {
            rc = flush(writer, of, err);
        } else if (rc == LK_OK && done < self->count) { /* the next row would be too much */
            rc = flush(writer, of, err);
        }
    }
    return rc;
}

/* The rows of the leaf's array that the rows at hand reach, through the lists above it. */
static void reach(const walk *self, const struct ArrowArray *array, lk_shape_rows *out)
{
    int64_t start = self->first, end = self->first + self->count;
    for (size_t node = 0; node < self->depth; node++) {
        const lk_list_node      *at = &self->nodes[node];
        const struct ArrowArray *below = node + 1 < self->depth ? self->nodes[node + 1].array : array;
        if (at->offset_bytes > 0) {
            start = lk_list_offset(at, start);
            end = lk_list_offset(at, end);
        }
        start += below->offset;
        end += below->offset;
    }
    *out = (lk_shape_rows){.array = array, .start = start, .count = end - start};
}

/* Room for the entries of lists that hold values, a page's at most: they come list by list, and memory would grow with them. */
static void reserve_items(const walk *self, lk_leaf *leaf)
{
    const lk_list_node *lists = &self->nodes[0];
    if (self->depth != 1 || lists->offset_bytes == 0 || self->count == 0) {
        return;
    }
    uint64_t items =
        (uint64_t)(lk_list_offset(lists, self->first + self->count) - lk_list_offset(lists, self->first));
    uint64_t most = self->writer->page_bytes / 2;
    items = items < most ? items : most;
    uint64_t values = items * leaf->row_bits / 8;
    lk_buf_reserve(&leaf->values, values < most * 2 ? values : most * 2);
    lk_buf_reserve(&leaf->reps, (items + (uint64_t)self->count) * 2);
    lk_buf_reserve(&leaf->defs, (items + (uint64_t)self->count) * 2);
}

/* A leaf in lists: row by row, a page ends between two. */
static lk_rc append_lists(walk *self, const struct ArrowArray *array, lk_err *err)
{
    column           *of = &self->writer->columns[self->next++];
    lk_rc             rc = LK_OK;
    struct ArrowArray stored;
    if (of->shape.kind != LK_SHAPE_PLAIN && self->count > 0) {
        lk_shape_rows rows;
        reach(self, array, &rows);
        rc = store_rows(self->writer, of, &rows, &stored, err);
        stored.offset = array->offset - rows.start; /* its first row is the one at rows.start of the array */
        array = &stored;
    }
    self->nodes[self->depth] = (lk_list_node){array, 0};
    bool     odd = of->leaf.level_count > 0 && of->leaf.row_bits % 8 != 0; /* pylance zips whole bytes only */
    uint64_t most = odd ? CROWDED_MAX : HIDDEN_MAX;
    reserve_items(self, &of->leaf);
    for (int64_t row = 0; rc == LK_OK && row < self->count; row++) {
        uint64_t before = of->leaf.hidden;
        rc = lk_leaf_append_row(&of->leaf, self->nodes, self->first + row, err);
        bool full = lk_leaf_bytes(&of->leaf) >= self->writer->page_bytes || of->leaf.hidden >= most;
        if (rc == LK_OK && odd && of->leaf.hidden - before > CROWD_MAX) {
            rc = refuse(of->field->arrow,
                "a row has more than 2048 null or empty lists around fixed-size lists of booleans",
                LK_E_LIMIT, err);
        }
        if (rc == LK_OK && full) {
            rc = flush(self->writer, of, err);
        }
    }
    return rc;
}

static bool has_null(const struct ArrowArray *array, int64_t start, int64_t count)
{
    const uint8_t *bits = array->n_buffers > 0 && array->null_count != 0 ? array->buffers[0] : NULL;
    return bits != NULL && lk_bits_count(bits, start, count) != count;
}

/* A struct without members: files have no place for its nulls, nor for those around it. */
static lk_rc append_empty(
    walk *self, const struct ArrowSchema *field, const struct ArrowArray *array, int64_t start, lk_err *err)
{
    column *of = &self->writer->columns[self->next++];
    bool    null = has_null(array, start, self->count);
    for (size_t parent = 0; parent < self->depth; parent++) {
        null = null || lk_leaf_parent_has_null(&self->parents[parent], self->count);
    }
    return null ? refuse(field, "an empty struct is null, or in a null struct, which no file can say",
                      LK_E_SCHEMA_MISMATCH, err)
                : lk_leaf_append(&of->leaf, array, start, self->count, NULL, err);
}

static lk_rc append_field(
    walk *self, const struct ArrowSchema *field, const struct ArrowArray *array, int64_t start, lk_err *err);

/* A fixed-size list of structs: from here on down, rows are its items. */
static lk_rc append_vector(
    walk *self, const struct ArrowSchema *field, const struct ArrowArray *array, int64_t start, lk_err *err)
{
    const struct ArrowArray *items = array->children[0];
    walk                     inside = *self;
    uint64_t                 size = 0;
    lk_rc rc = lk_vector_size(field, (uint64_t)(array->offset + array->length), &size, err);
    if (rc != LK_OK) {
        return rc;
    }
    inside.count *= (int64_t)size;
    inside.parents[inside.depth++] = (lk_leaf_parent){array, start, 1};
    for (size_t parent = 0; parent < inside.depth; parent++) {
        inside.parents[parent].start *= (int64_t)size;
        inside.parents[parent].items *= (int64_t)size;
    }
    start *= (int64_t)size;
    if (start + inside.count > items->length) {
        return lk_fail(err, LK_E_INVALID_IPC, "a fixed-size list has fewer items than rows");
    }
    rc = append_field(&inside, field->children[0], items, start + items->offset, err);
    self->next = inside.next;
    return rc;
}

/* start: absolute in array. */
static lk_rc append_field(
    walk *self, const struct ArrowSchema *field, const struct ArrowArray *array, int64_t start, lk_err *err)
{
    bool list = lk_is_list(field);
    if (lk_is_empty_struct(field)) {
        return append_empty(self, field, array, start, err);
    }
    if (lk_is_vector(field)) {
        return append_vector(self, field, array, start, err);
    }
    if (lk_is_column(field)) {
        return self->lists > 0 ? append_lists(self, array, err) : append_leaf(self, array, start, err);
    }
    lk_rc rc = LK_OK;
    self->lists += list;
    self->nodes[self->depth] = (lk_list_node){array, !list ? 0 : field->format[1] == 'L' ? 8 : 4};
    self->parents[self->depth++] = (lk_leaf_parent){array, start, 1};
    for (int64_t child = 0; rc == LK_OK && child < field->n_children; child++) {
        const struct ArrowArray *inner = array->children[child];
        rc = append_field(self, field->children[child], inner, start + inner->offset, err);
    }
    self->depth--;
    self->lists -= list;
    return rc;
}

static lk_rc append_batch(lk_file_writer *self, const struct ArrowArray *batch, lk_err *err)
{
    walk state = {.writer = self, .count = batch->length};
    for (int64_t child = 0; child < self->schema->arrow.n_children; child++) {
        const struct ArrowArray *array = batch->children[child];
        int64_t                  start = batch->offset + array->offset;
        state.first = start;
        lk_rc rc = append_field(&state, self->schema->arrow.children[child], array, start, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

lk_rc lk_file_writer_write(lk_file_writer *self, const struct ArrowArray *batch, lk_err *err)
{
    lk_rc rc =
        self->v20 != NULL ? lk_v20_writer_write(self->v20, batch, err) : append_batch(self, batch, err);
    if (rc != LK_OK) {
        return rc;
    }
    self->rows += (uint64_t)batch->length;
    return recharge(self, err);
}

/* -- the end --------------------------------------------------------------------------------------- */
typedef struct tail {
    lk_buf   table; /* (position, size) pairs */
    lk_buf   bytes;
    uint64_t start;
} tail;

static void add_entry(lk_buf *table, uint64_t offset, uint64_t size)
{
    char entry[16];
    lk_store_u64(entry, offset);
    lk_store_u64(entry + 8, size);
    lk_buf_append(table, entry, sizeof entry);
}

/* The file descriptor: message FileDescriptor of the Lance file format, of which only the length differs by file. */
static void describe_schema(lk_file_writer *self)
{
    enum { FIELD_LENGTH = 2 };
    if (self->descriptor.size == 0) {
        lk_lance_schema_descriptor(self->schema, 0, &self->descriptor);
        self->descriptor_schema_bytes = self->descriptor.size;
    }
    self->descriptor.size = self->descriptor_schema_bytes;
    if (self->rows > 0) {
        lk_wire_put_u64(&self->descriptor, FIELD_LENGTH, self->rows);
    }
}

static lk_rc put_globals(lk_file_writer *self, lk_buf *table, lk_err *err)
{
    lk_buf   stats = {0};
    uint64_t offset = 0;
    describe_schema(self);
    lk_stats_writer *written = self->v20 != NULL ? lk_v20_writer_stats(self->v20) : self->stats;
    lk_rc            rc = put_aligned(self, lk_buf_view(&self->descriptor), &offset, err);
    add_entry(table, offset, self->descriptor.size);
    if (rc == LK_OK && !self->compact) {
        lk_stats_writer_encode(written, self->rows, &stats);
        rc = put_aligned(self, lk_buf_view(&stats), &offset, err);
        add_entry(table, offset, stats.size);
    }
    lk_buf_deinit(&stats);
    return rc;
}

static size_t column_count(const lk_file_writer *self)
{
    return self->v20 != NULL ? lk_v20_writer_column_count(self->v20) : self->column_count;
}

/* The pages of a column. */
static lk_v20_pages pages_of(const lk_file_writer *self, size_t index)
{
    if (self->v20 != NULL) {
        return lk_v20_writer_pages(self->v20, index);
    }
    const column *of = &self->columns[index];
    return (lk_v20_pages){.field_id = of->field->id, .pages = of->pages, .page_count = of->page_count};
}

static lk_rc put_columns(lk_file_writer *self, lk_buf *table, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t index = 0; rc == LK_OK && index < column_count(self); index++) {
        lk_buf       message = {0};
        lk_v20_pages pages = pages_of(self, index);
        lk_pb_put_column(pages.pages, pages.page_count, pages.is_blob, &message);
        add_entry(table, self->position, message.size);
        rc = put(self, message.data, message.size, err);
        lk_buf_deinit(&message);
    }
    return rc;
}

static lk_rc put_tail(lk_file_writer *self, lk_err *err)
{
    lk_buf globals = {0}, columns = {0};
    char   footer[40] = {0};
    lk_rc  rc = put_globals(self, &globals, err);
    lk_store_u64(footer, self->position);
    if (rc == LK_OK) {
        rc = put_columns(self, &columns, err);
    }
    lk_store_u64(footer + 8, self->position);
    lk_store_u64(footer + 16, self->position + columns.size);
    lk_store_u32(footer + 24, (uint32_t)(globals.size / 16));
    lk_store_u32(footer + 28, (uint32_t)column_count(self));
    lk_store_u16(footer + 32, self->minor == 0 ? 0 : FILE_MAJOR); /* 2.0 has always called itself 0.3 */
    lk_store_u16(footer + 34, self->minor == 0 ? 3 : (uint16_t)self->minor);
    memcpy(footer + 36, "LANC", 4);
    if (rc == LK_OK) {
        rc = put(self, columns.data, columns.size, err);
    }
    if (rc == LK_OK) {
        rc = put(self, globals.data, globals.size, err);
    }
    if (rc == LK_OK) {
        rc = put(self, footer, sizeof footer, err);
    }
    lk_buf_deinit(&globals);
    lk_buf_deinit(&columns);
    return rc;
}

static void describe(const lk_file_writer *self, lk_arena *arena, lk_file_written *out)
{
    size_t          count = column_count(self);
    lk_file_column *columns = lk_arena_take(arena, sizeof *columns * (count + 1));
    for (size_t index = 0; index < count; index++) {
        columns[index] = (lk_file_column){pages_of(self, index).field_id, (int32_t)index};
    }
    *out = (lk_file_written){.rows = self->rows,
        .size_bytes = self->position,
        .blob_count = self->blobs.last_id,
        .columns = columns,
        .column_count = count};
}

lk_rc lk_file_writer_finish(lk_file_writer *self, lk_arena *arena, lk_file_written *out, lk_err *err)
{
    lk_rc rc = self->v20 != NULL ? lk_v20_writer_flush(self->v20, err) : LK_OK;
    /* First those that other threads can begin with. */
    for (size_t index = 0; rc == LK_OK && index < self->column_count; index++) {
        if (lk_page_crew_shares(self->crew, &self->columns[index].leaf)) {
            rc = flush(self, &self->columns[index], err);
        }
    }
    for (size_t index = 0; rc == LK_OK && index < self->column_count; index++) {
        rc = flush(self, &self->columns[index], err);
    }
    if (rc == LK_OK) {
        rc = write_pages(self, true, err);
    }
    if (rc == LK_OK) {
        rc = lk_blob_writer_finish(&self->blobs, err);
    }
    if (rc == LK_OK) {
        rc = put_tail(self, err);
    }
    if (rc == LK_OK) {
        lk_store_writer *object = self->object;
        self->object = NULL;
        rc = lk_store_finish(object, err);
    }
    if (rc != LK_OK) {
        lk_file_writer_abandon(self);
        return rc;
    }
    describe(self, arena, out);
    if (self->kept) {
        rest(self);
    } else {
        lk_file_writer_close(self);
    }
    return LK_OK;
}
