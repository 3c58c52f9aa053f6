/*
 * records.c - see records.h. Columns grow in nanoarrow's builders; payload and payload_size are put together at the end,
 * because payloads of a multipart request come after all records.
 */
#include "rollout/records.h"

#include "arrow/schema.h"
#include "base/hash.h"
#include "lance/schema.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

enum { CHARGE_STEP = 256 * 1024 };

typedef struct record_row {
    lk_bytes payload; /* data NULL: none */
    int64_t  size;    /* declared; -1: not */
    bool     has_time;
} record_row;

struct lk_records {
    uint64_t          now_us;
    lk_budget        *budget;
    size_t            charged, used;
    struct ArrowArray batch;
    lk_buf            rows;  /* of record_row */
    record_row        now;   /* the present record's */
    uint64_t          set;   /* its columns, by bit */
    lk_arena          arena; /* roles and copied payloads */
    lk_bytes          roles[LK_RECORD_ROLES_MAX];
    size_t            role_count;
};

_Static_assert(LK_RECORD_COLUMNS <= 64, "a record's columns are bits of a word");

static const struct {
    lk_bytes       name;
    lk_record_kind kind;
    bool           nullable, newer;
} columns[LK_RECORD_COLUMNS] = {
#define X(name, kind, nullable, newer) {{#name, sizeof #name - 1}, LK_RECORD_##kind, nullable, newer},
#include "rollout/records.def"
#undef X
};

static const char *const kind_types[] = {
    [LK_RECORD_TEXT] = "utf8",
    [LK_RECORD_LARGE_TEXT] = "large_utf8",
    [LK_RECORD_JSON] = "large_utf8",
    [LK_RECORD_ROLE] = "dictionary<int8,utf8>",
    [LK_RECORD_TIMESTAMP] = "timestamp[us]",
    [LK_RECORD_BOOL] = "bool",
    [LK_RECORD_INT32] = "int32",
    [LK_RECORD_INT64] = "int64",
    [LK_RECORD_FLOAT] = "float32",
    [LK_RECORD_INT8_LIST] = "list<int8?>",
    [LK_RECORD_INT32_LIST] = "list<int32?>",
    [LK_RECORD_FLOAT_LIST] = "list<float32?>",
    [LK_RECORD_RELATIONSHIPS] = "list<struct<target_id:utf8?,relation:utf8?,weight:float32?>?>",
    [LK_RECORD_BINARY] = "large_binary",
};

/* -- columns ----------------------------------------------------------------------------------------------------- */

const char *lk_record_column_name(lk_record_column column)
{
    return columns[column].name.data;
}

lk_record_kind lk_record_column_kind(lk_record_column column)
{
    return columns[column].kind;
}

lk_record_column lk_record_column_of(lk_bytes name, lk_record_column hint)
{
    if (hint < LK_RECORD_COLUMNS && lk_bytes_equal(columns[hint].name, name)) {
        return hint;
    }
    lk_record_column column = 0;
    while (column < LK_RECORD_COLUMNS && !lk_bytes_equal(columns[column].name, name)) {
        column++;
    }
    return column;
}

static void mark_primary_key(struct ArrowSchema *id)
{
    struct ArrowBuffer metadata;
    LK_ASSERT(ArrowMetadataBuilderInit(&metadata, NULL) == NANOARROW_OK);
    LK_ASSERT(ArrowMetadataBuilderAppend(&metadata, ArrowCharView(LK_LANCE_KEY), ArrowCharView("true")) ==
              NANOARROW_OK);
    LK_ASSERT(ArrowSchemaSetMetadata(id, (const char *)metadata.data) == NANOARROW_OK);
    ArrowBufferReset(&metadata);
}

void lk_record_schema(bool newer, struct ArrowSchema *out)
{
    struct ArrowSchema fields[LK_RECORD_COLUMNS];
    size_t             count = 0;
    for (size_t i = 0; i < LK_RECORD_COLUMNS; i++) {
        if (columns[i].newer && !newer) {
            continue;
        }
        lk_err err = {0};
        lk_rc  rc =
            lk_type_parse(lk_bytes_of(kind_types[columns[i].kind]), columns[i].name, &fields[count], &err);
        LK_ASSERT(rc == LK_OK);
        fields[count].flags = columns[i].nullable ? ARROW_FLAG_NULLABLE : 0;
        count++;
    }
    mark_primary_key(&fields[LK_RECORD_COLUMN_id]);
    lk_schema_of_columns(fields, count, out);
}

