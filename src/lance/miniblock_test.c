/*
 * miniblock_test.c - how much of a mini-block page is read for rows of it: by themselves where hardly one lies in a
 * chunk, else by chunks, each once. (What the rows are is tests/interop's and file_read_test.c's subject.)
 */
#include "lance/file_fixture.h"

#include "arrow/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 400000, WIDTH = 8 };

typedef struct table {
    fixture_memory     store;
    struct ArrowSchema schema;
    lk_file_reader    *file;
    lk_field_source    source;
    lk_buffer_pool    *pool;
    double            *values;
} table;

/* Numbers that no encoding makes smaller. */
static void write_rows(table *self)
{
    lk_lance_schema  *lance = NULL;
    lk_file_writer   *writer = NULL;
    lk_file_written   written;
    lk_arena          arena = {0};
    lk_err            err = {0};
    uint64_t          random = 88172645463325252U;
    const void       *buffers[] = {NULL, NULL};
    struct ArrowArray column = {.length = ROWS, .n_buffers = 2, .buffers = buffers}, *children[] = {&column};
    struct ArrowArray batch = {
        .length = ROWS, .n_buffers = 1, .buffers = buffers, .n_children = 1, .children = children};
    self->values = malloc(ROWS * sizeof *self->values);
    assert_non_null(self->values);
    for (size_t row = 0; row < ROWS; row++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        memcpy(&self->values[row], &random, sizeof random);
    }
    lk_schema_start(&self->schema, 1);
    assert_int_equal(lk_column_parse(LK_LITERAL("v:float64"), self->schema.children[0], &err), LK_OK);
    assert_int_equal(lk_lance_schema_from_arrow(&self->schema, &lance, &err), LK_OK);
    assert_int_equal(
        lk_file_writer_open(&self->store.base, LK_LITERAL("file"), lance, 1, NULL, &writer, &err), LK_OK);
    const void *filled[] = {NULL, self->values};
    column.buffers = filled;
    assert_int_equal(lk_file_writer_write(writer, &batch, &err), LK_OK);
    assert_int_equal(lk_file_writer_finish(writer, &arena, &written, &err), LK_OK);
    lk_arena_close(&arena);
    lk_lance_schema_close(lance);
}

/* Decodes one row in `step` of [first, end) and counts what is read, but for tables. */
static size_t read_rows(table *self, uint64_t first, uint64_t end, uint64_t step)
{
    size_t        count = 0;
    lk_row_range *ranges = calloc((size_t)((end - first) / step + 1), sizeof *ranges);
    assert_non_null(ranges);
    for (uint64_t row = first; row < end; row += step) {
        ranges[count++] = (lk_row_range){row, 1};
    }
    for (int again = 0; again < 2; again++) { /* the first time reads tables, too */
        struct ArrowArray out = {0};
        lk_err            err = {0};
        self->store.reads = self->store.calls = self->store.read_bytes = 0;
        assert_int_equal(lk_file_decode(&self->source, ranges, count, self->pool, &out, &err), LK_OK);
        for (size_t i = 0; i < count; i++) {
            assert_memory_equal((const double *)out.buffers[1] + i, self->values + ranges[i].start, WIDTH);
        }
        lk_array_release(&out);
    }
    free(ranges);
    return count;
}

static void open_table(table *self)
{
    lk_err err = {0};
    fixture_memory_init(&self->store);
    write_rows(self);
    self->pool = lk_buffer_pool_new(NULL);
    assert_int_equal(
        lk_file_reader_open(&self->store.base, LK_LITERAL("file"), 0, NULL, &self->file, &err), LK_OK);
    self->source = (lk_field_source){.field = self->schema.children[0], .file = self->file};
}

static void close_table(table *self)
{
    lk_file_reader_unref(self->file);
    lk_buffer_pool_close(self->pool);
    lk_schema_release(&self->schema);
    fixture_memory_deinit(&self->store);
    free(self->values);
}

static void rows_far_apart_are_read_by_themselves(void **state)
{
    (void)state;
    table self = {0};
    open_table(&self);
    for (uint64_t step = 1000; step <= 100000; step *= 10) {
        size_t count = read_rows(&self, 17, ROWS, step);
        assert_int_equal(self.store.reads, count);
        assert_int_equal(self.store.read_bytes, count * WIDTH);
    }
    (void)read_rows(&self, 77, 80, 1); /* a few, wherever they lie */
    assert_int_equal(self.store.read_bytes, 3 * WIDTH);
    close_table(&self);
}

static void rows_close_together_are_read_by_chunks(void **state)
{
    (void)state;
    table self = {0};
    open_table(&self);
    size_t count = read_rows(&self, 0, ROWS, 100);
    assert_true(self.store.reads < count / 4); /* every chunk once */
    assert_true(self.store.read_bytes <= self.store.object.size);
    count = read_rows(&self, 200000, 205000, 20); /* few of the page's rows: a morsel of many */
    assert_true(count < ROWS / 512 && self.store.reads < count / 4);
    assert_true(self.store.read_bytes < 5000 * WIDTH * 2);
    close_table(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_far_apart_are_read_by_themselves),
        cmocka_unit_test(rows_close_together_are_read_by_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
