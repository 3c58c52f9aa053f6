/* shape_test.c - dictionaries, packed structs and blobs through one file: what is read, what is refused. (What the
 * reference writes and reads is compared in tests/interop/test_lance_kinds.py.) */
#include "lance/blob.h"
#include "lance/distinct.h"
#include "lance/file_fixture.h"

#include "arrow/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 100, BLOB_BYTES = 20000 };

/* -- one file of one schema ---------------------------------------------------------------------------- */
typedef struct fixture {
    fixture_memory     store;
    struct ArrowSchema schema;
    lk_lance_schema   *lance;
    lk_file_writer    *writer;
    lk_file_reader    *file;
    lk_buffer_pool    *pool;
    lk_arena           arena;
    lk_err             err;
} fixture;

static void set_metadata(struct ArrowSchema *field, const char *key, const char *value)
{
    struct ArrowBuffer buffer;
    assert_int_equal(ArrowMetadataBuilderInit(&buffer, NULL), NANOARROW_OK);
    assert_int_equal(
        ArrowMetadataBuilderAppend(&buffer, ArrowCharView(key), ArrowCharView(value)), NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetMetadata(field, (const char *)buffer.data), NANOARROW_OK);
    ArrowBufferReset(&buffer);
}

static void start(fixture *f, const char *const *columns, size_t count)
{
    *f = (fixture){.pool = lk_buffer_pool_new(NULL)};
    fixture_memory_init(&f->store);
    lk_schema_start(&f->schema, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(lk_column_parse(lk_bytes_of(columns[i]), f->schema.children[i], &f->err), LK_OK);
    }
}

static lk_rc open_writer(fixture *f, uint32_t minor)
{
    assert_int_equal(lk_lance_schema_from_arrow(&f->schema, &f->lance, &f->err), LK_OK);
    return lk_file_writer_open(
        &f->store.base, LK_LITERAL("data/x.lance"), f->lance, minor, NULL, &f->writer, &f->err);
}

static void finish(fixture *f)
{
    lk_file_written written;
    assert_int_equal(lk_file_writer_finish(f->writer, &f->arena, &written, &f->err), LK_OK);
    f->writer = NULL;
    assert_int_equal(
        lk_file_reader_open(&f->store.base, LK_LITERAL("data/x.lance"), 0, NULL, &f->file, &f->err), LK_OK);
}

static lk_rc read(fixture *f, const struct ArrowSchema *field, lk_column_kind kind, size_t column,
    lk_row_range range, struct ArrowArray *out)
{
    const lk_field_source source = {.field = field,
        .kind = kind,
        .is_dictionary = f->schema.children[column]->dictionary != NULL,
        .file = f->file,
        .column = column};
    *out = (struct ArrowArray){0};
    return lk_file_decode(&source, &range, 1, f->pool, out, &f->err);
}

static void stop(fixture *f)
{
    lk_file_writer_abandon(f->writer);
    lk_file_reader_unref(f->file);
    lk_buffer_pool_close(f->pool);
    lk_lance_schema_close(f->lance);
    lk_schema_release(&f->schema);
    lk_arena_close(&f->arena);
    fixture_memory_deinit(&f->store);
}

/* -- blobs ------------------------------------------------------------------------------------------- */
static void write_blobs(fixture *f)
{
    struct ArrowArray batch;
    char             *bytes = malloc(BLOB_BYTES);
    assert_int_equal(ArrowArrayInitFromSchema(&batch, &f->schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&batch), NANOARROW_OK);
    for (int64_t row = 0; row < ROWS; row++) {
        struct ArrowBufferView view = {{bytes}, row % 7 == 1 ? 0 : BLOB_BYTES};
        memset(bytes, 'a' + (int)(row % 26), BLOB_BYTES);
        assert_int_equal(ArrowArrayAppendInt(batch.children[0], row), NANOARROW_OK);
        assert_int_equal(row % 7 == 2 ? ArrowArrayAppendNull(batch.children[1], 1)
                                      : ArrowArrayAppendBytes(batch.children[1], view),
            NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(&batch), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), NANOARROW_OK);
    assert_int_equal(lk_file_writer_write(f->writer, &batch, &f->err), LK_OK);
    lk_array_release(&batch);
    free(bytes);
}

