/* file_fixture.c - see file_fixture.h. */
#include "lance/file_fixture.h"

#include "arrow/schema.h"
#include "base/arena.h"
#include "lance/file_ahead.h"

#include <stdio.h>
#include <stdlib.h>

/* -- one object in memory -------------------------------------------------------------------------- */
typedef struct reader {
    lk_store_reader base;
} reader;

typedef struct writer {
    lk_store_writer base;
} writer;

static fixture_memory *memory_of(lk_store *store)
{
    return (fixture_memory *)store;
}

static lk_rc memory_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    if (!memory_of(store)->exists) {
        return lk_fail(err, LK_E_NOT_FOUND, "%.*s", LK_FMT(key));
    }
    reader *made = calloc(1, sizeof *made);
    LK_ASSERT(made != NULL);
    made->base.store = store;
    *out = &made->base;
    *size = memory_of(store)->object.size;
    return LK_OK;
}

static lk_rc memory_read(lk_store_reader *base, const lk_store_range *ranges, size_t count, lk_err *err)
{
    fixture_memory *store = memory_of(base->store);
    if (store->calls++ == store->fails_at) {
        return lk_fail(err, LK_E_IO, "injected");
    }
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].offset > store->object.size || ranges[i].size > store->object.size - ranges[i].offset) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "past the end");
        }
        if (ranges[i].size > 0) {
            memcpy(ranges[i].out, store->object.data + ranges[i].offset, ranges[i].size);
        }
    }
    for (size_t i = 0; i < count; i++) {
        store->read_bytes += ranges[i].size;
    }
    store->reads += count;
    return LK_OK;
}

static void memory_reader_close(lk_store_reader *base)
{
    free(base);
}

static lk_rc memory_create(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    (void)key;
    (void)err;
    writer *made = calloc(1, sizeof *made);
    LK_ASSERT(made != NULL);
    made->base.store = store;
    *out = &made->base;
    lk_buf_clear(&memory_of(store)->object);
    return LK_OK;
}

static lk_rc memory_write(lk_store_writer *base, const void *data, size_t size, lk_err *err)
{
    (void)err;
    lk_buf_append(&memory_of(base->store)->object, data, size);
    return LK_OK;
}

static lk_rc memory_finish(lk_store_writer *base, lk_err *err)
{
    (void)err;
    memory_of(base->store)->exists = true;
    free(base);
    return LK_OK;
}

static void memory_abandon(lk_store_writer *base)
{
    free(base);
}

static const struct lk_store_ops memory_ops = {.open = memory_open,
    .read = memory_read,
    .reader_close = memory_reader_close,
    .create = memory_create,
    .write = memory_write,
    .finish = memory_finish,
    .abandon = memory_abandon};

void fixture_memory_init(fixture_memory *store)
{
    *store =
        (fixture_memory){.base = {.ops = &memory_ops, .uri = LK_LITERAL("memory")}, .fails_at = SIZE_MAX};
}

void fixture_memory_deinit(fixture_memory *store)
{
    lk_buf_deinit(&store->object);
}

/* -- rows of every type ------------------------------------------------------------------------------ */
static const char *const columns[] = {"i8:int8?", "u16:uint16?", "i32:int32?", "i64:int64?", "u64:uint64",
    "half:float16?", "single:float32?", "wide:float64?", "flag:bool?", "text:utf8?", "big_text:large_utf8?",
    "raw:binary?", "long_text:utf8?", "money:decimal128(20,2)?", "day:date32?", "at:timestamp[us,UTC]?",
    "id:fixed_size_binary(16)?", "blob:fixed_size_binary(300)?", "vector:fixed_size_list<float32?>(3)?",
    "flags:fixed_size_list<bool?>(5)?", "embedding:fixed_size_list<float32>(80)?",
    "inside:struct<x:int64?,deep:struct<y:utf8?,z:float64?>?>?", "nothing:null?"};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

void fixture_every_schema(struct ArrowSchema *out)
{
    lk_err err = {0};
    lk_schema_start(out, COLUMNS);
    for (size_t i = 0; i < COLUMNS; i++) {
        lk_rc rc = lk_column_parse(lk_bytes_of(columns[i]), out->children[i], &err);
        LK_ASSERT(rc == LK_OK);
    }
}

static void put(struct ArrowArray *array, const struct ArrowSchema *field, int64_t row, bool nulls);

