/*
 * straight.c - a statement that is one table, plain columns, exact filters and LIMIT: the snapshot's own
 * batches, every Arrow type unchanged. count(*) is here too: a number the snapshot knows, or rows that are
 * only counted.
 *
 * It fits only where DuckDB would give the same rows: names resolve to one column each, no column twice,
 * every literal means the same in the column's type. Threads: a result is confined to its reader.
 */
#include "sql/straight_priv.h"

#include "arrow/schema.h"
#include "sql/literal_priv.h"

#include <stdlib.h>
#include <strings.h>

/* -- names ----------------------------------------------------------------------------------------- */

/* The one column of this name in any letter case; none, or two, are left to DuckDB's rules and messages. */
static bool find_column(const struct ArrowSchema *schema, lk_bytes name, size_t *out)
{
    size_t found = 0;
    for (int64_t i = 0; i < schema->n_children; i++) {
        const char *field = schema->children[i]->name;
        if (strlen(field) == name.size && strncasecmp(field, name.data, name.size) == 0) {
            *out = (size_t)i;
            found++;
        }
    }
    return found == 1;
}

/* -- filters --------------------------------------------------------------------------------------- */

static const lk_predicate *predicate_of(
    const lk_filter *filter, const struct ArrowSchema *schema, lk_arena *arena);

static bool read_values(
    const lk_filter *filter, const struct ArrowSchema *field, lk_arena *arena, lk_predicate *out)
{
    lk_value *values = lk_arena_take(arena, (filter->literal_count + 1) * sizeof *values);
    for (size_t i = 0; i < filter->literal_count; i++) {
        if (!lk_literal_value(&filter->literals[i], field, &values[i])) {
            return false;
        }
    }
    out->values = values;
    out->value_count = filter->literal_count;
    return true;
}

static const lk_predicate *predicate_of(
    const lk_filter *filter, const struct ArrowSchema *schema, lk_arena *arena)
{
    lk_predicate *out = lk_arena_take(arena, sizeof *out);
    out->kind = filter->kind;
    out->compare = filter->compare;
    out->child_count = filter->child_count;
    out->children = lk_arena_take(arena, (filter->child_count + 1) * sizeof *out->children);
    for (size_t i = 0; i < filter->child_count; i++) {
        out->children[i] = predicate_of(filter->children[i], schema, arena);
        if (out->children[i] == NULL) {
            return NULL;
        }
    }
    if (filter->child_count > 0) {
        return out;
    }
    if (!find_column(schema, filter->column, &out->column) ||
        !read_values(filter, schema->children[out->column], arena, out)) {
        return NULL;
    }
    return out;
}

/* -- columns --------------------------------------------------------------------------------------- */

typedef struct chosen {
    size_t   *columns;
    lk_bytes *names;
    size_t    count;
} chosen;

/* Marks what a star leaves out; false when such a name is not a column. */
static bool exclude(const lk_shape_item *item, const struct ArrowSchema *schema, uint8_t *left_out)
{
    memset(left_out, 0, (size_t)schema->n_children);
    for (size_t i = 0; i < item->excluded_count; i++) {
        size_t column = 0;
        if (!find_column(schema, item->excluded[i], &column)) {
            return false;
        }
        left_out[column] = 1;
    }
    return true;
}

static bool choose(const lk_shape *shape, const struct ArrowSchema *schema, lk_arena *arena, chosen *out)
{
    size_t   all = (size_t)schema->n_children;
    uint8_t *seen = lk_arena_take(arena, all + 1), *left_out = lk_arena_take(arena, all + 1);
    out->columns = lk_arena_take(arena, (all + 1) * sizeof *out->columns);
    out->names = lk_arena_take(arena, (all + 1) * sizeof *out->names);
    for (size_t i = 0; i < shape->item_count; i++) {
        const lk_shape_item *item = &shape->items[i];
        size_t               first = 0, last = all;
        if (!exclude(item, schema, left_out) || (!item->star && !find_column(schema, item->column, &first))) {
            return false;
        }
        last = item->star ? all : first + 1;
        for (size_t k = first; k < last; k++) {
            if (left_out[k] != 0) {
                continue;
            }
            if (seen[k]++ > 0) {
                return false;
            }
            out->names[out->count] =
                item->alias.size > 0 ? item->alias : lk_bytes_of(schema->children[k]->name);
            out->columns[out->count++] = k;
        }
    }
    return out->count > 0;
}

static lk_rc rename_field(struct ArrowSchema *field, lk_bytes name, lk_arena *arena, lk_err *err)
{
    return ArrowSchemaSetName(field, lk_arena_text(arena, name)) == NANOARROW_OK
               ? LK_OK
               : lk_fail(err, LK_E_LIMIT, "column name");
}

static lk_rc result_schema(const chosen *c, const struct ArrowSchema *schema, lk_straight *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    lk_schema_start(&out->schema, c->count);
    for (size_t i = 0; rc == LK_OK && i < c->count; i++) {
        rc = lk_schema_copy(schema->children[c->columns[i]], out->schema.children[i], err);
        if (rc == LK_OK) {
            rc = rename_field(out->schema.children[i], c->names[i], &out->arena, err);
        }
    }
    return rc;
}

static lk_rc count_schema(const lk_shape *shape, lk_straight *out, lk_err *err)
{
    lk_schema_start(&out->schema, 1);
    ArrowSchemaInit(out->schema.children[0]);
    if (ArrowSchemaSetType(out->schema.children[0], NANOARROW_TYPE_INT64) != NANOARROW_OK) {
        return lk_fail(err, LK_E_LIMIT, "count");
    }
    return rename_field(out->schema.children[0], shape->count_name, &out->arena, err);
}

