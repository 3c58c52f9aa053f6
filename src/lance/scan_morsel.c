/*
 * scan_morsel.c - one morsel: the predicate's columns first, then the others, and of those only the rows that
 * survived.
 */
#include "base/each.h"
#include "lance/column.h"
#include "lance/cpu.h"
#include "lance/file_ahead.h"
#include "lance/scan_priv.h"
#include "lance/view.h"

#include <stdlib.h>

/* Survivors in fewer runs than one in this many rows are decoded by themselves; more: all, then filtered. */
enum { ROWS_A_RUN = 12 };

typedef struct morsel {
    lk_morsel_scan     *scan;
    const lk_morsel    *plan;
    const lk_fragment  *fragment;
    const lk_row_range *ranges; /* as planned */
    lk_arena            arena;
    uint64_t            rows, kept;
    uint8_t            *selection;   /* one byte a row; NULL: all rows are kept */
    struct ArrowArray  *tested;      /* the predicate's columns, decoded over all rows */
    const lk_row_range *kept_ranges; /* what the other columns decode */
    size_t              kept_count;
    bool                exact; /* kept_ranges hold survivors only */
} morsel;

lk_rc lk_morsel_decode(const lk_morsel_scan *scan, size_t fragment, size_t column,
    const struct ArrowSchema *view, const lk_row_range *ranges, size_t count, struct ArrowArray *out,
    lk_err *err)
{
    lk_dataset     *dataset = scan->dataset;
    lk_field_source source = {0};
    lk_arena        arena = {0};
    lk_rc           rc = lk_cancel_check(scan->cancel, err);
    if (rc == LK_OK) {
        rc = lk_dataset_source(dataset, fragment, dataset->manifest->schema->top[column],
            view->children[column], &arena, &source, err);
    }
    if (rc == LK_OK) {
        rc = lk_file_decode(&source, ranges, count, scan->pool, out, err);
        lk_dataset_source_close(&source);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc decode(const morsel *self, size_t column, const struct ArrowSchema *view,
    const lk_row_range *ranges, size_t count, struct ArrowArray *out, lk_err *err)
{
    return lk_morsel_decode(self->scan, self->plan->fragment, column, view, ranges, count, out, err);
}

typedef struct some_columns {
    morsel            *morsel;
    struct ArrowArray *batch; /* of which each is one child */
} some_columns;

/* One after the other; where each waits for a network, side by side. */
static lk_rc each_column(morsel *self, size_t count, lk_rc (*run)(void *context, size_t index, lk_err *err),
    struct ArrowArray *batch, lk_err *err)
{
    const lk_lance_env *env = &self->scan->dataset->env;
    some_columns        columns = {self, batch};
    return lk_each(env->store->far ? env->pool : NULL, count, run, &columns, err);
}

/* Where reads wait for a network: what the columns will read of these rows comes first, in two goes. */
static lk_file_ahead *look_ahead(morsel *self, const size_t *columns, size_t count,
    const struct ArrowSchema *view, const lk_row_range *ranges, size_t range_count)
{
    lk_dataset    *dataset = self->scan->dataset;
    lk_file_ahead *ahead = NULL;
    lk_err         ignored = {0}; /* who decodes the column meets it again */
    size_t         opened = 0;
    if (!dataset->env.store->far || count == 0) {
        return NULL;
    }
    lk_field_source *sources = lk_arena_take(&self->arena, count * sizeof *sources);
    while (opened < count &&
           lk_dataset_source(dataset, self->plan->fragment, dataset->manifest->schema->top[columns[opened]],
               view->children[columns[opened]], &self->arena, &sources[opened], &ignored) == LK_OK) {
        opened++;
    }
    lk_file_ahead_open(sources, opened, ranges, range_count, self->scan->pool, &ahead);
    while (opened > 0) {
        lk_dataset_source_close(&sources[--opened]);
    }
    return ahead;
}

/* -- which rows survive ---------------------------------------------------------------------------- */
static lk_rc decode_tested_column(void *context, size_t index, lk_err *err)
{
    const some_columns *on = context;
    const morsel       *self = on->morsel;
    return decode(self, self->scan->tested[index], self->scan->plain, self->ranges, self->plan->range_count,
        on->batch->children[index], err);
}

static lk_rc decode_tested(morsel *self, struct ArrowArray *batch, lk_err *err)
{
    lk_morsel_scan *scan = self->scan;
    lk_column_node(batch, self->rows, 0, &(lk_buffer){0}, 1, scan->tested_count);
    lk_file_ahead *ahead = look_ahead(
        self, scan->tested, scan->tested_count, scan->plain, self->ranges, self->plan->range_count);
    lk_rc rc = each_column(self, scan->tested_count, decode_tested_column, batch, err);
    lk_file_ahead_close(ahead);
    return rc;
}

static lk_rc test_rows(morsel *self, lk_err *err)
{
    lk_morsel_scan    *scan = self->scan;
    struct ArrowArray *batch = lk_arena_take(&self->arena, sizeof *batch);
    self->tested = batch;
    lk_rc rc = decode_tested(self, batch, err);
    if (rc == LK_OK) {
        rc = lk_predicate_evaluate(
            scan->predicate, scan->plain, batch, scan->tested, scan->tested_count, self->selection, err);
    }
    (void)atomic_fetch_add_explicit(&scan->rows_decoded, self->rows, memory_order_relaxed);
    return rc;
}

LK_VECTOR static uint64_t count_ones(const uint8_t *selection, uint64_t rows)
{
    uint64_t ones = 0;
    for (uint64_t row = 0; row < rows; row++) {
        ones += selection[row];
    }
    return ones;
}

static lk_rc drop_deleted(morsel *self, lk_err *err)
{
    const lk_deletion *deletion = NULL;
    lk_rc              rc = lk_dataset_deletion(self->scan->dataset, self->plan->fragment, &deletion, err);
    uint64_t           done = 0;
    for (size_t index = 0; rc == LK_OK && deletion != NULL && index < self->plan->range_count; index++) {
        const lk_row_range *range = &self->ranges[index];
        (void)lk_deletion_clear(deletion, range->start, range->count, self->selection + done);
        done += range->count;
    }
    return rc;
}

/* Fills selection and kept. */
static lk_rc select_rows(morsel *self, lk_err *err)
{
    bool  deleted = self->fragment->deletion.kind != LK_DELETION_NONE && !self->scan->live;
    lk_rc rc = LK_OK;
    self->kept = self->rows;
    if (self->scan->predicate == NULL && !deleted) {
        return LK_OK;
    }
    self->selection = malloc(self->rows + 1);
    LK_ASSERT(self->selection != NULL);
    memset(self->selection, 1, self->rows);
    if (self->scan->predicate != NULL) {
        rc = test_rows(self, err);
    }
    if (rc == LK_OK && deleted) {
        rc = drop_deleted(self, err);
    }
    if (rc == LK_OK) {
        self->kept = count_ones(self->selection, self->rows);
    }
    return rc;
}

/* -- which ranges the other columns read -------------------------------------------------------------- */
/* Rows that are kept behind one that is not. */
LK_VECTOR static uint64_t count_begins(const uint8_t *selection, uint64_t rows)
{
    uint64_t begins = 0;
    for (uint64_t row = 1; row < rows; row++) {
        begins += (uint8_t)(selection[row] & (selection[row - 1] ^ 1U));
    }
    return begins;
}

/* At least as many runs as there are; one may go on in the next range. */
static size_t runs_at_most(const morsel *self)
{
    return count_begins(self->selection, self->rows) + 1 + self->plan->range_count;
}

static size_t range_runs(const morsel *self, const lk_row_range *range, uint64_t done, lk_row_range *out)
{
    const uint8_t *selection = self->selection + done;
    size_t         count = 0;
    for (uint64_t row = 0; row < range->count; row++) {
        const uint8_t *next = memchr(selection + row, 1, range->count - row);
        if (next == NULL) {
            break;
        }
        uint64_t       from = (uint64_t)(next - selection);
        const uint8_t *stop = memchr(next, 0, range->count - from);
        row = stop == NULL ? range->count : (uint64_t)(stop - selection);
        out[count++] = (lk_row_range){range->start + from, row - from};
    }
    return count;
}

static void choose_ranges(morsel *self)
{
    self->kept_ranges = self->ranges;
    self->kept_count = self->plan->range_count;
    self->exact = self->kept == self->rows;
    size_t runs = self->exact ? 0 : runs_at_most(self);
    if (self->exact || runs > self->rows / ROWS_A_RUN + 1) {
        return;
    }
    lk_row_range *ranges = lk_arena_take(&self->arena, runs * sizeof *ranges);
    uint64_t      done = 0;
    self->kept_count = 0;
    for (size_t index = 0; index < self->plan->range_count; index++) {
        self->kept_count += range_runs(self, &self->ranges[index], done, ranges + self->kept_count);
        done += self->ranges[index].count;
    }
    self->kept_ranges = ranges;
    self->exact = true;
}

/* -- output ---------------------------------------------------------------------------------------- */
static lk_rc filter(
    const morsel *self, size_t column, struct ArrowArray *decoded, struct ArrowArray *out, lk_err *err)
{
    const struct ArrowSchema *field = self->scan->view->children[column];
    if (self->kept == self->rows) {
        lk_array_move(decoded, out);
        return LK_OK;
    }
    lk_rc rc = lk_array_filter(field, decoded, self->selection, (int64_t)self->kept, out, err);
    lk_array_release(decoded);
    return rc;
}

/* The predicate's column, if this is one that was not handed out yet. */
static struct ArrowArray *tested_column(const morsel *self, size_t column)
{
    const lk_morsel_scan *scan = self->scan;
    if (self->tested != NULL && !lk_view_same(scan->view, scan->plain, column)) {
        return NULL;
    }
    for (size_t index = 0; self->tested != NULL && index < scan->tested_count; index++) {
        if (scan->tested[index] == column && self->tested->children[index]->release != NULL) {
            return self->tested->children[index];
        }
    }
    return NULL;
}

static lk_rc output_column(morsel *self, size_t column, struct ArrowArray *out, lk_err *err)
{
    struct ArrowArray  decoded = {0};
    struct ArrowArray *tested = tested_column(self, column);
    if (tested != NULL) {
        return filter(self, column, tested, out, err);
    }
    if (self->exact) {
        return decode(self, column, self->scan->view, self->kept_ranges, self->kept_count, out, err);
    }
    lk_rc rc = decode(self, column, self->scan->view, self->ranges, self->plan->range_count, &decoded, err);
    return rc == LK_OK ? filter(self, column, &decoded, out, err) : rc;
}

static lk_rc output_one(void *context, size_t index, lk_err *err)
{
    const some_columns *on = context;
    return output_column(on->morsel, on->morsel->scan->columns[index], on->batch->children[index], err);
}

static lk_file_ahead *look_ahead_of_output(morsel *self)
{
    const lk_morsel_scan *scan = self->scan;
    size_t               *columns = lk_arena_take(&self->arena, (scan->column_count + 1) * sizeof *columns);
    size_t                count = 0;
    for (size_t index = 0; index < scan->column_count; index++) {
        if (tested_column(self, scan->columns[index]) == NULL) {
            columns[count++] = scan->columns[index];
        }
    }
    return self->exact ? look_ahead(self, columns, count, scan->view, self->kept_ranges, self->kept_count)
                       : look_ahead(self, columns, count, scan->view, self->ranges, self->plan->range_count);
}

static lk_rc output(morsel *self, struct ArrowArray *out, lk_err *err)
{
    lk_morsel_scan *scan = self->scan;
    lk_column_node(out, self->kept, 0, &(lk_buffer){0}, 1, scan->column_count + lk_meta_count(scan->meta));
    choose_ranges(self);
    lk_file_ahead *ahead = look_ahead_of_output(self);
    lk_rc          rc = each_column(self, scan->column_count, output_one, out, err);
    lk_file_ahead_close(ahead);
    if (rc == LK_OK && scan->meta != 0) {
        lk_kept_rows kept = {
            self->plan->fragment, self->ranges, self->plan->range_count, self->selection, self->kept};
        rc = lk_meta_columns(scan, &kept, out->children + scan->column_count, err);
    }
    return rc;
}

lk_rc lk_morsel_run(lk_morsel_scan *scan, size_t index, struct ArrowArray *out, lk_err *err)
{
    const lk_morsel  *plan = &scan->morsels[index];
    struct ArrowArray batch = {0};
    morsel            self = {.scan = scan,
                   .plan = plan,
                   .fragment = &scan->dataset->manifest->fragments[plan->fragment],
                   .ranges = scan->ranges + plan->first_range,
                   .rows = plan->rows};
    lk_rc             rc = lk_cancel_check(scan->cancel, err);
    if (rc == LK_OK) {
        rc = select_rows(&self, err);
    }
    if (rc == LK_OK && self.kept > 0) {
        rc = output(&self, &batch, err);
    } else if (rc == LK_OK) {
        lk_column_node(&batch, 0, 0, &(lk_buffer){0}, 1, 0);
    }
    if (rc == LK_OK && scan->predicate == NULL) {
        (void)atomic_fetch_add_explicit(
            &scan->rows_decoded, scan->no_columns ? 0 : self.rows, memory_order_relaxed);
    }
    if (rc == LK_OK) {
        *out = batch;
    } else {
        lk_array_release(&batch);
        lk_context(err, "fragment %llu of %.*s", (unsigned long long)self.fragment->id,
            LK_FMT(scan->dataset->manifest->key));
    }
    if (self.tested != NULL) {
        lk_array_release(self.tested);
    }
    free(self.selection);
    lk_arena_close(&self.arena);
    return rc;
}

/* -- morsels by many threads -------------------------------------------------------------------------- */
static void truncate_array(struct ArrowArray *array, int64_t rows)
{
    bool nested = array->n_buffers == 1 && array->n_children > 0;
    for (int64_t child = 0; nested && child < array->n_children; child++) {
        if (array->children[child]->length ==
            array->length) { /* a struct's; a fixed-size list's may stay long */
            truncate_array(array->children[child], rows);
        }
    }
    array->length = rows;
    array->null_count = array->null_count == 0 ? 0 : array->n_buffers == 0 ? rows : -1;
}

void lk_batch_truncate(struct ArrowArray *batch, int64_t rows)
{
    if (rows < batch->length) {
        truncate_array(batch, rows);
    }
}

/* Takes up to `rows` of what the limit allows. */
static uint64_t take_left(lk_morsel_scan *scan, uint64_t rows)
{
    uint64_t left = atomic_load_explicit(&scan->left, memory_order_relaxed), taken = 0;
    do {
        taken = left < rows ? left : rows;
    } while (!atomic_compare_exchange_weak_explicit(
        &scan->left, &left, left - taken, memory_order_relaxed, memory_order_relaxed));
    return taken;
}

lk_rc lk_morsel_scan_next(
    lk_morsel_scan *scan, struct ArrowArray *out, size_t *morsel_number, bool *done, lk_err *err)
{
    *done = atomic_load_explicit(&scan->left, memory_order_relaxed) == 0;
    size_t index =
        *done ? scan->morsel_count : atomic_fetch_add_explicit(&scan->next, 1, memory_order_relaxed);
    if (index >= scan->morsel_count) {
        *done = true;
        return LK_OK;
    }
    *morsel_number = index;
    lk_rc rc = lk_morsel_run(scan, index, out, err);
    if (rc == LK_OK) {
        lk_batch_truncate(out, (int64_t)take_left(scan, (uint64_t)out->length));
    }
    return rc;
}