static void blob_file(fixture *f)
{
    static const char *const columns[] = {"id:int64", "v:large_binary?"};
    start(f, columns, 2);
    set_metadata(f->schema.children[1], "lance-encoding:blob", "true");
    assert_int_equal(open_writer(f, 1), LK_OK);
    write_blobs(f);
    finish(f);
}

static void a_read_of_other_columns_reads_no_byte_of_a_blob(void **state)
{
    (void)state;
    fixture           f;
    struct ArrowArray ids;
    blob_file(&f);
    uint64_t before = f.store.read_bytes;
    assert_int_equal(
        read(&f, f.schema.children[0], LK_COLUMN_PLAIN, 0, (lk_row_range){0, ROWS}, &ids), LK_OK);
    assert_true(f.store.object.size > (uint64_t)ROWS * 5 / 7 * BLOB_BYTES);
    assert_true(f.store.read_bytes - before <= 2 * ROWS * sizeof(int64_t));
    lk_array_release(&ids);
    stop(&f);
}

static void descriptors_are_read_without_the_bytes_that_they_describe(void **state)
{
    (void)state;
    fixture            f;
    struct ArrowArray  out;
    struct ArrowSchema descriptor;
    blob_file(&f);
    uint64_t before = f.store.read_bytes;
    assert_int_equal(lk_blob_descriptor_schema(f.schema.children[1], 1, &descriptor, &f.err), LK_OK);
    assert_int_equal(read(&f, &descriptor, LK_COLUMN_BLOB, 1, (lk_row_range){0, ROWS}, &out), LK_OK);
    assert_true(f.store.read_bytes - before < BLOB_BYTES);
    for (int64_t row = 0; row < ROWS; row++) {
        lk_blob_descriptor found;
        assert_int_equal(lk_blob_descriptor_at(&out, row, &found), row % 7 != 2);
        assert_true(row % 7 == 2 || found.size == (row % 7 == 1 ? 0 : BLOB_BYTES));
    }
    lk_array_release(&out);
    lk_schema_release(&descriptor);
    stop(&f);
}

static void only_the_blobs_of_the_range_are_read(void **state)
{
    (void)state;
    fixture           f;
    struct ArrowArray out;
    blob_file(&f);
    uint64_t           before = f.store.read_bytes;
    struct ArrowSchema bytes;
    assert_int_equal(lk_blob_bytes_schema(f.schema.children[1], &bytes, &f.err), LK_OK);
    assert_int_equal(read(&f, &bytes, LK_COLUMN_BLOB, 1, (lk_row_range){7, 4}, &out), LK_OK);
    assert_true(f.store.read_bytes - before < 3 * BLOB_BYTES);
    const int64_t *ends = out.buffers[1];
    const char    *data = out.buffers[2];
    assert_int_equal(out.null_count, 1); /* row 9 */
    assert_int_equal(ends[1], BLOB_BYTES);
    assert_int_equal(ends[2], BLOB_BYTES); /* row 8 is empty */
    assert_int_equal(ends[3], BLOB_BYTES);
    assert_int_equal(ends[4], 2 * BLOB_BYTES);
    assert_int_equal(data[0], 'a' + 7);
    assert_int_equal(data[ends[4] - 1], 'a' + 10);
    lk_array_release(&out);
    lk_schema_release(&bytes);
    stop(&f);
}

