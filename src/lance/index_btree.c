/*
 * index_btree.c - BTREE: all values of a column in order, with the rows' ids beside them, in pages; and, in a file of
 * its own, each page's least and greatest value.
 *
 *   page_lookup.lance   min, max, null_count u32, page_idx u32: one row a page; batch_size in its metadata
 *   page_data.lance     values, ids u64: page i has the rows [i * batch_size, (i + 1) * batch_size)
 *
 * The lookup and the pages that point queries touch are kept (index_cache.h).
 */
#include "lance/index_search.h"

#include <stdlib.h>

enum {
    LOOKUP_PART = 0, /* page i is part i + 1 */
    PAGES_FREE =
        16, /* so many pages are read whatever the table's size; more: a quarter of its rows at most */
    ROWS_AN_ENTRY = 4,
    PAGES_KEPT = 8, /* a search over more keeps none of them */
    PAGE_ROWS_MAX = 1 << 20
};

typedef struct lookup {
    lk_index_part      base;
    lk_budget         *budget;
    struct ArrowSchema field;
    struct ArrowArray  min, max;
    lk_column_stats   *pages; /* bounds borrow from min and max */
    uint64_t          *first; /* row of the page in page_data */
    size_t             page_count;
    uint64_t           batch_rows, rows;
    bool               readable;
} lookup;

typedef struct page {
    lk_index_part     base;
    struct ArrowArray values, ids;
} page;

/* -- the lookup ------------------------------------------------------------------------------------------ */
static void free_lookup(lk_index_part *part)
{
    lookup *self = (lookup *)part;
    lk_schema_release(&self->field);
    lk_array_release(&self->min);
    lk_array_release(&self->max);
    if (self->budget != NULL) {
        lk_budget_give(self->budget, self->base.bytes);
    }
    free(self->pages);
    free(self->first);
    free(self);
}

/* NaN is no bound. Where it sorts says whether a page has it. */
static bool bound(
    const struct ArrowSchema *field, const struct ArrowArray *array, int64_t row, bool *nan, lk_value *out)
{
    bool known = lk_value_read(field, array, row, out);
    if (known && out->kind == LK_VALUE_F64 && out->as.f64 != out->as.f64) {
        *nan = true;
        return false;
    }
    return known;
}

static lk_rc fill_page(lookup *self, size_t row, uint32_t nulls, uint32_t number, lk_err *err)
{
    lk_column_stats *stats = &self->pages[row];
    uint64_t         first = number * self->batch_rows;
    if (first >= self->rows) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "page %u of an index with %llu entries", number,
            (unsigned long long)self->rows);
    }
    self->first[row] = first;
    stats->row_count = self->rows - first < self->batch_rows ? self->rows - first : self->batch_rows;
    stats->null_count = nulls;
    stats->has_min = bound(&self->field, &self->min, (int64_t)row, &stats->has_nan, &stats->min);
    stats->has_max = bound(&self->field, &self->max, (int64_t)row, &stats->has_nan, &stats->max);
    return LK_OK;
}

static lk_rc fill_pages(
    lookup *self, const struct ArrowArray *nulls, const struct ArrowArray *numbers, lk_err *err)
{
    const uint32_t *null_counts = (const uint32_t *)nulls->buffers[1] + nulls->offset;
    const uint32_t *page_numbers = (const uint32_t *)numbers->buffers[1] + numbers->offset;
    lk_rc           rc = LK_OK;
    for (size_t row = 0; rc == LK_OK && row < self->page_count; row++) {
        rc = fill_page(self, row, null_counts[row], page_numbers[row], err);
    }
    return rc;
}

