/*
 * take.c - see take.h. Which live rows are meant is take_rows.c; here they are read.
 *
 *   a window of addresses --sort, without doubles--> morsels of one fragment each --scan.c--> batches by address
 *   batches --pick--> one batch in request order; handed out as they come when that is the address order
 *
 * Invariant: a planned row is live, so every morsel gives exactly the rows that were planned for it.
 */
#include "lance/take_priv.h"

#include <stdlib.h>

enum {
    WINDOW_BYTES = 32 * 1024 * 1024, /* of stored rows, all columns */
    WINDOW_ROWS = 64 * 1024,
    WINDOW_ROWS_MIN = 16,
    MORSEL_ROWS_MIN = 64 /* fewer are not worth another thread */
};

typedef struct take {
    lk_batches       base;
    lk_dataset      *dataset;
    lk_scan_options  options; /* columns in the arena */
    lk_arena         arena;
    lk_live_address *rows; /* in request order */
    size_t           count, done, window_rows;
    lk_batches      *ordered; /* a window in address order, handed out as it comes */
} take;

/* One window on its way. */
typedef struct window {
    take              *owner;
    lk_live_address   *rows;
    size_t             count;
    lk_pick           *picks; /* by place in the window: batch and row */
    struct ArrowArray *batches;
    size_t             batch_count;
} window;

/* -- plan -------------------------------------------------------------------------------------------- */
static bool ascends(const lk_live_address *rows, size_t count)
{
    bool so = true;
    for (size_t i = 1; i < count; i++) {
        so = so && (rows[i - 1].fragment < rows[i].fragment ||
                       (rows[i - 1].fragment == rows[i].fragment && rows[i - 1].row < rows[i].row));
    }
    return so;
}

static size_t threads_of(const lk_dataset *dataset)
{
    return dataset->env.pool == NULL ? 1 : lk_pool_thread_count(dataset->env.pool) + 1;
}

/* Morsels of the rows, which ascend. */
static lk_rc plan(take *self, const lk_live_address *rows, size_t count, lk_morsel_scan **out, lk_err *err)
{
    size_t target = count / (2 * threads_of(self->dataset)) + 1;
    target = target < MORSEL_ROWS_MIN ? MORSEL_ROWS_MIN : target;
    lk_rc rc = lk_morsel_scan_new(self->dataset, &self->options, out, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_plan plan = {.scan = *out};
    (*out)->live = true;
    for (size_t i = 0; i < count; i++) {
        lk_plan_rows(&plan, rows[i].fragment, rows[i].row, 1, target);
    }
    rc = lk_plan_cut_blobs(*out, err);
    if (rc != LK_OK) {
        lk_morsel_scan_close(*out);
    }
    return rc;
}

static lk_rc open_ordered(
    take *self, const lk_live_address *rows, size_t count, lk_batches **out, size_t *morsels, lk_err *err)
{
    lk_morsel_scan *scan = NULL;
    lk_rc           rc = plan(self, rows, count, &scan, err);
    if (rc != LK_OK) {
        return rc;
    }
    *morsels = lk_morsel_scan_count(scan);
    return lk_morsel_scan_stream(scan, UINT64_MAX, out, err);
}

/* -- windows in another order ------------------------------------------------------------------------- */
typedef struct placed {
    lk_live_address row;
    size_t          place;
} placed;

static int by_address(const void *left, const void *right)
{
    const lk_live_address *a = &((const placed *)left)->row, *b = &((const placed *)right)->row;
    return a->fragment != b->fragment ? (a->fragment < b->fragment ? -1 : 1)
                                      : (a->row > b->row) - (a->row < b->row);
}

/* Sorts the window's rows; picks[place].row becomes the number of the row among the distinct ones, which are left
 * in unique. */
static size_t sort_window(const window *self, lk_live_address *unique)
{
    placed *sorted = malloc((self->count + 1) * sizeof *sorted);
    LK_ASSERT(sorted != NULL);
    for (size_t i = 0; i < self->count; i++) {
        sorted[i] = (placed){self->rows[i], i};
    }
    qsort(sorted, self->count, sizeof *sorted, by_address);
    size_t count = 0;
    for (size_t i = 0; i < self->count; i++) {
        if (i == 0 || by_address(&sorted[i - 1], &sorted[i]) != 0) {
            unique[count++] = sorted[i].row;
        }
        self->picks[sorted[i].place].row = (int64_t)count - 1;
    }
    free(sorted);
    return count;
}

static lk_rc read_all(window *self, lk_batches *rows, size_t morsels, lk_err *err)
{
    lk_rc rc = LK_OK;
    self->batches = calloc(morsels + 1, sizeof *self->batches);
    LK_ASSERT(self->batches != NULL);
    while (rc == LK_OK) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            break;
        }
        LK_ASSERT(self->batch_count < morsels);
        self->batches[self->batch_count++] = batch;
    }
    return rc;
}

