/*
 * scan_plan.c - which rows a scan touches: fragments, zones that the predicate cannot match left out, the rest
 * cut into morsels of bounded rows and bytes.
 */
#include "arrow/schema.h"
#include "arrow/type.h"
#include "lance/file_priv.h"
#include "lance/index.h"
#include "lance/row_set.h"
#include "lance/scan_priv.h"
#include "lance/view.h"

#include <roaring/roaring.h>
#include <stdlib.h>

enum {
    MORSEL_ROWS = 64 * 1024,
    MORSEL_ROWS_MIN = 1024,
    /* Of stored bytes; decoded they are about twice that, times the read-ahead. What fits the processor's caches is
     * handed over in them; from far stores large pieces come faster. */
    MORSEL_BYTES = 2 * 1024 * 1024,
    MORSEL_BYTES_FAR = 8 * 1024 * 1024
};

/* What planning carries from fragment to fragment. */
typedef struct planner {
    lk_plan                 plan;
    lk_morsel_scan         *scan;
    uint64_t                target_rows; /* of a morsel, when rows are narrow */
    uint64_t                row_bytes;   /* of what is read, at most */
    uint64_t                left;        /* rows still wanted when every row counts */
    lk_row_set             *chosen;      /* NULL: every row */
    lk_index_hits          *hits;        /* what the indices found; NULL: they were no help */
    const roaring_bitmap_t *rows;        /* those of the fragment; NULL: every row */
    roaring_bitmap_t       *both;        /* chosen and found, of the fragment; owned */
    lk_arena                arena;       /* of the plan only */
    struct tested_field    *fields; /* one for each field that the predicate reads; anew for every fragment */
} planner;

/* -- options --------------------------------------------------------------------------------------- */
static lk_rc check_columns(const lk_dataset *dataset, const lk_scan_options *options, lk_err *err)
{
    int64_t columns = lk_dataset_schema(dataset)->n_children;
    for (size_t index = 0; options->columns != NULL && index < options->column_count; index++) {
        if (options->columns[index] >= (size_t)columns) {
            return lk_fail(
                err, LK_E_INVALID_REQUEST, "column %zu of %lld", options->columns[index], (long long)columns);
        }
    }
    return LK_OK;
}

static void choose_columns(lk_morsel_scan *scan, const lk_scan_options *options)
{
    size_t all = (size_t)lk_dataset_schema(scan->dataset)->n_children;
    scan->no_columns = options->no_columns;
    scan->column_count = options->no_columns ? 0 : options->columns == NULL ? all : options->column_count;
    size_t *columns = lk_arena_take(&scan->arena, (scan->column_count + 1) * sizeof *columns);
    for (size_t index = 0; index < scan->column_count; index++) {
        columns[index] = options->columns == NULL ? index : options->columns[index];
    }
    scan->columns = columns;
    scan->meta = options->no_columns ? 0 : options->meta & LK_META_ALL;
    lk_meta_prepare(scan);
    scan->predicate = options->predicate;
    scan->cancel = options->cancel;
    scan->unordered = options->unordered;
    scan->alone = options->alone;
    if (scan->predicate != NULL) {
        scan->tested_count = lk_predicate_columns(scan->predicate, &scan->arena, &scan->tested);
    }
}

/* Most tables look the same to everybody. */
static lk_rc make_views(lk_morsel_scan *scan, const lk_scan_options *options, lk_err *err)
{
    const struct ArrowSchema *table = lk_dataset_schema(scan->dataset);
    scan->view = scan->plain = table;
    if (!lk_schema_has_dictionary(table) && !lk_schema_has_blob(table)) {
        return LK_OK;
    }
    scan->view = &scan->own_view;
    scan->plain = &scan->own_plain;
    lk_view handed = {options->dictionary_values, options->blobs}, tested = {true, LK_BLOBS_DESCRIBED};
    scan->reads_blobs = options->blobs != LK_BLOBS_DESCRIBED;
    lk_rc rc = lk_view_schema(table, handed, &scan->own_view, err);
    return rc == LK_OK ? lk_view_schema(table, tested, &scan->own_plain, err) : rc;
}

