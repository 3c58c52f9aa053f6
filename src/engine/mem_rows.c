/* mem_rows.c - see mem_rows.h. */
#include "engine/mem_rows.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct mem_rows {
    lk_batches base;
    int64_t    next, end, step;
} mem_rows;

void lk_mem_rows_schema(struct ArrowSchema *out)
{
    ArrowSchemaInit(out);
    bool made = ArrowSchemaSetTypeStruct(out, 2) == NANOARROW_OK &&
                ArrowSchemaSetType(out->children[0], NANOARROW_TYPE_INT64) == NANOARROW_OK &&
                ArrowSchemaSetName(out->children[0], "id") == NANOARROW_OK &&
                ArrowSchemaSetType(out->children[1], NANOARROW_TYPE_STRING) == NANOARROW_OK &&
                ArrowSchemaSetName(out->children[1], "name") == NANOARROW_OK;
    LK_ASSERT(made);
    out->children[0]->flags = 0;
    out->flags = 0;
}

static bool add_row(struct ArrowArray *batch, int64_t id)
{
    char text[32];
    bool added = ArrowArrayAppendInt(batch->children[0], id) == NANOARROW_OK;
    if (id % 3 == 0) {
        added = added && ArrowArrayAppendNull(batch->children[1], 1) == NANOARROW_OK;
    } else {
        int                          size = snprintf(text, sizeof text, "n%lld", (long long)id);
        const struct ArrowStringView view = {text, size};
        added = added && ArrowArrayAppendString(batch->children[1], view) == NANOARROW_OK;
    }
    return added && ArrowArrayFinishElement(batch) == NANOARROW_OK;
}

static lk_rc next(lk_batches *base, struct ArrowArray *out, lk_err *err)
{
    (void)err;
    mem_rows *rows = (mem_rows *)base;
    *out = (struct ArrowArray){0};
    if (rows->next == rows->end) {
        return LK_OK;
    }
    bool made = ArrowArrayInitFromSchema(out, &base->schema, NULL) == NANOARROW_OK &&
                ArrowArrayStartAppending(out) == NANOARROW_OK;
    for (int64_t i = 0; made && i < rows->step && rows->next < rows->end; i++) {
        made = add_row(out, rows->next++);
    }
    made = made && ArrowArrayFinishBuildingDefault(out, NULL) == NANOARROW_OK;
    LK_ASSERT(made);
    return LK_OK;
}

static void close_rows(lk_batches *base)
{
    lk_schema_release(&base->schema);
    free(base);
}

lk_batches *lk_mem_rows_open(int64_t first, int64_t count, int64_t batch_rows)
{
    mem_rows *rows = calloc(1, sizeof *rows);
    LK_ASSERT(rows != NULL && batch_rows > 0);
    rows->base.next = next;
    rows->base.close = close_rows;
    rows->next = first;
    rows->end = first + count;
    rows->step = batch_rows;
    lk_mem_rows_schema(&rows->base.schema);
    return &rows->base;
}

lk_rc lk_mem_rows_sum(lk_batches *take, uint64_t *rows, int64_t *sum, lk_err *err)
{
    *rows = 0;
    *sum = 0;
    for (;;) {
        struct ArrowArray batch = {0};
        lk_rc             rc = lk_batches_next(take, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            lk_batches_close(take);
            return rc;
        }
        const struct ArrowArray *ids = batch.n_children == 0 ? NULL : batch.children[0];
        for (int64_t i = 0; i < batch.length; i++) {
            *sum += ids == NULL ? 0 : ((const int64_t *)ids->buffers[1])[ids->offset + batch.offset + i];
        }
        *rows += (uint64_t)batch.length;
        lk_array_release(&batch);
    }
}