static struct ArrowSchema all_columns; /* a constant, but for its making */

static void make_all_columns(void)
{
    lk_record_schema(true, &all_columns);
}

const struct ArrowSchema *lk_record_columns(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    LK_ASSERT(pthread_once(&once, make_all_columns) == 0);
    return &all_columns;
}

/* -- one record -------------------------------------------------------------------------------------------------- */

lk_rc lk_records_open(uint64_t now_us, lk_budget *budget, lk_records **out, lk_err *err)
{
    lk_records *r = calloc(1, sizeof *r);
    LK_ASSERT(r != NULL);
    r->now_us = now_us;
    r->budget = budget;
    r->now.size = -1;
    if (ArrowArrayInitFromSchema(&r->batch, lk_record_columns(), NULL) != NANOARROW_OK ||
        ArrowArrayStartAppending(&r->batch) != NANOARROW_OK) {
        lk_records_close(r);
        return lk_fail(err, LK_E_LIMIT, "no memory for a batch of records");
    }
    *out = r;
    return LK_OK;
}

void lk_records_close(lk_records *records)
{
    if (records == NULL) {
        return;
    }
    if (records->charged > 0) {
        lk_budget_give(records->budget, records->charged);
    }
    lk_array_release(&records->batch);
    lk_buf_deinit(&records->rows);
    lk_arena_close(&records->arena);
    free(records);
}

size_t lk_records_count(const lk_records *r)
{
    return r->rows.size / sizeof(record_row);
}

static record_row *row_at(const lk_records *r, size_t record)
{
    return record == lk_records_count(r) ? (record_row *)&r->now : (record_row *)r->rows.data + record;
}

static lk_rc refuse(size_t record, lk_record_column column, const char *what, lk_err *err)
{
    return lk_refuse(err, LK_E_INVALID_REQUEST, "record %zu: field \"%s\": %s", record,
        lk_record_column_name(column), what);
}

static lk_rc no_memory(lk_err *err)
{
    return lk_fail(err, LK_E_LIMIT, "no memory for a record");
}

/* Most columns of most requests are nulls alone: they are made when a value follows, or at the end. Bits need room before:
 * nanoarrow 0.9 makes it for one bit only, however many it appends. */
static bool make_nulls(struct ArrowArray *array, lk_record_column column, size_t records)
{
    int64_t             due = (int64_t)records - array->length;
    struct ArrowBuffer *bits = columns[column].kind == LK_RECORD_BOOL ? ArrowArrayBuffer(array, 1) : NULL;
    int64_t             bytes = ((int64_t)records + 7) / 8;
    if (due > 0 && bits != NULL && bytes > bits->size_bytes &&
        ArrowBufferAppendFill(bits, 0, bytes - bits->size_bytes) != NANOARROW_OK) {
        return false;
    }
    return due <= 0 || ArrowArrayAppendNull(array, due) == NANOARROW_OK;
}

static bool is_made_at_the_end(lk_record_column column)
{
    return column == LK_RECORD_COLUMN_binary_payload || column == LK_RECORD_COLUMN_payload_size;
}

/* The column's builder, which gets its value of this record now. */
static lk_rc begin(lk_records *r, lk_record_column column, size_t size, struct ArrowArray **out, lk_err *err)
{
    if ((r->set >> column & 1) != 0) {
        return refuse(lk_records_count(r), column, "it is given twice", err);
    }
    r->set |= UINT64_C(1) << column;
    r->used += size + sizeof(int64_t);
    *out = r->batch.children[column];
    return is_made_at_the_end(column) || make_nulls(*out, column, lk_records_count(r)) ? LK_OK
                                                                                       : no_memory(err);
}

