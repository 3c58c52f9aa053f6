/*
 * index_sort.c - see index_sort.h.
 *
 * Merging goes in rounds. Every run shows a window of its next pairs. What is not above the least of the windows' last
 * values (of runs that go on behind theirs) can be put in order now: nothing that comes later belongs before it. That
 * part of each window is put together, sorted in memory like everything else, and given out; the run whose window set
 * the bound is at its end, so every round goes on.
 */
#include "lance/index_sort.h"

#include "arrow/schema.h"
#include "lance/file_write.h"
#include "lance/index_file.h"

#include <stdlib.h>

enum { GIVE_ROWS = 64 * 1024, WINDOW_ROWS = 64 * 1024, MEMORY_IN_RUNS = 4, FILE_MINOR = 1 };

typedef struct window {
    lk_index_run    *run;
    lk_shared_array *values, *ids; /* NULL: the run has ended */
    int64_t          at, end;      /* what is left of it; how much of it goes into this round */
} window;

struct lk_index_sorter {
    lk_change         *change;
    lk_bytes           directory;
    struct ArrowSchema field, id_field;
    lk_lance_schema   *schema;
    lk_type            type;
    lk_cancel         *cancel;
    size_t             run_bytes, charged;
    lk_buf             values, ids; /* of struct ArrowArray: added since the last run */
    size_t             pending_bytes;
    lk_buf             runs; /* of lk_index_run * */
    size_t             written;
};

/* -- arrays ---------------------------------------------------------------------------------------------- */
static struct ArrowArray *arrays(const lk_buf *list)
{
    return (struct ArrowArray *)(void *)list->data;
}

static size_t array_count(const lk_buf *list)
{
    return list->size / sizeof(struct ArrowArray);
}

static void clear(lk_buf *list)
{
    for (size_t i = 0; i < array_count(list); i++) {
        lk_array_release(&arrays(list)[i]);
    }
    lk_buf_clear(list);
}

static lk_rc join(const struct ArrowSchema *field, const lk_buf *list, struct ArrowArray *out, lk_err *err)
{
    return lk_array_concat(field, arrays(list), array_count(list), out, err);
}

/* Gives rows of both arrays in this order, in stretches. */
static lk_rc give(lk_index_sorter *self, const struct ArrowArray *values, const struct ArrowArray *ids,
    const int64_t *order, lk_index_sink *sink, void *context, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (int64_t at = 0; rc == LK_OK && at < values->length; at += GIVE_ROWS) {
        int64_t           count = values->length - at < GIVE_ROWS ? values->length - at : GIVE_ROWS;
        struct ArrowArray some = {0}, their_ids = {0};
        rc = lk_cancel_check(self->cancel, err);
        if (rc == LK_OK) {
            rc = lk_array_take(&self->field, values, order + at, count, &some, err);
        }
        if (rc == LK_OK) {
            rc = lk_array_take(&self->id_field, ids, order + at, count, &their_ids, err);
        }
        if (rc == LK_OK) {
            rc = sink(context, &some, &their_ids, err);
        }
        lk_array_release(&some);
        lk_array_release(&their_ids);
    }
    return rc;
}

/* Puts the pairs that wait in order and gives them; none wait afterwards. */
static lk_rc give_pending(lk_index_sorter *self, lk_index_sink *sink, void *context, lk_err *err)
{
    struct ArrowArray values = {0}, ids = {0};
    int64_t          *order = NULL;
    lk_rc rc = array_count(&self->values) == 0 ? LK_OK : join(&self->field, &self->values, &values, err);
    if (rc == LK_OK && values.release != NULL) {
        rc = join(&self->id_field, &self->ids, &ids, err);
    }
    clear(&self->values);
    clear(&self->ids);
    self->pending_bytes = 0;
    if (rc == LK_OK && values.release != NULL) {
        order = malloc(((size_t)values.length + 1) * sizeof *order);
        LK_ASSERT(order != NULL);
        lk_index_sort(&self->type, &values, order);
        rc = give(self, &values, &ids, order, sink, context, err);
    }
    free(order);
    lk_array_release(&values);
    lk_array_release(&ids);
    return rc;
}

