/* output_test.c - rows on a file in every format; CSV as RFC 4180 has it, JSON as RFC 8259. */
#include "cli/output.h"

#include "arrow/schema.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static struct ArrowArray new_batch(const struct ArrowSchema *schema)
{
    struct ArrowArray batch = {0};
    assert_int_equal(ArrowArrayInitFromSchema(&batch, schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&batch), NANOARROW_OK);
    return batch;
}

static void finish_batch(struct ArrowArray *batch)
{
    assert_int_equal(ArrowArrayFinishBuildingDefault(batch, NULL), NANOARROW_OK);
}

static void two_columns(const char *first, const char *second, struct ArrowSchema *out)
{
    struct ArrowSchema fields[2] = {0};
    lk_err             err = {0};
    assert_int_equal(lk_type_parse(LK_LITERAL("int64?"), lk_bytes_of(first), &fields[0], &err), LK_OK);
    assert_int_equal(lk_type_parse(LK_LITERAL("utf8?"), lk_bytes_of(second), &fields[1], &err), LK_OK);
    lk_schema_of_columns(fields, 2, out);
}

/* A row; text NULL: both are null. */
static void add_row(struct ArrowArray *batch, int64_t number, const char *text)
{
    if (text == NULL) {
        assert_int_equal(ArrowArrayAppendNull(batch->children[0], 1), NANOARROW_OK);
        assert_int_equal(ArrowArrayAppendNull(batch->children[1], 1), NANOARROW_OK);
    } else {
        assert_int_equal(ArrowArrayAppendInt(batch->children[0], number), NANOARROW_OK);
        assert_int_equal(ArrowArrayAppendString(batch->children[1], ArrowCharView(text)), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishElement(batch), NANOARROW_OK);
}

/* Three rows in two batches: an ordinary one, nulls, one that needs quotes. */
static lk_batches *sample(const char *first, const char *second)
{
    struct ArrowSchema schema = {0};
    two_columns(first, second, &schema);
    struct ArrowArray batches[2] = {new_batch(&schema), new_batch(&schema)};
    add_row(&batches[0], 1, "a");
    add_row(&batches[0], 0, NULL);
    add_row(&batches[1], -22, "say \"hi\", ok\n");
    finish_batch(&batches[0]);
    finish_batch(&batches[1]);
    return lk_batches_of(&schema, batches, 2);
}

static lk_batches *no_rows(void)
{
    struct ArrowSchema schema = {0};
    two_columns("n", "s", &schema);
    return lk_batches_of(&schema, NULL, 0);
}

/* What was written; the caller frees. */
static char *written(lk_batches *batches, lk_output_format format, uint64_t rows_expected)
{
    char    *text = NULL;
    size_t   size = 0;
    uint64_t rows = 0;
    lk_err   err = {0};
    FILE    *file = open_memstream(&text, &size);
    assert_int_equal(lk_output_write(batches, format, file, &rows, &err), LK_OK);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rows, rows_expected);
    lk_batches_close(batches);
    return text;
}

static void expect(lk_batches *batches, lk_output_format format, uint64_t rows, const char *expected)
{
    char *text = written(batches, format, rows);
    assert_string_equal(text, expected);
    free(text);
}

static void json_is_one_array_of_objects(void **state)
{
    (void)state;
    expect(sample("n", "s\""), LK_OUTPUT_JSON, 3,
        "[\n{\"n\":1,\"s\\\"\":\"a\"},\n{\"n\":null,\"s\\\"\":null},\n"
        "{\"n\":-22,\"s\\\"\":\"say \\\"hi\\\", ok\\n\"}\n]\n");
    expect(no_rows(), LK_OUTPUT_JSON, 0, "[\n]\n");
}

static void ndjson_is_an_object_a_line(void **state)
{
    (void)state;
    expect(sample("n", "s"), LK_OUTPUT_NDJSON, 3,
        "{\"n\":1,\"s\":\"a\"}\n{\"n\":null,\"s\":null}\n{\"n\":-22,\"s\":\"say \\\"hi\\\", ok\\n\"}\n");
    expect(no_rows(), LK_OUTPUT_NDJSON, 0, "");
}