static lk_rc add_role(lk_records *r, struct ArrowArray *array, lk_bytes role, lk_err *err)
{
    size_t index = 0;
    while (index < r->role_count && !lk_bytes_equal(r->roles[index], role)) {
        index++;
    }
    if (index == LK_RECORD_ROLES_MAX) {
        return refuse(lk_records_count(r), LK_RECORD_COLUMN_role,
            "a request may have 128 distinct roles; send the others in another one", err);
    }
    if (index == r->role_count) {
        r->roles[r->role_count++] = lk_arena_copy(&r->arena, role);
        if (ArrowArrayAppendString(
                array->dictionary, (struct ArrowStringView){role.data, (int64_t)role.size}) != NANOARROW_OK) {
            return no_memory(err);
        }
    }
    return ArrowArrayAppendInt(array, (int64_t)index) == NANOARROW_OK ? LK_OK : no_memory(err);
}

lk_rc lk_records_set_text(lk_records *r, lk_record_column column, lk_bytes text, lk_err *err)
{
    struct ArrowArray *array = NULL;
    lk_rc              rc = begin(r, column, text.size, &array, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (column == LK_RECORD_COLUMN_id && (text.size == 0 || text.size > LK_RECORD_ID_BYTES_MAX)) {
        return refuse(lk_records_count(r), column, "it must have 1 to 1024 bytes", err);
    }
    if (column == LK_RECORD_COLUMN_role) {
        return add_role(r, array, text, err);
    }
    struct ArrowStringView view = {text.data, (int64_t)text.size};
    return ArrowArrayAppendString(array, view) == NANOARROW_OK ? LK_OK : no_memory(err);
}

lk_rc lk_records_set_integer(lk_records *r, lk_record_column column, int64_t value, lk_err *err)
{
    struct ArrowArray *array = NULL;
    lk_rc              rc = begin(r, column, sizeof value, &array, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (column == LK_RECORD_COLUMN_payload_size) {
        r->now.size = value;
        return value < 0 ? refuse(lk_records_count(r), column, "it must not be negative", err) : LK_OK;
    }
    r->now.has_time = r->now.has_time || column == LK_RECORD_COLUMN_created_at;
    return ArrowArrayAppendInt(array, value) == NANOARROW_OK ? LK_OK : no_memory(err);
}

lk_rc lk_records_set_float(lk_records *r, lk_record_column column, float value, lk_err *err)
{
    struct ArrowArray *array = NULL;
    lk_rc              rc = begin(r, column, sizeof value, &array, err);
    if (rc != LK_OK) {
        return rc;
    }
    return ArrowArrayAppendDouble(array, (double)value) == NANOARROW_OK ? LK_OK : no_memory(err);
}

lk_rc lk_records_set_bool(lk_records *r, lk_record_column column, bool value, lk_err *err)
{
    struct ArrowArray *array = NULL;
    lk_rc              rc = begin(r, column, 1, &array, err);
    if (rc != LK_OK) {
        return rc;
    }
    return ArrowArrayAppendInt(array, value) == NANOARROW_OK ? LK_OK : no_memory(err);
}

/* -- lists --------------------------------------------------------------------------------------------------------- */

static int64_t value_width(lk_record_column column)
{
    return columns[column].kind == LK_RECORD_INT8_LIST ? 1 : 4;
}

lk_rc lk_records_list_begin(lk_records *r, lk_record_column column, struct ArrowBuffer **values, lk_err *err)
{
    struct ArrowArray *array = NULL;
    lk_rc              rc = begin(r, column, 0, &array, err);
    *values = rc == LK_OK && columns[column].kind != LK_RECORD_RELATIONSHIPS
                  ? ArrowArrayBuffer(array->children[0], 1)
                  : NULL;
    return rc;
}

lk_rc lk_records_list_reserve(lk_records *r, lk_record_column column, int64_t count, lk_err *err)
{
    struct ArrowBuffer *values = ArrowArrayBuffer(r->batch.children[column]->children[0], 1);
    return ArrowBufferReserve(values, count * value_width(column)) == NANOARROW_OK ? LK_OK : no_memory(err);
}

/* Values that came before this one are there, unless a bit says that they are not. */
static bool catch_up(struct ArrowBitmap *valid, int64_t count)
{
    return ArrowBitmapAppend(valid, 1, count - valid->size_bits) == NANOARROW_OK;
}

void lk_records_list_null(lk_records *r, lk_record_column column)
{
    static const char   zero[8];
    struct ArrowArray  *items = r->batch.children[column]->children[0];
    struct ArrowBuffer *values = ArrowArrayBuffer(items, 1);
    struct ArrowBitmap *valid = ArrowArrayValidityBitmap(items);
    LK_ASSERT(catch_up(valid, values->size_bytes / value_width(column)) &&
              ArrowBitmapAppend(valid, 0, 1) == NANOARROW_OK &&
              ArrowBufferAppend(values, zero, value_width(column)) == NANOARROW_OK);
    items->null_count++;
}

typedef struct loan {
    void (*end)(void *context);
    void *context;
} loan;

static void end_loan(struct ArrowBufferAllocator *allocator, uint8_t *values, int64_t size)
{
    loan *l = allocator->private_data;
    (void)size;
    if (values != NULL) {
        l->end(l->context);
        free(l);
    }
}

/* More values follow: all are copied. */
static uint8_t *outgrow_loan(
    struct ArrowBufferAllocator *allocator, uint8_t *values, int64_t size, int64_t new_size)
{
    uint8_t *own = malloc((size_t)new_size);
    if (own != NULL) {
        memcpy(own, values, (size_t)(size < new_size ? size : new_size));
        end_loan(allocator, values, size);
        *allocator = ArrowBufferAllocatorDefault();
    }
    return own;
}

void lk_records_list_lend(lk_records *r, lk_record_column column, const void *values, int64_t count,
    void (*end)(void *context), void *context)
{
    struct ArrowBuffer *buffer = ArrowArrayBuffer(r->batch.children[column]->children[0], 1);
    loan               *l = malloc(sizeof *l);
    LK_ASSERT(l != NULL && lk_records_count(r) == 0 && buffer->size_bytes == 0);
    *l = (loan){end, context};
    ArrowBufferReset(buffer);
    buffer->data = (uint8_t *)(uintptr_t)values; /* which nobody writes to */
    buffer->size_bytes = buffer->capacity_bytes = count * value_width(column);
    buffer->allocator = (struct ArrowBufferAllocator){outgrow_loan, end_loan, l};
}

lk_rc lk_records_list_end_at(lk_records *r, lk_record_column column, int64_t count, lk_err *err)
{
    struct ArrowArray *list = r->batch.children[column], *items = list->children[0];
    LK_ASSERT(count >= items->length);
    r->used += (size_t)((count - items->length) * value_width(column));
    items->length = count;
    return ArrowArrayFinishElement(list) == NANOARROW_OK ? LK_OK : no_memory(err);
}

lk_rc lk_records_list_end(lk_records *r, lk_record_column column, lk_err *err)
{
    struct ArrowArray *list = r->batch.children[column], *items = list->children[0];
    if (columns[column].kind != LK_RECORD_RELATIONSHIPS) {
        struct ArrowBitmap *valid = ArrowArrayValidityBitmap(items);
        int64_t             count = ArrowArrayBuffer(items, 1)->size_bytes / value_width(column);
        r->used += (size_t)((count - items->length) * value_width(column));
        items->length = count;
        if (valid->size_bits > 0 && !catch_up(valid, count)) {
            return no_memory(err);
        }
    }
    return ArrowArrayFinishElement(list) == NANOARROW_OK ? LK_OK : no_memory(err);
}

static bool add_text_or_null(struct ArrowArray *array, lk_bytes text)
{
    struct ArrowStringView view = {text.data, (int64_t)text.size};
    return (text.data == NULL ? ArrowArrayAppendNull(array, 1) : ArrowArrayAppendString(array, view)) ==
           NANOARROW_OK;
}

lk_rc lk_records_add_relationship(
    lk_records *r, lk_bytes target_id, lk_bytes relation, const float *weight, lk_err *err)
{
    struct ArrowArray *item = r->batch.children[LK_RECORD_COLUMN_relationships]->children[0];
    r->used += target_id.size + relation.size + sizeof *weight;
    bool added =
        add_text_or_null(item->children[0], target_id) && add_text_or_null(item->children[1], relation) &&
        (weight == NULL ? ArrowArrayAppendNull(item->children[2], 1)
                        : ArrowArrayAppendDouble(item->children[2], (double)*weight)) == NANOARROW_OK &&
        ArrowArrayFinishElement(item) == NANOARROW_OK;
    return added ? LK_OK : no_memory(err);
}

/* -- payloads and ends --------------------------------------------------------------------------------------------- */

static lk_rc charge(lk_records *r, lk_err *err)
{
    size_t due = r->used > r->charged ? (r->used - r->charged + CHARGE_STEP) / CHARGE_STEP * CHARGE_STEP : 0;
    if (r->budget == NULL || due == 0) {
        return LK_OK;
    }
    lk_rc rc = lk_budget_take(r->budget, due, err);
    r->charged += rc == LK_OK ? due : 0;
    return rc;
}

lk_rc lk_records_set_payload(lk_records *r, size_t record, lk_bytes payload, bool borrow, lk_err *err)
{
    record_row *row = row_at(r, record);
    if (record > lk_records_count(r)) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "a payload for record %zu; there are %zu", record,
            lk_records_count(r));
    }
    if (row->payload.data != NULL) {
        return refuse(record, LK_RECORD_COLUMN_binary_payload, "it is given twice", err);
    }
    r->used += payload.size * (borrow ? 1 : 2); /* the column is a copy */
    lk_rc rc = charge(r, err);
    if (rc == LK_OK) {
        row->payload = payload.size == 0 ? LK_LITERAL("")
                       : borrow          ? payload
                                         : lk_arena_copy(&r->arena, payload);
    }
    return rc;
}

