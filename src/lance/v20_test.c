/* v20_test.c - a file of version 2.0 that the reference wrote (tests/golden/lance) reads as the reference read it: as a
 * whole, by any ranges, damaged, and written again by us. */
#include "lance/file_fixture.h"
#include "lance/table_fixture.h"

#include "arrow/ipc.h"
#include "base/budget.h"
#include "lance/blob.h"
#include "lance/column.h"
#include "lance/dataset_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 130 };

/* -- comparing ------------------------------------------------------------------------------------- */
static void same_value(
    const struct ArrowArrayView *a, const struct ArrowArrayView *b, int64_t row, int64_t other);

static bool is_null(const struct ArrowArrayView *view, int64_t row)
{
    bool null = ArrowArrayViewIsNull(view, row) != 0 || view->storage_type == NANOARROW_TYPE_NA;
    if (!null && view->dictionary != NULL) {
        null = ArrowArrayViewIsNull(view->dictionary, ArrowArrayViewGetIntUnsafe(view, row)) != 0;
    }
    return null;
}

static void same_items(
    const struct ArrowArrayView *a, const struct ArrowArrayView *b, int64_t row, int64_t other)
{
    int64_t first = ArrowArrayViewListChildOffset(a, row), second = ArrowArrayViewListChildOffset(b, other);
    int64_t count = ArrowArrayViewListChildOffset(a, row + 1) - first;
    assert_int_equal(count, ArrowArrayViewListChildOffset(b, other + 1) - second);
    for (int64_t item = 0; item < count; item++) {
        same_value(a->children[0], b->children[0], first + item, second + item);
    }
}

static void same_leaf(
    const struct ArrowArrayView *a, const struct ArrowArrayView *b, int64_t row, int64_t other)
{
    if (a->storage_type >= NANOARROW_TYPE_BOOL && a->storage_type <= NANOARROW_TYPE_DOUBLE) {
        double one = ArrowArrayViewGetDoubleUnsafe(a, row), two = ArrowArrayViewGetDoubleUnsafe(b, other);
        assert_true(one == two);
    } else if (a->storage_type == NANOARROW_TYPE_DECIMAL128) {
        const uint8_t *one = a->buffer_views[1].data.as_uint8, *two = b->buffer_views[1].data.as_uint8;
        assert_memory_equal(one + row * 16, two + other * 16, 16);
    } else {
        struct ArrowBufferView one = ArrowArrayViewGetBytesUnsafe(a, row),
                               two = ArrowArrayViewGetBytesUnsafe(b, other);
        assert_int_equal(one.size_bytes, two.size_bytes);
        assert_true(one.size_bytes == 0 || memcmp(one.data.data, two.data.data, (size_t)one.size_bytes) == 0);
    }
}

static void same_value(
    const struct ArrowArrayView *a, const struct ArrowArrayView *b, int64_t row, int64_t other)
{
    assert_int_equal(is_null(a, row), is_null(b, other));
    if (is_null(a, row)) {
        return;
    }
    enum ArrowType type = a->storage_type;
    if (type == NANOARROW_TYPE_LIST || type == NANOARROW_TYPE_LARGE_LIST ||
        type == NANOARROW_TYPE_FIXED_SIZE_LIST) {
        same_items(a, b, row, other);
        return;
    }
    for (int64_t child = 0; child < a->n_children; child++) {
        same_value(a->children[child], b->children[child], row, other);
    }
    if (type == NANOARROW_TYPE_STRUCT) {
        return;
    }
    if (a->dictionary == NULL) {
        same_leaf(a, b, row, other);
    } else {
        same_value(a->dictionary, b->dictionary, ArrowArrayViewGetIntUnsafe(a, row),
            ArrowArrayViewGetIntUnsafe(b, other));
    }
}