static void csv_quotes_what_needs_it_and_null_is_nothing(void **state)
{
    (void)state;
    expect(sample("n", "a,b"), LK_OUTPUT_CSV, 3, "n,\"a,b\"\r\n1,a\r\n,\r\n-22,\"say \"\"hi\"\", ok\n\"\r\n");
    expect(no_rows(), LK_OUTPUT_CSV, 0, "n,s\r\n");
}

static void an_empty_text_is_not_null_in_csv(void **state)
{
    (void)state;
    struct ArrowSchema schema = {0};
    two_columns("n", "s", &schema);
    struct ArrowArray batch = new_batch(&schema);
    add_row(&batch, 1, "");
    finish_batch(&batch);
    expect(lk_batches_of(&schema, &batch, 1), LK_OUTPUT_CSV, 1, "n,s\r\n1,\"\"\r\n");
}

static void a_table_aligns_numbers_right_and_keeps_lines_whole(void **state)
{
    (void)state;
    expect(sample("n", "text"), LK_OUTPUT_TABLE, 3,
        "    n | text\n------+---------------\n    1 | a\n NULL | NULL\n  -22 | say \"hi\", ok \n");
    expect(no_rows(), LK_OUTPUT_TABLE, 0, " n | s\n---+---\n");
}

static void a_table_counts_characters_and_shows_no_control(void **state)
{
    (void)state;
    struct ArrowSchema schema = {0};
    two_columns("n\x1b", "s\xc2\x9b\x7f", &schema);
    struct ArrowArray batch = new_batch(&schema);
    add_row(&batch, 1, "gr\xc3\xbcn");
    add_row(&batch, 2, "\x1b[31mred");
    add_row(&batch, 3,
        "\xc2\x9b"
        "31m");
    finish_batch(&batch);
    expect(lk_batches_of(&schema, &batch, 1), LK_OUTPUT_TABLE, 3,
        " n  | s   \n----+----------\n  1 | gr\xc3\xbcn\n  2 |  [31mred\n  3 |   31m\n");
}

static void a_long_cell_is_cut_between_characters(void **state)
{
    (void)state;
    enum { KEPT = LK_OUTPUT_CELL_MAX - 3 };
    char text[400] = "x";
    for (size_t i = 1; i < 300; i += 2) { /* an odd start, so that the cut falls inside a character */
        memcpy(text + i, "\xc3\xbc", 3);
    }
    struct ArrowSchema schema = {0};
    two_columns("n", "s", &schema);
    struct ArrowArray batch = new_batch(&schema);
    add_row(&batch, 1, text);
    finish_batch(&batch);
    char       *shown = written(lk_batches_of(&schema, &batch, 1), LK_OUTPUT_TABLE, 1);
    const char *cell = strstr(shown, "1 | ") + 4;
    assert_int_equal(strlen(cell), KEPT + 3 + 1);
    assert_string_equal(cell + KEPT, "...\n");
    assert_memory_equal(cell, text, KEPT);
    free(shown);
}

static void rows_after_the_measured_ones_are_shown_too(void **state)
{
    (void)state;
    struct ArrowSchema schema = {0};
    two_columns("n", "s", &schema);
    struct ArrowArray batch = new_batch(&schema);
    for (int64_t i = 0; i < LK_OUTPUT_MEASURED_ROWS + 2; i++) {
        add_row(&batch, i, i < LK_OUTPUT_MEASURED_ROWS ? "x" : "wider than measured");
    }
    finish_batch(&batch);
    char *text = written(lk_batches_of(&schema, &batch, 1), LK_OUTPUT_TABLE, LK_OUTPUT_MEASURED_ROWS + 2);
    assert_non_null(strstr(text, "\n 999 | x\n 1000 | wider than measured\n 1001 | wider than measured\n"));
    free(text);
}

