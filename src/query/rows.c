/* rows.c - see rows.h. */
#include "query/rows.h"

#include "arrow/schema.h"

#include <stdlib.h>

typedef struct rows {
    lk_batches    base;
    lk_row_source source;
    uint64_t      rows, rows_max;
    bool          ended;
} rows;

/* nanoarrow reports only memory failure for the calls below. */
static void must(ArrowErrorCode code)
{
    LK_ASSERT(code == NANOARROW_OK);
}

static lk_rc fill(rows *self, struct ArrowArray *batch, lk_err *err)
{
    while (!self->ended && batch->length < LK_ROWS_BATCH) {
        bool more = false;
        if (self->rows == self->rows_max) {
            break;
        }
        lk_rc rc = self->source.next(self->source.context, batch, &more, err);
        if (rc != LK_OK) {
            return rc;
        }
        self->ended = !more;
        if (more) {
            must(ArrowArrayFinishElement(batch));
            self->rows++;
        }
    }
    return LK_OK;
}

/* Whether a row beyond the limit exists, by asking for one into a batch that is thrown away. */
static lk_rc check_limit(rows *self, lk_err *err)
{
    struct ArrowArray extra = {0};
    must(ArrowArrayInitFromSchema(&extra, &self->base.schema, NULL));
    must(ArrowArrayStartAppending(&extra));
    bool  more = false;
    lk_rc rc = self->source.next(self->source.context, &extra, &more, err);
    lk_array_release(&extra);
    self->ended = true;
    if (rc == LK_OK && more) {
        rc = lk_fail(err, LK_E_DISCOVERY_ROWS, "more than %llu rows", (unsigned long long)self->rows_max);
        lk_detail(err, "more than %llu rows match; narrow the schema or table pattern",
            (unsigned long long)self->rows_max);
    }
    return rc;
}

static lk_rc rows_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    rows *self = (rows *)batches;
    *out = (struct ArrowArray){0};
    if (self->ended) {
        return LK_OK;
    }
    if (self->rows == self->rows_max) {
        return check_limit(self, err);
    }
    struct ArrowArray batch = {0};
    must(ArrowArrayInitFromSchema(&batch, &self->base.schema, NULL));
    must(ArrowArrayStartAppending(&batch));
    lk_rc rc = fill(self, &batch, err);
    if (rc == LK_OK && batch.length > 0) {
        must(ArrowArrayFinishBuildingDefault(&batch, NULL));
        lk_array_move(&batch, out);
    }
    lk_array_release(&batch);
    return rc;
}

static void rows_close(lk_batches *batches)
{
    rows *self = (rows *)batches;
    if (self->source.close != NULL) {
        self->source.close(self->source.context);
    }
    lk_schema_release(&self->base.schema);
    free(self);
}

lk_batches *lk_rows_open(struct ArrowSchema *schema, lk_row_source source, uint64_t rows_max)
{
    rows *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->base = (lk_batches){.next = rows_next, .close = rows_close};
    lk_schema_move(schema, &self->base.schema);
    self->source = source;
    self->rows_max = rows_max;
    return &self->base;
}

static lk_rc nothing(void *context, struct ArrowArray *batch, bool *more, lk_err *err)
{
    (void)context, (void)batch, (void)err;
    *more = false;
    return LK_OK;
}

lk_batches *lk_rows_none(struct ArrowSchema *schema)
{
    return lk_rows_open(schema, (lk_row_source){.next = nothing}, 1);
}

void lk_rows_schema(const lk_row_column *columns, size_t count, struct ArrowSchema *out)
{
    ArrowSchemaInit(out);
    must(ArrowSchemaSetTypeStruct(out, (int64_t)count));
    for (size_t i = 0; i < count; i++) {
        struct ArrowSchema *child = out->children[i];
        must(ArrowSchemaSetType(child, columns[i].type));
        must(ArrowSchemaSetName(child, columns[i].name));
        child->flags = columns[i].nullable ? ARROW_FLAG_NULLABLE : 0;
        if (columns[i].type == NANOARROW_TYPE_LIST) { /* the only lists here hold text */
            must(ArrowSchemaSetType(child->children[0], NANOARROW_TYPE_STRING));
            child->children[0]->flags = 0;
        }
    }
}

void lk_row_text(struct ArrowArray *child, lk_bytes text)
{
    if (text.data == NULL) {
        lk_row_null(child);
    } else {
        must(ArrowArrayAppendBytes(child, (struct ArrowBufferView){{text.data}, (int64_t)text.size}));
    }
}

void lk_row_int(struct ArrowArray *child, int64_t value)
{
    must(ArrowArrayAppendInt(child, value));
}

void lk_row_null(struct ArrowArray *child)
{
    must(ArrowArrayAppendNull(child, 1));
}
