/*
 * lance_set.c - see lance_set.h. The engine gives new values and addresses (`SELECT (expression), _rowid ...`); for each
 * of its batches the other columns are taken by address, so values that are not set never pass through the engine.
 */
#include "cli/lance_set.h"

#include "arrow/cast.h"
#include "arrow/schema.h"
#include "cli/cli.h"
#include "cli/lance_sql.h"
#include "lance/take.h"
#include "lance/view.h"

#include <stdlib.h>
#include <string.h>

typedef struct assignment {
    lk_bytes column, expression;
} assignment;

struct lk_cli_set {
    lk_row_changer    changer;
    lk_cli_lance_sql *sql;
    assignment       *assignments;
    size_t            count;
    const char       *condition;
};

/* -- batches of changed rows -------------------------------------------------------------------------------- */

typedef struct changed_rows {
    lk_batches        base;
    lk_dataset       *version;
    lk_batches       *values; /* the new values, then addresses */
    size_t            column_count, set_count;
    size_t           *set_of;  /* by column: number of its value, or SIZE_MAX */
    size_t           *others;  /* the columns that are not set */
    lk_shared_array **current; /* of one batch of values, in the table's types; the addresses last */
    int64_t           length, at;
    lk_batches       *taken; /* the other columns of these rows; NULL: there are none */
} changed_rows;

static void drop_current(changed_rows *self)
{
    for (size_t i = 0; i <= self->set_count; i++) {
        lk_shared_array_unref(self->current[i]);
        self->current[i] = NULL;
    }
    lk_batches_close(self->taken);
    self->taken = NULL;
    self->length = self->at = 0;
}

static lk_rc cast_values(changed_rows *self, lk_shared_array *batch, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t column = 0; column < self->column_count && rc == LK_OK; column++) {
        size_t            number = self->set_of[column];
        struct ArrowArray value = {0}, cast = {0};
        if (number == SIZE_MAX) {
            continue;
        }
        lk_shared_batch_column(batch, number, &value);
        lk_shared_array *shared = lk_array_share(&value);
        rc = lk_array_cast(
            self->values->schema.children[number], shared, self->base.schema.children[column], 0, &cast, err);
        lk_shared_array_unref(shared);
        if (rc == LK_OK) {
            self->current[number] = lk_array_share(&cast);
        }
    }
    return rc;
}

static lk_rc take_others(changed_rows *self, lk_err *err)
{
    const struct ArrowArray *ids = lk_shared_array_get(self->current[self->set_count]);
    const lk_take_rows       rows = {
              LK_TAKE_ADDRESS, (const uint64_t *)ids->buffers[1] + ids->offset, (size_t)ids->length};
    const lk_scan_options options = {.columns = self->others,
        .column_count = self->column_count - self->set_count,
        .limit = UINT64_MAX,
        .blobs = LK_BLOBS_STORED};
    return options.column_count == 0 ? LK_OK
                                     : lk_dataset_take(self->version, &rows, &options, &self->taken, err);
}

/* The next batch of values; length 0 at the end. */
static lk_rc next_values(changed_rows *self, lk_err *err)
{
    struct ArrowArray batch = {0}, addresses = {0};
    drop_current(self);
    lk_rc rc = lk_batches_next(self->values, &batch, err);
    if (rc != LK_OK || batch.release == NULL) {
        return rc;
    }
    self->length = batch.length;
    lk_shared_array *shared = lk_array_share(&batch);
    lk_shared_batch_column(shared, self->set_count, &addresses);
    self->current[self->set_count] = lk_array_share(&addresses);
    rc = cast_values(self, shared, err);
    lk_shared_array_unref(shared);
    return rc == LK_OK && self->length > 0 ? take_others(self, err) : rc;
}

/* Rows [at, at + length) of the values, beside as many taken rows. */
static void put_together(changed_rows *self, lk_shared_array *taken, int64_t length, struct ArrowArray *out)
{
    struct ArrowArray *columns = calloc(self->column_count + 1, sizeof *columns);
    size_t             other = 0;
    LK_ASSERT(columns != NULL);
    for (size_t column = 0; column <= self->column_count; column++) {
        size_t number = column == self->column_count ? self->set_count : self->set_of[column];
        if (number == SIZE_MAX) {
            lk_shared_batch_column(taken, other++, &columns[column]);
        } else {
            lk_shared_array_slice(self->current[number], self->at, length, &columns[column]);
        }
    }
    lk_batch_of_columns(columns, self->column_count + 1, length, out);
    free(columns);
    self->at += length;
}