static void a_blob_is_read_piece_by_piece_and_not_beyond(void **state)
{
    (void)state;
    fixture                  f;
    lk_blob                 *blob = NULL;
    char                     bytes[10];
    const lk_blob_descriptor first = {.position = 0, .size = BLOB_BYTES},
                             beyond = {.position = 1, .size = 1 << 30};
    blob_file(&f);
    assert_int_equal(lk_blob_open(f.file, NULL, &beyond, &blob, &f.err), LK_E_CORRUPT_FILE);
    assert_int_equal(lk_blob_open(f.file, NULL, &first, &blob, &f.err), LK_OK);
    assert_int_equal(lk_blob_size(blob), BLOB_BYTES);
    assert_int_equal(lk_blob_read(blob, BLOB_BYTES - 10, bytes, 10, &f.err), LK_OK);
    assert_memory_equal(bytes, "aaaaaaaaaa", 10);
    assert_int_equal(lk_blob_read(blob, BLOB_BYTES - 9, bytes, 10, &f.err), LK_E_INVALID_REQUEST);
    lk_blob_close(blob);
    const lk_blob_descriptor outside = {.kind = LK_BLOB_EXTERNAL, .uri = LK_LITERAL("file:///x")};
    assert_int_equal(lk_blob_open(f.file, NULL, &outside, &blob, &f.err), LK_E_UNSUPPORTED_FORMAT);
    stop(&f);
}

/* The names that the reference gives: 32 bits, lowest first. */
static void side_files_are_named_as_the_reference_names_them(void **state)
{
    (void)state;
    lk_arena arena = {0};
    assert_string_equal(lk_blob_key(LK_LITERAL("data/ab.lance"), 1, &arena).data,
        "data/ab/10000000000000000000000000000000.blob");
    assert_string_equal(lk_blob_key(LK_LITERAL("data/ab.lance"), 6, &arena).data,
        "data/ab/01100000000000000000000000000000.blob");
    lk_arena_close(&arena);
}

/* -- packed structs ------------------------------------------------------------------------------------ */
static void a_null_in_a_packed_struct_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const columns[] = {"p:struct<a:int32?,b:int64?>"};
    fixture                  f;
    struct ArrowArray        batch;
    start(&f, columns, 1);
    set_metadata(f.schema.children[0], "lance-encoding:packed", "true");
    assert_int_equal(open_writer(&f, 1), LK_OK);
    assert_int_equal(ArrowArrayInitFromSchema(&batch, &f.schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&batch), NANOARROW_OK);
    assert_int_equal(ArrowArrayAppendInt(batch.children[0]->children[0], 1), NANOARROW_OK);
    assert_int_equal(ArrowArrayAppendNull(batch.children[0]->children[1], 1), NANOARROW_OK);
    assert_int_equal(ArrowArrayFinishElement(batch.children[0]), NANOARROW_OK);
    assert_int_equal(ArrowArrayFinishElement(&batch), NANOARROW_OK);
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), NANOARROW_OK);
    assert_int_equal(lk_file_writer_write(f.writer, &batch, &f.err), LK_E_SCHEMA_MISMATCH);
    assert_non_null(strstr(f.err.detail, "'b'"));
    lk_array_release(&batch);
    stop(&f);
}

static void what_a_file_version_cannot_pack_is_refused_with_advice(void **state)
{
    (void)state;
    static const char *const texts[] = {"p:struct<a:int32,b:utf8>"}, *const bits[] = {
                                                                         "p:struct<a:int32,b:bool>"};
    fixture f;
    start(&f, texts, 1);
    set_metadata(f.schema.children[0], "packed", "true");
    assert_int_equal(open_writer(&f, 1), LK_E_INVALID_SCHEMA);
    assert_non_null(strstr(f.err.detail, "2.2"));
    f.err = (lk_err){0};
    assert_int_equal(lk_file_writer_supports(f.schema.children[0], 2, &f.err), LK_OK);
    stop(&f);
    start(&f, bits, 1);
    set_metadata(f.schema.children[0], "packed", "true");
    assert_int_equal(open_writer(&f, 2), LK_E_INVALID_SCHEMA);
    assert_non_null(strstr(f.err.detail, "booleans"));
    stop(&f);
}