/* -- runs in files --------------------------------------------------------------------------------------- */
typedef struct file_run {
    lk_index_run           base;
    const lk_index_sorter *sorter;
    lk_file_reader        *file;
    lk_buffer_pool        *pool;
    lk_bytes               key;
    uint64_t               at;
} file_run;

static lk_rc read_run(
    const file_run *self, size_t column, uint64_t count, struct ArrowArray *out, lk_err *err)
{
    lk_row_range    range = {self->at, count};
    lk_field_source source = {.field = column == 0 ? &self->sorter->field : &self->sorter->id_field,
        .file = self->file,
        .column = column};
    return lk_file_decode(&source, &range, 1, self->pool, out, err);
}

static lk_rc next_of_file(lk_index_run *run, struct ArrowArray *values, struct ArrowArray *ids, lk_err *err)
{
    file_run *self = (file_run *)run;
    uint64_t  left = lk_file_reader_rows(self->file) - self->at;
    uint64_t  count = left < WINDOW_ROWS ? left : WINDOW_ROWS;
    if (count == 0) {
        return LK_OK;
    }
    lk_rc rc = read_run(self, 0, count, values, err);
    if (rc == LK_OK) {
        rc = read_run(self, 1, count, ids, err);
    }
    self->at += count;
    return rc;
}

static void close_file_run(lk_index_run *run)
{
    file_run *self = (file_run *)run;
    lk_file_reader_unref(self->file);
    lk_buffer_pool_close(self->pool);
    lk_change_discard(self->sorter->change, self->key);
    free(self);
}

void lk_index_sorter_add_run(lk_index_sorter *sorter, lk_index_run *run)
{
    lk_buf_append(&sorter->runs, &run, sizeof(lk_index_run *));
}

static lk_rc write_pairs(
    void *context, const struct ArrowArray *values, const struct ArrowArray *ids, lk_err *err)
{
    struct ArrowArray  columns[2] = {*values, *ids}; /* borrowed: not released here */
    struct ArrowArray *children[2] = {&columns[0], &columns[1]};
    struct ArrowArray  batch = {.length = values->length, .n_children = 2, .children = children};
    return lk_file_writer_write(context, &batch, err);
}

/* Writes the pairs that wait as one more run. */
static lk_rc spill(lk_index_sorter *self, lk_err *err)
{
    lk_change      *change = self->change;
    lk_file_writer *writer = NULL;
    lk_file_written written = {0};
    file_run       *run = calloc(1, sizeof *run);
    LK_ASSERT(run != NULL);
    run->base = (lk_index_run){next_of_file, close_file_run};
    run->sorter = self;
    run->pool = lk_buffer_pool_new(change->env->budget);
    run->key =
        lk_arena_format(&change->arena, "%.*s/run-%zu.lance", LK_FMT(self->directory), self->written++);
    lk_change_wrote(change, run->key);
    lk_index_sorter_add_run(self, &run->base);
    lk_rc rc = lk_file_writer_open(
        change->env->store, run->key, self->schema, FILE_MINOR, change->env->budget, &writer, err);
    if (rc == LK_OK) {
        rc = give_pending(self, write_pairs, writer, err);
        if (rc != LK_OK) {
            lk_file_writer_abandon(writer);
            return rc;
        }
        rc = lk_file_writer_finish(writer, &change->arena, &written, err);
    }
    if (rc == LK_OK) {
        rc = lk_file_reader_open(
            change->env->store, run->key, written.size_bytes, change->env->budget, &run->file, err);
    }
    return rc;
}