static lk_rc next_taken(changed_rows *self, struct ArrowArray *out, lk_err *err)
{
    struct ArrowArray batch = {0};
    if (self->taken == NULL) {
        put_together(self, NULL, self->length, out);
        return LK_OK;
    }
    lk_rc rc = lk_batches_next(self->taken, &batch, err);
    if (rc == LK_OK && (batch.release == NULL || batch.length > self->length - self->at)) {
        lk_array_release(&batch);
        rc = lk_fail(err, LK_E_INTERNAL, "other rows came than were asked for");
    }
    if (rc != LK_OK) {
        return rc;
    }
    int64_t          length = batch.length;
    lk_shared_array *shared = lk_array_share(&batch);
    put_together(self, shared, length, out);
    lk_shared_array_unref(shared);
    return LK_OK;
}

static lk_rc next_changed(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    changed_rows *self = (changed_rows *)batches;
    while (self->at == self->length) {
        lk_rc rc = next_values(self, err);
        if (rc != LK_OK || self->current[self->set_count] == NULL) {
            return rc;
        }
    }
    return next_taken(self, out, err);
}

static void close_changed(lk_batches *batches)
{
    changed_rows *self = (changed_rows *)batches;
    drop_current(self);
    lk_batches_close(self->values);
    lk_dataset_unref(self->version);
    lk_schema_release(&self->base.schema);
    free(self->set_of);
    free(self->others);
    free(self->current);
    free(self);
}

/* -- one change -------------------------------------------------------------------------------------------------- */

static lk_rc find_columns(
    const lk_cli_set *set, changed_rows *rows, const struct ArrowSchema *table, lk_err *err)
{
    for (size_t i = 0; i < rows->column_count; i++) {
        rows->set_of[i] = SIZE_MAX;
    }
    for (size_t i = 0; i < set->count; i++) {
        lk_bytes name = set->assignments[i].column;
        int64_t  column = lk_schema_find(table, name);
        int      shown = (int)(name.size < 100 ? name.size : 100);
        if (column < 0) {
            return lk_cli_usage(err, "there is no column %.*s", shown, name.data);
        }
        if (rows->set_of[column] != SIZE_MAX) {
            return lk_cli_usage(err, "column %.*s is set twice", shown, name.data);
        }
        rows->set_of[column] = i;
    }
    size_t other = 0;
    for (size_t i = 0; i < rows->column_count; i++) {
        if (rows->set_of[i] == SIZE_MAX) {
            rows->others[other++] = i;
        }
    }
    return LK_OK;
}

/* The table's columns, those that are set with their values for a dictionary (which a writer takes), and the addresses. */
static lk_rc schema_of(
    const struct ArrowSchema *table, const size_t *set_of, struct ArrowSchema *out, lk_err *err)
{
    const lk_view      view = {.dictionary_values = true, .blobs = LK_BLOBS_STORED};
    struct ArrowSchema values = {0};
    lk_rc              rc = lk_view_schema(table, view, &values, err);
    lk_schema_start(out, (size_t)table->n_children + 1);
    for (int64_t i = 0; rc == LK_OK && i < table->n_children; i++) {
        lk_schema_release(out->children[i]);
        rc = lk_schema_copy((set_of[i] != SIZE_MAX ? &values : table)->children[i], out->children[i], err);
    }
    lk_schema_release(&values);
    return rc == LK_OK ? lk_column_parse(LK_LITERAL("_rowaddr:uint64"), out->children[table->n_children], err)
                       : rc;
}

/* as_text: which values are to come as their text. */
static lk_rc run(
    const lk_cli_set *set, lk_dataset *version, const bool *as_text, lk_batches **out, lk_err *err)
{
    const lk_cli_lance_table table = {"dataset", version};
    lk_buf                   text = {0};
    lk_buf_append_text(&text, "SELECT ");
    for (size_t i = 0; i < set->count; i++) { /* a comment at an end must not take the parenthesis along */
        lk_buf_format(&text,
            as_text[i] ? "CAST((\n%.*s\n) AS VARCHAR) AS value_%zu, " : "(\n%.*s\n) AS value_%zu, ",
            LK_FMT(set->assignments[i].expression), i);
    }
    lk_buf_append_text(&text, "_rowid FROM lake.lance.dataset");
    if (set->condition != NULL) {
        lk_buf_format(&text, " WHERE (\n%s\n)", set->condition);
    }
    lk_rc rc = lk_cli_lance_sql_run(set->sql, lk_buf_view(&text), &table, 1, set->count + 1, out, err);
    lk_buf_deinit(&text);
    return rc;
}