static lk_rc read_bounds(lookup *self, const lk_index_table *table, lk_buffer_pool *pool, lk_err *err)
{
    struct ArrowArray nulls = {0}, numbers = {0};
    size_t            min = 0, max = 0, null_count = 0, page_idx = 0;
    lk_rc             rc = lk_index_table_find(table, "min", NULL, &min, err);
    if (rc == LK_OK) {
        rc = lk_index_table_find(table, "max", lk_index_table_field(table, min)->format, &max, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_table_find(table, "null_count", "I", &null_count, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_table_find(table, "page_idx", "I", &page_idx, err);
    }
    if (rc == LK_OK) {
        rc = lk_schema_copy(lk_index_table_field(table, min), &self->field, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_table_read(table, min, 0, self->page_count, pool, &self->min, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_table_read(table, max, 0, self->page_count, pool, &self->max, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_table_read(table, null_count, 0, self->page_count, pool, &nulls, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_table_read(table, page_idx, 0, self->page_count, pool, &numbers, err);
    }
    if (rc == LK_OK) {
        rc = fill_pages(self, &nulls, &numbers, err);
    }
    lk_array_release(&nulls);
    lk_array_release(&numbers);
    return rc;
}

static lk_rc make_room(lookup *self, const lk_index_table *table, lk_err *err)
{
    self->page_count = lk_file_reader_rows(table->file);
    size_t bytes = sizeof *self + self->page_count * (sizeof *self->pages + sizeof *self->first);
    if (self->budget != NULL) {
        lk_rc rc = lk_budget_take(self->budget, bytes, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    self->base.bytes = bytes;
    self->pages = calloc(self->page_count + 1, sizeof *self->pages);
    self->first = calloc(self->page_count + 1, sizeof *self->first);
    LK_ASSERT(self->pages != NULL && self->first != NULL);
    return LK_OK;
}

/* A file per range of values is a layout that is put together by others and not read here. */
static bool is_readable(const lk_index_table *table, uint64_t *batch_rows)
{
    lk_bytes partitioned = lk_index_table_text(table, "range_partitioned");
    return !lk_bytes_equal(partitioned, LK_LITERAL("true")) &&
           lk_index_table_number(table, "batch_size", batch_rows) && *batch_rows > 0 &&
           *batch_rows <= PAGE_ROWS_MAX;
}

static lk_rc fill_lookup(lookup *self, const lk_index_search *search, const lk_index *index,
    const lk_index_table *table, lk_err *err)
{
    lk_index_table data = {0};
    lk_rc          rc = lk_index_table_open(search->dataset, index, "page_data.lance", &data, err);
    if (rc == LK_OK) {
        self->rows = lk_file_reader_rows(data.file);
        rc = make_room(self, table, err);
    }
    if (rc == LK_OK) {
        rc = read_bounds(self, table, search->pool, err);
    }
    lk_index_table_close(&data);
    return rc;
}

static lk_rc load_lookup(const lk_index_search *search, const lk_index *index, lookup **out, lk_err *err)
{
    lk_index_table table = {0};
    lookup        *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    atomic_init(&self->base.refs, 1);
    self->base.free = free_lookup;
    self->budget = search->dataset->env.budget;
    lk_rc rc = lk_index_table_open(search->dataset, index, "page_lookup.lance", &table, err);
    if (rc == LK_OK) {
        self->readable = is_readable(&table, &self->batch_rows);
        rc = self->readable ? fill_lookup(self, search, index, &table, err) : LK_OK;
    }
    lk_index_table_close(&table);
    if (rc != LK_OK) {
        lk_index_part_unref(&self->base);
        return rc;
    }
    *out = self;
    return LK_OK;
}

/* *out is a reference. */
static lk_rc get_lookup(const lk_index_search *search, const lk_index *index, lookup **out, lk_err *err)
{
    lk_index_cache *cache = lk_file_cache_indices(search->dataset->files);
    *out = (lookup *)lk_index_cache_get(cache, index->uuid, LOOKUP_PART);
    if (*out != NULL) {
        return LK_OK;
    }
    lk_rc rc = load_lookup(search, index, out, err);
    if (rc == LK_OK) {
        lk_index_cache_put(cache, index->uuid, LOOKUP_PART, &(*out)->base);
    }
    return rc;
}

/* -- pages ----------------------------------------------------------------------------------------------- */
static void free_page(lk_index_part *part)
{
    page *self = (page *)part;
    lk_array_release(&self->values);
    lk_array_release(&self->ids);
    free(self);
}

static lk_rc read_page(page *self, const lookup *from, size_t number, const lk_index_search *search,
    const lk_index *index, lk_err *err)
{
    lk_index_table data = {0};
    size_t         values = 0, ids = 0;
    uint64_t       first = from->first[number], count = from->pages[number].row_count;
    lk_rc          rc = lk_index_table_open(search->dataset, index, "page_data.lance", &data, err);
    if (rc == LK_OK) {
        rc = lk_index_table_find(&data, "values", from->field.format, &values, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_table_find(&data, "ids", "L", &ids, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_table_read(&data, values, first, count, search->pool, &self->values, err);
    }
    if (rc == LK_OK) {
        self->base.bytes = lk_array_bytes(lk_index_table_field(&data, values), &self->values) + count * 8;
        rc = lk_index_table_read(&data, ids, first, count, search->pool, &self->ids, err);
    }
    if (rc == LK_OK && self->ids.null_count != 0) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "an index entry without a row");
    }
    lk_index_table_close(&data);
    return rc;
}

static lk_rc get_page(const lookup *from, size_t number, bool keep, const lk_index_search *search,
    const lk_index *index, page **out, lk_err *err)
{
    lk_index_cache *cache = lk_file_cache_indices(search->dataset->files);
    *out = (page *)lk_index_cache_get(cache, index->uuid, 1 + from->first[number]);
    if (*out != NULL) {
        return LK_OK;
    }
    page *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    atomic_init(&self->base.refs, 1);
    self->base.free = free_page;
    lk_rc rc = read_page(self, from, number, search, index, err);
    if (rc != LK_OK) {
        lk_index_part_unref(&self->base);
        return rc;
    }
    if (keep) {
        lk_index_cache_put(cache, index->uuid, 1 + from->first[number], &self->base);
    }
    *out = self;
    return LK_OK;
}

/* -- searching ------------------------------------------------------------------------------------------- */
static const lk_column_stats *stats_of(size_t column, void *context)
{
    (void)column; /* there is only one */
    return *(const lk_column_stats **)context;
}

static size_t find_pages(const lookup *from, const lk_index_search *search, size_t *out)
{
    size_t count = 0;
    for (size_t i = 0; i < from->page_count; i++) {
        const lk_column_stats *known = &from->pages[i];
        if (lk_predicate_may_match(search->predicate, stats_of, &known)) {
            out[count++] = i;
        }
    }
    return count;
}

static lk_rc search_page(lk_index_search *search, const lk_index *index, page *in, lk_err *err)
{
    size_t   count = (size_t)in->values.length;
    uint8_t *selection = malloc(count + 1);
    LK_ASSERT(selection != NULL);
    lk_rc rc = lk_cancel_check(search->cancel, err);
    if (rc == LK_OK) {
        rc = lk_index_test(search, &in->values, selection, err);
    }
    if (rc == LK_OK) {
        const uint64_t *ids = (const uint64_t *)in->ids.buffers[1] + in->ids.offset;
        rc = lk_index_give(search, index, ids, selection, count, err);
    }
    free(selection);
    return rc;
}

static lk_rc search_pages(lk_index_search *search, const lk_index *index, const lookup *from, lk_err *err)
{
    size_t *pages = malloc((from->page_count + 1) * sizeof *pages);
    LK_ASSERT(pages != NULL);
    size_t   count = find_pages(from, search, pages);
    lk_rc    rc = LK_OK;
    uint64_t most = search->dataset->manifest->physical_rows / ROWS_AN_ENTRY;
    search->gave_up = count > PAGES_FREE && count * from->batch_rows > most;
    for (size_t i = 0; rc == LK_OK && i < count && !search->gave_up; i++) {
        page *in = NULL;
        rc = get_page(from, pages[i], count <= PAGES_KEPT, search, index, &in, err);
        if (rc == LK_OK) {
            rc = search_page(search, index, in, err);
            lk_index_part_unref(&in->base);
        }
    }
    free(pages);
    return rc;
}

lk_rc lk_index_btree_search(lk_index_search *search, const lk_index *index, lk_err *err)
{
    lookup *from = NULL;
    lk_rc   rc = get_lookup(search, index, &from, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (!from->readable || !lk_index_same_type(search, &from->field)) {
        search->gave_up = true;
    } else {
        rc = search_pages(search, index, from, err);
    }
    lk_index_part_unref(&from->base);
    return rc;
}