/* -- adding ---------------------------------------------------------------------------------------------- */
void lk_index_pair_schema(const struct ArrowSchema *field, struct ArrowSchema *out)
{
    lk_err err = {0};
    lk_schema_start(out, 2);
    lk_rc rc = lk_schema_copy(field, out->children[0], &err);
    if (rc == LK_OK) {
        rc = lk_column_parse(LK_LITERAL("ids:uint64"), out->children[1], &err);
    }
    LK_ASSERT(rc == LK_OK && ArrowSchemaSetName(out->children[0], "values") == NANOARROW_OK &&
              ArrowSchemaSetMetadata(out->children[0], NULL) == NANOARROW_OK);
    out->children[0]->flags |= ARROW_FLAG_NULLABLE;
}

lk_index_sorter *lk_index_sorter_new(lk_change *change, lk_bytes directory, const struct ArrowSchema *field,
    size_t run_bytes, lk_cancel *cancel)
{
    struct ArrowSchema pairs = {0};
    lk_err             err = {0};
    lk_index_sorter   *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    lk_index_pair_schema(field, &pairs);
    LK_ASSERT(lk_lance_schema_from_arrow(&pairs, &self->schema, &err) == LK_OK);
    lk_schema_move(pairs.children[0], &self->field);
    lk_schema_move(pairs.children[1], &self->id_field);
    lk_schema_release(&pairs);
    LK_ASSERT(lk_type_of(&self->field, &self->type));
    self->change = change;
    self->directory = directory;
    self->cancel = cancel;
    self->run_bytes = run_bytes == 0 ? LK_INDEX_RUN_BYTES : run_bytes;
    return self;
}

void lk_index_sorter_close(lk_index_sorter *self)
{
    if (self == NULL) {
        return;
    }
    lk_index_run **runs = (lk_index_run **)(void *)self->runs.data;
    for (size_t i = 0; i < self->runs.size / sizeof(lk_index_run *); i++) {
        if (runs[i] != NULL) {
            runs[i]->close(runs[i]);
        }
    }
    if (self->change->env->budget != NULL) {
        lk_budget_give(self->change->env->budget, self->charged);
    }
    clear(&self->values);
    clear(&self->ids);
    lk_buf_deinit(&self->values);
    lk_buf_deinit(&self->ids);
    lk_buf_deinit(&self->runs);
    lk_schema_release(&self->field);
    lk_schema_release(&self->id_field);
    lk_lance_schema_close(self->schema);
    free(self);
}

/* Charges what sorting takes, once. A small budget makes small runs. */
static lk_rc charge(lk_index_sorter *self, lk_err *err)
{
    enum { PARTS = 3 * MEMORY_IN_RUNS, RUN_BYTES_MIN = 64 * 1024 };
    lk_budget *budget = self->change->env->budget;
    if (budget == NULL || self->charged > 0) {
        return LK_OK;
    }
    if (self->run_bytes > budget->limit_bytes / PARTS) {
        self->run_bytes = budget->limit_bytes / PARTS;
        self->run_bytes = self->run_bytes < RUN_BYTES_MIN ? RUN_BYTES_MIN : self->run_bytes;
    }
    lk_rc rc = lk_budget_take(budget, self->run_bytes * MEMORY_IN_RUNS, err);
    self->charged = rc == LK_OK ? self->run_bytes * MEMORY_IN_RUNS : 0;
    return rc;
}

lk_rc lk_index_sorter_add(
    lk_index_sorter *self, struct ArrowArray *values, struct ArrowArray *ids, lk_err *err)
{
    lk_rc rc = charge(self, err);
    self->pending_bytes +=
        lk_array_bytes(&self->field, values) + (size_t)values->length * (sizeof(uint64_t) + 16);
    lk_buf_append(&self->values, values, sizeof *values);
    lk_buf_append(&self->ids, ids, sizeof *ids);
    *values = (struct ArrowArray){0};
    *ids = (struct ArrowArray){0};
    return rc == LK_OK && self->pending_bytes >= self->run_bytes ? spill(self, err) : rc;
}

/* -- merging --------------------------------------------------------------------------------------------- */
static void drop_window(window *w)
{
    lk_shared_array_unref(w->values);
    lk_shared_array_unref(w->ids);
    *w = (window){.run = w->run};
}