static void put_bytes(struct ArrowArray *array, const struct ArrowSchema *field, int64_t row, size_t size)
{
    char text[512];
    int  used = snprintf(text, sizeof text, "%s-%lld", field->name, (long long)row);
    for (size_t at = (size_t)used; at < sizeof text; at++) {
        text[at] = (char)('a' + (row + (int64_t)at) % 26);
    }
    struct ArrowBufferView view = {{text}, (int64_t)size};
    LK_ASSERT(ArrowArrayAppendBytes(array, view) == NANOARROW_OK);
}

static size_t text_size(const struct ArrowSchema *field, int64_t row)
{
    return strncmp(field->name, "long", 4) == 0 ? (size_t)(200 + row % 200) : (size_t)(row % 23);
}

static void put_children(struct ArrowArray *array, const struct ArrowSchema *field, int64_t row, bool nulls)
{
    lk_type type;
    LK_ASSERT(lk_type_of(field, &type));
    int64_t items = type.layout == LK_LAYOUT_FIXED_LIST ? type.list_size : 1;
    for (int64_t item = 0; item < items; item++) {
        for (int64_t child = 0; child < array->n_children; child++) {
            put(array->children[child], field->children[child], row * items + item, nulls);
        }
    }
    LK_ASSERT(ArrowArrayFinishElement(array) == NANOARROW_OK);
}

/* A null whose items are there: nanoarrow's own way overruns its buffer for lists of booleans. */
static void put_null(struct ArrowArray *array, const struct ArrowSchema *field, int64_t row)
{
    lk_type type;
    LK_ASSERT(lk_type_of(field, &type));
    if (type.layout != LK_LAYOUT_FIXED_LIST) {
        LK_ASSERT(ArrowArrayAppendNull(array, 1) == NANOARROW_OK);
        return;
    }
    struct ArrowBitmap *bits = ArrowArrayValidityBitmap(array);
    if (bits->buffer.data == NULL) {
        LK_ASSERT(ArrowBitmapAppend(bits, 1, array->length) == NANOARROW_OK);
    }
    put_children(array, field, row, false);
    ArrowBitClear(bits->buffer.data, array->length - 1);
    array->null_count++;
}

static void put_value(
    struct ArrowArray *array, const struct ArrowSchema *field, const lk_type *type, int64_t row)
{
    struct ArrowDecimal decimal;
    if (type->layout == LK_LAYOUT_BYTES32 || type->layout == LK_LAYOUT_BYTES64) {
        put_bytes(array, field, row, text_size(field, row));
    } else if (type->id == LK_TYPE_FIXED_BINARY) {
        put_bytes(array, field, row, type->width);
    } else if (type->id == LK_TYPE_DECIMAL128) {
        ArrowDecimalInit(&decimal, 128, type->precision, type->scale);
        ArrowDecimalSetInt(&decimal, row * 1000 - 70000);
        LK_ASSERT(ArrowArrayAppendDecimal(array, &decimal) == NANOARROW_OK);
    } else if (lk_type_is_float(type->id)) {
        LK_ASSERT(ArrowArrayAppendDouble(array, (double)row * 0.5) == NANOARROW_OK);
    } else {
        int64_t modulus = type->id == LK_TYPE_INT8 ? 100 : type->id == LK_TYPE_BOOL ? 2 : 60000;
        LK_ASSERT(ArrowArrayAppendInt(array, row % modulus) == NANOARROW_OK);
    }
}

static void put(struct ArrowArray *array, const struct ArrowSchema *field, int64_t row, bool nulls)
{
    lk_type type;
    LK_ASSERT(lk_type_of(field, &type));
    bool nullable = (field->flags & ARROW_FLAG_NULLABLE) != 0;
    if (type.layout == LK_LAYOUT_NULL || (nulls && nullable && (row * 7 + field->name[0]) % 10 == 3)) {
        put_null(array, field, row);
    } else if (array->n_children > 0) {
        put_children(array, field, row, nulls);
    } else {
        put_value(array, field, &type, row);
    }
}

void fixture_every_rows(int64_t first, int64_t rows, bool nulls, struct ArrowArray *out)
{
    struct ArrowSchema schema;
    fixture_every_schema(&schema);
    LK_ASSERT(ArrowArrayInitFromSchema(out, &schema, NULL) == NANOARROW_OK);
    LK_ASSERT(ArrowArrayStartAppending(out) == NANOARROW_OK);
    for (int64_t row = first; row < first + rows; row++) {
        for (int64_t i = 0; i < schema.n_children; i++) {
            put(out->children[i], schema.children[i], row, nulls);
        }
        LK_ASSERT(ArrowArrayFinishElement(out) == NANOARROW_OK);
    }
    LK_ASSERT(ArrowArrayFinishBuildingDefault(out, NULL) == NANOARROW_OK);
    lk_schema_release(&schema);
}

