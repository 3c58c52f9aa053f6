/*
 * index_zonemap.c - ZONEMAP: the least and the greatest value of every few thousand rows. What it finds must be tested.
 *
 *   zonemap.lance   min, max, null_count u32, nan_count u32, fragment_id, zone_start, zone_length u64: one row a zone
 *
 * A zone begins at a row offset and goes up to the next one of its fragment: zone_length leaves rows out that were
 * deleted when it was made, and nothing else lies between. Ids in it are addresses, whatever the table's row ids are.
 */
#include "lance/index_order.h"
#include "lance/index_search.h"
#include "lance/index_source.h"

#include <stdlib.h>

typedef struct zones {
    lk_index_part      base;
    struct ArrowSchema field;
    struct ArrowArray  min, max, nulls, nans, fragments, starts;
    size_t             count;
} zones;

static void free_zones(lk_index_part *part)
{
    zones *self = (zones *)part;
    lk_schema_release(&self->field);
    lk_array_release(&self->min);
    lk_array_release(&self->max);
    lk_array_release(&self->nulls);
    lk_array_release(&self->nans);
    lk_array_release(&self->fragments);
    lk_array_release(&self->starts);
    free(self);
}

static lk_rc read_column(zones *self, const lk_index_table *table, const char *name, const char *format,
    lk_buffer_pool *pool, struct ArrowArray *out, lk_err *err)
{
    size_t column = 0;
    lk_rc  rc = lk_index_table_find(table, name, format, &column, err);
    if (rc == LK_OK) {
        rc = lk_index_table_read(table, column, 0, self->count, pool, out, err);
        self->base.bytes += rc == LK_OK ? lk_array_bytes(lk_index_table_field(table, column), out) : 0;
    }
    return rc;
}

static lk_rc read_zones(zones *self, const lk_index_search *search, const lk_index_table *table, lk_err *err)
{
    lk_buffer_pool *pool = search->pool;
    size_t          min = 0;
    self->count = lk_file_reader_rows(table->file);
    lk_rc rc = lk_index_table_find(table, "min", NULL, &min, err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(lk_index_table_field(table, min), &self->field, err);
    }
    if (rc == LK_OK) {
        rc = read_column(self, table, "min", self->field.format, pool, &self->min, err);
    }
    if (rc == LK_OK) {
        rc = read_column(self, table, "max", self->field.format, pool, &self->max, err);
    }
    if (rc == LK_OK) {
        rc = read_column(self, table, "null_count", "I", pool, &self->nulls, err);
    }
    if (rc == LK_OK) {
        rc = read_column(self, table, "nan_count", "I", pool, &self->nans, err);
    }
    if (rc == LK_OK) {
        rc = read_column(self, table, "fragment_id", "L", pool, &self->fragments, err);
    }
    if (rc == LK_OK) {
        rc = read_column(self, table, "zone_start", "L", pool, &self->starts, err);
    }
    return rc;
}

/* *out is a reference. */
static lk_rc get_zones(const lk_index_search *search, const lk_index *index, zones **out, lk_err *err)
{
    lk_index_cache *cache = lk_file_cache_indices(search->dataset->files);
    lk_index_table  table = {0};
    *out = (zones *)lk_index_cache_get(cache, index->uuid, 0);
    if (*out != NULL) {
        return LK_OK;
    }
    zones *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    atomic_init(&self->base.refs, 1);
    self->base.free = free_zones;
    lk_rc rc = lk_index_table_open(search->dataset, index, "zonemap.lance", &table, err);
    if (rc == LK_OK) {
        rc = read_zones(self, search, &table, err);
    }
    lk_index_table_close(&table);
    if (rc != LK_OK) {
        lk_index_part_unref(&self->base);
        return rc;
    }
    lk_index_cache_put(cache, index->uuid, 0, &self->base);
    *out = self;
    return LK_OK;
}

/* -- searching ------------------------------------------------------------------------------------------- */
static uint64_t u64_at(const struct ArrowArray *array, size_t row)
{
    return ((const uint64_t *)array->buffers[1])[array->offset + (int64_t)row];
}

static uint32_t u32_at(const struct ArrowArray *array, size_t row)
{
    return ((const uint32_t *)array->buffers[1])[array->offset + (int64_t)row];
}

typedef struct question {
    const zones    *zones;
    size_t          zone;
    uint64_t        rows; /* of the zone, deleted ones included */
    lk_column_stats known;
} question;

static bool is_nan(const lk_value *value)
{
    return value->kind == LK_VALUE_F64 && value->as.f64 != value->as.f64;
}

/* Deleted rows are in no count; some types have no bounds though they have values. NaN is the greatest where there is
 * one. */
static const lk_column_stats *stats_of(size_t column, void *context)
{
    question        *q = context;
    const zones     *from = q->zones;
    lk_column_stats *known = &q->known;
    (void)column; /* there is only one */
    *known = (lk_column_stats){.row_count = q->rows, .has_nan = u32_at(&from->nans, q->zone) > 0};
    known->has_min = lk_value_read(&from->field, &from->min, (int64_t)q->zone, &known->min);
    known->has_max = lk_value_read(&from->field, &from->max, (int64_t)q->zone, &known->max);
    if ((known->has_min && is_nan(&known->min)) || (known->has_max && is_nan(&known->max))) {
        known->has_nan = true;
        known->has_min = known->has_min && !is_nan(&known->min);
        known->has_max = false;
    }
    uint32_t nulls = u32_at(&from->nulls, q->zone);
    known->null_count = nulls == 0 ? 0 : nulls >= q->rows ? q->rows : UINT64_MAX;
    return known;
}