static void open_view(
    const struct ArrowSchema *schema, const struct ArrowArray *array, struct ArrowArrayView *view)
{
    struct ArrowError error;
    assert_int_equal(ArrowArrayViewInitFromSchema(view, schema, &error), NANOARROW_OK);
    if (ArrowArrayViewSetArray(view, array, &error) != NANOARROW_OK ||
        ArrowArrayViewValidate(view, NANOARROW_VALIDATION_LEVEL_FULL, &error) != NANOARROW_OK) {
        fail_msg("%s", error.message);
    }
}

/* -- the file -------------------------------------------------------------------------------------- */
typedef struct golden {
    lk_store          *store;
    lk_dataset        *dataset;
    fixture_memory     memory;   /* its data file */
    struct ArrowSchema schema;   /* of expected */
    struct ArrowArray  expected; /* as the reference read it */
    lk_arena           arena;
} golden;

static void read_expected(golden *self)
{
    lk_err         err = {0};
    lk_ipc_source *source = NULL;
    lk_batches    *rows = NULL;
    const char    *path = LK_SOURCE_DIR "/tests/golden/lance/expected/every_2.0@1.arrow";
    if (lk_ipc_source_file(path, &source, &err) != LK_OK || lk_ipc_open(source, NULL, &rows, &err) != LK_OK ||
        lk_batches_next(rows, &self->expected, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    assert_int_equal(self->expected.length, ROWS);
    assert_int_equal(lk_schema_copy(&rows->schema, &self->schema, &err), LK_OK);
    lk_batches_close(rows);
}

static void open_golden(golden *self)
{
    lk_err err = {0};
    *self = (golden){.store = fixture_golden("every_2.0")};
    lk_lance_env env = fixture_env(self->store);
    if (lk_dataset_open(&env, 0, &self->dataset, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    const lk_fragment *fragment = &self->dataset->manifest->fragments[0];
    lk_bytes           key = lk_data_file_key(&fragment->files[0], &self->arena);
    fixture_memory_init(&self->memory);
    self->memory.object = fixture_object(self->store, lk_arena_text(&self->arena, key));
    self->memory.exists = true;
    read_expected(self);
}

static void close_golden(golden *self)
{
    lk_dataset_unref(self->dataset);
    lk_store_close(self->store);
    fixture_memory_deinit(&self->memory);
    lk_array_release(&self->expected);
    lk_schema_release(&self->schema);
    lk_arena_close(&self->arena);
}

/* Every field is a column, but for what lies below one that is itself. */
static void fill_source(
    golden *self, size_t index, lk_file_reader *file, size_t *column, lk_field_source *out)
{
    const lk_lance_field *fields = self->dataset->manifest->schema->fields, *field = &fields[index];
    bool list = strcmp(field->arrow->format, "+l") == 0 || strcmp(field->arrow->format, "+L") == 0;
    *out = (lk_field_source){.field = field->arrow,
        .kind = lk_is_blob(field->arrow)     ? LK_COLUMN_BLOB
                : lk_is_packed(field->arrow) ? LK_COLUMN_PACKED
                                             : LK_COLUMN_PLAIN,
        .is_dictionary = field->arrow->dictionary != NULL,
        .file = field->leaf || list ? file : NULL,
        .column = (*column)++};
    if (field->leaf) {
        return;
    }
    size_t count = (size_t)field->arrow->n_children, child = index + 1;
    out->children = lk_arena_take(&self->arena, count * sizeof *out->children);
    for (; out->child_count < count; child = fields[child].end) {
        fill_source(self, child, file, column, &out->children[out->child_count++]);
    }
}

/* Decodes ranges of every column; the first error is returned, the others are decoded all the same. */
static lk_rc read_memory(golden *self, const lk_row_range *ranges, size_t count, lk_budget *budget,
    struct ArrowArray *out, lk_err *err)
{
    const lk_lance_schema *schema = self->dataset->manifest->schema;
    lk_file_reader        *file = NULL;
    size_t                 column = 0;
    *out = (struct ArrowArray){0};
    lk_rc rc = lk_file_reader_open(&self->memory.base, LK_LITERAL("file"), 0, budget, &file, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_buffer_pool *pool = lk_buffer_pool_new(budget);
    lk_column_node(out, 0, 0, &(lk_buffer){0}, 1, (size_t)schema->arrow.n_children);
    for (int64_t top = 0; top < schema->arrow.n_children; top++) {
        lk_field_source source;
        lk_err          mine = {0};
        fill_source(self, schema->top[top], file, &column, &source);
        lk_rc one = lk_file_decode(&source, ranges, count, pool, out->children[top], &mine);
        *err = rc == LK_OK ? mine : *err;
        rc = rc == LK_OK ? one : rc;
    }
    for (size_t range = 0; range < count; range++) {
        out->length += (int64_t)ranges[range].count;
    }
    if (rc != LK_OK) {
        lk_array_release(out);
    }
    lk_buffer_pool_close(pool);
    lk_file_reader_unref(file);
    return rc;
}

/* The rows of ranges, as they should be. */
static void expect_rows(
    golden *self, const lk_row_range *ranges, size_t count, const struct ArrowArray *actual)
{
    struct ArrowArrayView a, b;
    open_view(&self->schema, &self->expected, &a);
    open_view(&self->dataset->manifest->schema->arrow, actual, &b);
    int64_t at = 0;
    for (size_t range = 0; range < count; range++) {
        for (uint64_t row = 0; row < ranges[range].count; row++, at++) {
            for (int64_t column = 0; column < b.n_children; column++) {
                same_value(a.children[column], b.children[column], (int64_t)(ranges[range].start + row), at);
            }
        }
    }
    assert_int_equal(at, actual->length);
    ArrowArrayViewReset(&a);
    ArrowArrayViewReset(&b);
}

static void must_read(golden *self, const lk_row_range *ranges, size_t count, struct ArrowArray *out)
{
    lk_err err = {0};
    if (read_memory(self, ranges, count, NULL, out, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
}

/* -- tests ----------------------------------------------------------------------------------------- */
static void any_ranges_give_exactly_their_rows(void **state)
{
    (void)state;
    golden       self;
    lk_row_range ranges[ROWS];
    uint64_t     random = 88172645463325252U;
    open_golden(&self);
    for (unsigned round = 0; round < 40; round++) {
        struct ArrowArray actual;
        size_t            count = 0;
        for (uint64_t row = round % 3; row < ROWS;) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            uint64_t size = round == 0 ? ROWS : 1 + random % (1U << (round % 7)), gap = 1 + random % 5;
            size = row + size > ROWS ? ROWS - row : size;
            ranges[count++] = (lk_row_range){row, size};
            row += size + gap;
        }
        must_read(&self, ranges, count, &actual);
        expect_rows(&self, ranges, count, &actual);
        lk_array_release(&actual);
    }
    close_golden(&self);
}

static void no_rows_of_every_type_are_no_rows(void **state)
{
    (void)state;
    golden            self;
    struct ArrowArray actual;
    open_golden(&self);
    must_read(&self, NULL, 0, &actual);
    expect_rows(&self, NULL, 0, &actual);
    lk_array_release(&actual);
    close_golden(&self);
}

/* Values are not checksummed, so rows may differ; their shape may not. */
static void read_damaged(
    golden *self, size_t at, uint8_t flip, const lk_row_range *ranges, size_t range_count)
{
    struct ArrowArray actual = {0};
    lk_err            err = {0};
    lk_budget         budget;
    lk_buf           *object = &self->memory.object;
    lk_budget_init(&budget, "damaged", 256 << 20, NULL);
    object->data[at] = (char)(object->data[at] ^ flip);
    lk_rc rc = read_memory(self, ranges, range_count, &budget, &actual, &err);
    if (rc == LK_OK) {
        struct ArrowArrayView view;
        open_view(&self->dataset->manifest->schema->arrow, &actual, &view);
        ArrowArrayViewReset(&view);
        lk_array_release(&actual);
    } else {
        assert_true(rc == LK_E_CORRUPT_FILE || rc == LK_E_UNSUPPORTED_FORMAT || rc == LK_E_LIMIT);
        assert_true(err.len > 0);
    }
    object->data[at] = (char)(object->data[at] ^ flip);
    assert_int_equal(budget.used_bytes, 0);
}

static void no_changed_byte_does_harm(void **state)
{
    (void)state;
    golden       self;
    lk_row_range all = {0, ROWS}, apart[ROWS / 3];
    for (size_t i = 0; i < ROWS / 3; i++) {
        apart[i] = (lk_row_range){3 * i, 1 + i % 2};
    }
    open_golden(&self);
    size_t size = self.memory.object.size, step = 0;
    for (size_t at = 0; at < size; at += step) {
        uint8_t flip = at % 3 == 0 ? 0xff : at % 3 == 1 ? 0x01 : 0x40;
        read_damaged(&self, at, flip, &all, 1);
        read_damaged(&self, at, flip, apart, ROWS / 3);
        step = size - at > 12000 ? 61 : 5; /* the tables at the end say where everything lies */
    }
    close_golden(&self);
}

static void what_we_write_again_reads_the_same(void **state)
{
    (void)state;
    golden             self;
    const lk_row_range all = {0, ROWS}, parts[] = {{0, 70}, {70, 60}};
    struct ArrowArray  actual, half;
    lk_file_writer    *file = NULL;
    lk_file_written    written;
    fixture_memory     again;
    lk_err             err = {0};
    open_golden(&self);
    fixture_memory_init(&again);
    const lk_lance_schema *schema = self.dataset->manifest->schema;
    lk_rc rc = lk_file_writer_open(&again.base, LK_LITERAL("file"), schema, 0, NULL, &file, &err);
    for (size_t part = 0; part < 2 && rc == LK_OK; part++) {
        must_read(&self, &parts[part], 1, &half);
        rc = lk_file_writer_write(file, &half, &err);
        lk_array_release(&half);
    }
    if (rc != LK_OK || lk_file_writer_finish(file, &self.arena, &written, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    assert_int_equal(written.rows, ROWS);
    const lk_data_file *theirs = &self.dataset->manifest->fragments[0].files[0];
    assert_int_equal(written.column_count, theirs->field_count);
    for (size_t column = 0; column < written.column_count; column++) {
        assert_int_equal(written.columns[column].field_id, theirs->fields[column]);
        assert_int_equal(written.columns[column].column_index, theirs->columns[column]);
    }
    fixture_memory_deinit(&self.memory);
    self.memory = again;
    must_read(&self, &all, 1, &actual);
    expect_rows(&self, &all, 1, &actual);
    lk_array_release(&actual);
    close_golden(&self);
}

static void a_budget_that_is_too_small_refuses_and_is_given_back(void **state)
{
    (void)state;
    golden             self;
    const lk_row_range all = {0, ROWS};
    lk_budget          budget;
    open_golden(&self);
    for (size_t limit = 0; limit < 400000; limit += 7001) {
        struct ArrowArray actual;
        lk_err            err = {0};
        lk_budget_init(&budget, "test", limit, NULL);
        lk_rc rc = read_memory(&self, &all, 1, &budget, &actual, &err);
        assert_true(rc == LK_E_LIMIT || (rc == LK_OK && limit > 0));
        if (rc == LK_OK) {
            lk_array_release(&actual);
        }
        assert_int_equal(budget.used_bytes, 0);
    }
    close_golden(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ranges_give_exactly_their_rows),
        cmocka_unit_test(no_rows_of_every_type_are_no_rows),
        cmocka_unit_test(no_changed_byte_does_harm),
        cmocka_unit_test(what_we_write_again_reads_the_same),
        cmocka_unit_test(a_budget_that_is_too_small_refuses_and_is_given_back),
    };
    return cmocka_run_group_tests_name("lance/v20", tests, NULL, NULL);
}
