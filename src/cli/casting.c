/* casting.c - see casting.h. */
#include "cli/casting.h"

#include "arrow/cast.h"
#include "arrow/schema.h"

#include <stdlib.h>

typedef struct casting {
    lk_batches  base; /* schema: the target's */
    lk_batches *source;
    int64_t     rows;
} casting;

static lk_rc next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    casting          *self = (casting *)batches;
    struct ArrowArray batch = {0};
    lk_rc             rc = lk_batches_next(self->source, &batch, err);
    if (rc != LK_OK || batch.release == NULL) {
        *out = (struct ArrowArray){0};
        return rc;
    }
    int64_t          count = batch.length;
    lk_shared_array *shared = lk_array_share(&batch);
    rc = lk_batch_cast(&self->source->schema, shared, &self->base.schema, self->rows, out, err);
    lk_shared_array_unref(shared);
    self->rows += count;
    return rc;
}

static void close_casting(lk_batches *batches)
{
    lk_schema_release(&batches->schema);
    free(batches);
}

lk_rc lk_casting_open(lk_batches *source, const struct ArrowSchema *schema, lk_batches **out, lk_err *err)
{
    lk_rc rc = lk_schema_castable(&source->schema, schema, err);
    if (rc != LK_OK) {
        return rc;
    }
    casting *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    *self = (casting){.base = {.next = next, .close = close_casting}, .source = source};
    rc = lk_schema_copy(schema, &self->base.schema, err);
    if (rc != LK_OK) {
        free(self);
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}
