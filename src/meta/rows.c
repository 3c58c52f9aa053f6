/* rows.c - see rows.h. */
#include "meta/rows.h"

#include "arrow/cast.h"
#include "arrow/schema.h"
#include "base/limits.h"

#include <inttypes.h>
#include <stdlib.h>

static void keep(lk_rows *rows, struct ArrowArray *batch)
{
    if (rows->count == rows->capacity) {
        rows->capacity = rows->capacity == 0 ? 8 : rows->capacity * 2;
        rows->batches = realloc(rows->batches, rows->capacity * sizeof *rows->batches);
        LK_ASSERT(rows->batches != NULL);
    }
    rows->batches[rows->count++] = lk_array_share(batch);
}

static lk_rc check_counts(const lk_rows *rows, uint64_t bytes_max, lk_err *err)
{
    if (rows->row_count > LK_APPEND_ROWS_MAX) {
        lk_rc refused = lk_fail(err, LK_E_INVALID_APPEND, "more than %d rows", LK_APPEND_ROWS_MAX);
        return lk_detail(err, "one append takes at most %d rows; split it", LK_APPEND_ROWS_MAX), refused;
    }
    if (rows->bytes > bytes_max) {
        lk_rc refused = lk_fail(err, LK_E_LIMIT, "rows of more than %" PRIu64 " bytes", bytes_max);
        return lk_detail(err, "one append takes at most %" PRIu64 " bytes of rows; split it", bytes_max),
               refused;
    }
    return LK_OK;
}

static lk_rc take_batch(lk_rows *rows, struct ArrowArray *batch, uint64_t bytes_max, lk_err *err)
{
    int64_t before = (int64_t)rows->row_count;
    rows->row_count += (uint64_t)batch->length;
    rows->bytes += lk_array_range_bytes(&rows->schema, batch, 0, batch->length);
    lk_rc rc = check_counts(rows, bytes_max, err);
    if (rc == LK_OK) {
        rc = lk_batch_check_nulls(&rows->schema, batch, before, err);
    }
    if (rc == LK_OK && batch->length > 0) {
        keep(rows, batch);
    } else {
        lk_array_release(batch);
    }
    return rc;
}

lk_rc lk_rows_collect(lk_rows *rows, const struct ArrowSchema *table, lk_batches *source, uint64_t bytes_max,
    lk_cancel *cancel, lk_err *err)
{
    *rows = (lk_rows){0};
    lk_rc rc = lk_schema_compare(table, &source->schema, LK_SCHEMA_APPEND, err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(table, &rows->schema, err);
    }
    for (bool more = true; rc == LK_OK && more;) {
        struct ArrowArray batch = {0};
        rc = lk_cancel_check(cancel, err);
        rc = rc == LK_OK ? lk_batches_next(source, &batch, err) : rc;
        more = rc == LK_OK && batch.release != NULL;
        rc = more ? take_batch(rows, &batch, bytes_max, err) : rc;
    }
    if (rc == LK_OK && rows->row_count == 0) {
        lk_rc refused = lk_fail(err, LK_E_INVALID_APPEND, "no rows");
        return lk_detail(err, "an append needs at least one row"), refused;
    }
    return rc;
}

void lk_rows_deinit(lk_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        lk_shared_array_unref(rows->batches[i]);
    }
    free(rows->batches);
    lk_schema_release(&rows->schema);
    *rows = (lk_rows){0};
}

typedef struct rows_stream {
    lk_batches base;
    lk_rows   *rows;
    size_t     next;
} rows_stream;

static lk_rc stream_next(lk_batches *base, struct ArrowArray *out, lk_err *err)
{
    (void)err;
    rows_stream *stream = (rows_stream *)base;
    *out = (struct ArrowArray){0};
    if (stream->next < stream->rows->count) {
        lk_shared_array *batch = stream->rows->batches[stream->next++];
        lk_shared_array_slice(batch, 0, lk_shared_array_get(batch)->length, out);
    }
    return LK_OK;
}

static void stream_close(lk_batches *base)
{
    lk_schema_release(&base->schema);
    free(base);
}

lk_rc lk_rows_stream(lk_rows *rows, lk_batches **out, lk_err *err)
{
    rows_stream *stream = calloc(1, sizeof *stream);
    LK_ASSERT(stream != NULL);
    stream->base.next = stream_next;
    stream->base.close = stream_close;
    stream->rows = rows;
    lk_rc rc = lk_schema_copy(&rows->schema, &stream->base.schema, err);
    if (rc != LK_OK) {
        free(stream);
        return rc;
    }
    *out = &stream->base;
    return LK_OK;
}