/* Turns the numbers of distinct rows into batches and rows of them. */
static void place_picks(const window *self, size_t distinct)
{
    lk_pick *by_number = malloc((distinct + 1) * sizeof *by_number);
    size_t   number = 0;
    LK_ASSERT(by_number != NULL);
    for (size_t batch = 0; batch < self->batch_count; batch++) {
        for (int64_t row = 0; row < self->batches[batch].length; row++) {
            LK_ASSERT(number < distinct);
            by_number[number++] = (lk_pick){batch, row};
        }
    }
    LK_ASSERT(number == distinct);
    for (size_t i = 0; i < self->count; i++) {
        self->picks[i] = by_number[self->picks[i].row];
    }
    free(by_number);
}

static lk_rc read_window(window *self, struct ArrowArray *out, lk_err *err)
{
    lk_batches      *rows = NULL;
    size_t           morsels = 0;
    lk_live_address *unique = malloc((self->count + 1) * sizeof *unique);
    self->picks = malloc((self->count + 1) * sizeof *self->picks);
    LK_ASSERT(unique != NULL && self->picks != NULL);
    size_t distinct = sort_window(self, unique);
    lk_rc  rc = open_ordered(self->owner, unique, distinct, &rows, &morsels, err);
    if (rc == LK_OK) {
        rc = read_all(self, rows, morsels, err);
    }
    if (rc == LK_OK) {
        place_picks(self, distinct);
        rc = lk_array_pick(&self->owner->base.schema, self->batches, self->picks, self->count, out, err);
    }
    lk_batches_close(rows);
    for (size_t batch = 0; batch < self->batch_count; batch++) {
        lk_array_release(&self->batches[batch]);
    }
    free(self->batches);
    free(self->picks);
    free(unique);
    return rc;
}

/* -- stream ------------------------------------------------------------------------------------------- */
static lk_rc next_ordered(take *self, struct ArrowArray *out, lk_err *err)
{
    lk_rc rc = lk_batches_next(self->ordered, out, err);
    if (rc != LK_OK || out->release == NULL) {
        lk_batches_close(self->ordered);
        self->ordered = NULL;
    }
    return rc;
}

static lk_rc next_take(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    take *self = (take *)batches;
    lk_rc rc = LK_OK;
    *out = (struct ArrowArray){0};
    while (rc == LK_OK && out->release == NULL) {
        if (self->ordered != NULL) {
            rc = next_ordered(self, out, err);
            continue;
        }
        size_t left = self->count - self->done;
        window next = {.owner = self,
            .rows = self->rows + self->done,
            .count = left < self->window_rows ? left : self->window_rows};
        size_t morsels = 0;
        if (next.count == 0) {
            break;
        }
        rc = ascends(next.rows, next.count)
                 ? open_ordered(self, next.rows, next.count, &self->ordered, &morsels, err)
                 : read_window(&next, out, err);
        self->done = rc == LK_OK ? self->done + next.count : self->count;
    }
    return rc;
}

static void close_take(lk_batches *batches)
{
    take *self = (take *)batches;
    lk_batches_close(self->ordered);
    lk_schema_release(&self->base.schema);
    lk_dataset_unref(self->dataset);
    lk_arena_close(&self->arena);
    free(self->rows);
    free(self);
}

/* As many rows as fit, by the stored bytes of an average row. */
static size_t window_rows(const lk_manifest *manifest, const lk_scan_options *options)
{
    uint64_t bytes = 0, rows = WINDOW_ROWS;
    for (size_t index = 0; index < manifest->fragment_count; index++) {
        for (size_t file = 0; file < manifest->fragments[index].file_count; file++) {
            bytes += manifest->fragments[index].files[file].size_bytes;
        }
    }
    uint64_t width = manifest->physical_rows == 0 ? 0 : bytes / manifest->physical_rows;
    if (width > 0 && WINDOW_BYTES / width < rows) {
        rows = WINDOW_BYTES / width;
    }
    rows = rows < WINDOW_ROWS_MIN ? WINDOW_ROWS_MIN : rows;
    return options->batch_rows > 0 && options->batch_rows < rows ? options->batch_rows : (size_t)rows;
}

/* What of the options counts, for as long as the stream lives. */
static void keep_options(take *self, const lk_scan_options *options)
{
    self->options = *options;
    self->options.predicate = NULL;
    self->options.rows = NULL;
    self->options.unordered = false;
    self->options.limit = UINT64_MAX;
    if (options->columns != NULL) {
        size_t *columns = lk_arena_take(&self->arena, (options->column_count + 1) * sizeof *columns);
        memcpy(columns, options->columns, options->column_count * sizeof *columns);
        self->options.columns = columns;
    }
}

lk_rc lk_dataset_take(lk_dataset *dataset, const lk_take_rows *rows, const lk_scan_options *options,
    lk_batches **out, lk_err *err)
{
    lk_morsel_scan *shape = NULL;
    take           *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->base.next = next_take;
    self->base.close = close_take;
    self->dataset = lk_dataset_ref(dataset);
    self->window_rows = window_rows(dataset->manifest, options);
    keep_options(self, options);
    lk_rc rc = lk_morsel_scan_new(dataset, &self->options, &shape, err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(lk_morsel_scan_schema(shape), &self->base.schema, err);
    }
    lk_morsel_scan_close(shape);
    if (rc == LK_OK) {
        rc = lk_take_resolve(dataset, rows, &self->rows, &self->count, err);
    }
    if (rc != LK_OK) {
        close_take(&self->base);
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}
