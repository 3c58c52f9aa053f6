/* records_arrow.c - see records_arrow.h: columns are cast to the record's types, then taken row by row. */
#include "rollout/records_arrow.h"

#include "arrow/cast.h"
#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "rollout/cell.h"
#include "rollout/json_cursor.h"

#include <stdatomic.h>
#include <stdlib.h>

/* The stream's bytes, which lists may be part of. */
typedef struct stream {
    atomic_uint refs;
    lk_buf      bytes;
} stream;

typedef struct source {
    lk_record_column column;
    int64_t          at;      /* of the stream's columns */
    bool             is_lent; /* its lists' values in the batch at hand stay where they are */
} source;

typedef struct reader {
    lk_records        *records;
    lk_batches        *batches;
    struct ArrowSchema types; /* of the record's columns, without dictionaries */
    source             sources[LK_RECORD_COLUMNS];
    size_t             source_count;
    struct ArrowArray  columns[LK_RECORD_COLUMNS]; /* of the batch at hand, as sources */
    int64_t            row_base;
    stream            *stream;
    lk_buf             json;
    lk_err            *err;
} reader;

/* -- columns --------------------------------------------------------------------------------------------------------- */

static lk_rc find_sources(reader *r)
{
    const struct ArrowSchema *schema = &r->batches->schema;
    uint64_t                  seen = 0;
    for (int64_t i = 0; i < schema->n_children; i++) {
        lk_bytes         name = lk_bytes_of(schema->children[i]->name);
        lk_record_column column = lk_record_column_of(name, (lk_record_column)(i % LK_RECORD_COLUMNS));
        if (column == LK_RECORD_COLUMNS) {
            continue;
        }
        if ((seen >> column & 1) != 0) {
            return lk_refuse(
                r->err, LK_E_SCHEMA_MISMATCH, "column \"%s\" is there twice", lk_record_column_name(column));
        }
        seen |= UINT64_C(1) << column;
        r->sources[r->source_count++] = (source){column, i, false};
    }
    static const lk_record_column due[] = {LK_RECORD_COLUMN_id, LK_RECORD_COLUMN_rollout_id};
    for (size_t i = 0; i < 2; i++) {
        if ((seen >> due[i] & 1) == 0) {
            return lk_refuse(
                r->err, LK_E_SCHEMA_MISMATCH, "column \"%s\" is missing", lk_record_column_name(due[i]));
        }
    }
    return LK_OK;
}

static void release_columns(reader *r)
{
    for (size_t i = 0; i < r->source_count; i++) {
        lk_array_release(&r->columns[i]);
    }
}

static lk_rc cast_columns(reader *r, lk_shared_array *batch)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < r->source_count; i++) {
        struct ArrowArray column = {0};
        lk_shared_batch_column(batch, (size_t)r->sources[i].at, &column);
        lk_shared_array *shared = lk_array_share(&column);
        rc = lk_array_cast(r->batches->schema.children[r->sources[i].at], shared,
            r->types.children[r->sources[i].column], r->row_base, &r->columns[i], r->err);
        lk_shared_array_unref(shared);
    }
    return rc;
}

/* -- fields ---------------------------------------------------------------------------------------------------------- */

static lk_rc take_json(reader *r, lk_record_column column, lk_bytes text)
{
    lk_json_cursor c;
    lk_buf_clear(&r->json);
    lk_json_cursor_init(&c, text);
    bool whole = lk_json_take_value(&c, &r->json) && lk_json_peek(&c) == 0 && c.at == c.end;
    lk_json_cursor_deinit(&c);
    if (!whole) {
        return lk_refuse(r->err, LK_E_INVALID_REQUEST, "record %zu: field \"%s\": it is not JSON",
            lk_records_count(r->records), lk_record_column_name(column));
    }
    return lk_records_set_text(r->records, column, lk_buf_view(&r->json), r->err);
}

static int64_t width_of(lk_record_column column)
{
    return lk_record_column_kind(column) == LK_RECORD_INT8_LIST ? 1 : 4;
}

static lk_rc take_lent(reader *r, lk_record_column column, const struct ArrowArray *list, int64_t row)
{
    const int32_t      *offsets = (const int32_t *)list->buffers[1] + list->offset;
    struct ArrowBuffer *values = NULL;
    lk_rc               rc = lk_records_list_begin(r->records, column, &values, r->err);
    return rc == LK_OK ? lk_records_list_end_at(r->records, column, offsets[row + 1] - offsets[0], r->err)
                       : rc;
}