static int64_t window_rows(const window *w)
{
    return w->values == NULL ? 0 : lk_shared_array_get(w->values)->length;
}

/* Shows the run's next pairs where the window is used up. */
static lk_rc fill_window(window *w, lk_err *err)
{
    struct ArrowArray values = {0}, ids = {0};
    if (w->run == NULL || w->at < window_rows(w)) {
        return LK_OK;
    }
    drop_window(w);
    lk_rc rc = w->run->next(w->run, &values, &ids, err);
    if (rc == LK_OK && values.release != NULL) {
        w->values = lk_array_share(&values);
        w->ids = lk_array_share(&ids);
    } else {
        w->run = NULL;
    }
    lk_array_release(&values);
    lk_array_release(&ids);
    return rc;
}

/* The window with the least last value: what lies above it must wait. */
static const window *find_bound(const lk_index_sorter *self, const window *windows, size_t count)
{
    const window *bound = NULL;
    for (size_t i = 0; i < count; i++) {
        const window *w = &windows[i];
        if (w->values == NULL) {
            continue;
        }
        if (bound == NULL || lk_index_compare(&self->type, lk_shared_array_get(w->values), window_rows(w) - 1,
                                 lk_shared_array_get(bound->values), window_rows(bound) - 1) < 0) {
            bound = w;
        }
    }
    return bound;
}

/* How much of a window is not above the bound. */
static int64_t count_below(const lk_index_sorter *self, const window *w, const window *bound)
{
    int64_t low = w->at, high = window_rows(w);
    while (low < high && w != bound) {
        int64_t middle = low + (high - low) / 2;
        int     order = lk_index_compare(&self->type, lk_shared_array_get(w->values), middle,
                lk_shared_array_get(bound->values), window_rows(bound) - 1);
        if (order <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return high;
}

static void add_slice(lk_buf *list, lk_shared_array *from, int64_t at, int64_t end)
{
    struct ArrowArray slice = {0};
    lk_shared_array_slice(from, at, end - at, &slice);
    lk_buf_append(list, &slice, sizeof slice);
}

static lk_rc merge_round(lk_index_sorter *self, window *windows, size_t count, bool *done,
    lk_index_sink *sink, void *context, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = fill_window(&windows[i], err);
    }
    const window *bound = find_bound(self, windows, count);
    *done = bound == NULL;
    for (size_t i = 0; rc == LK_OK && !*done && i < count; i++) {
        windows[i].end = windows[i].values == NULL ? 0 : count_below(self, &windows[i], bound);
    }
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        window *w = &windows[i];
        if (w->values != NULL && w->end > w->at) {
            add_slice(&self->values, w->values, w->at, w->end);
            add_slice(&self->ids, w->ids, w->at, w->end);
            w->at = w->end;
        }
    }
    return rc == LK_OK ? give_pending(self, sink, context, err) : rc;
}

static lk_rc merge(lk_index_sorter *self, lk_index_sink *sink, void *context, lk_err *err)
{
    size_t         count = self->runs.size / sizeof(lk_index_run *);
    lk_index_run **runs = (lk_index_run **)(void *)self->runs.data;
    window        *windows = calloc(count + 1, sizeof *windows);
    lk_rc          rc = LK_OK;
    bool           done = false;
    LK_ASSERT(windows != NULL);
    for (size_t i = 0; i < count; i++) {
        windows[i].run = runs[i];
    }
    while (rc == LK_OK && !done) {
        rc = merge_round(self, windows, count, &done, sink, context, err);
    }
    for (size_t i = 0; i < count; i++) {
        drop_window(&windows[i]);
    }
    free(windows);
    return rc;
}

lk_rc lk_index_sorter_finish(lk_index_sorter *self, lk_index_sink *sink, void *context, lk_err *err)
{
    if (self->runs.size == 0) {
        return give_pending(self, sink, context, err);
    }
    lk_rc rc = array_count(&self->values) == 0 ? LK_OK : spill(self, err);
    return rc == LK_OK ? merge(self, sink, context, err) : rc;
}