/* -- files ----------------------------------------------------------------------------------------- */
void fixture_write(fixture_memory *store, int64_t rows, int64_t batches, bool nulls)
{
    struct ArrowSchema schema;
    lk_lance_schema   *lance = NULL;
    lk_file_writer    *file = NULL;
    lk_file_written    written;
    lk_arena           arena = {0};
    lk_err             err = {0};
    fixture_every_schema(&schema);
    lk_rc rc = lk_lance_schema_from_arrow(&schema, &lance, &err);
    if (rc == LK_OK) {
        rc = lk_file_writer_open(&store->base, LK_LITERAL("file"), lance, 1, NULL, &file, &err);
    }
    for (int64_t batch = 0; rc == LK_OK && batch < batches; batch++) {
        struct ArrowArray array;
        fixture_every_rows(batch * rows, rows, nulls, &array);
        rc = lk_file_writer_write(file, &array, &err);
        lk_array_release(&array);
    }
    if (rc == LK_OK) {
        rc = lk_file_writer_finish(file, &arena, &written, &err);
    }
    if (rc != LK_OK) {
        fprintf(stderr, "%s: %s (%s)\n", lk_rc_name(rc), err.detail, err.context);
    }
    LK_ASSERT(rc == LK_OK && written.rows == (uint64_t)(rows * batches));
    lk_arena_close(&arena);
    lk_lance_schema_close(lance);
    lk_schema_release(&schema);
}

static void fill_source(const struct ArrowSchema *field, lk_file_reader *file, size_t *column,
    lk_arena *arena, lk_field_source *out)
{
    *out = (lk_field_source){.field = field};
    if (strcmp(field->format, "+s") != 0) {
        out->file = file;
        out->column = (*column)++;
        return;
    }
    out->child_count = (size_t)field->n_children;
    out->children = lk_arena_take(arena, out->child_count * sizeof *out->children);
    for (size_t child = 0; child < out->child_count; child++) {
        fill_source(field->children[child], file, column, arena, &out->children[child]);
    }
}