static lk_bytes text_at(const struct ArrowArray *array, size_t index)
{
    const int32_t *offsets = (const int32_t *)ArrowArrayBuffer((struct ArrowArray *)array, 1)->data;
    const char    *data = (const char *)ArrowArrayBuffer((struct ArrowArray *)array, 2)->data;
    size_t         size = (size_t)(offsets[index + 1] - offsets[index]);
    return size == 0 ? LK_LITERAL("")
                     : (lk_bytes){data + offsets[index], size}; /* none yet has any: no data */
}

static lk_rc set_default(lk_records *r, lk_record_column column, lk_err *err)
{
    struct ArrowArray *array = r->batch.children[column];
    switch ((int)column) {
    case LK_RECORD_COLUMN_id:
    case LK_RECORD_COLUMN_rollout_id:
        return refuse(lk_records_count(r), column, "it is missing", err);
    case LK_RECORD_COLUMN_problem_id:
        return lk_records_set_text(
            r, column, text_at(r->batch.children[LK_RECORD_COLUMN_rollout_id], lk_records_count(r)), err);
    case LK_RECORD_COLUMN_role:
        return lk_records_set_text(r, column, LK_LITERAL("assistant"), err);
    case LK_RECORD_COLUMN_content_type:
        return lk_records_set_text(r, column, LK_LITERAL("text/plain"), err);
    case LK_RECORD_COLUMN_sequence_order:
        return lk_records_set_integer(r, column, 0, err);
    case LK_RECORD_COLUMN_created_at:
        return ArrowArrayAppendInt(array, (int64_t)r->now_us) == NANOARROW_OK ? LK_OK : no_memory(err);
    case LK_RECORD_COLUMN_relationships:
        return ArrowArrayFinishElement(array) == NANOARROW_OK ? LK_OK : no_memory(err);
    default:
        return LK_OK; /* make_nulls */
    }
}