static lk_rc take_list(reader *r, lk_record_column column, const struct ArrowArray *list, int64_t row)
{
    const int32_t           *offsets = (const int32_t *)list->buffers[1] + list->offset + row;
    const struct ArrowArray *items = list->children[0];
    int64_t                  width = width_of(column);
    const char              *data = (const char *)items->buffers[1] + items->offset * width;
    struct ArrowBuffer      *values = NULL;
    lk_rc                    rc = lk_records_list_begin(r->records, column, &values, r->err);
    if (rc != LK_OK) {
        return rc;
    }
    if (items->null_count == 0) {
        int64_t size = (offsets[1] - offsets[0]) * width;
        if (size > 0 && ArrowBufferAppend(values, data + offsets[0] * width, size) != NANOARROW_OK) {
            return lk_fail(r->err, LK_E_LIMIT, "no memory for a list");
        }
        return lk_records_list_end(r->records, column, r->err);
    }
    for (int64_t i = offsets[0]; i < offsets[1]; i++) {
        if (!lk_cell_valid(items, i)) {
            lk_records_list_null(r->records, column);
        } else if (ArrowBufferAppend(values, data + i * width, width) != NANOARROW_OK) {
            return lk_fail(r->err, LK_E_LIMIT, "no memory for a list");
        }
    }
    return lk_records_list_end(r->records, column, r->err);
}

static lk_bytes text_or_null(const struct ArrowArray *texts, int64_t row)
{
    lk_bytes text = {0};
    if (lk_cell_valid(texts, row)) {
        text = lk_cell_text(texts, row);
        text.data = text.size == 0 ? "" : text.data;
    }
    return text;
}

static lk_rc take_relationships(reader *r, const struct ArrowArray *list, int64_t row)
{
    const int32_t           *offsets = (const int32_t *)list->buffers[1] + list->offset + row;
    const struct ArrowArray *items = list->children[0];
    struct ArrowBuffer      *none = NULL;
    lk_rc rc = lk_records_list_begin(r->records, LK_RECORD_COLUMN_relationships, &none, r->err);
    for (int64_t i = offsets[0]; rc == LK_OK && i < offsets[1]; i++) {
        int64_t                  at = items->offset + i;
        const struct ArrowArray *weights = items->children[2];
        bool         valid = lk_cell_valid(items, i), weighs = valid && lk_cell_valid(weights, at);
        const float *weight = (const float *)weights->buffers[1] + weights->offset + at;
        rc = lk_records_add_relationship(r->records,
            valid ? text_or_null(items->children[0], at) : (lk_bytes){0},
            valid ? text_or_null(items->children[1], at) : (lk_bytes){0}, weighs ? weight : NULL, r->err);
    }
    return rc == LK_OK ? lk_records_list_end(r->records, LK_RECORD_COLUMN_relationships, r->err) : rc;
}

static lk_rc take_field(reader *r, const source *from, const struct ArrowArray *array, int64_t row)
{
    lk_record_column column = from->column;
    const void      *values = array->n_buffers > 1 ? array->buffers[1] : NULL;
    int64_t          at = array->offset + row;
    switch (lk_record_column_kind(column)) {
    case LK_RECORD_TEXT:
    case LK_RECORD_ROLE:
        return lk_records_set_text(r->records, column, lk_cell_text(array, row), r->err);
    case LK_RECORD_LARGE_TEXT:
        return lk_records_set_text(r->records, column, lk_cell_large(array, row), r->err);
    case LK_RECORD_JSON:
        return take_json(r, column, lk_cell_large(array, row));
    case LK_RECORD_TIMESTAMP:
    case LK_RECORD_INT64:
        return lk_records_set_integer(r->records, column, ((const int64_t *)values)[at], r->err);
    case LK_RECORD_INT32:
        return lk_records_set_integer(r->records, column, ((const int32_t *)values)[at], r->err);
    case LK_RECORD_BOOL:
        return lk_records_set_bool(r->records, column, ArrowBitGet(values, at) != 0, r->err);
    case LK_RECORD_FLOAT:
        return lk_records_set_float(r->records, column, ((const float *)values)[at], r->err);
    case LK_RECORD_INT8_LIST:
    case LK_RECORD_INT32_LIST:
    case LK_RECORD_FLOAT_LIST:
        return from->is_lent ? take_lent(r, column, array, row) : take_list(r, column, array, row);
    case LK_RECORD_RELATIONSHIPS:
        return take_relationships(r, array, row);
    case LK_RECORD_BINARY:
        return lk_records_set_payload(
            r->records, lk_records_count(r->records), lk_cell_large(array, row), false, r->err);
    }
    return LK_OK;
}

static bool holds_numbers(lk_record_column column)
{
    lk_record_kind kind = lk_record_column_kind(column);
    return kind == LK_RECORD_INT8_LIST || kind == LK_RECORD_INT32_LIST || kind == LK_RECORD_FLOAT_LIST;
}

static const char *values_of(lk_record_column column, const struct ArrowArray *list)
{
    const struct ArrowArray *items = list->children[0];
    const int32_t           *offsets = (const int32_t *)list->buffers[1] + list->offset;
    return (const char *)items->buffers[1] + (items->offset + offsets[0]) * width_of(column);
}