static void a_plan_is_shown_as_it_is_drawn(void **state)
{
    (void)state;
    struct ArrowSchema schema = {0}, fields[2] = {0};
    lk_err             err = {0};
    assert_int_equal(lk_type_parse(LK_LITERAL("utf8"), LK_LITERAL("explain_key"), &fields[0], &err), LK_OK);
    assert_int_equal(lk_type_parse(LK_LITERAL("utf8"), LK_LITERAL("explain_value"), &fields[1], &err), LK_OK);
    lk_schema_of_columns(fields, 2, &schema);
    struct ArrowArray batch = new_batch(&schema);
    assert_int_equal(ArrowArrayAppendString(batch.children[0], ArrowCharView("physical_plan")), NANOARROW_OK);
    assert_int_equal(
        ArrowArrayAppendString(batch.children[1], ArrowCharView("line 1\n  line 2\n")), NANOARROW_OK);
    assert_int_equal(ArrowArrayFinishElement(&batch), NANOARROW_OK);
    finish_batch(&batch);
    expect(lk_batches_of(&schema, &batch, 1), LK_OUTPUT_TABLE, 1, "line 1\n  line 2\n\n");
}

static void formats_have_names_and_others_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"table", "json", "ndjson", "csv", "arrow"};
    lk_output_format         format = LK_OUTPUT_ARROW;
    lk_err                   err = {0};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(lk_output_format_parse(names[i], &format, &err), LK_OK);
        assert_int_equal(format, i);
    }
    assert_int_equal(lk_output_format_parse(NULL, &format, &err), LK_OK);
    assert_int_equal(format, LK_OUTPUT_TABLE);
    assert_int_equal(lk_output_format_parse("xml", &format, &err), LK_E_USAGE);
    assert_non_null(strstr(err.detail, "'xml'"));
}

static lk_rc write_to(FILE *file, lk_output_format format)
{
    uint64_t    rows = 0;
    lk_err      err = {0};
    lk_batches *batches = sample("n", "s");
    lk_rc       rc = lk_output_write(batches, format, file, &rows, &err);
    lk_batches_close(batches);
    return rc;
}

static void a_full_disk_is_an_error_and_a_closed_pipe_is_not(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    for (lk_output_format format = LK_OUTPUT_TABLE; format <= LK_OUTPUT_ARROW_FILE; format++) {
        FILE *full = fopen("/dev/full", "w");
        assert_non_null(full);
        assert_int_equal(write_to(full, format), LK_E_STORE_FULL);
        (void)fclose(full);

        int ends[2];
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(close(ends[0]), 0);
        FILE *closed = fdopen(ends[1], "w");
        assert_non_null(closed);
        assert_int_equal(write_to(closed, format), LK_OK);
        (void)fclose(closed);
    }
}

static lk_rc fail_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    (void)batches;
    *out = (struct ArrowArray){0};
    return lk_fail(err, LK_E_CANCELLED, "stopped");
}

static void a_stream_that_fails_is_the_failure(void **state)
{
    (void)state;
    for (lk_output_format format = LK_OUTPUT_TABLE; format <= LK_OUTPUT_ARROW_FILE; format++) {
        char       *text = NULL;
        size_t      size = 0;
        uint64_t    rows = 0;
        lk_err      err = {0};
        FILE       *file = open_memstream(&text, &size);
        lk_batches *batches = sample("n", "s");
        batches->next = fail_next;
        assert_int_equal(lk_output_write(batches, format, file, &rows, &err), LK_E_CANCELLED);
        lk_batches_close(batches);
        (void)fclose(file);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_one_array_of_objects),
        cmocka_unit_test(ndjson_is_an_object_a_line),
        cmocka_unit_test(csv_quotes_what_needs_it_and_null_is_nothing),
        cmocka_unit_test(an_empty_text_is_not_null_in_csv),
        cmocka_unit_test(a_table_aligns_numbers_right_and_keeps_lines_whole),
        cmocka_unit_test(a_table_counts_characters_and_shows_no_control),
        cmocka_unit_test(a_long_cell_is_cut_between_characters),
        cmocka_unit_test(rows_after_the_measured_ones_are_shown_too),
        cmocka_unit_test(a_plan_is_shown_as_it_is_drawn),
        cmocka_unit_test(formats_have_names_and_others_are_refused),
        cmocka_unit_test(a_full_disk_is_an_error_and_a_closed_pipe_is_not),
        cmocka_unit_test(a_stream_that_fails_is_the_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