lk_rc lk_records_end(lk_records *r, lk_err *err)
{
    size_t record = lk_records_count(r);
    lk_rc  rc = LK_OK;
    if (record == LK_RECORD_ROWS_MAX) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "a request may have %d records", LK_RECORD_ROWS_MAX);
    }
    for (lk_record_column column = 0; rc == LK_OK && column < LK_RECORD_COLUMNS; column++) {
        if ((r->set >> column & 1) == 0) {
            rc = set_default(r, column, err);
        }
    }
    if (rc == LK_OK) {
        lk_buf_append(&r->rows, &r->now, sizeof r->now);
        r->used += sizeof r->now;
        r->now = (record_row){.size = -1};
        r->set = 0;
        rc = charge(r, err);
    }
    return rc;
}

lk_bytes lk_records_id(const lk_records *r, size_t record)
{
    return text_at(r->batch.children[LK_RECORD_COLUMN_id], record);
}

bool lk_records_has_time(const lk_records *r, size_t record)
{
    return row_at(r, record)->has_time;
}

/* -- the batch ----------------------------------------------------------------------------------------------------- */

static lk_rc check_checksum(const lk_records *r, size_t record, lk_err *err)
{
    static const lk_bytes    prefix = {"sha256:", 7};
    const struct ArrowArray *checksums = r->batch.children[LK_RECORD_COLUMN_payload_checksum];
    lk_bytes                 declared = text_at(checksums, record);
    uint8_t                  digest[LK_SHA256_SIZE];
    char                     hex[LK_SHA256_HEX_SIZE + 1];
    if (!lk_bytes_starts(declared, prefix)) {
        return LK_OK;
    }
    lk_sha256_of(row_at(r, record)->payload, digest);
    lk_hex(digest, sizeof digest, hex);
    declared = (lk_bytes){declared.data + prefix.size, declared.size - prefix.size};
    return lk_bytes_equal(declared, (lk_bytes){hex, LK_SHA256_HEX_SIZE})
               ? LK_OK
               : refuse(record, LK_RECORD_COLUMN_payload_checksum, "it is not the payload's", err);
}