/* Where the zone ends: at the next one of its fragment. */
static uint64_t zone_end(const zones *from, size_t zone, uint64_t rows)
{
    bool last =
        zone + 1 == from->count || u64_at(&from->fragments, zone + 1) != u64_at(&from->fragments, zone);
    uint64_t next = last ? rows : u64_at(&from->starts, zone + 1);
    return next < rows ? next : rows;
}

static lk_rc search_zone(lk_index_search *search, const lk_index *index, question *q, lk_err *err)
{
    const lk_manifest *manifest = search->dataset->manifest;
    uint64_t           id = u64_at(&q->zones->fragments, q->zone), start = u64_at(&q->zones->starts, q->zone);
    size_t             number = lk_fragment_number_of(search->numbers, manifest->fragment_count, id);
    if (number == SIZE_MAX || !index->covers[number]) {
        return LK_OK;
    }
    uint64_t end = zone_end(q->zones, q->zone, manifest->fragments[number].physical_rows);
    if (start >= end) {
        return lk_fail(
            err, LK_E_CORRUPT_FILE, "zones of fragment %llu are out of order", (unsigned long long)id);
    }
    search->answer->covers[number] = true;
    q->rows = end - start;
    if (lk_predicate_may_match(search->predicate, stats_of, q)) {
        lk_index_give_rows(search, number, start, q->rows);
    }
    return LK_OK;
}

lk_rc lk_index_zonemap_search(lk_index_search *search, const lk_index *index, lk_err *err)
{
    zones *from = NULL;
    lk_rc  rc = get_zones(search, index, &from, err);
    if (rc != LK_OK) {
        return rc;
    }
    question q = {.zones = from};
    search->gave_up = !lk_index_same_type(search, &from->field);
    for (; rc == LK_OK && q.zone < from->count && !search->gave_up; q.zone++) {
        rc = search_zone(search, index, &q, err);
    }
    lk_index_part_unref(&from->base);
    return rc;
}

/* -- verifying ------------------------------------------------------------------------------------------- */
typedef struct checking {
    const zones     *zones;
    lk_type          type;
    size_t           zone; /* the one that held the last row */
    lk_index_damage *out;
} checking;

/* The zone that a row lies in; false: none. Rows and zones are in the same order, mostly. */
static bool find_zone(checking *c, uint64_t address)
{
    const zones *from = c->zones;
    for (size_t tried = 0; tried < from->count; tried++) {
        size_t   zone = (c->zone + tried) % from->count;
        uint64_t start = u64_at(&from->starts, zone), row = address & UINT32_MAX;
        if (u64_at(&from->fragments, zone) == address >> 32 && start <= row &&
            row < zone_end(from, zone, UINT64_MAX)) {
            c->zone = zone;
            return true;
        }
    }
    return false;
}

static bool zone_allows(const checking *c, const struct ArrowArray *values, int64_t row)
{
    int64_t zone = (int64_t)c->zone;
    if (lk_index_is_null(values, row)) {
        return u32_at(&c->zones->nulls, c->zone) > 0;
    }
    bool no_min = lk_index_is_null(&c->zones->min, zone), no_max = lk_index_is_null(&c->zones->max, zone);
    bool nan = lk_index_is_nan(&c->type, values, row);
    return (!nan || u32_at(&c->zones->nans, c->zone) > 0) &&
           (no_min || lk_index_compare(&c->type, &c->zones->min, zone, values, row) <= 0) &&
           (no_max || nan || lk_index_compare(&c->type, values, row, &c->zones->max, zone) <= 0);
}

static lk_rc check_rows(void *context, struct ArrowArray *values, struct ArrowArray *ids, lk_err *err)
{
    checking       *c = context;
    const uint64_t *addresses = (const uint64_t *)ids->buffers[1] + ids->offset;
    (void)err;
    for (int64_t row = 0; row < ids->length; row++) {
        bool found = find_zone(c, addresses[row]);
        c->out->missing += !found;
        c->out->wrong += found && !zone_allows(c, values, row);
    }
    return LK_OK;
}

lk_rc lk_index_zonemap_verify(lk_dataset *dataset, const lk_index *index, size_t field, lk_cancel *cancel,
    lk_buffer_pool *pool, lk_index_damage *out, lk_err *err)
{
    lk_index_search search = {.dataset = dataset, .pool = pool};
    lk_index_source source = {dataset, field, cancel, pool};
    checking        c = {.out = out};
    zones          *from = NULL;
    LK_ASSERT(lk_type_of(dataset->manifest->schema->fields[field].arrow, &c.type));
    lk_rc rc = get_zones(&search, index, &from, err);
    if (rc != LK_OK) {
        return rc;
    }
    c.zones = from;
    out->entries = from->count;
    if (strcmp(from->field.format, dataset->manifest->schema->fields[field].arrow->format) != 0) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "zones of another type than the column");
    }
    for (size_t i = 0; rc == LK_OK && i < dataset->manifest->fragment_count; i++) {
        bool any = false; /* a fragment without a zone is not covered, whatever the version says */
        for (size_t zone = 0; zone < from->count && !any; zone++) {
            any = u64_at(&from->fragments, zone) == dataset->manifest->fragments[i].id;
        }
        if (any && index->covers[i]) {
            rc = lk_index_source_read(&source, i, check_rows, &c, err);
        }
    }
    lk_index_part_unref(&from->base);
    return rc;
}