/* The batches' schema: the chosen columns, then those of meta. */
static lk_rc make_schema(lk_morsel_scan *scan, lk_err *err)
{
    const struct ArrowSchema *table = scan->view;
    size_t                    count = scan->column_count + lk_meta_count(scan->meta);
    lk_schema_start(&scan->schema, count);
    if (ArrowSchemaSetMetadata(&scan->schema, table->metadata) != NANOARROW_OK) {
        return lk_fail(err, LK_E_LIMIT, "no memory for the schema's metadata");
    }
    for (size_t index = 0; index < scan->column_count; index++) {
        lk_rc rc = lk_schema_copy(table->children[scan->columns[index]], scan->schema.children[index], err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return lk_meta_schema(scan->meta, scan->schema.children + scan->column_count, err);
}

/* -- zones ----------------------------------------------------------------------------------------- */
typedef struct tested_field {
    bool            leaf;   /* nothing is known of others */
    lk_stats       *stats;  /* NULL: in no file, all null */
    size_t          column; /* in its file */
    lk_column_stats known;  /* what the last question answered */
} tested_field;

typedef struct zones {
    tested_field *fields; /* one for each of tested */
    const size_t *tested;
    size_t        tested_count;
    uint32_t      zone_rows;
    size_t        zone;
    uint64_t      rows; /* in the zone */
} zones;

static const lk_column_stats *zone_stats(size_t column, void *context)
{
    zones *self = context;
    size_t index = 0;
    while (index < self->tested_count && self->tested[index] != column) {
        index++;
    }
    if (index == self->tested_count) {
        return NULL;
    }
    tested_field *field = &self->fields[index];
    if (!field->leaf) {
        return NULL;
    }
    if (field->stats == NULL) {
        field->known = (lk_column_stats){.null_count = self->rows, .row_count = self->rows};
        return &field->known;
    }
    bool same_grid = lk_stats_zone_rows(field->stats) == self->zone_rows;
    return same_grid && lk_stats_zone(field->stats, field->column, self->zone, &field->known) ? &field->known
                                                                                              : NULL;
}

/* The zone grid of the first tested column that has one; 0: none has. */
static uint32_t zone_grid(const zones *self)
{
    for (size_t index = 0; index < self->tested_count; index++) {
        const lk_stats *stats = self->fields[index].stats;
        if (stats != NULL && lk_stats_zone_count(stats) > 0) {
            return lk_stats_zone_rows(stats);
        }
    }
    return 0;
}

/* -- morsels --------------------------------------------------------------------------------------- */
static void *grown(void *array, size_t *room, size_t used, size_t size)
{
    if (used < *room) {
        return array;
    }
    *room = *room == 0 ? 16 : *room * 2;
    void *bigger = realloc(array, *room * size);
    LK_ASSERT(bigger != NULL);
    return bigger;
}

static lk_morsel *add_morsel(lk_plan *self, size_t fragment)
{
    lk_morsel_scan *scan = self->scan;
    scan->morsels = grown(scan->morsels, &self->morsel_room, scan->morsel_count, sizeof *scan->morsels);
    lk_morsel *morsel = &scan->morsels[scan->morsel_count++];
    *morsel = (lk_morsel){.fragment = fragment, .first_range = scan->range_count};
    return morsel;
}

void lk_plan_rows(lk_plan *self, size_t fragment, uint64_t start, uint64_t count, uint64_t target)
{
    lk_morsel_scan *scan = self->scan;
    while (count > 0) {
        lk_morsel *open = scan->morsel_count == 0 ? NULL : &scan->morsels[scan->morsel_count - 1];
        if (open == NULL || open->fragment != fragment || open->rows >= target) {
            open = add_morsel(self, fragment);
        }
        uint64_t      some = count < target - open->rows ? count : target - open->rows;
        lk_row_range *last = open->range_count == 0 ? NULL : &scan->ranges[scan->range_count - 1];
        if (last != NULL && last->start + last->count == start) {
            last->count += some;
        } else {
            scan->ranges = grown(scan->ranges, &self->range_room, scan->range_count, sizeof *scan->ranges);
            scan->ranges[scan->range_count++] = (lk_row_range){start, some};
            open->range_count++;
        }
        open->rows += some;
        start += some;
        count -= some;
    }
}

/* Of these rows the chosen ones; true when there is any. */
static bool add_rows(planner *self, size_t fragment, uint64_t start, uint64_t count, uint64_t target)
{
    if (self->rows == NULL) {
        lk_plan_rows(&self->plan, fragment, start, count, target);
        return true;
    }
    roaring_uint32_iterator_t at;
    bool                      any = false;
    roaring_init_iterator(self->rows, &at);
    (void)roaring_move_uint32_iterator_equalorlarger(&at, (uint32_t)start);
    while (at.has_value && at.current_value < start + count) {
        uint64_t first = at.current_value, next = first;
        while (at.has_value && at.current_value == next && next < start + count) {
            next++;
            (void)roaring_advance_uint32_iterator(&at);
        }
        lk_plan_rows(&self->plan, fragment, first, next - first, target);
        any = true;
    }
    return any;
}

/* Bytes of a row's values in one column; UINT64_MAX: that depends on the row. */
static uint64_t value_bytes(const struct ArrowSchema *field)
{
    lk_type type;
    bool    fixed =
        lk_type_of(field, &type) && (type.layout == LK_LAYOUT_FIXED || type.layout == LK_LAYOUT_BITS);
    return fixed && field->dictionary == NULL ? type.width + 1 : UINT64_MAX;
}

/* The most that a row of what is read takes, whatever else the table has; UINT64_MAX: unknown. */
static uint64_t read_bytes(const lk_morsel_scan *scan)
{
    uint64_t bytes = 0;
    for (size_t index = 0; index < scan->column_count + scan->tested_count; index++) {
        size_t column =
            index < scan->column_count ? scan->columns[index] : scan->tested[index - scan->column_count];
        uint64_t one = value_bytes(scan->view->children[column]);
        bytes = one > UINT64_MAX - bytes ? UINT64_MAX : bytes + one;
    }
    return bytes;
}

/* Rows of a morsel in this fragment, by the stored bytes of a row (all columns: an upper bound). */
static uint64_t morsel_rows(const planner *self, const lk_fragment *fragment)
{
    uint64_t bytes = 0, rows = self->target_rows;
    uint64_t room = self->scan->dataset->env.store->far ? MORSEL_BYTES_FAR : MORSEL_BYTES;
    for (size_t file = 0; file < fragment->file_count; file++) {
        bytes += fragment->files[file].size_bytes;
    }
    uint64_t width = fragment->physical_rows == 0 ? 0 : bytes / fragment->physical_rows;
    width = width < self->row_bytes ? width : self->row_bytes;
    if (width > 0 && room / width < rows) {
        rows = room / width;
    }
    rows = rows < MORSEL_ROWS_MIN ? MORSEL_ROWS_MIN : rows;
    return rows < self->target_rows ? rows : self->target_rows;
}

static lk_rc plan_zones(planner *self, size_t index, zones *zone, uint64_t target)
{
    lk_morsel_scan    *scan = self->scan;
    const lk_fragment *fragment = &scan->dataset->manifest->fragments[index];
    uint64_t           rows = fragment->physical_rows, step = zone->zone_rows == 0 ? rows : zone->zone_rows;
    size_t             before = scan->morsel_count;
    for (uint64_t start = 0; start < rows; start += step, zone->zone++) {
        zone->rows = rows - start < step ? rows - start : step;
        scan->stats.pages++;
        if (lk_predicate_may_match(scan->predicate, zone_stats, zone)) {
            scan->stats.pages_kept += add_rows(self, index, start, zone->rows, target);
        }
    }
    scan->stats.fragments_kept += scan->morsel_count > before;
    return LK_OK;
}

static lk_rc plan_filtered(planner *self, size_t index, uint64_t target, lk_err *err)
{
    lk_morsel_scan        *scan = self->scan;
    const lk_lance_schema *schema = scan->dataset->manifest->schema;
    zones zone = {.fields = self->fields, .tested = scan->tested, .tested_count = scan->tested_count};
    lk_rc rc = LK_OK;
    memset(zone.fields, 0, scan->tested_count * sizeof *zone.fields);
    for (size_t tested = 0; rc == LK_OK && tested < scan->tested_count; tested++) {
        tested_field *field = &zone.fields[tested];
        size_t        top = schema->top[scan->tested[tested]];
        field->leaf = schema->fields[top].leaf;
        if (field->leaf) {
            rc =
                lk_dataset_stats(scan->dataset, index, top, &self->arena, &field->stats, &field->column, err);
        }
    }
    if (rc == LK_OK) {
        zone.zone_rows = zone_grid(&zone);
        rc = plan_zones(self, index, &zone, target);
    }
    for (size_t tested = 0; tested < scan->tested_count; tested++) {
        lk_stats_unref(zone.fields[tested].stats);
    }
    return rc;
}

/* Every row counts: no file is opened, and a limit ends the plan where it ends the rows. */
static lk_rc plan_all(planner *self, size_t index, uint64_t target, lk_err *err)
{
    lk_morsel_scan    *scan = self->scan;
    const lk_fragment *fragment = &scan->dataset->manifest->fragments[index];
    uint64_t           rows = fragment->physical_rows;
    (void)err;
    if (fragment->deletion.kind == LK_DELETION_NONE && self->rows == NULL && self->left < rows) {
        rows = self->left;
    }
    if (rows > 0) {
        bool any = add_rows(self, index, 0, rows, scan->no_columns ? rows : target);
        scan->stats.pages++;
        scan->stats.pages_kept += any;
        scan->stats.fragments_kept += any;
    }
    if (self->rows != NULL) {
        rows = roaring_bitmap_range_cardinality(self->rows, 0, rows);
    }
    uint64_t live = rows - (fragment->deletion.count < rows ? fragment->deletion.count : rows);
    self->left -= live < self->left ? live : self->left;
    return LK_OK;
}

/* The chosen rows of a fragment, false: it has none. */
static bool choose_rows(planner *self, uint64_t fragment_id)
{
    size_t count = 0;
    self->rows = NULL;
    if (self->chosen == NULL) {
        return true;
    }
    const lk_fragment_rows *all = lk_row_set_fragments(self->chosen, &count);
    size_t                  low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (all[middle].fragment_id < fragment_id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < count && all[low].fragment_id == fragment_id;
    self->rows = found ? all[low].rows : NULL;
    return found;
}

static void free_both(planner *self)
{
    if (self->both != NULL) {
        roaring_bitmap_free(self->both);
        self->both = NULL;
    }
}

/* Of them, those that the indices found; false: none. */
static bool narrow_rows(planner *self, size_t index)
{
    const roaring_bitmap_t *found = NULL;
    if (self->hits == NULL || !lk_index_hits_fragment(self->hits, index, &found)) {
        return true;
    }
    if (found != NULL && self->rows != NULL) {
        free_both(self);
        self->both = roaring_bitmap_and(self->rows, found);
        found = self->both;
    }
    self->rows = found;
    return found != NULL;
}

/* Few rows are read without asking the zone statistics first. */
static lk_rc plan_tested(planner *self, size_t index, uint64_t target, lk_err *err)
{
    lk_morsel_scan *scan = self->scan;
    uint64_t        rows = scan->dataset->manifest->fragments[index].physical_rows;
    if (self->hits == NULL || self->rows == NULL ||
        roaring_bitmap_get_cardinality(self->rows) > LK_STATS_ZONE_ROWS) {
        return plan_filtered(self, index, target, err);
    }
    bool any = add_rows(self, index, 0, rows, target);
    scan->stats.pages++;
    scan->stats.pages_kept += any;
    scan->stats.fragments_kept += any;
    return LK_OK;
}

static lk_rc plan(planner *self, lk_err *err)
{
    lk_morsel_scan    *scan = self->scan;
    const lk_manifest *manifest = scan->dataset->manifest;
    lk_rc              rc = LK_OK;
    self->fields = lk_arena_take(&self->arena, (scan->tested_count + 1) * sizeof *self->fields);
    if (scan->predicate != NULL) {
        rc = lk_index_lookup(scan->dataset, scan->predicate, scan->cancel, &self->hits, err);
    }
    for (size_t index = 0; rc == LK_OK && index < manifest->fragment_count && self->left > 0; index++) {
        uint64_t target = morsel_rows(self, &manifest->fragments[index]);
        scan->stats.fragments++;
        rc = lk_cancel_check(scan->cancel, err);
        if (rc == LK_OK && choose_rows(self, manifest->fragments[index].id) && narrow_rows(self, index)) {
            rc = scan->predicate != NULL ? plan_tested(self, index, target, err)
                                         : plan_all(self, index, target, err);
        }
    }
    lk_index_hits_free(self->hits);
    free_both(self);
    return rc;
}

lk_rc lk_morsel_scan_new(
    lk_dataset *dataset, const lk_scan_options *options, lk_morsel_scan **out, lk_err *err)
{
    lk_rc rc = check_columns(dataset, options, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_morsel_scan *scan = calloc(1, sizeof *scan);
    LK_ASSERT(scan != NULL);
    scan->dataset = lk_dataset_ref(dataset);
    scan->owns_pool = dataset->env.buffers == NULL;
    scan->pool = scan->owns_pool ? lk_buffer_pool_new(dataset->env.budget) : dataset->env.buffers;
    atomic_init(&scan->left, options->limit);
    choose_columns(scan, options);
    rc = make_views(scan, options, err);
    if (rc == LK_OK) {
        rc = make_schema(scan, err);
    }
    if (rc != LK_OK) {
        lk_morsel_scan_close(scan);
        return rc;
    }
    *out = scan;
    return LK_OK;
}

lk_rc lk_dataset_morsel_scan(
    lk_dataset *dataset, const lk_scan_options *options, lk_morsel_scan **out, lk_err *err)
{
    lk_morsel_scan *scan = NULL;
    lk_rc           rc = lk_morsel_scan_new(dataset, options, &scan, err);
    if (rc != LK_OK) {
        return rc;
    }
    planner self = {.plan = {.scan = scan}, .scan = scan, .left = options->limit, .chosen = options->rows};
    self.row_bytes = read_bytes(scan);
    self.target_rows = options->batch_rows > 0 ? options->batch_rows : MORSEL_ROWS;
    rc = plan(&self, err);
    if (rc == LK_OK) {
        rc = lk_plan_cut_blobs(scan, err);
    }
    lk_arena_close(&self.arena);
    if (rc != LK_OK) {
        lk_morsel_scan_close(scan);
        return rc;
    }
    *out = scan;
    return LK_OK;
}

size_t lk_morsel_scan_count(const lk_morsel_scan *scan)
{
    return scan->morsel_count;
}
const struct ArrowSchema *lk_morsel_scan_schema(const lk_morsel_scan *scan)
{
    return &scan->schema;
}

void lk_morsel_scan_stats(const lk_morsel_scan *scan, lk_scan_stats *out)
{
    *out = scan->stats;
    out->rows_decoded = atomic_load_explicit(&scan->rows_decoded, memory_order_relaxed);
}

void lk_morsel_scan_close(lk_morsel_scan *scan)
{
    if (scan == NULL) {
        return;
    }
    lk_schema_release(&scan->schema);
    if (scan->owns_pool) {
        lk_buffer_pool_close(scan->pool);
    }
    lk_schema_release(&scan->own_view);
    lk_schema_release(&scan->own_plain);
    lk_dataset_unref(scan->dataset);
    lk_arena_close(&scan->arena);
    free(scan->morsels);
    free(scan->ranges);
    free(scan);
}