static lk_rc add_payload(lk_records *r, size_t record, bool payloads_due, lk_err *err)
{
    struct ArrowArray *payloads = r->batch.children[LK_RECORD_COLUMN_binary_payload];
    struct ArrowArray *sizes = r->batch.children[LK_RECORD_COLUMN_payload_size];
    const record_row  *row = row_at(r, record);
    int64_t            size = row->size;
    bool               added;
    if (row->payload.data == NULL && size < 0) { /* nulls at the end */
        return LK_OK;
    }
    if (!make_nulls(payloads, LK_RECORD_COLUMN_binary_payload, record) ||
        !make_nulls(sizes, LK_RECORD_COLUMN_payload_size, record)) {
        return no_memory(err);
    }
    if (row->payload.data == NULL) {
        if (payloads_due && size >= 0) {
            return refuse(record, LK_RECORD_COLUMN_payload_size, "it is given, but no payload came", err);
        }
        added = ArrowArrayAppendNull(payloads, 1) == NANOARROW_OK;
    } else {
        struct ArrowBufferView view = {{row->payload.data}, (int64_t)row->payload.size};
        lk_rc                  rc = check_checksum(r, record, err);
        if (rc != LK_OK) {
            return rc;
        }
        if (size >= 0 && size != view.size_bytes) {
            return refuse(record, LK_RECORD_COLUMN_payload_size, "it is not the payload's", err);
        }
        size = view.size_bytes;
        added = ArrowArrayAppendBytes(payloads, view) == NANOARROW_OK;
    }
    added = added && ArrowArrayAppendInt(sizes, size) == NANOARROW_OK;
    return added ? LK_OK : no_memory(err);
}

lk_rc lk_records_finish(lk_records *r, bool payloads_due, struct ArrowArray *out, lk_err *err)
{
    size_t  count = lk_records_count(r);
    int64_t payload_bytes = 0;
    lk_rc   rc = LK_OK;
    for (size_t record = 0; record < count; record++) {
        payload_bytes += (int64_t)row_at(r, record)->payload.size;
    }
    for (lk_record_column column = 0; column < LK_RECORD_COLUMNS; column++) {
        if (!is_made_at_the_end(column) && !make_nulls(r->batch.children[column], column, count)) {
            return no_memory(err);
        }
    }
    if (ArrowBufferReserve(ArrowArrayBuffer(r->batch.children[LK_RECORD_COLUMN_binary_payload], 2),
            payload_bytes) != NANOARROW_OK) { /* at once: growing would hold a large one three times */
        return no_memory(err);
    }
    for (size_t record = 0; rc == LK_OK && record < count; record++) {
        rc = add_payload(r, record, payloads_due, err);
    }
    for (lk_record_column column = 0; rc == LK_OK && column < LK_RECORD_COLUMNS; column++) {
        if (is_made_at_the_end(column) && !make_nulls(r->batch.children[column], column, count)) {
            rc = no_memory(err);
        }
    }
    if (rc != LK_OK) {
        return rc;
    }
    r->batch.length = (int64_t)count;
    if (ArrowArrayFinishBuildingDefault(&r->batch, NULL) != NANOARROW_OK) {
        return lk_fail(err, LK_E_LIMIT, "a batch of records could not be finished");
    }
    lk_array_move(&r->batch, out);
    return LK_OK;
}