static lk_rc read_columns(lk_file_reader *file, const struct ArrowSchema *schema, const lk_row_range *ranges,
    size_t count, lk_buffer_pool *pool, struct ArrowArray *out, lk_err *err)
{
    lk_arena arena = {0};
    size_t   column = 0;
    lk_rc    rc = LK_OK;
    for (int64_t i = 0; i < schema->n_children; i++) {
        lk_field_source source;
        lk_err          mine = {0};
        fill_source(schema->children[i], file, &column, &arena, &source);
        lk_rc one = lk_file_decode(&source, ranges, count, pool, out->children[i], &mine);
        if (one != LK_OK && rc == LK_OK) { /* the others are decoded all the same */
            *err = mine;
            rc = one;
        }
    }
    for (size_t i = 0; i < count; i++) {
        out->length += (int64_t)ranges[i].count;
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_file_ahead *look_ahead(lk_file_reader *file, const struct ArrowSchema *schema,
    const lk_row_range *ranges, size_t count, lk_buffer_pool *pool)
{
    lk_field_source sources[COLUMNS];
    lk_file_ahead  *ahead = NULL;
    lk_arena        arena = {0};
    size_t          column = 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        fill_source(schema->children[i], file, &column, &arena, &sources[i]);
    }
    lk_file_ahead_open(sources, COLUMNS, ranges, count, pool, &ahead);
    lk_arena_close(&arena);
    return ahead;
}

lk_rc fixture_read(
    fixture_memory *store, const lk_row_range *ranges, size_t count, struct ArrowArray *out, lk_err *err)
{
    struct ArrowSchema schema;
    lk_file_reader    *file = NULL;
    lk_row_range       all = {0, 0};
    *out = (struct ArrowArray){0};
    lk_rc rc = lk_file_reader_open(&store->base, LK_LITERAL("file"), 0, NULL, &file, err);
    if (rc != LK_OK) {
        return rc;
    }
    fixture_every_schema(&schema);
    lk_buffer_pool *pool = lk_buffer_pool_new(NULL);
    LK_ASSERT(ArrowArrayInitFromSchema(out, &schema, NULL) == NANOARROW_OK);
    for (int64_t i = 0; i < out->n_children; i++) {
        lk_array_release(out->children[i]);
    }
    all.count = lk_file_reader_rows(file) < 100000 ? lk_file_reader_rows(file) : 100000;
    if (ranges == NULL) {
        ranges = &all;
        count = all.count > 0;
    }
    lk_file_ahead *ahead = store->base.far ? look_ahead(file, &schema, ranges, count, pool) : NULL;
    store->calls_ahead = store->calls;
    rc = read_columns(file, &schema, ranges, count, pool, out, err);
    lk_file_ahead_close(ahead);
    if (rc != LK_OK) {
        lk_array_release(out);
    }
    lk_buffer_pool_close(pool);
    lk_file_reader_unref(file);
    lk_schema_release(&schema);
    return rc;
}

/* -- comparing ------------------------------------------------------------------------------------- */
static bool view_null(const struct ArrowArrayView *view, int64_t row)
{
    return ArrowArrayViewIsNull(view, row) != 0;
}

static void same_value(
    const struct ArrowArrayView *a, const struct ArrowArrayView *b, int64_t row, int64_t other);

static void same_children(
    const struct ArrowArrayView *a, const struct ArrowArrayView *b, int64_t row, int64_t other, int64_t items)
{
    for (int64_t child = 0; child < a->n_children; child++) {
        for (int64_t item = 0; item < items; item++) {
            same_value(a->children[child], b->children[child], row * items + item, other * items + item);
        }
    }
}

static bool is_number(const struct ArrowArrayView *view)
{
    return view->storage_type >= NANOARROW_TYPE_BOOL && view->storage_type <= NANOARROW_TYPE_DOUBLE;
}

static void same_value(
    const struct ArrowArrayView *a, const struct ArrowArrayView *b, int64_t row, int64_t other)
{
    LK_ASSERT(view_null(a, row) == view_null(b, other));
    if (view_null(a, row)) {
        return;
    }
    if (a->n_children > 0) {
        bool list = a->storage_type == NANOARROW_TYPE_FIXED_SIZE_LIST;
        same_children(a, b, row, other, list ? a->layout.child_size_elements : 1);
    } else if (a->storage_type == NANOARROW_TYPE_DECIMAL128) {
        const char *one = (const char *)a->buffer_views[1].data.as_uint8 + row * 16;
        LK_ASSERT(memcmp(one, (const char *)b->buffer_views[1].data.as_uint8 + other * 16, 16) == 0);
    } else if (is_number(a)) {
        double one = ArrowArrayViewGetDoubleUnsafe(a, row), two = ArrowArrayViewGetDoubleUnsafe(b, other);
        LK_ASSERT(one == two);
    } else {
        struct ArrowBufferView one = ArrowArrayViewGetBytesUnsafe(a, row),
                               two = ArrowArrayViewGetBytesUnsafe(b, other);
        LK_ASSERT(one.size_bytes == two.size_bytes);
        LK_ASSERT(one.size_bytes == 0 || memcmp(one.data.data, two.data.data, (size_t)one.size_bytes) == 0);
    }
}

void fixture_open_view(const struct ArrowArray *array, struct ArrowArrayView *view)
{
    struct ArrowSchema schema;
    struct ArrowError  error;
    fixture_every_schema(&schema);
    LK_ASSERT(ArrowArrayViewInitFromSchema(view, &schema, &error) == NANOARROW_OK);
    LK_ASSERT(ArrowArrayViewSetArray(view, array, &error) == NANOARROW_OK);
    LK_ASSERT(ArrowArrayViewValidate(view, NANOARROW_VALIDATION_LEVEL_FULL, NULL) == NANOARROW_OK);
    lk_schema_release(&schema);
}

void fixture_same_rows(const struct ArrowArray *expected, int64_t start, const struct ArrowArray *actual,
    int64_t at, int64_t count)
{
    struct ArrowArrayView a, b;
    fixture_open_view(expected, &a);
    fixture_open_view(actual, &b);
    for (int64_t column = 0; column < a.n_children; column++) {
        for (int64_t row = 0; row < count; row++) {
            same_value(a.children[column], b.children[column], start + row, at + row);
        }
    }
    ArrowArrayViewReset(&a);
    ArrowArrayViewReset(&b);
}