/* -- the plan -------------------------------------------------------------------------------------- */

lk_rc lk_straight_plan(
    const lk_shape *shape, const struct ArrowSchema *schema, lk_straight *out, bool *fits, lk_err *err)
{
    *out = (lk_straight){.count = shape->count, .limit = shape->limit};
    chosen c = {0};
    *fits = shape->count || choose(shape, schema, &out->arena, &c);
    if (*fits && shape->filter != NULL) {
        out->predicate = predicate_of(shape->filter, schema, &out->arena);
        *fits = out->predicate != NULL;
    }
    lk_rc rc = LK_OK;
    if (*fits) {
        rc = shape->count ? count_schema(shape, out, err) : result_schema(&c, schema, out, err);
        out->columns = c.columns;
        out->column_count = c.count;
    }
    if (rc != LK_OK || !*fits) {
        lk_straight_close(out);
    }
    return rc;
}

void lk_straight_close(lk_straight *straight)
{
    lk_schema_release(&straight->schema);
    lk_buf_deinit(&straight->addresses);
    lk_arena_close(&straight->arena);
}

/* -- the result ------------------------------------------------------------------------------------ */

typedef struct result {
    lk_batches         base;
    lk_straight        plan; /* its schema has moved to base */
    lk_table_snapshot *snapshot;
    lk_cancel         *cancel;
    lk_batches        *rows; /* NULL when nothing needs reading */
    bool               done;
} result;

static void close_result(lk_batches *batches)
{
    result *self = (result *)batches;
    lk_batches_close(self->rows);
    lk_schema_release(&self->base.schema);
    lk_straight_close(&self->plan);
    lk_table_snapshot_unref(self->snapshot);
    free(self);
}

static lk_rc next_rows(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    result *self = (result *)batches;
    *out = (struct ArrowArray){0};
    while (!self->done) {
        lk_rc rc = lk_cancel_check(self->cancel, err);
        if (rc == LK_OK) {
            rc = lk_batches_next(self->rows, out, err);
        }
        self->done = rc != LK_OK || out->release == NULL;
        if (rc != LK_OK || (out->release != NULL && out->length > 0)) {
            return rc;
        }
        lk_array_release(out);
    }
    return LK_OK;
}

static lk_rc count_rows(result *self, int64_t *count, lk_err *err)
{
    struct ArrowArray batch = {0};
    lk_rc             rc = next_rows(&self->base, &batch, err);
    while (rc == LK_OK && batch.release != NULL) {
        *count += batch.length;
        lk_array_release(&batch);
        rc = next_rows(&self->base, &batch, err);
    }
    return rc;
}

static lk_rc next_count(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    result *self = (result *)batches;
    *out = (struct ArrowArray){0};
    if (self->done) {
        return LK_OK;
    }
    int64_t count = 0;
    lk_rc   rc = LK_OK;
    if (self->rows == NULL) {
        count = (int64_t)self->snapshot->ops->row_count(self->snapshot);
    } else {
        rc = count_rows(self, &count, err);
    }
    self->done = true;
    if (rc != LK_OK) {
        return rc;
    }
    struct ArrowArray one = {0};
    if (ArrowArrayInitFromSchema(&one, &self->base.schema, NULL) != NANOARROW_OK ||
        ArrowArrayStartAppending(&one) != NANOARROW_OK ||
        ArrowArrayAppendInt(one.children[0], count) != NANOARROW_OK ||
        ArrowArrayFinishElement(&one) != NANOARROW_OK ||
        ArrowArrayFinishBuildingDefault(&one, NULL) != NANOARROW_OK) {
        lk_array_release(&one);
        return lk_fail(err, LK_E_LIMIT, "count");
    }
    lk_array_move(&one, out);
    return LK_OK;
}

bool lk_straight_is(const lk_batches *batches)
{
    return batches->close == close_result;
}

lk_rc lk_straight_run(
    lk_straight *straight, lk_table_snapshot *snapshot, lk_cancel *cancel, lk_batches **out, lk_err *err)
{
    result *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->plan = *straight;
    *straight = (lk_straight){0};
    self->base.next = self->plan.count ? next_count : next_rows;
    self->base.close = close_result;
    lk_schema_move(&self->plan.schema, &self->base.schema);
    self->snapshot = lk_table_snapshot_ref(snapshot);
    self->cancel = cancel;
    self->done = self->plan.limit == 0;

    lk_scan_options    options = {.columns = self->plan.columns,
           .column_count = self->plan.column_count,
           .no_columns = self->plan.count,
           .predicate = self->plan.predicate,
           .limit = self->plan.count ? UINT64_MAX : self->plan.limit,
           .cancel = cancel};
    const lk_take_rows winners = {LK_TAKE_ADDRESS, (const uint64_t *)(const void *)self->plan.addresses.data,
        self->plan.addresses.size / sizeof(uint64_t)};
    bool               reads = !self->done && (!self->plan.count || self->plan.predicate != NULL);
    lk_rc              rc = LK_OK;
    if (reads && self->plan.taken) {
        rc = snapshot->ops->take(snapshot, &winners, &options, &self->rows, err);
    } else if (reads) {
        rc = snapshot->ops->scan(snapshot, &options, &self->rows, err);
    }
    if (rc != LK_OK) {
        close_result(&self->base);
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}