/* Which values go into text columns and are none: numbers, booleans, times. Their text is what SQL makes of them. */
static bool needs_text(const changed_rows *self, bool *as_text)
{
    bool any = false;
    for (size_t column = 0; column < self->column_count; column++) {
        size_t  number = self->set_of[column];
        lk_type to, from;
        if (number == SIZE_MAX || !lk_type_of(self->base.schema.children[column], &to) ||
            !lk_type_of(self->values->schema.children[number], &from)) {
            continue;
        }
        bool text = to.id == LK_TYPE_UTF8 || to.id == LK_TYPE_LARGE_UTF8;
        as_text[number] = text && !to.dictionary && !from.dictionary && !lk_type_is_bytes(from.id) &&
                          (from.layout == LK_LAYOUT_BITS || from.layout == LK_LAYOUT_FIXED);
        any = any || as_text[number];
    }
    return any;
}

static lk_rc run_for(const lk_cli_set *set, changed_rows *self, lk_err *err)
{
    bool *as_text = calloc(set->count + 1, sizeof *as_text);
    LK_ASSERT(as_text != NULL);
    lk_rc rc = run(set, self->version, as_text, &self->values, err);
    if (rc == LK_OK && needs_text(self, as_text)) {
        lk_batches_close(self->values);
        self->values = NULL;
        rc = run(set, self->version, as_text, &self->values, err);
    }
    free(as_text);
    return rc;
}

static lk_rc change(void *context, lk_dataset *version, lk_row_set *removed, lk_batches **out, lk_err *err)
{
    const lk_cli_set         *set = context;
    const struct ArrowSchema *table = lk_dataset_schema(version);
    changed_rows             *self = calloc(1, sizeof *self);
    (void)removed;
    LK_ASSERT(self != NULL);
    self->base.next = next_changed;
    self->base.close = close_changed;
    self->version = lk_dataset_ref(version);
    self->column_count = (size_t)table->n_children;
    self->set_count = set->count;
    self->set_of = calloc(self->column_count + 1, sizeof *self->set_of);
    self->others = calloc(self->column_count + 1, sizeof *self->others);
    self->current = calloc(set->count + 1, sizeof *self->current);
    LK_ASSERT(self->set_of != NULL && self->others != NULL && self->current != NULL);
    lk_rc rc = find_columns(set, self, table, err);
    if (rc == LK_OK) {
        rc = schema_of(table, self->set_of, &self->base.schema, err);
    }
    if (rc == LK_OK) {
        rc = run_for(set, self, err);
    }
    if (rc != LK_OK) {
        close_changed(&self->base);
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}

/* -- opening ------------------------------------------------------------------------------------------------------ */

static lk_bytes trimmed(lk_bytes text)
{
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text = (lk_bytes){text.data + 1, text.size - 1};
    }
    while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t')) {
        text.size--;
    }
    return text;
}

static lk_rc parse_assignment(lk_bytes text, assignment *out, lk_err *err)
{
    const char *equals = text.size == 0 ? NULL : memchr(text.data, '=', text.size);
    if (equals != NULL) {
        size_t size = (size_t)(equals - text.data);
        out->column = trimmed((lk_bytes){text.data, size});
        out->expression = trimmed((lk_bytes){equals + 1, text.size - size - 1});
    }
    return equals != NULL && out->column.size > 0 && out->expression.size > 0
               ? LK_OK
               : lk_cli_usage(err, "say COLUMN=EXPRESSION, as in --set 'speed=speed * 2'");
}

static bool keeps(void *context, const struct ArrowSchema *column)
{
    const lk_cli_set *self = context;
    bool              set = false;
    for (size_t i = 0; i < self->count && !set; i++) {
        set = lk_bytes_equal(self->assignments[i].column, lk_bytes_of(column->name));
    }
    return !set;
}

lk_rc lk_cli_set_open(const lk_config *config, const lk_bytes *texts, size_t count, const char *condition,
    lk_cli_set **out, lk_err *err)
{
    lk_cli_set *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->changer = (lk_row_changer){.change = change, .keeps = keeps, .context = self};
    self->assignments = calloc(count + 1, sizeof *self->assignments);
    self->count = count;
    self->condition = condition;
    LK_ASSERT(self->assignments != NULL);
    lk_rc rc = condition != NULL && condition[strspn(condition, " \t\r\n")] == '\0'
                   ? lk_cli_usage(err, "the condition is empty")
                   : LK_OK;
    for (size_t i = 0; i < count && rc == LK_OK; i++) {
        rc = parse_assignment(texts[i], &self->assignments[i], err);
    }
    if (rc == LK_OK) {
        rc = lk_cli_lance_sql_open(config, &self->sql, err);
    }
    if (rc != LK_OK) {
        lk_cli_set_close(self);
        return rc;
    }
    *out = self;
    return LK_OK;
}

void lk_cli_set_close(lk_cli_set *set)
{
    if (set != NULL) {
        lk_cli_lance_sql_close(set->sql);
        free(set->assignments);
        free(set);
    }
}

const lk_row_changer *lk_cli_set_changer(const lk_cli_set *set)
{
    return &set->changer;
}
