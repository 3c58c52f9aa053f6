/*
 * index_bitmap.c - BITMAP: for each value of a column the set of rows that have it.
 *
 *   bitmap_page_lookup.lance   keys, bitmaps: one row a value
 *
 * A set of rows is as row_tree.h says.
 */
#include "lance/index_search.h"
#include "lance/row_tree.h"

#include <stdlib.h>

typedef struct keys {
    lk_index_part      base;
    struct ArrowSchema field;
    struct ArrowArray  values;
} keys;

static void free_keys(lk_index_part *part)
{
    keys *self = (keys *)part;
    lk_schema_release(&self->field);
    lk_array_release(&self->values);
    free(self);
}

static lk_rc read_keys(keys *self, const lk_index_search *search, const lk_index_table *table, lk_err *err)
{
    size_t column = 0;
    lk_rc  rc = lk_index_table_find(table, "keys", NULL, &column, err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(lk_index_table_field(table, column), &self->field, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_table_read(
            table, column, 0, lk_file_reader_rows(table->file), search->pool, &self->values, err);
    }
    self->base.bytes = rc == LK_OK ? lk_array_bytes(&self->field, &self->values) : 0;
    return rc;
}

/* *out is a reference. */
static lk_rc get_keys(const lk_index_search *search, const lk_index *index, const lk_index_table *table,
    keys **out, lk_err *err)
{
    lk_index_cache *cache = lk_file_cache_indices(search->dataset->files);
    *out = (keys *)lk_index_cache_get(cache, index->uuid, 0);
    if (*out != NULL) {
        return LK_OK;
    }
    keys *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    atomic_init(&self->base.refs, 1);
    self->base.free = free_keys;
    lk_rc rc = read_keys(self, search, table, err);
    if (rc != LK_OK) {
        lk_index_part_unref(&self->base);
        return rc;
    }
    lk_index_cache_put(cache, index->uuid, 0, &self->base);
    *out = self;
    return LK_OK;
}

/* -- sets of rows ---------------------------------------------------------------------------------------- */
typedef struct giving {
    lk_index_search *search;
    const lk_index  *index;
} giving;

static lk_rc give_run(void *context, uint64_t first, uint64_t count, lk_err *err)
{
    const giving *g = context;
    return lk_index_give_run(g->search, g->index, first, count, err);
}

/* Rows [first, first + count) of the file: their sets. */
static lk_rc give_sets(lk_index_search *search, const lk_index *index, const lk_index_table *table,
    size_t column, uint64_t first, uint64_t count, lk_err *err)
{
    struct ArrowArray         sets = {0};
    const struct ArrowSchema *field = lk_index_table_field(table, column);
    giving                    g = {search, index};
    lk_rc                     rc = lk_index_table_read(table, column, first, count, search->pool, &sets, err);
    for (int64_t row = 0; rc == LK_OK && row < (int64_t)count && !search->gave_up; row++) {
        lk_value set = {0};
        if (!lk_value_read(field, &sets, row, &set)) {
            rc = lk_fail(err, LK_E_CORRUPT_FILE, "a value without a set of rows");
        } else {
            rc = lk_row_tree_read(set.as.bytes, give_run, &g, err);
        }
    }
    lk_array_release(&sets);
    return rc;
}

/* Runs of neighbouring values that match, SETS_AT_ONCE of them at most. */
static lk_rc give_selected(lk_index_search *search, const lk_index *index, const lk_index_table *table,
    const uint8_t *selection, uint64_t count, lk_err *err)
{
    enum { SETS_AT_ONCE = 64 };
    size_t column = 0;
    lk_rc  rc = lk_index_table_find(table, "bitmaps", NULL, &column, err);
    if (rc == LK_OK && lk_index_table_field(table, column)->format[0] != 'z' &&
        lk_index_table_field(table, column)->format[0] != 'Z') {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "bitmaps that are no bytes");
    }
    for (uint64_t row = 0; rc == LK_OK && row < count && !search->gave_up; row++) {
        uint64_t end = row;
        while (end < count && selection[end] != 0 && end - row < SETS_AT_ONCE) {
            end++;
        }
        if (end > row) {
            rc = lk_cancel_check(search->cancel, err);
            rc = rc == LK_OK ? give_sets(search, index, table, column, row, end - row, err) : rc;
            row = end - 1;
        }
    }
    return rc;
}

static lk_rc search_keys(
    lk_index_search *search, const lk_index *index, const lk_index_table *table, keys *from, lk_err *err)
{
    uint64_t count = (uint64_t)from->values.length;
    uint8_t *selection = malloc(count + 1);
    LK_ASSERT(selection != NULL);
    lk_rc rc = lk_index_test(search, &from->values, selection, err);
    if (rc == LK_OK) {
        rc = give_selected(search, index, table, selection, count, err);
    }
    free(selection);
    return rc;
}

lk_rc lk_index_bitmap_search(lk_index_search *search, const lk_index *index, lk_err *err)
{
    lk_index_table table = {0};
    keys          *from = NULL;
    lk_rc          rc = lk_index_table_open(search->dataset, index, "bitmap_page_lookup.lance", &table, err);
    if (rc == LK_OK) {
        rc = get_keys(search, index, &table, &from, err);
    }
    if (rc == LK_OK && !lk_index_same_type(search, &from->field)) {
        search->gave_up = true;
    } else if (rc == LK_OK) {
        rc = search_keys(search, index, &table, from, err);
    }
    if (from != NULL) {
        lk_index_part_unref(&from->base);
    }
    lk_index_table_close(&table);
    return rc;
}