/* How many bytes of the stream are the values of the column's first `count` lists, one behind the other; 0: they are not. */
static int64_t bytes_in_stream(
    const reader *r, lk_record_column column, const struct ArrowArray *list, int64_t count)
{
    if (!holds_numbers(column) || list->children[0]->null_count != 0) {
        return 0;
    }
    const int32_t *offsets = (const int32_t *)list->buffers[1] + list->offset;
    if (offsets[count] == offsets[0]) {
        return 0;
    }
    for (int64_t row = 0; list->null_count != 0 && row < count; row++) {
        if (!lk_cell_valid(list, row) && offsets[row + 1] != offsets[row]) {
            return 0; /* a null that hides values */
        }
    }
    const char *values = values_of(column, list), *start = r->stream->bytes.data;
    int64_t     size = (offsets[count] - offsets[0]) * width_of(column);
    bool        inside = (uintptr_t)values >= (uintptr_t)start &&
                  (uintptr_t)values + (size_t)size <= (uintptr_t)start + r->stream->bytes.size;
    return inside && (uintptr_t)values % (size_t)width_of(column) == 0 ? size : 0;
}

static void unref_stream(void *context)
{
    stream *s = context;
    if (atomic_fetch_sub(&s->refs, 1) == 1) {
        lk_buf_deinit(&s->bytes);
        free(s);
    }
}

/* Lists of numbers are most of what there is: those of the first batch stay where they are when they are most of the stream,
 * else their room is made once. */
static lk_rc prepare_lists(reader *r, int64_t count)
{
    int64_t lendable = 0;
    bool    first = lk_records_count(r->records) == 0;
    lk_rc   rc = LK_OK;
    for (size_t i = 0; first && count > 0 && i < r->source_count; i++) {
        lendable += bytes_in_stream(r, r->sources[i].column, &r->columns[i], count);
    }
    bool lends = lendable > (int64_t)(r->stream->bytes.size - r->stream->bytes.size / 4);
    for (size_t i = 0; rc == LK_OK && count > 0 && i < r->source_count; i++) {
        source                  *from = &r->sources[i];
        const struct ArrowArray *list = &r->columns[i];
        int64_t                  size = lends ? bytes_in_stream(r, from->column, list, count) : 0;
        from->is_lent = size > 0;
        if (from->is_lent) {
            atomic_fetch_add(&r->stream->refs, 1);
            lk_records_list_lend(r->records, from->column, values_of(from->column, list),
                size / width_of(from->column), unref_stream, r->stream);
        } else if (holds_numbers(from->column)) {
            const int32_t *offsets = (const int32_t *)list->buffers[1] + list->offset;
            rc = lk_records_list_reserve(r->records, from->column, offsets[count] - offsets[0], r->err);
        }
    }
    return rc;
}

static lk_rc take_rows(reader *r, int64_t count)
{
    lk_rc rc = prepare_lists(r, count);
    for (int64_t row = 0; rc == LK_OK && row < count; row++) {
        for (size_t i = 0; rc == LK_OK && i < r->source_count; i++) {
            if (lk_cell_valid(&r->columns[i], row)) {
                rc = take_field(r, &r->sources[i], &r->columns[i], row);
            }
        }
        rc = rc == LK_OK ? lk_records_end(r->records, r->err) : rc;
    }
    return rc;
}

/* -- the stream ------------------------------------------------------------------------------------------------------- */

static lk_rc take_batches(reader *r)
{
    lk_rc rc = LK_OK;
    for (bool more = true; more && rc == LK_OK;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(r->batches, &batch, r->err);
        more = rc == LK_OK && batch.release != NULL;
        if (more) {
            int64_t          count = batch.length;
            lk_shared_array *shared = lk_array_share(&batch);
            rc = count > LK_RECORD_ROWS_MAX /* before memory follows it */
                     ? lk_refuse(
                           r->err, LK_E_INVALID_REQUEST, "a request may have %d records", LK_RECORD_ROWS_MAX)
                     : cast_columns(r, shared);
            rc = rc == LK_OK ? take_rows(r, count) : rc;
            release_columns(r);
            lk_shared_array_unref(shared);
            r->row_base += count;
        }
    }
    return rc;
}

static lk_rc read_stream(lk_records *records, stream *from, lk_budget *budget, lk_err *err)
{
    reader               r = {.records = records, .stream = from, .err = err};
    const lk_ipc_options options = {.budget = budget, .decode_dictionaries = true, .in_place = true};
    lk_rc rc = lk_ipc_open(lk_ipc_source_bytes(lk_buf_view(&from->bytes)), &options, &r.batches, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = lk_schema_decode_dictionaries(lk_record_columns(), &r.types, err);
    if (rc == LK_OK) {
        rc = find_sources(&r);
    }
    if (rc == LK_OK) {
        rc = take_batches(&r);
    }
    if (rc == LK_OK && lk_records_count(records) == 0) {
        rc = lk_refuse(err, LK_E_INVALID_REQUEST, "no record at all");
    }
    lk_buf_deinit(&r.json);
    lk_schema_release(&r.types);
    lk_batches_close(r.batches);
    return rc;
}

lk_rc lk_records_read_arrow(lk_records *records, lk_buf *bytes, lk_budget *budget, lk_err *err)
{
    stream *from = malloc(sizeof *from);
    LK_ASSERT(from != NULL);
    *from = (stream){.bytes = *bytes};
    *bytes = (lk_buf){0};
    atomic_init(&from->refs, 1);
    lk_rc rc = read_stream(records, from, budget, err);
    unref_stream(from);
    return rc;
}
