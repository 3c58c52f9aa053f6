/* rollout_rows.c - see rollout_rows.h. */
#include "cli/rollout_rows.h"

#include "arrow/schema.h"
#include "cli/source.h"

#include <stdlib.h>

struct lk_rollout_rows_in {
    const lk_rollout_input_options *options;
    lk_batches                     *source;
    bool                            mint; /* there is no id column */
    struct ArrowSchema              schema;
    lk_shared_array                *batch; /* of which rows from `at` on are left */
    int64_t                         at;
};

/* The source's schema behind a column "id". */
static lk_rc schema_with_id(const struct ArrowSchema *from, struct ArrowSchema *out, lk_err *err)
{
    ArrowSchemaInit(out);
    bool ok = ArrowSchemaSetTypeStruct(out, from->n_children + 1) == NANOARROW_OK &&
              ArrowSchemaSetType(out->children[0], NANOARROW_TYPE_STRING) == NANOARROW_OK &&
              ArrowSchemaSetName(out->children[0], "id") == NANOARROW_OK;
    LK_ASSERT(ok);
    out->children[0]->flags = 0;
    lk_rc rc = LK_OK;
    for (int64_t i = 0; i < from->n_children && rc == LK_OK; i++) {
        lk_schema_release(out->children[i + 1]);
        rc = lk_schema_copy(from->children[i], out->children[i + 1], err);
    }
    return rc;
}

lk_rc lk_rollout_rows_in_open(
    const lk_rollout_input_options *options, const char *kind, lk_rollout_rows_in **out, lk_err *err)
{
    const lk_source_options source = {0};
    lk_rollout_rows_in     *in = calloc(1, sizeof *in);
    LK_ASSERT(in != NULL);
    *out = NULL;
    in->options = options;
    bool known = strcmp(kind, "rows") == 0 || strcmp(kind, "arrow") == 0 || strcmp(kind, "parquet") == 0 ||
                 strcmp(kind, "csv") == 0;
    lk_rc rc = known ? lk_source_open(options->path, &source, &in->source, err)
                     : lk_cli_usage(err, "--format is ndjson, json, arrow, parquet or csv, not %.32s", kind);
    if (rc == LK_OK) {
        in->mint = lk_schema_find(&in->source->schema, LK_LITERAL("id")) < 0;
        rc = in->mint ? schema_with_id(&in->source->schema, &in->schema, err)
                      : lk_schema_copy(&in->source->schema, &in->schema, err);
    }
    if (rc != LK_OK) {
        lk_rollout_rows_in_close(in);
        return rc;
    }
    *out = in;
    return LK_OK;
}

const struct ArrowSchema *lk_rollout_rows_in_schema(const lk_rollout_rows_in *in)
{
    return &in->schema;
}

static void mint_ids(const lk_rollout_rows_in *in, int64_t count, struct ArrowArray *out)
{
    bool ok = ArrowArrayInitFromType(out, NANOARROW_TYPE_STRING) == NANOARROW_OK &&
              ArrowArrayStartAppending(out) == NANOARROW_OK;
    for (int64_t i = 0; i < count && ok; i++) {
        char text[LK_UUID_TEXT_SIZE + 1];
        lk_uuid_format(lk_uuid_v7(in->options->clock, in->options->random), text);
        ok = ArrowArrayAppendString(out, (struct ArrowStringView){text, LK_UUID_TEXT_SIZE}) == NANOARROW_OK;
    }
    LK_ASSERT(ok && ArrowArrayFinishBuildingDefault(out, NULL) == NANOARROW_OK);
}

/* Takes *batch. */
static void put_ids_before(const lk_rollout_rows_in *in, struct ArrowArray *batch)
{
    size_t             count = (size_t)in->schema.n_children;
    int64_t            length = batch->length;
    lk_shared_array   *shared = lk_array_share(batch);
    struct ArrowArray *columns = calloc(count, sizeof *columns);
    LK_ASSERT(columns != NULL);
    mint_ids(in, length, &columns[0]);
    for (size_t i = 1; i < count; i++) {
        lk_shared_batch_column(shared, i - 1, &columns[i]);
    }
    lk_shared_array_unref(shared);
    lk_batch_of_columns(columns, count, length, batch);
    free(columns);
}

static lk_rc next_batch(lk_rollout_rows_in *in, lk_err *err)
{
    struct ArrowArray batch = {0};
    lk_rc             rc = LK_OK;
    do {
        lk_array_release(&batch);
        rc = lk_batches_next(in->source, &batch, err);
    } while (rc == LK_OK && batch.release != NULL && batch.length == 0);
    lk_shared_array_unref(in->batch);
    in->batch = NULL;
    in->at = 0;
    if (rc == LK_OK && batch.release != NULL) {
        if (in->mint) {
            put_ids_before(in, &batch);
        }
        in->batch = lk_array_share(&batch);
    }
    return rc;
}

/* How many of the rows that are left make a group. */
static int64_t rows_that_fit(const lk_rollout_rows_in *in, const struct ArrowArray *batch)
{
    int64_t  left = batch->length - in->at;
    uint64_t most = in->options->rows_max;
    int64_t  count = (uint64_t)left < most ? left : (int64_t)most;
    while (count > 1 && lk_array_range_bytes(&in->schema, batch, in->at, count) > in->options->bytes_max) {
        count /= 2;
    }
    return count;
}

lk_rc lk_rollout_rows_in_next(lk_rollout_rows_in *in, lk_shared_array **out, size_t *count, lk_err *err)
{
    *out = NULL;
    *count = 0;
    bool  used_up = in->batch == NULL || in->at == lk_shared_array_get(in->batch)->length;
    lk_rc rc = used_up ? next_batch(in, err) : LK_OK;
    if (rc != LK_OK || in->batch == NULL) {
        return rc;
    }
    struct ArrowArray rows = {0};
    int64_t           some = rows_that_fit(in, lk_shared_array_get(in->batch));
    lk_shared_batch_slice(in->batch, in->at, some, &rows);
    in->at += some;
    *count = (size_t)some;
    *out = lk_array_share(&rows);
    return LK_OK;
}

void lk_rollout_rows_in_close(lk_rollout_rows_in *in)
{
    if (in == NULL) {
        return;
    }
    lk_shared_array_unref(in->batch);
    lk_batches_close(in->source);
    lk_schema_release(&in->schema);
    free(in);
}