/* -- dictionaries ---------------------------------------------------------------------------------------- */
/* 100 values that no other batch has. */
static void write_words(fixture *f, int batch_number)
{
    struct ArrowArray batch;
    assert_int_equal(ArrowArrayInitFromSchema(&batch, &f->schema, NULL), NANOARROW_OK);
    struct ArrowArray *column = batch.children[0];
    assert_int_equal(ArrowArrayStartAppending(&batch), NANOARROW_OK);
    for (int row = 0; row < ROWS; row++) {
        char text[32];
        (void)snprintf(text, sizeof text, "%d-%d", batch_number, row);
        assert_int_equal(ArrowArrayAppendString(column->dictionary, ArrowCharView(text)), NANOARROW_OK);
        assert_int_equal(ArrowArrayAppendInt(column, ROWS - 1 - row), NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(&batch), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), NANOARROW_OK);
    assert_int_equal(lk_file_writer_write(f->writer, &batch, &f->err), LK_OK);
    lk_array_release(&batch);
}

static void a_page_has_no_more_values_than_its_index_type_numbers(void **state)
{
    (void)state;
    static const char *const columns[] = {"d:dictionary<int8,utf8?>"};
    fixture                  f;
    struct ArrowArray        out;
    start(&f, columns, 1);
    assert_int_equal(open_writer(&f, 1), LK_OK);
    for (int batch = 0; batch < 3; batch++) {
        write_words(&f, batch);
    }
    finish(&f);
    assert_int_equal(read(&f, f.schema.children[0], LK_COLUMN_PLAIN, 0, (lk_row_range){150, 3}, &out), LK_OK);
    assert_int_equal(out.dictionary->length, 3);
    const int32_t *ends = out.dictionary->buffers[1];
    assert_memory_equal((const char *)out.dictionary->buffers[2] + ends[0], "1-49", 4);
    lk_array_release(&out);
    /* as values they are all there; as one dictionary they are too many */
    assert_int_equal(
        read(&f, f.schema.children[0]->dictionary, LK_COLUMN_PLAIN, 0, (lk_row_range){0, 3 * ROWS}, &out),
        LK_OK);
    assert_int_equal(out.length, 3 * ROWS);
    ends = out.buffers[1];
    assert_memory_equal((const char *)out.buffers[2] + ends[299], "2-0", 3);
    lk_array_release(&out);
    assert_int_equal(
        read(&f, f.schema.children[0], LK_COLUMN_PLAIN, 0, (lk_row_range){0, 3 * ROWS}, &out), LK_E_LIMIT);
    assert_non_null(strstr(f.err.detail, "as values"));
    stop(&f);
}

static void distinct_values_are_numbered_as_they_come(void **state)
{
    (void)state;
    lk_distinct values = {0};
    char        text[32];
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 5000; i++) {
            int size = snprintf(text, sizeof text, "%u%s", i, i % 3 == 0 ? " and eight more" : "");
            assert_int_equal(lk_distinct_add(&values, (lk_bytes){text, (size_t)size}), i);
        }
    }
    assert_int_equal(lk_distinct_add(&values, (lk_bytes){0}), 5000);
    assert_int_equal(values.count, 5001);
    assert_true(lk_bytes_equal(lk_distinct_get(&values, 1), LK_LITERAL("1")));
    assert_int_equal(lk_distinct_get(&values, 5000).size, 0);
    lk_distinct_clear(&values);
    assert_int_equal(lk_distinct_add(&values, LK_LITERAL("1")), 0);
    lk_distinct_deinit(&values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_of_other_columns_reads_no_byte_of_a_blob),
        cmocka_unit_test(descriptors_are_read_without_the_bytes_that_they_describe),
        cmocka_unit_test(only_the_blobs_of_the_range_are_read),
        cmocka_unit_test(a_blob_is_read_piece_by_piece_and_not_beyond),
        cmocka_unit_test(side_files_are_named_as_the_reference_names_them),
        cmocka_unit_test(a_null_in_a_packed_struct_is_refused_by_name),
        cmocka_unit_test(what_a_file_version_cannot_pack_is_refused_with_advice),
        cmocka_unit_test(a_page_has_no_more_values_than_its_index_type_numbers),
        cmocka_unit_test(distinct_values_are_numbered_as_they_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
